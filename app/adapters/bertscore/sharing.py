"""One encoder for all requests: loaded once, and what waits at the same time is encoded together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from app.adapters.huggingface.worker import Worker
from app.ports import EncoderUnavailable, Similarity

Pair = tuple[str, str]


class PairComparer(Protocol):
    """A loaded encoder, used from one thread. `compare` raises EncoderUnavailable where it cannot. `forget` lets go of
    what it kept of texts for too long, and says in how many seconds there will be more; None: it keeps nothing."""

    @property
    def identity(self) -> str: ...

    def compare(self, pairs: Sequence[Pair]) -> list[Similarity]: ...

    def forget(self) -> float | None: ...


@dataclass(frozen=True)
class _Call:
    pairs: list[Pair]
    answer: asyncio.Future[list[Similarity]]


class SharedEncoder:
    """Loads with `load` in its own thread at the first use, and encodes there.

    Calls that arrive while the thread is busy wait, and are then taken together, in order of arrival, up to
    `max_run_pairs` pairs (a larger call runs by itself). A cancelled call is dropped; the others do not notice.
    A failed load is remembered for `retry_after_seconds`, so that no request waits for a hub that is down.
    """

    def __init__(
        self,
        load: Callable[[], PairComparer],
        *,
        max_run_pairs: int,
        retry_after_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._load = load
        self._max_run_pairs = max_run_pairs
        self._retry_after_seconds = retry_after_seconds
        self._clock = clock
        self._worker = Worker("bertscore", self._forget)
        self._waiting: deque[_Call] = deque()
        self._drain: asyncio.Task[None] | None = None
        self._closed = False
        self._loaded: PairComparer | None = None
        self._failure: tuple[str, float] | None = None

    async def identify(self) -> str:
        self._refuse_early()
        if self._loaded is None:
            return (await self._worker.submit(self._ensure_loaded)).identity
        return self._loaded.identity

    async def compare(self, pairs: Sequence[Pair]) -> list[Similarity]:
        self._refuse_early()
        if not pairs:
            return []
        call = _Call(list(pairs), asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        if self._drain is None or self._drain.done():
            self._drain = asyncio.create_task(self._answer_waiting())
        return await call.answer

    async def close(self) -> None:
        """Calls that still wait raise EncoderUnavailable; the one that is running may finish."""
        self._closed = True
        while self._waiting:
            call = self._waiting.popleft()
            if not call.answer.done():
                call.answer.set_exception(EncoderUnavailable("the encoder is closed"))
        await self._worker.stop()
        self._loaded = None  # and with it what it kept of texts: nobody would let go of that any more

    def _refuse_early(self) -> None:
        if self._closed:
            raise EncoderUnavailable("the encoder is closed")
        if self._failure is not None and self._clock() < self._failure[1]:
            raise EncoderUnavailable(self._failure[0])

    async def _answer_waiting(self) -> None:
        while calls := self._take():
            running = self._worker.submit(partial(self._run, [call.pairs for call in calls]))
            await asyncio.wait([running])
            error = running.exception()
            outcomes = [error] * len(calls) if error else running.result()
            for call, outcome in zip(calls, outcomes, strict=True):
                _answer(call, outcome)

    def _take(self) -> list[_Call]:
        calls: list[_Call] = []
        count = 0
        while self._waiting:
            if self._waiting[0].answer.done():
                self._waiting.popleft()
                continue
            count += len(self._waiting[0].pairs)
            if calls and count > self._max_run_pairs:
                break
            calls.append(self._waiting.popleft())
        return calls

    def _run(self, calls: list[list[Pair]]) -> list[list[Similarity] | EncoderUnavailable]:
        try:
            comparer = self._ensure_loaded()
            similarities = comparer.compare([pair for pairs in calls for pair in pairs])
        except EncoderUnavailable as error:
            if self._loaded is not None and len(calls) > 1:
                # One call's text must not cost the others theirs.
                return [self._run([pairs])[0] for pairs in calls]
            return [EncoderUnavailable(str(error)) for _ in calls]
        ordered = iter(similarities)
        return [[next(ordered) for _ in pairs] for pairs in calls]

    def _forget(self) -> float | None:
        loaded = self._loaded
        return None if loaded is None else loaded.forget()

    def _ensure_loaded(self) -> PairComparer:
        self._refuse_early()
        if self._loaded is None:
            try:
                self._loaded = self._load()
            except EncoderUnavailable as error:
                self._failure = (str(error), self._clock() + self._retry_after_seconds)
                raise
            self._failure = None
        return self._loaded


def _answer(call: _Call, outcome: list[Similarity] | BaseException) -> None:
    if call.answer.done():
        return
    if isinstance(outcome, BaseException):
        call.answer.set_exception(outcome)
    else:
        call.answer.set_result(outcome)
