"""`saiten baseline`: pins the run that later runs of its name are compared with."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import click

from saiten.answers import Baseline, Baselines
from saiten.commands.service import URL, send
from saiten.core.language import tell
from saiten.core.plain_text import printable
from saiten.reading import read

BASELINES_PATH = "/v1/baselines"


@click.group("baseline")
def command() -> None:
    """Pin the run that later runs of its name are compared with.

    The dashboard compares runs of the same name, system and rubric with it, and a gate that names no baseline uses it.
    """


@command.command("pin")
@click.argument("name", metavar="NAME")
@click.argument("batch", metavar="BATCH")
@URL
def pin(name: str, batch: str, url: str | None) -> None:
    """Make the completed batch BATCH, which is called NAME, the baseline of its name, in the place of an earlier one.

    Exit 0: pinned; 2: bad usage; 3: could not run, or there is no such batch.
    """
    found = read(Baseline, asyncio.run(send("PUT", address_of(name), url, {"batch": batch})))
    click.echo(printable(tell("{name}: {batch} is the baseline", name=found.name, batch=found.batch)))


@command.command("list")
@URL
def show_all(url: str | None) -> None:
    """List the pinned baselines, by name.

    Exit 0: listed; 2: bad usage; 3: could not run.
    """
    for one in read(Baselines, asyncio.run(send("GET", BASELINES_PATH, url))).items:
        click.echo(printable(f"{one.batch}  {one.pinned_at:%Y-%m-%d}  {one.name}"))


@command.command("unpin")
@click.argument("name", metavar="NAME")
@URL
def unpin(name: str, url: str | None) -> None:
    """Take the baseline of the runs called NAME away: each is compared with the run before it again.

    Exit 0: unpinned; 2: bad usage; 3: could not run, or the name has no baseline.
    """
    asyncio.run(send("DELETE", address_of(name), url))
    click.echo(printable(tell("{name}: no baseline is pinned", name=name)))


def address_of(name: str) -> str:
    """Where the baseline of the name is."""
    return f"{BASELINES_PATH}/{quote(name, safe='')}"
