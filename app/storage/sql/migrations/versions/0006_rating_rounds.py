"""Rating rounds: which responses people are asked for, and who was given which."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the tables."""
    op.create_table(
        "rating_rounds",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("batch_id", sa.String(64), nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("drawn", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_rating_rounds"),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name="fk_rating_rounds_batch_id", ondelete="CASCADE"),
    )
    op.create_index("ix_rating_rounds_project_created_at_id", "rating_rounds", ["project", "created_at", "id"])
    op.create_index("ix_rating_rounds_batch_id", "rating_rounds", ["batch_id"])
    op.create_table(
        "round_items",
        sa.Column("round_id", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("round_id", "number", name="pk_round_items"),
        sa.ForeignKeyConstraint(["round_id"], ["rating_rounds.id"], name="fk_round_items_round_id", ondelete="CASCADE"),
    )
    op.create_table(
        "round_tasks",
        sa.Column("round_id", sa.String(64), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rater", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("taken_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("done_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("round_id", "key", "number", name="pk_round_tasks"),
        sa.UniqueConstraint("round_id", "position", "key", name="uq_round_tasks_round_id_position_key"),
        sa.ForeignKeyConstraint(["round_id"], ["rating_rounds.id"], name="fk_round_tasks_round_id", ondelete="CASCADE"),
    )


def downgrade() -> None:
    """Removes the tables; ratings that came in through a round stay."""
    for name in ("round_tasks", "round_items", "rating_rounds"):
        op.drop_table(name)
