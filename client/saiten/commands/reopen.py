"""`saiten reopen`: ends the pauses that the endpoints of judge and translator asked for."""

from __future__ import annotations

import asyncio

import click

from saiten.answers import JudgePause
from saiten.commands.service import URL, send
from saiten.core.language import tell
from saiten.reading import read

JUDGE_PAUSE_PATH = "/v1/judge/pause"


@click.command("reopen")
@URL
def command(url: str | None) -> None:
    """Call a judge again that asked for a pause (`Retry-After`, or an exhausted rate limit).

    Ends the pause of the service at --url in all its processes, and its translator's. Needs a key with the scope admin.

    Exit 0: both may be called; 2: bad usage; 3: could not run.
    """
    if url is None:
        raise click.UsageError(tell("name the service with --url or SAITEN_URL"))
    pause = read(JudgePause, asyncio.run(send("GET", JUDGE_PAUSE_PATH, url)))
    asyncio.run(send("DELETE", JUDGE_PAUSE_PATH, url))
    if pause.seconds:
        click.echo(tell("the pause is ended, {seconds:.0f} s early", seconds=pause.seconds))
    if pause.translator_seconds:
        click.echo(tell("the translator's pause is ended, {seconds:.0f} s early", seconds=pause.translator_seconds))
    if not (pause.seconds or pause.translator_seconds):
        click.echo(tell("there was no pause"))
