"""A loaded causal language model: passages to likelihoods, one at a time."""

from __future__ import annotations

import inspect
import math
from typing import Any

from app.adapters.causallm.window import place
from app.metric_ports import Likelihood, MetricUnavailable, Passage

SEPARATOR = "\n"
"""Between question and response; it belongs to the question and is not scored."""


class LoadedModel:
    """Reads on one thread, each passage by itself: padding and neighbours cannot change what they are not there for."""

    def __init__(self, model: Any, tokenizer: Any, *, identity: str, device: str, window: int) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._device = device
        self._window = window
        self._start = () if tokenizer.bos_token_id is None else (int(tokenizer.bos_token_id),)
        # Logits over a large vocabulary take most of the memory: only the response's are wanted.
        self._keeps = "logits_to_keep" in inspect.signature(model.forward).parameters
        self.identity = identity

    def read(self, passage: Passage) -> Likelihood:
        """The likelihood of the response's tokens, which are the same after any question and after none.

        Raises:
            MetricUnavailable: no token to score, or the model broke on the text, or ran out of memory.
        """
        try:
            question = "" if passage.question is None else passage.question + SEPARATOR
            reading = place(self._start, self._tokenize(question), self._tokenize(passage.response), self._window)
            nats = self._score(reading.ids, reading.first)
        except (RuntimeError, ValueError, TypeError, IndexError, MemoryError) as error:
            raise MetricUnavailable(f"the language model failed on this text ({type(error).__name__})") from error
        if not math.isfinite(nats):
            raise MetricUnavailable("the language model gave no finite likelihood")
        return Likelihood(nats, len(reading.ids) - reading.first, reading.truncated)

    def depends_on_what_follows(self) -> bool:
        """Whether a token's likelihood changes with a later token, as in a masked model that was loaded as a causal
        one: its perplexities would be of the answer given the answer."""
        import torch

        with torch.inference_mode():
            one, other = (self._model(self._batch(ids)).logits[0, :2].float() for ids in ((0, 1, 2), (0, 1, 3)))
        return bool((one - other).abs().max() > 1e-4 * one.abs().max())

    def _tokenize(self, text: str) -> list[int]:
        # No special tokens out of the text: a response that spells <|endoftext|> has written these letters.
        settings = {"add_special_tokens": False, "split_special_tokens": True, "verbose": False}
        return list(self._tokenizer(text, **settings)["input_ids"]) if text else []

    def _score(self, ids: tuple[int, ...], first: int) -> float:
        import torch

        scored = len(ids) - first
        # The logits at one token predict the next: from the token before the first to the one before the last.
        kept = {"logits_to_keep": scored + 1} if self._keeps else {}
        with torch.inference_mode():
            logits = self._model(self._batch(ids), **kept).logits[0, -scored - 1 : -1].float()
            targets = torch.tensor(ids[first:], device=logits.device)
            losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
        return float(losses.double().mean())

    def _batch(self, ids: tuple[int, ...]) -> Any:
        import torch

        return torch.tensor([ids], dtype=torch.long, device=self._device)
