"""Likelihoods by any causal language model that transformers loads, from a local folder or the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from app.adapters.causallm.loading import ModelChoice, load_model
from app.adapters.huggingface.worker import Worker
from app.metric_ports import Likelihood, MetricUnavailable, Passage

CLOSED = "the language model is closed"


class PassageReader(Protocol):
    """A loaded model, used from one thread. `read` raises MetricUnavailable where it cannot."""

    @property
    def identity(self) -> str: ...

    def read(self, passage: Passage) -> Likelihood: ...


class CausalLM:
    """Fills the port `LanguageModel`. It loads at the first use, in a thread of its own, and reads there in order.

    The tokenizer's token for the beginning (BOS) stands before every passage, where it has one. Where it has none, the
    first token of a response without a question is not scored: nothing predicts it. A failed load is remembered.

    Args:
        name: Hugging Face name or local folder.
        device: as PyTorch names it; None takes CUDA where there is one.
        threads: PyTorch's threads, process-wide; None leaves them alone.
        max_tokens: the longest passage, were the model to have more positions; at least 2.
        hub_timeout_seconds: how long the Hugging Face hub may take to say what it has.
        load: what loads a model (in that thread).
    """

    def __init__(
        self,
        name: str,
        *,
        device: str | None = None,
        threads: int | None = None,
        max_tokens: int = 2048,
        hub_timeout_seconds: float = 10.0,
        load: Callable[[ModelChoice], PassageReader] = load_model,
    ) -> None:
        self._choice = ModelChoice(name, device, threads, max_tokens, hub_timeout_seconds)
        self._load = load
        self._worker = Worker("causal-lm")
        self._loaded: PassageReader | None = None
        self._failure: str | None = None
        self._closed = False

    async def identify(self) -> str:
        self._refuse_closed()
        return (await self._worker.submit(self._ensure_loaded)).identity

    async def read(self, passage: Passage) -> Likelihood:
        self._refuse_closed()
        return await self._worker.submit(partial(self._read, passage))

    async def close(self) -> None:
        self._closed = True
        await self._worker.stop()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise MetricUnavailable(CLOSED)

    def _read(self, passage: Passage) -> Likelihood:
        return self._ensure_loaded().read(passage)

    def _ensure_loaded(self) -> PassageReader:
        if self._failure is not None:
            raise MetricUnavailable(self._failure)
        if self._loaded is None:
            try:
                self._loaded = self._load(self._choice)
            except MetricUnavailable as error:
                self._failure = str(error)
                raise
        return self._loaded
