"""`JobQueue` on SAQ over Redis, shared by all processes.

For SAQ a job is finished as soon as a worker has it. From then on its lease in the store counts, so a worker that dies
blocks nothing here, and the sweep's put reaches another worker at once. While a job waits, SAQ's key prevents a second
put from doubling it. If a worker dies during the handover of a millisecond or two, the job is delivered again within
twice `QUEUE_SWEEP_SECONDS`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar, cast

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import RedisError, ResponseError
from saq.job import Job as SAQJob
from saq.queue.redis import RedisQueue
from saq.types import PartialTimersDict
from saq.worker import Worker

from saiten_server.platform.tasks import cancel_for_good
from saiten_server.runs.work import ChunkJob, Handler, QueueUnavailable, TaskPool

logger = logging.getLogger("saiten.queue")

T = TypeVar("T")

QUEUE_NAME = "saiten"
HAND_OVER = "hand_over"

COMMAND_SECONDS = 2.0
"""For one command, and for all of a `put`."""

DEQUEUE_WAIT_SECONDS = 1.0
"""How long Redis is asked to wait for a job: less than a command may take, so that a hung Redis is noticed."""

WRITABLE = "saiten:writable"
"""A key that is written only to see whether Redis takes anything."""

QUEUE_SWEEP_SECONDS = 5
TIMERS: PartialTimersDict = {"schedule": 60, "worker_info": 30, "sweep": QUEUE_SWEEP_SECONDS, "abort": 60}
"""Seconds. Nothing is scheduled for later here, and nothing aborted."""

BACKOFF_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Between tries while Redis is gone; the last one for good."""


class SAQJobQueue:
    """Jobs carry a batch's id and a chunk's number."""

    def __init__(self, redis_url: str) -> None:
        logging.getLogger("saq").addFilter(ONLY_ERRORS)
        self._redis: Redis = Redis.from_url(
            redis_url,
            socket_timeout=COMMAND_SECONDS,
            socket_connect_timeout=COMMAND_SECONDS / 2,
            # Once and at once: a connection of the pool may have died with an earlier Redis.
            retry=Retry(NoBackoff(), 1, supported_errors=(Disconnected,)),
        )
        self._queue = _Queue(self._redis, name=QUEUE_NAME)

    async def put(self, jobs: Sequence[ChunkJob]) -> None:
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                # One after the other, which keeps their order; they are few, since only a window of a batch waits.
                for job in jobs:
                    content = {"batch": job.batch, "chunk": job.chunk}
                    # It leaves nothing in Redis once it is handed over.
                    saq_job = SAQJob(HAND_OVER, content, key=f"{job.batch}:{job.chunk}", timeout=0, ttl=-1)
                    await self._queue.enqueue(saq_job)
        except (RedisError, OSError) as error:
            raise unavailable(error) from None

    async def work(self, handler: Handler, concurrency: int) -> None:
        pool = TaskPool(handler, concurrency)
        worker = _Worker(self._queue, pool)
        serving = asyncio.create_task(worker.start())
        try:
            await asyncio.shield(serving)
        finally:
            await cancel_for_good([serving])
            try:
                await self.put(await pool.stop())
            except QueueUnavailable as error:
                logger.warning("jobs are left to the sweep: %s", error, extra={"code": error.code})

    async def depth(self) -> int:
        try:
            async with asyncio.timeout(COMMAND_SECONDS):
                # A Redis that is full, or a replica, still counts but takes no job.
                await self._redis.set(WRITABLE, b"", ex=QUEUE_SWEEP_SECONDS)
                return await self._queue.count("queued")
        except (RedisError, OSError) as error:
            raise unavailable(error) from None

    async def close(self) -> None:
        await self._redis.aclose()


class _Queue(RedisQueue):
    """SAQ's queue with a sweep that does not disturb handovers: SAQ's own aborts each that it meets between two steps,
    and then the key cannot be put for seconds."""

    def __init__(self, redis: Redis, name: str) -> None:
        super().__init__(redis, name)
        self._handovers: set[bytes] = set()
        self._outage = Outage()

    async def dequeue(
        self,
        timeout: float = 0.0,  # noqa: ASYNC109 - SAQ's signature
        poll_interval: float = 0.0,
    ) -> SAQJob | None:
        # Here, since SAQ's worker drops an error of this call and asks again at once.
        return await self._outage.watch(super().dequeue(timeout, poll_interval))

    async def sweep(self, lock: int = 60, abort: float = 5.0) -> list[str]:
        """Delivers again what was in a handover at the last sweep and still is: its worker died."""
        handed_over = self.namespace("active")
        active = set(await cast("Awaitable[list[bytes]]", self.redis.lrange(handed_over, 0, -1)))
        stuck, self._handovers = active & self._handovers, active - self._handovers
        for job_id in stuck:
            job = await self.job(self.job_key_from_id(job_id.decode()))
            if job is not None:
                await self.retry(job, "its worker died")
            else:
                await cast("Awaitable[int]", self.redis.lrem(handed_over, 0, job_id.decode()))
        return [job_id.decode() for job_id in stuck]


class _Worker(Worker[Any]):
    """SAQ's worker, handing over one job at a time to a pool, in this event loop and without signal handlers."""

    def __init__(self, queue: RedisQueue, pool: TaskPool) -> None:
        super().__init__(
            queue, [(HAND_OVER, self._hand_over)], concurrency=1, dequeue_timeout=DEQUEUE_WAIT_SECONDS, timers=TIMERS
        )
        self.SIGNALS = []
        self._pool = pool
        self._handed: ChunkJob | None = None

    async def process(self) -> bool:
        await self._pool.wait_for_place()
        done = False
        # The next call for a job meets the same outage, and tells of it.
        with suppress(RedisError, OSError):
            done = await super().process()
        # Not before SAQ is done with it: a put while the handler runs must not be taken for one of a job that waits.
        if self._handed is not None:
            self._pool.take(self._handed)
            self._handed = None
        return done

    async def _hand_over(self, _context: Any, *, batch: str, chunk: int) -> None:
        self._handed = ChunkJob(batch, chunk)


class Outage:
    """Logs once that Redis is gone, and once that it is back, and waits in between."""

    def __init__(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._sleep = sleep
        self._failures = 0

    async def watch(self, call: Awaitable[T]) -> T | None:
        """What the call returns; None, after a pause, if Redis cannot be reached."""
        try:
            done = await call
        except (RedisError, OSError) as error:
            if self._failures == 0:
                logger.warning("jobs wait: %s", unavailable(error), extra={"code": QueueUnavailable.code})
            pause_seconds = BACKOFF_SECONDS[min(self._failures, len(BACKOFF_SECONDS) - 1)]
            self._failures += 1
            await self._sleep(pause_seconds)
            return None
        if self._failures:
            logger.info("the queue is back")
            self._failures = 0
        return done


class OnlyErrors(logging.Filter):
    """Drops what SAQ logs about every job, and its tracebacks of outages, which are logged already."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return record.levelno >= logging.ERROR and not isinstance(error, RedisError | OSError)


ONLY_ERRORS = OnlyErrors()


def unavailable(error: Exception) -> QueueUnavailable:
    """The error in one sentence, without the URL, which may hold a password."""
    name = type(error).__name__
    if isinstance(error, ResponseError):
        return QueueUnavailable(f"Redis refuses commands ({name}); check its memory, and that it is the primary")
    return QueueUnavailable(f"Redis cannot be reached ({name}); check REDIS_URL and that it runs")
