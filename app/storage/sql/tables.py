"""The tables, as SQLAlchemy Core sees them. `migrations/` makes them; a test holds that both agree."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    false,
    text,
)

from app.domain.browsing import MOST_MEASURES

UNSTORABLE_CHARACTERS = re.compile("[\\0\\ud800-\\udfff]")


class Instant(TypeDecorator[datetime]):
    """A moment in UTC on every database. SQLite has no time zones and would give it back without one."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)


def batch_id(*, primary_key: bool = False) -> Column[str]:
    """The batch that a row belongs to and goes with."""
    reference = ForeignKey("batches.id", ondelete="CASCADE")
    return Column("batch_id", String(64), reference, primary_key=primary_key, nullable=not primary_key)


# Results of a batch stand here too. Their `record` is without the request, whose text is in `batch_items` once, and
# empty where there is a `failure` in its place. `cluster` is the digest of the dialogue that the candidate is a turn
# of, null where it stands alone; `dialogue` is what its caller calls that.
evaluations = Table(
    "evaluations",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("project", String(64), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("rubric", String(64), nullable=False),
    Column("status", String(16), nullable=False),
    Column("signature", Text, nullable=False),
    Column("record", Text, nullable=False),
    batch_id(),
    Column("position", Integer, nullable=True),
    Column("item", Text, nullable=True),
    Column("candidate", Integer, nullable=True),
    Column("scores", Text, nullable=True),
    Column("failure", Text, nullable=True),
    Column("calls", Text, nullable=True),
    Column("dialogue", Text, nullable=True),
    Column("cluster", String(16), nullable=True),
    Index(None, "project", "created_at"),
    Index(None, "batch_id", "position", unique=True),  # one result a candidate
)

# `status` is also `receiving`, which is not shown. `cost_usd` is null where the cost of a result is not known, and
# `dearest_usd` what the dearest result cost. `resumed_at` is when the batch last started, with `finished_before`
# results. `tally` is what all results amount to, packed, and null where that is not known; `measures` are the names of
# the values in `result_figures`, a JSON list, the first of them standing in `v00`; they are only ever appended to.
# `intervals` are those of the results' means, packed, and null where they are to be computed.
# `api_key` is the id of the key that is charged, and `texts` is `hash` or `drop` once the texts are gone. Only the
# beginning of a name is in the index, for an entry has a bound and the length of names is the operator's. A batch that
# runs ends at `expires_at`; any other has `left_seconds` of running time left, null where it has not run yet. `failed`
# does not count the `expired`. `estimated_calls` are those of `judge_calls` that workers which died had begun.
batches = Table(
    "batches",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("project", String(64), nullable=False),
    Column("name", Text, nullable=True),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant, nullable=True),
    Column("finished_at", Instant, nullable=True),
    Column("resumed_at", Instant, nullable=True),
    Column("finished_before", Integer, nullable=False),
    Column("status", String(16), nullable=False),
    Column("pause_reason", String(64), nullable=True),
    Column("pause_detail", Text, nullable=True),
    Column("mode", String(16), nullable=False),
    Column("rubric", String(64), nullable=False),
    Column("options", Text, nullable=False),
    Column("budget_usd", Float(precision=53), nullable=True),
    Column("unit_cost_usd", Float(precision=53), nullable=True),
    Column("dearest_usd", Float(precision=53), nullable=False),
    Column("total", Integer, nullable=False),
    Column("scored", Integer, nullable=False),
    Column("partial", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("judge_calls", BigInteger, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("translated_characters", BigInteger, nullable=False),
    Column("cost_usd", Float(precision=53), nullable=True),
    Column("chunks_left", Integer, nullable=False),
    Column("tally", Text, nullable=True),
    Column("measures", Text, nullable=True),
    Column("api_key", String(64), nullable=True),
    Column("texts", String(8), nullable=True),
    Column("intervals", Text, nullable=True),
    Column("expired", Integer, nullable=False, server_default="0"),
    Column("estimated_calls", BigInteger, nullable=False, server_default="0"),
    Column("left_seconds", Float(precision=53), nullable=True),
    Column("expires_at", Instant, nullable=True),
    Index(None, "project", "created_at", "id"),
    Index("ix_batches_project_name", "project", text("substr(name, 1, 64)"), "created_at", "id"),
    Index(None, "status"),
)

# Numbered rather than keyed by `key`, whose length only the operator bounds: an index entry has a bound of its own.
batch_metadata = Table(
    "batch_metadata",
    metadata,
    batch_id(primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
)

# Positions `first` to `last`. `state`: `waiting`, `queued` (on the job queue since `queued_at`), `leased` (by `owner`,
# to `lease_until`; with `queued_at` where it ran out and was put on the queue again), `done`, or `blocked`. Work on a
# batch as a whole has a negative number: its end, blocked until all chunks are done, and the collecting of what its
# provider was sent, until when all chunks are blocked. `begun`: candidates that the owner may have begun and that have
# no result yet. `set_aside`: all that is left of the chunk waits, and the next chunk may begin.
batch_chunks = Table(
    "batch_chunks",
    metadata,
    batch_id(primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("first", Integer, nullable=False),
    Column("last", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("queued_at", Instant, nullable=True),
    Column("owner", String(128), nullable=True),
    Column("lease_until", Instant, nullable=True),
    Column("crashes", Integer, nullable=False),
    Column("reserved_usd", Float(precision=53), nullable=False),
    Column("begun", Integer, nullable=False, server_default="0"),
    Column("set_aside", Boolean, nullable=False, server_default=false()),
    Index(None, "batch_id", "state", "number"),
)

batch_items = Table(
    "batch_items",
    metadata,
    batch_id(primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("item", Text, nullable=False),
    Column("candidate", Integer, nullable=True),
    Column("request", Text, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("cluster", String(16), nullable=True),
)

# What a search looks through: item id, utterances and response with `SEPARATOR` in between, ASCII letters in lower
# case. SQLite reads a batch of either table in one go: their rows lie in the order of the primary key.
batch_texts = Table(
    "batch_texts",
    metadata,
    batch_id(primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
    sqlite_with_rowid=False,
)

# A result's values, narrow enough to be sorted and filtered by the hundred thousand. `warnings` and `unrated` (aspects)
# are names with a space before and after each.
result_figures = Table(
    "result_figures",
    metadata,
    batch_id(primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("status", String(16), nullable=False),
    Column("system", Text, nullable=True),
    Column("warnings", Text, nullable=False),
    Column("unrated", Text, nullable=False),
    *(Column(f"v{number:02}", Float(precision=53), nullable=True) for number in range(MOST_MEASURES)),
    Column("cluster", String(16), nullable=True),
    sqlite_with_rowid=False,
)

batch_signatures = Table(
    "batch_signatures",
    metadata,
    batch_id(primary_key=True),
    Column("digest", String(64), primary_key=True),
    Column("signature", Text, nullable=False),
    Column("count", Integer, nullable=False),
)

call_cache = Table(
    "call_cache",
    metadata,
    Column("key", String(128), primary_key=True),
    Column("value", LargeBinary, nullable=False),
    Column("created_at", Instant, nullable=False),
    Index(None, "created_at"),
)

similarity_baselines = Table(
    "similarity_baselines",
    metadata,
    Column("encoder", String(512), primary_key=True),
    Column("language", String(8), primary_key=True),
    Column("calibration", String(64), primary_key=True),
    Column("value", Float(precision=53), nullable=False),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("project", String(64), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("body_digest", String(64), nullable=False),
    Column("status", Integer, nullable=True),
    Column("body", LargeBinary, nullable=True),
    Column("created_at", Instant, nullable=False),
    Index(None, "created_at"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(64), nullable=False),
    Column("project", String(64), nullable=False),
    Column("scope", String(16), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("created_at", Instant, nullable=False),
    Column("revoked_at", Instant, nullable=True),
    Column("requests_per_minute", Integer, nullable=True),
    Column("usd_per_day", Float(precision=53), nullable=True),
)

# What the dashboard's cookies stand for, by the hash of the token in the cookie.
sessions = Table(
    "sessions",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("key_id", String(64), ForeignKey("api_keys.id", ondelete="CASCADE"), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Index(None, "key_id", "created_at"),
    Index(None, "expires_at"),
)

erased_calls = Table(
    "erased_calls",
    metadata,
    Column("key", String(128), primary_key=True),
)

# `key` is the digest of project, target and rater, which may be null in part and whose lengths only the operator
# bounds. `batch_id` is the batch that the rating goes with: the one that it names, with an `item`, or its
# `evaluation`'s. The number of a rating that was removed is not used again: a caller who reads in pages may have
# stopped there.
human_ratings = Table(
    "human_ratings",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("project", String(64), nullable=False),
    Column("key", String(64), nullable=False, unique=True),
    batch_id(),
    Column("item", Text, nullable=True),
    Column("evaluation", String(64), nullable=True),
    Column("candidate", Integer, nullable=True),
    Column("system", Text, nullable=True),
    Column("rater", Text, nullable=False),
    Column("ratings", Text, nullable=False),
    Column("comment", Text, nullable=True),
    Column("created_at", Instant, nullable=False),
    Column("simulated", Boolean, nullable=False, server_default=false()),
    Index(None, "project", "number"),
    Index(None, "batch_id", "project", "number"),
    Index(None, "project", "evaluation", "number"),
    Index("ix_human_ratings_project_item", "project", text("substr(item, 1, 64)"), "number"),
    sqlite_autoincrement=True,
)

# `key` is the digest of `judge`, a JudgeKey as JSON.
validations = Table(
    "validations",
    metadata,
    Column("project", String(64), primary_key=True),
    Column("key", String(64), primary_key=True),
    Column("judge", Text, nullable=False),
    Column("validation", Text, nullable=False),
)

# `key` is the digest of the caller's.
anchor_ratings = Table(
    "anchor_ratings",
    metadata,
    Column("project", String(64), primary_key=True),
    Column("key", String(64), primary_key=True),
    Column("ratings", Text, nullable=False),
)


def can_store(*texts: str) -> bool:
    """Whether a column can hold the texts. What it cannot is in no row: PostgreSQL refuses NUL, both a surrogate."""
    return not any(UNSTORABLE_CHARACTERS.search(text) for text in texts)


# What a key's requests and batches cost, by day (UTC, 2026-01-31). No reference to `api_keys`: what was spent stays.
key_spending = Table(
    "key_spending",
    metadata,
    Column("api_key", String(64), primary_key=True),
    Column("day", String(10), primary_key=True),
    Column("cost_usd", Float(precision=53), nullable=False),
)

# A project without a row has the default policy. `salt` keys the digests that take the place of texts. Single
# evaluations that were made before `redacted_to` have no texts any more; batches have a column of their own for that.
project_policies = Table(
    "project_policies",
    metadata,
    Column("project", String(64), primary_key=True),
    Column("integrity", String(16), nullable=False),
    Column("texts", String(8), nullable=False),
    Column("after_days", Float(precision=53), nullable=False),
    Column("salt", String(64), nullable=False),
    Column("redacted_to", Instant, nullable=True),
    Column("updated_at", Instant, nullable=False),
)

# `detail` is a JSON object of Saiten's own words and numbers. Rows are only ever added.
audit_events = Table(
    "audit_events",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("at", Instant, nullable=False),
    Column("project", String(64), nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", String(64), nullable=False),
    Column("target", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Index(None, "project", "number"),
    sqlite_autoincrement=True,
)


# `lease_until` and `owner` are null where no step is under way. No step is to begin before `next_step_at`.
provider_runs = Table(
    "provider_runs",
    metadata,
    batch_id(primary_key=True),
    Column("started_at", Instant, nullable=False),
    Column("owner", String(128), nullable=True),
    Column("lease_until", Instant, nullable=True),
    Column("next_step_at", Instant, nullable=False),
)

# As `app.providers.ports.Part` has it; `conceded` and `parameters` are JSON. Goes with the run, so that a step which
# still runs when its batch is forgotten finds that it writes to nothing.
provider_parts = Table(
    "provider_parts",
    metadata,
    Column("batch_id", String(64), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("state", String(16), nullable=False),
    Column("after", Integer, nullable=False),
    Column("last", Integer, nullable=False),
    Column("round", Integer, nullable=False),
    Column("requests", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("cost_usd", Float(precision=53), nullable=True),
    Column("conceded", Text, nullable=False),
    Column("parameters", Text, nullable=False),
    Column("alone", Boolean, nullable=False),
    Column("file_id", String(255), nullable=True),
    Column("provider_batch_id", String(255), nullable=True),
    Column("output_file_id", String(255), nullable=True),
    Column("error_file_id", String(255), nullable=True),
    ForeignKeyConstraint(["batch_id"], ["provider_runs.batch_id"], ondelete="CASCADE"),
)

# One row a question, from when it is planned; `reply` is null until it is answered. `part` is null where the reply came
# out of the call cache and nothing was asked.
provider_replies = Table(
    "provider_replies",
    metadata,
    batch_id(primary_key=True),
    Column("key", String(64), primary_key=True),
    Column("part", Integer, nullable=True),
    Column("reply", LargeBinary, nullable=True),
)

# What the call cache holds on this batch's account before any result does: translations. An erasure needs the keys.
# `characters` were billed for them, and stand in no result's usage yet.
provider_calls = Table(
    "provider_calls",
    metadata,
    batch_id(primary_key=True),
    Column("key", String(128), primary_key=True),
    Column("characters", Integer, nullable=False),
)

# Outlives the batch. `kind` and `target` are those of `app.providers.ports.Leftover`.
provider_leftovers = Table(
    "provider_leftovers",
    metadata,
    Column("kind", String(8), primary_key=True),
    Column("target", String(255), primary_key=True),
    Column("since", Instant, nullable=False),
    Column("tried_at", Instant, nullable=True),
    Index(None, "tried_at"),
)


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
