"""Rankings of systems by preferences: what is asked, and what is answered."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from saiten.core.messages import Message
from saiten_server.core.batch import BatchId
from saiten_server.core.model import Finite, Id, Value, is_none, listed, refuse
from saiten_server.core.reports import Alpha, Notes, Undefined
from saiten_server.core.sentences import Sentence, Telling

TieModel = Literal["davidson", "ordinal"]
ClusterUnit = Literal["dialogue", "item", "none"]
Voice = Literal["judge", "people", "all"]
RankInterval = Annotated[tuple[float, float] | None, Field(strict=False, description="at 1 - alpha")]
Ranks = Annotated[tuple[int, int], Field(strict=False, description="the ranks that cannot be excluded, from 1")]

DATA_SOURCES = ("data", "runs", "preference_run")


class RankingRequest(Value):
    """Preferences, or where they come from: `data`, records as in NDJSON; `runs`, stored runs whose ratings of an item
    make a preference, equal ones a tie; or `preference_run`."""

    data: Annotated[tuple[Any, ...], listed(minimum=1)] | None = Field(
        default=None, description="records `{item, dialogue?, a, b, winner, rater?, length_a?, length_b?, covariates?}`"
    )
    runs: Annotated[tuple[BatchId, ...], listed(minimum=2, maximum=20)] | None = Field(
        default=None, description="ids of runs of one rubric"
    )
    preference_run: BatchId | None = Field(default=None, description="the id of a preference run")
    alpha: Alpha = Field(default=0.05, description="intervals, rank sets and resolved pairs are at 1 - alpha")
    ties: TieModel = Field(
        default="davidson", description="how ties come about: Davidson's model, or an ordinal logit with thresholds"
    )
    clusters: ClusterUnit = Field(
        default="dialogue",
        description="what is independent of each other: dialogues (items where none is named), items, or each look",
    )
    by: Voice | None = Field(
        default=None, description="whose preferences rank; null: the judge's, or people's where there are no others"
    )
    aspect: Id | None = Field(
        default=None, description="which aspect of runs: by default `overall`, or the first that all have"
    )
    allow_signature_mismatch: bool = Field(
        default=False, description="also rank `runs` that were not rated in the same way"
    )
    penalty: Annotated[Finite, Field(ge=0, le=1e6)] = Field(
        default=0.0,
        description="the precision of a normal prior around 0: above 0 every system has a finite strength, which is "
        "then drawn towards 0",
    )

    @model_validator(mode="after")
    def _check_source(self) -> RankingRequest:
        given = [name for name in DATA_SOURCES if getattr(self, name) is not None]
        refuse("RankingRequest", [((name,), Message("field-beside", other=given[0])) for name in given[1:]])
        if self.runs is not None and len({*self.runs}) < len(self.runs):
            refuse("RankingRequest", [(("runs",), Message("ranking-run-twice"))])
        return self


class RankedSystem(Telling):
    """One system among others."""

    strength: float | None = Field(
        description="natural-log odds, with mean 0; null where no finite value can be given, for the reason in "
        "`undefined`"
    )
    interval: RankInterval
    rank: int = Field(description="by the estimate, from 1, among the systems that somebody connects with it")
    rank_interval: Ranks
    wins: int = Field(description="looks that it won")
    losses: int = Field(description="looks that it lost")
    ties: int = Field(description="looks that ended in a tie")
    undefined: Undefined = Field(default_factory=dict)


class ResolvedPair(Value):
    """Two systems of which one is surely better."""

    better: str = Field(description="the better system")
    worse: str = Field(description="the other one")
    p: float = Field(description="two-sided, adjusted for all pairs of systems by Holm's method")


class SystemsMet(Telling):
    """Two systems that were compared directly."""

    a: str = Field(description="the first system")
    b: str = Field(description="the second system")
    a_wins: int = Field(description="looks that the first won")
    b_wins: int = Field(description="looks that the second won")
    ties: int = Field(description="looks that ended in a tie")
    share: float = Field(
        description="how often the first was preferred, a tie counting half, and each order half where there are both"
    )
    share_interval: RankInterval
    both_orders: bool = Field(description="whether each was shown first in some looks; else the order is in the share")
    win_probability: float | None = Field(
        description="of the first by the strengths, a tie counting half, order and covariates being equal"
    )
    undefined: Undefined = Field(default_factory=dict)


class TermFigure(Value):
    """What something adds to the log odds."""

    value: float = Field(description="in natural-log odds")
    interval: RankInterval


class PlainRank(Value):
    """A system's place where covariates are left out."""

    strength: float | None = Field(description="natural-log odds with mean 0")
    interval: RankInterval
    rank: int = Field(description="by the estimate, from 1")
    rank_interval: Ranks


class Ranking(Telling):
    """Systems ranked by preferences. Figures that the data do not define are null, with the reason in `undefined`."""

    alpha: float = Field(description="intervals, rank sets and resolved pairs are at 1 - alpha")
    by: Voice = Field(description="whose preferences these are")
    looks: int = Field(description="answers to one pair in one order")
    items: int = Field(description="items that were looked at")
    clusters: int = Field(description="what is independent: dialogues, and items that belong to none")
    raters: int = Field(description="people; 0 where the judge looked")
    systems: dict[str, RankedSystem] = Field(
        description="by name; with lengths or covariates at a difference of zero in all of them"
    )
    tied_with_best: Annotated[tuple[str, ...], listed()] = Field(
        description="the systems that none is surely better than: the best is among them at 1 - alpha"
    )
    resolved: Annotated[tuple[ResolvedPair, ...], listed()] = Field(description="the surest first")
    components: Annotated[tuple[Annotated[tuple[str, ...], listed()], ...], listed()] = Field(
        description="systems that comparisons connect, directly or through others; each is ranked by itself"
    )
    scales: Annotated[tuple[Annotated[tuple[str, ...], listed()], ...], listed()] = Field(
        description="systems whose strengths can be set against each other, within the components: between two scales "
        "one side won everything"
    )
    pairs: Annotated[tuple[SystemsMet, ...], listed()] = Field(
        description="systems that met, in the order of the ranks"
    )
    tie_rate: float = Field(description="share of the looks that ended in a tie")
    tie_parameter: float | None = Field(
        description="Davidson's nu: two equal systems tie with nu / (2 + nu); of the ordinal model its threshold"
    )
    tie_parameter_interval: RankInterval
    position_effect: TermFigure | None = Field(description="what being shown first adds")
    position_consistency: float | None = Field(
        description="of the pairs that were seen in both orders, the share with the same answer"
    )
    position_consistency_interval: RankInterval
    both_orders: int = Field(description="pairs of responses that were seen in both orders")
    position_dependent: int = Field(description="of these, those in which each order was answered for another system")
    length_effect: float | None = Field(
        description="what a difference in length adds, at its bounded standard deviation as AlpacaEval 2 has it"
    )
    length_effect_interval: RankInterval
    covariates: dict[str, TermFigure] = Field(description="what one unit more than the other adds, by name")
    without_covariates: dict[str, PlainRank] | None = Field(
        description="the same systems with lengths and covariates left out; null where there are none"
    )
    corrected: Ranking | None = Field(
        default=None, description="what people would say of all that the judge saw; null where no one did"
    )
    weight: float | None = Field(
        default=None,
        exclude_if=is_none,
        description="of a corrected ranking, the judge's weight, from 0 (people alone) to 1",
    )
    refused: Sentence | None = Field(default=None, description="why `corrected` is null although people answered")
    notes: Notes = ()
    undefined: Undefined = Field(default_factory=dict)


Source = Literal["judge", "people", "ratings"]
"""Who prefers: the judge in pairs, people, or the judge's ratings of single responses."""


class SourcesAgreement(Value):
    """How far two sources rank the same systems alike."""

    first: Source = Field(description="one source")
    second: Source = Field(description="the other source")
    systems: int = Field(description="systems that both give a strength")
    kendall: float | None = Field(description="tau-b of the strengths; null with fewer than three systems")
    opposed: int = Field(description="pairs of systems that both resolve, in opposite ways")


class Leaderboard(Telling):
    """Systems ranked by all who prefer: the judge's comparisons in pairs, people's, and the judge's ratings."""

    name: str | None = Field(description="of the runs, where that was asked for")
    preference_run: str | None = Field(description="the preference run, where that was asked for")
    runs: dict[str, str] = Field(description="by system, its run")
    judge: Ranking | None = Field(description="by comparisons in pairs, corrected by people; null without them")
    people: Ranking | None = Field(description="by what people prefer; null where no one was asked")
    ratings: Ranking | None = Field(
        description="by the judge's ratings of single responses: the higher one wins; null where there are none"
    )
    agreement: Annotated[tuple[SourcesAgreement, ...], listed()] = Field(description="of each two sources")

    @property
    def main(self) -> Ranking | None:
        """The ranking that is shown first."""
        return self.judge or self.people or self.ratings
