"""Batches: their items, chunks, signatures and metadata, and results among the evaluations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

RESULT_COLUMNS = ("position", "item", "candidate", "scores", "failure", "calls")


def upgrade() -> None:
    """Creates the batches' tables and widens `evaluations`."""
    _create_batches()
    _create_parts()
    _create_debts()
    with op.batch_alter_table("evaluations") as table:
        table.add_column(sa.Column("batch_id", sa.String(64), nullable=True))
        for name in RESULT_COLUMNS:
            kind = sa.Integer() if name in {"position", "candidate"} else sa.Text()
            table.add_column(sa.Column(name, kind, nullable=True))
        table.create_foreign_key("fk_evaluations_batch_id", "batches", ["batch_id"], ["id"], ondelete="CASCADE")
    op.create_index("ix_evaluations_batch_id_position", "evaluations", ["batch_id", "position"], unique=True)


def _create_batches() -> None:
    op.create_table(
        "batches",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("resumed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_before", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("pause_reason", sa.String(64), nullable=True),
        sa.Column("pause_detail", sa.Text(), nullable=True),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("rubric", sa.String(64), nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("budget_usd", sa.Float(precision=53), nullable=True),
        sa.Column("unit_cost_usd", sa.Float(precision=53), nullable=True),
        sa.Column("dearest_usd", sa.Float(precision=53), nullable=False),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in ("total", "scored", "partial", "failed")),
        sa.Column("judge_calls", sa.BigInteger(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.Column("translated_characters", sa.BigInteger(), nullable=False),
        sa.Column("cost_usd", sa.Float(precision=53), nullable=True),
        sa.Column("chunks_left", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_batches"),
    )
    op.create_index("ix_batches_project_created_at_id", "batches", ["project", "created_at", "id"])
    op.create_index("ix_batches_status", "batches", ["status"])


def _create_debts() -> None:
    op.create_table(
        "erased_calls",
        sa.Column("key", sa.String(128), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_erased_calls"),
    )


def _create_parts() -> None:
    _create_part(
        "batch_metadata",
        "number",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
    )
    _create_part(
        "batch_chunks",
        "number",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first", sa.Integer(), nullable=False),
        sa.Column("last", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("owner", sa.String(128), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("crashes", sa.Integer(), nullable=False),
        sa.Column("reserved_usd", sa.Float(precision=53), nullable=False),
    )
    op.create_index("ix_batch_chunks_batch_id_state_number", "batch_chunks", ["batch_id", "state", "number"])
    _create_part(
        "batch_items",
        "position",
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("candidate", sa.Integer(), nullable=True),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
    )
    _create_part(
        "batch_signatures",
        "digest",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
    )


def _create_part(name: str, key: str, *columns: sa.Column[object]) -> None:
    """A table of things that belong to a batch and go with it."""
    op.create_table(
        name,
        sa.Column("batch_id", sa.String(64), nullable=False),
        *columns,
        sa.PrimaryKeyConstraint("batch_id", key, name=f"pk_{name}"),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name=f"fk_{name}_batch_id", ondelete="CASCADE"),
    )


def downgrade() -> None:
    """Removes the batches with their results, which could not be read without them."""
    op.execute("DELETE FROM evaluations WHERE batch_id IS NOT NULL")
    op.drop_index("ix_evaluations_batch_id_position", "evaluations")
    with op.batch_alter_table("evaluations") as table:
        table.drop_constraint("fk_evaluations_batch_id", type_="foreignkey")
        for name in ("batch_id", *RESULT_COLUMNS):
            table.drop_column(name)
    for name in ("batch_signatures", "batch_items", "batch_chunks", "batch_metadata", "batches", "erased_calls"):
        op.drop_table(name)
