"""Sequences of builds that are judged against one baseline."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the tables."""
    op.create_table(
        "sequences",
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("batch_id", sa.String(64), nullable=False),
        sa.Column("alpha", sa.Float(precision=53), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("project", "key", name="pk_sequences"),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name="fk_sequences_batch_id", ondelete="CASCADE"),
    )
    op.create_index("ix_sequences_batch_id", "sequences", ["batch_id"])
    op.create_table(
        "sequence_builds",
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("night", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("batch_id", sa.String(64), nullable=True),
        sa.Column("judged_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("verdict", sa.String(16), nullable=False),
        sa.PrimaryKeyConstraint("project", "key", "night", name="pk_sequence_builds"),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name="fk_sequence_builds_batch_id", ondelete="SET NULL"),
        sa.ForeignKeyConstraint(
            ["project", "key"],
            ["sequences.project", "sequences.key"],
            name="fk_sequence_builds_project_key",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "ix_sequence_builds_project_key_batch_id", "sequence_builds", ["project", "key", "batch_id"], unique=True
    )
    op.create_index("ix_sequence_builds_batch_id", "sequence_builds", ["batch_id"])


def downgrade() -> None:
    """Removes them."""
    op.drop_table("sequence_builds")
    op.drop_table("sequences")
