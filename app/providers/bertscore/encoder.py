"""BERTScore without idf and rescaling, equal to the `bert-score` package asked about each pair alone.

Encoders are loaded by name or folder and shared by all requests. Loading may take minutes, so it happens in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any, Literal, Protocol, TypeVar

from saiten.core.messages import Message
from saiten_server.providers.bertscore.similarity import LoadedEncoder, Tokenizing, find_max_tokens, limit_passes
from saiten_server.providers.huggingface import ModelChoice, ModelKind, ModelSource, Worker, loading
from saiten_server.providers.ports import EncoderUnavailable, Similarity

Precision = Literal["float32", "bfloat16"]

ENCODER = ModelKind(
    Message("noun-encoder"),
    Message("purpose-similarity"),
    ("torch", "transformers", "bert_score"),
    EncoderUnavailable,
)
logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class EncoderChoice(ModelChoice):
    """`layer` None takes bert-score's for that name, else the last; `max_batch_tokens` None what suits the device. In
    bfloat16, similarities differ from bert-score's and depend in the third digit on the batch."""

    layer: int | None = None
    max_batch_tokens: int | None = None
    precision: Precision = "float32"


# bert-score's own choices. Its table can only be read by importing PyTorch, which takes seconds: too long where the
# encoder then turns out not to be there.
DEFAULT_MODELS = {"en": "roberta-large", "zh": "bert-base-chinese", "tr": "dbmdz/bert-base-turkish-cased"}
OTHER_DEFAULT = "bert-base-multilingual-cased"


def choose_default(language: str) -> str:
    """The encoder that bert-score takes for the language (BCP 47; the subtags after the first do not count)."""
    ENCODER.require_installed()
    return DEFAULT_MODELS.get(language.lower().split("-")[0], OTHER_DEFAULT)


def identify(name: str, layer: int, revision: str, tokenizer: Any, precision: str = "float32") -> str:
    """The identity in the format of bert-score's `get_hash`, with the files' revision, MeCab's dictionary if used, and
    the precision if it differs from bert-score's. Only the last part of a local folder's path is shown."""
    shown = re.sub(r"[^\w./-]", "_", Path(name).name if Path(name).expanduser().is_dir() else name)
    library = f"version={version('bert-score')}(hug_trans={version('transformers')})"
    suffix = "" if precision == "float32" else f"_{precision}"
    return f"{shown}_L{layer}_no-idf_{library}_rev={revision}{_identify_dictionary(tokenizer)}{suffix}"


def _identify_dictionary(tokenizer: Any) -> str:
    if getattr(tokenizer, "word_tokenizer_type", None) != "mecab":
        return ""
    dictionary = (getattr(tokenizer, "mecab_kwargs", None) or {}).get("mecab_dic", "unidic_lite")
    return "_mecab=system" if dictionary is None else f"_mecab={dictionary}-{version(dictionary)}"


def choose_layer(name: str, layer: int | None, config: Any) -> int:
    """The asked layer; else bert-score's for that name (of a folder: for its last part); else the last. Raises
    EncoderUnavailable if the asked layer is not in [0, number of layers]."""
    from bert_score.utils import model2layers

    last = int(config.num_hidden_layers)
    if layer is not None:
        if not 0 <= layer <= last:
            raise EncoderUnavailable(Message("encoder-layer", name=Path(name).name, last=last, layer=layer))
        return layer
    by_last_part = {known.rsplit("/", 1)[-1]: number for known, number in model2layers.items()}
    return min(int(model2layers.get(name, by_last_part.get(Path(name).name, last))), last)


def cut_layers(model: Any, layers: int) -> Any:
    """The model, or its encoder half, without the layers after the first `layers` and in evaluation mode. Raises
    EncoderUnavailable for a family of encoders that bert-score does not know."""
    model = model.eval()
    if hasattr(model, "decoder") and hasattr(model, "encoder"):
        model = model.encoder
    inner: Any = getattr(model, "encoder", getattr(model, "transformer", None))
    if hasattr(model, "n_layers"):  # XLM
        model.n_layers = layers
    elif hasattr(inner, "albert_layer_groups"):
        inner.config.num_hidden_layers = layers
    else:
        # In this order XLNet; T5; BERT and DistilBERT; BART and ModernBERT.
        places = ((model, "layer"), (inner, "block"), (inner, "layer"), (model, "layers"))
        found = next(((owner, name) for owner, name in places if hasattr(owner, name)), None)
        if found is None:
            raise EncoderUnavailable(Message("encoder-unknown-family", name=type(model).__name__))
        setattr(*found, getattr(*found)[:layers])
    return model


def load_encoder(choice: EncoderChoice, clock: Callable[[], float] = time.monotonic) -> LoadedEncoder:
    """Loads tokenizer and weights, cut after the layer, and tries them. Code that comes with an encoder is never run.
    Raises EncoderUnavailable if the extra is not installed, the folder broken, the hub or the layer out of reach."""
    with loading(ENCODER, choice) as (source, device):
        import torch
        from transformers import AutoConfig, AutoTokenizer

        config = AutoConfig.from_pretrained(**source.arguments)
        tokenizer = AutoTokenizer.from_pretrained(**source.arguments, use_fast=False)  # as bert-score asks for it
        whole, missing = _load_weights(config, source, choice.precision)
        layer = choose_layer(choice.name, choice.layer, config)
        model = cut_layers(whole, layer)
        # transformers fills weights that a checkpoint lacks at random and only warns.
        used = {id(parameter) for parameter in model.parameters()}
        if lacking := sum(id(parameter) in used for parameter in missing):
            raise EncoderUnavailable(Message("encoder-lacks-weights", name=Path(choice.name).name, count=lacking))
        encoder = LoadedEncoder(
            model.to(device),
            Tokenizing(tokenizer, find_max_tokens(tokenizer, model)),
            identity=identify(choice.name, layer, source.find_revision(), tokenizer, choice.precision),
            device=device,
            limits=limit_passes(device, torch.get_num_threads(), choice.max_batch_tokens),
            clock=clock,
        )
        if choice.precision == "bfloat16" and device == "cpu":
            logger.warning(
                "encoder %s runs in bfloat16 on a CPU: similarities move in the third digit, and only CPUs with AMX or"
                " AVX-512 BF16 gain from it",
                Path(choice.name).name,
            )
        encoder.compare([("1", "1")])  # an encoder that cannot run is not available
        return encoder


def _load_weights(config: Any, source: ModelSource, precision: Precision) -> tuple[Any, list[Any]]:
    """The whole model and those of its parameters that the checkpoint did not have."""
    import torch
    from transformers import AutoModel, T5EncoderModel

    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}[precision]
    model_class = T5EncoderModel if config.model_type in {"t5", "mt5"} else AutoModel
    model, report = model_class.from_pretrained(**source.arguments, dtype=dtype, output_loading_info=True)
    parameters = dict(model.named_parameters())
    missing = [parameters[key] for key in report["missing_keys"] if key in parameters and "pooler" not in key]
    return model, missing


TextPair = tuple[str, str]
T = TypeVar("T")


class PairComparer(Protocol):
    """A loaded encoder, used from one thread. `compare` raises EncoderUnavailable. `forget` removes expired cache
    entries, and returns the seconds until the next one expires, None if the cache is empty."""

    @property
    def identity(self) -> str: ...
    def compare(self, pairs: Sequence[TextPair]) -> list[Similarity]: ...
    def forget(self) -> float | None: ...


@dataclass(frozen=True)
class _Call:
    pairs: list[TextPair]
    answer: asyncio.Future[list[Similarity]]


@dataclass(eq=False, repr=False)
class SharedEncoder:
    """Calls `load` in its own thread at the first use, and encodes there. Calls that arrive while the thread is busy
    are then run together in order of arrival, up to `max_run_pairs` pairs; a larger call runs alone. A cancelled call
    is dropped without affecting the others. A failed load is remembered for `retry_after_seconds`, so that requests do
    not wait for a hub that is down."""

    load: Callable[[], PairComparer]
    max_run_pairs: int
    retry_after_seconds: float
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._worker = Worker("bertscore", lambda: None if (loaded := self._loaded) is None else loaded.forget())
        self._waiting: deque[_Call] = deque()
        self._drain: asyncio.Task[None] | None = None
        self._closed = False
        self._loaded: PairComparer | None = None
        self._failure: tuple[Message, float] | None = None

    async def identify(self) -> str:
        self._refuse_early()
        if self._loaded is None:
            return (await self._worker.submit(self._ensure_loaded)).identity
        return self._loaded.identity

    async def compare(self, pairs: Sequence[TextPair]) -> list[Similarity]:
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
                call.answer.set_exception(EncoderUnavailable(Message("encoder-closed")))
        await self._worker.stop()
        self._loaded = None  # also frees its caches, which no later job would expire

    def _refuse_early(self) -> None:
        if self._closed:
            raise EncoderUnavailable(Message("encoder-closed"))
        if self._failure is not None and self.clock() < self._failure[1]:
            raise EncoderUnavailable(self._failure[0])

    async def _answer_waiting(self) -> None:
        while calls := self._take():
            running = self._worker.submit(partial(self._run, [call.pairs for call in calls]))
            await asyncio.wait([running])
            error = running.exception()
            outcomes = [error] * len(calls) if error else running.result()
            for call, outcome in zip(calls, outcomes, strict=True):
                if call.answer.done():
                    continue
                if isinstance(outcome, BaseException):
                    call.answer.set_exception(outcome)
                else:
                    call.answer.set_result(outcome)

    def _take(self) -> list[_Call]:
        calls: list[_Call] = []
        count = 0
        while self._waiting:
            if self._waiting[0].answer.done():
                self._waiting.popleft()
                continue
            count += len(self._waiting[0].pairs)
            if calls and count > self.max_run_pairs:
                break
            calls.append(self._waiting.popleft())
        return calls

    def _run(self, calls: list[list[TextPair]]) -> list[list[Similarity] | EncoderUnavailable]:
        try:
            comparer = self._ensure_loaded()
            similarities = comparer.compare([pair for pairs in calls for pair in pairs])
        except EncoderUnavailable as error:
            if self._loaded is not None and len(calls) > 1:
                # One call's text must not cost the others theirs.
                return [self._run([pairs])[0] for pairs in calls]
            return [EncoderUnavailable(error.message) for _ in calls]
        ordered = iter(similarities)
        return [[next(ordered) for _ in pairs] for pairs in calls]

    def _ensure_loaded(self) -> PairComparer:
        self._refuse_early()
        if self._loaded is None:
            try:
                self._loaded = self.load()
            except EncoderUnavailable as error:
                self._failure = (error.message, self.clock() + self.retry_after_seconds)
                raise
            self._failure = None
        return self._loaded


@dataclass(eq=False, repr=False, kw_only=True)
class BertScoreEncoder:
    """Implements `Encoder`. Nothing is loaded before the first use, and requests share one model per encoder name.

    `encoders` are names or folders by language (BCP 47; "ko-KR" falls back to "ko"), and `encoder` is that of all other
    languages; None takes bert-score's default for the language. `layers` are by name or folder. The parameters of
    `EncoderChoice` apply to all encoders. `max_batch_tokens` of one forward pass include padding. `max_run_pairs`
    waiting pairs are taken together. `timeout_seconds` limits how long a request waits, for loading and for others'
    texts too; a load that takes longer goes on, and serves later requests. A failed load is remembered for
    `retry_after_seconds`. `load` runs in the encoder's own thread, and `clock` tells monotonic seconds."""

    encoders: Mapping[str, str] | None = None
    encoder: str | None = None
    layers: Mapping[str, int] | None = None
    device: str | None = None
    precision: Precision = "float32"
    threads: int | None = None
    max_batch_tokens: int | None = None
    max_run_pairs: int = 256
    timeout_seconds: float | None = 60.0
    retry_after_seconds: float = 60.0
    hub_timeout_seconds: float = 10.0
    load: Callable[[EncoderChoice], PairComparer] = load_encoder
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._by_language = {language.lower(): name for language, name in (self.encoders or {}).items()}
        self._loading = Lock()
        self._shared: dict[str, SharedEncoder] = {}
        self._closed = False

    async def identify(self, language: str) -> str:
        return await self._in_time(self._find(language).identify())

    async def compare(self, language: str, pairs: Sequence[tuple[str, str]]) -> list[Similarity]:
        return await self._in_time(self._find(language).compare(pairs))

    async def close(self) -> None:
        self._closed = True
        await asyncio.gather(*(shared.close() for shared in self._shared.values()))

    def _find(self, language: str) -> SharedEncoder:
        if self._closed:
            raise EncoderUnavailable(Message("encoder-closed"))
        language = language.lower()
        known = self._by_language
        name = known.get(language) or known.get(language.partition("-")[0]) or self.encoder
        name = choose_default(language) if name is None else name
        if name not in self._shared:
            choice = EncoderChoice(
                name=name,
                device=self.device,
                threads=self.threads,
                hub_timeout_seconds=self.hub_timeout_seconds,
                layer=(self.layers or {}).get(name),
                max_batch_tokens=self.max_batch_tokens,
                precision=self.precision,
            )
            load = partial(self._load_alone, choice)
            self._shared[name] = SharedEncoder(load, self.max_run_pairs, self.retry_after_seconds, self.clock)
        return self._shared[name]

    def _load_alone(self, choice: EncoderChoice) -> PairComparer:
        with self._loading:  # transformers sets process-wide defaults while it loads
            return self.load(choice)

    async def _in_time(self, asked: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self.timeout_seconds):
                return await asked
        except TimeoutError as error:
            detail = Message("encoder-loading", seconds=self.timeout_seconds)
            raise EncoderUnavailable(detail) from error
