"""Verdicts of gates that are kept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the table."""
    op.create_table(
        "gates",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("candidate", sa.String(64), nullable=True),
        sa.Column("baseline", sa.String(64), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("report", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_gates"),
        sa.ForeignKeyConstraint(["candidate"], ["batches.id"], name="fk_gates_candidate", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["baseline"], ["batches.id"], name="fk_gates_baseline", ondelete="CASCADE"),
    )
    op.create_index("ix_gates_project_at_id", "gates", ["project", "at", "id"])
    op.create_index("ix_gates_candidate", "gates", ["candidate"])
    op.create_index("ix_gates_baseline", "gates", ["baseline"])


def downgrade() -> None:
    """Removes it."""
    op.drop_table("gates")
