"""The results of a batch in figures: one result's, the tally of many, and the summary.

Tallies are packed into short texts, so that they can be stored beside the batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import astuple, dataclass, field
from math import inf
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field
from pydantic_core import from_json

from saiten_server.core.batch import BatchStatus, Counts, Failure
from saiten_server.core.conversation import FINDING_CODES, KIND_CODES, Conversation, FaultyTurns, list_faulty
from saiten_server.core.dialogue import digest_context
from saiten_server.core.errors import JudgeReplyInvalid
from saiten_server.core.evaluation import (
    AspectResult,
    ConversationRequest,
    Evaluation,
    PreferenceRequest,
    Record,
    Usage,
)
from saiten_server.core.model import COMPACT, Value, listed
from saiten_server.core.preference import write_looks
from saiten_server.core.reliability import Reliability
from saiten_server.core.sentences import Sentence, Telling

Kind = Literal["aspect", "composite", "blended", "finding", "kind"]
MeasureKey = tuple[Kind, str]
"""What values are of, by kind and name."""


class ResultFigures(NamedTuple):
    """One result in figures: a row of `result_figures`.

    `values` has the means of aspects and the values of composites, None where there is none, and blended values, where
    there are any. `ratings` are those of aspects where they are not the mean, and `unrated` says why aspects have none.
    `similarity` is b; `system` and `build` are the entries of that name in the candidate's metadata; `context` is the
    digest of its dialogue context; `faulty` are a conversation's findings. `spread` is the mean standard deviation of
    the samples over the aspects with several of them, as a share of each scale; None where the judge was asked once.
    `looks` are what was seen of a pair. `probability` is that with which a monitor sampled the conversation, None of
    anything else.
    `failure` is the code of what stands in the place of an evaluation."""

    status: str
    values: Mapping[MeasureKey, float | None]
    ratings: Mapping[str, int] = MappingProxyType({})
    unrated: Mapping[str, str | None] = MappingProxyType({})
    warnings: tuple[str, ...] = ()
    failure: str | None = None
    similarity: float | None = None
    system: str | None = None
    build: str | None = None
    context: str | None = None
    faulty: FaultyTurns | None = None
    spread: float | None = None
    looks: str | None = None
    probability: float | None = None

    def find_rating(self, aspect: str) -> int | None:
        """The rating of the aspect; None without one."""
        told = self.ratings.get(aspect, self.values.get(("aspect", aspect)))
        return None if told is None or told % 1 else int(told)


BLENDED = ".blended"
"""What follows an aspect's name where its blended value is meant, and kinds stand under one name."""


def flat_name(key: MeasureKey) -> str:
    """The measure's name among those of other kinds."""
    return key[1] + BLENDED if key[0] == "blended" else key[1]


def key_measure(name: str, aspects: Collection[str]) -> MeasureKey:
    """Kind and name of what a judge's verdict gives under this name; `aspects` are the rubric's."""
    if name.endswith(BLENDED):
        return "blended", name.removesuffix(BLENDED)
    return ("aspect" if name in aspects else "composite"), name


SYSTEM = "system"
"""The metadata entry that names what produced a response."""

BUILD = "build"
"""The metadata entry that names the build of the system."""

MONITOR, PROBABILITY = "monitor", "probability"
"""The metadata entries of a conversation that a monitor sampled: the monitor, and the probability with which it did."""

LEAST_PROBABILITY = 1e-12
"""Of a smaller one the inverse would be no figure to add up."""

FINDINGS_UNRATED = "findings-unrated"
"""The warning that the judge's findings on an aspect could not be used."""

MISSING = "missing"
"""Why an aspect is counted as unrated where nothing is told."""


def find_probability(metadata: Mapping[str, str]) -> float | None:
    """The probability with which a monitor sampled the conversation that has these metadata; None of any other, and of
    what is no probability."""
    if MONITOR not in metadata:
        return None
    try:
        found = float(metadata.get(PROBABILITY, ""))
    except ValueError:
        return None
    return found if LEAST_PROBABILITY <= found <= 1 else None


def find_faulty(evaluation: Evaluation, conversation: Conversation) -> FaultyTurns:
    """The faulty turns of the conversation that was evaluated. The judge's are known where every aspect that applies
    has a rating, and none of its findings were left out."""
    reasons = {one.unrated.reason for one in evaluation.aspects.values() if one.unrated}
    judged = reasons <= {"not-applicable"} and not any(one.code == FINDINGS_UNRATED for one in evaluation.warnings)
    return list_faulty(
        conversation, evaluation.findings or (), judged=judged, kinds=judged and evaluation.kinds is not None
    )


def measure_evaluation(evaluation: Evaluation, context: str | None, faulty: FaultyTurns | None = None) -> ResultFigures:
    """The evaluation's figures; with both paths those of the source path. Each warning code occurs once,
    `translation-sensitive` among them. `context` is the digest of the dialogue context."""
    aspects = evaluation.aspects
    values: dict[MeasureKey, float | None] = {("aspect", name): one.mean for name, one in aspects.items()}
    values |= {("composite", name): value for name, value in evaluation.composites.items()}
    values |= {("blended", name): one.blended for name, one in aspects.items() if one.blended is not None}
    return ResultFigures(
        status=evaluation.status,
        values=values,
        ratings={
            name: one.rating for name, one in aspects.items() if one.rating is not None and one.rating != one.mean
        },
        unrated={
            name: one.unrated.reason if one.unrated else None for name, one in aspects.items() if one.mean is None
        },
        warnings=evaluation.codes,
        similarity=evaluation.relevance.score if evaluation.relevance else None,
        system=evaluation.metadata.get(SYSTEM),
        build=evaluation.metadata.get(BUILD),
        context=context,
        faulty=faulty,
        spread=measure_spread(aspects.values()),
        looks=None if evaluation.pair is None else write_looks(evaluation.pair),
        probability=find_probability(evaluation.metadata),
    )


def measure_record(record: Record) -> ResultFigures:
    """The figures of a record's evaluation, with what its request tells of it."""
    evaluation, request = record.evaluation, record.request
    if isinstance(request, ConversationRequest):
        return measure_evaluation(evaluation, None, find_faulty(evaluation, request))
    if isinstance(request, PreferenceRequest):
        return measure_evaluation(evaluation, None)
    return measure_evaluation(evaluation, digest_context(request.context))


def measure_spread(results: Iterable[AspectResult]) -> float | None:
    """How much the samples differ; see `ResultFigures.spread`."""
    shares = [
        one.sd / (one.scale[1] - one.scale[0])
        for one in results
        if one.sd is not None and len(one.samples) - one.samples.count(None) > 1
    ]
    return sum(shares) / len(shares) if shares else None


def measure_failure(failure: Failure) -> ResultFigures:
    """The figures of a candidate without an evaluation: only the reason."""
    return ResultFigures(status="failed", values={}, failure=failure.code)


@dataclass(slots=True)
class Moments:
    """Mean and squared deviations of the values so far, by Welford's updates: equal values deviate by exactly 0. `n` is
    the sum of what they count for."""

    n: float = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float, count: float = 1) -> None:
        """Adds one value, which counts for so many (West 1979)."""
        self.n += count
        deviation = value - self.mean
        self.mean += count * deviation / self.n
        self.squares += count * deviation * (value - self.mean)

    def merge(self, other: Moments) -> None:
        """Adds all values of `other`, by Chan, Golub and LeVeque's update: equal means add no deviation."""
        if not other.n:
            return
        if not self.n:
            self.n, self.mean, self.squares = other.n, other.mean, other.squares
            return
        n, deviation = self.n + other.n, other.mean - self.mean
        self.squares += other.squares + deviation * deviation * (self.n * other.n / n)
        self.mean += deviation * other.n / n
        self.n = n


@dataclass(slots=True)
class AspectTally:
    """One aspect's verdicts so far. `levels` counts ratings by their value, `reasons` why others are unrated."""

    means: Moments = field(default_factory=Moments)
    blended: Moments = field(default_factory=Moments)
    levels: Counter[int] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, mean: float | None, rating: int | None, reason: str | None, count: float = 1) -> None:
        """Adds one result's verdict, but for its blended value."""
        if mean is None:
            raise_count(self.reasons, reason or MISSING, count)
            return
        self.means.add(mean, count)
        if rating is not None:
            raise_count(self.levels, rating, count)

    def merge(self, other: AspectTally) -> None:
        """Adds all verdicts of `other`."""
        self.means.merge(other.means)
        self.blended.merge(other.blended)
        self.levels.update(other.levels)
        self.reasons.update(other.reasons)


@dataclass(slots=True)
class FaultTally:
    """Findings of one code so far: `conversations` of which it is known, their system turns and the faulty ones of
    these, both by the third of the conversation's system turns that they are in."""

    conversations: float = 0
    system_turns: list[float] = field(default_factory=lambda: [0, 0, 0])
    turns: list[float] = field(default_factory=lambda: [0, 0, 0])

    def add(self, system_turns: int, turns: Iterable[int], count: float = 1) -> None:
        """Adds so many conversations that are alike."""
        self.conversations += count
        for third in range(3):
            # The first turn of each third: those before it lie in the thirds before.
            first, end = (-(-part * system_turns // 3) for part in (third, third + 1))
            self.system_turns[third] += count * (end - first)
        for turn in turns:
            self.turns[3 * turn // system_turns] += count

    def merge(self, other: FaultTally) -> None:
        """Adds all conversations of `other`."""
        self.conversations += other.conversations
        for third in range(3):
            self.system_turns[third] += other.system_turns[third]
            self.turns[third] += other.turns[third]


NO_PROBABILITIES, ALIKE = (inf, 0.0), (1.0, 1.0)
"""The least and the greatest probability of no results, and of results that were not sampled."""


@dataclass(slots=True)
class Tally:
    """All results of a batch so far. `warnings` counts results by warning code, `failures` those without a single
    rating by the failure's. `findings` are those of conversations by code. `probabilities` are the least and the
    greatest with which any was sampled, and `weighed` has the same measures where each result counts for the inverse of
    its own; None where all are 1."""

    statuses: Counter[str] = field(default_factory=Counter)
    aspects: dict[str, AspectTally] = field(default_factory=dict)
    composites: dict[str, Moments] = field(default_factory=dict)
    warnings: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    findings: dict[str, FaultTally] = field(default_factory=dict)
    probabilities: tuple[float, float] = field(default=NO_PROBABILITIES, compare=False)
    weighed: Tally | None = None

    @property
    def results(self) -> int:
        return self.statuses.total()

    @property
    def measured(self) -> Tally:
        """Where means are read: all results alike, unless they were sampled with different probabilities."""
        low, high = self.probabilities
        return self.weighed if self.weighed is not None and low < high else self

    def merge(self, other: Tally) -> None:
        """Adds all results of `other`, none of which may have been added before."""
        if self.weighed is not None or other.weighed is not None:
            # Before these are: what has no weights of its own counts for 1.
            self.weigh().merge(other.weighed or other)
        low, high = other.probabilities
        self.probabilities = min(self.probabilities[0], low), max(self.probabilities[1], high)
        self.statuses.update(other.statuses)
        for name, aspect in other.aspects.items():
            self.aspects.setdefault(name, AspectTally()).merge(aspect)
        for name, moments in other.composites.items():
            self.composites.setdefault(name, Moments()).merge(moments)
        self.warnings.update(other.warnings)
        self.failures.update(other.failures)
        for code, found in other.findings.items():
            self.findings.setdefault(code, FaultTally()).merge(found)

    def weigh(self) -> Tally:
        """The measures by weight; of results so far that are all of probability 1, they are these."""
        if self.weighed is None:
            self.weighed = deepcopy(self)
        return self.weighed


def raise_count(counter: Counter[Any], key: int | str, count: float) -> None:
    """Adds so many, which need not be whole where results have weights."""
    counter[key] += count  # type: ignore[assignment]


def tally_results(results: Iterable[ResultFigures]) -> Tally:
    """The figures of these results."""
    tally = Tally()
    for figures in results:
        add_result(tally, figures)
    return tally


def add_result(tally: Tally, figures: ResultFigures) -> None:
    """Adds one result. Each must be added once, in any order."""
    probability = 1.0 if figures.probability is None else figures.probability
    if probability < 1 or tally.weighed is not None:
        count_result(tally.weigh(), figures, 1 / probability)
    tally.probabilities = min(tally.probabilities[0], probability), max(tally.probabilities[1], probability)
    count_result(tally, figures)


def count_result(tally: Tally, figures: ResultFigures, count: float = 1) -> None:
    """Adds what counts for so many results."""
    raise_count(tally.statuses, figures.status, count)
    # Not `setdefault`, which would make an object for every value.
    for (kind, name), value in figures.values.items():
        if kind == "aspect":
            if name not in tally.aspects:
                tally.aspects[name] = AspectTally()
            tally.aspects[name].add(value, figures.find_rating(name), figures.unrated.get(name), count)
        elif value is not None and kind == "blended":
            tally.aspects[name].blended.add(value, count)
        elif value is not None and kind == "composite":
            tally.composites.setdefault(name, Moments()).add(value, count)
    tally.warnings.update(figures.warnings)
    if figures.faulty is not None:
        add_faulty(tally, figures.faulty, count)
    if figures.status == "failed":
        # An evaluation with not one rating carries no failure: outside a batch it would have been this one.
        tally.failures[figures.failure or JudgeReplyInvalid.code] += 1


def add_faulty(tally: Tally, faulty: FaultyTurns, count: float = 1) -> None:
    """Adds the findings of so many conversations that are alike."""
    for code in (*FINDING_CODES, *KIND_CODES):
        if (turns := faulty.turns_of(code)) is not None:
            if code not in tally.findings:
                tally.findings[code] = FaultTally()
            tally.findings[code].add(faulty.system_turns, turns, count)


def pack_tally(tally: Tally) -> str:
    """The figures as compact JSON on one line: about 1.5 kB for six aspects."""
    return COMPACT.encode(describe_tally(tally))


def describe_tally(tally: Tally) -> dict[str, Any]:
    """The figures as JSON. What counts by weight is there where there are weights."""
    return {
        "s": tally.statuses,
        "a": {
            name: [astuple(one.means), astuple(one.blended), one.levels, one.reasons]
            for name, one in tally.aspects.items()
        },
        "c": {name: astuple(moments) for name, moments in tally.composites.items()},
        "w": tally.warnings,
        "f": tally.failures,
        **({"d": {code: astuple(found) for code, found in tally.findings.items()}} if tally.findings else {}),
        **({"p": tally.probabilities, "h": describe_tally(tally.weighed)} if tally.weighed else {}),
    }


def unpack_tally(text: str) -> Tally:
    """The tally in a text from `pack_tally`. Raises ValueError for any other text."""
    try:
        return read_tally(from_json(text))
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("this is not a packed tally") from error


def read_tally(packed: Mapping[str, Any]) -> Tally:
    """The figures in JSON."""
    return Tally(
        statuses=Counter(packed["s"]),
        aspects={name: read_aspect(*parts) for name, parts in packed["a"].items()},
        composites={name: Moments(*parts) for name, parts in packed["c"].items()},
        warnings=Counter(packed["w"]),
        failures=Counter(packed["f"]),
        findings={code: FaultTally(*parts) for code, parts in packed.get("d", {}).items()},
        probabilities=tuple(packed.get("p", ALIKE if packed["s"] else NO_PROBABILITIES)),
        weighed=read_tally(packed["h"]) if "h" in packed else None,
    )


def read_aspect(means: list[Any], blended: list[Any], levels: dict[str, int], reasons: dict[str, int]) -> AspectTally:
    """One aspect's figures. The levels are texts in JSON."""
    counted = Counter({int(level): count for level, count in levels.items()})
    return AspectTally(Moments(*means), Moments(*blended), counted, Counter(reasons))


class Spread(Telling):
    """`n` values: their mean, sample standard deviation (n − 1) and the 95% interval of the mean.

    `mean` is null without values, `sd` with fewer than two. The interval treats dialogues, not their turns, as
    independent, and never leaves the scale; if there is none, `reason` says why.
    """

    n: int
    mean: float | None
    sd: float | None
    interval: Annotated[tuple[float, float], Field(strict=False)] | None
    clusters: int = Field(
        default=0, description="independent units among the values: dialogues, and responses that stand alone"
    )
    reason: Sentence | None = Field(default=None, description="why there is no interval")


class MeanEstimate(Telling):
    """The interval of a mean."""

    clusters: int
    interval: Annotated[tuple[float, float], Field(strict=False)] | None
    reason: Sentence | None


class FixFirst(Telling):
    """How much a kind of fault matters in a run of conversations.

    `weight` is the share of conversations with such a fault times `effect`: how far they lower the mean `overall` of
    all. It does not show that the fault is the cause.
    """

    kind: str = Field(description="the kind of fault")
    conversations: int = Field(description="those with such a fault, among those whose `overall` and kinds are known")
    of: int = Field(description="conversations whose `overall` and kinds are known")
    rate: float = Field(description="system turns with such a fault per 100 in these")
    effect: float | None = Field(
        description="mean `overall` without such a fault minus the mean with it, in scale points; null where every "
        "conversation has one"
    )
    weight: float | None = Field(description="`conversations` / `of` times `effect`, in scale points")
    interval: Annotated[tuple[float, float], Field(strict=False)] | None = Field(
        description="95% interval of the weight, over dialogues"
    )
    reason: Sentence | None = Field(default=None, description="why there is no interval")


FixList = Annotated[tuple[FixFirst, ...], listed()]


class BuildFixes(Value):
    """What to fix first in one build of a system."""

    system: str | None = Field(description="what the metadata name as the system; null where they name none")
    build: str | None = Field(description="what the metadata name as its build; null where they name none")
    fix_first: FixList = Field(description="kinds of faults that occur, the largest `weight` first")


BuildFixList = Annotated[tuple[BuildFixes, ...], listed()]


class Intervals(Value):
    """The stored intervals of a batch's means, by aspect, composite, `NAME.blended` and `finding:CODE`, over `results`
    results.

    `clusters` counts independent units; it is null if no result is a turn of a dialogue.
    """

    results: int
    clusters: int | None
    measures: dict[str, MeanEstimate]
    fix_first: FixList | None = None
    fix_first_by_system: dict[str, FixList] = Field(default_factory=dict)
    fix_first_by_build: BuildFixList = ()


class AspectSummary(Spread):
    """One aspect over all evaluations: each counts with the mean of its samples.

    `histogram` counts ratings by level, every level of the scale present: of conversations that a monitor sampled with
    different probabilities each by its weight, all together as many as there are;
    `blended` is null where nothing is blended.
    """

    unrated: int = Field(description="evaluations without a rating of this aspect")
    unrated_reasons: dict[str, int]
    histogram: dict[str, int | float]
    blended: Spread | None


class FindingRate(Telling):
    """How often system turns have a finding of one code, over the conversations of which that is known.

    `rate` counts turns with at least one, per 100 system turns; it is null without conversations. The interval treats
    conversations, not their turns, as independent; if there is none, `reason` says why.
    """

    conversations: int = Field(description="those of which it is known")
    system_turns: int = Field(description="the system's turns in these")
    turns: int = Field(description="system turns with at least one such finding")
    rate: float | None = Field(description="such turns per 100 system turns")
    interval: Annotated[tuple[float, float], Field(strict=False)] | None = Field(description="95% interval of the rate")
    clusters: int = Field(default=0, description="independent units: conversations, or dialogues that several share")
    reason: Sentence | None = Field(default=None, description="why there is no interval")
    thirds: Annotated[tuple[float | None, ...], listed()] = Field(
        description="the rate in the first, the second and the last third of each conversation's system turns"
    )


class FindingSummary(Value):
    """Findings of a batch of conversations. A finding of the judge is known where the judge rated every aspect that
    applies and named usable turns."""

    any: FindingRate = Field(description="findings of any code, where the judge's are known")
    codes: dict[str, FindingRate] = Field(description="by code, with `judge` for the judge's")


class Coverage(Value):
    """`rated` of `expected` verdicts, one per candidate and aspect that applies to it.

    Failed candidates and those without a result yet are expected too; `share` is null if nothing is expected.
    """

    rated: int
    expected: int
    share: float | None


class Summary(Value):
    """A batch's results in figures. `failures` counts candidates without a single rating by the failure's code,
    `warnings` results by warning code, `signatures` results by signature where they differ."""

    batch: str
    name: str | None
    status: BatchStatus
    rubric: str
    rubric_version: int | None = None
    counts: Counts
    coverage: Coverage
    aspects: dict[str, AspectSummary]
    composites: dict[str, Spread]
    warnings: dict[str, int]
    failures: dict[str, int]
    usage: Usage
    signature: str | None
    signatures: dict[str, int]
    findings: FindingSummary | None = Field(default=None, description="of conversations; null for a batch of items")
    faulty_turns: FindingRate | None = Field(
        default=None,
        description="of conversations: system turns with any finding, of the judge or of a rule; as `findings.any`",
    )
    kinds: dict[str, FindingRate] | None = Field(
        default=None,
        description="findings by kind of fault, found by the judge or a rule; null where the rubric has no kinds",
    )
    fix_first: FixList | None = Field(
        default=None,
        description="kinds of faults that occur, the largest `weight` first; null where the rubric has no kinds, or "
        "while that is computed only at the end of the run",
    )
    fix_first_by_system: dict[str, FixList] = Field(
        default_factory=dict, description="likewise by `system` in the metadata, where there are several"
    )
    fix_first_by_build: BuildFixList = Field(
        default=(), description="likewise by `system` and `build` in the metadata, where there are several builds"
    )
    reliability: Reliability | None = None
    clusters: int | None = Field(
        default=None,
        description="dialogues and responses that stand alone: what counts as independent. Null where no response is "
        "known to be a turn of a dialogue, and each counts as independent of all others",
    )
