"""Limits and spending of keys, projects' policies, and the audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the tables and columns. Every key and batch that is there goes on without limits."""
    op.add_column("api_keys", sa.Column("requests_per_minute", sa.Integer(), nullable=True))
    op.add_column("api_keys", sa.Column("usd_per_day", sa.Float(precision=53), nullable=True))
    op.add_column("batches", sa.Column("api_key", sa.String(64), nullable=True))
    op.add_column("batches", sa.Column("texts", sa.String(8), nullable=True))
    op.create_table(
        "key_spending",
        sa.Column("api_key", sa.String(64), nullable=False),
        sa.Column("day", sa.String(10), nullable=False),
        sa.Column("cost_usd", sa.Float(precision=53), nullable=False),
        sa.PrimaryKeyConstraint("api_key", "day", name="pk_key_spending"),
    )
    op.create_table(
        "project_policies",
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("integrity", sa.String(16), nullable=False),
        sa.Column("texts", sa.String(8), nullable=False),
        sa.Column("after_days", sa.Float(precision=53), nullable=False),
        sa.Column("salt", sa.String(64), nullable=False),
        sa.Column("redacted_to", sa.DateTime(timezone=True), nullable=True),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("project", name="pk_project_policies"),
    )
    op.create_table(
        "audit_events",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_audit_events"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_events_project_number", "audit_events", ["project", "number"])


def downgrade() -> None:
    """Removes them; batches that were redacted stay so."""
    for name in ("audit_events", "project_policies", "key_spending"):
        op.drop_table(name)
    for table, column in (
        ("batches", "texts"),
        ("batches", "api_key"),
        ("api_keys", "usd_per_day"),
        ("api_keys", "requests_per_minute"),
    ):
        op.drop_column(table, column)
