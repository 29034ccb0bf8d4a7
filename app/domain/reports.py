"""What the analyses answer with.

A figure that the data cannot give is null, and `undefined` says by its name why: there is never a NaN, and never a
null without a word.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.domain.model import Value, listed

Undefined = Annotated[dict[str, str], Field(description="figures that are null, each with the reason")]
Interval = Annotated[tuple[float, float] | None, Field(strict=False)]
Matrix = dict[str, dict[str, float | None]]
"""A figure by pair of aspects; the diagonal included."""

Decorrelation = Literal["principal-axis", "residual"]


class AspectAgreement(Value):
    """How far raters agree on one aspect.

    `n` items have a rating, by `raters` raters; `left_out` have none. `mean` and `sd` (sample, n − 1) are of the items'
    rater means. `spearman` and `pearson` are each rater's against the mean of the others on the items that both rated,
    averaged over the `compared` raters that have one: three such items, on which neither side is constant.
    `krippendorff_alpha` is ordinal.
    """

    n: int
    left_out: int
    raters: int
    mean: float | None
    sd: float | None
    spearman: float | None
    pearson: float | None
    krippendorff_alpha: float | None
    compared: int = 0
    undefined: Undefined = Field(default_factory=dict)


class Correlations(Value):
    """Between aspects, over the items' rater means, on the items that have both. `undefined` by `A~B`."""

    spearman: Matrix
    pearson: Matrix
    n: dict[str, dict[str, int]]
    undefined: Undefined = Field(default_factory=dict)


class AgreementReport(Value):
    """`items` counts one system's item as one."""

    systems: int
    items: int
    raters: int
    ratings: int
    aspects: dict[str, AspectAgreement]
    correlations: Correlations


class Ceiling(Value):
    """What a human reaches against the others: the mark to hold a metric's correlation against."""

    raters: int
    spearman: float | None
    pearson: float | None
    undefined: Undefined = Field(default_factory=dict)


class SystemLevel(Value):
    """The correlation of the systems' means."""

    n: int
    spearman: float | None
    pearson: float | None
    kendall: float | None
    undefined: Undefined = Field(default_factory=dict)


class AspectCorrelation(Value):
    """Scores against the rater means of the same items. `bias` is mean score minus mean rating; intervals are 95 %,
    by bootstrap over items, of which very many items get fewer `resamples`. `kendall` is τ-b."""

    n: int
    left_out: int
    spearman: float | None
    pearson: float | None
    kendall: float | None
    spearman_interval: Interval
    pearson_interval: Interval
    kendall_interval: Interval
    score_mean: float | None
    rating_mean: float | None
    bias: float | None
    bias_interval: Interval
    resamples: int = 0
    ceiling: Ceiling | None
    system_level: SystemLevel | None
    undefined: Undefined = Field(default_factory=dict)


class CorrelationReport(Value):
    """`resamples` is the bootstrap's; `seed` makes it repeatable."""

    systems: int
    items: int
    raters: int
    resamples: int
    seed: int
    aspects: dict[str, AspectCorrelation]
    unmatched: dict[str, str] = Field(
        default_factory=dict, description="aspects that only the ratings, or only the scores, have, and which"
    )


class SignificantPair(Value):
    """System `better` is better than system `worse`, with the two-sided p of Mann and Whitney's U."""

    better: str
    worse: str
    p: float


class AspectPairs(Value):
    """D(X). `pairs` counts it, out of `tested` pairs of systems.

    D(X) of data that cannot show a difference is empty, as it is where there is none: `undefined` then says under
    `pairs` that it means nothing.
    """

    pairs: int
    tested: int = 0
    n: int
    left_out: int
    significant: Annotated[tuple[SignificantPair, ...], listed()]
    undefined: Undefined = Field(default_factory=dict)


class Decorrelated(Value):
    """What becomes of the pairs of the higher aspect once the lower one is taken out of it.

    `common_change` and `higher_only_change` are pairs lost (never positive) among those counted before, `new` pairs
    that only now are there. All are null where the points have no such axis; `undefined` says why.
    """

    method: Decorrelation
    n: int
    left_out: int
    common_change: int | None
    higher_only_change: int | None
    new: int | None
    undefined: Undefined = Field(default_factory=dict)


class Dependency(Value):
    """`higher` depends on `lower`: D(lower) is not empty and a strict subset of D(higher)."""

    lower: str
    higher: str
    common: int
    higher_only: int
    decorrelated: Decorrelated


class HierarchyReport(Value):
    """Dependencies in the aspects' order, the lower first."""

    alpha: float
    systems: int
    items: int
    aspects: dict[str, AspectPairs]
    dependencies: Annotated[tuple[Dependency, ...], listed()]
    undefined: Undefined = Field(default_factory=dict)


class CompositeFit(Value):
    """Least squares, without intercept, of target − intercept on the composite's transformed aspects.

    Each transformed aspect has the sign that the rubric's weight gives it, so that weights are positive where they
    agree with the rubric's direction. `intervals` are 95 %, by t. `declared` are the rubric's own weights in the same
    sense. `pearson` is that of the held-out items, `declared_pearson` what the rubric's own weights reach on them.
    """

    composite: str
    target: str
    n: int
    left_out: int
    train: int
    test: int
    seed: int
    weights: dict[str, float | None]
    intervals: dict[str, Interval]
    declared: dict[str, float]
    pearson: float | None
    declared_pearson: float | None
    undefined: Undefined = Field(default_factory=dict)


class BlendFit(Value):
    """The weight w of c + w(b − b̄) that correlates best with humans, by cross-validation.

    `weight` maximises the mean over folds of the correlation on the fold; `interval` is 95 % by bootstrap.
    `correlation` is nested: each fold is judged with the weight that the others chose; `unblended` and `default` are
    those of w = 0 and w = 10 on the same folds. `tried` are the least and the greatest weight that were tried: a weight
    at its end says that a greater one may do better.
    """

    aspect: str
    n: int
    left_out: int
    folds: int
    seed: int
    statistic: Literal["spearman", "pearson"]
    weight: float | None
    interval: Interval
    correlation: float | None
    unblended: float | None
    default: float | None
    tried: Annotated[tuple[float, float], Field(strict=False)] = (0.0, 50.0)
    resamples: int = 0
    undefined: Undefined = Field(default_factory=dict)


class WinShare(Value):
    """Contexts won of all, ties included in the denominator. `interval` is Wilson's, 95 %; null without contexts."""

    wins: int
    share: float | None
    interval: Interval


class PairedWins(Value):
    """Two systems on the contexts that both answered with a value; `left_out` are the others. `preference` is a's
    share of the contexts that one of them won, null where none did, with Wilson's 95 % interval."""

    a: str
    b: str
    contexts: int
    a_wins: WinShare
    b_wins: WinShare
    ties: WinShare
    preference: float | None
    preference_interval: Interval
    left_out: int = 0
    undefined: Undefined = Field(default_factory=dict)


class AspectWins(Value):
    """A context is won by the one system with the highest value, tied where several have it.

    `contexts` are those that every system answered with a value; `left_out` are those that some did not.
    """

    contexts: int
    left_out: int
    systems: dict[str, WinShare]
    ties: WinShare
    pairs: Annotated[tuple[PairedWins, ...], listed()]
    undefined: Undefined = Field(default_factory=dict)


class WinReport(Value):
    """Per aspect; what is blended stands as `NAME.blended`. `contexts` are all, those of one system included."""

    systems: Annotated[tuple[str, ...], listed()]
    contexts: int
    aspects: dict[str, AspectWins]
    undefined: Undefined = Field(default_factory=dict)
