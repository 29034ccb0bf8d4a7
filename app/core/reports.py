"""The reports of the analyses.

A figure that the data do not define is null, with the reason in `undefined` under its name. Reports never hold NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from saiten.core.messages import Message
from saiten_server.core.model import Finite, Value, listed
from saiten_server.core.sentences import Sentence, Telling

LEAST_ALPHA = 1e-9
"""No one decides at less, and from 1e-16 on 1 − alpha is 1 in binary: what is searched for there is never found."""

Alpha = Annotated[Finite, Field(ge=LEAST_ALPHA, lt=0.5)]


FEWEST_SHARED = 15
"""Responses of each of two runs that people who rate both must have rated for a difference on their scale: dialogues,
or single items."""


Looks = Literal["once", "any"]
"""How often corrected figures are looked at while people go on rating: once, or as often as anyone likes."""


Undefined = Annotated[Mapping[str, Sentence], Field(description="figures that are null, each with the reason")]
Notes = Annotated[tuple[Sentence, ...], Field(strict=False, description="what to know before using the figures")]
Interval = Annotated[tuple[float, float] | None, Field(strict=False, description="95%: the lower and the upper end")]
N = Annotated[int, Field(description="items that the figures are of; one system's item counts as one")]
LeftOut = Annotated[int, Field(description="items without the values that the figures need")]
Seed = Annotated[int, Field(description="of the random draws: the same seed and data give the same figures")]
Best = Annotated[
    dict[str, float],
    Field(description="aspects that count by their distance from this level, the best; of all others more is better"),
]
Kendall = Annotated[float | None, Field(description="τ-b")]
Matrix = dict[str, dict[str, float | None]]
"""A figure by pair of aspects, including the diagonal."""

Decorrelation = Literal["principal-axis", "residual"]


class RatingsUsed(Value):
    """The human ratings of a batch that an analysis uses, each by one rater of one response."""

    counted: int = Field(description="ratings that the figures use")
    simulated: bool = Field(
        description="whether these are simulated ratings, which are used only if no ratings by people are left"
    )
    simulated_left_out: int = Field(
        description="simulated ratings that are left out, since there are ratings by people"
    )
    excluded: int = Field(description="ratings that are left out since their rater or round is excluded")

    def notes(self) -> Iterator[Message]:
        """What a reader of the figures must know, one sentence each."""
        if self.simulated:
            yield Message("simulated-ratings-used")
        if self.simulated_left_out:
            yield Message("simulated-ratings-left-out", ratings=self.simulated_left_out)
        if self.excluded:
            yield Message("excluded-ratings-left-out", ratings=self.excluded)


Used = Annotated[
    RatingsUsed | None, Field(description="for a batch, the human ratings that the figures use; else null")
]


class Confusion(Value):
    """How often each value of a judge stands beside each median of people's ratings: a row for each of `people`, a
    column for each of `judge`."""

    people: Annotated[tuple[float, ...], listed()] = Field(description="medians of the items' ratings, ascending")
    judge: Annotated[tuple[float, ...], listed()] = Field(description="the judge's values, ascending")
    counts: Annotated[tuple[Annotated[tuple[int, ...], listed()], ...], listed()] = Field(
        description="items: a row for each median, in it a count for each value of the judge"
    )


ConfusionOrNone = Annotated[
    Confusion | None,
    Field(
        exclude_if=lambda confusion: confusion is None,
        description="of the judge and people's median; absent without scores, or with too many different values",
    ),
]


class AspectAgreement(Telling):
    """How far raters agree on one aspect.

    `spearman` and `pearson` are each rater's against the mean of the others on the items that both rated, averaged over
    the raters that have one: three such items, on which neither side is constant.
    """

    n: N
    left_out: LeftOut
    raters: int = Field(description="named raters who rated the aspect")
    mean: float | None = Field(description="of the items' rater means")
    sd: float | None = Field(description="of the items' rater means, with n − 1")
    spearman: float | None
    pearson: float | None
    krippendorff_alpha: float | None = Field(description="ordinal; of named raters")
    pairwise_spearman: float | None = Field(default=None, description="mean over all pairs of raters")
    pairwise_pearson: float | None = Field(default=None, description="mean over all pairs of raters")
    cohen_kappa: float | None = Field(default=None, description="mean over all pairs of raters; values are labels")
    fleiss_kappa: float | None = Field(default=None, description="of items with two named raters or more")
    icc: float | None = Field(default=None, description="ICC(2,1), on the items that every named rater rated")
    confusion: ConfusionOrNone = None
    compared: int = Field(default=0, description="raters that the averages `spearman` and `pearson` are over")
    by_rater: dict[str, float | None] = Field(
        default_factory=dict,
        description="each rater's Spearman with the mean of the others, null where there is none: a rater far below "
        "the others may have rated at random; empty with more than 200 raters",
    )
    notes: Notes = ()
    undefined: Undefined = Field(default_factory=dict)


class Correlations(Telling):
    """Between aspects, over the items' rater means, on the items that have both.

    `undefined` has a pair's reason under the aspect that comes first, and in it under the other.
    """

    spearman: Matrix
    pearson: Matrix
    n: dict[str, dict[str, int]] = Field(description="items that have both, by pair of aspects")
    undefined: Annotated[
        Mapping[str, Mapping[str, Sentence]],
        Field(description="pairs of aspects whose figures are null, each with the reason"),
    ] = Field(default_factory=dict)


class AgreementReport(Value):
    """`items` counts one system's item as one."""

    systems: int
    items: int
    raters: int = Field(description="raters that are named")
    ratings: int = Field(description="values of all aspects")
    aspects: dict[str, AspectAgreement]
    correlations: Correlations
    ratings_used: Used = None


class Ceiling(Telling):
    """The correlation of a rater with the others: a reference for a metric's correlation.

    It is a conservative one: a rater is compared with the other raters, the metric with all of them.
    """

    raters: int = Field(description="named raters on the items that have a score")
    spearman: float | None
    pearson: float | None
    undefined: Undefined = Field(default_factory=dict)


class SystemLevel(Telling):
    """The correlation of the systems' means."""

    n: int = Field(description="systems")
    spearman: float | None
    pearson: float | None
    kendall: Kendall
    undefined: Undefined = Field(default_factory=dict)


class WithinSystems(Telling):
    """Spearman's ρ of scores and rater means within systems, on the items that two named raters or more rated: what a
    judge's badge rests on.

    Items are ranked within their systems, so that no difference between systems counts. The interval holds with 95%
    for all aspects of the report at once, and at every number of items, so that it may be looked at again and again.
    """

    n: int = Field(description="items with a score that two named raters or more rated")
    systems: int
    raters: int = Field(description="named raters of these items")
    spearman: float | None
    interval: Interval
    agreement: float | None = Field(description="the same correlation of a rater with the others, averaged over raters")
    undefined: Undefined = Field(default_factory=dict)


class AspectCorrelation(Telling):
    """Scores compared with the rater means of the same items.

    The coefficients' intervals invert a test that knows how few values ratings take, over clusters (a dialogue with all
    responses to its items). The interval of the bias is over clusters, as that of a difference of paired runs.
    """

    n: N
    left_out: LeftOut
    spearman: float | None
    pearson: float | None
    kendall: Kendall
    spearman_interval: Interval
    pearson_interval: Interval
    kendall_interval: Interval
    score_mean: float | None
    rating_mean: float | None = Field(description="of the items' rater means")
    bias: float | None = Field(description="mean score minus mean rating")
    bias_interval: Interval
    contexts: int = Field(default=0, description="different items, whatever systems answered them")
    clusters: int = Field(
        default=0,
        description="what intervals take as independent: dialogues, and items that belong to none; without dialogues "
        "the items",
    )
    resamples: int = Field(default=0, description="0: no interval is by bootstrap any more")
    ceiling: Ceiling | None
    system_level: SystemLevel | None
    within_systems: WithinSystems | None = Field(
        default=None, description="what the judge's badge rests on; null in reports of earlier releases"
    )
    notes: Notes = ()
    undefined: Undefined = Field(default_factory=dict)


class CorrelationReport(Telling):
    """Scores against ratings, by aspect."""

    systems: int
    items: int
    raters: int = Field(description="raters that are named")
    clusters: int | None = Field(
        default=None,
        description="dialogues, and items that belong to none: what intervals take as independent. Null where no "
        "record names a dialogue, and items are",
    )
    resamples: int = Field(description="as asked for; no interval is by bootstrap any more")
    seed: Seed
    aspects: dict[str, AspectCorrelation]
    unmatched: Mapping[str, Sentence] = Field(
        default_factory=dict, description="aspects that only the ratings, or only the scores, have, and which"
    )
    ratings_used: Used = None


class ScorerCorrelation(Telling):
    """One scorer's values compared with the rater means, on the items that all scorers of the aspect have."""

    spearman: float | None
    spearman_interval: Interval
    pearson: float | None
    pearson_interval: Interval
    kendall: Kendall
    kendall_interval: Interval
    confusion: ConfusionOrNone = None
    undefined: Undefined = Field(default_factory=dict)


class ScorerDifference(Value):
    """How far two scorers' Spearman correlations with the same ratings lie apart. The interval combines those of both,
    which depend on each other (Zou 2007); `p` is that of the interval, by Holm over the aspect's pairs."""

    better: str
    worse: str
    difference: float = Field(description="Spearman of `better` minus that of `worse`")
    interval: Interval
    p: float | None = Field(description="two-sided, after Holm's correction; null where there is no interval")


class AspectScorers(Value):
    """The scorers of one aspect, beside what raters reach."""

    n: N
    left_out: Annotated[int, Field(description="rated items that some scorer has no value of")]
    clusters: int = Field(description="dialogues, and items that belong to none: what intervals take as independent")
    resamples: int = Field(default=0, description="0: no interval is by bootstrap any more")
    ceiling: Ceiling | None
    scorers: dict[str, ScorerCorrelation]
    differences: Annotated[tuple[ScorerDifference, ...], listed()]
    missing: dict[str, int] = Field(
        default_factory=dict, description="by scorer, how many of the rated items it has no value of"
    )


class JudgesReport(Telling):
    """Scorers side by side against the same ratings. A scorer's value of another name is `SCORER (NAME)`."""

    systems: int
    items: int
    raters: int = Field(description="raters that are named")
    clusters: int | None
    resamples: int = Field(description="as asked for; no interval is by bootstrap any more")
    seed: Seed
    aspects: dict[str, AspectScorers]
    unmatched: Mapping[str, Sentence] = Field(
        default_factory=dict, description="ratings and scores that nothing was compared with, and why"
    )
    ratings_used: Used = None
    records: Annotated[tuple[dict[str, Any], ...], listed()] | None = Field(
        default=None,
        exclude_if=lambda records: records is None,
        description="what the figures were made of, where the request asks for `records`: a record for each rater of "
        "each item, as this analysis reads them",
    )


class SignificantPair(Value):
    """System `better` is better than system `worse`, with the two-sided p of Mann and Whitney's U."""

    better: str
    worse: str
    p: float = Field(description="two-sided, not corrected for the number of pairs")


class AspectPairs(Telling):
    """D(X), the pairs of systems that the aspect tells apart.

    If the data cannot show a difference, D(X) is empty too; `undefined` then has the reason under `pairs`.
    """

    pairs: int = Field(description="how many `significant` there are")
    tested: int = Field(default=0, description="pairs of systems that both have values")
    n: N
    left_out: LeftOut
    significant: Annotated[tuple[SignificantPair, ...], listed()]
    undefined: Undefined = Field(default_factory=dict)


class Decorrelated(Telling):
    """The pairs of the higher aspect after the lower one is removed from it.

    The changes are null if the points have no such axis; `undefined` says why.
    """

    method: Decorrelation
    n: N
    left_out: LeftOut
    common_change: int | None = Field(description="lost of the pairs that both aspects had; never positive")
    higher_only_change: int | None = Field(description="lost of the pairs that only the higher had; never positive")
    new: int | None = Field(description="pairs that only now are there")
    undefined: Undefined = Field(default_factory=dict)


class Dependency(Value):
    """`higher` depends on `lower`: D(lower) is not empty and a strict subset of D(higher)."""

    lower: str
    higher: str
    common: int = Field(description="pairs of systems that both aspects tell apart, the same way")
    higher_only: int = Field(description="pairs that the lower does not tell apart")
    decorrelated: Decorrelated


class HierarchyReport(Telling):
    """Dependencies in the aspects' order, the lower first."""

    alpha: float = Field(description="a pair is significant with a p below it")
    systems: int
    items: int
    aspects: dict[str, AspectPairs]
    dependencies: Annotated[tuple[Dependency, ...], listed()]
    best: Best = Field(default_factory=dict)
    undefined: Undefined = Field(default_factory=dict)
    ratings_used: Used = None


class CompositeFit(Telling):
    """Least squares, without intercept, of target − intercept on the composite's transformed aspects.

    Each transformed aspect has the sign that the rubric's weight gives it, so that weights are positive where they
    agree with the rubric's direction.
    """

    composite: str
    target: str
    n: N
    clusters: int = Field(default=0, description="what is held out together: dialogues, and items that belong to none")
    left_out: LeftOut
    train: int = Field(description="items that the weights are fitted on")
    test: int = Field(description="items held out")
    seed: Seed
    weights: dict[str, float | None] = Field(description="by aspect")
    intervals: dict[str, Interval] = Field(
        description="of the weights: by t where all items are independent, else by bootstrap over clusters"
    )
    declared: dict[str, float] = Field(description="the rubric's own weights, in the same sense")
    pearson: float | None = Field(description="of the fitted composite with the target, on the items held out")
    declared_pearson: float | None = Field(description="what the rubric's own weights reach on them")
    undefined: Undefined = Field(default_factory=dict)
    ratings_used: Used = None


class BlendFit(Telling):
    """The weight w of c + w(b − b̄) that correlates best with humans, by cross-validation over clusters: dialogues, and
    items that belong to none."""

    aspect: str
    n: N
    clusters: int = Field(default=0, description="what folds keep together and resamples draw")
    left_out: LeftOut
    folds: int
    seed: Seed
    statistic: Literal["spearman", "pearson"]
    weight: float | None = Field(description="has the highest mean, over folds, of the correlation on the fold")
    interval: Interval = Field(description="of the weight: 95%, by bootstrap over clusters within folds")
    correlation: float | None = Field(
        description="nested: each fold's with the weight that the others chose, averaged over folds"
    )
    unblended: float | None = Field(description="the correlation of w = 0 on the same folds")
    default: float | None = Field(description="the correlation of w = 10 on the same folds")
    tried: Annotated[
        tuple[float, float], Field(strict=False, description="the least and the greatest weight that were tried")
    ] = (0.0, 50.0)
    resamples: int = Field(default=0, description="bootstrap samples; of very many items fewer")
    notes: Notes = ()
    undefined: Undefined = Field(default_factory=dict)
    ratings_used: Used = None


class WinShare(Value):
    """Contexts won of all, ties included in the denominator; null without contexts."""

    wins: int
    share: float | None
    interval: Interval = Field(description="of the share: Wilson's, 95%, with dialogues as units where there are any")


class PairedWins(Telling):
    """Two systems on the contexts that both answered with a value."""

    a: str = Field(description="the first system")
    b: str = Field(description="the second system")
    contexts: int
    a_wins: WinShare
    b_wins: WinShare
    ties: WinShare
    preference: float | None = Field(description="a's share of the contexts that one of the two won")
    preference_interval: Interval = Field(description="of the preference: Wilson's, 95%")
    left_out: int = Field(default=0, description="contexts that one of them, or both, did not answer with a value")
    undefined: Undefined = Field(default_factory=dict)


class AspectWins(Telling):
    """A context is won by the one system with the highest value, tied where several have it."""

    contexts: int = Field(description="those that every system answered with a value")
    left_out: int = Field(description="contexts that some system did not answer with a value")
    systems: dict[str, WinShare]
    ties: WinShare
    pairs: Annotated[tuple[PairedWins, ...], listed()]
    undefined: Undefined = Field(default_factory=dict)


class WinReport(Telling):
    """Per aspect; what is blended stands as `NAME.blended`."""

    systems: Annotated[tuple[str, ...], listed()]
    contexts: int = Field(description="all, those that one system alone answered included")
    clusters: int | None = Field(
        default=None,
        description="dialogues, and contexts that belong to none: what intervals take as independent. Null where no "
        "record names a dialogue, and contexts are",
    )
    aspects: dict[str, AspectWins]
    best: Best = Field(default_factory=dict)
    undefined: Undefined = Field(default_factory=dict)
    ratings_used: Used = None


Quantile = Literal["t", "normal"]


class MeanFigure(Value):
    """A mean with its interval."""

    mean: float
    interval: Interval = Field(description="at 1 - alpha; null where the values show no spread")


class CorrectedFigure(MeanFigure):
    """A mean on people's scale."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    weight: float = Field(alias="lambda", description="of the judge, from 0 (people alone) to 1")
    standard_error: float = Field(description="of the mean, robust to clusters")
    severity: bool = Field(
        default=False,
        description="whether the error and the interval have in them how severe raters are: other people, too, would "
        "say so. False with one rater, or raters without names: the interval is of what these would say of all items",
    )
    interval_by_these_raters: Interval = Field(
        default=None, description="of what these raters would say of all items; null unless `severity`"
    )


class LevelShare(Telling):
    """The share of items at one level of the scale. A score counts for the level nearest to it."""

    judge: float = Field(description="as the judge rates all items")
    human: float | None = Field(description="as people rated some; null where no one did")
    corrected: CorrectedFigure | None
    refused: Sentence | None = Field(description="why `corrected` is null")


class CorrectedAspect(Telling):
    """One system's means of one aspect: what the judge says, what people said of some items, and what people would say
    of all."""

    judged: int = Field(description="items with a score")
    rated: int = Field(description="of these, items that people rated")
    clusters: int = Field(description="what is independent: dialogues, and items that belong to none")
    rated_clusters: int = Field(description="of these, those with items that people rated")
    raters: int = Field(default=0, description="people known by name who rated; 0 where none is")
    judge: MeanFigure
    human: MeanFigure | None
    corrected: CorrectedFigure | None
    refused: Sentence | None = Field(description="why `corrected` is null, with the number of ratings that it needs")
    ratings_needed: int | None = Field(description="ratings, in all, that a corrected figure needs; else null")
    ratings_for_half_width: int | None = Field(
        description="how many more ratings by these raters would halve the interval; null where not even ratings of "
        "all items would"
    )
    raters_for_half_width: int | None = Field(
        default=None,
        description="how many raters in all would halve the interval, if each rated as much as each does now; null "
        "where how severe they are is not in it",
    )
    ratings_for_margin: int | None = Field(
        default=None,
        description="how many more ratings by these raters would bring the corrected mean to ± `margin`; null without "
        "one, and where not even ratings of all items would",
    )
    levels: dict[str, LevelShare] = Field(
        default_factory=dict,
        description="shares by level, of at most 11 whole numbers; empty for others, and in very large reports",
    )
    left_out: int = Field(default=0, description="rated items without a score")
    notes: Notes = ()


class CorrectedSystem(Value):
    """One system's means by aspect."""

    aspects: dict[str, CorrectedAspect]


class CorrectedDifference(Value):
    """Candidate minus baseline. What both share, items and dialogues, is taken out of the error."""

    difference: float
    interval: Interval = Field(description="at 1 - alpha; null where the values show no spread")
    p: float | None = Field(description="two-sided, by t; not corrected for the number of differences")
    standard_error: float | None
    freedom: float | None = Field(description="degrees of freedom of t")


class SharedRaters(Value):
    """The people who rated responses of both sides of a difference. Raters differ in how severe they are, which cancels
    where the same ones rated both."""

    raters: int
    baseline: int = Field(description="items of the baseline that they rated")
    candidate: int = Field(description="items of the candidate that they rated")
    needed: int | None = Field(
        description="items of each side that people who rate both must have rated for a difference; null where there "
        "is one"
    )


class AspectDifference(Telling):
    """The difference of two systems in one aspect, on the judge's scale and on people's."""

    judge: CorrectedDifference
    corrected: CorrectedDifference | None
    refused: Sentence | None = Field(description="why `corrected` is null")
    shared: SharedRaters | None = Field(
        default=None, description="who rated both, by whose ratings alone `corrected` is; null where no rater is named"
    )


class SystemsDifference(Value):
    """Two systems, aspect by aspect."""

    baseline: str
    candidate: str
    aspects: dict[str, AspectDifference]


class CorrectedReport(Telling):
    """A judge's means corrected by people's ratings."""

    alpha: float = Field(description="intervals are at 1 - alpha")
    looks: Literal["once", "any"] = Field(
        default="once", description="as asked for: with `any`, figures hold however often they are looked at"
    )
    margin: float | None = Field(default=None, description="as asked for")
    systems: dict[str, CorrectedSystem]
    differences: Annotated[tuple[SystemsDifference, ...], listed()] = Field(description="of each two systems")
    unmatched: Mapping[str, Sentence] = Field(
        default_factory=dict, description="aspects that people rated and the judge did not score"
    )
    ratings_used: Used = None


AnalysisReport = (
    AgreementReport
    | CorrelationReport
    | JudgesReport
    | HierarchyReport
    | CompositeFit
    | BlendFit
    | WinReport
    | CorrectedReport
)
"""The report of any analysis."""
