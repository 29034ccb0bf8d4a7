"""BERTScore without idf and rescaling, equal to the `bert-score` package asked about each pair alone."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Protocol

from app.providers.bertscore.loading import EncoderChoice, Precision, choose_default, load_encoder
from app.providers.huggingface import Worker
from app.providers.ports import EncoderUnavailable, Similarity

Pair = tuple[str, str]


class PairComparer(Protocol):
    """A loaded encoder, used from one thread. `compare` raises EncoderUnavailable. `forget` removes expired cache
    entries, and returns the seconds until the next one expires, None if the cache is empty."""

    @property
    def identity(self) -> str: ...

    def compare(self, pairs: Sequence[Pair]) -> list[Similarity]: ...

    def forget(self) -> float | None: ...


@dataclass(frozen=True)
class _Call:
    pairs: list[Pair]
    answer: asyncio.Future[list[Similarity]]


class SharedEncoder:
    """Calls `load` in its own thread at the first use, and encodes there.

    Calls that arrive while the thread is busy are then run together in order of arrival, up to `max_run_pairs` pairs; a
    larger call runs alone. A cancelled call is dropped without affecting the others. A failed load is remembered for
    `retry_after_seconds`, so that requests do not wait for a hub that is down.
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
        self._loaded = None  # also frees its caches, which no later job would expire

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


class BertScoreEncoder:
    """Implements `Encoder`. Nothing is loaded before the first use; requests share one model an encoder name.

    Args:
        encoders: Hugging Face name or local folder by language (BCP 47; "ko-KR" falls back to "ko").
        encoder: the same for any other language; None takes bert-score's default for the language.
        layers: by name or folder as given above; else bert-score's choice for that name, else the last hidden layer.
        device: as PyTorch names it; None takes CUDA where there is one.
        precision: of weights and forward passes; in "bfloat16" similarities are no longer those of bert-score.
        threads: PyTorch's threads, process-wide; None takes PyTorch's number, but no more than the cgroup has cores.
        max_batch_tokens: tokens of one forward pass, padding included; None takes what suits the device.
        max_run_pairs: how many waiting pairs are taken together.
        timeout_seconds: how long a request waits, for loading and for others' texts too; None waits for ever. A load
            that outlasts it goes on, and serves later requests.
        retry_after_seconds: how long a failed load is remembered.
        hub_timeout_seconds: how long the Hugging Face hub may take to say what it has.
        load, clock: what loads an encoder (in its own thread), and what tells monotonic seconds.
    """

    def __init__(
        self,
        *,
        encoders: Mapping[str, str] | None = None,
        encoder: str | None = None,
        layers: Mapping[str, int] | None = None,
        device: str | None = None,
        precision: Precision = "float32",
        threads: int | None = None,
        max_batch_tokens: int | None = None,
        max_run_pairs: int = 256,
        timeout_seconds: float | None = 60.0,
        retry_after_seconds: float = 60.0,
        hub_timeout_seconds: float = 10.0,
        load: Callable[[EncoderChoice], PairComparer] = load_encoder,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._encoders = {language.lower(): name for language, name in (encoders or {}).items()}
        self._encoder = encoder
        self._layers = dict(layers or {})
        self._device = device
        self._precision = precision
        self._threads = threads
        self._max_batch_tokens = max_batch_tokens
        self._max_run_pairs = max_run_pairs
        self._timeout_seconds = timeout_seconds
        self._retry_after_seconds = retry_after_seconds
        self._hub_timeout_seconds = hub_timeout_seconds
        self._load = load
        self._clock = clock
        self._loading = Lock()
        self._shared: dict[str, SharedEncoder] = {}
        self._closed = False

    async def identify(self, language: str) -> str:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._find(language).identify()
        except TimeoutError as error:
            raise self._explain_timeout() from error

    async def compare(self, language: str, pairs: Sequence[tuple[str, str]]) -> list[Similarity]:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._find(language).compare(pairs)
        except TimeoutError as error:
            raise self._explain_timeout() from error

    async def close(self) -> None:
        self._closed = True
        closing = [shared.close() for shared in self._shared.values()]
        await asyncio.gather(*closing)

    def _find(self, language: str) -> SharedEncoder:
        if self._closed:
            raise EncoderUnavailable("the encoder is closed")
        name = self._choose(language.lower())
        if name not in self._shared:
            self._shared[name] = self._share(name)
        return self._shared[name]

    def _choose(self, language: str) -> str:
        primary = language.partition("-")[0]
        named = self._encoders.get(language) or self._encoders.get(primary) or self._encoder
        return choose_default(language) if named is None else named

    def _share(self, name: str) -> SharedEncoder:
        choice = EncoderChoice(
            name=name,
            layer=self._layers.get(name),
            device=self._device,
            threads=self._threads,
            max_batch_tokens=self._max_batch_tokens,
            hub_timeout_seconds=self._hub_timeout_seconds,
            precision=self._precision,
        )
        return SharedEncoder(
            partial(self._load_alone, choice),
            max_run_pairs=self._max_run_pairs,
            retry_after_seconds=self._retry_after_seconds,
            clock=self._clock,
        )

    def _load_alone(self, choice: EncoderChoice) -> PairComparer:
        with self._loading:  # transformers sets process-wide defaults while it loads
            return self._load(choice)

    def _explain_timeout(self) -> EncoderUnavailable:
        return EncoderUnavailable(f"the encoder did not answer within {self._timeout_seconds:g} s; it may be loading")
