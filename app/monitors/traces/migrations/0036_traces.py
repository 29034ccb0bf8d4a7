"""Spans of live conversations, the conversations, and what their intake counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0034"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def fields(kind: Any, *names: str, nullable: bool = False) -> Iterator[sa.Column[Any]]:
    """Columns of one type."""
    return (sa.Column(name, kind, nullable=nullable) for name in names)


def key(name: str, *columns: str) -> sa.PrimaryKeyConstraint:
    """The primary key of a table."""
    return sa.PrimaryKeyConstraint(*columns, name=f"pk_{name}")


def upgrade() -> None:
    """Makes the tables."""
    op.create_table(
        "live_conversations",
        *fields(sa.String(64), "id", "project"),
        *fields(sa.Text, "name"),
        *fields(sa.String(32), "trace", nullable=True),
        *fields(sa.String(8), "state"),
        *fields(MOMENT, "first_at", "last_at"),
        *fields(MOMENT, "closed_at", "lease_until", nullable=True),
        *fields(sa.String(128), "owner", nullable=True),
        *fields(sa.Integer, "version", "spans", "answers", "count_at", "late", "refused"),
        *fields(sa.BigInteger, "bytes"),
        *fields(sa.Text, "attributes"),
        key("live_conversations", "id"),
    )
    op.create_index("ix_live_conversations_state_last_at", "live_conversations", ["state", "last_at"])
    op.create_index("ix_live_conversations_project_first_at_id", "live_conversations", ["project", "first_at", "id"])
    op.create_table(
        "live_spans",
        *fields(sa.String(64), "conversation_id", "key"),
        *fields(MOMENT, "received_at"),
        *fields(sa.Boolean, "late"),
        *fields(sa.Text, "said"),
        key("live_spans", "conversation_id", "key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "live_traces",
        *fields(sa.String(64), "project"),
        *fields(sa.String(32), "trace"),
        *fields(sa.String(64), "conversation_id"),
        *fields(sa.Text, "name"),
        *fields(MOMENT, "seen_at"),
        key("live_traces", "project", "trace"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_live_traces_seen_at", "live_traces", ["seen_at"])
    op.create_index("ix_live_traces_conversation_id", "live_traces", ["conversation_id"])
    op.create_table(
        "live_rules",
        *fields(sa.String(64), "project"),
        *fields(sa.Text, "rules"),
        *fields(MOMENT, "watched_since", nullable=True),
        key("live_rules", "project"),
    )
    op.create_table(
        "live_counts",
        *fields(sa.String(64), "project"),
        *fields(sa.String(32), "what"),
        *fields(sa.String(16), "key"),
        *fields(sa.Text, "about"),
        *fields(sa.BigInteger, "count"),
        *fields(MOMENT, "last_at"),
        key("live_counts", "project", "what", "key"),
    )


def downgrade() -> None:
    """Removes the tables."""
    for name in ("live_counts", "live_rules", "live_traces", "live_spans", "live_conversations"):
        op.drop_table(name)
