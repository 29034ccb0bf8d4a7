"""Links by which raters rate in one round, and what a rater marked or corrected."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the table and the columns; earlier ratings are neither marked nor corrected."""
    op.create_table(
        "rating_invitations",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("round_id", sa.String(64), nullable=False),
        sa.Column("rater", sa.Text(), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_rating_invitations"),
        sa.ForeignKeyConstraint(
            ["round_id"], ["rating_rounds.id"], name="fk_rating_invitations_round_id", ondelete="CASCADE"
        ),
        sa.UniqueConstraint("hash", name="uq_rating_invitations_hash"),
    )
    op.create_index("ix_rating_invitations_round_id", "rating_invitations", ["round_id"])
    op.add_column("human_ratings", sa.Column("starred", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("human_ratings", sa.Column("earlier", sa.Text(), nullable=True))


def downgrade() -> None:
    """Removes them."""
    op.drop_column("human_ratings", "earlier")
    op.drop_column("human_ratings", "starred")
    op.drop_table("rating_invitations")
