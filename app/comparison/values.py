"""Two runs side by side, the gate that makes a CI verdict of them, the sequence of builds that gates judge with one
error rate, and the items and systems that differ most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, computed_field, model_validator

from saiten.core.messages import Message
from saiten_server.comparison.links.values import LinkMark
from saiten_server.core.access import TextKeeping
from saiten_server.core.conversation import ANY_CODE, FINDING
from saiten_server.core.model import Finite, Location, Value, is_none, listed, refuse
from saiten_server.core.reliability import ValidationState
from saiten_server.core.reports import CorrectedFigure, Interval, Looks, PairedWins, SharedRaters, Undefined
from saiten_server.core.sentences import Sentence, Telling
from saiten_server.runs.summary import Kind

if TYPE_CHECKING:
    from saiten_server.runs.frame import RunFrame


class SequenceDrop(Value):
    """A drop, or a rise of findings, that a sequence found and that is not mended. Builds fail until it is."""

    night: int = Field(description="the place of the build that failed by it first")
    first: int = Field(description="the place of the earliest of the newest builds that it was found in")
    size: float = Field(description="by how much these lay on the bad side of the baseline, in points")


class SequenceBuild(Value):
    """A build of a sequence."""

    night: int = Field(description="its place, from 1; what a place may spend of alpha stays spent")
    batch: str | None = Field(description="null once it was erased")
    judged_at: Annotated[datetime, Field(strict=False, description="when it was judged first")]
    verdict: Literal["pass", "fail", "inconclusive"] = Field(description="what its gate said last")
    drops: dict[str, SequenceDrop] | None = Field(
        default=None, description="by what rules name, what was not mended with it; null where that was not kept"
    )


class GateSequence(Value):
    """A sequence of builds. It ends when its baseline is erased."""

    name: str
    baseline: str = Field(description="the batch that all builds are judged against")
    alpha: float = Field(description="how often, at most, any build of the whole sequence fails if nothing changed")
    started_at: Annotated[datetime, Field(strict=False, description="when its first build was judged")]
    builds: Annotated[tuple[SequenceBuild, ...], listed()] = Field(
        default=(), description="in their order; empty in the list of all sequences"
    )


class SequenceMark(Value):
    """The place of a gate in a sequence of builds."""

    name: str
    night: int = Field(description="the candidate's place, from 1")
    alpha: float = Field(description="how often, at most, any build of the whole sequence fails if nothing changed")
    level: float = Field(description="what this place may spend of it")
    builds: int = Field(description="earlier builds that this one is looked at with")
    noise: dict[str, float] = Field(
        description="by what rules name, the standard deviation between builds that their items do not explain"
    )
    drops: dict[str, SequenceDrop] = Field(default={}, description="by what rules name, what is not mended")


ChosenTest = Literal["auto", "paired", "unpaired"]
PairingTest = Literal["paired", "unpaired"]
Unit = Literal["dialogue", "item"]
ComparisonVerdict = Literal["better", "worse", "inconclusive"]
Favoured = Literal["baseline", "candidate", "neither"]
EstimateKind = Literal["judge", "corrected"]


GateVerdict = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True)
class ComparedRun:
    """The results of one system version, from a batch or a file.

    `expected` counts candidates, including those without a result. `signatures` counts results by signature. `scales`
    holds the lowest and highest value by measure: aspects, composites, and `NAME.blended` with the aspect's scale.
    `numbered` is True if the caller gave no ids. `best` holds the best value of each aspect on which it is not the
    highest (too stiff is as wrong as too casual): such aspects count by minus the distance from it. Several items with
    one id and context count once, with their mean. `texts` tells whether contexts can be compared: hashed ones only
    with hashed ones, dropped ones with none. `rubric` is the name of what rated, where no signature may tell it.
    """

    name: str
    frame: RunFrame
    expected: int
    signatures: Mapping[str, int]
    scales: Mapping[str, tuple[float, float]]
    aspects: tuple[str, ...]
    numbered: bool = False
    best: Mapping[str, float] = field(default_factory=dict)
    texts: TextKeeping = "keep"
    rubric: str | None = None


class Pairing(Telling):
    """Which items of the two runs belong together.

    An item is all responses to one dialogue context and counts once, with their mean. It is identified by its id, and
    by its context too if one id has several contexts within a run.
    """

    test: PairingTest = Field(description="whether pairs are compared, or all items of one run with all of the other")
    pairs: int = Field(description="items that are in both runs, whether or not `test` uses them")
    only_baseline: int = Field(description="items of the baseline run without a partner")
    only_candidate: int = Field(description="items of the candidate run without a partner")
    contexts_differ: int = Field(
        description="pairs whose dialogue contexts differ; they still are pairs, unless items are only numbered"
    )
    baseline_items: int = Field(description="items of the baseline run")
    baseline_responses: int = Field(description="responses, repeats among them, that these are the means of")
    candidate_items: int = Field(description="items of the candidate run")
    candidate_responses: int = Field(description="responses, repeats among them, that these are the means of")
    reason: Sentence = Field(description="why this test was chosen and what its units are, in one sentence")
    unit: Unit = Field(
        default="item",
        description="what counts as independent: dialogues, each with its items, and items without one; or all items, "
        "if neither run has dialogues",
    )
    clusters: int = Field(default=0, description="number of units of the pairs; unpaired, of the run with fewer")


class Measure(Telling):
    """One aspect, composite or blended aspect in both runs.

    Differences are candidate minus baseline in scale points: over pairs with a value on both sides (`test` is
    sign-flip), else over each run's items (permutation). Both tests are tests of the difference of the means, with
    dialogues as units.
    """

    kind: Kind
    test: Literal["sign-flip", "permutation"]
    n: int = Field(description="pairs with a value on both sides; unpaired, the smaller side's items with a value")
    n_baseline: int = Field(description="items of the baseline run that count here")
    n_candidate: int = Field(description="items of the candidate run that count here")
    clusters: int = Field(
        default=0,
        description="dialogues that the pairs are in, each item without one counting as its own; unpaired, the smaller "
        "number of the two runs",
    )
    clusters_baseline: int = Field(default=0, description="those of the items of the baseline run that count here")
    clusters_candidate: int = Field(default=0, description="likewise, of the candidate run")
    baseline_mean: float | None = Field(
        description="mean of these items; of minus the distance where there is a `best`"
    )
    candidate_mean: float | None = Field(description="likewise, of the candidate run")
    difference: float | None = Field(description="candidate mean minus baseline mean")
    interval: Interval = Field(
        description="of the difference, at 1 - alpha, never beyond what the scale allows; each measure's by itself"
    )
    standard_error: float | None = Field(description="of the difference, robust to clusters")
    freedom: float | None = Field(default=None, description="degrees of freedom of the standard error")
    link_error: float = Field(
        default=0.0, description="the link's standard error, which is in `standard_error`; 0 without a link"
    )
    p: float | None = Field(description="of the test, two-sided")
    p_adjusted: float | None = Field(
        description="p by Holm over the measures of the same kind of which a value differs; in a gate's report, of "
        "what a rule on drops names, over those"
    )
    cliffs_delta: float | None = Field(
        description="P(candidate higher) - P(baseline higher) over all pairs of an item of either run, in [-1, 1]"
    )
    smallest_detectable: float | None = Field(
        description="the difference that this spread and so many dialogues show with 80% power, at alpha / k for the "
        "k measures of this kind that were tested: the level that Holm's first step leaves; in a gate's report, of "
        "what a rule on drops names, as the rule's reason says it"
    )
    verdict: ComparisonVerdict = Field(description="by `p_adjusted` and alpha, and the sign of the difference")
    wins: PairedWins | None = Field(description="of paired items; `a` is the candidate")
    best: float | None = Field(
        default=None,
        description="the best value where it is not the highest: compared is minus the distance from it; else null",
    )
    baseline_rating_mean: float | None = Field(
        default=None, description="mean of the ratings themselves; that is `baseline_mean` where there is no `best`"
    )
    candidate_rating_mean: float | None = Field(default=None, description="likewise, of the candidate run")
    ranks_favour: Favoured = Field(
        default="neither", description="whose values are higher more often, by `cliffs_delta`; the verdict is not by it"
    )
    differing: int = Field(
        default=0,
        description="dialogues whose mean differs between the runs; unpaired, those of both runs whose mean is not the "
        "most frequent one",
    )
    doubt: Sentence = Field(
        default="", description="why a difference is not shown that the test's flips alone would show; else empty"
    )
    undefined: Undefined = Field(default_factory=dict)


class CorrectedMeasure(Telling):
    """One aspect or composite of both runs on people's scale: the judge's scores corrected by people's ratings.

    The difference has a λ of its own, so that it need not be the difference of the two means.
    """

    rated_baseline: int = Field(description="responses of the baseline run that people rated; 0 without such a run")
    rated_candidate: int = Field(description="likewise, of the candidate run")
    baseline: CorrectedFigure | None
    candidate: CorrectedFigure | None
    difference: float | None = Field(description="candidate minus baseline")
    interval: Interval = Field(description="of the difference, at 1 - alpha")
    standard_error: float | None = Field(description="of the difference, robust to clusters")
    p: float | None = Field(description="of t, two-sided")
    p_adjusted: float | None = Field(description="p by Holm over the measures that have one")
    smallest_detectable: float | None = Field(description="the difference that is shown with 80% power")
    verdict: ComparisonVerdict
    refused: Sentence | None = Field(description="why there is no difference")
    ratings_needed: int | None = Field(description="ratings that a refused figure needs; else null")
    shared: SharedRaters | None = Field(
        default=None, description="who rated both runs, by whose ratings alone the difference is; null without two runs"
    )
    notes: Annotated[tuple[Sentence, ...], listed()] = Field(
        default=(), description="what a reader of the figures should know, a sentence each"
    )


class RunCoverage(Value):
    """How many of the expected verdicts there are."""

    candidates: int = Field(description="responses of the run, including failed ones")
    rated: int = Field(description="verdicts, one per candidate and measure")
    expected: int = Field(description="candidates times measures, less what does not apply to a conversation")
    share: float | None = Field(description="rated / expected; null where nothing is expected")


class Comparison(Telling):
    """Two runs, measure by measure."""

    baseline: str = Field(description="name of the baseline run")
    candidate: str = Field(description="name of the candidate run")
    alpha: float = Field(description="significance level of each kind of measures together")
    pairing: Pairing
    aspects: dict[str, Measure]
    composites: dict[str, Measure]
    blended: dict[str, Measure] = Field(description="by the aspect's own name")
    findings: dict[str, Measure] = Field(
        default_factory=dict,
        description="of conversations: system turns with a finding per 100, by code, `any` and `judge` among them; "
        "each conversation counts once, and less is better",
    )
    kinds: dict[str, Measure] = Field(
        default_factory=dict,
        description="likewise by kind of fault, found by the judge or a rule; empty where neither rubric has kinds",
    )
    faulty_turns: Measure | None = Field(
        default=None, description="of conversations: system turns with any finding per 100, as `findings.any`"
    )
    coverage: dict[Literal["baseline", "candidate"], RunCoverage] = Field(description="of each run, over all aspects")
    signature_differences: dict[str, Annotated[tuple[str, str], Field(strict=False)]] = Field(
        description="by piece both runs' values, baseline first, where they differ: only where that was allowed"
    )
    notes: Annotated[tuple[Sentence, ...], listed()] = Field(
        default=(), description="what a reader of the figures should know, a sentence each"
    )
    link: LinkMark | None = Field(
        default=None, description="where a run of another judge is shown on this judge's scale; null unless asked for"
    )
    estimate: EstimateKind = Field(default="judge", description="as asked for; both stand here where it is `corrected`")
    looks: Looks = Field(default="once", description="how often corrected figures may be looked at, as asked for")
    corrected: dict[str, CorrectedMeasure] = Field(
        default_factory=dict, description="aspects and composites on people's scale; empty unless asked for"
    )
    reliability: dict[str, ValidationState] = Field(
        default_factory=dict,
        description="by measure whether the judge of both runs is shown to follow people's ratings; as in a summary's "
        "`reliability.aspects`",
    )


class GateRule(Value):
    """The requirement on one measure.

    `max_drop` D fails a drop that is significant and, as observed, larger than D. The test is against no drop at all:
    if the true drop is D and there are enough items to detect it, about half of all runs fail. Set D a little above
    the drop that you would accept.
    """

    aspect: (
        Annotated[
            str,
            Field(min_length=1, max_length=80, description="an aspect, a composite, or `NAME.blended`; one rule each"),
        ]
        | None
    ) = None
    finding: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None,
        exclude_if=is_none,
        description="in place of `aspect`, of conversations: the code of findings, `judge` for the judge's, `any`, or "
        "`kind:KIND` for a kind of fault",
    )
    measure: Literal["faulty_turns"] | None = Field(
        default=None,
        exclude_if=is_none,
        description="in place of `aspect`, of conversations: system turns with any finding, as the finding `any`",
    )
    min_mean: Finite | None = Field(
        default=None,
        description="least mean of the candidate's items; a mean below it fails only beyond chance. For an "
        "aspect whose best value lies inside its scale the mean is that of minus the distance from it",
    )
    max_drop: Annotated[Finite, Field(ge=0)] | None = Field(
        default=None,
        description="fails a drop against the baseline run that is beyond chance, and larger than this as observed, in "
        "scale points",
    )
    max_rise: Annotated[Finite, Field(ge=0, le=100)] | None = Field(
        default=None,
        exclude_if=is_none,
        description="with `finding` or `measure`: fails a rise of its rate against the baseline run that is beyond "
        "chance, and larger than this as observed, in system turns with a finding per 100",
    )
    must_detect: Annotated[Finite, Field(gt=0)] | None = Field(
        default=None,
        description="the drop, rise, or shortfall of the minimum, that the data must be able to show with 80% power "
        "for a pass to mean something; by default a quarter of the scale, or 5 findings per 100 system turns, and at "
        "least `max_drop` or `max_rise`",
    )

    @model_validator(mode="after")
    def _check_asks(self) -> GateRule:
        faults: list[tuple[Location, Message]] = []
        if self.code is not None:
            own = "measure" if self.finding is None else "finding"
            others = ("aspect", "min_mean", "max_drop", *(("measure",) if own == "finding" else ()))
            taken = [name for name in others if getattr(self, name) is not None]
            text = Message("takes-max-rise", subject=own)
            faults = [((name,), text) for name in taken]
            if self.max_rise is None:
                faults.append(((), Message("rule-needs-max-rise")))
        elif self.aspect is None:
            faults.append(((), Message("rule-needs-subject")))
        elif self.max_rise is not None:
            faults.append((("max_rise",), Message("goes-with-finding")))
        elif self.min_mean is None and self.max_drop is None:
            faults.append(((), Message("rule-needs-bound")))
        refuse("GateRule", faults)
        return self

    @property
    def code(self) -> str | None:
        """The code of the findings that the rule is about; None for a rule on ratings."""
        return ANY_CODE if self.finding is None and self.measure is not None else self.finding

    @property
    def named(self) -> str:
        """The name of what is measured."""
        return self.aspect or f"{FINDING}{self.code}"

    @property
    def most(self) -> float | None:
        """The change for the worse that is tolerated: the largest drop, or the largest rise."""
        return self.max_drop if self.code is None else self.max_rise


class GateReason(Telling):
    """One finding of the gate."""

    code: Literal[
        "drop", "rise", "below-minimum", "not-enough-data", "coverage", "judge-moved", "no-values", "held"
    ] = Field(description="stable; what held has the code `held`, whatever it is about")
    aspect: str | None = Field(description="what the rule names; null where no rule is meant, or one of findings")
    finding: str | None = Field(
        default=None, exclude_if=is_none, description="the code of findings, where the rule names one"
    )
    measure: str | None = Field(
        default=None, exclude_if=is_none, description="`faulty_turns`, where the rule names that"
    )
    verdict: GateVerdict = Field(description="what this alone would make of the run")
    detail: Sentence = Field(description="a sentence with the figures")
    about: Literal["rule", "coverage", "judge"] = "rule"
    rule: int | None = Field(default=None, description="number of the rule, from 0; null where none is meant")
    detectable: float | None = Field(
        default=None,
        description="the smallest drop that these data show with 80% power at this rule's level; null where no drop "
        "is judged, or none could be shown",
    )

    @computed_field(  # type: ignore[prop-decorator]
        description="what stands in `detail`; a sentence in it has its own `code` and `values`"
    )
    @property
    def values(self) -> dict[str, Any]:
        """The values of the detail; empty where it is a text."""
        return self.detail.as_json() if isinstance(self.detail, Message) else {}


class GateReport(Value):
    """The verdict for a CI job, with its reasons."""

    verdict: GateVerdict = Field(description="what a CI job acts on")
    reasons: Annotated[tuple[GateReason, ...], listed()] = Field(description="those that decided first, then the rest")
    alpha: float = Field(description="how often, at most, a run without any difference fails")
    min_coverage: float = Field(
        description="share that there must be of each measure that a rule names, in each run that is used and in pairs"
    )
    coverage: RunCoverage = Field(description="the candidate's, over all measures that the rules name")
    rules: Annotated[tuple[GateRule, ...], listed()] = Field(description="those applied, the default ones among them")
    comparison: Comparison | None = Field(description="null without a baseline run")
    estimate: EstimateKind = Field(default="judge", description="which estimate decided")
    looks: Looks = Field(default="once", description="how often corrected figures may be looked at, as asked for")
    corrected: dict[str, CorrectedMeasure] = Field(
        default_factory=dict, description="what rules name, on people's scale; empty unless `estimate` is `corrected`"
    )
    sequence: SequenceMark | None = Field(
        default=None, exclude_if=is_none, description="the candidate's place where a sequence of builds is judged"
    )
    id: str | None = Field(
        default=None, exclude_if=is_none, description="`ga_…` where the verdict is kept; else it is left out"
    )
    at: Annotated[datetime | None, Field(strict=False)] = Field(
        default=None, exclude_if=is_none, description="when it was kept"
    )
    runs: dict[Literal["candidate", "baseline"], str | None] | None = Field(
        default=None,
        exclude_if=is_none,
        description="of a kept verdict: the ids of both batches, null for a run that was given as results",
    )
    metadata: dict[str, str] | None = Field(
        default=None, exclude_if=is_none, description="what was kept with the verdict, such as the commit"
    )
    candidate: str = Field(default="", description="name of the candidate run")
    signatures: dict[str, int] = Field(default_factory=dict, description="results of the candidate run by signature")
    reliability: dict[str, ValidationState] = Field(
        default_factory=dict,
        description="by measure whether the judge of the runs is shown to follow people's ratings; as in a summary's "
        "`reliability.aspects`",
    )


SystemOutcome = Literal["better", "worse", "none"]


class SystemCell(Value):
    """The row's system against the column's."""

    outcome: SystemOutcome = Field(description="whether the row's system is significantly better or worse")
    p: float | None = Field(description="two-sided, by Holm over the measures of a kind; null where there is no test")


class SystemMatrix(Value):
    """All pairs of systems on one aspect, each compared as two runs are: on the items of both."""

    systems: Annotated[tuple[str, ...], listed()]
    alpha: float = Field(description="a pair is significant with a p below it")
    n: Annotated[tuple[int, ...], listed()] = Field(description="items with a value, by system")
    rows: Annotated[tuple[Annotated[tuple[SystemCell | None, ...], listed()], ...], listed()] = Field(
        description="a row by system, in it a cell by system; null on the diagonal"
    )


def measures_of(comparison: Comparison) -> list[str]:
    """Every measure of the comparison, by the names that rules have for them."""
    return [*comparison.aspects, *comparison.composites, *(f"{name}.blended" for name in comparison.blended)]


def asked_of(report: GateReport) -> list[str]:
    """Every measure that the gate looked at."""
    compared = measures_of(report.comparison) if report.comparison is not None else []
    return [*dict.fromkeys([*(rule.named for rule in report.rules if rule.code is None), *compared])]


def attach_states(report: GateReport, states: Mapping[str, ValidationState]) -> GateReport:
    """The gate's report with the state beside each measure, in its comparison as well."""
    comparison = report.comparison
    if comparison is not None:
        own = {name: states[name] for name in measures_of(comparison)}
        comparison = comparison.model_copy(update={"reliability": own})
    return report.model_copy(update={"comparison": comparison, "reliability": dict(states)})
