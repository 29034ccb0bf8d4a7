"""`saiten judges`: asks several judges, language paths and numbers of samples for the same rated responses."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from itertools import product
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from saiten.commands import exits
from saiten.commands.files import InvalidItems
from saiten.commands.items import choose_reading, reading_options
from saiten.commands.output import TerminalTable, console, figure, make_progress, open_progress, print_sheet
from saiten.commands.results import write_whole
from saiten.commands.runs import BATCH
from saiten.commands.service import URL
from saiten.core.language import tell, tell_all
from saiten.core.plain_text import escape_controls, printable
from saiten_server.cli.analyze import make_request, show_report
from saiten_server.cli.process import say
from saiten_server.core.errors import InvalidRequest

if TYPE_CHECKING:
    from saiten_server.analyses.requests import AnalysisRequest
    from saiten_server.cli.judging import JudgeRun, Plan, Study
    from saiten_server.core.reports import JudgesReport

MOST_JUDGES = 32
"""As many scorers as an analysis compares."""


@click.group("judges")
def command() -> None:
    """Ask several judges for the same rated responses."""


@command.command("run")
@click.argument("file", metavar="FILE|BATCH|-")
@click.option("--ratings", metavar="FILE", help="People's ratings of FILE's items, as for `saiten ratings import`.")
@click.option("--model", "models", multiple=True, metavar="NAME", help="A judge model; may be repeated.")
@click.option(
    "--path",
    "paths",
    multiple=True,
    type=click.Choice(["source", "english"]),
    help="Language path, as it is or translated; may be repeated (source).",
)
@click.option(
    "--samples",
    "counts",
    multiple=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="Samples of each response; may be repeated (1).",
)
@click.option("--temperature", type=click.FloatRange(0, 2), help="How much the judges' replies vary (0).")
@click.option("--rubric", metavar="ID", help="Rubric of every judge (ja-dialogue, or the batch's).")
@click.option(
    "--judge",
    "relay",
    metavar="relay:FOLDER",
    help="Write the questions to FOLDER and read the answers there: people, another model or a batch system judge.",
)
@click.option("--budget", type=click.FloatRange(min=0), metavar="USD", help="The most that all judges may cost.")
@click.option("--estimate", "only_estimate", is_flag=True, help="Print what it would cost, and ask no judge.")
@click.option("--match", metavar="mate=acceptability", help="Compare a score with a rating of another name; A=B,C=D.")
@click.option("--resamples", type=int, metavar="N", help="Taken for older scripts; moves nothing.")
@click.option("--seed", type=int, metavar="N", help="Taken for older scripts; moves nothing.")
@click.option("--save", metavar="FILE", help="Write ratings and scores as NDJSON, for `saiten analyze judges`.")
@click.option("--plot", metavar="FILE", help="Draw it: .png, .svg or .pdf.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer of POST /v1/analyses/judges.")
@reading_options
@URL
def compare_judges(
    file: str,
    ratings: str | None,
    models: tuple[str, ...],
    paths: tuple[str, ...],
    counts: tuple[int, ...],
    temperature: float | None,
    rubric: str | None,
    relay: str | None,
    budget: float | None,
    only_estimate: bool,
    save: str | None,
    plot: str | None,
    as_json: bool,
    source: str | None,
    maps: tuple[str, ...],
    input_encoding: str | None,
    wheres: tuple[str, ...],
    url: str | None,
    **options: Any,
) -> None:
    """Score the same rated responses with every judge, and compare each with people.

    FILE holds items, and --ratings what people said of them. Or BATCH (ba_…) is a batch that people rated: its judge
    stands in the table too. Items that no one rated are left out. Every model is asked on every path with every number
    of samples, each as a batch of its own. The same call again takes up the batches that there are: nothing is asked
    twice. With --judge relay:FOLDER the first call writes the questions and ends with 2; once each has its answer, the
    same call reads them all.

    Exit 0: done; 1: a judge failed, and the others are compared; 2: bad usage or input, or over the budget; 3: could
    not run; 130: interrupted, and the batches are paused.

    \b
    Examples:
      saiten judges run items.ndjson --ratings ratings.ndjson --model gpt-6-luna --model gpt-6 --budget 5
      saiten judges run items.ndjson --ratings ratings.ndjson --judge relay:questions
      saiten judges run ba_1 --path source --path english --samples 3 --temperature 1 --save scored.ndjson
    """
    from saiten_server.cli.judging import Plan, read_study

    request = make_request("judges", {**options, "records": True if save is not None else None}, ())
    judges = [*dict.fromkeys(product(models or (None,), paths or ("source",), counts or (1,)))]
    check_usage(len(judges), file, ratings, budget)
    folder = None if relay is None else read_relay(relay, ratings, url)
    require_written(plot, save)
    reading = choose_reading(source, maps, input_encoding, wheres)
    study = file if ratings is None else read_study(file, reading, ratings)
    plan = Plan(judges, temperature, rubric, budget, only_estimate=only_estimate)
    report, judged = ask_judges(study, plan, request, url, folder)
    lost = report_lost(judged)
    if report is None:
        print_estimates(judged)
    else:
        save_records(report, save)
        show_report(report.model_copy(update={"records": None}), None, plot, "json" if as_json else "text")
    if lost:
        raise click.exceptions.Exit(exits.FELL_SHORT)


def ask_judges(
    study: Study | str, plan: Plan, request: AnalysisRequest, url: str | None, folder: Path | None
) -> tuple[JudgesReport | None, list[JudgeRun]]:
    """The comparison with what became of each judge; the answers are in the folder, if there is one. Raises
    InvalidItems."""
    from saiten_server.cli.judging import Relay, relay_judges, run_judges

    try:
        with open_progress() as bar:
            if folder is None:
                work = run_judges(study, plan, request, url, make_progress(bar))
            else:
                work = relay_judges(study, plan, request, Relay(folder), make_progress(bar))
            return asyncio.run(work)
    except InvalidRequest as error:
        raise InvalidItems(say(error.message)) from None


def require_written(plot: str | None, save: str | None) -> None:
    """Makes sure that the drawing and the records can be written before a judge is paid."""
    if plot is not None:
        from saiten_server.platform.charts.sheet import require_drawing

        require_drawing(plot)
        require_folder(plot)
    if save is not None:
        require_folder(save)


def report_lost(judged: Sequence[JudgeRun]) -> bool:
    """Prints why judges failed; whether any did."""
    lost = [one for one in judged if one.failure is not None]
    for one in lost:
        click.echo(f"saiten: {printable(f'{one.name}: {one.failure}')}", err=True)
    return bool(lost)


def check_usage(judges: int, file: str, ratings: str | None, budget: float | None) -> None:
    """Raises UsageError for options that say too much, or too little."""
    if judges > MOST_JUDGES:
        raise click.UsageError(
            tell("these are {count} judges; {most_judges} may be compared", count=judges, most_judges=MOST_JUDGES)
        )
    is_batch = BATCH.fullmatch(file) is not None
    if is_batch != (ratings is None):
        raise click.UsageError(tell("name people's ratings of FILE with --ratings, or a BATCH that people rated"))
    if budget is not None and not isfinite(budget):
        raise click.UsageError(tell("--budget {budget} is not a number of dollars", budget=budget))


def read_relay(given: str, ratings: str | None, url: str | None) -> Path:
    """The folder of `relay:FOLDER`. Raises UsageError for anything else, and where another service is to be asked."""
    kind, _, folder = given.partition(":")
    if kind != "relay" or not folder:
        raise click.UsageError(tell("--judge is written relay:FOLDER"))
    if ratings is None or url is not None:
        raise click.UsageError(
            tell("--judge relay:FOLDER takes a FILE and --ratings, and no service: leave out --url and SAITEN_URL")
        )
    return Path(folder)


def require_folder(path: str) -> None:
    """Raises InvalidItems where no file can be written there, before anything is asked."""
    if path != "-" and not os.access(Path(path).absolute().parent, os.W_OK):
        raise InvalidItems(tell("{path}: its folder is not there, or cannot be written to", path=path))


def save_records(report: JudgesReport, path: str | None) -> None:
    """Writes what the report was made of as NDJSON, where a file is named."""
    if path is not None:
        with write_whole(path) as target:
            for record in report.records or ():
                target.write((escape_controls(json.dumps(record, ensure_ascii=False)) + "\n").encode())


def print_estimates(judged: Sequence[JudgeRun]) -> None:
    """A row for each judge that can be asked."""
    rows = [
        (one.name, f"{found.calls:,}", f"{found.translated_characters:,}", figure(found.cost_usd, ".4f"))
        for one in judged
        if (found := one.estimate) is not None
    ]
    print_sheet(
        TerminalTable(tell("at most"), tell_all("judge", "calls", "translated characters", "USD"), rows), console()
    )
