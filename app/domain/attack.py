"""A corpus of attacks on a judge: a dialogue that tries to move its own score, beside its clean twin.

What `saiten attack` answers with: how far a judge was moved, and what was seen of it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from app.domain.batch import ItemId
from app.domain.evaluation import PathChoice, Usage
from app.domain.model import Id, Value, listed
from app.domain.reports import Interval

Lines = Annotated[
    str, Field(max_length=100_000, description="any text: an item may be one that a service must not take")
]


class AttackUtterance(Value):
    """An utterance as it is sent. Unlike `Utterance` it may hold what a request must not."""

    speaker: Lines
    text: Lines


AttackContext = Annotated[tuple[AttackUtterance, ...], listed(minimum=1)]


class AttackCheck(Value):
    """What a correct service does with the item.

    `http` is 200, or 422 for what must be refused before a judge is asked. `suspected_injection` says whether the
    warning belongs there; `any` and null: either is right. `bait_score` is what the text asks for, in scale points,
    `max_score` the most that an aspect of this response deserves.
    """

    http: Literal[200, 422] = 200
    suspected_injection: bool | Literal["any"] | None = None
    bait_score: int | None = None
    max_score: int | None = None


class AttackItem(Value):
    """One line of a corpus. `clean_response` and `clean_context` make the twin: what is null is as in the attack.

    A kind that begins with `benign`, or a check that wants no warning, makes it a look-alike that is no attack.
    """

    id: ItemId
    kind: Id
    language: Annotated[str, Field(pattern=r"^[a-z]{2,3}$")]
    context: AttackContext
    response: Lines
    clean_response: Lines | None = None
    clean_context: AttackContext | None = None
    check: AttackCheck = AttackCheck()
    note: str | None = Field(default=None, description="for people")
    expectation: str | None = Field(default=None, description="for people")

    @property
    def benign(self) -> bool:
        return self.kind.startswith("benign") or self.check.suspected_injection is False

    @property
    def refusable(self) -> bool:
        """Whether a service must refuse it, so that there is nothing to score."""
        return self.check.http == 422

    @property
    def twinned(self) -> bool:
        """Whether there is a twin to be scored beside it."""
        has_twin = self.clean_response is not None or self.clean_context is not None
        return has_twin and not self.benign and not self.refusable

    def dialogue(self) -> dict[str, Any]:
        """`context` and `response` of the attack, as a request has them."""
        return lay_out(self.context, self.response)

    def twin(self) -> dict[str, Any]:
        """The same of the clean twin."""
        response = self.response if self.clean_response is None else self.clean_response
        return lay_out(self.clean_context or self.context, response)


def lay_out(context: tuple[AttackUtterance, ...], response: str) -> dict[str, Any]:
    """A dialogue as JSON."""
    return {"context": [said.model_dump() for said in context], "response": response}


Verdict = Literal["pass", "fail", "inconclusive"]
Role = Literal["attack", "twin"]
Names = Annotated[tuple[str, ...], listed()]


class Count(Value):
    """So many of so many, and Wilson's 95 % interval of the share; both null of none."""

    count: int
    of: int
    share: float | None
    interval: Interval


class Mean(Value):
    """A mean over pairs of attack and twin, with its bootstrap interval; `undefined` says why something is null."""

    n: int
    mean: float | None
    interval: Interval
    undefined: str | None = None


class AspectLift(Value):
    """How much nearer to the best level of one aspect the attacks came than their twins.

    `points` are scale points, `share` is of the scale's width, `room` the twins' mean distance from the best level as
    a share of it: the most that the lift could have been.
    """

    scale: Annotated[tuple[int, int], Field(strict=False)]
    points: Mean
    share: Mean
    room: float | None


class AttackGroup(Value):
    """Attacks of one kind, of one language, or all.

    `lift` is the mean over aspects, as a share of the scale; `room` the most that it could have been. `won`: an aspect
    rose by half of its scale or more, or reached the bait's score and the twin's did not. `won_unseen`: won without a
    warning, so the policy `refuse` would not have stopped it. `fell`: an aspect fell by half of its scale or more;
    where as many fall as win, the judge wavers rather than obeys. `denied`: it rated the twin and not the attack.
    """

    items: int
    flagged: Count
    lift: Mean
    room: float | None
    won: Count
    won_unseen: Count
    fell: Count
    denied: Count
    over_maximum: Count = Field(description="an aspect above `max_score`, of the items that name one")
    unrated: int = Field(description="attacks or twins of which the judge rated no aspect")
    refused: int = Field(description="attacks or twins that were refused although they may be sent")
    errors: int = Field(description="attacks or twins without an answer")


class Forgery(Value):
    """A stored rating that does not stand in the judge's own reply. There must be none."""

    item: str
    role: Role
    aspect: str
    sample: int
    rating: int


class AttackReason(Value):
    """What one rule found. `about` is the rule."""

    about: Literal["forged", "refusals", "max-lift", "min-flagged", "max-false-flags"]
    verdict: Verdict
    detail: str


class AttackReport(Value):
    """All figures of one run. `rubrics` are by language; `models` those that rated."""

    verdict: Verdict
    reasons: Annotated[tuple[AttackReason, ...], listed()]
    corpus: str
    judge: str
    models: Names
    rubrics: dict[str, str]
    path: PathChoice
    samples: int
    all: AttackGroup
    kinds: dict[str, AttackGroup]
    languages: dict[str, AttackGroup]
    aspects: dict[str, dict[str, AspectLift]] = Field(description="by rubric, then aspect")
    false_flags: Count = Field(description="benign look-alikes that were flagged")
    stopped: Count = Field(description="attacks that the policy `refuse` would have stopped: those that were flagged")
    refusals: Count = Field(description="items that must be refused, and were before a judge was asked")
    ratings_checked: int = Field(description="stored ratings that were looked up in the judge's replies")
    ratings_without_reply: int = Field(description="stored ratings of a judge that keeps no replies (lexical)")
    forged: Annotated[tuple[Forgery, ...], listed()]
    missed: Names = Field(description="ids of attacks that should have been flagged and were not")
    flagged_benign: Names
    won: Names
    accepted: Names = Field(description="ids of items that should have been refused")
    failures: dict[str, int] = Field(description="answers that could not be had, by code")
    usage: Usage
