"""The tables of rating rounds, beside those in `app.adapters.sql.tables` and in the same metadata."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Integer, String, Table, Text, UniqueConstraint

from app.adapters.sql.tables import Instant, metadata


def round_id() -> Column[str]:
    """The round that a row belongs to and goes with."""
    return Column("round_id", String(64), ForeignKey("rating_rounds.id", ondelete="CASCADE"), primary_key=True)


# `options` are RoundOptions as JSON.
rating_rounds = Table(
    "rating_rounds",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("project", String(64), nullable=False),
    Column("batch_id", String(64), ForeignKey("batches.id", ondelete="CASCADE"), nullable=False),
    Column("options", Text, nullable=False),
    Column("drawn", Integer, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("closed_at", Instant, nullable=True),
    Index(None, "project", "created_at", "id"),
    Index(None, "batch_id"),
)

# `number` is the response's place in the round's shuffled order, `position` that in the batch.
round_items = Table(
    "round_items",
    metadata,
    round_id(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("position", Integer, nullable=False),
)

# What a rater was given. `key` is the digest of the rater's name, whose length only the operator bounds; `number`
# counts the rater's responses; `done_at` is null until this one is rated.
round_tasks = Table(
    "round_tasks",
    metadata,
    round_id(),
    Column("key", String(64), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("rater", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("taken_at", Instant, nullable=False),
    Column("done_at", Instant, nullable=True),
    UniqueConstraint("round_id", "position", "key"),
)

# Whose ratings do not count: a rater's, or a round's, with which the row goes. `key` is the digest of both.
rating_exclusions = Table(
    "rating_exclusions",
    metadata,
    Column("project", String(64), primary_key=True),
    Column("key", String(64), primary_key=True),
    Column("rater", Text, nullable=True),
    Column("round_id", String(64), ForeignKey("rating_rounds.id", ondelete="CASCADE"), nullable=True),
    Column("created_at", Instant, nullable=False),
    Index(None, "round_id"),
)
