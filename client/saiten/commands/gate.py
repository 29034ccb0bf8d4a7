"""`saiten gate`: pass or fail a build by its scores."""

from __future__ import annotations

import asyncio
import json
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NoReturn

import click

from saiten.commands import exits
from saiten.commands.assertions import read_assertions
from saiten.commands.cases import ShownGateReport
from saiten.commands.files import InvalidItems, require_place
from saiten.commands.gate_settings import (
    GATE_FILE,
    GateSettings,
    make_settings,
    read_gate_file,
    read_metadata,
    read_rules,
)
from saiten.commands.items import choose_reading, reading_options
from saiten.commands.markdown import GATE_VERDICTS
from saiten.commands.output import make_progress, open_progress
from saiten.commands.process import REPORTED, describe_defect
from saiten.commands.service import URL
from saiten.connection import Object
from saiten.core.errors import SignatureMismatch
from saiten.core.language import tell
from saiten.core.plain_text import escape_controls, printable
from saiten.reading import read

if TYPE_CHECKING:
    from saiten.commands.gating import GateJob


class GateUsage(click.UsageError):
    exit_code = exits.COULD_NOT_RUN


class GateInput(InvalidItems):
    exit_code = exits.COULD_NOT_RUN


class GateCommand(click.Command):
    """Bad usage ends with 3 (could not run), because 2 means that the run was inconclusive."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, [*args])
        except click.UsageError as error:
            drop_misread(ctx, self, args)
            raise GateUsage(error.format_message(), ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise GateUsage(error.format_message(), ctx) from None
        except InvalidItems as error:
            raise GateInput(error.message) from None
        except REPORTED:
            raise
        except Exception as error:  # Python would exit with 1, which a CI takes for a failed gate
            traceback.print_exc()
            raise GateInput(describe_defect(error)) from error


@click.command("gate", cls=GateCommand)
@click.option("--config", metavar="FILE", help=f"Settings (default: {GATE_FILE}, where there is one).")
@click.option(
    "--candidate",
    metavar="SOURCE",
    help="What to test: ba_…, latest:NAME, a file of items or of results, or the output of `saiten offline`.",
)
@click.option("--baseline", metavar="SOURCE", help="What to compare it with, in the same forms.")
@URL
@click.option(
    "--judge",
    "judge_kind",
    metavar="[openai|lexical]",
    help="Which judge rates (SAITEN_JUDGE). Where CI is set, lexical rates only if it is named here.",
)
@click.option("--temperature", type=click.FloatRange(0, 2), help="The judge's, for a file of items (0).")
@click.option("--max-tokens", type=click.IntRange(1), help="Longest reply of the judge, for a file of items (2048).")
@click.option("--name", metavar="NAME", help="Name of the batch that a file of items becomes.")
@click.option(
    "--metadata",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="Of that batch, such as build=1a2b; may be repeated.",
)
@click.option("--rubric", metavar="ID", help="Rubric of a file of items (ja-dialogue).")
@click.option(
    "--path",
    type=click.Choice(["source", "english", "both"]),
    help="Language path of a file of items; with --pairwise source or english.",
)
@click.option(
    "--max-drop",
    multiple=True,
    metavar="ASPECT=D",
    help="Fail on a drop of more than D beyond chance; may be repeated.",
)
@click.option(
    "--min-mean", multiple=True, metavar="ASPECT=M", help="Fail on a mean below M beyond chance; may be repeated."
)
@click.option(
    "--max-rise",
    multiple=True,
    metavar="CODE=R",
    help="Of conversations: fail where findings of CODE, kind:KIND or faulty_turns rise by more than R per 100 system "
    "turns beyond chance; may be repeated.",
)
@click.option("--min-coverage", type=click.FloatRange(0, 1), help="Smallest share of valid verdicts (0.98).")
@click.option("--alpha", type=float, help="How often a gate may fail although nothing changed (0.05).")
@click.option("--timeout", "timeout_seconds", type=float, metavar="SECONDS", help="Give up scoring after this time.")
@click.option("--budget", "budget_usd", type=float, metavar="USD", help="The most that the judge may cost per batch.")
@click.option(
    "--test",
    type=click.Choice(["auto", "paired", "unpaired"]),
    help="Pairs by item id (auto), or all items of both runs.",
)
@click.option(
    "--estimate",
    type=click.Choice(["judge", "corrected"]),
    help="What decides: the judge, or the judge corrected by people's stored ratings (judge).",
)
@click.option(
    "--looks",
    type=click.Choice(["once", "any"]),
    help="How often corrected figures are looked at while people go on rating (once).",
)
@click.option("--link", metavar="LINK", help="Show a baseline of another judge on this judge's scale (ln_…).")
@click.option(
    "--sequence",
    metavar="NAME",
    help="Judge the next of a sequence of builds, with one alpha for the whole sequence: for nightly gates.",
)
@click.option(
    "--keep/--no-keep", default=None, help="Store the verdict for the explorer; so it is where a service is named."
)
@click.option("--check-judge/--no-check-judge", default=None, help="Score the anchors first: did the judge move?")
@click.option(
    "--reasons/--no-reasons",
    default=None,
    help="After a failure, ask the judge for missing reasons of the three worst cases, within the budget (on).",
)
@click.option("--judge-reference", metavar="FILE", help="The judge's stored ratings; written where there is none.")
@click.option("--allow-signature-mismatch", is_flag=True, default=None, help="Compare what was scored differently.")
@click.option("--pairwise", is_flag=True, help="Decide by which of the two the judge prefers, item by item.")
@click.option(
    "--preferences",
    metavar="SOURCE",
    help="With --pairwise: a preference run, pf_…, or a file of preferences with the systems (compare the runs).",
)
@click.option(
    "--max-loss",
    type=click.FloatRange(0, 0.5),
    metavar="D",
    help="With --pairwise: by how much its share of preferences may lie below one half (0.05).",
)
@reading_options
@click.option("--junit", metavar="FILE", help="Write JUnit XML.")
@click.option("--markdown", metavar="FILE", help="Write a summary for a pull request.")
@click.option("--save", metavar="FILE", help="Write the candidate's results too, to be a baseline.")
@click.option("--record", metavar="FILE", help="Only score the candidate, and write its results to be a baseline.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer of POST /v1/gates.")
def command(
    config: str | None,
    judge_kind: str | None,
    temperature: float | None,
    max_tokens: int | None,
    max_drop: tuple[str, ...],
    min_mean: tuple[str, ...],
    max_rise: tuple[str, ...],
    pairs: tuple[str, ...],
    junit: str | None,
    markdown: str | None,
    save: str | None,
    record: str | None,
    as_json: bool,
    maps: tuple[str, ...],
    wheres: tuple[str, ...],
    pairwise: bool,
    preferences: str | None,
    max_loss: float | None,
    **options: Any,
) -> None:
    """Compare a candidate with a baseline, and say whether the build may go out.

    Without any rule no aspect may drop. must_detect, relevance and judge are keys of saiten.toml only.

    Exit 0: pass; 1: fail, a rule is broken beyond chance; 2: inconclusive, or not enough coverage, or the judge moved;
    3: could not run; 130: interrupted.
    """
    drop_reports((junit, markdown), [*list_inputs({**options, "preferences": preferences, "config": config})])
    if pairwise:
        asked = {**options, "preferences": preferences, "max_loss": max_loss, "junit": junit, "markdown": markdown}
        judge_pairs(asked, judge_kind, as_json=as_json)
    if preferences is not None or max_loss is not None:
        raise click.UsageError(tell("--preferences and --max-loss go with --pairwise"))
    from saiten.commands.gating import GateJob

    given = {key: value for key, value in options.items() if value is not None}
    given |= read_choices(maps, wheres)
    if rules := read_rules(min_mean, max_drop, max_rise):
        given["rules"] = rules
    table = read_gate_file(config)
    set_judge(table, temperature=temperature, max_tokens=max_tokens)
    if pairs:
        own = table.get("metadata", {})
        given["metadata"] = {**(own if isinstance(own, dict) else {}), **read_metadata(pairs)}
    file = GATE_FILE if config is None else config
    settings = make_settings(table, given, file)
    require_use(settings, junit, markdown, save, record)
    assertions = read_assertions(config)
    ci = is_ci(os.environ)
    job = GateJob(settings, given, file, save=save, record=record, judge=judge_kind, ci=ci, assertions=assertions)
    report_gate(run_or_exit(job), settings, junit=junit, markdown=markdown, record=record, as_json=as_json)


def report_gate(
    answer: Object,
    settings: GateSettings,
    *,
    junit: str | None,
    markdown: str | None,
    record: str | None,
    as_json: bool,
) -> NoReturn:
    """Writes and prints the verdict, and exits with it."""
    from saiten.commands.junit import write_junit
    from saiten.commands.markdown import write_markdown

    report = read(ShownGateReport, answer)
    recorded = record is not None and report.verdict == "pass"
    try:
        # First, because a CI collects these files even where standard output is closed.
        write_reports((junit, partial(write_junit, report)), (markdown, partial(write_markdown, report)))
    finally:
        print_verdict(answer, report, as_json=as_json, recorded=recorded)
    if record is not None and recorded:
        tell_recorded(record, settings)
    raise click.exceptions.Exit(exits.VERDICT_EXITS[report.verdict])


def read_choices(maps: tuple[str, ...], wheres: tuple[str, ...]) -> dict[str, Any]:
    """What of a file is read, where that is said."""
    found: dict[str, Any] = {}
    if maps:
        found["map"] = choose_reading(None, maps, None).mapping
    if wheres:
        found["where"] = choose_reading(None, (), None, wheres).where
    return found


def tell_recorded(path: str, settings: GateSettings) -> None:
    """Says how to compare with the baseline that was written there."""
    told = tell("baseline: {path}; compare with it: saiten gate --baseline {path}", path=quote(path))
    # Of a file of several builds the next one is to be taken, and not all.
    told += "".join(f" --where {quote(column)}=…" for column in settings.where)
    click.echo(printable(told), err=True)


def judge_pairs(
    options: Mapping[str, Any],
    judge_kind: str | None,
    *,
    as_json: bool,
) -> NoReturn:
    """Writes and prints the verdict by preferences, and exits with it."""
    from saiten.commands.pairwise_gate import (
        PairwiseJob,
        run_pairwise,
        write_pairwise_junit,
        write_pairwise_markdown,
    )

    if not options["candidate"] or not options["baseline"]:
        raise click.UsageError(tell("--pairwise needs a --candidate and a --baseline"))
    job = PairwiseJob(
        candidate=options["candidate"],
        baseline=options["baseline"],
        url=options["url"],
        preferences=options["preferences"],
        alpha=0.05 if options["alpha"] is None else options["alpha"],
        max_loss=0.05 if options["max_loss"] is None else options["max_loss"],
        min_coverage=0.98 if options["min_coverage"] is None else options["min_coverage"],
        budget_usd=options["budget_usd"],
        name=options["name"],
        path=options["path"],
        judge=judge_kind,
        ci=is_ci(os.environ),
    )
    require_writable((options["junit"], options["markdown"]))
    found = asyncio.run(run_pairwise(job))
    write_reports(
        (options["junit"], partial(write_pairwise_junit, found, job)),
        (options["markdown"], partial(write_pairwise_markdown, found, job)),
    )
    if as_json:
        click.echo(escape_controls(json.dumps(vars(found), ensure_ascii=False, indent=2)))
    else:
        click.echo(printable(tell("gate: {verdict}", verdict=tell(GATE_VERDICTS[found.verdict]))))
        click.echo(printable(f"  {found.reason}"))
        if found.coverage is not None and found.code != "coverage":
            click.echo(printable(f"  {found.coverage}"))
        if found.stopped_early:
            click.echo(printable(tell("  stopped early, at look {look}", look=found.looks)))
    raise click.exceptions.Exit(exits.VERDICT_EXITS[found.verdict])


def set_judge(table: dict[str, Any], **options: float | None) -> None:
    """Puts those options of the judge that are given over the file's, unless these are no table, which is refused."""
    given = {key: value for key, value in options.items() if value is not None}
    own = table.get("judge", {})
    if given and isinstance(own, dict):
        table["judge"] = {**own, **given}


def is_ci(environment: Mapping[str, str]) -> bool:
    """Whether this is a CI job: every CI service sets CI."""
    return environment.get("CI", "").strip().lower() not in {"", "0", "false"}


def require_use(
    settings: GateSettings, junit: str | None, markdown: str | None, save: str | None, record: str | None
) -> None:
    """Raises UsageError or InvalidItems for mistakes that would otherwise show only after everything is scored."""
    if settings.candidate is None:
        raise click.UsageError(tell("name a --candidate, here or as `candidate` in {NAME}", NAME=GATE_FILE))
    if save is not None and record is not None:
        raise click.UsageError(tell("--record writes the results and compares nothing: leave --save out"))
    if settings.sequence is not None and (settings.url is None or record is not None):
        raise click.UsageError(
            tell("--sequence needs a service that keeps the sequence: name it with --url, and leave --record out")
        )
    require_writable((junit, markdown, save, record, settings.judge_reference))


def require_writable(paths: Iterable[str | None]) -> None:
    """Raises InvalidItems where a file cannot be written."""
    for path in paths:
        if path is not None:
            require_place(path)


def list_inputs(options: Mapping[str, Any]) -> Iterator[str]:
    """The files that a gate with these options reads, those that its file of settings names among them."""
    config = options.get("config")
    yield GATE_FILE if config is None else config
    try:
        table = read_gate_file(config)
    except InvalidItems:  # told where the gate begins
        table = {}
    for given in (options, table):
        named = (given.get(name) for name in ("candidate", "baseline", "judge_reference", "preferences"))
        yield from (one for one in named if isinstance(one, str))


def drop_misread(ctx: click.Context, command: click.Command, arguments: list[str]) -> None:
    """Removes the reports of an earlier gate where the command line cannot be used, as far as it names them."""
    parser = command.make_parser(ctx)
    parser.ignore_unknown_options = True
    try:
        options, others, _ = parser.parse_args([*arguments])
    except click.UsageError:  # such as the last option without its value
        return
    drop_reports((options.get("junit"), options.get("markdown")), [*list_inputs(options), *others])


def drop_reports(reports: Iterable[str | None], inputs: Iterable[str | None]) -> None:
    """Removes the reports of an earlier gate: where this one cannot run, theirs would be taken for its own. A link,
    such as /dev/stdout, stays, and so does what the gate reads."""
    kept = {os.path.realpath(one) for one in inputs if one is not None}
    for path in map(Path, filter(None, reports)):
        with suppress(OSError):  # told where the report is written
            if path.is_file() and not path.is_symlink() and os.path.realpath(path) not in kept:
                path.unlink()


def run_or_exit(job: GateJob) -> Object:
    """The report. Where the signatures of the runs differ, prints how on standard error and exits with 3."""
    from saiten.commands.gating import run_gate

    try:
        with open_progress() as bar:
            return asyncio.run(run_gate(job, make_progress(bar)))
    except SignatureMismatch as error:
        click.echo(f"saiten: {error.detail}", err=True)
        for piece, (baseline, candidate) in error.pieces.items():
            click.echo(
                printable(
                    tell(
                        "  {piece}: baseline {baseline}, candidate {candidate}",
                        piece=piece,
                        baseline=baseline,
                        candidate=candidate,
                    )
                ),
                err=True,
            )
        raise click.exceptions.Exit(exits.COULD_NOT_RUN) from None


def write_reports(*wanted: tuple[str | None, Callable[[], str]]) -> None:
    """Writes the files that a CI collects, each as its function says; raises InvalidItems where one cannot be
    written."""
    for path, write in wanted:
        if path is None:
            continue
        try:
            Path(path).write_text(write(), encoding="utf-8")
        except OSError as error:
            raise InvalidItems(f"{path}: {tell(error.strerror or '')}") from None


def print_verdict(answer: Object, report: ShownGateReport, *, as_json: bool, recorded: bool = False) -> None:
    """Prints the report; of a baseline that was `recorded`, that it was."""
    if as_json:
        click.echo(escape_controls(json.dumps(answer, ensure_ascii=False, indent=2)))
        return
    from saiten.commands.gating import print_gate

    print_gate(report, recorded=recorded)
