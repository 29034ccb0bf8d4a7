"""Pinned baselines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the table."""
    op.create_table(
        "baselines",
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("batch_id", sa.String(64), nullable=False),
        sa.Column("pinned_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("project", "key", name="pk_baselines"),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name="fk_baselines_batch_id", ondelete="CASCADE"),
    )
    op.create_index("ix_baselines_batch_id", "baselines", ["batch_id"])


def downgrade() -> None:
    """Removes it."""
    op.drop_table("baselines")
