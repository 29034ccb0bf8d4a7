"""The work of `saiten gate`: scores the runs, checks the judge, and prints the verdict with its table."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from saiten.answers import AnchorRatings, Batch, Comparison, Measure
from saiten.commands.assertions import Assertion, AssertionOutcome, answers_of, check, settle_verdict
from saiten.commands.cases import ShownGateReason, ShownGateReport, list_lines
from saiten.commands.files import UNFIT, InvalidItems, gather_faults
from saiten.commands.folding import fold
from saiten.commands.gate_files import are_results, gate_files, require_files
from saiten.commands.gate_settings import GATE_FILE, TERMS, GateSettings, check_settings
from saiten.commands.markdown import (
    GATE_VERDICTS,
    VOID,
    has_moved,
    name_measure,
    remark,
    show_size,
    tell_sequence,
    tell_verdict,
    uses_lexical,
)
from saiten.commands.output import LEFT, bounds, console, figure, print_line
from saiten.commands.reasons import complete_answer
from saiten.commands.runs import (
    FoundRun,
    ItemFile,
    Progress,
    Results,
    SourceRole,
    fetch_rubric,
    find_pinned,
    find_run,
    find_sequence_baseline,
    name_rubric,
    options_of,
    save_results,
    score_run,
    split_name,
)
from saiten.commands.service import LEXICAL, open_service
from saiten.connection import Connection, Object
from saiten.core.errors import BatchesRequired, JudgeUnfit, ServiceRefused, TimeLimitReached
from saiten.core.figures import DASH, find_digits, write_figure
from saiten.core.language import mark, tell
from saiten.core.plain_text import printable
from saiten.core.wording import name_rule, rate_measures, tell_p
from saiten.reading import read

STYLES = {"pass": "bold green", "fail": "bold red", "inconclusive": "bold yellow"}
SIGNS = {"pass": "✓", "fail": "✗", "inconclusive": "?"}
VERDICT_STYLES = {
    mark("better"): "green",
    mark("worse"): "red",
    mark("same"): "dim",
    mark("no change shown"): "dim",
}
VOID_SIGN = "·"
"""Before the results of rules that say nothing about the system, because the judge moved."""

WIDE_COLUMNS = 96
"""Width from which the table has a column for the smallest detectable difference; below it, a line follows."""

WIDE_SIZE = 16
"""Characters of a size that fit on one line: `60,000 in 10,000`."""

NAME_WIDTH, LONGEST_NAME = 15, 21
"""The least width of the names of measures, and that of the longest in a wide table: `persona-contradiction`. Longer
ones are folded where there is no room."""

WHY = {
    "judge-moved": mark("the judge moved"),
    "coverage": mark("not enough coverage"),
    "no-values": mark("no values"),
    "not-enough-data": mark("not enough data"),
}


def print_gate(report: ShownGateReport, *, recorded: bool = False, on: Console | None = None) -> None:
    """The verdict, its reasons, what they rest on, the worst cases, and where the explorer shows them. A run that was
    only `recorded` as a baseline passed no gate."""
    target = on or console()
    head = tell("baseline recorded") if recorded else headline(report)
    target.print(Text(head, style=STYLES[report.verdict]))
    moved = has_moved(report)
    for reason in report.reasons:
        remarked = reason.model_copy(update={"detail": reason.detail + remark(report.reliability, reason.aspect)})
        print_reason(remarked, on=target, void=moved and reason.about == "rule")
    if moved:
        target.print(Text(tell(VOID)))
    if report.sequence is not None:
        print_line(tell_sequence(report.sequence), target)
    if report.comparison is not None:
        print_comparison(report.comparison, on=target, report=report)
    print_cases(report, target)


def print_cases(report: ShownGateReport, on: Console) -> None:
    """The worst cases with the judge's reasons, and where to see all."""
    if report.cases:
        on.print()
        on.print(Text(tell("worst cases"), style="bold"))
    for case in report.cases:
        on.print(Text(f"  {printable(case.item)}", style="bold"), soft_wrap=True)
        for line in list_lines(case):
            indent = 4 + len(line) - len(line.lstrip())
            width = on.width - indent if on.is_terminal else sys.maxsize
            for part in fold(printable(line.strip()), width):
                on.print(Text(" " * indent + part), soft_wrap=True)
    if report.unexplained is not None:
        print_line(tell("not all reasons were asked for: {why}", why=report.unexplained), on)
    if report.address is not None:
        print_line(tell("all cases: {address}", address=report.address), on)


def headline(report: ShownGateReport) -> str:
    """`gate: fail`, with the reason where it is inconclusive."""
    why = next((WHY[reason.code] for reason in report.reasons if reason.code in WHY), "")
    verdict = tell("gate: {verdict}", verdict=tell(GATE_VERDICTS[report.verdict]))
    return verdict + (f" ({tell(why)})" if report.verdict == "inconclusive" and why else "")


def print_reason(reason: ShownGateReason, *, on: Console, void: bool) -> None:
    """Prints one reason: folded on a terminal, else on one line, so that logs can be searched."""
    sign = VOID_SIGN if void else SIGNS[reason.verdict]
    text = printable(f"{name_rule(reason) or reason.assertion or tell(reason.about)}: {reason.detail}")
    if not on.is_terminal:
        on.print(Text(f"  {sign} {text}"), soft_wrap=True)
        return
    for number, line in enumerate(fold(text, on.width - 4)):
        head = "   " if number else f" {sign} "
        on.print(Text.assemble(f" {head}", (line, "dim" if void else "")), soft_wrap=True)


def print_comparison(comparison: Comparison, *, on: Console, report: ShownGateReport) -> None:
    """Every measure of both runs; of findings those that either run has."""
    measures = {**comparison.aspects, **comparison.composites}
    measures.update((f"{name}.blended", measure) for name, measure in comparison.blended.items())
    found = {
        f"finding:{code}" if code in measures else code: measure
        for code, measure in rate_measures(comparison).items()
        if measure.baseline_mean or measure.candidate_mean
    }
    wide = on.width >= WIDE_COLUMNS
    on.print()
    on.print(
        Text(
            printable(
                tell(
                    "{candidate} against {baseline}",
                    candidate=report.call(comparison.candidate),
                    baseline=report.call(comparison.baseline),
                )
            ),
            style="bold",
        ),
        soft_wrap=True,
    )
    print_line(comparison.pairing.reason, on, style="dim")
    if comparison.link is not None:
        runs, link = ", ".join(comparison.link.runs), comparison.link.id
        told = tell(
            "{linked} {runs}: on this judge's scale by {link}, with the linking error", **LINKED, runs=runs, link=link
        )
        print_line(told, on)
    on.print(tabulate_measures({**measures, **found}, comparison, wide=wide))
    if found:
        print_line(tell("per 100 system turns: {names}", names=", ".join(found)), on)
    for note in list_notes(comparison, {**measures, **found}, wide=wide):
        print_line(note, on)


LINKED = {"linked": "≈"}
"""The sign of means on another judge's scale."""


def tabulate_measures(measures: Mapping[str, Measure], comparison: Comparison, *, wide: bool) -> Table:
    """One row per measure: both means, the difference with its interval, p after Holm, and what is detectable."""
    linked = comparison.link.runs if comparison.link else ()
    before, after = (LINKED["linked"] if role in linked else "" for role in ("baseline", "candidate"))
    table = Table(box=SIMPLE_HEAD, padding=(0, 2 if wide else 1, 0, 0), **LEFT)
    longest = max(map(len, measures), default=0)
    table.add_column("", overflow="fold", min_width=min(longest, LONGEST_NAME) if wide else NAME_WIDTH)
    level = tell("difference\n[{percent:g}%]", percent=100 * (1 - comparison.alpha))
    for head in ("n", tell("baseline\n→ candidate"), level, "p\n(Holm)", *([tell("detect-\nable")] if wide else [])):
        table.add_column(Text(head), justify="right", no_wrap=True)
    table.add_column(tell("verdict"), no_wrap=True)
    for name, measure in measures.items():
        cells = [
            printable(name_measure(name, measure)),
            fold_size(show_size(measure)),
            f"{before}{figure(measure.baseline_mean, '.2f')} → {after}{figure(measure.candidate_mean, '.2f')}",
            tell_difference(measure),
            DASH
            if measure.p_adjusted is None
            else tell_p(measure.p_adjusted).removeprefix("p = ").replace("p < ", "<"),
            *([figure(measure.smallest_detectable, ".2f")] if wide else []),
        ]
        verdict = tell_verdict(measure)
        table.add_row(*map(Text, cells), Text(tell(verdict), style=VERDICT_STYLES.get(verdict, "")))
    return table


def fold_size(size: str) -> str:
    """The size of a measure; on two lines where it is of millions, beside which names would have no room."""
    return size.replace(" ", "\n", 1) if len(size) > WIDE_SIZE else size


def tell_difference(measure: Measure) -> str:
    """`-0.38 [-0.52, -0.27]`."""
    if measure.difference is None:
        return DASH
    written = write_figure(measure.difference, find_digits(measure.difference, 0.0, 2), signed=True)
    return written if measure.interval is None else f"{written} {bounds(measure.interval, '+.2f')}"


def list_notes(comparison: Comparison, measures: Mapping[str, Measure], *, wide: bool) -> Iterator[str]:
    """What does not fit into the table, and why figures are missing: each reason once."""
    found = {name: one.smallest_detectable for name, one in measures.items() if one.smallest_detectable is not None}
    if found and not wide:
        yield tell(
            "detectable: {names}", names=", ".join(f"{name} {figure(value, '.2f')}" for name, value in found.items())
        )
    yield from comparison.notes
    reasons: dict[str, dict[str, None]] = {}
    for name, measure in measures.items():
        for why in measure.undefined.values():
            reasons.setdefault(why, {})[name] = None
    for why, names in reasons.items():
        yield f"{DASH} {', '.join(names)}: {why}"
    for piece, (baseline, candidate) in comparison.signature_differences.items():
        yield tell(
            "scored differently, {piece}: {baseline} → {candidate}", piece=piece, baseline=baseline, candidate=candidate
        )


@dataclass(frozen=True)
class Reference:
    """`path` is the file, None where only the service keeps the ratings; `kept` says where it keeps them.
    Methods raise InvalidItems, SaitenError."""

    path: str | None
    kept: str

    async def check(self, service: Connection, request: Object) -> Object:
        """Whether the judge moved, compared with the ratings of the file, or of the service where there is no file.

        A missing file is written with the current ratings, unless the judge moved: a new reference would hide that.
        """
        stored = self.read()
        check = await service.check_judge(request if stored is None else {**request, "reference": stored})
        verdict = check.get("verdict")
        if verdict == "recorded":
            self.write(check)
        elif self.path is not None and stored is None:
            if verdict != "moved":
                self.write(check)
            did = tell("was not written, for the judge moved")
            if verdict != "moved":
                did = tell("was written with the judge's current ratings")
            click.echo(
                tell(
                    "{path} {did}; it was compared with the ratings kept {kept}",
                    path=self.path,
                    did=did,
                    kept=self.kept,
                ),
                err=True,
            )
        return check

    async def renew(self, service: Connection, request: Object) -> Object:
        """Makes the judge's current ratings the reference, together with a new baseline.

        A file that still agrees with the judge is not rewritten, so that slow drift adds up.
        """
        if self.path is None or self.read() is not None:
            check = await self.check(service, request)
            if check.get("verdict") != "moved":
                return check
            click.echo(tell("{check}; its ratings are taken again", check=check.get("detail")), err=True)
        check = await service.check_judge({**request, "record": True})
        self.write(check)
        return check

    def read(self) -> Object | None:
        """The stored ratings; None where there is no such file."""
        if self.path is None or not Path(self.path).exists():
            return None
        try:
            stored = Path(self.path).read_bytes()
            AnchorRatings.model_validate_json(stored)
        except OSError as error:
            raise InvalidItems(f"{self.path}: {tell(error.strerror or '')}") from None
        except ValueError:
            raise InvalidItems(
                tell(
                    "{path}: these are not stored ratings of a judge; remove the file to store them again",
                    path=self.path,
                )
            ) from None
        found: Object = json.loads(stored)
        return found

    def write(self, check: Object) -> None:
        """Stores the ratings of a check, where a file is named."""
        if self.path is None:
            return
        try:
            written = json.dumps(check.get("ratings"), ensure_ascii=False, indent=1) + "\n"
            Path(self.path).write_text(written, encoding="utf-8")
        except OSError as error:
            raise InvalidItems(f"{self.path}: {tell(error.strerror or '')}") from None


LEXICAL_HINT = mark(
    "set OPENAI_API_KEY or OPENAI_BASE_URL for an LLM judge (is a secret of this job missing?), or allow it with"
    " --judge lexical"
)


Scored = Batch | Results


@dataclass(frozen=True)
class GateJob:
    """What to do. `options` are those settings that the command line gave, `file` is where the others came from. `save`
    and `record` are files for the candidate's results; with `record` nothing is compared.
    `judge` is the only kind of judge that may have rated, where it is given; `ci` is whether this is a CI job."""

    settings: GateSettings
    options: Mapping[str, Any] = field(default_factory=dict)
    file: str = GATE_FILE
    save: str | None = None
    record: str | None = None
    judge: str | None = None
    ci: bool = False
    assertions: Sequence[Assertion] = ()

    @property
    def refuses_lexical(self) -> bool:
        return self.judge == "openai" or (self.ci and self.judge is None)


async def run_gate(job: GateJob, progress: Progress) -> Object:
    """The verdict, as `POST /v1/gates` answers it. The judge is checked first: where it moved, scores taken afterwards
    say nothing about the system."""
    settings = job.settings
    if are_results(settings.candidate) or are_results(settings.baseline):
        writes = job.save is not None or job.record is not None
        require_files(settings, writes=writes, asserts=bool(job.assertions))
        return refuse_lexical(await gate_files(settings, job.options, job.file), job)
    async with open_service(settings.url, {"SAITEN_JUDGE": job.judge} if job.judge else None) as service:
        # Both are looked up before anything is scored: `latest:` must not find the candidate itself, and a mistake
        # should not cost a run.
        candidate = await find_run(service, settings.candidate or "", "candidate", settings)
        baseline = None
        if settings.baseline is not None and job.record is None:
            baseline = await find_run(service, settings.baseline, "baseline", settings)
        elif job.record is None:
            if settings.sequence is not None:
                baseline = await find_sequence_baseline(service, settings.sequence)
            baseline = baseline or await find_pinned(service, candidate, settings)
        settings = await fix_version(service, candidate, baseline, settings)
        job = replace(job, settings=settings)
        await check_plan(service, job, candidate, baseline)
        findings = await asyncio.to_thread(check_assertions, job.assertions, candidate)
        if isinstance(candidate, ItemFile) or isinstance(baseline, ItemFile) or settings.check_judge:
            judge = (await service.info()).get("judge")
            name_judge(str(judge.get("kind")) if isinstance(judge, dict) else "", job)
        check = await check_judge(service, job, candidate) if settings.check_judge else None
        try:
            async with asyncio.timeout(settings.timeout_seconds):
                tried = await score_run(service, candidate, settings, progress)
                before = await score_run(service, baseline, settings, progress) if baseline is not None else None
        except TimeoutError:
            limit = f"{settings.timeout_seconds:g} s"
            raise TimeLimitReached(
                tell("not everything was scored within {limit}; what was begun is cancelled", limit=limit)
            ) from None
        report = refuse_lexical(await judge_runs(service, job, tried, before, check), job)
        answer = settle_verdict(report, findings)
        if job.record is None:
            answer = await complete_answer(service, settings, answer, tried, before)
        if job.record is not None and isinstance(tried, Batch) and answer.get("verdict") == "pass":
            await save_results(service, tried, job.record, candidate if isinstance(candidate, ItemFile) else None)
    return answer


def refuse_lexical(report: Object, job: GateJob) -> Object:
    """The report; raises JudgeUnfit where the lexical judge rated, and may not have."""
    if uses_lexical(read(ShownGateReport, report)) and job.refuses_lexical:
        raise JudgeUnfit(tell("these results are the lexical judge's, a baseline; {hint}", hint=tell(LEXICAL_HINT)))
    return report


def check_assertions(assertions: Sequence[Assertion], candidate: FoundRun) -> list[AssertionOutcome]:
    """How the assertions did on the candidate's responses. Raises InvalidItems where it has none."""
    values: list[Any] = []
    if isinstance(candidate, ItemFile):
        values = [item.value for item in candidate.values]
    elif isinstance(candidate, Results):
        values = [{**line.model_dump(), "response": line.response} for line in candidate.lines]
    answers = [*answers_of(values)] if assertions else []
    if assertions and not answers:
        raise InvalidItems(
            tell("assertions look at responses, which this candidate does not hold; name a file of items")
        )
    return check(assertions, answers)


async def fix_version(
    service: Connection, candidate: FoundRun, baseline: FoundRun | None, settings: GateSettings
) -> GateSettings:
    """The settings with the baseline's version of the rubric, where items are to be scored and no version is named.

    A version that came with an upgrade is not a change of the candidate. Prints a line where it changes the version.
    """
    if not isinstance(candidate, ItemFile) or baseline is None or isinstance(baseline, ItemFile):
        return settings
    before = baseline.rubric_name
    rubric_id, version = split_name(before)
    named = options_of(candidate, settings).get("rubric")
    if version is None or named not in {None, rubric_id}:
        return settings
    asked = name_rubric(await fetch_rubric(service, named or settings.rubric))
    kept = name_rubric(await fetch_rubric(service, before))
    if before == asked or before != kept:  # or that version no longer exists
        return settings
    newest = name_rubric(await fetch_rubric(service, rubric_id))
    if before == newest:
        said = tell("rubric: {before}, as the baseline", before=before)
    else:
        said = tell(
            "rubric: {before}, as the baseline; --rubric {newest} asks for the newest", before=before, newest=newest
        )
    click.echo(said, err=True)
    return settings.model_copy(update={"rubric": before})


def name_judge(kind: str, job: GateJob) -> None:
    """Warns where the lexical judge will rate. Raises JudgeUnfit where it may not, before anything is scored: a secret
    may be missing from this job."""
    if kind != "lexical":
        if job.judge == "lexical":
            raise JudgeUnfit(
                tell("--judge lexical: this service's judge is {value}", value=printable(kind[:32]) or "not known")
            )
        return
    if job.refuses_lexical:
        raise JudgeUnfit(tell("the lexical judge, a baseline, would rate here; {hint}", hint=tell(LEXICAL_HINT)))
    click.echo(tell(LEXICAL), err=True)


def write_request(
    job: GateJob, candidate: Batch | Results, baseline: Batch | Results | None, check: Object | None
) -> Object:
    """What the gate is asked, without the runs. Raises BatchesRequired for what only batches have."""
    settings = job.settings
    request: Object = {**settings.model_dump(include={*TERMS}), "rules": settings.rules, "judge_check": check}
    # Older services do not know these fields.
    if settings.estimate != "judge":
        request["estimate"] = settings.estimate
    if settings.looks != "once":
        request["looks"] = settings.looks
    if settings.link is not None and job.record is None:
        if isinstance(candidate, Results) or isinstance(baseline, Results):
            raise BatchesRequired(tell("a link is stored with a service's batches: name both runs as batches (ba_…)"))
        request["link"] = settings.link
    if settings.sequence is not None:
        if isinstance(candidate, Results) or isinstance(baseline, Results):
            raise BatchesRequired(tell("a sequence is of a service's batches: name both runs as batches or items"))
        request["sequence"] = settings.sequence
        if "alpha" not in settings.model_fields_set:
            del request["alpha"]  # the sequence has its own
    return request


async def judge_runs(
    service: Connection,
    job: GateJob,
    candidate: Batch | Results,
    baseline: Batch | Results | None,
    check: Object | None,
) -> Object:
    """The verdict on the scored runs; also writes the candidate's results to `save`."""
    if job.save is not None and isinstance(candidate, Batch):
        await save_results(service, candidate, job.save)
    request = write_request(job, candidate, baseline, check)
    sides: dict[SourceRole, Batch | Results | None] = {"candidate": candidate, "baseline": baseline}
    request |= {
        role: run.options() if isinstance(run, Results) else run.id for role, run in sides.items() if run is not None
    }
    if job.record is not None:
        request["coverage_only"] = True
    lines = [line for role, run in sides.items() if isinstance(run, Results) for line in run.write(role)]
    try:
        return await ask_gate(service, job, request, lines, job.settings.metadata or find_metadata(candidate))
    except ServiceRefused as error:
        faults = [(place_fault(where, sides.values()), what) for where, what in error.faults]
        if error.status != UNFIT or all(where is None for where, _ in faults):
            raise
        raise InvalidItems(gather_faults([(where or "", what) for where, what in faults], error.total)) from None


def place_fault(pointer: str, runs: Iterable[Batch | Results | None]) -> str | None:
    """Where in a file of results a fault is; None where it is of none."""
    role = pointer.removeprefix("/").partition("/")[0]
    for name, run in zip(("candidate", "baseline"), runs, strict=True):
        if name == role and isinstance(run, Results):
            return run.place(pointer)
    return None


NOT_KEEPING = {"insufficient-scope", "project-full"}
"""Why a service keeps no verdict that it would give."""


def find_metadata(candidate: Batch | Results) -> Mapping[str, str]:
    """What is kept with the verdict where the settings do not say: a batch's own is known to the service."""
    return candidate.metadata if isinstance(candidate, Results) else {}


async def ask_gate(
    service: Connection, job: GateJob, request: Object, lines: Sequence[Object], metadata: Mapping[str, Any]
) -> Object:
    """The verdict. It is kept by a service that is named, unless that is switched off, or where no one asked for it and
    the service does not: a key may only read, and an older service keeps none."""
    asked = job.settings.keep
    if not (asked if asked is not None else job.settings.url is not None and job.record is None):
        return await service.gate(request, lines)
    try:
        return await service.gate({**request, "keep": True, "metadata": metadata}, lines)
    except ServiceRefused as error:
        older = error.status == UNFIT and any(where in {"/keep", "/metadata"} for where, _ in error.faults)
        if asked or not (older or error.code in NOT_KEEPING):
            raise
        click.echo(tell("the verdict is not kept: {why}", why=printable(error.detail)), err=True)
        return await service.gate(request, lines)


async def check_plan(service: Connection, job: GateJob, candidate: FoundRun, baseline: FoundRun | None) -> None:
    """Raises InvalidItems, or the error of a rule that cannot be judged, before anything is scored."""
    if isinstance(candidate, Results) and (job.save or job.record):
        raise InvalidItems(
            tell("--{value}: the candidate is a file of results already", value="save" if job.save else "record")
        )
    for run in (candidate, baseline):
        rates = any(rule.get("finding") or rule.get("measure") for rule in job.settings.rules)
        if rates and isinstance(run, Results) and run.lacks_turns:
            raise InvalidItems(
                tell(
                    "{name}: it does not tell how many turns the system had; take the results again, or name batches "
                    "(ba_…) or files of conversations for rules on findings",
                    name=run.name,
                )
            )
    if isinstance(candidate, Batch) and isinstance(baseline, Batch) and candidate.id == baseline.id:
        raise InvalidItems(tell("candidate and baseline are the same batch, {id}", id=candidate.id))
    rubrics = None
    if job.record is None:
        named = [None if run is None else rubric_for(run, job.settings) for run in (candidate, baseline)]
        rubrics = (str(named[0]), named[1])
    await check_settings(service, job.settings, job.options, job.file, rubrics=rubrics)


def rubric_for(found: FoundRun, settings: GateSettings) -> str:
    """The rubric by which this was or will be scored."""
    return name_rubric(found.rubric) if isinstance(found, Results) else str(options_for(found, settings)["rubric"])


def options_for(found: FoundRun, settings: GateSettings) -> Mapping[str, Any]:
    """`rubric`, `path` and `judge` with which this was or will be scored."""
    own: Mapping[str, Any] = {}
    if isinstance(found, ItemFile):
        own = options_of(found, settings)
    elif isinstance(found, Batch):
        own = {**found.model_dump(mode="json", include=ASKED), "rubric": found.rubric_name}
    return {name: own.get(name, default) for name, default in settings.model_dump(include=ASKED).items()}


ASKED = {"rubric", "path", "judge"}


def name_keeper(settings: GateSettings) -> str:
    """Where ratings without a file are kept. The URL of a database on a host is not shown: it may hold a password."""
    if settings.url is not None:
        return tell("by the service")
    scheme, _, file = os.environ.get("DATABASE_URL", "sqlite:///saiten.db").partition(":///")
    if scheme.startswith("sqlite") and file:
        return tell("in the database ({name})", name=Path(file).name)
    return tell("in the database")


async def check_judge(service: Connection, job: GateJob, candidate: FoundRun) -> Object:
    """Whether the judge that rates the candidate moved, compared with its stored ratings."""
    asked = options_for(candidate, job.settings)
    request = {**asked, "path": "source" if asked["path"] == "both" else asked["path"]}
    reference = Reference(job.settings.judge_reference, name_keeper(job.settings))
    if job.record is None:
        return await reference.check(service, request)
    return await reference.renew(service, request)
