"""`saiten audit`: what administrators did."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import click

from app.cli.output import console, print_ndjson
from app.domain.governance import AuditEvent
from app.domain.plain_text import printable
from app.runtime.settings import read_settings
from app.storage.sql.engine import open_engine
from app.storage.sql.governance import AuditLog
from app.storage.sql.schema import migrate

PAGE = 1000


@click.command("audit")
@click.option("--project", help="Only this project's.  [default: all projects]")
@click.option("--limit", type=click.IntRange(min=1), help="So many of the newest.  [default: 50; with --json: all]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(project: str | None, limit: int | None, as_json: bool) -> None:
    """Show what administrators did, newest first (in DATABASE_URL).

    Keys that were made, limited and revoked, changed policies, erasures, replaced references of the judge, and attempts
    to administer that were refused. Exit 0: shown; 3: could not run.
    """
    asyncio.run(show(project, limit, as_json=as_json))


async def show(project: str | None, limit: int | None, *, as_json: bool) -> None:
    """Prints them. Raises SaitenError."""
    engine = open_engine(read_settings().sqlalchemy_url)
    try:
        await migrate(engine)
        if as_json:
            async for event in newest(AuditLog(engine), project, limit):
                print_ndjson(event.model_dump(mode="json"))
        else:
            print_events([event async for event in newest(AuditLog(engine), project, limit or 50)])
    finally:
        await engine.dispose()


async def newest(log: AuditLog, project: str | None, limit: int | None) -> AsyncIterator[AuditEvent]:
    """The newest events, all where `limit` is None."""
    before, left = None, limit
    while left is None or left > 0:
        asked = PAGE if left is None else min(PAGE, left)
        page = await log.events(project, before=before, limit=asked)
        for event in page:
            yield event
        if len(page) < asked:
            return
        before = page[-1].number
        left = None if left is None else left - asked


def print_events(events: list[AuditEvent]) -> None:
    """A table, with moments in UTC."""
    from rich.table import Table

    table = Table("when (UTC)", "project", "actor", "action", "target", "detail")
    for event in events:
        detail = json.dumps(event.detail, ensure_ascii=False) if event.detail else ""
        told = (event.project, event.actor, event.action, event.target, detail)
        table.add_row(f"{event.at:%Y-%m-%d %H:%M:%S}", *map(printable, told))
    console().print(table if events else "nothing was administered yet")
