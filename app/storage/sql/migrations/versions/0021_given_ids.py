"""Whether the items of a batch have ids that the caller gave."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the column: of earlier batches it is not known."""
    op.add_column("batches", sa.Column("ids_given", sa.Boolean(), nullable=True))


def downgrade() -> None:
    """Removes it."""
    op.drop_column("batches", "ids_given")
