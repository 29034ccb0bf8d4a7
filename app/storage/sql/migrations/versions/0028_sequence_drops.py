"""What a sequence of builds found and is not mended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the column. Builds judged before have none: what they found is found again, or not."""
    op.add_column("sequence_builds", sa.Column("drops", sa.Text(), nullable=True))


def downgrade() -> None:
    """Removes it."""
    op.drop_column("sequence_builds", "drops")
