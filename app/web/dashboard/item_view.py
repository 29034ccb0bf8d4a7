"""One evaluation as its page shows it: the dialogue, the scales with the chosen levels, and the arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from app.domain.composites import transform
from app.domain.dialogue import Utterance
from app.domain.evaluation import AspectResult, Evaluation, MaskedSpan, Path, PathResult, RelevanceResult, Translation
from app.domain.reliability import AspectValidation
from app.domain.rubric import Aspect, Level, LinearComposite, MeanComposite, Rubric, Transform

DIGITS = 3
MOST_DIGITS = 6
SHOWN_DIGITS = 2
"""Of a blended value."""


@dataclass(frozen=True)
class Said:
    """An utterance with its translation, on the side of the response's speaker (`own`) or on the other."""

    speaker: str
    text: str
    translation: str | None
    own: bool
    warnings: Sequence[str]


@dataclass(frozen=True)
class Blend:
    """c + w · (b − b̄) with its numbers; with `digits` digits of b and b̄ it gives the value as shown."""

    rating: float
    weight: float
    similarity: float
    baseline: float
    value: float
    digits: int


@dataclass(frozen=True)
class PathValue:
    """An aspect's result on one language path."""

    path: Path
    result: AspectResult
    blend: Blend | None

    @property
    def says(self) -> bool:
        """Whether there is more to say than the rating."""
        result = self.result
        extra = (result.unrated, result.reason, result.expected, self.blend)
        return len(result.samples) > 1 or any(part is not None for part in extra)


@dataclass(frozen=True)
class ScaleStep:
    """A point of a scale, and the paths whose rating it is."""

    value: int
    level: Level | None
    chosen: Sequence[Path]


@dataclass(frozen=True)
class AspectView:
    """An aspect with its readings; `aspect` is None if the rubric has changed or is gone."""

    id: str
    aspect: Aspect | None
    readings: Sequence[PathValue]
    steps: Sequence[ScaleStep]
    difference: float | None
    validation: AspectValidation | None


@dataclass(frozen=True)
class TermView:
    """A summand of a composite: weight · ((value − subtract) / divide), in bars where `transform` is absolute."""

    aspect: Aspect
    weight: float
    transform: Transform
    value: float | None
    part: float | None


@dataclass(frozen=True)
class CompositeView:
    """A composite and its terms; no `terms` if the rubric has changed."""

    id: str
    value: float | None
    kind: str | None
    intercept: float
    terms: Sequence[TermView]


def list_said(
    context: Sequence[Utterance], translation: Translation | None, warned: Sequence[tuple[str, str]]
) -> list[Said]:
    """The context, each utterance with its translation. `warned` are warnings' places and codes."""
    own = responder_of(context)
    translated = translation.context if translation else ()
    return [
        Said(
            speaker=utterance.speaker,
            text=utterance.text,
            translation=translated[number] if number < len(translated) else None,
            own=utterance.speaker == own,
            warnings=codes_at(f"context/{number}", warned),
        )
        for number, utterance in enumerate(context)
    ]


def responder_of(context: Sequence[Utterance]) -> str | None:
    """The speaker of the response: the last one other than the last speaker, or None if there is no other."""
    last = context[-1].speaker if context else None
    return next((said.speaker for said in reversed(context) if said.speaker != last), None)


def codes_at(place: str, warned: Sequence[tuple[str, str]]) -> list[str]:
    """The warnings of that text."""
    return list(dict.fromkeys(code for where, code in warned if place_in(where) == place))


def place_in(where: str) -> str:
    """The text that a warning's place names, its translation's too: `context/0` of `translation/context/0/text`."""
    parts = where.removeprefix("translation/").split("/")
    return "/".join(parts[:2] if parts[0] == "context" else parts[:1])


def current(evaluation: Evaluation, rubric: Rubric | None) -> Rubric | None:
    """The rubric if it is still the one that the evaluation was made with, otherwise None."""
    return rubric if rubric is not None and rubric.digest == evaluation.rubric.digest else None


def results_of(evaluation: Evaluation) -> dict[Path, PathResult]:
    """The results by path, the source path first."""
    if evaluation.paths is not None:
        return {"source": evaluation.paths.source, "english": evaluation.paths.english}
    path: Path = "english" if evaluation.path == "english" else "source"
    result = PathResult.model_construct(
        aspects=evaluation.aspects,
        composites=evaluation.composites,
        relevance=evaluation.relevance,
        signature=evaluation.signature,
    )
    return {path: result}


def list_aspects(evaluation: Evaluation, rubric: Rubric | None) -> list[AspectView]:
    """All aspects in the order in which they were asked."""
    paths = results_of(evaluation)
    known = {aspect.id: aspect for aspect in rubric.aspects} if rubric else {}
    validations = evaluation.reliability.aspects if evaluation.reliability else {}
    views = []
    for name in dict.fromkeys([*(name for name in known if name in evaluation.aspects), *evaluation.aspects]):
        readings = [
            PathValue(path, found.aspects[name], blend_of(found.aspects[name], found.relevance))
            for path, found in paths.items()
            if name in found.aspects
        ]
        difference = evaluation.paths.difference.get(name) if evaluation.paths else None
        steps = list_steps(known.get(name), readings)
        views.append(AspectView(name, known.get(name), readings, steps, difference, validations.get(name)))
    return views


def list_steps(aspect: Aspect | None, readings: Sequence[PathValue]) -> list[ScaleStep]:
    """The scale's points, lowest first."""
    low, high = readings[0].result.scale
    levels = {level.value: level for level in aspect.levels} if aspect else {}
    return [
        ScaleStep(value, levels.get(value), [reading.path for reading in readings if reading.result.rating == value])
        for value in range(low, high + 1)
    ]


def blend_of(result: AspectResult, relevance: RelevanceResult | None) -> Blend | None:
    """The arithmetic of a blended value; None if there is none."""
    if result.blended is None or result.mean is None:
        return None
    if relevance is None or relevance.score is None or relevance.baseline is None:
        return None
    c, w, b, b_mean = result.mean, relevance.weight, relevance.score, relevance.baseline
    shown = round(result.blended, SHOWN_DIGITS)
    digits = DIGITS
    while digits < MOST_DIGITS and round(c + w * (round(b, digits) - round(b_mean, digits)), SHOWN_DIGITS) != shown:
        digits += 1
    return Blend(c, w, b, b_mean, result.blended, digits)


def list_composites(evaluation: Evaluation, rubric: Rubric | None) -> list[CompositeView]:
    """All composites with their terms, computed from the means at the top."""
    known = {composite.id: composite for composite in rubric.composites} if rubric else {}
    means = {name: result.mean for name, result in evaluation.aspects.items()}
    views = []
    for name, value in evaluation.composites.items():
        composite = known.get(name)
        if composite is None or rubric is None:
            views.append(CompositeView(name, value, None, 0.0, ()))
            continue
        intercept = composite.intercept if isinstance(composite, LinearComposite) else 0.0
        terms = [
            TermView(rubric.aspect(aspect), weight, step, means.get(aspect), part_of(weight, step, means.get(aspect)))
            for aspect, weight, step in parts_of(composite)
        ]
        views.append(CompositeView(name, value, composite.kind, intercept, terms))
    return views


def parts_of(composite: MeanComposite | LinearComposite) -> list[tuple[str, float, Transform]]:
    """Aspect, weight and transform of each summand."""
    if isinstance(composite, LinearComposite):
        return [(term.aspect, term.weight, term.transform) for term in composite.terms]
    return [(aspect, 1 / len(composite.of), Transform()) for aspect in composite.of]


def part_of(weight: float, step: Transform, value: float | None) -> float | None:
    """What the summand adds."""
    return None if value is None else weight * transform(step, value)


def digits_of(value: float | None, most: int = 4) -> int:
    """As many digits behind the point as the value has, `most` at most."""
    if value is None:
        return 0
    return next(digits for digits in range(most + 1) if round(value, digits) == round(value, most))


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
    """A span with numbers from 1."""
    parts = span.where.removeprefix(TRANSLATION).split("/")
    number = int(parts[1]) + 1 if len(parts) > 1 else 1
    kinds: Mapping[str, Part] = {"speaker": "speaker", "text": "text", "response": "response"}
    kind = kinds.get(parts[-1], "reference")
    return LeftOut(kind, number, span.where.startswith(TRANSLATION), span.start + 1, span.end)
