"""The turns of a conversation that a rater marked."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the column: their numbers as JSON, null where no rater was asked."""
    op.add_column("human_ratings", sa.Column("faulty_turns", sa.Text(), nullable=True))


def downgrade() -> None:
    """Removes it."""
    op.drop_column("human_ratings", "faulty_turns")
