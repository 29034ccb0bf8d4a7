"""`saiten analyze`: what ratings say, from a file or from the results of batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from app.cli.analysis_options import ABOUT, METRICS, make_help, options_of, read_aspects, read_labels, read_match
from app.domain.errors import InvalidRequest

if TYPE_CHECKING:
    from app.analysis.observations import Observations
    from app.domain.analysis_request import AnalysisRequest
    from app.domain.model import Value
    from app.ports import RubricSource

Options = dict[str, Any]


class Analyses(click.Group):
    """One subcommand an analysis, and `metrics`, which reads texts rather than ratings."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*ABOUT, "metrics"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "metrics":
            from app.cli.analyze_metrics import command as metrics

            return metrics
        return make_command(cmd_name) if cmd_name in ABOUT else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*ABOUT.items(), ("metrics", METRICS)])


@click.group("analyze", cls=Analyses)
def command() -> None:
    """Ask what ratings say.

    A record is what one rater said of one item: a line of NDJSON, an element of a JSON array, or a row of a CSV file
    with the columns system, item, rater and one an aspect.

    \b
    {"system": "bot-a", "item": "17", "rater": "R1", "ratings": {"fluency": 3}}

    Only the item and its ratings must be there. A file with one bad line is refused whole, and each fault is named with
    its line. Exit 0: done; 1: the encoder or language model that `metrics` was to use gave nothing; 2: bad usage or
    input; 3: could not run.

    \b
    Examples:
      saiten analyze agreement ratings.ndjson
      saiten analyze metrics responses.ndjson --language ja
    """


def make_command(name: str) -> click.Command:
    """The subcommand of one analysis."""
    return click.Command(name, params=options_of(name), callback=running(name), help=make_help(name))


def running(name: str) -> Callable[..., None]:
    """What the subcommand does."""

    def callback(
        file: str | None,
        batch: tuple[str, ...],
        url: str | None,
        form: str | None,
        as_json: bool,
        plot: str | None,
        **options: Any,
    ) -> None:
        if (file is None) == (not batch):
            raise click.UsageError("name a FILE (or -), or a --batch" if file is None else "give FILE or --batch")
        if url is not None and not batch:
            raise click.UsageError("--url goes with --batch; a FILE is analysed here")
        request = make_request(name, options, batch)
        if plot is not None:
            require_plot(plot)
        observations: Observations | None = None
        try:
            if batch:
                report = ask_for_batches(name, request, url)
            else:
                report, observations = analyse_file(file or "-", form, request)
        except InvalidRequest as error:
            raise refusal(error) from None
        show(report, as_json=as_json)
        if plot is not None:
            draw(report, observations, plot)

    return callback


def analyse_file(path: str, form: str | None, request: AnalysisRequest) -> tuple[Value, Observations]:
    """The report on a file with what it was made of; raises InvalidItems, InvalidRequest."""
    from app.cli.analysis_input import read_observations
    from app.meta.analyses import compute, prepare

    rubrics = open_rubrics()
    observations = prepare(request, read_observations(path, form, request, rubrics), rubrics)
    return compute(request, observations, rubrics), observations


def ask_for_batches(name: str, request: AnalysisRequest, url: str | None) -> Value:
    """The report on batches, here or at the service; raises InvalidItems where it is the request that is wrong."""
    import asyncio

    import saiten
    from app.cli.backend import NO_JUDGE, open_backend
    from app.cli.items import InvalidItems

    async def ask() -> Value:
        async with open_backend(url, NO_JUDGE) as backend:
            return await backend.analyse(name, request)

    try:
        return asyncio.run(ask())
    except saiten.ServiceRefused as error:
        if error.status == 404:
            raise InvalidItems(error.detail) from None
        if error.status in {400, 422}:
            pointer = error.faults[0][0] if error.faults else None
            raise InvalidRequest(error.detail, pointer=pointer) from None
        raise


def show(report: Value, *, as_json: bool) -> None:
    """Prints the report."""
    if as_json:
        from app.domain.plain_text import escape_controls

        click.echo(escape_controls(report.model_dump_json(indent=2)))
        return
    from app.cli.reports import print_report

    print_report(report)


def require_plot(path: str) -> None:
    """Raises InvalidItems where nothing could be drawn there: before the work, not after it."""
    from app.charts.sheet import require_drawing

    try:
        require_drawing(path)
    except InvalidRequest as error:
        raise refusal(error) from None


def draw(report: Any, observations: Observations | None, path: str) -> None:
    """Draws the report, and tells what the reader of the drawing should know."""
    from app.charts.analyses import plot
    from app.domain.plain_text import printable

    try:
        notes = plot(report, observations, path)
    except InvalidRequest as error:
        raise refusal(error) from None
    for note in notes:
        click.echo(f"saiten: {printable(note)}", err=True)


def make_request(name: str, options: Options, batch: tuple[str, ...]) -> AnalysisRequest:
    """The request that the options amount to; raises BadParameter, or InvalidItems where one does not fit."""
    from app.cli.items import InvalidItems
    from app.domain.analysis_request import REQUESTS
    from app.domain.dialogue import DEFAULT_LIMITS
    from app.domain.validation import InvalidDocument, validate

    given = {key: value for key, value in options.items() if value is not None}
    if "aspects" in given:
        given["aspects"] = read_aspects(given["aspects"])
    if "match" in given:
        given["match"] = read_match(given["match"])
    if "labels" in given:
        given["labels"] = read_labels(given["labels"])
    if batch:
        given["batches"] = list(batch)
    try:
        return validate(REQUESTS[name], given, DEFAULT_LIMITS)
    except InvalidDocument as error:
        where, what = error.faults[0]
        raise InvalidItems(f"{option_of(where)}: {what}") from None


def refusal(error: InvalidRequest) -> click.ClickException:
    """The error as one of usage or input: exit 2, with the option that it is about."""
    from app.cli.items import InvalidItems

    named = error.pointer is not None and error.pointer != "/data"
    return InvalidItems(f"{error.detail}; see {option_of(error.pointer or '')}" if named else error.detail)


def option_of(pointer: str) -> str:
    """The option that sets a request's field."""
    field = pointer.strip("/").partition("/")[0]
    return "--" + {"scores_field": "scores", "batches": "batch"}.get(field, field.replace("_", "-"))


def open_rubrics() -> RubricSource:
    """The shipped rubrics, and the operator's own."""
    from app.openers import open_rubrics as open_files
    from app.settings import read_settings

    return open_files(read_settings())
