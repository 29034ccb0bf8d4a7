"""Items that wait on disk until all of their batch are known to be valid."""

from __future__ import annotations

import asyncio
import errno
import tempfile
from array import array
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import IO, Self

from app.domain.batch import BatchItem
from app.domain.clusters import Trace, find_clusters, hash_beginnings
from app.domain.dialogue import UNBOUNDED
from app.domain.errors import StoreError, StoreFull

BLOCK_BYTES = 256 * 1024
"""Read and written at once, in a thread: a slow disk must not hold up the event loop."""

FULL = {errno.ENOSPC, errno.EDQUOT}


class Spool:
    """A file without a name that vanishes with its process: one line per item, in order.

    A line has the number of candidates, hashes of the context's beginnings, a tab, and the item as JSON.

    To be used with `async with`. Raises StoreFull where the disk is, StoreError where the file fails otherwise.
    """

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._file: IO[bytes] | None = None

    async def __aenter__(self) -> Self:
        with told():
            self._file = await asyncio.to_thread(tempfile.TemporaryFile, prefix="saiten-")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            try:
                self._file.close()
            except OSError:
                # What could not be flushed is thrown away anyhow; whoever wrote it was told.
                self._file = None

    async def append(self, items: Sequence[BatchItem]) -> None:
        """Keeps items, none of which is to be read before `flush`."""
        for item in items:
            self._waiting += self._trace(item).encode()
            self._waiting += item.model_dump_json(exclude_defaults=True).encode() + b"\n"
        if len(self._waiting) >= BLOCK_BYTES:
            await self.flush()

    async def flush(self) -> None:
        """Puts on disk what is not there yet."""
        lines, self._waiting = self._waiting, bytearray()
        with told():
            await asyncio.to_thread(self._write, lines)

    async def items(self) -> AsyncIterator[list[BatchItem]]:
        """All items from the first, some at a time. They were validated; the limits of today do not matter."""
        position = 0
        while True:
            with told():
                lines = await asyncio.to_thread(self._read, position)
            if not lines:
                return
            position += sum(map(len, lines))
            yield [
                BatchItem.model_validate_json(line.partition(b"\t")[2], context={"limits": UNBOUNDED}) for line in lines
            ]

    async def clusters(self) -> array[int]:
        """The cluster of each item that names no dialogue, as `find_clusters` gives it."""
        with told():
            return await asyncio.to_thread(find_clusters, self._read_traces)

    @staticmethod
    def _trace(item: BatchItem) -> str:
        """What stands before the item's JSON."""
        beginnings = hash_beginnings(item.context) if item.dialogue is None else []
        return f"{len(item.responses or ('',))} {array('q', beginnings).tobytes().hex()}\t"

    def _read_traces(self) -> Iterator[Trace]:
        position = 0
        while lines := self._read(position):
            position += sum(map(len, lines))
            for line in lines:
                candidates, beginnings = line[: line.index(b"\t")].split(b" ")
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
            raise StoreError("the spool is not open")
        return self._file


@contextmanager
def told() -> Iterator[None]:
    """An error of the file in words that say what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise StoreFull("the disk for temporary files is full; free some space, or set TMPDIR") from None
        reason = error.strerror or "unknown"
        raise StoreError(f"a temporary file failed ({reason}); check that TMPDIR can be written") from None
