"""A loaded encoder: texts to embeddings, pairs to similarities."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from app.adapters.bertscore.batching import Ids, PassLimits, batch_by_length, slice_pairs
from app.adapters.bertscore.matching import Embedded, match
from app.adapters.bertscore.recent import Recent
from app.adapters.bertscore.tokens import Tokenizing, Tokens
from app.ports import EncoderUnavailable, Similarity

MAX_KEPT_BYTES = 64 << 20
"""Embeddings of recent texts: some 700 texts of 30 tokens at 768 dimensions."""
MAX_KEPT_TOKENS_BYTES = 4 << 20
_BYTES_PER_TOKEN = 40
"""A small integer in a tuple, and a character of the text that it stands for: rather too much than too little."""


class LoadedEncoder:
    """Compares pairs on one thread.

    `max_held_tokens` bounds the embeddings that one run holds at once (one pair at least): 64 MiB at 1,024 dimensions.
    Beside it, what recent texts were encoded to is kept for the next runs, 64 MiB at most and 20 s at longest; `forget`
    lets go of what is older. Both tell one text from another by all that it says, and nothing of it is written down.
    """

    def __init__(
        self,
        model: Any,
        tokenizing: Tokenizing,
        *,
        identity: str,
        device: str,
        limits: PassLimits,
        max_held_tokens: int = 16_384,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._tokenizing = tokenizing
        self._device = device
        self._limits = limits
        self._max_held_tokens = max_held_tokens
        self._tokens: Recent[str, Tokens] = Recent(MAX_KEPT_TOKENS_BYTES, clock)
        self._embedded: Recent[Ids, Embedded] = Recent(MAX_KEPT_BYTES, clock)
        self.identity = identity

    def forget(self) -> float | None:
        """Lets go of what is kept of texts for too long. Seconds until there is more; None where nothing is kept."""
        waits = [wait for wait in (self._tokens.expire(), self._embedded.expire()) if wait is not None]
        return min(waits, default=None)

    def compare(self, pairs: Sequence[tuple[str, str]]) -> list[Similarity]:
        """One similarity a pair, in order. A text without any token has F1 0 with every other.

        Raises:
            EncoderUnavailable: the encoder broke on one of the texts, or ran out of memory.
        """
        try:
            return self._compare(pairs)
        except (RuntimeError, ValueError, TypeError, IndexError, MemoryError) as error:
            raise EncoderUnavailable(f"the encoder failed on this text ({type(error).__name__})") from error

    def _compare(self, pairs: Sequence[tuple[str, str]]) -> list[Similarity]:
        tokens = {text: self._read(text) for text in dict.fromkeys(text for pair in pairs for text in pair)}
        read = [(tokens[reference], tokens[candidate]) for reference, candidate in pairs]
        f1 = [0.0] * len(pairs)
        for numbers in slice_pairs(read, self._max_held_tokens):
            embedded = self._embed({ids for number in numbers for ids in (read[number][0].ids, read[number][1].ids)})
            values = match([(embedded[read[number][0].ids], embedded[read[number][1].ids]) for number in numbers])
            for number, value in zip(numbers, values, strict=True):
                f1[number] = value
        return [
            Similarity(value, one.truncated or other.truncated, max(one.unknown_share, other.unknown_share))
            for value, (one, other) in zip(f1, read, strict=True)
        ]

    def _read(self, text: str) -> Tokens:
        tokens = self._tokens.get(text)
        if tokens is None:
            tokens = self._tokenizing.read(text)
            self._tokens.put(text, tokens, (len(tokens.ids) + len(text)) * _BYTES_PER_TOKEN)
        return tokens

    def _embed(self, texts: Iterable[Ids]) -> dict[Ids, Embedded]:
        import torch

        self.forget()
        recent = {ids: self._embedded.get(ids) for ids in texts}
        embedded = {ids: one for ids, one in recent.items() if one is not None}
        with torch.inference_mode():
            for batch in batch_by_length(recent.keys() - embedded.keys(), self._limits):
                for ids, vectors, weights in zip(batch, *self._encode(batch), strict=True):
                    # Copies, since a view would keep the whole batch.
                    one = Embedded(vectors[: len(ids)].clone(), weights[: len(ids)].clone())
                    embedded[ids] = one
                    self._embedded.put(ids, one, one.vectors.nbytes + len(ids) * _BYTES_PER_TOKEN)
                self.forget()
        return embedded

    def _encode(self, batch: Sequence[Ids]) -> tuple[Any, Any]:
        """Vectors of unit length (texts × longest × dimensions) and weights, on the device; what pads is of no use."""
        import torch

        longest, pad_id = len(batch[0]), self._tokenizing.pad_id
        ids = torch.tensor([[*one, *[pad_id] * (longest - len(one))] for one in batch]).to(self._device)
        lengths = torch.tensor([len(one) for one in batch]).to(self._device)
        mask = (torch.arange(longest, device=ids.device) < lengths.unsqueeze(1)).long()
        vectors = self._model(ids, attention_mask=mask)[0].float()
        unweighted = torch.tensor(sorted(self._tokenizing.unweighted_ids), dtype=torch.long).to(self._device)
        return vectors / vectors.norm(dim=-1, keepdim=True), torch.isin(ids, unweighted, invert=True).float()
