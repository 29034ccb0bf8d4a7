"""Whether the judge still rates as it did: its ratings of frozen anchors, then and now."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from app.domain.dialogue import Context, Text
from app.domain.evaluation import JudgeOptions, PathChoice
from app.domain.model import Id, RubricName, Value, listed
from app.domain.reports import Undefined


class Anchor(Value):
    """An own dialogue that never changes. `ratings` are what a careful human would give."""

    id: Id
    context: Context
    response: Text
    ratings: dict[Id, int]


Rating = Annotated[int, Field(ge=-1000, le=1000)]
"""No rubric has more levels; a reference is a caller's own, and its sums must stay small."""


WRITTEN_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}", re.ASCII)


def require_moment(value: object) -> object:
    """A datetime, or its text; pydantic would take a number, too, as seconds since 1970."""
    if isinstance(value, datetime) or (isinstance(value, str) and WRITTEN_MOMENT.match(value)):
        return value
    raise ValueError("must be a date and time, such as 2026-05-01T09:30:00Z")


Moment = Annotated[datetime, Field(strict=False), BeforeValidator(require_moment)]


class AnchorRatings(Value):
    """A judge's ratings of the anchors: by anchor and aspect, one value a run, null where it gave none.

    `anchors` is the digest of the anchor set, `asked` that of what the judge was asked: model, options, language path
    and rubric. Ratings of other anchors, or of a judge that was asked otherwise, say nothing of drift. `signature` is
    how the endpoint answered, which may change without anybody asking.
    """

    rubric: str
    anchors: str
    asked: str
    judge: str
    signature: str
    at: Moment
    ratings: dict[str, dict[str, Annotated[tuple[Rating | None, ...], listed(minimum=1, maximum=100)]]]


class AspectDrift(Value):
    """One aspect of `n` anchors that were asked for both then and now.

    `shift` is mean now minus mean then, over those rated both times; `p` is the two-sided probability of ratings so
    much higher or lower if the runs of then and now could change places. `changed` counts anchors with another rating
    than is usual of the stored runs, no rating among them: `lost` had one then and have none now. `noise` is the share
    that changed between the stored runs themselves. `p_adjusted` is `p`, and `p_changed` the probability of so many
    changes, each adjusted for all questions that were asked. `detectable` is the smallest shift that a check finds in
    80 % of all cases, by the noise of the stored runs; null where each anchor has a single stored run. `intended` is
    the share of anchors whose usual rating of now is a careful human's.
    """

    n: int
    shift: float | None
    p: float | None
    p_adjusted: float | None
    changed: int
    lost: int = 0
    noise: float
    p_changed: float | None
    detectable: float | None = None
    intended: float | None
    moved: bool
    undefined: Undefined = Field(default_factory=dict)


class PooledDrift(Value):
    """All aspects together: the adjusted probabilities of their shifts, all in one direction, and of their changes."""

    p_shift: float | None = None
    p_changed: float | None = None
    moved: bool = False


class JudgeCheckRequest(Value):
    """What to check. Without `reference` the ratings that the service has stored are the measure; `record` stores
    those of now in their place. A `reference` is the caller's to keep: where it is of other anchors, the answer has the
    ratings to keep instead, and what the service has stored stays."""

    rubric: RubricName = "ja-dialogue"
    path: PathChoice = "source"
    judge: JudgeOptions = Field(default_factory=JudgeOptions)
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    record: bool = False
    reference: AnchorRatings | None = None


class JudgeCheck(Value):
    """`recorded`: there was nothing to compare with, or what was stored is of other anchors; the ratings of now are the
    measure of next time. `ratings` are those of now."""

    verdict: Literal["steady", "moved", "recorded"]
    detail: str
    rubric: str
    judge: str
    anchors: int
    unrated: int
    alpha: float
    aspects: dict[str, AspectDrift]
    pooled: PooledDrift | None = None
    signature_differences: dict[str, tuple[str, str]] = Field(default_factory=dict)
    reference_at: Annotated[datetime | None, Field(strict=False)] = None
    ratings: AnchorRatings
