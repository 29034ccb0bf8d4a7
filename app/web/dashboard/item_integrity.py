"""What was left out of a suspicious dialogue for the second judgement, and what that changed, as its page shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from app.domain.evaluation import AspectResult, Evaluation, MaskedSpan, Path
from app.domain.rubric import Aspect, Rubric

TRANSLATION = "translation/"

Part = Literal["response", "text", "speaker", "reference"]


@dataclass(frozen=True)
class LeftOut:
    """Characters `first` to `last`, from 1, of the response, or of the utterance or reference of that number, from 1;
    of its `translated` text where that is so. Of a speaker the whole name."""

    part: Part
    number: int
    translated: bool
    first: int
    last: int


@dataclass(frozen=True)
class LiftRow:
    """An aspect's mean as the dialogue is and without the suspicious parts; `lift` is the difference."""

    id: str
    aspect: Aspect | None
    whole: float | None
    masked: float | None
    lift: float | None


@dataclass(frozen=True)
class IntegrityView:
    """Both judgements of the `path` on which something was left out."""

    path: Path
    rows: Sequence[LiftRow]
    left_out: Sequence[LeftOut]


def view_integrity(evaluation: Evaluation, rubric: Rubric | None) -> IntegrityView | None:
    """The evaluation's integrity report; None where it has none. `rubric` is None where it has changed since."""
    report = evaluation.integrity
    if report is None:
        return None
    path = path_of(evaluation, report.spans)
    whole, known = aspects_on(evaluation, path), {aspect.id: aspect for aspect in rubric.aspects} if rubric else {}
    rows = [
        LiftRow(name, known.get(name), whole[name].mean if name in whole else None, masked, report.lift.get(name))
        for name, masked in report.masked.items()
    ]
    return IntegrityView(path, rows, [describe_span(span) for span in report.spans])


def path_of(evaluation: Evaluation, spans: Sequence[MaskedSpan]) -> Path:
    """The path whose texts were masked: with both, English only where the translation alone was suspicious."""
    if evaluation.path == "both":
        return "english" if any(span.where.startswith(TRANSLATION) for span in spans) else "source"
    return evaluation.path


def aspects_on(evaluation: Evaluation, path: Path) -> Mapping[str, AspectResult]:
    """What the judge said of the dialogue as it is, on that path."""
    if evaluation.paths is None:
        return evaluation.aspects
    return (evaluation.paths.source if path == "source" else evaluation.paths.english).aspects


def describe_span(span: MaskedSpan) -> LeftOut:
    """A span, counted as people count."""
    parts = span.where.removeprefix(TRANSLATION).split("/")
    number = int(parts[1]) + 1 if len(parts) > 1 else 1
    kinds: Mapping[str, Part] = {"speaker": "speaker", "text": "text", "response": "response"}
    kind = kinds.get(parts[-1], "reference")
    return LeftOut(kind, number, span.where.startswith(TRANSLATION), span.start + 1, span.end)
