"""The dialogue that a candidate is a turn of, where its caller names one, and the cluster of what is not independent.

Batches that are there have neither: their candidates count as independent of each other.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

COLUMNS = {
    "batch_items": ("cluster",),
    "evaluations": ("dialogue", "cluster"),
    "result_figures": ("cluster",),
    "batches": ("intervals",),
}


def upgrade() -> None:
    """Adds the columns; no row is rewritten."""
    for table, names in COLUMNS.items():
        for name in names:
            op.add_column(table, sa.Column(name, sa.String(16) if name == "cluster" else sa.Text(), nullable=True))


def downgrade() -> None:
    """Removes them."""
    for table, names in COLUMNS.items():
        for name in names:
            op.drop_column(table, name)
