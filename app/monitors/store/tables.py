"""The tables of monitors."""

from __future__ import annotations

import sqlalchemy as sa

from saiten_server.platform.sql.tables import Instant, columns, table

REAL = sa.Float(precision=53)


def monitor_id(*, primary_key: bool = False) -> sa.Column[str]:
    """The monitor that a row belongs to and goes with."""
    reference = sa.ForeignKey("monitors.id", ondelete="CASCADE")
    return sa.Column("monitor_id", sa.String(64), reference, primary_key=primary_key, nullable=False)


# `options` are MonitorOptions as JSON. `salt` keys the hash by which conversations are sampled. Sums of an earlier
# `epoch` are no reference any more; the reference begins with the day `reference_from`, an ordinal. `api_key` is the id
# of the key that pays.
monitors = table(
    "monitors",
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("project", sa.String(64), nullable=False),
    *columns(sa.Integer, "version", "epoch"),
    *columns(Instant, "created_at", "updated_at"),
    sa.Column("salt", sa.String(64), nullable=False),
    sa.Column("api_key", sa.String(64), nullable=True),
    sa.Column("reference_from", sa.Integer, nullable=True),
    sa.Column("options", sa.Text, nullable=False),
    sa.Index(None, "project", "created_at"),
)

# What the options were in each version.
monitor_versions = table(
    "monitor_versions",
    monitor_id(primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("options", sa.Text, nullable=False),
)

# The conversations of an hour or a day, of one system and build, whose digest is `line`. `part` counts on where the
# run has ended and more came. Counts are of all conversations; `findings` are system turns by code, as JSON.
monitor_windows = table(
    "monitor_windows",
    monitor_id(primary_key=True),
    sa.Column("starts_at", Instant, primary_key=True),
    sa.Column("line", sa.String(64), primary_key=True),
    sa.Column("part", sa.Integer, primary_key=True, autoincrement=False),
    *columns(Instant, "ends_at", "touched_at"),
    *columns(sa.Text, "system", "build", nullable=True),
    sa.Column("batch_id", sa.String(64), nullable=True),
    sa.Column("sealed", sa.Boolean, nullable=False),
    *columns(sa.Integer, "conversations", "sampled", "thinned", "turns", "answers", "errors", "timed"),
    sa.Column("latency_seconds", REAL, nullable=False),
    sa.Column("findings", sa.Text, nullable=False),
    sa.Index(None, "sealed", "ends_at"),
)

# Each conversation once. `waiting` for the result of `position` in `batch_id`. `attributes` are what filters looked at,
# `findings` system turns by a rule's code, `scores` ratings by aspect, all JSON. No texts.
monitor_conversations = table(
    "monitor_conversations",
    monitor_id(primary_key=True),
    sa.Column("conversation_id", sa.String(64), primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    *columns(sa.Integer, "version", "epoch", "turns", "answers", "errors"),
    *columns(Instant, "closed_at", "entered_at"),
    sa.Column("scored_at", Instant, nullable=True),
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

# Sums of `saiten_server.stats.alarms` by measure, day (an ordinal) and slot.
monitor_sums = table(
    "monitor_sums",
    monitor_id(primary_key=True),
    sa.Column("epoch", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("measure", sa.String(80), primary_key=True),
    sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
    *columns(REAL, "n", "wy", "wk", "wwyy", "wwyk", "wwkk"),
)

# How each measure stands. Days are ordinals: before `first_day` nothing is looked at, because an alarm about it was
# resolved. `alarm_id` is that of the alarm which is on.
monitor_states = table(
    "monitor_states",
    monitor_id(primary_key=True),
    sa.Column("measure", sa.String(80), primary_key=True),
    sa.Column("state", sa.String(16), nullable=False),
    *columns(sa.Integer, "first_day", "since_day", "raised_day", nullable=True),
    *columns(REAL, "difference", "low", "high", "raised_difference", nullable=True),
    sa.Column("n", sa.Integer, nullable=False),
    sa.Column("looked_at", Instant, nullable=False),
    sa.Column("alarm_id", sa.String(64), nullable=True),
)

# `alarm` is an Alarm as JSON.
monitor_alarms = table(
    "monitor_alarms",
    sa.Column("id", sa.String(64), primary_key=True),
    monitor_id(),
    sa.Column("raised_at", Instant, nullable=False),
    sa.Column("resolved_at", Instant, nullable=True),
    sa.Column("alarm", sa.Text, nullable=False),
    sa.Index(None, "monitor_id", "raised_at", "id"),
)

# What waits to be sent. `id` is derived from what is sent and where to, so that nothing waits twice.
monitor_outbox = table(
    "monitor_outbox",
    sa.Column("id", sa.String(64), primary_key=True),
    monitor_id(),
    sa.Column("sink", sa.String(64), nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    *columns(Instant, "created_at", "due_at"),
    sa.Index(None, "due_at"),
    sa.Index(None, "monitor_id", "sink", "created_at"),
)

# What became of what each sink was to get. `sink` is the digest of kind and address; after `failures` in a row nothing
# is sent before `closed_until`.
monitor_sinks = table(
    "monitor_sinks",
    monitor_id(primary_key=True),
    sa.Column("sink", sa.String(64), primary_key=True),
    *columns(sa.Integer, "sent", "dropped", "failures"),
    sa.Column("closed_until", Instant, nullable=True),
    sa.Column("last_error", sa.String(64), nullable=True),
)
