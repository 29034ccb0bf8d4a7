"""Likelihoods by any causal language model that transformers loads, from a local folder or the Hugging Face hub.

PyTorch is imported once a model is loaded. Loading may take minutes: it happens in a thread.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from saiten.core.messages import Message
from saiten_server.providers.huggingface import ModelChoice, ModelKind, ModelSource, Worker, find_window, loading
from saiten_server.providers.ports import Likelihood, MetricUnavailable, Passage

Ids = Sequence[int]


@dataclass(frozen=True)
class TokenWindow:
    """`ids` as the model reads them; those from `first` on are the response's and are scored. `first` is at least 1:
    nothing predicts the first token."""

    ids: tuple[int, ...]
    first: int
    truncated: bool


def fit_window(start: Ids, question: Ids, response: Ids, window: int) -> TokenWindow:
    """Start, question and response in at most `window` tokens. What is too long loses the question's beginning first,
    to the last token, and then the response's end. Raises MetricUnavailable if no token of the response has one before
    it."""
    kept = response[: window - len(start)]
    room = window - len(start) - len(kept)
    asked = question[len(question) - min(room, len(question)) :]
    ids = (*start, *asked, *kept)
    first = max(1, len(start) + len(asked))
    if not kept:
        raise MetricUnavailable(Message("language-model-no-token"))
    if first >= len(ids):
        raise MetricUnavailable(Message("language-model-one-token"))
    return TokenWindow(ids, first, truncated=len(kept) < len(response) or len(asked) < len(question))


SEPARATOR = "\n"  # Between question and response; it belongs to the question and is not scored


@dataclass(eq=False, repr=False)
class LoadedModel:
    """Reads passages one by one on one thread, so that padding and other passages cannot change a likelihood."""

    model: Any
    tokenizer: Any
    _: KW_ONLY
    identity: str
    device: str
    window: int

    def __post_init__(self) -> None:
        begins = self.tokenizer.bos_token_id
        self._start = () if begins is None else (int(begins),)
        # Logits over a large vocabulary take most of the memory: only the response's are wanted.
        self._keeps = "logits_to_keep" in inspect.signature(self.model.forward).parameters

    def read(self, passage: Passage) -> Likelihood:
        """The likelihood of the response's tokens, which are the same after any question and after none. Raises
        MetricUnavailable if there is no token to score, the model broke on the text, or memory ran out."""
        try:
            question = "" if passage.question is None else passage.question + SEPARATOR
            reading = fit_window(self._start, self._tokenize(question), self._tokenize(passage.response), self.window)
            nats = self._score(reading.ids, reading.first)
        except (RuntimeError, ValueError, TypeError, IndexError, MemoryError) as error:
            raise MetricUnavailable(Message("language-model-failed", error=type(error).__name__)) from error
        if not math.isfinite(nats):
            raise MetricUnavailable(Message("language-model-not-finite"))
        return Likelihood(nats, len(reading.ids) - reading.first, reading.truncated)

    def depends_on_what_follows(self) -> bool:
        """Whether a token's likelihood changes with a later token, as in a masked model that was loaded as a causal
        one: its perplexities would be of the answer given the answer."""
        import torch

        with torch.inference_mode():
            one, other = (self.model(self._batch(ids)).logits[0, :2].float() for ids in ((0, 1, 2), (0, 1, 3)))
        return bool((one - other).abs().max() > 1e-4 * one.abs().max())

    def _tokenize(self, text: str) -> list[int]:
        # No special tokens out of the text: a response that spells <|endoftext|> has written these letters.
        settings = {"add_special_tokens": False, "split_special_tokens": True, "verbose": False}
        return list(self.tokenizer(text, **settings)["input_ids"]) if text else []

    def _score(self, ids: tuple[int, ...], first: int) -> float:
        import torch

        scored = len(ids) - first
        # The logits at one token predict the next: from the token before the first to the one before the last.
        kept = {"logits_to_keep": scored + 1} if self._keeps else {}
        with torch.inference_mode():
            logits = self.model(self._batch(ids), **kept).logits[0, -scored - 1 : -1].float()
            targets = torch.tensor(ids[first:], device=logits.device)
            losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
        return float(losses.double().mean())

    def _batch(self, ids: tuple[int, ...]) -> Any:
        import torch

        return torch.tensor([ids], dtype=torch.long, device=self.device)


LANGUAGE_MODEL = ModelKind(
    Message("noun-language-model"), Message("purpose-perplexity"), ("torch", "transformers"), MetricUnavailable
)


@dataclass(frozen=True, kw_only=True)
class LanguageModelChoice(ModelChoice):
    """`max_tokens` bounds the window."""

    max_tokens: int


def load_model(choice: LanguageModelChoice) -> LoadedModel:
    """Loads tokenizer and weights, in float32. Code that comes with a model is never run. Raises MetricUnavailable if
    the extra is not installed, the folder absent or broken, the hub out of reach, or the model not causal."""
    with loading(LANGUAGE_MODEL, choice) as (source, device):
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(**source.arguments)
        model = _load_weights(source)
        window = find_window(model.config, tokenizer, choice.max_tokens)
        loaded = LoadedModel(
            model.eval().to(device),
            tokenizer,
            identity=_identify(source, window, tokenizer),
            device=device,
            window=window,
        )
        if loaded.depends_on_what_follows():
            raise MetricUnavailable(Message("language-model-reads-ahead", name=Path(choice.name).name))
        loaded.read(Passage("1 2"))  # a model that cannot run is not available
        return loaded


def _load_weights(source: ModelSource) -> Any:
    """The model; raises MetricUnavailable where its files lack weights, which transformers would fill at random."""
    import torch
    from transformers import AutoModelForCausalLM

    settings = {"dtype": torch.float32, "output_loading_info": True}
    shown = Path(source.name).name
    model, report = AutoModelForCausalLM.from_pretrained(**source.arguments, **settings)
    parameters = dict(model.named_parameters())  # tied ones once, so that a tied head is not missed
    lacking = [key for key in report["missing_keys"] if key in parameters]
    if lacking:
        raise MetricUnavailable(Message("language-model-lacks-weights", name=shown, count=len(lacking)))
    if model.config.get_text_config().vocab_size < 4:  # as many tokens as the probe for causality needs
        raise MetricUnavailable(Message("language-model-few-tokens", name=shown))
    model.config.use_cache = False  # nothing is generated
    return model


def _identify(source: ModelSource, window: int, tokenizer: Any) -> str:
    """The model's identity. Only the last part of a local folder's path is shown."""
    start = "no-bos" if tokenizer.bos_token_id is None else "bos"
    shown = source.folder.resolve().name if source.folder else source.name
    return f"{shown}_rev={source.find_revision()}_window={window}_{start}_float32_hug_trans={version('transformers')}"


class PassageReader(Protocol):
    """A loaded model, used from one thread. `read` raises MetricUnavailable where it cannot."""

    @property
    def identity(self) -> str: ...
    def read(self, passage: Passage) -> Likelihood: ...


class CausalLM:
    """Implements `LanguageModel`. It loads the model at the first use in its own thread, and reads there in order. The
    tokenizer's token for the beginning (BOS), if it has one, precedes every passage. Without it, the first token of a
    response without a question is not scored, because nothing predicts it. A failed load is remembered. The parameters
    are those of `LanguageModelChoice`; `max_tokens` is at least 2. `load` runs in the thread."""

    def __init__(
        self,
        name: str,
        *,
        device: str | None = None,
        threads: int | None = None,
        max_tokens: int = 2048,
        hub_timeout_seconds: float = 10.0,
        load: Callable[[LanguageModelChoice], PassageReader] = load_model,
    ) -> None:
        self._choice = LanguageModelChoice(
            name=name, device=device, threads=threads, max_tokens=max_tokens, hub_timeout_seconds=hub_timeout_seconds
        )
        self._load = load
        self._worker = Worker("causal-lm")
        self._loaded: PassageReader | None = None
        self._failure: Message | None = None
        self._closed = False

    async def identify(self) -> str:
        self._refuse_closed()
        return (await self._worker.submit(self._ensure_loaded)).identity

    async def read(self, passage: Passage) -> Likelihood:
        self._refuse_closed()
        return await self._worker.submit(lambda: self._ensure_loaded().read(passage))

    async def close(self) -> None:
        self._closed = True
        await self._worker.stop()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise MetricUnavailable(Message("language-model-closed"))

    def _ensure_loaded(self) -> PassageReader:
        if self._failure is not None:
            raise MetricUnavailable(self._failure)
        if self._loaded is None:
            try:
                self._loaded = self._load(self._choice)
            except MetricUnavailable as error:
                self._failure = error.message
                raise
        return self._loaded
