"""What rating rounds need kept, as a role."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from app.domain.rating_round import RatingRound, RoundProgress, Task

ABANDONED_SECONDS = 1800.0
"""After how long a response that a rater was given and did not rate may go to another."""


class RoundStore(Protocol):
    """Rounds of human ratings by project. Raises the `Store…` errors of `app.domain.errors`.

    A round goes with its batch when that is erased. Methods answer with None, or nothing, where the project has no such
    round.
    """

    async def open_round(self, project: str, opened: RatingRound, positions: Sequence[int]) -> None:
        """Keeps the round with the responses' positions, in the shuffled order of the round. Raises NotFound where the
        project has no such batch."""
        ...

    async def find_round(self, project: str, round_id: str) -> RatingRound | None: ...

    async def list_rounds(
        self, project: str, batch_id: str | None = None, *, limit: int = 200
    ) -> builtins.list[RatingRound]:
        """Newest first; of one batch, or of all."""
        ...

    async def close_round(self, project: str, round_id: str, now: datetime) -> RatingRound | None:
        """The round as it is then; one that was closed stays closed since when it was."""
        ...

    async def take(self, project: str, round_id: str, rater: str, now: datetime) -> Task | None:
        """The response that the rater is to rate next: the one that was given and is not done, else a new one. None
        where the rater has had all that may be had, or the round is closed.

        No response is given to more than `raters_per_item` raters at a time, whatever asks at once; one that was given
        `ABANDONED_SECONDS` ago and not rated counts no more. To ask again is to be given it again, unless others have
        filled the place meanwhile: it may still be rated then. The responses that most others rated come first, so that
        they become complete; among equals each rater has an order of their own (`own_order`). Raises InvalidRequest
        where the rater's name cannot be kept.
        """
        ...

    async def tasks(self, project: str, round_id: str, rater: str) -> builtins.list[Task]:
        """Everything the rater was given, in order."""
        ...

    async def finish(self, project: str, round_id: str, rater: str, position: int, now: datetime) -> bool:
        """The rater rated this response, in a closed round too: False where it was not given to the rater."""
        ...

    async def progress(self, project: str, round_ids: Sequence[str]) -> dict[str, RoundProgress]:
        """By round; those that the project has not are left out."""
        ...
