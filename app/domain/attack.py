"""A corpus of attacks on a judge: a dialogue that tries to move its own score, beside its clean twin."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from app.domain.batch import ItemId
from app.domain.model import Id, Value, listed

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
