"""Batches of pairs: `batches.unit`, and what was seen of each pair in `result_figures.looks`."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the columns, which are null in all that there is."""
    op.add_column("batches", sa.Column("unit", sa.String(8), nullable=True))
    op.add_column("result_figures", sa.Column("looks", sa.Text(), nullable=True))


def downgrade() -> None:
    """Removes batches of pairs, which an earlier release cannot read, and the columns."""
    op.execute("DELETE FROM batches WHERE unit IS NOT NULL")
    op.execute("DELETE FROM evaluations WHERE id LIKE 'pr\\_%' ESCAPE '\\'")
    op.drop_column("result_figures", "looks")
    op.drop_column("batches", "unit")
