"""The work of `saiten attack`: each attack and its twin, scored by one judge, and the report as tables and files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

import click
from rich.console import Console
from rich.text import Text

import saiten
from saiten.commands.comments import is_comment
from saiten.commands.files import InvalidItems, name_file, read_bytes, require_place
from saiten.commands.junit import OUTCOMES, JUnitCase, write_suite
from saiten.commands.markdown import GATE_VERDICTS, escape
from saiten.commands.output import TerminalTable, bounds, console, drop_zeros, figure, print_line, print_sheet
from saiten.core.figures import DASH
from saiten.core.language import mark, tell, tell_all
from saiten.core.plain_text import escape_controls
from saiten_server.attacks.statistics import AttackTrial, RatedAspect, TrialOutcome, find_forged, list_stored
from saiten_server.attacks.values import AttackGroup, AttackItem, AttackReport, AttackRole, Count, Forgery, Mean
from saiten_server.cli.analysis_input import read_items
from saiten_server.cli.backend import Backend, StoredRecord
from saiten_server.cli.process import say
from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.errors import JudgeRefusedRequest, JudgeReplyInvalid, RubricNotSupported, UnknownRubric
from saiten_server.core.evaluation import Evaluation, Path
from saiten_server.core.rubric import Rubric
from saiten_server.core.validation import validate
from saiten_server.platform.bundled import bundled_folder
from saiten_server.platform.tasks import end_tasks
from saiten_server.providers.registry import is_baseline

STYLES = {"pass": "bold green", "fail": "bold red", "inconclusive": "bold yellow"}
SIGNS = {"pass": "✓", "fail": "✗", "inconclusive": "?"}
MOST_NAMED_CODES = 8  # ids that are named in one line; the JSON report has all
LEGEND = (
    mark(
        "flagged, lift: with 95% intervals; lift: attack less twin, of the scale; "
        "room: the most that it could have been"
    ),
    mark("won, fell: an aspect moved by half of its scale, or up to the bait; denied: only the twin was rated"),
)


def print_attack(report: AttackReport, *, on: Console | None = None) -> None:
    """The verdict and its reasons, then the figures they rest on."""
    target = on or console()
    target.print(
        Text(tell("attack: {verdict}", verdict=tell(GATE_VERDICTS[report.verdict])), style=STYLES[report.verdict])
    )
    for reason in report.reasons:
        print_line(f"  {SIGNS[reason.verdict]} {reason.about}: {say(reason.sentence)}", target)
    target.print()
    print_line(name_attack_run(report), target, style="bold")
    print_sheet(sheet_of(tell("kind"), {**report.kinds, tell("all"): report.all}), target)
    if len(report.languages) > 1:
        print_sheet(sheet_of(tell("language"), report.languages), target)
    for sheet in aspect_sheets(report):
        print_sheet(sheet, target)
    for line in list_remarks(report):
        print_line(line, target)


def name_attack_run(report: AttackReport) -> str:
    """Corpus, judge, rubrics and path."""
    models = ", ".join(report.models) or tell("no model answered")
    rubrics = ", ".join(f"{language}: {rubric}" for language, rubric in report.rubrics.items())
    samples = tell(", {count} samples", count=report.samples) if report.samples > 1 else ""
    return tell(
        "corpus {corpus}, judge {judge} ({models}), {rubrics}, path {path}{samples}",
        corpus=report.corpus,
        judge=report.judge,
        models=models,
        rubrics=rubrics,
        path=report.path,
        samples=samples,
    )


def sheet_of(head: str, groups: Mapping[str, AttackGroup]) -> TerminalTable:
    """One row per group."""
    rows = [
        (
            name,
            str(found.items),
            tell_share(found.flagged),
            tell_mean(found.lift),
            tell_count(found.won),
            tell_count(found.fell),
            str(found.denied.count),
        )
        for name, found in groups.items()
    ]
    heads = tell_all("n", "flagged", "lift", "won", "fell", "denied")
    return drop_zeros(TerminalTable(tell("by {head}", head=head), (head, *heads), rows), heads[-1])


def aspect_sheets(report: AttackReport) -> Iterator[TerminalTable]:
    """One table per rubric: the lift of each aspect."""
    for rubric, aspects in report.aspects.items():
        rows = [
            (
                name,
                "{}..{}".format(*found.scale),
                str(found.points.n),
                tell_points(found.points),
                tell_mean(found.share),
                DASH if found.room is None else f"{found.room:.0%}",
            )
            for name, found in aspects.items()
        ]
        yield TerminalTable(
            tell("lift by aspect, {rubric}", rubric=rubric),
            tell_all("aspect", "scale", "n", "points", "of the scale", "room"),
            rows,
        )


def tell_count(found: Count) -> str:
    """`3/12`."""
    return f"{found.count}/{found.of}" if found.of else DASH


def tell_share(found: Count) -> str:
    """`67% [54, 77]`."""
    if found.share is None or found.interval is None:
        return DASH
    low, high = found.interval
    return f"{found.share:.0%} [{100 * low:.0f}, {100 * high:.0f}]"


def tell_mean(found: Mean) -> str:
    """`+12.5% [+8, +17]`, of the scale."""
    if found.mean is None:
        return DASH
    mean = f"{found.mean:+.1%}"
    return mean + (" [{:+.0f}, {:+.0f}]".format(*(100 * end for end in found.interval)) if found.interval else "")


def tell_points(found: Mean) -> str:
    """`+0.25 [+0.16, +0.34]`, scale points."""
    if found.mean is None:
        return DASH
    mean = figure(found.mean, "+.2f")
    return mean if found.interval is None else f"{mean} {bounds(found.interval, '+.2f')}"


def list_remarks(report: AttackReport) -> Iterator[str]:
    """What the tables do not hold."""
    yield tell("look-alikes flagged: ") + f"{tell_count(report.false_flags)}{name_some(report.flagged_benign)}"
    yield tell(
        "under the policy `refuse`: {stopped} attacks stopped before the judge; {passed} that won would have passed",
        stopped=tell_count(report.stopped),
        passed=report.all.won_unseen.count,
    )
    lists = (
        (tell("not flagged"), report.missed),
        (tell("won"), report.won),
        (tell("accepted although it must be refused"), report.accepted),
    )
    yield from (f"{what}: {len(ids)}{name_some(ids)}" for what, ids in lists if ids)
    if report.all.over_maximum.of:
        yield tell("rated above what the item deserves: ") + tell_count(report.all.over_maximum)
    if report.all.unrated or report.all.refused or report.all.errors:
        codes = "".join(f", {code} {n}" for code, n in report.failures.items())
        whole = report.all
        told = tell(
            "no rating: {unrated} unrated, {refused} refused, {errors} without an answer",
            unrated=whole.unrated,
            refused=whole.refused,
            errors=whole.errors,
        )
        yield told + codes
    if report.ratings_without_reply:
        yield tell(
            "{count} ratings are of a judge that gives no reply to read again", count=report.ratings_without_reply
        )
    usage = report.usage
    yield tell(
        "{calls} judge calls, {tokens:,} tokens, {cost}",
        calls=usage.judge_calls,
        tokens=usage.prompt_tokens + usage.completion_tokens,
        cost=tell("of unknown cost") if usage.cost_usd is None else f"USD {usage.cost_usd:.4f}",
    )
    yield from map(tell, LEGEND)


def name_some(ids: tuple[str, ...]) -> str:
    """` (a, b, … and 3 more)`; empty without ids."""
    if not ids:
        return ""
    more = tell(", … and {count} more", count=len(ids) - MOST_NAMED_CODES) if len(ids) > MOST_NAMED_CODES else ""
    return f" ({', '.join(ids[:MOST_NAMED_CODES])}{more})"


def read_corpus(path: str | None) -> tuple[str, list[AttackItem]]:
    """The corpus's name and items. Raises InvalidItems that names line and field, or two items of one id."""
    if path is None:
        name, body = tell("bundled"), bundled_folder("cli/attacks.jsonl").read_bytes()
    else:
        name, body = name_file(path), read_bytes(path)
    return name, read_items(
        name,
        body,
        lambda value: validate(AttackItem, value, DEFAULT_LIMITS),
        lambda item: item.id,
        lambda item, first: tell("/id: is the id of {first} too", first=first),
    )


OTHER_RUBRIC = "ja-dialogue"
"""For Japanese, and for languages without a rubric: attack and twin are rated by the same rubric, so that its errors
cancel out."""

SUSPECTED = "suspected-injection"
UNPROCESSABLE_STATUS = 422
UNRATED = {JudgeReplyInvalid.code, JudgeRefusedRequest.code}  # the judge answered and rated nothing
OF_ALL = {UnknownRubric.code, RubricNotSupported.code}  # failures that every item by that rubric shares


@dataclass(frozen=True)
class Options:
    """How every item is scored. `rubric` None: by the item's language and kind."""

    rubric: str | None
    path: Path
    model: str | None
    samples: int

    def rubric_of(self, item: AttackItem) -> str:
        """The rubric of the item; of a Korean one that for comments, where it is on a text such as a diary entry."""
        if self.rubric is not None:
            return self.rubric
        if item.language != "ko":
            return OTHER_RUBRIC
        context = item.dialogue()["context"]
        return "ko-comment" if is_comment(context) else "ko-dialogue"

    def body(self, item: AttackItem, role: AttackRole) -> dict[str, Any]:
        """The body of POST /v1/evaluations. Items are judged and flagged regardless of the project's policy."""
        judge: dict[str, Any] = {"samples": self.samples}
        if self.model is not None:
            judge["model"] = self.model
        return {
            **(item.dialogue() if role == "attack" else item.twin()),
            "rubric": self.rubric_of(item),
            "path": self.path,
            "relevance": None,
            "judge": judge,
            "integrity": "flag",
            "metadata": {"attack": item.id, "role": role},
        }


@dataclass(frozen=True)
class ScoredTrial:
    """A trial with the evaluations that it was read from."""

    trial: AttackTrial
    evaluations: Mapping[AttackRole, Evaluation]


async def score_attacks(
    items: Sequence[AttackItem], backend: Backend, options: Options, *, concurrency: int, done: Callable[[], None]
) -> list[ScoredTrial]:
    """Every item, in order. `done` is called after each dialogue. Raises SaitenError where no item can be scored
    because of the rubric."""
    rubrics = {name: await backend.rubric(name) for name in {options.rubric_of(item) for item in items}}
    gate = asyncio.Semaphore(concurrency)

    async def one(item: AttackItem, role: AttackRole) -> tuple[TrialOutcome, Evaluation | None]:
        async with gate:
            found = await answer_attack(item, role, backend, options, rubrics[options.rubric_of(item)])
        done()
        return found

    roles = [(item, role) for item in items for role in roles_of(item)]
    tasks = [asyncio.create_task(one(item, role)) for item, role in roles]
    try:
        answers = dict(zip([(item.id, role) for item, role in roles], await asyncio.gather(*tasks), strict=True))
    finally:
        await end_tasks(tasks)
    scored = []
    for item in items:
        found = {role: answers[item.id, role] for role in roles_of(item)}
        twin = found["twin"][0] if "twin" in found else None
        trial = AttackTrial(item, options.rubric_of(item), found["attack"][0], twin)
        scored.append(ScoredTrial(trial, {role: one for role, (_, one) in found.items() if one is not None}))
    return scored


def roles_of(item: AttackItem) -> tuple[AttackRole, ...]:
    """What is scored of an item."""
    return ("attack", "twin") if item.twinned else ("attack",)


async def answer_attack(
    item: AttackItem, role: AttackRole, backend: Backend, options: Options, rubric: Rubric
) -> tuple[TrialOutcome, Evaluation | None]:
    """What comes of one dialogue: an error is the item's, unless all would share it."""
    try:
        record = await backend.score(options.body(item, role))
    except saiten.SaitenError as error:
        if error.code in OF_ALL:
            raise
        return explain_no_rating(error), None
    return read_record(record, item, role, rubric), record.evaluation


def explain_no_rating(error: saiten.SaitenError) -> TrialOutcome:
    """What stands in place of a rating."""
    if error.code in UNRATED:
        return TrialOutcome("unrated", code=error.code, detail=error.detail)
    if error.code == SUSPECTED:
        return TrialOutcome("refused", code=error.code, detail=error.detail, flagged=True)
    refused = isinstance(error, saiten.ServiceRefused) and error.status == UNPROCESSABLE_STATUS
    return TrialOutcome("refused" if refused else "failed", code=error.code, detail=error.detail)


def read_record(record: StoredRecord, item: AttackItem, role: AttackRole, rubric: Rubric) -> TrialOutcome:
    """The figures need of a record, and whether its ratings are the judge's."""
    evaluation = record.evaluation
    stored = list(list_stored(evaluation))
    # A baseline says nothing that could be read again. Of any other judge a rating without a reply is forged.
    spoken = not is_baseline(evaluation.judge.kind)
    forged = find_forged(evaluation, record.trace, rubric) if spoken else []
    aspects = {
        name: RatedAspect(result.rating, result.mean, result.scale, rubric.best.get(name, float(result.scale[1])))
        for name, result in evaluation.aspects.items()
        if result.rating is not None and result.mean is not None
    }
    return TrialOutcome(
        "rated" if aspects else "unrated",
        aspects=aspects,
        flagged=any(warned.code == SUSPECTED for warned in evaluation.warnings),
        model=evaluation.judge.model,
        usage=evaluation.usage,
        checked=len(stored) if spoken else 0,
        without_reply=0 if spoken else len(stored),
        forged=tuple(Forgery(item=item.id, role=role, **found._asdict()) for found in forged),
    )


def require_folder(path: str | None) -> None:
    """Raises InvalidItems for a file that cannot be written, before anything is scored."""
    if path is not None and path != "-":
        require_place(path)


def write_reports(
    report: AttackReport,
    scored: Sequence[ScoredTrial],
    *,
    as_json: str | None,
    markdown: str | None,
    junit: str | None,
    details: str | None,
) -> None:
    """Writes what was asked for. Raises InvalidItems where a file cannot be written."""
    wanted: tuple[tuple[str | None, Callable[[], str]], ...] = (
        (details, lambda: "".join(map(detail, scored))),
        (markdown, lambda: write_attack_markdown(report)),
        (junit, lambda: write_attack_junit(report)),
        (as_json, lambda: escape_controls(report.model_dump_json(indent=2)) + "\n"),
    )
    for path, write in wanted:
        if path is None:
            continue
        if path == "-":
            click.echo(write(), nl=False)
            continue
        try:
            FilePath(path).write_text(write(), encoding="utf-8")
        except OSError as error:
            raise InvalidItems(f"{path}: {tell(error.strerror or '')}") from None


def detail(one: ScoredTrial) -> str:
    """One item as a line of JSON. An evaluation that is not there is null, with the code of what came in its place."""
    trial = one.trial
    line: dict[str, Any] = {
        "item": trial.item.id,
        "kind": trial.item.kind,
        "language": trial.item.language,
        "flagged": trial.attack.flagged if trial.answered else None,
        "lift": trial.lift,
        "lifts": trial.lifts,
        "won": trial.won,
        "denied": trial.denied,
    }
    for role, answer in (("attack", trial.attack), ("twin", trial.twin)):
        evaluation = next((found for name, found in one.evaluations.items() if name == role), None)
        line[role] = None if evaluation is None else evaluation.model_dump(mode="json")
        line[f"{role}_outcome"] = None if answer is None else answer.outcome
        line[f"{role}_code"] = None if answer is None else answer.code
    return escape_controls(json.dumps(line, ensure_ascii=False)) + "\n"


def write_attack_markdown(report: AttackReport) -> str:
    """Headline, what decided, the figures by kind and language, and what was missed."""
    rubrics = ", ".join(f"{language}: {rubric}" for language, rubric in report.rubrics.items())
    models = ", ".join(report.models) or DASH
    parts = [
        f"### Saiten attack: {tell(GATE_VERDICTS[report.verdict])}",
        tell(
            "Corpus {corpus}, judge {judge} ({models}), {rubrics}, path {path}.",
            corpus=escape(report.corpus),
            judge=escape(report.judge),
            models=escape(models),
            rubrics=escape(rubrics),
            path=report.path,
        ),
        "\n".join(
            f"- **{tell(GATE_VERDICTS[reason.verdict])}** {reason.about}: {escape(say(reason.sentence))}"
            for reason in report.reasons
        ),
        write_attack_table(report),
        *list_attack_notes(report),
    ]
    return "\n\n".join(parts) + "\n"


def write_attack_table(report: AttackReport) -> str:
    """A row a kind, a language, and all."""
    heads = tell_all("attacks", "n", "flagged", "lift of the scale", "won", "fell", "denied")
    groups = [*report.kinds.items(), *report.languages.items(), (tell("all"), report.all)]
    head = [f"| {' | '.join(heads)} |", "|:--|--:|:--|:--|--:|--:|--:|"]
    return "\n".join([*head, *(write_attack_row(name, found) for name, found in groups)])


def write_attack_row(name: str, found: AttackGroup) -> str:
    """One group. A figure that there is not is a dash."""
    cells = (
        escape(name),
        str(found.items),
        show_share(found.flagged),
        show_mean(found.lift),
        show_count(found.won),
        show_count(found.fell),
        show_count(found.denied),
    )
    return f"| {' | '.join(cells)} |"


def list_attack_notes(report: AttackReport) -> Iterator[str]:
    """Look-alikes, what `refuse` would do, what was not seen, and the cost."""
    yield tell(
        "Look-alikes flagged: {flagged}. The policy `refuse` would have stopped {stopped} attacks; {passed} that won "
        "would have passed.",
        flagged=show_share(report.false_flags),
        stopped=show_count(report.stopped),
        passed=report.all.won_unseen.count,
    )
    yield from (
        f"{title}: {', '.join(map(escape, ids))}"
        for title, ids in zip(
            tell_all("Not flagged", "Won", "Taken"), (report.missed, report.won, report.accepted), strict=True
        )
        if ids
    )
    cost = tell("unknown") if report.usage.cost_usd is None else f"USD {report.usage.cost_usd:.4f}"
    yield tell("{calls} judge calls, cost {cost}.", calls=report.usage.judge_calls, cost=cost)


def show_count(found: Count) -> str:
    """`3 / 12`."""
    return f"{found.count} / {found.of}" if found.of else DASH


def show_share(found: Count) -> str:
    """`40 / 60 (67%, 54 to 77)`."""
    if found.share is None or found.interval is None:
        return DASH
    low, high = found.interval
    return tell(
        "{count} / {total} ({share:.0f}%, {low:.0f} to {high:.0f})",
        count=found.count,
        total=found.of,
        share=100 * found.share,
        low=100 * low,
        high=100 * high,
    )


def show_mean(found: Mean) -> str:
    """`+12.5% [+8.0, +17.1]`."""
    if found.mean is None:
        return DASH
    shown = f"{100 * found.mean:+.1f}%"
    return (
        shown if found.interval is None else f"{shown} [{100 * found.interval[0]:+.1f}, {100 * found.interval[1]:+.1f}]"
    )


def write_attack_junit(report: AttackReport) -> str:
    """The rules in their order."""
    about = (("corpus", report.corpus), ("judge", report.judge), ("models", ", ".join(report.models)))
    cases = [
        JUnitCase(reason.about, OUTCOMES[reason.verdict], say(reason.sentence), code=reason.about)
        for reason in report.reasons
    ]
    return write_suite("saiten attack", about, cases)
