"""`saiten simulate`: simulated users talk to the system under test."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import httpx

from saiten.bots import Bot
from saiten.commands.bot import BOT, BotOptions, bot_options
from saiten.commands.collect import (
    EXIT_SOME_FAILED,
    failures_beside,
    gather,
    require_places,
    write_items,
)
from saiten.commands.files import InvalidItems
from saiten.commands.output import open_progress
from saiten.commands.service import LEXICAL, URL, open_service
from saiten.connection import Connection, once
from saiten.core.errors import ServiceRefused
from saiten.core.language import suggest, tell
from saiten.core.plain_text import printable
from saiten.core.strict_json import MARK, parse_strict_json
from saiten.simulation import (
    FEWEST_TURNS,
    MOST_TURNS,
    USER_LANGUAGES,
    ModelUser,
    ScriptedUser,
    Simulated,
    User,
    UserUnusable,
    plan,
    read_people,
    simulate,
)
from saiten.waiting import read_object

USER_KEY_VARIABLE = "SAITEN_USER_API_KEY"
"""The variable that holds the key of the endpoint that plays the users."""

MOST_TOLD = 5
RATED_AT_ONCE = 8
"""Conversations that the service is asked to rate at once."""


@click.command("simulate")
@BOT
@click.option(
    "--personas", "language", required=True, type=click.Choice(USER_LANGUAGES), help="The language of the users."
)
@click.option("--output", required=True, metavar="FILE", help="Where the conversations go, as NDJSON.")
@click.option("--only", "chosen", multiple=True, metavar="PERSONA", help="One of the users; may be given repeatedly.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0, 2**31 - 1), help="Of what users say.")
@click.option(
    "--repeat",
    default=1,
    show_default=True,
    type=click.IntRange(1, 800),
    help="Conversations per user: seeds from --seed on.",
)
@click.option(
    "--turns", default=20, show_default=True, type=click.IntRange(FEWEST_TURNS, MOST_TURNS), help="Of both speakers."
)
@click.option("--persona", metavar="JSON|@FILE", help="The persona that the system is to keep, to be judged by.")
@click.option(
    "--user", metavar="URL", help="An OpenAI-compatible endpoint that plays the users; without it they follow a script."
)
@click.option("--user-model", metavar="NAME", help="With --user: the model.")
@bot_options("Conversations at once (8), or processes (1).")
@click.option(
    "--list",
    "shows",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda c, _, on: list_people(c, on),
    help="List the users and exit.",
)
@click.option("--score", "scores", is_flag=True, help="Rate what was said, and name the turns that went wrong.")
@click.option("--rubric", metavar="ID", help="With --score: the rubric (ja-conversation or ko-conversation).")
@URL
def command(
    bot: BotOptions,
    language: str,
    output: str,
    chosen: tuple[str, ...],
    seed: int,
    repeat: int,
    turns: int,
    persona: str | None,
    user: str | None,
    user_model: str | None,
    scores: bool,
    rubric: str | None,
    url: str | None,
) -> None:
    """Let simulated users talk to a bot, and keep the conversations.

    Twelve users ship in Japanese and twelve in Korean. The same seed and the same replies give the same conversations.
    Complete conversations go to --output; those that a failing reply cut off go to FILE.failed.ndjson. With --score the
    service rates each as a whole, and the results go to FILE.results.ndjson.

    Exit 0: all conversations are complete, and rated where that was asked for; 1: some are not; 2: bad usage or input;
    3: could not run; 130: interrupted, what was complete is kept.
    """
    if (user is None) != (user_model is None):
        raise click.UsageError(tell("--user and --user-model go together"))
    if rubric is not None and not scores:
        raise click.UsageError(tell("--rubric goes with --score"))
    if turns % 2:
        raise click.UsageError(tell("--turns must be even: the system has the last word"))
    target = Path(output)
    require_places(target, "-")
    kept = read_persona(persona)
    talks = plan_all(language, seed, repeat, chosen)
    opened = bot.open()
    try:
        asyncio.run(hold(talks, opened, turns, bot.lanes, user, user_model or ""))
    finally:
        # Also after an interruption: what was said took time, and may have cost money.
        complete = [one for one in talks if one.failure is None and len(one.turns) == turns]
        failed = [one for one in talks if one.failure is not None]
        if complete or failed:
            write_items(target, (one.to_item(kept) for one in complete))
            write_failed(target, failed)
            report(talks, complete, failed, target)
    rated = True
    ratings = target.with_name(f"{target.stem}.results.ndjson")
    if scores and not complete:
        ratings.unlink(missing_ok=True)  # those of an earlier run
    elif scores:
        bodies = [{**one.to_item(kept), "rubric": rubric or f"{language}-conversation"} for one in complete]
        rated = asyncio.run(score_conversations(bodies, url, ratings))
    if failed or not rated:
        raise click.exceptions.Exit(EXIT_SOME_FAILED)


async def score_conversations(bodies: Sequence[dict[str, Any]], url: str | None, target: Path) -> bool:
    """Has the service rate the conversations, prints a line for each, and writes the results; returns whether all are
    rated. Raises SaitenError where there is no service."""
    results: dict[int, dict[str, Any]] = {}
    async with open_service(url) as service:
        if url is None and (await service.info()).get("judge", {}).get("baseline"):
            click.echo(tell(LEXICAL), err=True)
        remaining = iter(enumerate(bodies))

        async def work() -> None:
            for at, body in remaining:
                results[at] = await rate(service, body)

        await gather([work() for _ in range(min(RATED_AT_ONCE, len(bodies)))])
    for at in sorted(results):
        click.echo(printable(describe_conversation(results[at])))
    write_items(target, (results[at] for at in sorted(results)))
    click.echo(printable(tell("saiten: the results are in {path}", path=target)), err=True)
    return not any("error" in result for result in results.values())


async def rate(service: Connection, body: dict[str, Any]) -> dict[str, Any]:
    """The conversation's id and result, or in its place the error."""
    asked = {name: value for name, value in body.items() if name != "id"}
    try:
        answer = await service.request("POST", "/v1/conversations", json=asked, headers=once("application/json"))
        return {"id": body["id"], "result": read_object(answer)}
    except ServiceRefused as error:
        return {"id": body["id"], "error": {"code": error.code, "detail": error.detail}}


def describe_conversation(result: dict[str, Any]) -> str:
    """One conversation on one line: `ja-lonely-night-1  overall 4  turn 5: register-shift`."""
    if "error" in result:
        return f"{result['id']}  {result['error']['code']}: {result['error']['detail']}"
    aspects, findings = result["result"]["aspects"], result["result"].get("findings") or ()
    rated = [f"{name} {one['rating']}" for name, one in aspects.items() if one.get("rating") is not None]
    found = [tell("turn {turn}: {what}", turn=one["turn"], what=one["code"] or one["aspect"]) for one in findings]
    return "  ".join([result["id"], ", ".join(rated) or tell("unrated"), ", ".join(found) or tell("no findings")])


def list_people(context: click.Context, on: bool) -> None:
    """Lists the people of all languages."""
    if on:
        for language in USER_LANGUAGES:
            for person in read_people(language):
                click.echo(f"{language}  {person.id:<22}{person.name}")
        context.exit()


def read_persona(written: str | None) -> dict[str, Any] | None:
    """The JSON object of `--persona`, or of the file that it names after an `@`."""
    if written is None:
        return None
    try:
        named = written.startswith("@")
        body = Path(written[1:]).read_bytes() if named else written.encode("utf-8", "surrogateescape")
        value = parse_strict_json(body.removeprefix(MARK))
    except OSError as error:
        raise InvalidItems(f"--persona: {written[1:]}: {tell(error.strerror or '')}") from None
    except ValueError as error:
        raise InvalidItems(printable(tell("--persona is not JSON: {error}", error=error))) from None
    if (
        not isinstance(value, dict)
        or not value
        or not all(isinstance(one, str | int | float) for one in value.values())
    ):
        raise InvalidItems(tell('--persona: write an object, such as {"name": "…", "age": 24}'))
    return value


def plan_all(language: str, seed: int, repeat: int, chosen: Sequence[str]) -> list[Simulated]:
    """Every conversation to be held. Raises UsageError for a person who does not exist, or for too many."""
    try:
        talks = [one for more in range(repeat) for one in plan(language, seed + more, tuple(dict.fromkeys(chosen)))]
    except ValueError as error:
        known = [person.id for person in read_people(language)]
        raise click.UsageError(
            tell("--only {name}: there is no such user", name=error) + suggest(str(error), known)
        ) from None
    return talks


async def hold(talks: Sequence[Simulated], bot: Bot, turns: int, lanes: int, url: str | None, model: str) -> None:
    """Holds the conversations, `lanes` at once. Raises SaitenError where no user can speak."""
    given_up: set[str] = set()
    try:
        async with httpx.AsyncClient() as client:

            def open_user(told: Simulated) -> User:
                if url is None:
                    return ScriptedUser(told.person, told.seed)
                key = os.environ.get(USER_KEY_VARIABLE, "").strip() or None
                return ModelUser(client, url, model, key=key, given_up=given_up)

            remaining = iter(talks)
            with open_progress() as progress:
                bar = progress.add_task(tell("talking"), total=len(talks))

                async def work() -> None:
                    for told in remaining:
                        await simulate(bot, open_user(told), told, turns)
                        progress.advance(bar)

                await gather([work() for _ in range(min(lanes, len(talks)))])
    except httpx.InvalidURL as error:
        raise UserUnusable(f"--user: {error}") from None
    finally:
        await bot.close()


def write_failed(target: Path, failed: Sequence[Simulated]) -> None:
    """Writes the conversations that were cut off beside the others, or removes those of an earlier run."""
    if not failed:
        failures_beside(target).unlink(missing_ok=True)
        return
    items = []
    for one in failed:
        item = one.to_item()
        if one.failure is not None:
            item["metadata"]["error"] = printable(f"{one.failure.code}: {one.failure.detail}")[:256]
        items.append(item)
    write_items(failures_beside(target), items)


def report(
    talks: Sequence[Simulated], complete: Sequence[Simulated], failed: Sequence[Simulated], target: Path
) -> None:
    """Says on standard error what there is now, and what to do next."""
    lines = [
        tell(
            "saiten: {count:,} of {total:,} conversations are complete: {path}",
            count=len(complete),
            total=len(talks),
            path=target,
        )
    ]
    if failed:
        lines.append(tell("  {count:,} were cut off: {path}", count=len(failed), path=failures_beside(target)))
    for one in failed[:MOST_TOLD]:
        if one.failure is not None:
            lines.append(f"  {one.id}: {one.failure.detail}")
    for line in lines:
        click.echo(printable(line), err=True)
