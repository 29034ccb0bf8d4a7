"""Links between judges, which are erased with either of their batches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten.core.messages import Message
from saiten_server.comparison.links.values import Link, StoredLink
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.tables import batches, equals
from saiten_server.platform.sql.tables import links as table
from saiten_server.runs.store.rows import RECEIVING
from saiten_server.scoring.store import STORED

links = table.c

MOST_LINKS = 200
"""Links of a project."""


class LinkStore:
    """Links by project. Raises the `Store…` errors of `saiten_server.core.errors`."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def keep(self, project: str, stored: StoredLink) -> None:
        """Stores it. Raises NotFound if one of its batches is gone, and InvalidRequest beyond `MOST_LINKS`."""
        link = stored.link
        ids = sorted({link.old, link.new})
        mine = (batches.c.id.in_(ids), batches.c.project == project, batches.c.status != RECEIVING)
        row = {
            "id": link.id,
            "project": project,
            "old_batch": link.old,
            "new_batch": link.new,
            "created_at": link.created_at,
            "link": link.model_dump_json(),
            "draws": json.dumps(stored.draws, separators=(",", ":")),
        }
        async with db.change(self._engine) as connection:
            # Held to the end, in the order of all who lock several: an erasure then takes the link along.
            held = select(batches.c.id).where(*mine).order_by(batches.c.id).with_for_update(key_share=True, read=True)
            if len((await connection.execute(held)).all()) < len(ids):
                raise NotFound(Message("link-batch-erased"))
            known = select(func.count()).select_from(table).where(links.project == project)
            if (await connection.execute(known)).scalar_one() >= MOST_LINKS:
                raise InvalidRequest(Message("links-most", most=MOST_LINKS))
            await connection.execute(insert(table), row)

    async def find(self, project: str, link_id: str) -> StoredLink | None:
        """The link; None where the project has none of that id."""
        found = await db.fetch_one(
            self._engine, select(links.link, links.draws).where(*link_conditions(project, link_id))
        )
        return None if found is None else StoredLink(read_link(found.link), json.loads(found.draws))

    async def remove(self, project: str, link_id: str) -> bool:
        """Removes it; returns whether there was one."""
        return bool(await db.execute(self._engine, delete(table).where(*link_conditions(project, link_id))))

    async def list(self, project: str) -> Sequence[Link]:
        """The project's links, newest first."""
        query = select(links.link).where(equals(links.project, project))
        newest = query.order_by(links.created_at.desc(), links.id.desc())
        return [read_link(text) for text in await db.fetch_column(self._engine, newest)]


def link_conditions(project: str, link_id: str) -> tuple[ColumnElement[bool], ...]:
    """The conditions of a link."""
    return equals(links.project, project), equals(links.id, link_id)


def read_link(text: Any) -> Link:
    """The link of a row."""
    return Link.model_validate_json(text, context=STORED)
