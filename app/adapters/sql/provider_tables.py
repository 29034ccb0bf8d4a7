"""The tables of batches in the provider's own batch mode."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
)

from app.adapters.sql.tables import Instant, batch_id, metadata

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

# As `app.provider_ports.Part` has it; `conceded` and `parameters` are JSON. Goes with the run, so that a step which
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

# Outlives the batch. `kind` and `target` are those of `app.provider_ports.Leftover`.
provider_leftovers = Table(
    "provider_leftovers",
    metadata,
    Column("kind", String(8), primary_key=True),
    Column("target", String(255), primary_key=True),
    Column("since", Instant, nullable=False),
    Column("tried_at", Instant, nullable=True),
    Index(None, "tried_at"),
)
