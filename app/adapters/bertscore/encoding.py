"""A loaded encoder: texts to embeddings, pairs to similarities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from app.adapters.bertscore.matching import Embedded, match
from app.adapters.bertscore.tokens import Tokenizing, Tokens
from app.ports import EncoderUnavailable, Similarity

Ids = tuple[int, ...]


class LoadedEncoder:
    """Compares pairs on one thread.

    `max_batch_tokens` bounds a forward pass, padding included (one text at least); `max_held_tokens` the embeddings
    kept at once (one pair at least): 128 MiB at 1,024 dimensions.
    """

    def __init__(
        self,
        model: Any,
        tokenizing: Tokenizing,
        *,
        identity: str,
        device: str,
        max_batch_tokens: int,
        max_held_tokens: int = 32_768,
    ) -> None:
        self._model = model
        self._tokenizing = tokenizing
        self._device = device
        self._max_batch_tokens = max_batch_tokens
        self._max_held_tokens = max_held_tokens
        self.identity = identity

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
        tokens = {text: self._tokenizing.read(text) for text in dict.fromkeys(text for pair in pairs for text in pair)}
        read = [(tokens[reference], tokens[candidate]) for reference, candidate in pairs]
        f1 = [0.0] * len(pairs)
        for numbers in _slice(read, self._max_held_tokens):
            embedded = self._embed({ids for number in numbers for ids in (read[number][0].ids, read[number][1].ids)})
            values = match([(embedded[read[number][0].ids], embedded[read[number][1].ids]) for number in numbers])
            for number, value in zip(numbers, values, strict=True):
                f1[number] = value
        return [
            Similarity(value, one.truncated or other.truncated, max(one.unknown_share, other.unknown_share))
            for value, (one, other) in zip(f1, read, strict=True)
        ]

    def _embed(self, texts: Iterable[Ids]) -> dict[Ids, Embedded]:
        import torch

        embedded: dict[Ids, Embedded] = {}
        with torch.inference_mode():
            for batch in batch_by_length(texts, self._max_batch_tokens):
                vectors = self._encode(batch)
                for ids, row in zip(batch, vectors, strict=True):
                    weights = [0.0 if token in self._tokenizing.unweighted_ids else 1.0 for token in ids]
                    embedded[ids] = Embedded(row[: len(ids)], torch.tensor(weights, device=row.device))
        return embedded

    def _encode(self, batch: Sequence[Ids]) -> Any:
        import torch

        longest = len(batch[0])
        padded = torch.full((len(batch), longest), self._tokenizing.pad_id, dtype=torch.long)
        mask = torch.zeros((len(batch), longest), dtype=torch.long)
        for row, ids in enumerate(batch):
            padded[row, : len(ids)] = torch.tensor(ids, dtype=torch.long)
            mask[row, : len(ids)] = 1
        vectors = self._model(padded.to(self._device), attention_mask=mask.to(self._device))[0]
        return vectors / vectors.norm(dim=-1, keepdim=True)


def batch_by_length(texts: Iterable[Ids], max_batch_tokens: int) -> Iterator[list[Ids]]:
    """Longest first, so that texts of like length share a batch and hardly any of it is padding."""
    batch: list[Ids] = []
    for ids in sorted(texts, key=lambda ids: (-len(ids), ids)):
        if batch and (len(batch) + 1) * len(batch[0]) > max_batch_tokens:
            yield batch
            batch = []
        batch.append(ids)
    if batch:
        yield batch


def _slice(read: Sequence[tuple[Tokens, Tokens]], max_held_tokens: int) -> Iterator[list[int]]:
    """Numbers of the pairs that have tokens, similar lengths together, as many at a time as may be held."""
    comparable = [number for number, (one, other) in enumerate(read) if one.ids and other.ids]
    numbers: list[int] = []
    held: set[Ids] = set()
    count = 0
    for number in sorted(comparable, key=lambda number: sorted(len(tokens.ids) for tokens in read[number])[::-1]):
        new = {tokens.ids for tokens in read[number]} - held
        added = sum(len(ids) for ids in new)
        if numbers and count + added > max_held_tokens:
            yield numbers
            numbers, held, count = [], set(), 0
            new = {tokens.ids for tokens in read[number]}
            added = sum(len(ids) for ids in new)
        numbers.append(number)
        held |= new
        count += added
    if numbers:
        yield numbers
