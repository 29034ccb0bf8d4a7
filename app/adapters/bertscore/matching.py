"""BERTScore's greedy matching (Zhang et al., 2020), with no pair touching another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MAX_BATCH_PAIRS = 64
MAX_BATCH_CELLS = 1 << 22
"""Token-to-token similarities held at once: 16 MiB in float32."""


@dataclass(frozen=True)
class Embedded:
    """One text: `vectors` of unit length, tokens × dimensions, and `weights`, one a token: 0 or 1."""

    vectors: Any
    weights: Any

    def __len__(self) -> int:
        return len(self.weights)


def match(pairs: Sequence[tuple[Embedded, Embedded]]) -> list[float]:
    """F1 of each (reference, candidate), in order; every text has at least one token. It is in [-1, 1], and beyond
    only where P and R have opposite signs, which no trained encoder comes near; bert-score does not cut it either.

    precision = the mean over the candidate's tokens of the largest cosine with any token of the reference, recall the
    other way round, F1 = 2PR / (P + R). As in bert-score, [CLS] and [SEP] have weight 0 but may be matched with; where
    a text has no other token, or P + R is 0, F1 is 0. Its padding turns a negative largest cosine into 0, so that a
    pair's value depends on its batch; here padding can never be the largest. Neighbours in `pairs` are matched
    together, so similar lengths should stand together.
    """
    values: list[float] = []
    batch: list[tuple[Embedded, Embedded]] = []
    rows = columns = 0
    for reference, candidate in pairs:
        rows, columns = max(rows, len(candidate)), max(columns, len(reference))
        cells = (len(batch) + 1) * rows * columns
        if batch and (cells > MAX_BATCH_CELLS or len(batch) == MAX_BATCH_PAIRS):
            values += _match_batch(batch)
            batch, rows, columns = [], len(candidate), len(reference)
        batch.append((reference, candidate))
    return values + _match_batch(batch) if batch else values


def _match_batch(pairs: Sequence[tuple[Embedded, Embedded]]) -> list[float]:
    import torch

    reference, reference_weights, reference_mask = _pad([reference for reference, _ in pairs])
    candidate, candidate_weights, candidate_mask = _pad([candidate for _, candidate in pairs])
    cosine = torch.bmm(candidate, reference.transpose(1, 2))
    # A vector's length is 1 up to rounding; how that falls depends on the number of threads.
    best_of_candidate = cosine.masked_fill(~reference_mask.unsqueeze(1), -torch.inf).amax(dim=2).clamp(-1, 1)
    best_of_reference = cosine.masked_fill(~candidate_mask.unsqueeze(2), -torch.inf).amax(dim=1).clamp(-1, 1)
    precision = (best_of_candidate * candidate_weights).sum(dim=1) / candidate_weights.sum(dim=1)
    recall = (best_of_reference * reference_weights).sum(dim=1) / reference_weights.sum(dim=1)
    f1 = 2 * precision * recall / (precision + recall)
    return [float(value) for value in torch.where(torch.isfinite(f1), f1, 0.0).tolist()]


def _pad(texts: Sequence[Embedded]) -> tuple[Any, Any, Any]:
    import torch
    from torch.nn.utils.rnn import pad_sequence

    vectors = pad_sequence([text.vectors for text in texts], batch_first=True)
    weights = pad_sequence([text.weights for text in texts], batch_first=True)
    lengths = torch.tensor([len(text) for text in texts], device=vectors.device)
    mask = torch.arange(vectors.shape[1], device=vectors.device).unsqueeze(0) < lengths.unsqueeze(1)
    return vectors, weights, mask
