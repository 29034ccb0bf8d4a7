"""The job queue, which tells workers that there is work, and how many candidates may wait in it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.errors import Overloaded, QueueLimitReached
from app.domain.work import ChunkJob
from app.storage.queue import JobQueue, QueueUnavailable

logger = logging.getLogger("saiten.batches")


async def enqueue(queue: JobQueue, jobs: Sequence[ChunkJob]) -> None:
    """Puts jobs on the queue. Where it is away they are left for a sweep, which finds every job that was lost."""
    if not jobs:
        return
    try:
        await queue.put(jobs)
    except QueueUnavailable as error:
        logger.warning("jobs wait for the queue: %s", error, extra={"code": error.code})


RETRY_SECONDS = 30.0
"""When to try again. The batches in front take minutes, so trying more often gains nothing."""


@dataclass(frozen=True)
class QueueLimits:
    """The most candidates without a result in batches that are queued or running: of all projects together, and of each
    project. None is no limit.

    They are counted before a batch is accepted or resumed; batches that arrive together do not see each other.
    """

    all_projects: int | None = None
    project: int | None = None

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit."""
        return self.all_projects is not None or self.project is not None

    def require_room(self, waiting: tuple[int, int], candidates: int, *, resumed: bool = False) -> None:
        """Raises QueueLimitReached or Overloaded if there is no room for the new candidates, or, with `resumed`, for
        those that a paused batch has left. `waiting` are the candidates of all projects, and of the caller's."""
        all_projects, own = waiting
        if self.project is not None and own + candidates > self.project:
            detail = (
                f"{own} candidates of the project wait already, these are {candidates}, and {self.project} may wait"
            )
            raise QueueLimitReached(
                advise(detail, candidates, self.project, resumed=resumed), retry_after_seconds=RETRY_SECONDS
            )
        if self.all_projects is not None and all_projects + candidates > self.all_projects:
            # The caller must not learn how many candidates other projects have waiting.
            detail = f"with these {candidates} candidates more than {self.all_projects} would wait for the service"
            raise Overloaded(
                advise(detail, candidates, self.all_projects, resumed=resumed), retry_after_seconds=RETRY_SECONDS
            )


def advise(detail: str, candidates: int, most: int, *, resumed: bool = False) -> str:
    """The detail with advice: a batch larger than the limit is never accepted, however long the caller waits."""
    if resumed:
        what = "have the limit raised" if candidates > most else "resume the batch when some are done"
    else:
        what = "send smaller batches" if candidates > most else "send the batch again when some are done"
    return f"{detail}; {what}"
