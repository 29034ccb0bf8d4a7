"""The tables of spans and their conversations."""

from __future__ import annotations

import sqlalchemy as sa

from saiten_server.platform.sql.sizes import octets
from saiten_server.platform.sql.tables import Instant, columns, table

UNREAD = "unread"
"""What `live_counts` says of conventions that are not known."""

# `name` is the caller's; `trace` is that of a conversation that no span names. `answers` counts spans with an answer,
# and the turns are counted when it reaches `count_at`. `late` and `refused` count spans that came too late, and those
# that were too many. `attributes` are those that monitors name, as JSON.
live_conversations = table(
    "live_conversations",
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("project", sa.String(64), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("trace", sa.String(32), nullable=True),
    sa.Column("state", sa.String(8), nullable=False),
    *columns(Instant, "first_at", "last_at"),
    *columns(Instant, "closed_at", "lease_until", nullable=True),
    sa.Column("owner", sa.String(128), nullable=True),
    *columns(sa.Integer, "version", "spans", "answers", "count_at", "late", "refused"),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("attributes", sa.Text, nullable=False),
    sa.Index(None, "state", "last_at"),
    sa.Index(None, "project", "first_at", "id"),
)

# `key` is a trace's id, a span's, and of a log record its digest.
live_spans = table(
    "live_spans",
    sa.Column("conversation_id", sa.String(64), primary_key=True),
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("received_at", Instant, nullable=False),
    sa.Column("late", sa.Boolean, nullable=False),
    sa.Column("said", sa.Text, nullable=False),
    sqlite_with_rowid=False,
)

# To which conversation the spans of a trace belong that name none.
live_traces = table(
    "live_traces",
    sa.Column("project", sa.String(64), primary_key=True),
    sa.Column("trace", sa.String(32), primary_key=True),
    sa.Column("conversation_id", sa.String(64), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("seen_at", Instant, nullable=False),
    sa.Index(None, "seen_at"),
    sa.Index(None, "conversation_id"),
    sqlite_with_rowid=False,
)

# TraceRules as JSON; conversations are handed over that closed since `watched_since`, none where it is null.
live_rules = table(
    "live_rules",
    sa.Column("project", sa.String(64), primary_key=True),
    sa.Column("rules", sa.Text, nullable=False),
    sa.Column("watched_since", Instant, nullable=True),
)

# What was left out, by `what` it was; of unknown conventions with their library and attributes in `about`, whose digest
# is the `key`.
live_counts = table(
    "live_counts",
    sa.Column("project", sa.String(64), primary_key=True),
    sa.Column("what", sa.String(32), primary_key=True),
    sa.Column("key", sa.String(16), primary_key=True),
    sa.Column("about", sa.Text, nullable=False),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("last_at", Instant, nullable=False),
)

conversation, span, of_trace, rule, counted = (
    each.c for each in (live_conversations, live_spans, live_traces, live_rules, live_counts)
)
HEAD = tuple(conversation[name] for name in live_conversations.columns.keys())  # noqa: SIM118 (a collection of columns)

SPAN_BYTES = 200
"""What a row of a span takes beside its text, and one of a trace beside its conversation's name."""

TRACE_SIZE = octets(of_trace["name"]) + SPAN_BYTES
"""The size of a row of `live_traces`."""
