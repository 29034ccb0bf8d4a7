"""The tables, as SQLAlchemy Core sees them. `migrations/` makes them; a test holds that both agree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

MOST_MEASURES = 40
"""Measures of a batch by which results can be sorted and filtered; any further ones are only shown."""


UNSTORABLE_CHARACTERS = re.compile("[\\0\\ud800-\\udfff]")


class Instant(sa.TypeDecorator[datetime]):
    """A moment in UTC on every database. SQLite has no time zones and would give it back without one."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)


def batch_id(*, primary_key: bool = False) -> sa.Column[str]:
    """The batch that a row belongs to and goes with."""
    reference = sa.ForeignKey("batches.id", ondelete="CASCADE")
    return sa.Column("batch_id", sa.String(64), reference, primary_key=primary_key, nullable=not primary_key)


def table(name: str, *parts: sa.schema.SchemaItem, **options: Any) -> sa.Table:
    """A table of Saiten's schema."""
    return sa.Table(name, metadata, *parts, **options)


def columns(kind: Any, *names: str, nullable: bool = False, **options: Any) -> Iterator[sa.Column[Any]]:
    """Columns of one type that stand side by side."""
    return (sa.Column(name, kind, nullable=nullable, **options) for name in names)


# Single evaluations, and the results of batches. A batch's `record` has no request, whose text is in `batch_items`, and
# is empty if there is a `failure` instead. `cluster` is the digest of the dialogue whose turn the candidate is, null if
# it stands alone; `dialogue` is the caller's name for it.
evaluations = table(
    "evaluations",
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("project", sa.String(64), nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("rubric", sa.String(64), nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    *columns(sa.Text, "signature", "record"),
    batch_id(),
    sa.Column("position", sa.Integer, nullable=True),
    sa.Column("item", sa.Text, nullable=True),
    sa.Column("candidate", sa.Integer, nullable=True),
    *columns(sa.Text, "failure", "calls", "dialogue", nullable=True),
    sa.Column("cluster", sa.String(16), nullable=True),
    sa.Index(None, "project", "created_at"),
    sa.Index(None, "batch_id", "position", unique=True),  # one result a candidate
)

# `status` may also be `receiving`, which is not shown. `cost_usd` is null if the cost of a result is not known;
# `dearest_usd` is the highest cost of a result. The batch was last started at `resumed_at`, with `finished_before`
# results. `tally` has the packed figures of all results, `intervals` those of their means; null if not known.
# `measures` says what the values in `result_figures` are of, from `v00` on: a JSON list that only grows, of [kind,
# name]. `api_key` is the id of the charged key. `texts` is `hash` or `drop` once the texts are gone. A running batch
# ends at `expires_at` by the running clock; any other has `left_seconds` of running time left, null before its start.
# `failed` does not include `expired`. `estimated_calls` is the part of `judge_calls` that workers which died had begun.
# `ids_given`: the caller gave an item an id; null if not known. `rubric_digest` is that of the rubric when the batch
# was accepted, null in those of earlier releases; `rubric_differs` while the last worker that looked for a chunk had
# another. `stored_bytes` is the size of its candidates, results and rounds (`sizes`). `unit` is `pair` where the
# candidates are pairs of other batches' responses, else null. The index has only the beginning of a name, because index
# entries have a limit and names have only the operator's.
batches = table(
    "batches",
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("project", sa.String(64), nullable=False),
    sa.Column("name", sa.Text, nullable=True),
    sa.Column("created_at", Instant, nullable=False),
    *columns(Instant, "started_at", "finished_at", "resumed_at", nullable=True),
    sa.Column("finished_before", sa.Integer, nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("pause_reason", sa.String(64), nullable=True),
    sa.Column("pause_detail", sa.Text, nullable=True),
    sa.Column("mode", sa.String(16), nullable=False),
    sa.Column("rubric", sa.String(64), nullable=False),
    sa.Column("options", sa.Text, nullable=False),
    *columns(sa.Float(precision=53), "budget_usd", "unit_cost_usd", nullable=True),
    sa.Column("dearest_usd", sa.Float(precision=53), nullable=False),
    *columns(sa.Integer, "total", "scored", "partial", "failed"),
    *columns(
        sa.BigInteger, "judge_calls", "prompt_tokens", "cached_tokens", "completion_tokens", "translated_characters"
    ),
    sa.Column("cost_usd", sa.Float(precision=53), nullable=True),
    sa.Column("chunks_left", sa.Integer, nullable=False),
    *columns(sa.Text, "tally", "measures", nullable=True),
    sa.Column("api_key", sa.String(64), nullable=True),
    sa.Column("texts", sa.String(8), nullable=True),
    sa.Column("intervals", sa.Text, nullable=True),
    sa.Column("expired", sa.Integer, nullable=False, server_default="0"),
    sa.Column("estimated_calls", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("left_seconds", sa.Float(precision=53), nullable=True),
    sa.Column("expires_at", Instant, nullable=True),
    sa.Column("ids_given", sa.Boolean, nullable=True),
    sa.Column("stored_bytes", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("rubric_digest", sa.String(64), nullable=True),
    sa.Column("rubric_differs", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("unit", sa.String(8), nullable=True),
    sa.Index(None, "project", "created_at", "id"),
    sa.Index("ix_batches_project_name", "project", sa.text("substr(name, 1, 64)"), "created_at", "id"),
    sa.Index(None, "status"),
)

# One row: when a worker last signed that it was alive, and the time that did not count as running time.
running_time = table(
    "running_time",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seen_at", Instant, nullable=False),
    sa.Column("skipped_seconds", sa.Float(precision=53), nullable=False),
)

# Numbered, because `key` may be too long for an index.
batch_metadata = table(
    "batch_metadata",
    batch_id(primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    *columns(sa.Text, "key", "value"),
)

# Positions `first` to `last`. `state` is `waiting`, `queued` (on the job queue since `queued_at`), `leased` (by `owner`
# until `lease_until`; with `queued_at` if the lease ran out and the chunk was queued again), `done` or `blocked`. Work
# on a whole batch has a negative number: its end is blocked until all chunks are done; collecting from a provider
# blocks all chunks. `begun` counts candidates without a result that the owner may have begun. `set_aside`: all that is
# left of the chunk waits, and the next chunk may begin.
batch_chunks = table(
    "batch_chunks",
    batch_id(primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    *columns(sa.Integer, "first", "last"),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("queued_at", Instant, nullable=True),
    sa.Column("owner", sa.String(128), nullable=True),
    sa.Column("lease_until", Instant, nullable=True),
    sa.Column("crashes", sa.Integer, nullable=False),
    sa.Column("reserved_usd", sa.Float(precision=53), nullable=False),
    sa.Column("begun", sa.Integer, nullable=False, server_default="0"),
    sa.Column("set_aside", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Index(None, "batch_id", "state", "number"),
)

batch_items = table(
    "batch_items",
    batch_id(primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("item", sa.Text, nullable=False),
    sa.Column("candidate", sa.Integer, nullable=True),
    sa.Column("request", sa.Text, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("cluster", sa.String(16), nullable=True),
)

# The searched text: item id, utterances and response, separated by `SEPARATOR` and folded (`search.fold`). In this
# table and the next two, SQLite stores the rows of a batch together, in the order of the primary key.
batch_texts = table(
    "batch_texts",
    batch_id(primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("text", sa.Text, nullable=False),
    sqlite_with_rowid=False,
)

# Which texts have a pair of characters (`gram`, see `search`): `places` are positions less `first`, 16 bits each.
text_grams = table(
    "text_grams",
    batch_id(primary_key=True),
    sa.Column("gram", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("first", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("places", sa.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

# A result in figures (`ResultFigures`), in rows that can be sorted and filtered by the hundred thousand. `warnings`,
# `unrated` (aspects) and `reasons` (why, in the same order) are names with a space before and after each. `item_key`
# and `context_key` are digests (`key_of`) that are equal for equal items and contexts. As JSON: a conversation's faulty
# turns by code (`findings`), ratings by aspect where they are not the mean, and `further` values, which have no column:
# [kind, name, value] of each; of a pair its `looks` (`core.preference.write_looks`). `probability` is that
# with which a monitor sampled the conversation.
result_figures = table(
    "result_figures",
    batch_id(primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("system", sa.Text, nullable=True),
    *columns(sa.Text, "warnings", "unrated"),
    *(sa.Column(f"v{number:02}", sa.Float(precision=53), nullable=True) for number in range(MOST_MEASURES)),
    sa.Column("cluster", sa.String(16), nullable=True),
    *columns(sa.BigInteger, "item_key", "context_key", nullable=True),
    sa.Column("spread", sa.Float(precision=53), nullable=True),
    sa.Column("reasons", sa.Text, nullable=False, server_default=" "),
    *columns(sa.Text, "build", "failure", nullable=True),
    sa.Column("context", sa.String(64), nullable=True),
    sa.Column("candidate", sa.Integer, nullable=True),
    sa.Column("similarity", sa.Float(precision=53), nullable=True),
    sa.Column("system_turns", sa.Integer, nullable=True),
    *columns(sa.Text, "findings", "ratings", "further", "looks", nullable=True),
    sa.Column("probability", sa.Float(precision=53), nullable=True),
    sqlite_with_rowid=False,
)

# A large ended batch's results as columns (`frames.pack_frame`), made when they are first looked at, in the state that
# the batch had. It has no texts, but goes with them: its keys are digests.
run_frames = table(
    "run_frames",
    batch_id(primary_key=True),
    sa.Column("state", sa.String(64), nullable=False),
    sa.Column("frame", sa.LargeBinary, nullable=False),
)

batch_signatures = table(
    "batch_signatures",
    batch_id(primary_key=True),
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("signature", sa.Text, nullable=False),
    sa.Column("count", sa.Integer, nullable=False),
)

call_cache = table(
    "call_cache",
    sa.Column("key", sa.String(128), primary_key=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Index(None, "created_at"),
)

similarity_baselines = table(
    "similarity_baselines",
    sa.Column("encoder", sa.String(512), primary_key=True),
    sa.Column("language", sa.String(8), primary_key=True),
    sa.Column("calibration", sa.String(64), primary_key=True),
    sa.Column("value", sa.Float(precision=53), nullable=False),
)

idempotency_keys = table(
    "idempotency_keys",
    sa.Column("project", sa.String(64), primary_key=True),
    sa.Column("key", sa.String(255), primary_key=True),
    sa.Column("body_digest", sa.String(64), nullable=False),
    sa.Column("status", sa.Integer, nullable=True),
    sa.Column("body", sa.LargeBinary, nullable=True),
    sa.Column("created_at", Instant, nullable=False),
    sa.Index(None, "created_at"),
)

# What a project stores outside batches and datasets, see `sizes`.
project_bytes = table(
    "project_bytes",
    sa.Column("project", sa.String(64), primary_key=True),
    sa.Column("bytes", sa.BigInteger, nullable=False),
)

api_keys = table(
    "api_keys",
    sa.Column("id", sa.String(64), primary_key=True),
    *columns(sa.String(64), "name", "project"),
    sa.Column("scope", sa.String(16), nullable=False),
    sa.Column("hash", sa.String(64), nullable=False, unique=True),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("revoked_at", Instant, nullable=True),
    sa.Column("requests_per_minute", sa.Integer, nullable=True),
    sa.Column("usd_per_day", sa.Float(precision=53), nullable=True),
)

# What the dashboard's cookies stand for, by the hash of the token in the cookie.
sessions = table(
    "sessions",
    sa.Column("hash", sa.String(64), primary_key=True),
    sa.Column("key_id", sa.String(64), sa.ForeignKey("api_keys.id", ondelete="CASCADE"), nullable=False),
    *columns(Instant, "created_at", "expires_at"),
    sa.Index(None, "key_id", "created_at"),
    sa.Index(None, "expires_at"),
)

erased_calls = table("erased_calls", sa.Column("key", sa.String(128), primary_key=True))

# `key` is the digest of project, target and rater. `batch_id` is the batch that the rating goes with: that of its
# `item` or `evaluation`. Numbers are not reused, because a caller who reads in pages may have stopped at one. `earlier`
# are EarlierRating as JSON, oldest first, null without any.
human_ratings = table(
    "human_ratings",
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("project", sa.String(64), nullable=False),
    sa.Column("key", sa.String(64), nullable=False, unique=True),
    batch_id(),
    sa.Column("item", sa.Text, nullable=True),
    sa.Column("evaluation", sa.String(64), nullable=True),
    sa.Column("candidate", sa.Integer, nullable=True),
    sa.Column("system", sa.Text, nullable=True),
    *columns(sa.Text, "rater", "ratings"),
    sa.Column("comment", sa.Text, nullable=True),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("simulated", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("faulty_turns", sa.Text, nullable=True),
    sa.Column("starred", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("earlier", sa.Text, nullable=True),
    sa.Index(None, "project", "number"),
    sa.Index(None, "batch_id", "project", "number"),
    sa.Index(None, "project", "evaluation", "number"),
    sa.Index("ix_human_ratings_project_item", "project", sa.text("substr(item, 1, 64)"), "number"),
    sqlite_autoincrement=True,
)

# `key` is the digest of `judge`, a JudgeKey as JSON.
validations = table(
    "validations",
    *columns(sa.String(64), "project", "key", primary_key=True),
    *columns(sa.Text, "judge", "validation"),
)

# `key` is the digest of the caller's.
anchor_ratings = table(
    "anchor_ratings",
    *columns(sa.String(64), "project", "key", primary_key=True),
    sa.Column("ratings", sa.Text, nullable=False),
)


def can_store(*texts: str) -> bool:
    """Whether a column can hold the texts. What it cannot is in no row: PostgreSQL refuses NUL, both a surrogate."""
    return not any(UNSTORABLE_CHARACTERS.search(text) for text in texts)


def equals(column: sa.ColumnElement[Any], text: str) -> sa.ColumnElement[bool]:
    """The condition that the column is the text; false if no column can hold it."""
    return column == text if can_store(text) else sa.false()


# What a key's requests and batches cost, by day (UTC, 2026-01-31). No reference to `api_keys`: what was spent stays.
key_spending = table(
    "key_spending",
    sa.Column("api_key", sa.String(64), primary_key=True),
    sa.Column("day", sa.String(10), primary_key=True),
    sa.Column("cost_usd", sa.Float(precision=53), nullable=False),
)

# A project without a row has the default policy. `salt` keys the digests that replace texts. Single evaluations from
# before `redacted_to` have no texts; batches have the column `texts`.
project_policies = table(
    "project_policies",
    sa.Column("project", sa.String(64), primary_key=True),
    sa.Column("integrity", sa.String(16), nullable=False),
    sa.Column("texts", sa.String(8), nullable=False),
    sa.Column("after_days", sa.Float(precision=53), nullable=False),
    sa.Column("salt", sa.String(64), nullable=False),
    sa.Column("redacted_to", Instant, nullable=True),
    sa.Column("updated_at", Instant, nullable=False),
)

# `detail` is a JSON object of Saiten's own words and numbers. Rows are only ever added.
audit_events = table(
    "audit_events",
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("at", Instant, nullable=False),
    sa.Column("project", sa.String(64), nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("action", sa.String(64), nullable=False),
    *columns(sa.Text, "target", "detail"),
    sa.Index(None, "project", "number"),
    sqlite_autoincrement=True,
)


# `lease_until` and `owner` are null where no step is under way. No step is to begin before `next_step_at`.
provider_runs = table(
    "provider_runs",
    batch_id(primary_key=True),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("owner", sa.String(128), nullable=True),
    sa.Column("lease_until", Instant, nullable=True),
    sa.Column("next_step_at", Instant, nullable=False),
)

# A `ProviderPart`; `conceded` and `parameters` are JSON. Goes with the run, so that a step that still runs when its
# batch is forgotten finds no row to write to.
provider_parts = table(
    "provider_parts",
    sa.Column("batch_id", sa.String(64), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("state", sa.String(16), nullable=False),
    *columns(sa.Integer, "after", "last", "round", "requests"),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("cost_usd", sa.Float(precision=53), nullable=True),
    *columns(sa.Text, "conceded", "parameters"),
    sa.Column("alone", sa.Boolean, nullable=False),
    *columns(sa.String(255), "file_id", "provider_batch_id", "output_file_id", "error_file_id", nullable=True),
    sa.ForeignKeyConstraint(["batch_id"], ["provider_runs.batch_id"], ondelete="CASCADE"),
)

# One row per planned question; `reply` is null until it is answered, and `part` if the reply came from the call cache.
provider_replies = table(
    "provider_replies",
    batch_id(primary_key=True),
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("part", sa.Integer, nullable=True),
    sa.Column("reply", sa.LargeBinary, nullable=True),
)

# Calls (translations) made before any result, which an erasure needs to know. `characters` were billed for them and are
# in no result's usage yet.
provider_calls = table(
    "provider_calls",
    batch_id(primary_key=True),
    sa.Column("key", sa.String(128), primary_key=True),
    sa.Column("characters", sa.Integer, nullable=False),
)

# Outlives the batch. `kind` and `target` are those of a `Leftover`.
provider_leftovers = table(
    "provider_leftovers",
    sa.Column("kind", sa.String(8), primary_key=True),
    sa.Column("target", sa.String(255), primary_key=True),
    sa.Column("since", Instant, nullable=False),
    sa.Column("tried_at", Instant, nullable=True),
    sa.Index(None, "tried_at"),
)


def round_id() -> sa.Column[str]:
    """The round that a row belongs to and goes with."""
    return sa.Column("round_id", sa.String(64), sa.ForeignKey("rating_rounds.id", ondelete="CASCADE"), primary_key=True)


def sides() -> list[sa.Column[Any]]:
    """Two results of batches, by their places. The row goes with either batch."""
    found: list[sa.Column[Any]] = []
    for side in ("first", "second"):
        batch = sa.ForeignKey("batches.id", ondelete="CASCADE")
        found += [
            sa.Column(f"{side}_batch_id", sa.String(64), batch, nullable=True),
            sa.Column(f"{side}_position", sa.Integer, nullable=True),
        ]
    return found


# `kind` is null of a round in which responses are rated. `options` are RoundOptions, or PairOptions of a round of
# preferences, as JSON; `signals` those of a RatingRound, with spaces between them. Of several runs, `batch_id` is the
# first.
rating_rounds = table(
    "rating_rounds",
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("project", sa.String(64), nullable=False),
    sa.Column("batch_id", sa.String(64), sa.ForeignKey("batches.id", ondelete="CASCADE"), nullable=False),
    sa.Column("options", sa.Text, nullable=False),
    sa.Column("drawn", sa.Integer, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("closed_at", Instant, nullable=True),
    sa.Column("signals", sa.Text, nullable=True),
    sa.Column("kind", sa.String(16), nullable=True),
    sa.Index(None, "project", "created_at", "id"),
    sa.Index(None, "batch_id"),
)

# `number` is the response's place in the round's shuffled order, `position` that in the batch, `probability` that with
# which it was drawn; null in rounds from before there was one, which drew all alike. In a round of preferences an item
# is a pair, and `position` its place in `round_pairs`.
round_items = table(
    "round_items",
    round_id(),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("probability", sa.Float(precision=53), nullable=True),
)

# The pairs of a round of preferences.
round_pairs = table(
    "round_pairs",
    round_id(),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    *sides(),
    sa.Index(None, "first_batch_id"),
    sa.Index(None, "second_batch_id"),
)

# What a rater was given. `key` is the digest of the rater's name; `number` counts the rater's responses; `done_at` is
# null until this one is rated.
round_tasks = table(
    "round_tasks",
    round_id(),
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("rater", sa.Text, nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("taken_at", Instant, nullable=False),
    sa.Column("done_at", Instant, nullable=True),
    sa.UniqueConstraint("round_id", "position", "key"),
)

# A link by which one rater rates in one round, by the hash of its secret.
rating_invitations = table(
    "rating_invitations",
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("round_id", sa.String(64), sa.ForeignKey("rating_rounds.id", ondelete="CASCADE"), nullable=False),
    sa.Column("rater", sa.Text, nullable=False),
    sa.Column("hash", sa.String(64), nullable=False, unique=True),
    *columns(Instant, "created_at", "expires_at"),
    sa.Column("revoked_at", Instant, nullable=True),
    sa.Index(None, "round_id"),
)

# Whose ratings do not count: a rater's, or a round's, with which the row goes. `key` is the digest of both.
rating_exclusions = table(
    "rating_exclusions",
    *columns(sa.String(64), "project", "key", primary_key=True),
    sa.Column("rater", sa.Text, nullable=True),
    sa.Column("round_id", sa.String(64), sa.ForeignKey("rating_rounds.id", ondelete="CASCADE"), nullable=True),
    sa.Column("created_at", Instant, nullable=False),
    sa.Index(None, "round_id"),
)

# What people prefer of two responses: `first` and `second` as the pair names them, `swapped` where the second was shown
# before the first. A pair stands in two batches, or is a preference of the judge's that `pair` names, or came with its
# texts, which are JSON. `item` is the digest of the context that came. `shown_at` is when the rater was given the pair,
# and `key` the digest of the pair and the rater.
human_preferences = table(
    "human_preferences",
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("project", sa.String(64), nullable=False),
    sa.Column("key", sa.String(64), nullable=False, unique=True),
    sa.Column("rater", sa.Text, nullable=False),
    sa.Column("choice", sa.String(8), nullable=False),
    sa.Column("swapped", sa.Boolean, nullable=False),
    sa.Column("simulated", sa.Boolean, nullable=False),
    *columns(Instant, "shown_at", "created_at"),
    sa.Column("reason", sa.Text, nullable=True),
    sa.Column("round_id", sa.String(64), sa.ForeignKey("rating_rounds.id", ondelete="SET NULL"), nullable=True),
    sa.Column("pair", sa.String(128), nullable=True),
    *sides(),
    sa.Column("item", sa.String(128), nullable=True),
    sa.Column("dialogue", sa.Text, nullable=True),
    sa.Column("first_system", sa.Text, nullable=True),
    sa.Column("second_system", sa.Text, nullable=True),
    sa.Column("context", sa.Text, nullable=True),
    sa.Column("first", sa.Text, nullable=True),
    sa.Column("second", sa.Text, nullable=True),
    sa.Column("first_length", sa.Integer, nullable=True),
    sa.Column("second_length", sa.Integer, nullable=True),
    sa.Index(None, "project", "number"),
    sa.Index(None, "round_id"),
    sa.Index(None, "first_batch_id"),
    sa.Index(None, "second_batch_id"),
    sqlite_autoincrement=True,
)

# Goes with either batch. `link` is a Link as JSON; `draws` are the tables of its resamples.
links = table(
    "links",
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("project", sa.String(64), nullable=False),
    sa.Column("old_batch", sa.String(64), sa.ForeignKey("batches.id", ondelete="CASCADE"), nullable=False),
    sa.Column("new_batch", sa.String(64), sa.ForeignKey("batches.id", ondelete="CASCADE"), nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    *columns(sa.Text, "link", "draws"),
    sa.Index(None, "project", "created_at", "id"),
    sa.Index(None, "old_batch"),
    sa.Index(None, "new_batch"),
)

# The run that a name's runs are compared with, which goes with its batch. `key` is the digest of the name.
baselines = table(
    "baselines",
    *columns(sa.String(64), "project", "key", primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("batch_id", sa.String(64), sa.ForeignKey("batches.id", ondelete="CASCADE"), nullable=False),
    sa.Column("pinned_at", Instant, nullable=False),
    sa.Index(None, "batch_id"),
)

# A sequence of builds goes with the batch that it is judged against. `key` is the digest of the name.
sequences = table(
    "sequences",
    *columns(sa.String(64), "project", "key", primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("batch_id", sa.String(64), sa.ForeignKey("batches.id", ondelete="CASCADE"), nullable=False),
    sa.Column("alpha", sa.Float(precision=53), nullable=False),
    sa.Column("started_at", Instant, nullable=False),
    sa.Index(None, "batch_id"),
)

# A build whose batch was erased keeps its place: the error rate that it spent is not given back. `drops` are
# SequenceDrop by what rules name, as JSON; null before its gate was judged.
sequence_builds = table(
    "sequence_builds",
    *columns(sa.String(64), "project", "key", primary_key=True),
    sa.Column("night", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("batch_id", sa.String(64), sa.ForeignKey("batches.id", ondelete="SET NULL"), nullable=True),
    sa.Column("judged_at", Instant, nullable=False),
    sa.Column("verdict", sa.String(16), nullable=False),
    sa.Column("drops", sa.Text, nullable=True),
    sa.ForeignKeyConstraint(["project", "key"], ["sequences.project", "sequences.key"], ondelete="CASCADE"),
    sa.Index(None, "project", "key", "batch_id", unique=True),
    sa.Index(None, "batch_id"),
)

# The verdict of a gate, which goes with either of its batches; null for a run that was given as results. `report` is a
# GateReport as JSON, `metadata` that of it, and `bytes` what the row counts for.
gates = table(
    "gates",
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("project", sa.String(64), nullable=False),
    sa.Column("candidate", sa.String(64), sa.ForeignKey("batches.id", ondelete="CASCADE"), nullable=True),
    sa.Column("baseline", sa.String(64), sa.ForeignKey("batches.id", ondelete="CASCADE"), nullable=True),
    sa.Column("at", Instant, nullable=False),
    *columns(sa.Text, "metadata", "report"),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Index(None, "project", "at", "id"),
    sa.Index(None, "candidate"),
    sa.Index(None, "baseline"),
)

# `state` is `upload` for a file whose parts are its bytes, `receiving` while items are stored, and `kept` for a dataset
# with a `version`, whose parts are lines of NDJSON. `key` is the digest of the name. A file that was kept is `done`: it
# has no parts and no name any more, and its `key` is the id of its dataset.
datasets = table(
    "datasets",
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("project", sa.String(64), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("key", sa.String(64), nullable=False),
    sa.Column("version", sa.Integer, nullable=True),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("unit", sa.String(16), nullable=False),
    sa.Column("korean", sa.Boolean, nullable=False),
    sa.Column("items", sa.Integer, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Index(None, "project", "created_at", "id"),
    sa.Index(None, "project", "key", "version", unique=True),
)

dataset_parts = table(
    "dataset_parts",
    sa.Column("dataset_id", sa.String(64), sa.ForeignKey("datasets.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
