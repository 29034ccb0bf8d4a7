"""`saiten compare-runs`: stored runs are compared in pairs, and the counts are shown."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

import click

from saiten.answers import Batch, ChoiceCounts, PositionReport, PreferenceSummary
from saiten.commands import exits
from saiten.commands.files import InvalidItems
from saiten.commands.gate_settings import read_metadata
from saiten.commands.output import TerminalTable, bounds, console, figure, make_progress, open_progress, print_sheet
from saiten.commands.runs import Progress
from saiten.commands.service import LEXICAL, URL, open_service
from saiten.connection import JSON, Connection, Object, once
from saiten.core.errors import AnswerInvalid, BatchStopped, ServiceRefused
from saiten.core.language import tell
from saiten.core.plain_text import escape_controls, printable
from saiten.following import Follower
from saiten.items import write_json
from saiten.reading import read
from saiten.waiting import read_object

PREFERENCE_RUNS_PATH = "/v1/preference-runs"


@click.command("compare-runs")
@click.argument("runs", metavar="RUN RUN…", nargs=-1, required=True)
@click.option("--baseline", metavar="RUN", help="Compare each run with this one alone (every two of them).")
@click.option("--aspect", "aspects", multiple=True, metavar="NAME", help="An aspect; may be repeated (overall).")
@click.option("--path", type=click.Choice(["source", "english"]), help="Judge the texts, or their translations.")
@click.option("--one-order", is_flag=True, help="Show each pair in one order, at half the price.")
@click.option("--active", is_flag=True, help="Choose the next pairs by what is known, until every rank is.")
@click.option("--budget-usd", type=float, metavar="USD", help="The most that the judge may cost.")
@click.option("--budget-calls", type=click.IntRange(1), metavar="N", help="The most judge calls that are planned.")
@click.option("--name", metavar="NAME", help="Name of the comparison.")
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="Metadata of the comparison; may be repeated.")
@click.option("--allow-signature-mismatch", is_flag=True, help="Also compare runs that were not rated alike.")
@click.option("--estimate", is_flag=True, help="Print what it would take, and call no judge.")
@click.option("--no-wait", is_flag=True, help="Print the id as soon as the service has accepted it.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer of GET /v1/preference-runs/ID/summary.")
@URL
def command(
    runs: tuple[str, ...],
    aspects: tuple[str, ...],
    metadata: tuple[str, ...],
    url: str | None,
    *,
    one_order: bool,
    active: bool,
    estimate: bool,
    no_wait: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare runs in pairs: the judge says which of two systems' responses to an item is better, in both orders.

    RUN is the id of a batch, ba_…, of a service (--url), or of DATABASE_URL.

    Exit 0: all compared; 1: some pairs have no preference; 2: bad usage, or runs that cannot be compared; 3: could not
    run.
    """
    if no_wait and url is None:
        raise click.UsageError(tell("--no-wait goes with --url: a private service ends with this command"))
    body: dict[str, Any] = {"runs": list(runs)}
    body |= {name: value for name, value in options.items() if value not in (None, False)}
    if options.get("baseline"):
        body["pairs"] = "baseline"
    if active:
        body |= {"pairs": "active", "stop": "resolved"}
    if one_order:
        body["orders"] = "random"
    if aspects:
        body["aspects"] = list(aspects)
    if metadata:
        body["metadata"] = read_metadata(metadata)
    with open_progress() as bar:
        answer = asyncio.run(run_comparison(body, url, make_progress(bar), estimate=estimate, waits=not no_wait))
    if estimate or as_json:
        click.echo(escape_controls(json.dumps(answer, ensure_ascii=False, indent=2)))
        return
    if no_wait:
        click.echo(answer["id"])
        return
    summary = read(PreferenceSummary, answer)
    print_preferences(summary)
    if any(counts.missing for counts in summary.aspects.values()):
        raise click.exceptions.Exit(exits.FELL_SHORT)


async def run_comparison(body: Object, url: str | None, progress: Progress, *, estimate: bool, waits: bool) -> Object:
    """The estimate, the accepted run, or the summary once it is completed. Raises InvalidItems for what the service
    refuses, and SaitenError."""
    async with open_service(url) as service:
        judge = (await service.info()).get("judge")
        if isinstance(judge, dict) and judge.get("baseline"):
            click.echo(tell(LEXICAL), err=True)
        if estimate:
            return await post(service, f"{PREFERENCE_RUNS_PATH}/estimates", body, {"Content-Type": JSON})
        accepted = await post(service, PREFERENCE_RUNS_PATH, body, once(JSON, None))
        run_id = read_id(accepted)
        if not waits:
            return accepted
        await follow(service, run_id, progress)
        return read_object(await service.request("GET", f"{PREFERENCE_RUNS_PATH}/{quote(run_id)}/summary"))


def read_id(accepted: Object) -> str:
    """The id of what the service accepted. Raises AnswerInvalid where it names none."""
    found = accepted.get("id")
    if not isinstance(found, str):
        raise AnswerInvalid(tell("the service's answer has no {name}; is it of this client's version?", name="id"))
    return found


async def post(service: Connection, path: str, body: Object, headers: dict[str, str]) -> Object:
    """The answer to a POST. Raises InvalidItems for what the service refuses."""
    try:
        return read_object(await service.request("POST", path, content=write_json(body), headers=headers))
    except ServiceRefused as error:
        if error.status in {404, 409, 422}:
            raise InvalidItems(error.detail) from None
        raise


async def follow(service: Connection, run_id: str, progress: Progress) -> None:
    """Waits until the run is completed. Raises BatchStopped where it pauses or is cancelled."""
    async with aclosing(Follower(service, run_id, path=PREFERENCE_RUNS_PATH).states()) as states:
        async for state in states:
            batch = read(Batch, state)
            progress(batch)
            if batch.status in {"paused", "cancelled"}:
                why = batch.pause_detail or batch.pause_reason or batch.status
                told = tell("{run} is {status}: {reason}", run=run_id, status=batch.status, reason=why)
                raise BatchStopped(told, run_id)


def print_preferences(summary: PreferenceSummary) -> None:
    """A row for each two runs and aspect, then how far the order decided."""
    target = console()
    heads = (
        tell("pair"),
        tell("aspect"),
        tell("first"),
        tell("second"),
        tell("tie"),
        tell("by order"),
        tell("missing"),
    )
    rows = [
        (f"{pair.first.system} – {pair.second.system}", aspect, *count_choices(found))
        for pair in summary.pairs
        for aspect, found in pair.aspects.items()
    ]
    title = tell(
        "{run}: {items} items, {clusters} independent", run=summary.id, items=summary.items, clusters=summary.clusters
    )
    print_sheet(TerminalTable(title, heads, rows), target)
    for aspect, position in summary.position.items():
        click.echo(printable(describe_position(aspect, position)))


def count_choices(found: ChoiceCounts) -> tuple[str, ...]:
    """The counts of one row."""
    return tuple(
        str(number) for number in (found.first, found.second, found.tie, found.position_dependent, found.missing)
    )


def describe_position(aspect: str, position: PositionReport) -> str:
    """How often both orders gave the same answer, and how often what was shown first was preferred."""
    shown = position.first_shown + position.second_shown
    share = position.first_shown / shown if shown else None
    return tell(
        "{aspect}: same answer in both orders {rate} {interval} of {pairs}; shown first preferred {share}",
        aspect=aspect,
        rate=figure(position.consistency, ".2f"),
        interval=bounds(position.interval),
        pairs=position.pairs,
        share=figure(share, ".2f"),
    )
