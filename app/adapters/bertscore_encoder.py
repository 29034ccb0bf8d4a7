"""BERTScore without idf and rescaling, equal to the `bert-score` package asked about each pair alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock

from app.adapters.bertscore.loading import ENCODER, EncoderChoice, Precision, choose_default, load_encoder
from app.adapters.bertscore.sharing import PairComparer, SharedEncoder
from app.adapters.huggingface.worker import Worker
from app.ports import EncoderUnavailable, Similarity


class BertScoreEncoder:
    """Fills the port `Encoder`. Nothing is loaded before the first use; requests share one model an encoder name.

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
        self._chooser = Worker("bertscore-defaults")
        self._defaults: dict[str, str] = {}
        self._shared: dict[str, SharedEncoder] = {}
        self._closed = False

    async def identify(self, language: str) -> str:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await (await self._find(language)).identify()
        except TimeoutError as error:
            raise self._explain_timeout() from error

    async def compare(self, language: str, pairs: Sequence[tuple[str, str]]) -> list[Similarity]:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await (await self._find(language)).compare(pairs)
        except TimeoutError as error:
            raise self._explain_timeout() from error

    async def close(self) -> None:
        self._closed = True
        closing = [shared.close() for shared in self._shared.values()]
        await asyncio.gather(self._chooser.stop(), *closing)

    async def _find(self, language: str) -> SharedEncoder:
        if self._closed:
            raise EncoderUnavailable("the encoder is closed")
        name = await self._choose(language.lower())
        if name not in self._shared:
            self._shared[name] = self._share(name)
        return self._shared[name]

    async def _choose(self, language: str) -> str:
        primary = language.partition("-")[0]
        name = self._encoders.get(language) or self._encoders.get(primary) or self._encoder
        if name is not None:
            return name
        if language not in self._defaults:
            ENCODER.require_installed()
            # Importing bert-score takes seconds.
            self._defaults[language] = await self._chooser.submit(partial(choose_default, language))
        return self._defaults[language]

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
