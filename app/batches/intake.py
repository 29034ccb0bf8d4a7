"""Taking a batch in: all of it is read and validated before any of it reaches the store."""

from __future__ import annotations

import asyncio
import hashlib
from array import array
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from app.batch_ports import BatchStore, KeyedAnswer
from app.batches.document import BatchReader, Numbered
from app.batches.spool import Spool
from app.domain.batch import Batch, BatchItem, BatchOptions, Candidate, Entry, list_candidates
from app.domain.clusters import ALONE, name_dialogue, name_found
from app.domain.errors import StoreError

PIECE_BYTES = 32 * 1024
"""Read before others have a turn: some 10 ms of short items."""

BLOCK_CANDIDATES = 1000
BLOCK_CHARACTERS = 4_000_000
"""What a block holds at most, so that long dialogues with many candidates do not fill the memory."""


@dataclass(frozen=True)
class Intake:
    """A whole, valid batch, whose items lie in an open spool.

    `characters` are those of every candidate's utterances and response; `digest` is the SHA-256 of the body.
    """

    options: BatchOptions
    items: int
    candidates: int
    characters: int
    digest: str
    spool: Spool

    async def blocks(self, clusters: Clusters | None = None) -> AsyncIterator[list[tuple[Entry, Candidate]]]:
        """All candidates in order, in blocks; from the first at each call. Without `clusters` they have none."""
        block: list[tuple[Entry, Candidate]] = []
        number, position, held = 0, 0, 0
        async for items in self.spool.items():
            for item in items:
                cluster = clusters.of(item, number) if clusters else None
                for placed in list_candidates(item, number, position, cluster):
                    block.append(placed)
                    position += 1
                    held += length_of(placed[1])
                    if len(block) == BLOCK_CANDIDATES or held >= BLOCK_CHARACTERS:
                        yield block
                        block, held = [], 0
                number += 1
        if block:
            yield block


class Clusters:
    """The clusters of a batch's items: those that the items name, and those that were found."""

    def __init__(self, batch_id: str, found: array[int]) -> None:
        self._batch_id = batch_id
        self._found = found

    def of(self, item: BatchItem, number: int) -> str | None:
        """The digest of the item's cluster; None where it stands alone."""
        if item.dialogue is not None:
            return name_dialogue(item.dialogue)
        found = self._found[number]
        return None if found == ALONE else name_found(self._batch_id, found)


class Tally:
    """Counts what is taken in."""

    def __init__(self) -> None:
        self.items = 0
        self.candidates = 0
        self.characters = 0

    def add(self, item: BatchItem) -> None:
        """Counts one item."""
        responses = item.responses or (item.response or "",)
        context = sum(len(utterance.text) for utterance in item.context)
        self.items += 1
        self.candidates += len(responses)
        self.characters += len(responses) * context + sum(map(len, responses))


async def take_in(chunks: AsyncIterable[bytes], reader: BatchReader, spool: Spool) -> Intake:
    """Reads a body to its end. Raises StrictJSONError, InvalidDocument, StoreFull, StoreError, and whatever the chunks
    raise. The event loop is shared: others have a turn after each piece."""
    tally, digest = Tally(), hashlib.sha256()

    async def keep(numbered: list[Numbered]) -> None:
        items = [each.item for each in numbered]
        for item in items:
            tally.add(item)
        await spool.append(items)

    async for chunk in chunks:
        for piece in pieces(chunk):
            digest.update(piece)
            # In a thread: a single item may be as large as a whole body elsewhere.
            await keep(await asyncio.to_thread(reader.feed, piece))
    await keep(await asyncio.to_thread(reader.close))
    await spool.flush()
    return Intake(reader.options, tally.items, tally.candidates, tally.characters, digest.hexdigest(), spool)


async def store_batch(
    store: BatchStore,
    project: str,
    batch_id: str,
    intake: Intake,
    *,
    now: datetime,
    unit_cost_usd: float | None,
    answer: KeyedAnswer | None,
    api_key: str | None = None,
) -> Batch:
    """Puts the batch into the store and accepts it; on any error, or where it is cancelled, nothing of it stays."""
    clusters = Clusters(batch_id, await intake.spool.clusters())
    try:
        await store.begin(project, batch_id, intake.options, now)
        async for block in intake.blocks(clusters):
            await store.append(batch_id, block)
        return await store.accept(project, batch_id, unit_cost_usd=unit_cost_usd, answer=answer, api_key=api_key)
    except BaseException:
        # Where even that fails, the sweep discards what was never accepted; the first error is the one to be told.
        with suppress(StoreError):
            await store.discard(batch_id)
        raise


def pieces(chunk: bytes) -> Iterator[bytes]:
    """The chunk, cut where it is large."""
    for start in range(0, len(chunk), PIECE_BYTES):
        yield chunk[start : start + PIECE_BYTES]


def length_of(candidate: Candidate) -> int:
    """Characters of a candidate's dialogue."""
    return sum(len(utterance.text) for utterance in candidate.context) + len(candidate.response)
