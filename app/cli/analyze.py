"""`saiten analyze`: analyses of the ratings in a file or of the results of batches, with their options and help."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from saiten.commands import translate_help
from saiten.core.language import mark, tell
from saiten.core.messages import Message
from saiten_server.cli.process import say
from saiten_server.core.errors import InvalidRequest

if TYPE_CHECKING:
    from saiten_server.analyses.requests import AnalysisRequest
    from saiten_server.core.model import Value
    from saiten_server.scoring.rubrics.files import RubricSource
    from saiten_server.stats.observations import Observations
    from saiten_server.stats.paper_tables import TableName

ABOUT_ANALYSES = {
    "agreement": mark("How far raters agree, and how aspects go together."),
    "correlation": mark("How far scores agree with people's ratings."),
    "judges": mark("Which judge or metric agrees best with people."),
    "hierarchy": mark("Which aspect merely follows another."),
    "composite-fit": mark("Fit the weights of a linear composite, such as MATE."),
    "blend-fit": mark("Choose the weight of the relevance term."),
    "win-rates": mark("How often each system answers a context best."),
    "corrected": mark("What people would say, from a judge and some of their ratings."),
}
FURTHER = {
    "ranking": mark("Rank systems by preferences."),
    "summary": mark("Sum results up that `saiten offline` wrote."),
    "metrics": mark("Measure responses: length, ROUGE, BERTScore, perplexity."),
}
"""What does not read ratings, in modules of its own."""

MORE = {
    "agreement": mark(
        "By aspect: mean, sd, each rater against the mean of the others, Krippendorff's α; and the correlations "
        "between aspects."
    ),
    "correlation": mark(
        "Values of a metric or a judge, in the records' field \"scores\" (--scores names another), against the raters' "
        "means: Spearman, Pearson and Kendall with bootstrap intervals over dialogues, human ceiling, bias, means."
    ),
    "judges": mark(
        'Scorers side by side, in the records\' field "scores" as {scorer: {aspect: number}} (in a table '
        "score:SCORER:ASPECT), against the raters' means: Spearman, Pearson and Kendall with bootstrap intervals over "
        "dialogues, the human ceiling, and for every two scorers whether they differ (Holm). Each --batch is a scorer."
    ),
    "hierarchy": mark(
        "Y depends on X where every pair of systems that X tells apart (Mann-Whitney, p < alpha) is told apart by Y "
        "the same way, and others too. Prints which aspects depend on which, and how many pairs remain after the lower "
        "is removed from the higher. Without --rubric more counts as better; a rubric may say that another level is "
        "best."
    ),
    "composite-fit": mark(
        "Least squares of the target on the composite's aspects, and how well it does on a held-out fifth. The rubric "
        "is lfqa unless --rubric names another."
    ),
    "blend-fit": mark(
        "The weight w of score + w * similarity that correlates best with the raters, by cross-validation. Records "
        'need "scores" and "similarity" beside "ratings".'
    ),
    "win-rates": mark(
        "The share of contexts (items) in which each system is the best, ties apart, with Wilson's interval. "
        "Without --rubric more counts as better; a rubric may say that another level is best."
    ),
    "corrected": mark(
        "A judge scores all items and people rate some. By system: the judge's mean, people's mean of what they "
        "rated, and the corrected mean (PPI++) with its interval, or why there is none and how many ratings it needs; "
        'and the differences of systems. A record holds "scores", and "ratings" where people rated the item.'
    ),
}

EXAMPLES = {
    "agreement": ["ratings.ndjson", "dbdc3.jsonl --labels O=1,T=0.5,X=0"],
    "correlation": ["ratings.csv --scores unieval"],
    "judges": [
        "scored.ndjson --match mate=acceptability",
        "--batch ba_1 --batch ba_2",
        "scored.ndjson --table scorers --as latex",
    ],
    "hierarchy": ["ratings.ndjson --alpha 0.01 --plot hierarchy.png"],
    "composite-fit": ["answers.ndjson --rubric lfqa --composite mate"],
    "blend-fit": ["ratings.ndjson --aspect relevance --folds 5"],
    "win-rates": ["--batch ba_1 --batch ba_2 --url http://127.0.0.1:8000"],
    "corrected": ["judged.ndjson --ranges fluency=1:5"],
}


SOURCE = [
    click.Argument(["file"], metavar="[FILE|-]", required=False),
    click.Option(
        ["--batch"], metavar="ID", multiple=True, help="A batch and its human ratings, not FILE; may be repeated."
    ),
    click.Option(
        ["--url"],
        envvar="SAITEN_URL",
        metavar="URL",
        help="The service that has the batch (or SAITEN_URL; key from SAITEN_API_KEY).",
    ),
    click.Option(
        ["--format", "form"], type=click.Choice(["ndjson", "json", "csv"]), help="Default: by name or content."
    ),
    click.Option(
        ["--rubric"], metavar="ID", help="Refuse aspects and ratings that are not this rubric's; take its best levels."
    ),
    click.Option(["--aspects"], metavar="A,B,C", help="Refuse any aspect but these; tables keep their order."),
    click.Option(["--scores", "scores_field"], metavar="FIELD", help="Where a metric's values are (scores)."),
    click.Option(
        ["--labels"], metavar="O=1,T=0.5,X=0", help='What the letters in the field "labels" are worth, one per rater.'
    ),
    click.Option(["--label-aspect"], metavar="NAME", help="What the labels rate (label)."),
    click.Option(["--json", "as_json"], is_flag=True, help="Print the answer of POST /v1/analyses."),
    click.Option(["--plot"], metavar="FILE", help="Draw it: .png, .svg or .pdf."),
    click.Option(
        ["--as", "table_form"], type=click.Choice(["text", "csv", "latex"]), help="Form of the tables (text)."
    ),
]

SEED_OPTION = click.Option(["--seed"], type=int, metavar="N", help="The same seed gives the same figures (0).")
UNUSED = [
    click.Option([name], type=int, metavar="N", help="Taken for older scripts; moves nothing.")
    for name in ("--resamples", "--seed")
]
VALUES_OPTION = click.Option(
    ["--values"], type=click.Choice(["ratings", "scores"]), help="Take the ratings, or the scores."
)

OWN_OPTIONS: dict[str, list[click.Parameter]] = {
    "agreement": [],
    "correlation": [
        click.Option(
            ["--match"], metavar="mate=acceptability", help="Compare a score with a rating of another name; A=B,C=D."
        ),
        *UNUSED,
    ],
    "judges": [
        click.Option(
            ["--match"], metavar="mate=acceptability", help="Compare a score with a rating of another name; A=B,C=D."
        ),
        *UNUSED,
        click.Option(
            ["--table"],
            type=click.Choice(["systems", "aspects", "raters", "scorers"]),
            help="Only this table, as papers print it: systems by scorer (Kamoda et al., table 1), or aspects, raters, "
            "scorers (Terauchi et al., tables 3, 4, 5).",
        ),
        click.Option(["--aspect", "table_aspect"], metavar="NAME", help="What people said, for --table systems."),
    ],
    "hierarchy": [
        click.Option(["--alpha"], type=float, metavar="P", help="A pair is significant below it (0.01)."),
        click.Option(
            ["--method"],
            type=click.Choice(["principal-axis", "residual"]),
            help="How the lower aspect is removed from the higher.",
        ),
        VALUES_OPTION,
    ],
    "composite-fit": [
        click.Option(["--composite"], metavar="ID", help="A linear composite of the rubric (its first)."),
        click.Option(["--target"], metavar="NAME", help="The aspect that it is to give (acceptability)."),
        SEED_OPTION,
    ],
    "blend-fit": [
        click.Option(["--aspect"], metavar="NAME", help="The blended aspect (relevance)."),
        click.Option(["--folds"], type=int, metavar="N", help="Of the cross-validation (5)."),
        click.Option(["--statistic"], type=click.Choice(["spearman", "pearson"]), help="Make this the greatest."),
        SEED_OPTION,
    ],
    "win-rates": [VALUES_OPTION],
    "corrected": [
        click.Option(["--alpha"], type=float, metavar="P", help="Intervals are at 1 - alpha (0.05)."),
        click.Option(
            ["--units"],
            type=click.Choice(["clusters", "independent"]),
            help="What is independent: dialogues, or items.",
        ),
        click.Option(["--quantile"], type=click.Choice(["t", "normal"]), help="Of t; or as ppi-python has it."),
        click.Option(["--ranges"], metavar="A=1:5,B=0:1", help="Each aspect's scale; refuse any value outside it."),
        click.Option(["--margin"], type=float, metavar="X", help="How many more ratings would bring a mean to ± X?"),
        click.Option(["--looks"], type=click.Choice(["once", "any"]), help="Looked at how often while people rate."),
    ],
}


def read_aspects(text: str) -> list[str]:
    """`a, b` as names; raises BadParameter."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise click.BadParameter(tell("write --aspects like fluency,relevance, not {text!r}", text=text[:48]))
    return names


def read_match(text: str) -> dict[str, str]:
    """`mate=acceptability` as scores with the ratings that they are compared with; raises BadParameter."""
    pairs = [part.partition("=") for part in text.split(",")]
    found = {score.strip(): rating.strip() for score, _, rating in pairs}
    if not all(found) or not all(found.values()) or len(found) < len(pairs):
        raise click.BadParameter(
            tell("write --match like mate=acceptability, each score once, not {text!r}", text=text[:48])
        )
    return found


def read_scales(text: str) -> dict[str, list[float]]:
    """`fluency=1:5,overall=0:1` as scales; raises BadParameter."""
    from saiten_server.analyses.requests import read_ranges

    try:
        return read_ranges(text)
    except ValueError:
        raise click.BadParameter(
            tell("write --ranges like fluency=1:5,overall=0:1, each once, not {text!r}", text=text[:48])
        ) from None


def parse_labels(text: str) -> dict[str, float]:
    """`O=1,T=0.5,X=0` as letters with their ratings; raises BadParameter."""
    found: dict[str, float] = {}
    for part in text.split(","):
        letter, _, value = part.partition("=")
        letter = letter.strip()
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if len(letter) != 1 or not math.isfinite(number):
            raise click.BadParameter(
                tell("write --labels like O=1,T=0.5,X=0, a letter and a number each, not {part!r}", part=part[:24])
            )
        if letter in found:
            raise click.BadParameter(tell("--labels has {letter!r} twice", letter=letter))
        found[letter] = number
    return found


class Analyses(click.Group):
    """One subcommand per analysis, and those of FURTHER."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*ABOUT_ANALYSES, *FURTHER]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "metrics":
            from saiten_server.cli.analyze_metrics import command as metrics

            translate_help(metrics)
            return metrics
        if cmd_name in {"ranking", "summary"}:
            from saiten_server.cli.analyze_files import ranking, summary

            found = ranking if cmd_name == "ranking" else summary
            translate_help(found)
            return found
        return make_command(cmd_name) if cmd_name in ABOUT_ANALYSES else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section(tell("Commands")):
            formatter.write_dl([(name, tell(about)) for name, about in (ABOUT_ANALYSES | FURTHER).items()])


@click.group("analyze", cls=Analyses)
def command() -> None:
    """Analyze ratings.

    A record holds one rater's ratings of one item: a line of NDJSON, an element of a JSON array, or a row of a table
    (CSV, TSV, XLSX, Parquet) with the columns system, item, rater and one per aspect.

    \b
    {"system": "bot-a", "item": "17", "rater": "R1", "ratings": {"fluency": 3}}

    Only the item and its ratings are required. A file with one bad line is refused as a whole, and each fault is named
    with its line. Exit 0: done; 1: the encoder or language model for `metrics` returned nothing; 2: bad usage or
    input; 3: could not run.

    \b
    Examples:
      saiten analyze agreement ratings.ndjson
      saiten analyze metrics responses.ndjson --language ja
    """


def make_command(name: str) -> click.Command:
    """The subcommand of one analysis."""

    def callback(
        file: str | None,
        batch: tuple[str, ...],
        url: str | None,
        form: str | None,
        as_json: bool,
        plot: str | None,
        table: TableName | None = None,
        table_form: str | None = None,
        table_aspect: str | None = None,
        **options: Any,
    ) -> None:
        check_table(table, table_form, table_aspect, as_json=as_json)
        if (file is None) == (not batch):
            raise click.UsageError(
                tell("name a FILE (or -), or a --batch") if file is None else tell("give FILE or --batch")
            )
        given = click.get_current_context().get_parameter_source("url")
        if given is ParameterSource.COMMANDLINE and not batch:
            raise click.UsageError(tell("--url goes with --batch; a FILE is analysed here"))
        request = make_request(name, options, batch)
        try:
            if plot is not None:
                from saiten_server.platform.charts.sheet import require_drawing

                require_drawing(plot)  # before the analysis is computed
            observations: Observations | None = None
            if table is not None:
                observations = observe(file or "-", form, request, batch, url)
                show_table(observations, request, table, table_form or "text", table_aspect, plot)
                return
            if batch:
                report = ask_for_batches(name, request, url)
            else:
                report, observations = analyse_file(file or "-", form, request)
            show_report(report, observations, plot, "json" if as_json else table_form or "text")
        except InvalidRequest as error:
            # Of usage or input (exit 2), with the option that it concerns.
            from saiten.commands.files import InvalidItems

            named = error.pointer is not None and error.pointer != "/data"
            see = tell("; see {option}", option=option_of(error.pointer or "")) if named else ""
            raise InvalidItems(say(error.message) + see) from None

    examples = "".join(f"\n  saiten analyze {name} {example}" for example in EXAMPLES[name])
    made = click.Command(name, params=[*OWN_OPTIONS[name], *SOURCE], callback=callback)
    translate_help(made)
    made.help = f"{tell(ABOUT_ANALYSES[name])}\n\n{tell(MORE[name])}\n\n\b\n{tell('Example:')}{examples}"
    return made


def analyse_file(path: str, form: str | None, request: AnalysisRequest) -> tuple[Value, Observations]:
    """The report on a file with what it was made of; raises InvalidItems, InvalidRequest."""
    from saiten.commands.gate_files import are_results
    from saiten_server.analyses.reports import compute, prepare_observations
    from saiten_server.cli.analysis_input import read_observations
    from saiten_server.platform.settings import read_settings
    from saiten_server.scoring.rubrics.files import open_rubrics

    rubrics = open_rubrics(read_settings().rubrics)
    if path != "-" and are_results(path):
        request, observed = observe_results(path, request, rubrics)
    else:
        observed = read_observations(path, form, request, rubrics)
    observations = prepare_observations(request, observed, rubrics)
    return compute(request, observations, rubrics), observations


def observe_results(path: str, request: AnalysisRequest, rubrics: RubricSource) -> tuple[AnalysisRequest, Observations]:
    """The judge's values in files of results, and the request as it is of these; raises InvalidItems for an analysis
    of what people said."""
    from saiten.core.plain_text import printable
    from saiten_server.analyses.requests import HierarchyRequest, WinRatesRequest
    from saiten_server.offline.opened_files import open_files
    from saiten_server.offline.runs import choose_rubric, observe_files

    if not isinstance(request, HierarchyRequest | WinRatesRequest) or request.values == "ratings":
        from saiten.commands.files import InvalidItems

        told = tell("files of results hold no ratings by people: adopt them (POST /v1/runs/adopt), and name --batch")
        raise InvalidItems(f"{path}: {told}")
    files = open_files(path)
    rubric = choose_rubric(files, rubrics, request.rubric)
    asked = request.model_copy(update={"values": "scores", "rubric": rubric.name})
    observed, differing = observe_files(files, rubric, request.aspects)
    if differing:
        pieces = printable(", ".join(differing))
        told = tell("results of different signatures are compared; they differ in {pieces}", pieces=pieces)
        click.echo(f"saiten: {told}", err=True)
    return asked, observed


def observe(
    path: str, form: str | None, request: AnalysisRequest, batch: tuple[str, ...], url: str | None
) -> Observations:
    """The ratings and scores of a file, or of batches; raises InvalidItems, InvalidRequest."""
    from saiten_server.cli.analysis_input import read_observations
    from saiten_server.platform.settings import read_settings
    from saiten_server.scoring.rubrics.files import open_rubrics
    from saiten_server.stats.reading import ObservationReader

    if not batch:
        return read_observations(path, form, request, open_rubrics(read_settings().rubrics))
    # The figures themselves are not wanted, so they are computed with as few resamples as may be.
    asked = request.model_copy(update={"records": True, "resamples": 100})
    report = ask_for_batches("judges", asked, url)
    reader = ObservationReader(by_scorer=True, noun="record")
    for number, record in enumerate(getattr(report, "records", None) or (), start=1):
        reader.add(record, number)
    return reader.finish()


def show_table(
    observations: Observations,
    request: AnalysisRequest,
    name: TableName,
    form: str,
    aspect: str | None,
    plot: str | None,
) -> None:
    """Prints a table of the papers, and draws it where a file is named."""
    from saiten.core.plain_text import printable
    from saiten_server.cli.paper_tables import print_table
    from saiten_server.stats.paper_tables import make_table

    table = make_table(name, observations, aspect=aspect, match=getattr(request, "match", None))
    print_table(table, form)
    if plot is not None:
        from saiten_server.analyses.charts.reports import draw_table

        for note in draw_table(table, plot):
            click.echo(f"saiten: {printable(note)}", err=True)


def ask_for_batches(name: str, request: AnalysisRequest, url: str | None) -> Value:
    """The service's report on batches; raises InvalidItems where the request is wrong."""
    import asyncio

    import saiten
    from saiten.commands.files import InvalidItems
    from saiten.commands.service import NO_JUDGE
    from saiten_server.cli.backend import open_backend

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
            raise InvalidRequest(Message("verbatim", text=error.detail), pointer=pointer) from None
        raise


def check_table(table: str | None, form: str | None, aspect: str | None, *, as_json: bool) -> None:
    """Raises UsageError for options that do not go with each other."""
    if table is None and aspect:
        raise click.UsageError(tell("--aspect goes with --table"))
    if as_json and (table is not None or form is not None):
        raise click.UsageError(tell("tables are text, CSV or LaTeX; leave --table and --as out for --json"))


def show_report(report: Value, observations: Observations | None, plot: str | None, form: str) -> None:
    """Prints the report, and draws it where a file is named."""
    print_in_form(report, form)
    if plot is not None:
        draw_report(report, observations, plot)


def print_in_form(report: Value, form: str) -> None:
    """Prints the report as JSON, or as tables in one of their forms."""
    if form == "json":
        from saiten.core.plain_text import escape_controls

        click.echo(escape_controls(report.model_dump_json(indent=2)))
        return
    from saiten_server.cli.reports import print_report, write_report

    if form == "text":
        print_report(report)
    else:
        click.echo(write_report(report, form), nl=False)


def draw_report(report: Any, observations: Observations | None, path: str) -> None:
    """Draws the report, and prints notes for the reader of the drawing."""
    from saiten.core.plain_text import printable
    from saiten_server.analyses.charts.reports import plot

    for note in plot(report, observations, path):
        click.echo(f"saiten: {printable(note)}", err=True)


def make_request(name: str, options: dict[str, Any], batch: tuple[str, ...]) -> AnalysisRequest:
    """The request that the options make; raises BadParameter, or InvalidItems where one does not fit."""
    from saiten.commands.files import InvalidItems
    from saiten_server.analyses.requests import REQUESTS
    from saiten_server.core.dialogue import DEFAULT_LIMITS
    from saiten_server.core.validation import InvalidDocument, validate

    given = {key: value for key, value in options.items() if value is not None}
    readers = {"aspects": read_aspects, "match": read_match, "labels": parse_labels, "ranges": read_scales}
    given |= {key: read(given[key]) for key, read in readers.items() if key in given}
    if batch:
        given["batches"] = list(batch)
    try:
        return validate(REQUESTS[name], given, DEFAULT_LIMITS)
    except InvalidDocument as error:
        where, what = error.faults[0]
        raise InvalidItems(f"{option_of(where)}: {say(what)}") from None


def option_of(pointer: str) -> str:
    """The option that sets a request's field."""
    field = pointer.strip("/").partition("/")[0]
    return "--" + {"scores_field": "scores", "batches": "batch"}.get(field, field.replace("_", "-"))
