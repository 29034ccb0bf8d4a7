"""`saiten analyze summary`: what files of results add up to."""

from __future__ import annotations

import click
from rich.table import Table

from saiten.commands.output import LEFT, bounds, console, figure
from saiten.core.language import mark, tell
from saiten.core.plain_text import escape_controls, printable
from saiten_server.core.sentences import LANGUAGE
from saiten_server.runs.summary import BLENDED, Spread, Summary

HEADS = (mark("n"), mark("mean"), mark("sd"), mark("95 % interval"))


@click.command("summary")
@click.argument("files", metavar="FILES")
@click.option("--rubric", metavar="ID", help="The rubric that rated the results, where the files name none.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer of GET /v1/batches/{id}/summary.")
def command(files: str, rubric: str | None, *, as_json: bool) -> None:
    """Sum the results of `saiten offline` up.

    FILES is a folder, a Parquet file or a URL. It is read a column at a time: ten million results take a few hundred
    megabytes.

    Exit 0: done; 2: bad usage or input; 3: could not run.

    \b
    Examples:
      saiten analyze summary s3://results/nightly
    """
    from saiten.core import language
    from saiten_server.offline.opened_files import open_files
    from saiten_server.offline.runs import summarize_files
    from saiten_server.platform.settings import read_settings
    from saiten_server.scoring.rubrics.files import open_rubrics

    summary = summarize_files(open_files(files), open_rubrics(read_settings().rubrics), rubric)
    if as_json:
        click.echo(escape_controls(summary.model_dump_json(indent=2, context={LANGUAGE: language.language})))
        return
    print_summary(summary)


def print_summary(summary: Summary) -> None:
    """The counts, and a row for each measure."""
    target, counts = console(), summary.counts
    told = tell(
        "{total:,} results: {scored:,} scored, {partial:,} partial, {failed:,} failed",
        total=counts.total,
        scored=counts.scored,
        partial=counts.partial,
        failed=counts.failed,
    )
    target.print(printable(told))
    table = Table(box=None, padding=(0, 2, 0, 0), **LEFT)
    table.add_column("")
    for head in HEADS:
        table.add_column(tell(head), justify="right", no_wrap=True)
    for name, one in list_spreads(summary).items():
        interval = "" if one.interval is None else bounds(one.interval, ".3f")
        table.add_row(printable(name), f"{one.n:,}", figure(one.mean, ".3f"), figure(one.sd, ".3f"), interval)
    target.print(table)
    if summary.faulty_turns is not None:
        rate = figure(summary.faulty_turns.rate, ".2f")
        target.print(printable(tell("faulty turns per 100 system turns: {rate}", rate=rate)))


def list_spreads(summary: Summary) -> dict[str, Spread]:
    """The measures by name."""
    found: dict[str, Spread] = {}
    for name, aspect in summary.aspects.items():
        found[name] = aspect
        if aspect.blended is not None:
            found[name + BLENDED] = aspect.blended
    return {**found, **summary.composites}
