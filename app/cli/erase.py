"""`saiten erase`: removes everything of a project that bears certain metadata."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import asdict
from datetime import UTC, datetime

import click

from app.cli.keys import check_label
from app.cli.process import cli_actor
from app.domain.redaction import Erased
from app.governance.erasures import ErasureService
from app.openers import open_cache, open_database, open_redis
from app.runtime.settings import read_settings
from app.storage.sql.batches.store import BatchStore
from app.storage.sql.governance import AuditLog
from app.storage.sql.texts import TextStore


def read_entries(_: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """The entries by key. Raises BadParameter."""
    entries: dict[str, str] = {}
    for one in given:
        key, separator, value = one.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{one[:64]!r} is not KEY=VALUE")
        if entries.setdefault(key, value) != value:
            raise click.BadParameter(f"{key[:64]!r} is given twice")
    return entries


@click.command("erase")
@click.option("--project", required=True, callback=check_label, help="Whose evaluations.")
@click.option(
    "--metadata",
    "entries",
    multiple=True,
    required=True,
    callback=read_entries,
    metavar="KEY=VALUE",
    help="What marks them; given several times, all of them together.",
)
def command(project: str, entries: dict[str, str]) -> None:
    """Erase batches, candidates and evaluations that bear these metadata, everywhere (in DATABASE_URL, and REDIS_URL).

    Prints how many there were, as JSON. This cannot be undone.
    """
    click.echo(json.dumps(asdict(asyncio.run(erase(project, entries)))))


async def erase(project: str, entries: dict[str, str]) -> Erased:
    """What was erased. Raises SaitenError."""
    settings = read_settings()
    async with AsyncExitStack() as stack:
        engine = await open_database(settings, stack)
        # A cache in memory is the service's own: it finds what is owed within seconds.
        cache = None
        if settings.cache_kind != "memory":
            cache = open_cache(settings, engine, open_redis(settings, stack))
            stack.push_async_callback(cache.close)
        service = ErasureService(
            texts=TextStore(engine),
            batches=BatchStore(engine),
            cache=cache,
            audit=AuditLog(engine),
            now=lambda: datetime.now(UTC),
        )
        return await service.erase(project, entries, actor=cli_actor())
