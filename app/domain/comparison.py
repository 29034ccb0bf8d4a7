"""Two runs side by side, and the gate that makes a CI verdict of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field, model_validator

from app.domain.faults import refuse
from app.domain.model import Finite, Value, listed
from app.domain.reports import Interval, PairedWins, Undefined

ChosenTest = Literal["auto", "paired", "unpaired"]
PairingTest = Literal["paired", "unpaired"]
Kind = Literal["aspect", "composite", "blended"]
Verdict = Literal["better", "worse", "inconclusive"]
Favoured = Literal["baseline", "candidate", "neither"]
GateVerdict = Literal["pass", "fail", "inconclusive"]
Alpha = Annotated[Finite, Field(gt=0, lt=0.5)]


@dataclass(frozen=True)
class RunItem:
    """One candidate's values in a run. `context` is a digest of its dialogue context, None where not known.

    `ratings` holds the mean of the samples by aspect, `composites` and `blended` likewise; None is unrated.
    """

    item: str
    candidate: int | None
    system: str | None
    context: str | None
    ratings: Mapping[str, float | None]
    composites: Mapping[str, float | None] = field(default_factory=dict)
    blended: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """The results of one system version, as a batch or a file has them.

    `expected` counts candidates, those without a result among them. `signatures` counts results by signature.
    `scales` holds lowest and highest value by measure: aspects, composites, and `NAME.blended` with the aspect's own.
    `numbered` is True where the items have no ids of the caller's, only their numbers. `best` holds, for aspects whose
    best value is not the highest (too stiff is as wrong as too casual), that value: they count by minus their distance
    from it.
    """

    name: str
    items: Sequence[RunItem]
    expected: int
    signatures: Mapping[str, int]
    scales: Mapping[str, tuple[float, float]]
    aspects: tuple[str, ...]
    numbered: bool = False
    best: Mapping[str, float] = field(default_factory=dict)


class Pairing(Value):
    """Which items of the two runs belong together.

    `pairs` have the same item id (and candidate) in both, whether or not `test` uses them. `contexts_differ` counts
    pairs whose dialogue contexts are not the same; they still are pairs, unless items are only numbered.
    """

    test: PairingTest
    pairs: int
    only_baseline: int
    only_candidate: int
    contexts_differ: int
    reason: str = Field(description="why this test, in one sentence")


class Measure(Value):
    """One aspect, composite or blended aspect in both runs. Differences are candidate minus baseline, in scale points.

    `n` are the pairs with a value on both sides (`test` wilcoxon), and so are `n_baseline` and `n_candidate`; unpaired
    these count each side's values, and `n` the smaller. `p` is two-sided, `p_adjusted` by Holm over the measures of the
    same kind. `cliffs_delta` is in [−1, 1], positive where the candidate is better. `interval` is by bootstrap, at
    1 − alpha. `smallest_detectable` is the difference that this many items show with 80 % power. `verdict` is by
    `p_adjusted` and alpha, and inconclusive where the means and the ranks, which the test weighs, favour different
    sides. `wins` are of paired items; `a` is the candidate.
    """

    kind: Kind
    test: Literal["wilcoxon", "mann-whitney"]
    n: int
    n_baseline: int
    n_candidate: int
    baseline_mean: float | None
    candidate_mean: float | None
    difference: float | None
    interval: Interval
    p: float | None
    p_adjusted: float | None
    cliffs_delta: float | None
    smallest_detectable: float | None
    verdict: Verdict
    wins: PairedWins | None
    ranks_favour: Favoured = "neither"
    undefined: Undefined = Field(default_factory=dict)


class RunCoverage(Value):
    """`rated` of `expected` verdicts, one a candidate and aspect; `share` is null where nothing is expected."""

    candidates: int
    rated: int
    expected: int
    share: float | None


class Comparison(Value):
    """`signature_differences` holds, by piece, both runs' values where they differ: only where that was allowed.

    `blended` is by the aspect's own name. `coverage` is over all aspects.
    """

    baseline: str
    candidate: str
    alpha: float
    pairing: Pairing
    aspects: dict[str, Measure]
    composites: dict[str, Measure]
    blended: dict[str, Measure]
    coverage: dict[Literal["baseline", "candidate"], RunCoverage]
    signature_differences: dict[str, Annotated[tuple[str, str], Field(strict=False)]]
    notes: Annotated[tuple[str, ...], listed()] = ()


class GateRule(Value):
    """What is asked of one measure: an aspect, a composite, or `NAME.blended`.

    `max_drop` is the drop against the baseline run that is tolerated, in scale points. `must_detect` is the drop that
    the data must be able to show for a pass to mean something: by default `max_drop`, but at least a quarter of the
    scale.
    """

    aspect: Annotated[str, Field(min_length=1, max_length=80)]
    min_mean: Finite | None = None
    max_drop: Annotated[Finite, Field(ge=0)] | None = None
    must_detect: Annotated[Finite, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _check_asks(self) -> GateRule:
        asks = self.min_mean is not None or self.max_drop is not None
        refuse("GateRule", [] if asks else [((), "needs min_mean or max_drop")])
        return self


class GateReason(Value):
    """One thing that decided, or was looked at: a stable `code`, and a sentence with the figures.

    Codes: `drop`, `below-minimum`, `not-enough-data`, `coverage`, `judge-moved`, `no-values`, `held`. What held has
    the code `held`, whatever it is `about`. `rule` is the number of the rule, from 0, null where none is meant.
    """

    code: Literal["drop", "below-minimum", "not-enough-data", "coverage", "judge-moved", "no-values", "held"]
    aspect: str | None
    verdict: GateVerdict
    detail: str
    about: Literal["rule", "coverage", "judge"] = "rule"
    rule: int | None = None


class GateReport(Value):
    """`verdict` is what a CI job acts on; `reasons` hold those that decided first, then the rest.

    `coverage` is the candidate's, over the measures that the rules name. `rules` are those applied, the default ones
    among them. `candidate` is the run's name, `signatures` count its results by signature.
    """

    verdict: GateVerdict
    reasons: Annotated[tuple[GateReason, ...], listed()]
    alpha: float
    min_coverage: float
    coverage: RunCoverage
    rules: Annotated[tuple[GateRule, ...], listed()]
    comparison: Comparison | None
    candidate: str = ""
    signatures: dict[str, int] = Field(default_factory=dict)
