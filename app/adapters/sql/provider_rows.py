"""Parts of a provider's batch, and what is left of them, as rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping, delete, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql.provider_tables import provider_leftovers, provider_parts
from app.adapters.sql.store import insert_or_ignore
from app.provider_ports import Leftover, LeftoverKind, Part

JSON_COLUMNS = ("conceded", "parameters")


def write_part(part: Part) -> dict[str, Any]:
    """The part as a row."""
    row = asdict(part)
    row["batch_id"] = row.pop("batch")
    for name in JSON_COLUMNS:
        row[name] = json.dumps(row[name], ensure_ascii=False)
    return row


def read_part(row: RowMapping) -> Part:
    """A row as a part."""
    fields: dict[str, Any] = dict(row)
    fields["batch"] = fields.pop("batch_id")
    for name in JSON_COLUMNS:
        fields[name] = json.loads(fields[name])
    fields["conceded"] = tuple(fields["conceded"])
    return Part(**fields)


async def replace_part(connection: AsyncConnection, part: Part) -> None:
    """Puts the part in the place of what was known of it."""
    table = provider_parts
    await connection.execute(delete(table).where(table.c.batch_id == part.batch, table.c.number == part.number))
    await connection.execute(insert(table).values(write_part(part)))


async def insert_leftovers(
    connection: AsyncConnection, leftovers: Sequence[Leftover], now: datetime, *, tried: bool = False
) -> None:
    """Keeps leftovers, each once; `tried` ones rest first."""
    for one in leftovers:
        row = {"kind": one.kind, "target": one.target, "since": now, "tried_at": now if tried else None}
        await connection.execute(insert_or_ignore(connection, provider_leftovers, row))


def list_remains(part: Part) -> list[Leftover]:
    """What may stand at the provider on account of a part."""
    if part.state == "done":
        return []
    if part.state == "uploading":
        return [Leftover("name", part.file_name)]
    if part.provider_batch_id is not None and part.state == "submitted":
        # Its files are found through it: some may be made yet.
        return [Leftover("batch", part.provider_batch_id)]
    found: list[tuple[LeftoverKind, str | None]] = [
        ("file", part.file_id),
        ("file", part.output_file_id),
        ("file", part.error_file_id),
    ]
    if part.state == "uploaded":
        # A batch may have been made of it a moment ago, which is found by its tags alone.
        found.append(("tags", part.file_id and json.dumps(part.tags)))
    return [Leftover(kind, target) for kind, target in found if target is not None]
