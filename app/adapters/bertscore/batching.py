"""Which texts go through the encoder together: as many as fill a pass, and no more padding than a pass costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from app.adapters.bertscore.tokens import Tokens

Ids = tuple[int, ...]

CPU_TOKENS_PER_THREAD = 256
CPU_TOKENS = 1_024
"""From about here on a pass of one thread grows no faster a token; from four times that on it slows down, since the
allocator asks the system for every intermediate result anew."""
MOST_TOKENS = 4_096
PADDING_PER_THREAD = 16
MOST_PADDING = 256


@dataclass(frozen=True)
class PassLimits:
    """`max_tokens` of one forward pass, padding included (one text at least), and `max_padding`, how many of them may
    be padding: what a pass costs beside its tokens, in tokens, so that one more pass would not be cheaper."""

    max_tokens: int
    max_padding: int


def limit_passes(device: str, threads: int, max_tokens: int | None = None) -> PassLimits:
    """What suits the device: measured on CPUs (a pass over nothing costs 25 to 35 tokens of one thread, on encoders of
    4 × 256 and of 12 × 768), reckoned elsewhere. `max_tokens` None takes what suits it."""
    if device.partition(":")[0] != "cpu":
        return PassLimits(max_tokens or MOST_TOKENS, MOST_PADDING)
    suits = min(max(CPU_TOKENS, CPU_TOKENS_PER_THREAD * threads), MOST_TOKENS)
    return PassLimits(max_tokens or suits, min(PADDING_PER_THREAD * (1 + threads), MOST_PADDING))


def batch_by_length(texts: Iterable[Ids], limits: PassLimits) -> Iterator[list[Ids]]:
    """Longest first, so that texts of like length share a pass."""
    batch: list[Ids] = []
    padding = 0
    for ids in sorted(texts, key=lambda ids: (-len(ids), ids)):
        added = len(batch[0]) - len(ids) if batch else 0
        if batch and ((len(batch) + 1) * len(batch[0]) > limits.max_tokens or padding + added > limits.max_padding):
            yield batch
            batch, padding, added = [], 0, 0
        batch.append(ids)
        padding += added
    if batch:
        yield batch


def slice_pairs(read: Sequence[tuple[Tokens, Tokens]], max_held_tokens: int) -> Iterator[list[int]]:
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
