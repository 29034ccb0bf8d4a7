"""Links between judges: how the ratings of one judge read on the scale of another that rated the same responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from saiten_server.core.model import Value, listed
from saiten_server.core.reports import Interval
from saiten_server.core.sentences import Sentence, Telling

LinkMethod = Literal["equipercentile", "linear"]
RunRole = Literal["baseline", "candidate"]
LinkId = Annotated[str, Field(min_length=1, max_length=64)]
LinkedBatch = Annotated[str, Field(min_length=1, max_length=64)]

Draws = Mapping[str, Sequence[Sequence[float]]]
"""By linked aspect the tables of the resamples, a row each, with a value by level of the old judge, lowest first."""


class LinkRequest(Value):
    """Two batches of the same responses, each by its own judge."""

    old: LinkedBatch = Field(description="the batch of the judge whose runs are to be shown on another scale")
    new: LinkedBatch = Field(description="the batch of the judge on whose scale they are shown")
    method: LinkMethod | None = Field(
        default=None,
        description="for all aspects; null: equipercentile on scales of five levels or more, linear on coarser ones",
    )


class LinkedLevel(Value):
    """What a level of the old judge is on the new judge's scale."""

    value: float = Field(description="on the new judge's scale, never beyond it")
    interval: Interval


class JudgeRepeats(Value):
    """How well each judge repeats itself: the share of its variance that is not noise between samples."""

    old: float = Field(description="the old judge's, at most 1")
    new: float = Field(description="likewise, of the new judge")


class AspectLink(Telling):
    """One aspect of both judges."""

    state: Literal["linked", "refused"] = Field(description="whether there is a table")
    reason: Sentence | None = Field(description="why it is refused; else null")
    method: LinkMethod | None = Field(default=None, description="null where the judges' scales cannot be compared")
    n: int = Field(description="responses that both judges rated")
    clusters: int = Field(default=0, description="dialogues of these, and responses that stand alone")
    correlation: float | None = Field(description="Pearson's, of both judges' ratings as they are")
    correlation_interval: Interval = Field(default=None, description="of the correlation that decides, at 95%")
    corrected_correlation: float | None = Field(
        default=None, description="corrected for attenuation by `repeatability`; it decides where it is not null"
    )
    repeatability: JudgeRepeats | None = Field(default=None, description="null unless both judges gave several samples")
    table: dict[str, LinkedLevel] = Field(default_factory=dict, description="by level of the old judge")
    margin: float | None = Field(
        default=None,
        description="half the 95% interval of the mean of a run that the old judge rated as it did here, as a share "
        "of the scale",
    )
    pairs_needed: int | None = Field(default=None, description="pairs with which `margin` would be 0.05")


class Link(Value):
    """A stored link. It goes with either of its batches."""

    id: str = Field(description="`ln_…`")
    created_at: Annotated[datetime, Field(strict=False)]
    old: str = Field(description="the old judge's batch")
    new: str = Field(description="the new judge's batch")
    old_signature: str = Field(description="how the old batch was scored: runs scored so can be linked")
    new_signature: str = Field(description="how linked runs count as scored")
    unpaired: int = Field(default=0, description="responses that only one of the batches has a result of")
    aspects: dict[str, AspectLink] = Field(description="all that either judge's rubric has")


class LinkMark(Telling):
    """That a report rests on a link, and which of its runs are shown on another judge's scale."""

    id: str = Field(description="the link's, `ln_…`")
    old_signature: str = Field(description="how linked runs were scored")
    new_signature: str = Field(description="how they count as scored")
    runs: Annotated[tuple[RunRole, ...], listed()] = Field(description="those that are linked")
    refused: Mapping[str, Sentence] = Field(
        default_factory=dict,
        description="aspects that have no link, with the reason: linked runs have no values of them",
    )


@dataclass(frozen=True)
class StoredLink:
    """A link with what its error is computed from."""

    link: Link
    draws: Draws
