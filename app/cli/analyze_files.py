"""`saiten analyze ranking` ranks systems by the preferences in a file, and `saiten analyze summary` sums results up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain
from typing import Any

import click
from rich.table import Table

from saiten.commands.files import InvalidItems, guess, name_file, shorten_faults
from saiten.commands.output import LEFT, bounds, console, figure
from saiten.commands.rankings import SOURCE_NAMES, print_ranking
from saiten.commands.rating_tables import RatingTable, open_rating_table
from saiten.core import language
from saiten.core.formats.errors import UnreadableInput
from saiten.core.formats.reading import open_input
from saiten.core.language import mark, tell
from saiten.core.plain_text import escape_controls, printable
from saiten.core.ranking_table import write_ranking
from saiten.core.strict_json import StrictJSONError
from saiten_server.cli.analysis_input import place_faults, read_beginning
from saiten_server.cli.process import say
from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.errors import InvalidLines, InvalidRequest
from saiten_server.core.sentences import LANGUAGE
from saiten_server.core.validation import MARK, InvalidDocument, validate
from saiten_server.platform.memory import without_collection
from saiten_server.preferences.rankings.values import Ranking, RankingRequest
from saiten_server.runs.summary import BLENDED, Spread, Summary


@click.command("ranking")
@click.argument("file", metavar="[FILE|-]")
@click.option("--alpha", type=float, metavar="P", help="Intervals and possible ranks are at 1 - alpha (0.05).")
@click.option("--ties", type=click.Choice(["davidson", "ordinal"]), help="How ties come about.")
@click.option("--clusters", type=click.Choice(["dialogue", "item", "none"]), help="What is independent.")
@click.option("--by", type=click.Choice(["judge", "people", "all"]), help="Whose preferences rank.")
@click.option("--penalty", type=float, metavar="X", help="Give every system a finite strength, drawn towards 0.")
@click.option("--format", "form", type=click.Choice(["ndjson", "json", "csv"]), help="Default: by name or content.")
@click.option("--markdown", is_flag=True, help="Print a table for a README.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer of POST /v1/analyses/ranking.")
def ranking(file: str, form: str | None, *, markdown: bool, as_json: bool, **options: Any) -> None:
    """Rank systems by preferences, with intervals, possible ranks, and what the order of the responses adds.

    \b
    {"item": "17", "a": "bot-a", "b": "bot-b", "winner": "a"}

    A record is one look: a was shown before b, and winner is a, b or tie. Where wanted dialogue, rater (a person),
    length_a, length_b and covariates. Both orders of an item are two records.
    """
    request = make_request({name: value for name, value in options.items() if value is not None})
    ranking = rank_file(file, form, request)
    answer = ranking.model_dump(mode="json", context={LANGUAGE: language.language})
    if as_json:
        click.echo(escape_controls(json.dumps(answer, ensure_ascii=False, indent=2)))
    elif markdown:
        click.echo(write_ranking(answer, tell), nl=False)
    else:
        print_ranking(answer, tell(SOURCE_NAMES[ranking.by]))


def make_request(options: Mapping[str, Any]) -> RankingRequest:
    """The request that the options make; raises InvalidItems where one does not fit."""
    try:
        return validate(RankingRequest, dict(options), DEFAULT_LIMITS)
    except InvalidDocument as error:
        where, what = error.faults[0]
        raise InvalidItems(f"--{where.strip('/')}: {say(what)}") from None


def rank_file(path: str, form: str | None, request: RankingRequest) -> Ranking:
    """The ranking of the file's records. Raises InvalidItems that names lines."""
    from saiten_server.preferences.rankings.reading import PreferenceReader, read_csv
    from saiten_server.preferences.rankings.report import rank_preferences
    from saiten_server.stats.reading import read_array, read_ndjson

    name, reader = name_file(path), PreferenceReader(clusters=request.clusters)
    table: RatingTable | None = None
    try:
        with open_input(path) as (file, _), without_collection():
            table = open_rating_table(file, name)
            if table is not None:
                lines, form = table.lines(), table.form
            else:
                file.seek(0)
                opening = [line.removeprefix(MARK) for line in read_beginning(file)]
                lines, form = chain(opening, file), form or guess(path, opening[-1] if opening else b"")
            match form:
                case "csv":
                    read = read_csv(lines, reader)
                case "json":
                    read = read_array(b"".join(lines), reader)
                case _:
                    read = read_ndjson(lines, reader)
        pairs, notes = read
        return rank_preferences(pairs, request, notes)
    except InvalidLines as error:
        places = place_faults(error, name, table)
        raise InvalidItems(shorten_faults(places, error.total, given_up=error.stopped)) from None
    except UnreadableInput as error:
        raise InvalidItems(error.detail) from None
    except (StrictJSONError, InvalidRequest) as error:
        raise InvalidItems(f"{name}: {say(error.message)}") from None


HEADS = (mark("n"), mark("mean"), mark("sd"), mark("95% interval"))


@click.command("summary")
@click.argument("files", metavar="FILES")
@click.option("--rubric", metavar="ID", help="The rubric that rated the results, where the files name none.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer of GET /v1/batches/{id}/summary.")
def summary(files: str, rubric: str | None, *, as_json: bool) -> None:
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

    rubrics = open_rubrics(read_settings().rubrics)
    try:
        found = summarize_files(open_files(files), rubrics, rubric)
    except InvalidRequest as error:
        raise InvalidItems(say(error.message)) from None
    if as_json:
        click.echo(escape_controls(found.model_dump_json(indent=2, context={LANGUAGE: language.language})))
        return
    print_summary(found)


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
