"""`saiten batch`: a file of dialogues becomes a batch of a service."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import click

from saiten.answers import AspectSummary, Batch, Spread, Summary
from saiten.commands import exits
from saiten.commands.files import name_file
from saiten.commands.fixes import print_fixes
from saiten.commands.gate_settings import GateSettings, make_settings, read_metadata
from saiten.commands.items import choose_reading, read_whole, reading_options
from saiten.commands.output import (
    STATES,
    TerminalTable,
    bounds,
    console,
    figure,
    make_progress,
    open_progress,
    print_sheet,
)
from saiten.commands.runs import Progress, options_of, reading_of, score_run, submit, take_items
from saiten.commands.service import LEXICAL, URL, open_service
from saiten.core.errors import AnswerInvalid
from saiten.core.language import tell
from saiten.core.plain_text import escape_controls
from saiten.reading import read


@click.command("batch")
@click.argument("file", metavar="FILE|-")
@click.option("--name", metavar="NAME", help="Name of the batch.")
@click.option("--rubric", metavar="ID", help="Rubric of the batch (ja-dialogue).")
@click.option("--path", type=click.Choice(["source", "english", "both"]), help="Language path of the batch.")
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="Metadata of the batch; may be repeated.")
@click.option("--budget", "budget_usd", type=float, metavar="USD", help="The most that the judge may cost per batch.")
@reading_options
@URL
@click.option("--no-wait", is_flag=True, help="Print the batch's id as soon as the service has accepted it.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer of GET /v1/batches/ID/summary.")
def command(
    file: str,
    metadata: tuple[str, ...],
    maps: tuple[str, ...],
    wheres: tuple[str, ...],
    url: str | None,
    no_wait: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Post FILE as a batch, and print its summary once it is scored.

    A first line may hold the batch's options, as for POST /v1/batches. Without --url the batch is scored here and kept
    in DATABASE_URL.

    Exit 0: all scored; 1: some failed or are only partly rated; 2: bad usage or input; 3: could not run;
    130: interrupted, and the batch is cancelled.
    """
    if no_wait and url is None:
        raise click.UsageError(tell("--no-wait goes with --url: a private service ends with this command"))
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    if metadata:
        given["metadata"] = read_metadata(metadata)
    if maps:
        given["map"] = choose_reading(None, maps, None).mapping
    if wheres:
        given["where"] = choose_reading(None, (), None, wheres).where
    settings = make_settings({}, given, "")
    with open_progress() as bar:
        batch, summary = asyncio.run(run_batch(file, settings, url, make_progress(bar), waits=not no_wait))
    if summary is None:
        click.echo(batch.id)
        return
    if as_json:
        click.echo(escape_controls(json.dumps(summary, ensure_ascii=False, indent=2)))
    else:
        print_summary(read(Summary, summary))
    if batch.counts.scored < batch.counts.total:
        raise click.exceptions.Exit(exits.FELL_SHORT)


async def run_batch(
    file: str, settings: GateSettings, url: str | None, progress: Progress, *, waits: bool
) -> tuple[Batch, dict[str, Any] | None]:
    """The batch, and its summary where it is waited for. Raises InvalidItems, SaitenError."""
    items = take_items(name_file(file), read_whole(file, reading_of(settings)))
    async with open_service(url) as service:
        if not waits:
            return await submit(service, items, options_of(items, settings)), None
        judge = (await service.info()).get("judge")
        if isinstance(judge, dict) and judge.get("baseline"):
            click.echo(tell(LEXICAL), err=True)
        batch = await score_run(service, items, settings, progress)
        if not isinstance(batch, Batch):
            raise AnswerInvalid(tell("the service gave no answer"))
        return batch, await service.summary(batch.id)


def print_summary(summary: Summary) -> None:
    """The batch's id and counts, and a row for each aspect and composite; of conversations, one for each code of
    findings with its rate per 100 system turns, and what to fix first."""
    target, counts = console(), summary.counts
    heads = (tell("aspect"), "n", tell("unrated"), tell("mean"), "95%")
    rows: list[tuple[str, ...]] = []
    measures: dict[str, AspectSummary | Spread] = {**summary.aspects, **summary.composites}
    for name, found in measures.items():
        unrated = str(found.unrated) if isinstance(found, AspectSummary) else ""
        rows.append((name, str(found.n), unrated, figure(found.mean, ".2f"), bounds(found.interval)))
    if summary.findings is not None:
        rates = {f"finding:{code}": rate for code, rate in summary.findings.codes.items()}
        if summary.faulty_turns is not None:
            rates["faulty_turns"] = summary.faulty_turns
        rates |= {f"finding:kind:{kind}": rate for kind, rate in (summary.kinds or {}).items() if rate.turns}
        for code, rate in rates.items():
            turns, shown = str(rate.system_turns), figure(rate.rate, ".2f")
            rows.append((f"{code} / 100", turns, "", shown, bounds(rate.interval)))
    states = zip(STATES.values(), (counts.scored, counts.partial, counts.failed), strict=True)
    told = ", ".join(tell(words, count=count) for words, count in states if count)
    title = f"{summary.name} ({summary.batch})" if summary.name else summary.batch
    print_sheet(TerminalTable(f"{title}: {told}", heads, rows), target)
    print_fixes(summary.fix_first or (), target)
