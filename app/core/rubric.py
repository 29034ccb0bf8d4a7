"""Rubrics: versioned aspects, scales and level descriptions, as data in several languages, and composites over the
aspects, such as SSA or LLM-MATE.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from saiten.core.messages import Message, Misfit
from saiten_server.core.dialogue import is_invisible, refuse_controls
from saiten_server.core.model import Finite, Id, Location, Value, digest, listed, refuse, repeated

Language = Annotated[str, Field(pattern=r"^[a-z]{2}$")]
"""ISO 639-1: `ja`, `ko`, `en`."""


def check_prose(text: str) -> str:
    """A text that a reader can see; raises ValueError where it is blank or holds control characters."""
    refuse_controls(text)
    if all(map(is_invisible, text)):
        raise Misfit(Message("text-blank"))
    return text


def check_phrase(text: str) -> str:
    """One line of prose without surrounding white space, so that it can be recognised in a judge's reply."""
    refuse_controls(check_prose(text), one_line=True)
    if text != text.strip():
        raise Misfit(Message("white-space-around"))
    return text


Prose = Annotated[str, Field(min_length=1, max_length=4000), AfterValidator(check_prose)]
Phrase = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(check_phrase)]
LocalizedProse = Annotated[dict[Language, Prose], Field(min_length=1)]
LocalizedPhrase = Annotated[dict[Language, Phrase], Field(min_length=1)]
"""The same text in each of the rubric's languages."""


Unit = Literal["item", "conversation"]
"""What a rubric rates: one response with its context, or a whole conversation."""

VERSION = re.compile("[1-9][0-9]{0,8}")
"""A version as written in a request."""


def name_version(rubric_id: str, version: int | None) -> str:
    """`id@version`, or the id alone if the version is not known."""
    return rubric_id if version is None else f"{rubric_id}@{version}"


def split_name(name: str) -> tuple[str, int | None]:
    """Id and version of `id@version`; any other name with None."""
    rubric_id, _, version = name.partition("@")
    return (rubric_id, int(version)) if VERSION.fullmatch(version) else (name, None)


FAULTS_MEMBER = "faults"
"""The member of a verdict that lists the faulty turns, if the rubric has kinds of faults. No aspect has its name."""


class ExampleUtterance(Value):
    speaker: Phrase
    text: Prose


class Example(Value):
    """A short dialogue in one language that shows what a level means."""

    context: Annotated[
        tuple[ExampleUtterance, ...], listed(minimum=1), Field(description="what came before, oldest first")
    ]
    response: Prose = Field(description="the response that shows the level")


class Level(Value):
    """One point of a scale. `example` is None for an aspect of overall impression."""

    value: int = Field(description="the rating that stands for this level")
    label: LocalizedPhrase = Field(description="the level in a word or two")
    description: LocalizedProse = Field(description="when a response is on this level")
    example: Annotated[dict[Language, Example], Field(min_length=1)] | None = Field(
        default=None, description="one dialogue per language whose response is on this level"
    )


class WorkedExample(Example):
    """A one-shot example: a dialogue with its verdict, which fixes the reply's format."""

    rating: int = Field(description="the level that the response is on")
    reason: Prose = Field(description="why, in a sentence")


class FaultKind(Value):
    """A kind of fault that a judge may find in a turn of the system. The judge is shown the description; people see all
    of it."""

    id: Id = Field(description="the kind in every finding")
    name: LocalizedPhrase = Field(description="what people call it")
    description: LocalizedProse = Field(description="what it is, in a sentence")
    example: LocalizedProse = Field(description="a short exchange that shows it")


class ExampleFault(Value):
    """A fault in a worked conversation."""

    turn: Annotated[int, Field(ge=0)] = Field(description="the number of the system turn, counted from 0")
    reason: Prose = Field(description="what is wrong, in a sentence")
    kind: Id = Field(description="one of the rubric's kinds")
    aspects: Annotated[tuple[Id, ...], listed(minimum=1), Field(description="the aspects whose rating it lowers")]


class ExampleTurn(Value):
    role: Literal["user", "system"]
    text: Prose


class ExampleRating(Value):
    """The verdict on one aspect of a worked conversation."""

    reason: Prose = Field(description="why, in a sentence")
    turns: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...], listed(), Field(description="the system turns that lower the rating")
    ] = ()
    rating: int


class WorkedConversation(Value):
    """A short conversation with its whole verdict, which fixes the reply's format."""

    turns: Annotated[tuple[ExampleTurn, ...], listed(minimum=1), Field(description="oldest first, counted from 0")]
    persona: dict[Phrase, Phrase] | None = None
    goal: Prose | None = None
    faults: Annotated[
        tuple[ExampleFault, ...], listed(), Field(description="the faulty turns, of a rubric with kinds of faults")
    ] = ()
    verdict: Annotated[dict[Id, ExampleRating], Field(min_length=1)] = Field(description="by aspect")


class Aspect(Value):
    """One dimension of quality, on a scale of consecutive integers, lowest level first."""

    id: Id = Field(description="the aspect's key in every result")
    name: LocalizedPhrase = Field(description="what the judge calls it; distinct within a language")
    question: LocalizedProse = Field(description="what the judge is asked")
    levels: Annotated[tuple[Level, ...], listed(minimum=2), Field(description="consecutive integers, lowest first")]
    best: int | None = Field(
        default=None, description="the level that is best, where that is not the highest: on −1 to 1, say, 0"
    )
    blended: bool = Field(default=False, description="blend BERTScore relevance in by default: c + w(b - b̄)")
    one_shot: Annotated[dict[Language, WorkedExample], Field(min_length=1)] | None = Field(
        default=None, description="one worked example per language that fixes the format of the judge's reply"
    )
    requires: Literal["persona", "goal"] | None = Field(
        default=None, description="of a conversation: what must be given, else the aspect is not applicable"
    )

    @cached_property
    def values(self) -> tuple[int, ...]:
        """The legal ratings, ascending."""
        return tuple(level.value for level in self.levels)

    @property
    def scale(self) -> tuple[int, int]:
        return self.values[0], self.values[-1]

    def level(self, value: int) -> Level:
        """The level of a legal value; raises KeyError for any other."""
        return {level.value: level for level in self.levels}[value]

    @model_validator(mode="after")
    def _check_scale(self) -> Aspect:
        refuse("Aspect", scale_faults(self))
        return self


class Transform(Value):
    """(x − subtract) / divide, then its absolute value where `absolute` is set."""

    subtract: Finite = 0.0
    divide: Finite = 1.0
    absolute: bool = False

    @model_validator(mode="after")
    def _check_divisor(self) -> Transform:
        refuse("Transform", [(("divide",), Message("weight-zero"))] if self.divide == 0 else [])
        return self


class MeanComposite(Value):
    """The mean of some aspects, such as SSA (Adiwardana et al. 2020)."""

    id: Id
    kind: Literal["mean"]
    of: Annotated[tuple[Id, ...], listed(minimum=1), Field(description="ids of the aspects")]

    @property
    def aspects(self) -> tuple[str, ...]:
        return self.of


class Term(Value):
    """weight · transform(aspect)."""

    aspect: Id
    weight: Finite
    transform: Transform = Transform()


class LinearComposite(Value):
    """intercept + Σ weight · transform(aspect), such as LLM-MATE."""

    id: Id
    kind: Literal["linear"]
    intercept: Finite = 0.0
    terms: Annotated[tuple[Term, ...], listed(minimum=1)]

    @property
    def aspects(self) -> tuple[str, ...]:
        return tuple(term.aspect for term in self.terms)


Composite = Annotated[MeanComposite | LinearComposite, Field(discriminator="kind")]


class Rubric(Value):
    """What a judge is asked. `calls` is `joint` (all aspects in one call) or `independent` (one call per aspect)."""

    id: Id = Field(description="the file's name without .yaml; callers name the rubric by it")
    version: Annotated[int, Field(ge=1)] = Field(
        description="raise it whenever the meaning changes; the file of an older version is called <id>.v<version>.yaml"
    )
    source_language: Language = Field(description="the language in which the rubric was thought out")
    calls: Literal["joint", "independent"] = Field(
        default="joint", description="joint: all aspects in one call; independent: one call per aspect"
    )
    unit: Unit = Field(
        default="item", description="item: one response with its context is rated; conversation: a whole conversation"
    )
    worked: Annotated[dict[Language, WorkedConversation], Field(min_length=1)] | None = Field(
        default=None, description="of a conversation rubric: one worked conversation per language, with its verdict"
    )
    kinds: Annotated[
        tuple[FaultKind, ...],
        listed(),
        Field(
            description="of a conversation rubric: the kinds of faults that the judge tells apart. With kinds it lists "
            "the faulty turns once, each with its kind and aspects; without, it lists turns for each aspect"
        ),
    ] = ()
    references: bool = Field(default=False, description="whether the judge is shown the references that a caller gives")
    title: LocalizedPhrase = Field(description="its languages are the rubric's: every other text must exist in each")
    task: LocalizedProse = Field(description="what the judge is shown and what it must keep in mind")
    aspects: Annotated[tuple[Aspect, ...], listed(minimum=1), Field(description="in the order in which they are asked")]
    composites: Annotated[
        tuple[Composite, ...], listed(), Field(description="figures computed from the aspects' ratings")
    ] = ()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the parsed rubric; white space, comments and key order of the file do not matter. Fields at their
        default are excluded, so that a new optional field does not change any digest."""
        return digest(self.model_dump(mode="json", exclude_defaults=True))

    @property
    def name(self) -> str:
        """`id@version`."""
        return name_version(self.id, self.version)

    @cached_property
    def aspect_names(self) -> tuple[str, ...]:
        """What the aspects are called, in every language."""
        return tuple(name for aspect in self.aspects for name in aspect.name.values())

    @property
    def languages(self) -> tuple[str, ...]:
        """The source language first, the others by name."""
        return self.source_language, *sorted(set(self.title) - {self.source_language})

    def aspect(self, aspect_id: str) -> Aspect:
        """The aspect of that id; raises KeyError where there is none."""
        return {aspect.id: aspect for aspect in self.aspects}[aspect_id]

    @cached_property
    def kind_ids(self) -> tuple[str, ...]:
        """The kinds of faults that the judge tells apart; none for most rubrics."""
        return tuple(kind.id for kind in self.kinds)

    @property
    def best(self) -> dict[str, float]:
        """The best level of each aspect on which it is not the highest."""
        return {aspect.id: float(aspect.best) for aspect in self.aspects if aspect.best is not None}

    @property
    def blended_aspects(self) -> tuple[str, ...]:
        return tuple(aspect.id for aspect in self.aspects if aspect.blended)

    @model_validator(mode="after")
    def _check_whole(self) -> Rubric:
        refuse("Rubric", rubric_faults(self))
        return self


def scale_faults(aspect: Aspect) -> Iterator[tuple[Location, Message]]:
    """Levels that are not consecutive, and worked examples and best levels that are off the scale."""
    for index, (before, value) in enumerate(zip(aspect.values, aspect.values[1:], strict=False), start=1):
        if value != before + 1:
            yield ("levels", index, "value"), Message("must-be-level", value=before + 1)
    if aspect.best is not None and aspect.best not in aspect.values:
        yield ("best",), Message("not-a-level", value=aspect.best, aspect=aspect.id)
    for language, example in (aspect.one_shot or {}).items():
        if example.rating not in aspect.values:
            yield ("one_shot", language, "rating"), Message("not-a-level", value=example.rating, aspect=aspect.id)


def rubric_faults(rubric: Rubric) -> Iterator[tuple[Location, Message]]:
    """Faults across aspects and composites, each with its place."""
    yield from repeated({("aspects", index, "id"): aspect.id for index, aspect in enumerate(rubric.aspects)})
    yield from repeated({("kinds", index, "id"): kind.id for index, kind in enumerate(rubric.kinds)})
    for language in rubric.title:
        names: dict[Location, str] = {
            ("aspects", index, "name", language): aspect.name[language]
            for index, aspect in enumerate(rubric.aspects)
            if language in aspect.name
        }
        yield from repeated(names)
    yield from composite_faults(rubric)
    yield from language_faults(rubric)
    yield from unit_faults(rubric)


def unit_faults(rubric: Rubric) -> Iterator[tuple[Location, Message]]:
    """What only rubrics of the other unit may have, and worked conversations that break their own rules."""
    if rubric.unit == "item":
        places: list[Location] = [(name,) for name in ("worked", "kinds") if getattr(rubric, name)]
        places += [("aspects", index, "requires") for index, aspect in enumerate(rubric.aspects) if aspect.requires]
        yield from ((place, Message("for-conversation-rubrics")) for place in places)
        return
    if rubric.calls == "independent":
        yield ("calls",), Message("must-be-joint")
    if rubric.references:
        yield ("references",), Message("for-item-rubrics")
    if all(aspect.requires for aspect in rubric.aspects):
        yield ("aspects",), Message("needs-no-persona")
    for index, aspect in enumerate(rubric.aspects):
        if rubric.kinds and aspect.id == FAULTS_MEMBER:
            yield ("aspects", index, "id"), Message("name-of-faults")
        examples = any(level.example for level in aspect.levels)
        of_items = {"one_shot": aspect.one_shot, "blended": aspect.blended, "levels": examples}
        for name in (name for name, used in of_items.items() if used):
            yield ("aspects", index, name), Message("shows-what-is-for-items")
    for language, example in (rubric.worked or {}).items():
        yield from worked_faults(rubric, example, ("worked", language))


def worked_faults(rubric: Rubric, example: WorkedConversation, place: Location) -> Iterator[tuple[Location, Message]]:
    """A worked conversation without a persona or goal that an aspect requires, or with a verdict that breaks the rules
    of verdicts."""
    aspects, here = {aspect.id: aspect for aspect in rubric.aspects}, (*place, "verdict")
    for need in dict.fromkeys(aspect.requires for aspect in rubric.aspects if aspect.requires):
        if getattr(example, need) is None:
            yield (*place, need), Message("is-missing-for-aspect")
    if set(example.verdict) != set(aspects):
        yield here, Message("must-have-aspects", names=", ".join(aspects))
    system = [number for number, turn in enumerate(example.turns) if turn.role == "system"]
    for index, fault in enumerate(example.faults):
        yield from example_fault_faults(rubric, fault, system, (*place, "faults", index))
    numbers: dict[Location, str] = {
        (*place, "faults", index, "turn"): str(fault.turn) for index, fault in enumerate(example.faults)
    }
    yield from repeated(numbers)
    for name, part in example.verdict.items():
        if rubric.kinds and part.turns:
            yield (*here, name, "turns"), Message("turns-with-kinds")
        if name in aspects and part.rating not in aspects[name].values:
            yield (*here, name, "rating"), Message("not-a-level", value=part.rating, aspect=name)
        if len(set(part.turns)) < len(part.turns) or not set(part.turns) <= set(system):
            yield (*here, name, "turns"), Message("must-be-system-turns", names=", ".join(map(str, system)))


def example_fault_faults(
    rubric: Rubric, fault: ExampleFault, system: list[int], place: Location
) -> Iterator[tuple[Location, Message]]:
    """A worked fault of a turn that is not the system's, of no kind that the rubric has, or of no aspect."""
    if fault.turn not in system:
        yield (*place, "turn"), Message("must-be-system-turn", names=", ".join(map(str, system)))
    if fault.kind not in rubric.kind_ids:
        if rubric.kind_ids:
            what = Message("not-a-kind", name=fault.kind, names=", ".join(rubric.kind_ids))
        else:
            what = Message("rubric-without-kinds", name=fault.kind)
        yield (*place, "kind"), what
    known = [aspect.id for aspect in rubric.aspects]
    for number, name in enumerate(fault.aspects):
        if name not in known:
            yield (*place, "aspects", number), Message("not-an-aspect", name=name, names=", ".join(known))
    yield from repeated({(*place, "aspects", number): name for number, name in enumerate(fault.aspects)})


def composite_faults(rubric: Rubric) -> Iterator[tuple[Location, Message]]:
    """Composites whose id is taken, that name an unknown aspect, or that name one aspect twice in a mean."""
    known = [aspect.id for aspect in rubric.aspects]
    yield from repeated({("composites", index, "id"): part.id for index, part in enumerate(rubric.composites)})
    for index, composite in enumerate(rubric.composites):
        if composite.id in known:
            yield ("composites", index, "id"), Message("is-id-of-aspect", name=composite.id)
        if isinstance(composite, MeanComposite):
            places: list[Location] = [("of", number) for number in range(len(composite.of))]
        else:
            places = [("terms", number, "aspect") for number in range(len(composite.terms))]
        parts = {("composites", index, *place): part for place, part in zip(places, composite.aspects, strict=True)}
        for place, part in parts.items():
            if part not in known:
                yield place, Message("not-an-aspect", name=part, names=", ".join(known))
        if isinstance(composite, MeanComposite):
            yield from repeated(parts)


def language_faults(rubric: Rubric) -> Iterator[tuple[Location, Message]]:
    """Texts that lack a language of the rubric or have one too many. The title says which languages there are."""
    languages = set(rubric.title)
    if rubric.source_language not in languages:
        yield ("title",), Message("lacks-source-language", language=rubric.source_language)
    for place, texts in localized_texts(rubric):
        if missing := sorted(languages - set(texts)):
            yield place, Message("lacks-languages", names=", ".join(missing))
        for language in sorted(set(texts) - languages):
            yield (*place, language), Message("in-language-without-title", language=language)


def localized_texts(rubric: Rubric) -> Iterator[tuple[Location, Mapping[str, Any]]]:
    """Every text of the rubric that exists once per language (except the title), with its place."""
    yield ("task",), rubric.task
    if rubric.worked:
        yield ("worked",), rubric.worked
    for number, kind in enumerate(rubric.kinds):
        for part in ("name", "description", "example"):
            yield ("kinds", number, part), getattr(kind, part)
    for number, aspect in enumerate(rubric.aspects):
        here: Location = ("aspects", number)
        yield (*here, "name"), aspect.name
        yield (*here, "question"), aspect.question
        if aspect.one_shot:
            yield (*here, "one_shot"), aspect.one_shot
        for index, level in enumerate(aspect.levels):
            yield (*here, "levels", index, "label"), level.label
            yield (*here, "levels", index, "description"), level.description
            if level.example:
                yield (*here, "levels", index, "example"), level.example


def blend(rating: float, similarity: float, baseline: float, weight: float) -> float:
    """c + w(b − b̄): equation 1 of 寺内ほか「ChatGPT を用いた日本語対話応答の多面的自動評価」, where w is 10.

    `rating` is c, in the aspect's scale points; `similarity` is b, the BERTScore F1 of last utterance and response,
    in [-1, 1]; `baseline` is b̄, a mean of such similarities; `weight` is w, in scale points per unit of F1. The
    result is off the scale by design and is never clamped: clamping would tie values that the term distinguishes.
    """
    return rating + weight * (similarity - baseline)


def compose(rubric: Rubric, ratings: Mapping[str, float | None]) -> dict[str, float | None]:
    """Every composite of the rubric by id, in its own scale points. `ratings` holds a rating per aspect id. A composite
    is None if one of its aspects is unrated, that is, None or absent."""
    composed: dict[str, float | None] = {}
    for composite in rubric.composites:
        rated = {aspect: rating for aspect in composite.aspects if (rating := ratings.get(aspect)) is not None}
        complete = all(aspect in rated for aspect in composite.aspects)
        composed[composite.id] = evaluate(composite, rated) if complete else None
    return composed


def compose_runs(rubric: Rubric, samples: Mapping[str, Sequence[int | None]]) -> dict[str, float | None]:
    """Every composite per run (that is, per sample), averaged over the runs in which all its aspects are rated.

    `samples` holds the ratings per aspect id, one per run. A composite without a complete run is None. Kamoda et al.
    average composites of repeated runs in this way. With an absolute term the composite of the means differs: a run
    that is too stiff and one that is too casual are two faults, but their mean is none.
    """
    runs = max(map(len, samples.values()), default=0)
    per_run = [compose(rubric, {name: ratings[run] for name, ratings in samples.items()}) for run in range(runs)]
    composed: dict[str, float | None] = {}
    for composite in rubric.composites:
        values = [value for each in per_run if (value := each[composite.id]) is not None]
        composed[composite.id] = sum(values) / len(values) if values else None
    return composed


def depends_on_runs(rubric: Rubric) -> bool:
    """Whether a composite of the means can differ from the mean of composites, that is, whether a term is absolute."""
    return any(
        term.transform.absolute
        for composite in rubric.composites
        if isinstance(composite, LinearComposite)
        for term in composite.terms
    )


def evaluate(composite: MeanComposite | LinearComposite, rated: Mapping[str, float]) -> float:
    """One composite of complete ratings."""
    if isinstance(composite, MeanComposite):
        return sum(rated[aspect] for aspect in composite.of) / len(composite.of)
    return composite.intercept + sum(
        term.weight * transform(term.transform, rated[term.aspect]) for term in composite.terms
    )


def transform(step: Transform, rating: float) -> float:
    """(rating − subtract) / divide; its absolute value if the step says so."""
    value = (rating - step.subtract) / step.divide
    return abs(value) if step.absolute else value


def range_of(composite: MeanComposite | LinearComposite, rubric: Rubric) -> tuple[float, float]:
    """The lowest and the highest value that the composite can have on its aspects' scales."""
    if isinstance(composite, MeanComposite):
        scales = [rubric.aspect(aspect).scale for aspect in composite.of]
        return sum(low for low, _ in scales) / len(scales), sum(high for _, high in scales) / len(scales)
    parts = [
        [term.weight * transform(term.transform, value) for value in rubric.aspect(term.aspect).values]
        for term in composite.terms
    ]
    low, high = sum(min(values) for values in parts), sum(max(values) for values in parts)
    return composite.intercept + low, composite.intercept + high
