"""Monitors: options, conversations, windows, sums for alarms, and what waits to be sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
REAL = sa.Float(precision=53)

schema = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)


def upgrade() -> None:
    """Creates them."""
    schema.create_all(op.get_bind(), checkfirst=False)


def downgrade() -> None:
    """Removes them."""
    schema.drop_all(op.get_bind(), checkfirst=False)


def table(name: str, *parts: sa.schema.SchemaItem) -> None:
    """Adds a table to the schema."""
    sa.Table(name, schema, *parts)


def columns(kind: Any, *names: str, nullable: bool = False) -> Iterator[sa.Column[Any]]:
    """Columns of one type that stand side by side."""
    return (sa.Column(name, kind, nullable=nullable) for name in names)


def monitor_id(*, primary_key: bool = False) -> sa.Column[str]:
    """The monitor that a row belongs to and goes with."""
    reference = sa.ForeignKey("monitors.id", ondelete="CASCADE")
    return sa.Column("monitor_id", sa.String(64), reference, primary_key=primary_key, nullable=False)


table(
    "monitors",
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("project", sa.String(64), nullable=False),
    *columns(sa.Integer, "version", "epoch"),
    *columns(MOMENT, "created_at", "updated_at"),
    sa.Column("salt", sa.String(64), nullable=False),
    sa.Column("api_key", sa.String(64), nullable=True),
    sa.Column("reference_from", sa.Integer, nullable=True),
    sa.Column("options", sa.Text, nullable=False),
    sa.Index(None, "project", "created_at"),
)

table(
    "monitor_versions",
    monitor_id(primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("created_at", MOMENT, nullable=False),
    sa.Column("options", sa.Text, nullable=False),
)

table(
    "monitor_windows",
    monitor_id(primary_key=True),
    sa.Column("starts_at", MOMENT, primary_key=True),
    sa.Column("line", sa.String(64), primary_key=True),
    sa.Column("part", sa.Integer, primary_key=True, autoincrement=False),
    *columns(MOMENT, "ends_at", "touched_at"),
    *columns(sa.Text, "system", "build", nullable=True),
    sa.Column("batch_id", sa.String(64), nullable=True),
    sa.Column("sealed", sa.Boolean, nullable=False),
    *columns(sa.Integer, "conversations", "sampled", "thinned", "turns", "answers", "errors", "timed"),
    sa.Column("latency_seconds", REAL, nullable=False),
    sa.Column("findings", sa.Text, nullable=False),
    sa.Index(None, "sealed", "ends_at"),
)

table(
    "monitor_conversations",
    monitor_id(primary_key=True),
    sa.Column("conversation_id", sa.String(64), primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    *columns(sa.Integer, "version", "epoch", "turns", "answers", "errors"),
    *columns(MOMENT, "closed_at", "entered_at"),
    sa.Column("scored_at", MOMENT, nullable=True),
    *columns(sa.Text, "system", "build", nullable=True),
    *columns(sa.Text, "attributes", "findings"),
    sa.Column("outcome", sa.String(16), nullable=False),
    sa.Column("probability", REAL, nullable=False),
    *columns(REAL, "latency_seconds", "expected_usd", nullable=True),
    sa.Column("waiting", sa.Boolean, nullable=False),
    *columns(sa.String(64), "batch_id", "trace_id", "span_id", nullable=True),
    sa.Column("response_id", sa.Text, nullable=True),
    *columns(sa.Integer, "position", "faulty", nullable=True),
    sa.Column("status", sa.String(16), nullable=True),
    sa.Column("scores", sa.Text, nullable=True),
    sa.Index(None, "monitor_id", "closed_at", "conversation_id"),
    sa.Index(None, "waiting", "monitor_id"),
    sa.Index(None, "batch_id", "position"),
)

table(
    "monitor_sums",
    monitor_id(primary_key=True),
    sa.Column("epoch", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("measure", sa.String(80), primary_key=True),
    sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
    *columns(REAL, "n", "wy", "wk", "wwyy", "wwyk", "wwkk"),
)

table(
    "monitor_states",
    monitor_id(primary_key=True),
    sa.Column("measure", sa.String(80), primary_key=True),
    sa.Column("state", sa.String(16), nullable=False),
    *columns(sa.Integer, "first_day", "since_day", "raised_day", nullable=True),
    *columns(REAL, "difference", "low", "high", "raised_difference", nullable=True),
    sa.Column("n", sa.Integer, nullable=False),
    sa.Column("looked_at", MOMENT, nullable=False),
    sa.Column("alarm_id", sa.String(64), nullable=True),
)

table(
    "monitor_alarms",
    sa.Column("id", sa.String(64), primary_key=True),
    monitor_id(),
    sa.Column("raised_at", MOMENT, nullable=False),
    sa.Column("resolved_at", MOMENT, nullable=True),
    sa.Column("alarm", sa.Text, nullable=False),
    sa.Index(None, "monitor_id", "raised_at", "id"),
)

table(
    "monitor_outbox",
    sa.Column("id", sa.String(64), primary_key=True),
    monitor_id(),
    sa.Column("sink", sa.String(64), nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    *columns(MOMENT, "created_at", "due_at"),
    sa.Index(None, "due_at"),
    sa.Index(None, "monitor_id", "sink", "created_at"),
)

table(
    "monitor_sinks",
    monitor_id(primary_key=True),
    sa.Column("sink", sa.String(64), primary_key=True),
    *columns(sa.Integer, "sent", "dropped", "failures"),
    sa.Column("closed_until", MOMENT, nullable=True),
    sa.Column("last_error", sa.String(64), nullable=True),
)
