"""Batches in the provider's own batch mode: their parts, replies, and what is still to be removed there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the tables."""
    op.create_table(
        "provider_runs",
        sa.Column("batch_id", sa.String(64), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("owner", sa.String(128), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_step_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("batch_id", name="pk_provider_runs"),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name="fk_provider_runs_batch_id", ondelete="CASCADE"),
    )
    _create_parts()
    op.create_table(
        "provider_replies",
        sa.Column("batch_id", sa.String(64), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("part", sa.Integer(), nullable=True),
        sa.Column("reply", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("batch_id", "key", name="pk_provider_replies"),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name="fk_provider_replies_batch_id", ondelete="CASCADE"),
    )
    op.create_table(
        "provider_calls",
        sa.Column("batch_id", sa.String(64), nullable=False),
        sa.Column("key", sa.String(128), nullable=False),
        sa.Column("characters", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("batch_id", "key", name="pk_provider_calls"),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name="fk_provider_calls_batch_id", ondelete="CASCADE"),
    )
    op.create_table(
        "provider_leftovers",
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("target", sa.String(255), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("tried_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("kind", "target", name="pk_provider_leftovers"),
    )
    op.create_index("ix_provider_leftovers_tried_at", "provider_leftovers", ["tried_at"])


def _create_parts() -> None:
    op.create_table(
        "provider_parts",
        sa.Column("batch_id", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in ("after", "last", "round", "requests")),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("cost_usd", sa.Float(precision=53), nullable=True),
        sa.Column("conceded", sa.Text(), nullable=False),
        sa.Column("parameters", sa.Text(), nullable=False),
        sa.Column("alone", sa.Boolean(), nullable=False),
        sa.Column("file_id", sa.String(255), nullable=True),
        sa.Column("provider_batch_id", sa.String(255), nullable=True),
        sa.Column("output_file_id", sa.String(255), nullable=True),
        sa.Column("error_file_id", sa.String(255), nullable=True),
        sa.PrimaryKeyConstraint("batch_id", "number", name="pk_provider_parts"),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["provider_runs.batch_id"], name="fk_provider_parts_batch_id", ondelete="CASCADE"
        ),
    )


def downgrade() -> None:
    """Removes the tables, and with them the knowledge of what stands at the provider."""
    op.drop_index("ix_provider_leftovers_tried_at", "provider_leftovers")
    for name in ("provider_leftovers", "provider_calls", "provider_replies", "provider_parts", "provider_runs"):
        op.drop_table(name)
