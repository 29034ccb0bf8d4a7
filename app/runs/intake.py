"""Taking a batch in: all of it is read, validated and kept on disk before any of it reaches the store."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import tempfile
from array import array
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import IO, Protocol, Self

from saiten.core.messages import Message
from saiten.core.wording import lift
from saiten_server.core.batch import (
    Batch,
    BatchConversation,
    BatchItem,
    BatchOptions,
    Candidate,
    Entry,
    GivenItem,
    KeyedAnswer,
    count_candidates,
    dialogue_of,
    list_candidates,
)
from saiten_server.core.dialogue import CHECKED
from saiten_server.core.errors import StoreError, StoreFull
from saiten_server.core.rubric import Unit
from saiten_server.runs.clusters import ALONE, Trace, find_clusters, hash_beginnings, name_dialogue, name_found
from saiten_server.runs.document import BatchReader
from saiten_server.runs.store.batches import BatchStore

BLOCK_BYTES = 256 * 1024  # read and written at once, in a thread: a slow disk must not hold up the event loop
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Spool:
    """A file without a name that vanishes with its process: one line per item, in order. A line has the item's unit,
    the number of candidates, hashes of the context's beginnings, a tab, and the item as JSON. To be used with `async
    with`. Raises StoreFull where the disk is, StoreError where the file fails otherwise."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._file: IO[bytes] | None = None

    async def __aenter__(self) -> Self:
        with translate_errors():
            self._file = await asyncio.to_thread(tempfile.TemporaryFile, prefix="saiten-")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._file is not None:
            # What could not be flushed is thrown away anyhow; its writer got the error.
            with suppress(OSError):
                self._file.close()

    async def append(self, items: Sequence[GivenItem]) -> int:
        """Keeps items, none of which is to be read before `flush`; returns the bytes that the texts of their
        candidates will take."""
        size = 0
        for item in items:
            found = hash_beginnings(item.context) if isinstance(item, BatchItem) and item.dialogue is None else []
            beginnings = array("q", found).tobytes().hex()
            self._waiting += f"{unit_of(item)} {count_candidates(item)} {beginnings}\t".encode()
            line = item.model_dump_json(exclude_defaults=True).encode() + b"\n"
            size += measure_texts(item, len(line))
            self._waiting += line
        if len(self._waiting) >= BLOCK_BYTES:
            await self.flush()
        return size

    async def flush(self) -> None:
        """Puts on disk what is not there yet."""
        lines, self._waiting = self._waiting, bytearray()
        with translate_errors():
            await asyncio.to_thread(self._write, lines)

    async def items(self) -> AsyncIterator[list[GivenItem]]:
        """All items from the first, some at a time. They were validated; the limits of today do not matter."""
        position = 0
        while True:
            with translate_errors():
                lines = await asyncio.to_thread(self._read, position)
            if not lines:
                return
            position += sum(map(len, lines))
            yield await asyncio.to_thread(list, map(read_item, lines))

    async def clusters(self) -> array[int]:
        """The cluster of each item that names no dialogue, as `find_clusters` gives it."""
        with translate_errors():
            return await asyncio.to_thread(find_clusters, self._read_traces)

    def _read_traces(self) -> Iterator[Trace]:
        position = 0
        while lines := self._read(position):
            position += sum(map(len, lines))
            for line in lines:
                _, candidates, beginnings = line[: line.index(b"\t")].split(b" ")
                yield Trace(int(candidates), array("q", bytes.fromhex(beginnings.decode())))

    def _write(self, lines: bytearray) -> None:
        file = self._opened()
        file.write(lines)
        file.flush()

    def _read(self, position: int) -> list[bytes]:
        file = self._opened()
        file.seek(position)
        return file.readlines(BLOCK_BYTES)

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            raise StoreError(Message("spool-closed"))
        return self._file


def unit_of(item: GivenItem) -> Unit:
    """What a rubric must rate to rate the item."""
    return "conversation" if isinstance(item, BatchConversation) else "item"


def measure_texts(item: GivenItem, size: int) -> int:
    """The bytes that the texts of the item's candidates take in the store, of an item of `size` bytes: each candidate
    has a copy of all but the other responses."""
    count = count_candidates(item)
    if count == 1 or not isinstance(item, BatchItem) or item.responses is None:
        return size
    responses = sum(len(response.encode()) for response in item.responses)
    return responses + count * (size - responses)


MODELS: Mapping[bytes, type[GivenItem]] = {b"item": BatchItem, b"conversation": BatchConversation}


def read_item(line: bytes) -> GivenItem:
    """The item of a spool's line."""
    unit, _, rest = line.partition(b" ")
    return MODELS[unit].model_validate_json(rest.partition(b"\t")[2], context={"limits": CHECKED})


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raises errors of the file as StoreFull or StoreError, with advice."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise StoreFull(Message("temporary-disk-full")) from None
        reason = error.strerror or "unknown"
        raise StoreError(Message("temporary-file-failed", reason=reason)) from None


INTAKE_PIECE_BYTES = 32 * 1024  # read before others have a turn: some 10 ms of short items
BLOCK_CANDIDATES = 1000
BLOCK_CHARACTERS = 4_000_000
"""What a block holds at most, so that long dialogues with many candidates do not fill the memory."""


@dataclass(frozen=True)
class Clusters:
    """The clusters of a batch's items: those that the items name, and those that were found."""

    batch_id: str
    found: array[int]

    def of(self, item: GivenItem, number: int) -> str | None:
        """The digest of the item's cluster; None where it stands alone."""
        dialogue = dialogue_of(item)
        if dialogue is not None:
            return name_dialogue(dialogue)
        found = self.found[number]
        return None if found == ALONE else name_found(self.batch_id, found)


class BatchSource(Protocol):
    """A batch that is to be stored: what its candidates share, and how to go through them. `blocks` gives all that is
    needed to say what they take, `stored_blocks` what is kept of them in the batch of that id. `pinned` is the same by
    this version of the rubric."""

    @property
    def options(self) -> BatchOptions: ...
    @property
    def candidates(self) -> int: ...
    @property
    def text_bytes(self) -> int: ...
    @property
    def ids_given(self) -> bool: ...
    def blocks(self) -> AsyncIterator[list[tuple[Entry, Candidate]]]: ...
    def stored_blocks(self, batch_id: str) -> AsyncIterator[list[tuple[Entry, Candidate]]]: ...
    def pinned(self, rubric: str) -> BatchSource: ...


@dataclass(frozen=True)
class Intake:
    """A whole, valid batch, whose items lie in an open spool. `digest` is the SHA-256 of the body, `first` the first
    item; `firsts` has the number of the first item of each unit. `ids_given`: whether any item has an id. `text_bytes`
    is what the texts of all candidates will take: each has its item's context."""

    options: BatchOptions
    items: int
    candidates: int
    digest: str
    spool: Spool
    first: GivenItem
    firsts: Mapping[Unit, int] = field(default_factory=dict)
    ids_given: bool = False
    text_bytes: int = 0

    async def blocks(self, clusters: Clusters | None = None) -> AsyncIterator[list[tuple[Entry, Candidate]]]:
        """All candidates in order, in blocks; from the first at each call. Without `clusters` they have none."""
        block: list[tuple[Entry, Candidate]] = []
        number, position, held = 0, 0, 0
        async for items in self.spool.items():
            for item in items:
                cluster = clusters.of(item, number) if clusters else None
                for entry, candidate in list_candidates(item, number, position, cluster):
                    block.append((entry, candidate))
                    position += 1
                    held += sum(len(utterance.text) for utterance in candidate.context) + len(candidate.response)
                    if len(block) == BLOCK_CANDIDATES or held >= BLOCK_CHARACTERS:
                        yield block
                        block, held = [], 0
                number += 1
        if block:
            yield block

    def pinned(self, rubric: str) -> Intake:
        """The same by this version of the rubric."""
        return replace(self, options=self.options.model_copy(update={"rubric": rubric}))

    async def stored_blocks(self, batch_id: str) -> AsyncIterator[list[tuple[Entry, Candidate]]]:
        """The same with their clusters."""
        async for block in self.blocks(Clusters(batch_id, await self.spool.clusters())):
            yield block


async def take_in(chunks: AsyncIterable[bytes], reader: BatchReader, spool: Spool) -> Intake:
    """Reads a body to its end. Raises StrictJSONError, InvalidDocument, StoreFull, StoreError, and whatever the chunks
    raise. The event loop is shared: others have a turn after each piece."""
    counts, digest = Counter[str](), hashlib.sha256()
    firsts: dict[Unit, int] = {}
    first: list[GivenItem] = []
    shared: dict[str, str] | None = None

    async def keep(items: list[GivenItem]) -> None:
        nonlocal shared
        first[:] = first or items[:1]
        for item in items:
            shared = lift(shared, item.metadata)
            firsts.setdefault(unit_of(item), counts["items"])
            counts["items"] += 1
            counts["candidates"] += count_candidates(item)
            counts["ids"] += item.id is not None
        counts["text_bytes"] += await spool.append(items)

    async for chunk in chunks:
        for start in range(0, len(chunk), INTAKE_PIECE_BYTES):
            piece = chunk[start : start + INTAKE_PIECE_BYTES]
            digest.update(piece)
            # In a thread: a single item may be as large as a whole body elsewhere.
            await keep(await asyncio.to_thread(reader.feed, piece))
    await keep(await asyncio.to_thread(reader.close))
    await spool.flush()
    return Intake(
        options=name_options(reader.options, shared or {}),
        items=counts["items"],
        candidates=counts["candidates"],
        digest=digest.hexdigest(),
        spool=spool,
        first=first[0],
        firsts=firsts,
        ids_given=counts["ids"] > 0,
        text_bytes=counts["text_bytes"],
    )


def name_options(options: BatchOptions, shared: Mapping[str, str]) -> BatchOptions:
    """The options with what all items say alike of their run, as far as the options do not."""
    metadata = {**shared, **options.metadata}
    return options if metadata == options.metadata else options.model_copy(update={"metadata": metadata})


async def store_batch(
    store: BatchStore,
    project: str,
    batch_id: str,
    source: BatchSource,
    *,
    now: datetime,
    unit_cost_usd: float | None,
    answer: KeyedAnswer | None,
    api_key: str | None = None,
    rubric_digest: str | None = None,
) -> Batch:
    """Puts the batch into the store and accepts it; on any error, or where it is cancelled, nothing of it stays."""
    try:
        await store.begin(
            project, batch_id, source.options, now, rubric_digest=rubric_digest, ids_given=source.ids_given
        )
        async for block in source.stored_blocks(batch_id):
            await store.append(batch_id, block)
        return await store.accept(project, batch_id, unit_cost_usd=unit_cost_usd, answer=answer, api_key=api_key)
    except BaseException:
        # Where even that fails, the sweep discards what was never accepted; the first error is the one to raise.
        with suppress(StoreError):
            await store.discard(batch_id)
        raise
