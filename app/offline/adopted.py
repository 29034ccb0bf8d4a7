"""What a service keeps of a result that was scored elsewhere: its figures and ids, in the shape of any result."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Literal, get_args

from saiten.core.messages import Message
from saiten_server.core.batch import Candidate, Entry, Failure
from saiten_server.core.conversation import JUDGED, KIND, KINDS_KNOWN, RULE_CODES, FaultyTurns, Finding, Role
from saiten_server.core.dialogue import Utterance
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.evaluation import (
    ADOPTED,
    AspectResult,
    Evaluation,
    EvaluationRequest,
    JudgeProvenance,
    Record,
    RubricReference,
    Unrated,
    UnratedReason,
    Usage,
    Warned,
)
from saiten_server.core.model import key_of
from saiten_server.core.redaction import DROPPED
from saiten_server.core.rubric import Aspect, Rubric, range_of
from saiten_server.core.sentences import in_english
from saiten_server.offline.frame_files import UNTOLD
from saiten_server.runs.summary import BUILD, SYSTEM, ResultFigures, find_probability

AdoptedRow = dict[str, Any]
"""A result as its columns, without those that are null."""

COLUMN_LIMITS = {
    "key": 64,
    "item": 512,
    "dialogue": 128,
    "cluster": 16,
    "signature": 4_000,
    "failure": 64,
    "failure.detail": 2_000,
}
"""Characters of the columns of texts, at most."""

MOST_SYSTEM_TURNS = 10_000
MOST_METADATA_BYTES = 16_384


def refuse(number: int, column: str) -> InvalidRequest:
    """The error for a cell that no result has; rows are counted from 0."""
    return InvalidRequest(Message("adopted-row-invalid", row=number, column=column))


def read_entry(row: AdoptedRow, number: int) -> Entry:
    """The result's place. Raises InvalidRequest."""
    if (row.get("signature") is None) != (row.get("failure") is not None):
        raise refuse(number, "signature")
    for column, most in COLUMN_LIMITS.items():
        value = row.get(column)
        if value is not None and (not isinstance(value, str) or len(value) > most or not value.isprintable()):
            raise refuse(number, column)
    if not row.get("item") or row.get("item_key") != key_of(row["item"]):
        raise refuse(number, "item")
    candidate = row.get("candidate")
    if candidate is not None and not (isinstance(candidate, int) and 0 <= candidate < 2**31):
        raise refuse(number, "candidate")
    return Entry(
        position=number,
        item=row["item"],
        candidate=candidate,
        dialogue=row.get("dialogue"),
        cluster=row.get("cluster"),
        ids_given=True,
    )


def read_figures(row: AdoptedRow, number: int, rubric: Rubric) -> ResultFigures:
    """What counts of the result. Raises InvalidRequest for a value that its scale does not have."""
    if row.get("status") not in {"scored", "partial", "failed"}:
        raise refuse(number, "status")
    metadata = read_metadata(row, number)
    values: dict[tuple[Any, str], float | None] = {}
    unrated: dict[str, str | None] = {}
    ratings: dict[str, int] = {}
    if row.get("signature") is not None:
        for aspect in rubric.aspects:
            mean = read_number(row, number, f"mean.{aspect.id}", aspect.scale)
            values["aspect", aspect.id] = mean
            if mean is None:
                reason = row.get(f"unrated.{aspect.id}", UNTOLD)
                if reason != UNTOLD and reason not in get_args(UnratedReason):
                    raise refuse(number, f"unrated.{aspect.id}")
                unrated[aspect.id] = None if reason == UNTOLD else reason
            rating = read_number(row, number, f"rating.{aspect.id}", aspect.scale)
            if rating is not None and rating != mean:
                ratings[aspect.id] = int(rating)
            blended = read_number(row, number, f"blended.{aspect.id}")
            if blended is not None:
                values["blended", aspect.id] = blended
        for composite in rubric.composites:
            name = f"composite.{composite.id}"
            values["composite", composite.id] = read_number(row, number, name, range_of(composite, rubric))
    return ResultFigures(
        status=row["status"],
        values=values,
        ratings=ratings,
        unrated=unrated,
        warnings=tuple(dict.fromkeys([*str(row.get("warnings", ""))[:2_000].split(), ADOPTED])) if values else (),
        failure=row.get("failure"),
        similarity=read_number(row, number, "similarity"),
        spread=read_number(row, number, "spread"),
        faulty=read_faulty(row, number),
        system=metadata.get(SYSTEM),
        build=metadata.get(BUILD),
        probability=find_probability(metadata),
    )


def read_number(row: AdoptedRow, number: int, column: str, scale: tuple[float, float] | None = None) -> float | None:
    """A number of the row; None where there is none. Raises InvalidRequest for one off its scale."""
    value = row.get(column)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > 1e12:
        raise refuse(number, column)
    if scale is not None and not scale[0] - 1e-6 <= value <= scale[1] + 1e-6:
        raise refuse(number, column)
    return float(value)


def read_metadata(row: AdoptedRow, number: int) -> dict[str, str]:
    """The metadata of the result."""
    text = row.get("metadata")
    if text is None:
        return {}
    try:
        found = json.loads(text) if len(text) <= MOST_METADATA_BYTES else None
    except (TypeError, ValueError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise refuse(number, "metadata")
    return found


def read_faulty(row: AdoptedRow, number: int) -> FaultyTurns | None:
    """The faulty turns of a conversation; None of a response."""
    from saiten_server.offline.frame_reading import parse_faulty

    turns, text = row.get("system_turns"), row.get("faults")
    if turns is None or text is None:
        return None
    if not isinstance(turns, int) or not 0 < turns <= MOST_SYSTEM_TURNS:
        raise refuse(number, "system_turns")
    try:
        return parse_faulty(text, turns)
    except ValueError:
        raise refuse(number, "faults") from None


def read_usage(row: AdoptedRow, number: int) -> Usage:
    """What the result took."""
    counts = {}
    for name in ("judge_calls", "prompt_tokens", "completion_tokens"):
        count = row.get(name, 0)
        if not isinstance(count, int) or not 0 <= count < 2**40:
            raise refuse(number, name)
        counts[name] = count
    cost = read_number(row, number, "cost_usd")
    if cost is not None and cost < 0:
        raise refuse(number, "cost_usd")
    return Usage(**counts, cost_usd=cost)


def make_candidate(row: AdoptedRow, number: int) -> Candidate:
    """What was scored, without its texts: of a conversation the turns, the system's second of two."""
    metadata, dialogue = read_metadata(row, number), row.get("dialogue")
    faulty = read_faulty(row, number)
    if faulty is None:
        return Candidate.model_construct(context=(), response=DROPPED, metadata=metadata, dialogue=dialogue)
    said = [
        Utterance.model_construct(speaker=role, text=DROPPED) for _ in range(faulty.system_turns) for role in TURN_ROLES
    ]
    return Candidate.model_construct(
        context=tuple(said[:-1]),
        response=DROPPED,
        speaker="system",
        roles=TURN_ROLES * faulty.system_turns,
        metadata=metadata,
        dialogue=dialogue,
    )


TURN_ROLES: tuple[Role, ...] = ("user", "system")


def make_evaluation(
    row: AdoptedRow, number: int, rubric: Rubric, figures: ResultFigures, *, made: str, now: datetime
) -> Evaluation:
    """The evaluation that the figures are of, with the id `made`."""
    signature = row["signature"]
    pieces = dict(piece.partition(":")[::2] for piece in signature.split("|"))
    findings, kinds = list_findings(figures.faulty)
    return Evaluation(
        id=made,
        status=row["status"],
        rubric=RubricReference(id=rubric.id, version=rubric.version, digest=rubric.digest),
        path="english" if pieces.get("path") == "english" else "source",
        aspects={aspect.id: make_aspect(aspect, row, figures) for aspect in rubric.aspects},
        composites={one.id: figures.values.get(("composite", one.id)) for one in rubric.composites},
        relevance=None,
        translation=None,
        paths=None,
        judge=JudgeProvenance(kind=pieces.get("judge", "unknown")[:64], model=pieces.get("model", "unknown")[:256]),
        usage=read_usage(row, number),
        warnings=tuple(warn(code) for code in figures.warnings),
        signature=signature,
        signature_pieces=pieces,
        cached=False,
        created_at=now,
        metadata=read_metadata(row, number),
        dialogue=row.get("dialogue"),
        findings=findings,
        kinds=kinds,
    )


def warn(code: str) -> Warned:
    """The warning of that code, whose sentence was not kept."""
    text = Message("adopted-figures-only") if code == ADOPTED else Message("adopted-warning", code=code)
    return Warned(code=code, where="record", **in_english(text))


def make_aspect(aspect: Aspect, row: AdoptedRow, figures: ResultFigures) -> AspectResult:
    """The verdict on an aspect: what the columns tell of it."""
    mean, rating = figures.values.get(("aspect", aspect.id)), row.get(f"rating.{aspect.id}")
    unrated = None
    if mean is None:
        unrated = Unrated.model_validate({"reason": figures.unrated.get(aspect.id) or "missing", "detail": ""})
    low, high = aspect.scale
    return AspectResult(
        rating=None if rating is None else int(rating),
        scale=(low, high),
        label=None,
        samples=() if rating is None else (int(rating),),
        mean=mean,
        sd=row.get(f"sd.{aspect.id}"),
        expected=row.get(f"expected.{aspect.id}"),
        blended=figures.values.get(("blended", aspect.id)),
        reason=None,
        unrated=unrated,
    )


def list_findings(faulty: FaultyTurns | None) -> tuple[tuple[Finding, ...] | None, dict[str, int] | None]:
    """The findings that the faulty turns tell of, without their details, and the kinds of fault; None of a response."""
    if faulty is None:
        return None, None
    found = []
    for code in (JUDGED, *RULE_CODES):
        by: Literal["judge", "rule"] = "judge" if code == JUDGED else "rule"
        own = None if code == JUDGED else code
        found += [
            Finding(turn=2 * turn + 1, aspect=None, code=own, by=by, **in_english(Message("adopted-finding")))
            for turn in faulty.found.get(code, ())
        ]
    if KINDS_KNOWN not in faulty.found:
        return tuple(found), None
    kinds = {code.removeprefix(KIND): len(turns) for code, turns in faulty.found.items() if code.startswith(KIND)}
    return tuple(found), kinds


def make_record(evaluation: Evaluation) -> Record:
    """The record with this evaluation; its request is not stored."""
    asked = EvaluationRequest.model_construct(context=(), response=DROPPED)
    return Record.model_construct(evaluation=evaluation, request=asked, trace=())


def make_failure(row: AdoptedRow) -> Failure:
    """The failure in the place of an evaluation."""
    return Failure(code=row.get("failure") or "internal-error", detail=row.get("failure.detail") or "")
