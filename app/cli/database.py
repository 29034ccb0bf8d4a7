"""`saiten database`: the schema's revision, and the way back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.plain_text import printable
from app.runtime.settings import read_settings
from app.storage.sql.engine import open_engine
from app.storage.sql.schema import Revision, downgrade, find_revision, known_revisions, revisions_above

Result = TypeVar("Result")


@click.group("database")
def command() -> None:
    """Show the schema's revision, and take it back to an older one (of DATABASE_URL).

    Upgrades need no command: whatever opens the database brings it up to date first.
    """


def with_engine(work: Callable[[AsyncEngine], Awaitable[Result]]) -> Result:
    """Runs `work` on the configured database as it is, without bringing it up to date."""

    async def run() -> Result:
        engine = open_engine(read_settings().sqlalchemy_url)
        try:
            return await work(engine)
        finally:
            await engine.dispose()

    return asyncio.run(run())


@command.command("show")
def show() -> None:
    """Show the database's revision, and those that this version of Saiten knows. Changes nothing."""
    own = with_engine(find_revision)
    known = known_revisions()
    for revision in known:
        click.echo(f"{'*' if revision.number == own else ' '} {revision.number}  {revision.about}")
    if own is None:
        click.echo("the database has no tables yet")
    elif own not in {revision.number for revision in known}:
        click.echo(f"* {printable(own)}  made by a newer version of Saiten")


@command.command("downgrade")
@click.argument("revision")
@click.option("--yes", is_flag=True, help="Do it. Without this, only what would be lost is shown.")
def take_back(revision: str, yes: bool) -> None:
    """Take the schema back to REVISION, for an older version of Saiten.

    Stop the service and all workers first, of every version, and make a backup: what later revisions kept is lost. Any
    command of this version brings the schema up to date again, so start the older version next.
    """
    lost = with_engine(lambda engine: revisions_above(engine, revision))
    if not lost:
        click.echo(f"the database has revision {revision} already", err=True)
        return
    tell_lost(lost)
    if not yes:
        raise click.UsageError("nothing was changed; stop the service and all workers, make a backup, then add --yes")
    with_engine(lambda engine: downgrade(engine, revision))
    click.echo(f"the database has revision {revision} now; start the older version of Saiten", err=True)


def tell_lost(lost: list[Revision]) -> None:
    """Says what goes."""
    click.echo("Taken away with all that is in it:", err=True)
    for revision in lost:
        click.echo(f"  {revision.number}  {revision.about}", err=True)
