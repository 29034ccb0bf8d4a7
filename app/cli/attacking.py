"""What `saiten attack` does, once it knows what is asked: each attack and its twin, scored by one judge."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

import click

import saiten
from app.analysis.attacks import Answer, Rated, Trial, find_forged, list_stored
from app.analysis.junit import write_attack_junit
from app.analysis.markdown import write_attack_markdown
from app.bundled import bundled_folder
from app.cancellation import end_tasks
from app.cli.backend import Backend, StoredRecord
from app.cli.items import InvalidItems, read_bytes, shorten_faults, split
from app.domain.attack import AttackItem
from app.domain.attack_report import AttackReport, Forgery, Role
from app.domain.dialogue import DEFAULT_LIMITS
from app.domain.errors import JudgeRefusedRequest, JudgeReplyInvalid, RubricNotSupported, UnknownRubric
from app.domain.evaluation import Evaluation, Path
from app.domain.plain_text import escape_controls
from app.domain.rubric import Rubric
from app.domain.validation import InvalidDocument, validate
from app.providers.registry import is_baseline

BUNDLED = "attacks.jsonl"


def read_corpus(path: str | None) -> tuple[str, list[AttackItem]]:
    """The corpus's name and items. Raises InvalidItems that names line and field, or two items of one id.

    All or nothing: shares of a corpus that leaves out what could not be read have another denominator than they say.
    """
    if path is None:
        name, body = "bundled", bundled_folder(BUNDLED).read_bytes()
    else:
        name, body = ("standard input" if path == "-" else path), read_bytes(path)
    items, faults = [], []
    seen: dict[str, str] = {}
    for where, value in split(name, body):
        try:
            item = validate(AttackItem, value, DEFAULT_LIMITS)
        except InvalidDocument as error:
            faults += [f"{where}: {pointer or 'the item'}: {detail}" for pointer, detail in error.faults]
            continue
        if item.id in seen:
            faults.append(f"{where}: /id: is the id of {seen[item.id]} too")
        seen.setdefault(item.id, where)
        items.append(item)
    if faults:
        raise InvalidItems(shorten_faults(faults))
    if not items:
        raise InvalidItems(f"{name}: no items; expected a JSON array or one JSON object a line")
    return name, items


RUBRICS = {"ko": "ko-comment"}
OTHER_RUBRIC = "ja-dialogue"
"""Of Japanese, and of a language that has no rubric of its own: attack and twin are held to the same, so what it says
of the twin matters little, and what it says of both cancels out."""

SUSPECTED = "suspected-injection"
REFUSED = 422
UNRATED = {JudgeReplyInvalid.code, JudgeRefusedRequest.code}
"""The judge answered and rated nothing."""

OF_ALL = {UnknownRubric.code, RubricNotSupported.code}
"""Failures that every item by that rubric shares."""


@dataclass(frozen=True)
class Options:
    """How every item is scored. `rubric` None: by the item's language."""

    rubric: str | None
    path: Path
    model: str | None
    samples: int

    def rubric_of(self, language: str) -> str:
        return self.rubric or RUBRICS.get(language, OTHER_RUBRIC)

    def body(self, item: AttackItem, role: Role) -> dict[str, Any]:
        """The body of POST /v1/evaluations. It is always judged and flagged, whatever the project's policy says."""
        judge: dict[str, Any] = {"samples": self.samples}
        if self.model is not None:
            judge["model"] = self.model
        return {
            **(item.dialogue() if role == "attack" else item.twin()),
            "rubric": self.rubric_of(item.language),
            "path": self.path,
            "relevance": None,
            "judge": judge,
            "integrity": "flag",
            "metadata": {"attack": item.id, "role": role},
        }


@dataclass(frozen=True)
class Scored:
    """A trial with the evaluations that it was read from, for whoever wants them whole."""

    trial: Trial
    evaluations: Mapping[Role, Evaluation]


async def score_attacks(
    items: Sequence[AttackItem], backend: Backend, options: Options, *, concurrency: int, done: Callable[[], None]
) -> list[Scored]:
    """Every item, in order. `done` is told of each dialogue that is through.

    Raises SaitenError where no item can be scored because of the rubric.
    """
    rubrics = {name: await backend.rubric(name) for name in {options.rubric_of(item.language) for item in items}}
    gate = asyncio.Semaphore(concurrency)

    async def one(item: AttackItem, role: Role) -> tuple[Answer, Evaluation | None]:
        async with gate:
            found = await answer(item, role, backend, options, rubrics[options.rubric_of(item.language)])
        done()
        return found

    roles = [(item, role) for item in items for role in roles_of(item)]
    tasks = [asyncio.create_task(one(item, role)) for item, role in roles]
    try:
        answers = dict(zip([(item.id, role) for item, role in roles], await asyncio.gather(*tasks), strict=True))
    finally:
        await end_tasks(tasks)
    return [
        collect(item, options.rubric_of(item.language), {role: answers[item.id, role] for role in roles_of(item)})
        for item in items
    ]


def roles_of(item: AttackItem) -> tuple[Role, ...]:
    """What is scored of an item."""
    return ("attack", "twin") if item.twinned else ("attack",)


def count_dialogues(items: Sequence[AttackItem]) -> int:
    """How many there are to score."""
    return sum(len(roles_of(item)) for item in items)


def collect(item: AttackItem, rubric: str, found: Mapping[Role, tuple[Answer, Evaluation | None]]) -> Scored:
    """One item's answers together."""
    twin = found["twin"][0] if "twin" in found else None
    evaluations = {role: evaluation for role, (_, evaluation) in found.items() if evaluation is not None}
    return Scored(Trial(item, rubric, found["attack"][0], twin), evaluations)


async def answer(
    item: AttackItem, role: Role, backend: Backend, options: Options, rubric: Rubric
) -> tuple[Answer, Evaluation | None]:
    """What comes of one dialogue: an error is the item's, unless all would share it."""
    try:
        record = await backend.score(options.body(item, role))
    except saiten.SaitenError as error:
        if error.code in OF_ALL:
            raise
        return explain(error), None
    return read_record(record, item, role, rubric), record.evaluation


def explain(error: saiten.SaitenError) -> Answer:
    """What stands in place of a rating."""
    if error.code in UNRATED:
        return Answer("unrated", code=error.code, detail=error.detail)
    if error.code == SUSPECTED:
        return Answer("refused", code=error.code, detail=error.detail, flagged=True)
    refused = isinstance(error, saiten.ServiceRefused) and error.status == REFUSED
    return Answer("refused" if refused else "failed", code=error.code, detail=error.detail)


def read_record(record: StoredRecord, item: AttackItem, role: Role, rubric: Rubric) -> Answer:
    """The figures need of a record, and whether its ratings are the judge's."""
    evaluation = record.evaluation
    stored = list(list_stored(evaluation))
    # A baseline says nothing that could be read again. Of any other judge a rating without a reply is forged.
    spoken = not is_baseline(evaluation.judge.kind)
    forged = find_forged(evaluation, record.trace, rubric) if spoken else []
    aspects = {
        name: Rated(result.rating, result.mean, result.scale, rubric.best.get(name, float(result.scale[1])))
        for name, result in evaluation.aspects.items()
        if result.rating is not None and result.mean is not None
    }
    return Answer(
        "rated" if aspects else "unrated",
        aspects=aspects,
        flagged=any(warned.code == SUSPECTED for warned in evaluation.warnings),
        model=evaluation.judge.model,
        usage=evaluation.usage,
        checked=len(stored) if spoken else 0,
        without_reply=0 if spoken else len(stored),
        forged=tuple(Forgery(item=item.id, role=role, **found._asdict()) for found in forged),
    )


def require_place(path: str | None) -> None:
    """Raises InvalidItems for a file that cannot be written: before all is scored and paid for."""
    if path is None or path == "-":
        return
    if not FilePath(path).absolute().parent.is_dir():
        raise InvalidItems(f"{path}: there is no such folder")
    if FilePath(path).is_dir():
        raise InvalidItems(f"{path or 'the file to be written'}: Is a directory")


def write_reports(
    report: AttackReport,
    scored: Sequence[Scored],
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
            raise InvalidItems(f"{path}: {error.strerror}") from None


def detail(one: Scored) -> str:
    """One item as a line of JSON. An evaluation that is not there is null, with the code of what came in its place."""
    trial = one.trial
    told: dict[str, Any] = {
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
        told[role] = None if evaluation is None else evaluation.model_dump(mode="json")
        told[f"{role}_outcome"] = None if answer is None else answer.outcome
        told[f"{role}_code"] = None if answer is None else answer.code
    return escape_controls(json.dumps(told, ensure_ascii=False)) + "\n"
