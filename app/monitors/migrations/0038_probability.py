"""What a result counts for: `result_figures.probability`, with which a monitor sampled the conversation."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the column, which is null in all that there is."""
    op.add_column("result_figures", sa.Column("probability", sa.Float(precision=53), nullable=True))


def downgrade() -> None:
    """Removes it: the figures of windows are then those of the sample as it is."""
    op.drop_column("result_figures", "probability")
