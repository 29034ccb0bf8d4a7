"""A round of human ratings: which responses of a batch people are asked for, how often, and how far they are."""

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
"""After how long a response that a rater was given and did not rate may go to another."""


MOST_ITEMS = 2000


class RoundOptions(Value):
    """What is set when a round begins. The responses are drawn from the batch's scored results, shuffled by `seed`."""

    name: BatchName
    items: Annotated[int, Field(ge=1, le=MOST_ITEMS)] = Field(default=100, description="responses to be rated, at most")
    raters_per_item: Annotated[int, Field(ge=1, le=100)] = Field(default=3, description="raters that a response gets")
    items_per_rater: Annotated[int, Field(ge=1, le=MOST_ITEMS)] | None = Field(
        default=None, description="responses that one rater gets at most; null: as many as there are"
    )
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0


class RatingRound(Value):
    """A round as it stands. `drawn` is how many responses it has; `closed_at` is null while raters are let in."""

    id: str
    batch: str
    options: RoundOptions
    drawn: int
    created_at: Annotated[datetime, Field(strict=False)]
    closed_at: Annotated[datetime | None, Field(strict=False)] = None

    @property
    def most_per_rater(self) -> int:
        """How many responses one rater gets at most."""
        limit = self.options.items_per_rater
        return self.drawn if limit is None else min(self.drawn, limit)


class RoundProgress(Value):
    """`ratings` of `wanted` (drawn × raters_per_item) are done; `complete` responses have all their raters.

    `raters` counts, by name, the responses that each has rated: 0 of one who was given a response and rated none. A
    rating beyond `raters_per_item`, of a rater who came back late, counts there alone.
    """

    ratings: int
    wanted: int
    complete: int
    raters: dict[str, int]


class Task(Value):
    """One response that one rater was given. `number` counts the rater's responses from 0, `of` how many the rater
    will get at most; `position` is the response's place in the batch."""

    number: int
    of: int
    position: int
    done: bool


class OwnRating(Value):
    """What a rater said of a response before: values by aspect, and the comment."""

    ratings: dict[str, float]
    comment: str | None = None


class RatingSheet(Value):
    """All that a rater may see of a response. Nothing in it tells the judge's ratings, another rater's, the item or
    what produced the response; `earlier` is the rater's own rating, null before there is one."""

    task: Task
    context: tuple[Utterance, ...]
    response: str
    rubric: Rubric
    earlier: OwnRating | None = None


def own_order(seed: int, rater: str, number: int) -> bytes:
    """Sorts the responses of a round, by their numbers, into the rater's own order: the same on every machine."""
    return hashlib.sha256(f"{seed}\n{rater}\n{number}".encode()).digest()
