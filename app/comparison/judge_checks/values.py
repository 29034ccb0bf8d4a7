"""Whether the judge still rates as before: its ratings of frozen anchors, stored and current."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from saiten_server.core.dialogue import Context, Text
from saiten_server.core.evaluation import JudgeOptions, PathChoice
from saiten_server.core.model import Id, RubricName, Value, listed, require_moment
from saiten_server.core.reports import Undefined
from saiten_server.core.sentences import Sentence, Telling


class Anchor(Value):
    """A dialogue that never changes. `ratings` are those that a careful human would give."""

    id: Id
    context: Context
    response: Text
    ratings: dict[Id, int]


BoundedRating = Annotated[int, Field(ge=-1000, le=1000)]
"""No rubric has more levels. Bounded because a caller may send a reference, whose sums must stay small."""


Moment = Annotated[datetime, Field(strict=False), BeforeValidator(require_moment)]


class AnchorRatings(Value):
    """A judge's ratings of the anchors: by anchor and aspect, one value per run, null if it gave none.

    `anchors` is the digest of the anchor set and `asked` that of model, options, language path and rubric. Drift can
    only be measured if both are equal. `signature` describes the endpoint's answer, which may change on its own.
    """

    rubric: str
    anchors: str
    asked: str
    judge: str
    signature: str
    at: Moment
    ratings: dict[str, dict[str, Annotated[tuple[BoundedRating | None, ...], listed(minimum=1, maximum=100)]]]


class AspectDrift(Telling):
    """The drift of one aspect over `n` anchors that were asked both then and now.

    `shift` is the mean now minus the mean then, over anchors rated both times; `p` is the two-sided probability of so
    large a shift if the runs of then and now are exchangeable. `changed` counts anchors whose usual rating differs
    from that of the stored runs; `lost` of them had a rating then and have none now. `noise` is the share that differs
    between the stored runs themselves. `p_adjusted` is `p`, and `p_changed` the probability of so many changes, both
    adjusted for all tests of the check. `detectable` is the smallest shift found with 80% power, given the noise of
    the stored runs; null if each anchor has a single stored run. `intended` is the share of anchors whose usual rating
    now equals the intended one.
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
    """All aspects together: the adjusted probabilities of a common shift and of their changes."""

    p_shift: float | None = None
    p_changed: float | None = None
    moved: bool = False


class JudgeCheckRequest(Value):
    """What to check. Without `reference` the judge is compared with the stored ratings; `record` replaces them.

    A `reference` is stored by the caller. If it is of other anchors, the response has the ratings to store instead, and
    the service's own stay as they are.
    """

    rubric: RubricName = "ja-dialogue"
    path: PathChoice = "source"
    judge: JudgeOptions = Field(default_factory=JudgeOptions)
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    record: bool = False
    reference: AnchorRatings | None = None


class JudgeCheck(Telling):
    """The result of a check; `ratings` are the current ones.

    `recorded`: there were no stored ratings of these anchors, so the current ones are the reference for the next check.
    """

    verdict: Literal["steady", "moved", "recorded"]
    detail: Sentence
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
