"""`saiten link`: shows what one judge rated on the scale of another."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from itertools import groupby
from urllib.parse import quote

import click

from saiten.answers import Batch, Link, Links
from saiten.commands.files import InvalidItems
from saiten.commands.service import NO_JUDGE, URL, open_service, send
from saiten.connection import Connection, Object
from saiten.core.figures import write_figure
from saiten.core.language import tell
from saiten.core.plain_text import escape_controls, printable
from saiten.reading import read
from saiten.waiting import read_object

LINKS_PATH = "/v1/links"
ANCHOR_FIELDS = ("context", "response", "turns", "persona", "goal", "metadata")
FEWEST_PAIRS = 100
"""Responses that both judges rate without which no link is made."""

EACH_LEVEL = 5
"""Responses of each level of each aspect that a plan takes first, where there are so many."""


class LinkGroup(click.Group):
    """`saiten link OLD NEW` is `saiten link make OLD NEW`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0].startswith(("ba_", "-")):
            args = ["make", *args]
        return super().resolve_command(ctx, args)


@click.group("link", cls=LinkGroup)
def command() -> None:
    """Link two judges that rated the same responses: saiten link OLD NEW, with the ids of their batches.

    A comparison or a gate that names the link (saiten gate --link ln_…) shows runs of the old judge on the new one's
    scale.
    """


@command.command("make")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@click.option(
    "--method",
    type=click.Choice(["equipercentile", "linear"]),
    help="For all aspects (by the scale: linear below five levels).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer of POST /v1/links.")
@URL
def make(old: str, new: str, method: str | None, as_json: bool, url: str | None) -> None:
    """Link the judges of two batches, and store the link.

    Exit 0: an aspect is linked; 1: none is, with the reasons; 2: bad usage; 3: could not run.
    """
    asked = {"old": old, "new": new, **({} if method is None else {"method": method})}
    answer = asyncio.run(send("POST", LINKS_PATH, url, asked))
    link = read(Link, answer)
    if as_json:
        click.echo(escape_controls(json.dumps(answer, ensure_ascii=False, indent=2)))
    else:
        print_link(link)
    if all(one.state == "refused" for one in link.aspects.values()):
        raise click.exceptions.Exit(1)


@command.command("list")
@URL
def show_all(url: str | None) -> None:
    """List the links, newest first.

    Exit 0: listed; 2: bad usage; 3: could not run.
    """
    for link in read(Links, asyncio.run(send("GET", LINKS_PATH, url))).items:
        linked = ", ".join(name for name, one in link.aspects.items() if one.state == "linked") or "-"
        click.echo(printable(f"{link.id}  {link.created_at:%Y-%m-%d}  {link.old} -> {link.new}  {linked}"))


@command.command("delete")
@click.argument("link_id", metavar="LINK")
@URL
def delete(link_id: str, url: str | None) -> None:
    """Delete a link.

    Exit 0: deleted; 2: bad usage; 3: could not run, or there is no such link.
    """
    asyncio.run(send("DELETE", f"{LINKS_PATH}/{quote(link_id, safe='')}", url))
    click.echo(tell("deleted"))


@command.command("plan")
@click.argument("old", metavar="OLD")
@click.option("--items", default=150, show_default=True, type=click.IntRange(100, 2000), help="How many responses.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the choice.")
@URL
def plan(old: str, items: int, seed: int, url: str | None) -> None:
    """Print items of the batch OLD that a new judge should rate too, as NDJSON for saiten batch.

    First some of every level of every aspect, then responses drawn at random. The first line holds the batch's rubric
    and language path.
    Exit 0: printed; 2: bad usage; 3: could not run.
    """
    asyncio.run(print_plan(old, items, seed, url))


def print_link(link: Link) -> None:
    """The tables, or why there is none."""
    click.echo(printable(f"{link.id}: {link.old} -> {link.new}"))
    for name, one in link.aspects.items():
        if one.state == "refused":
            click.echo(printable(tell("{name}: not linked: {reason}", name=name, reason=one.reason or "")))
            continue
        levels = "  ".join(f"{level} -> {write_figure(shown.value, 2)}" for level, shown in one.table.items())
        click.echo(printable(tell("{name}: {levels}  (n {n})", name=name, levels=levels, n=one.n)))
        if one.pairs_needed is not None and one.pairs_needed > one.n:
            told = tell(
                "  within .05 of the scale with {pairs} responses that both judges rate", pairs=one.pairs_needed
            )
            click.echo(told)


def choose_anchors(rows: Sequence[Mapping[str, float]], count: int, seed: int) -> list[int]:
    """The numbers of the rows to take, of which each has ratings by aspect: first of every level of every aspect, the
    rarest first, then at random. In order."""
    shuffled = list(range(len(rows)))
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - no secret
    levels: dict[tuple[str, int], list[int]] = {}
    for number in shuffled:
        for name, value in rows[number].items():
            levels.setdefault((name, round(value)), []).append(number)
    chosen: dict[int, None] = {}
    for _, members in sorted(levels.items(), key=lambda entry: (len(entry[1]), entry[0])):
        have = sum(number in chosen for number in members)
        fresh = [number for number in members if number not in chosen]
        chosen.update(dict.fromkeys(fresh[: max(0, EACH_LEVEL - have)]))
    for number in shuffled:
        if len(chosen) >= count:
            break
        chosen[number] = None
    return sorted(list(chosen)[:count])


async def print_plan(old: str, count: int, seed: int, url: str | None) -> None:
    """The options of the batch, and the items with their texts. Raises InvalidItems where these are no longer kept."""
    async with open_service(url, NO_JUDGE) as service:
        batch = read(Batch, await service.batch(old))
        ids, rows, found = [], [], []
        async for line in service.results(old):
            result = json.loads(line)
            aspects = result.get("aspects") or {}
            ratings = {name: one["mean"] for name, one in aspects.items() if one.get("mean") is not None}
            if ratings:
                ids.append(result)
                rows.append(ratings)
        chosen = choose_anchors(rows, count, seed)
        for number in chosen:
            found.append(await fetch_item(service, ids[number]))
    options: Object = {"rubric": batch.rubric_name, "path": batch.path}
    for entry in (options, *join_candidates(found)) if found else ():
        click.echo(escape_controls(json.dumps(entry, ensure_ascii=False)))
    click.echo(tell("{count} of {total} responses", count=len(chosen), total=len(rows)), err=True)
    if len(chosen) < FEWEST_PAIRS:
        click.echo(tell("a link needs at least {fewest}: take a larger batch", fewest=FEWEST_PAIRS), err=True)


def join_candidates(items: Sequence[Object]) -> list[Object]:
    """The items, of which those with one id, candidates of one context that follow each other, become one."""
    joined: list[Object] = []
    for _, several in groupby(items, key=lambda item: item["id"]):
        first, *others = several
        responses = [one.pop("response") for one in (first, *others) if others]
        joined.append({**first, "responses": responses} if others else first)
    return joined


async def fetch_item(service: Connection, result: Object) -> Object:
    """The result's item as it was scored. Raises InvalidItems where its texts are no longer kept."""
    answer = await service.request("GET", f"/v1/evaluations/{result['id']}", params={"include": "request"})
    request = read_object(answer).get("request") or {}
    if not isinstance(request, dict) or not {"response", "turns"} & request.keys():
        raise InvalidItems(
            tell("the texts of {item} are no longer kept, so no other judge can be asked", item=repr(result["item"]))
        )
    kept = {name: request[name] for name in ANCHOR_FIELDS if request.get(name)}
    dialogue = {"dialogue": result["dialogue"]} if result.get("dialogue") else {}
    return {"id": result["item"], **dialogue, **kept}
