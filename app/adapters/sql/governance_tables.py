"""Tables of what keys have spent, of projects' policies, and of what administrators did."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, String, Table, Text

from app.adapters.sql.tables import Instant, metadata

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
