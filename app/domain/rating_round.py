"""A round of human ratings: the responses that raters are given, how often each, and the progress."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.domain.batch import BatchName
from app.domain.dialogue import Utterance
from app.domain.model import Value
from app.domain.rubric import Rubric

ABANDONED_SECONDS = 1800.0
"""Time after which an unrated response may be given to another rater."""

MOST_ITEMS = 2000


class RoundOptions(Value):
    """The options of a round. The responses are drawn from the batch's scored results, shuffled by `seed`."""

    name: BatchName
    items: Annotated[int, Field(ge=1, le=MOST_ITEMS)] = Field(default=100, description="responses to be rated, at most")
    raters_per_item: Annotated[int, Field(ge=1, le=100)] = Field(default=3, description="raters that a response gets")
    items_per_rater: Annotated[int, Field(ge=1, le=MOST_ITEMS)] | None = Field(
        default=None, description="responses that one rater gets at most; null: as many as there are"
    )
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0


class RatingRound(Value):
    """The current state of a round. `drawn` is the number of its responses; `closed_at` is null while it is open."""

    id: str
    batch: str
    options: RoundOptions
    drawn: int
    created_at: Annotated[datetime, Field(strict=False)]
    closed_at: Annotated[datetime | None, Field(strict=False)] = None

    @property
    def most_per_rater(self) -> int:
        """The most responses that one rater gets."""
        limit = self.options.items_per_rater
        return self.drawn if limit is None else min(self.drawn, limit)


class RoundProgress(Value):
    """How far a round is: `ratings` of `wanted` (drawn × raters_per_item), and `complete` responses with all raters.

    `raters` counts the rated responses by rater, 0 for one who rated none of those given. A late rating beyond
    `raters_per_item` counts only there.
    """

    ratings: int
    wanted: int
    complete: int
    raters: dict[str, int]


class Task(Value):
    """One response given to one rater; `position` is its place in the batch.

    `number` counts the rater's responses from 0, and `of` is the most that the rater will get.
    """

    number: int
    of: int
    position: int
    done: bool


class OwnRating(Value):
    """A rater's earlier rating of a response: values by aspect, and the comment."""

    ratings: dict[str, float]
    comment: str | None = None


class RatingSheet(Value):
    """Everything that a rater may see of a response: no ratings by the judge or other raters, no item id, no system.

    `earlier` is the rater's own rating, null before there is one.
    """

    task: Task
    context: tuple[Utterance, ...]
    response: str
    rubric: Rubric
    earlier: OwnRating | None = None


def own_order(seed: int, rater: str, number: int) -> bytes:
    """A sort key that gives each rater an order of their own, the same on every machine."""
    return hashlib.sha256(f"{seed}\n{rater}\n{number}".encode()).digest()
