"""Simulated ratings, and raters and rounds whose ratings do not count.

Ratings of raters named `simulated-N` become simulated ones. Validations are cleared, since some rested on such ratings
and judges were told apart by kind and model alone; they are computed again when a project's results are next looked at.
"""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

SIMULATED = re.compile("simulated-[0-9]+")
RATINGS = sa.table("human_ratings", sa.column("rater", sa.Text()), sa.column("simulated", sa.Boolean()))


def upgrade() -> None:
    """Adds the column and the table, and marks what the demo stored: some seconds for a million ratings."""
    op.add_column("human_ratings", sa.Column("simulated", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_table(
        "rating_exclusions",
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("rater", sa.Text(), nullable=True),
        sa.Column("round_id", sa.String(64), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("project", "key", name="pk_rating_exclusions"),
        sa.ForeignKeyConstraint(
            ["round_id"], ["rating_rounds.id"], name="fk_rating_exclusions_round_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_rating_exclusions_round_id", "rating_exclusions", ["round_id"])
    connection = op.get_bind()
    rater = RATINGS.c.rater
    named = connection.execute(sa.select(rater).where(rater.like("simulated-%")).distinct()).scalars()
    for name in [name for name in named if SIMULATED.fullmatch(name)]:
        connection.execute(sa.update(RATINGS).where(rater == name).values(simulated=True))
    op.execute("DELETE FROM validations")


def downgrade() -> None:
    """Removes both; simulated ratings are ratings like others then. Validations are computed again."""
    op.execute("DELETE FROM validations")
    op.drop_table("rating_exclusions")
    op.drop_column("human_ratings", "simulated")
