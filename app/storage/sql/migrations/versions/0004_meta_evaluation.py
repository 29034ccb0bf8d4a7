"""Human ratings, what they say of a judge, and a judge's ratings of the anchors."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the tables."""
    op.create_table(
        "human_ratings",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("batch_id", sa.String(64), nullable=True),
        sa.Column("item", sa.Text(), nullable=True),
        sa.Column("evaluation", sa.String(64), nullable=True),
        sa.Column("candidate", sa.Integer(), nullable=True),
        sa.Column("system", sa.Text(), nullable=True),
        sa.Column("rater", sa.Text(), nullable=False),
        sa.Column("ratings", sa.Text(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_human_ratings"),
        sa.UniqueConstraint("key", name="uq_human_ratings_key"),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name="fk_human_ratings_batch_id", ondelete="CASCADE"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_human_ratings_project_number", "human_ratings", ["project", "number"])
    op.create_index("ix_human_ratings_batch_id_project_number", "human_ratings", ["batch_id", "project", "number"])
    op.create_table(
        "validations",
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("judge", sa.Text(), nullable=False),
        sa.Column("validation", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("project", "key", name="pk_validations"),
    )
    op.create_table(
        "anchor_ratings",
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("ratings", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("project", "key", name="pk_anchor_ratings"),
    )


def downgrade() -> None:
    """Removes the tables with what people said."""
    for name in ("anchor_ratings", "validations", "human_ratings"):
        op.drop_table(name)
