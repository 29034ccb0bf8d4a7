"""All tables.

They are what the revisions up to 0031 made one after another. This file stays as it is when `tables.py` changes: each
change is a revision of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = None
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
REAL = sa.Float(precision=53)
COUNTER = sa.BigInteger().with_variant(sa.Integer, "sqlite")

schema = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
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


def table(name: str, *parts: sa.schema.SchemaItem, **options: Any) -> None:
    """Adds a table to the schema."""
    sa.Table(name, schema, *parts, **options)


def columns(kind: Any, *names: str, nullable: bool = False, **options: Any) -> Iterator[sa.Column[Any]]:
    """Columns of one type that stand side by side."""
    return (sa.Column(name, kind, nullable=nullable, **options) for name in names)


def parent(name: str, table: str, *, primary_key: bool = False, nullable: bool = False) -> sa.Column[str]:
    """A column that refers to the row with which this one goes."""
    reference = sa.ForeignKey(f"{table}.id", ondelete="CASCADE")
    return sa.Column(name, sa.String(64), reference, primary_key=primary_key, nullable=nullable)


table(
    "evaluations",
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("project", sa.String(64), nullable=False),
    sa.Column("created_at", MOMENT, nullable=False),
    sa.Column("rubric", sa.String(64), nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    *columns(sa.Text, "signature", "record"),
    parent("batch_id", "batches", nullable=True),
    sa.Column("position", sa.Integer, nullable=True),
    sa.Column("item", sa.Text, nullable=True),
    sa.Column("candidate", sa.Integer, nullable=True),
    *columns(sa.Text, "scores", "failure", "calls", "dialogue", nullable=True),
    sa.Column("cluster", sa.String(16), nullable=True),
    sa.Index(None, "project", "created_at"),
    sa.Index(None, "batch_id", "position", unique=True),  # one result a candidate
)

table(
    "batches",
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("project", sa.String(64), nullable=False),
    sa.Column("name", sa.Text, nullable=True),
    sa.Column("created_at", MOMENT, nullable=False),
    *columns(MOMENT, "started_at", "finished_at", "resumed_at", nullable=True),
    sa.Column("finished_before", sa.Integer, nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("pause_reason", sa.String(64), nullable=True),
    sa.Column("pause_detail", sa.Text, nullable=True),
    sa.Column("mode", sa.String(16), nullable=False),
    sa.Column("rubric", sa.String(64), nullable=False),
    sa.Column("options", sa.Text, nullable=False),
    *columns(REAL, "budget_usd", "unit_cost_usd", nullable=True),
    sa.Column("dearest_usd", REAL, nullable=False),
    *columns(sa.Integer, "total", "scored", "partial", "failed"),
    *columns(
        sa.BigInteger, "judge_calls", "prompt_tokens", "cached_tokens", "completion_tokens", "translated_characters"
    ),
    sa.Column("cost_usd", REAL, nullable=True),
    sa.Column("chunks_left", sa.Integer, nullable=False),
    *columns(sa.Text, "tally", "measures", nullable=True),
    sa.Column("api_key", sa.String(64), nullable=True),
    sa.Column("texts", sa.String(8), nullable=True),
    sa.Column("intervals", sa.Text, nullable=True),
    sa.Column("expired", sa.Integer, nullable=False, server_default="0"),
    sa.Column("estimated_calls", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("left_seconds", REAL, nullable=True),
    sa.Column("expires_at", MOMENT, nullable=True),
    sa.Column("ids_given", sa.Boolean, nullable=True),
    sa.Column("stored_bytes", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("rubric_digest", sa.String(64), nullable=True),
    sa.Column("rubric_differs", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Index(None, "project", "created_at", "id"),
    sa.Index("ix_batches_project_name", "project", sa.text("substr(name, 1, 64)"), "created_at", "id"),
    sa.Index(None, "status"),
)

table(
    "running_time",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seen_at", MOMENT, nullable=False),
    sa.Column("skipped_seconds", REAL, nullable=False),
)

table(
    "batch_metadata",
    parent("batch_id", "batches", primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    *columns(sa.Text, "key", "value"),
)

table(
    "batch_chunks",
    parent("batch_id", "batches", primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    *columns(sa.Integer, "first", "last"),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("queued_at", MOMENT, nullable=True),
    sa.Column("owner", sa.String(128), nullable=True),
    sa.Column("lease_until", MOMENT, nullable=True),
    sa.Column("crashes", sa.Integer, nullable=False),
    sa.Column("reserved_usd", REAL, nullable=False),
    sa.Column("begun", sa.Integer, nullable=False, server_default="0"),
    sa.Column("set_aside", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Index(None, "batch_id", "state", "number"),
)

table(
    "batch_items",
    parent("batch_id", "batches", primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("item", sa.Text, nullable=False),
    sa.Column("candidate", sa.Integer, nullable=True),
    sa.Column("request", sa.Text, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("cluster", sa.String(16), nullable=True),
)

table(
    "batch_texts",
    parent("batch_id", "batches", primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("text", sa.Text, nullable=False),
    sqlite_with_rowid=False,
)

table(
    "text_grams",
    parent("batch_id", "batches", primary_key=True),
    sa.Column("gram", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("first", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("places", sa.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

table(
    "result_figures",
    parent("batch_id", "batches", primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("system", sa.Text, nullable=True),
    *columns(sa.Text, "warnings", "unrated"),
    *(sa.Column(f"v{number:02}", REAL, nullable=True) for number in range(40)),
    sa.Column("cluster", sa.String(16), nullable=True),
    *columns(sa.BigInteger, "item_key", "context_key", nullable=True),
    sa.Column("spread", REAL, nullable=True),
    sqlite_with_rowid=False,
)

table(
    "run_frames",
    parent("batch_id", "batches", primary_key=True),
    sa.Column("state", sa.String(64), nullable=False),
    sa.Column("frame", sa.LargeBinary, nullable=False),
)

table(
    "batch_signatures",
    parent("batch_id", "batches", primary_key=True),
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("signature", sa.Text, nullable=False),
    sa.Column("count", sa.Integer, nullable=False),
)

table(
    "call_cache",
    sa.Column("key", sa.String(128), primary_key=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
    sa.Column("created_at", MOMENT, nullable=False),
    sa.Index(None, "created_at"),
)

table(
    "similarity_baselines",
    sa.Column("encoder", sa.String(512), primary_key=True),
    sa.Column("language", sa.String(8), primary_key=True),
    sa.Column("calibration", sa.String(64), primary_key=True),
    sa.Column("value", REAL, nullable=False),
)

table(
    "idempotency_keys",
    sa.Column("project", sa.String(64), primary_key=True),
    sa.Column("key", sa.String(255), primary_key=True),
    sa.Column("body_digest", sa.String(64), nullable=False),
    sa.Column("status", sa.Integer, nullable=True),
    sa.Column("body", sa.LargeBinary, nullable=True),
    sa.Column("created_at", MOMENT, nullable=False),
    sa.Index(None, "created_at"),
)

table(
    "project_bytes",
    sa.Column("project", sa.String(64), primary_key=True),
    sa.Column("bytes", sa.BigInteger, nullable=False),
)

table(
    "api_keys",
    sa.Column("id", sa.String(64), primary_key=True),
    *columns(sa.String(64), "name", "project"),
    sa.Column("scope", sa.String(16), nullable=False),
    sa.Column("hash", sa.String(64), nullable=False, unique=True),
    sa.Column("created_at", MOMENT, nullable=False),
    sa.Column("revoked_at", MOMENT, nullable=True),
    sa.Column("requests_per_minute", sa.Integer, nullable=True),
    sa.Column("usd_per_day", REAL, nullable=True),
)

table(
    "sessions",
    sa.Column("hash", sa.String(64), primary_key=True),
    parent("key_id", "api_keys"),
    *columns(MOMENT, "created_at", "expires_at"),
    sa.Index(None, "key_id", "created_at"),
    sa.Index(None, "expires_at"),
)

table("erased_calls", sa.Column("key", sa.String(128), primary_key=True))

table(
    "human_ratings",
    sa.Column("number", COUNTER, primary_key=True),
    sa.Column("project", sa.String(64), nullable=False),
    sa.Column("key", sa.String(64), nullable=False, unique=True),
    parent("batch_id", "batches", nullable=True),
    sa.Column("item", sa.Text, nullable=True),
    sa.Column("evaluation", sa.String(64), nullable=True),
    sa.Column("candidate", sa.Integer, nullable=True),
    sa.Column("system", sa.Text, nullable=True),
    *columns(sa.Text, "rater", "ratings"),
    sa.Column("comment", sa.Text, nullable=True),
    sa.Column("created_at", MOMENT, nullable=False),
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

table(
    "validations",
    *columns(sa.String(64), "project", "key", primary_key=True),
    *columns(sa.Text, "judge", "validation"),
)

table(
    "anchor_ratings",
    *columns(sa.String(64), "project", "key", primary_key=True),
    sa.Column("ratings", sa.Text, nullable=False),
)

table(
    "key_spending",
    sa.Column("api_key", sa.String(64), primary_key=True),
    sa.Column("day", sa.String(10), primary_key=True),
    sa.Column("cost_usd", REAL, nullable=False),
)

table(
    "project_policies",
    sa.Column("project", sa.String(64), primary_key=True),
    sa.Column("integrity", sa.String(16), nullable=False),
    sa.Column("texts", sa.String(8), nullable=False),
    sa.Column("after_days", REAL, nullable=False),
    sa.Column("salt", sa.String(64), nullable=False),
    sa.Column("redacted_to", MOMENT, nullable=True),
    sa.Column("updated_at", MOMENT, nullable=False),
)

table(
    "audit_events",
    sa.Column("number", COUNTER, primary_key=True),
    sa.Column("at", MOMENT, nullable=False),
    sa.Column("project", sa.String(64), nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("action", sa.String(64), nullable=False),
    *columns(sa.Text, "target", "detail"),
    sa.Index(None, "project", "number"),
    sqlite_autoincrement=True,
)

table(
    "provider_runs",
    parent("batch_id", "batches", primary_key=True),
    sa.Column("started_at", MOMENT, nullable=False),
    sa.Column("owner", sa.String(128), nullable=True),
    sa.Column("lease_until", MOMENT, nullable=True),
    sa.Column("next_step_at", MOMENT, nullable=False),
)

table(
    "provider_parts",
    sa.Column("batch_id", sa.String(64), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("state", sa.String(16), nullable=False),
    *columns(sa.Integer, "after", "last", "round", "requests"),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("cost_usd", REAL, nullable=True),
    *columns(sa.Text, "conceded", "parameters"),
    sa.Column("alone", sa.Boolean, nullable=False),
    *columns(sa.String(255), "file_id", "provider_batch_id", "output_file_id", "error_file_id", nullable=True),
    sa.ForeignKeyConstraint(["batch_id"], ["provider_runs.batch_id"], ondelete="CASCADE"),
)

table(
    "provider_replies",
    parent("batch_id", "batches", primary_key=True),
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("part", sa.Integer, nullable=True),
    sa.Column("reply", sa.LargeBinary, nullable=True),
)

table(
    "provider_calls",
    parent("batch_id", "batches", primary_key=True),
    sa.Column("key", sa.String(128), primary_key=True),
    sa.Column("characters", sa.Integer, nullable=False),
)

table(
    "provider_leftovers",
    sa.Column("kind", sa.String(8), primary_key=True),
    sa.Column("target", sa.String(255), primary_key=True),
    sa.Column("since", MOMENT, nullable=False),
    sa.Column("tried_at", MOMENT, nullable=True),
    sa.Index(None, "tried_at"),
)

table(
    "rating_rounds",
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("project", sa.String(64), nullable=False),
    parent("batch_id", "batches"),
    sa.Column("options", sa.Text, nullable=False),
    sa.Column("drawn", sa.Integer, nullable=False),
    sa.Column("created_at", MOMENT, nullable=False),
    sa.Column("closed_at", MOMENT, nullable=True),
    sa.Column("signals", sa.Text, nullable=True),
    sa.Index(None, "project", "created_at", "id"),
    sa.Index(None, "batch_id"),
)

table(
    "round_items",
    parent("round_id", "rating_rounds", primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("probability", REAL, nullable=True),
)

table(
    "round_tasks",
    parent("round_id", "rating_rounds", primary_key=True),
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("rater", sa.Text, nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("taken_at", MOMENT, nullable=False),
    sa.Column("done_at", MOMENT, nullable=True),
    sa.UniqueConstraint("round_id", "position", "key"),
)

table(
    "rating_invitations",
    sa.Column("id", sa.String(64), primary_key=True),
    parent("round_id", "rating_rounds"),
    sa.Column("rater", sa.Text, nullable=False),
    sa.Column("hash", sa.String(64), nullable=False, unique=True),
    *columns(MOMENT, "created_at", "expires_at"),
    sa.Column("revoked_at", MOMENT, nullable=True),
    sa.Index(None, "round_id"),
)

table(
    "rating_exclusions",
    *columns(sa.String(64), "project", "key", primary_key=True),
    sa.Column("rater", sa.Text, nullable=True),
    parent("round_id", "rating_rounds", nullable=True),
    sa.Column("created_at", MOMENT, nullable=False),
    sa.Index(None, "round_id"),
)

table(
    "links",
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("project", sa.String(64), nullable=False),
    parent("old_batch", "batches"),
    parent("new_batch", "batches"),
    sa.Column("created_at", MOMENT, nullable=False),
    *columns(sa.Text, "link", "draws"),
    sa.Index(None, "project", "created_at", "id"),
    sa.Index(None, "old_batch"),
    sa.Index(None, "new_batch"),
)

table(
    "baselines",
    *columns(sa.String(64), "project", "key", primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    parent("batch_id", "batches"),
    sa.Column("pinned_at", MOMENT, nullable=False),
    sa.Index(None, "batch_id"),
)

table(
    "sequences",
    *columns(sa.String(64), "project", "key", primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    parent("batch_id", "batches"),
    sa.Column("alpha", REAL, nullable=False),
    sa.Column("started_at", MOMENT, nullable=False),
    sa.Index(None, "batch_id"),
)

table(
    "sequence_builds",
    *columns(sa.String(64), "project", "key", primary_key=True),
    sa.Column("night", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("batch_id", sa.String(64), sa.ForeignKey("batches.id", ondelete="SET NULL"), nullable=True),
    sa.Column("judged_at", MOMENT, nullable=False),
    sa.Column("verdict", sa.String(16), nullable=False),
    sa.Column("drops", sa.Text, nullable=True),
    sa.ForeignKeyConstraint(["project", "key"], ["sequences.project", "sequences.key"], ondelete="CASCADE"),
    sa.Index(None, "project", "key", "batch_id", unique=True),
    sa.Index(None, "batch_id"),
)

table(
    "gates",
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("project", sa.String(64), nullable=False),
    parent("candidate", "batches", nullable=True),
    parent("baseline", "batches", nullable=True),
    sa.Column("at", MOMENT, nullable=False),
    *columns(sa.Text, "metadata", "report"),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Index(None, "project", "at", "id"),
    sa.Index(None, "candidate"),
    sa.Index(None, "baseline"),
)

table(
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
    sa.Column("created_at", MOMENT, nullable=False),
    sa.Index(None, "project", "created_at", "id"),
    sa.Index(None, "project", "key", "version", unique=True),
)

table(
    "dataset_parts",
    parent("dataset_id", "datasets", primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
