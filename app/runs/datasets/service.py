"""Datasets: a file is uploaded, looked at, kept as items under a name, and scored as often as someone wants."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from pydantic_core import from_json, to_json

from saiten.core.messages import Message
from saiten.core.plain_text import is_korean
from saiten_server.core.batch import BatchConversation
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import InvalidRequest, NotFound, Overloaded, StoreError
from saiten_server.platform.capability import Ground
from saiten_server.runs.datasets.reading import read_file
from saiten_server.runs.datasets.store import RECEIVING, DatasetStore
from saiten_server.runs.datasets.values import Dataset, FileQuestion, FileReport, UploadedFile
from saiten_server.runs.intake import translate_errors
from saiten_server.runs.quota import StorageQuota

PART_BYTES = 256 * 1024
READ_FILES_AT_ONCE = 2
"""Files that a process reads at a time: each is a process of its own."""

OF_ONE = 6
"""Files of one project that are read or wait to be; further ones are turned away."""

BUSY_SECONDS = 10.0
"""`Retry-After` for them: most files are read in less."""

ADDING_TRIES = 5
"""How often a version is put together again because another came first."""


class ReadingTurns:
    """Lets a process read `READ_FILES_AT_ONCE` files. A project reads one at a time, so that its pile delays another's
    file by one file at most."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(READ_FILES_AT_ONCE)
        self._projects: dict[str, asyncio.Semaphore] = {}
        self._held = Counter[str]()

    @asynccontextmanager
    async def take(self, project: str) -> AsyncIterator[None]:
        """A turn until the block ends. Raises Overloaded where too many files of the project wait already."""
        if self._held[project] >= OF_ONE:
            detail = Message("dataset-uploads-busy", count=OF_ONE)
            raise Overloaded(detail, retry_after_seconds=BUSY_SECONDS)
        self._held[project] += 1
        try:
            async with self._projects.setdefault(project, asyncio.Semaphore(1)), self._places:
                yield
        finally:
            self._held[project] -= 1
            if not self._held[project]:
                del self._held[project], self._projects[project]


@dataclass(kw_only=True, eq=False)
class DatasetService:
    """Everything that a caller can do with the project's datasets. Methods raise NotFound for what is not in the
    project, and the `Store…` errors."""

    store: DatasetStore
    limits: Limits
    new_id: Callable[[], str]
    turns: ReadingTurns = field(default_factory=ReadingTurns)
    quota: StorageQuota | None = None

    async def upload(self, project: str, name: str, content: AsyncIterable[bytes]) -> str:
        """Stores a file for the time in which someone looks at it; returns its id."""
        upload_id = self.new_id()
        await self.store.begin(project, upload_id, name)
        async with self._whole_or_nothing(upload_id):
            await self.store.make_room(project)  # after it: of many that come at once, each counts the others
            await self._fill(project, upload_id, content)
        return upload_id

    async def find_upload(self, project: str, upload_id: str) -> UploadedFile:
        """The uploaded file."""
        return await self.store.find_upload(project, upload_id)

    async def find_kept(self, project: str, upload_id: str) -> Dataset | None:
        """The dataset that the file became; None where it became none."""
        return await self.store.find_kept(project, upload_id)

    async def look(self, project: str, upload: UploadedFile, asked: FileQuestion) -> FileReport:
        """What the file holds, read as asked. Raises Overloaded."""
        async with self._read(project, upload, asked, keep=False) as (report, _):
            return report

    async def keep(
        self, project: str, upload: UploadedFile, asked: FileQuestion, name: str
    ) -> tuple[Dataset, bool] | FileReport:
        """Keeps the file's items as the next version of the name; returns it and whether it is new, or the report where
        there is nothing to keep. The same items under the same name are the same version. Raises Overloaded."""
        async with self._read(project, upload, asked, keep=True) as (report, items):
            if report.trouble is not None or not report.items:
                return report
            dataset_id, found = self.new_id(), hashlib.sha256()
            await self.store.begin(project, dataset_id, name, state=RECEIVING)
            async with self._whole_or_nothing(dataset_id):
                await self._fill(project, dataset_id, read_parts(items, found.update))
                return await self.store.accept(
                    project,
                    dataset_id,
                    found.hexdigest(),
                    items=report.items,
                    unit=report.unit,
                    korean=report.korean,
                    upload_id=upload.id,
                )

    async def add(
        self, project: str, name: str, read: Callable[[], Awaitable[Sequence[BatchConversation]]]
    ) -> tuple[Dataset, int]:
        """Adds conversations to the newest version of the name, as its next version, or to none as the first; returns
        it and how many are new. One whose id the newest version has is not added again, and of nothing new no version
        is made. `read` gives them: it is called after what an erasure would remove has begun, so that nothing that is
        erased meanwhile stays. Raises InvalidRequest for a dataset of single responses and for more than a batch may
        hold, and Overloaded where others add to the name all the time."""
        for _ in range(ADDING_TRIES):
            dataset_id = self.new_id()
            await self.store.begin(project, dataset_id, name, state=RECEIVING)
            async with self._whole_or_nothing(dataset_id):
                before = next(iter(await self.store.list(project, name=name, limit=1)), None)
                added = await read()
                if before is not None and before.unit != "conversation":
                    raise InvalidRequest(Message("dataset-of-responses"), pointer="/dataset")
                try:
                    growth = await self._copy(project, dataset_id, before, added)
                except NotFound:  # an erasure came between
                    await self.store.discard(dataset_id)
                    continue
                if before is not None and not growth.new:
                    await self.store.discard(dataset_id)
                    return before, 0
                made = await self.store.accept_next(
                    project,
                    dataset_id,
                    growth.digest,
                    after=before,
                    items=growth.items,
                    unit="conversation",
                    korean=growth.korean,
                )
                if made is not None:
                    return made, growth.new
        raise Overloaded(Message("dataset-adding-busy"), retry_after_seconds=BUSY_SECONDS)

    async def _copy(
        self, project: str, dataset_id: str, before: Dataset | None, added: Sequence[BatchConversation]
    ) -> Growth:
        """Stores the content of the version before, and those of the conversations that it lacks."""
        growth = Growth(self.limits, korean=before is not None and before.korean)

        async def pieces() -> AsyncIterator[bytes]:
            if before is not None:
                async for part in self.content(before):
                    await asyncio.to_thread(growth.note, part)
                    yield part
            for piece in await asyncio.to_thread(growth.add, added):
                yield piece

        await self._fill(project, dataset_id, pieces())
        return growth

    async def find(self, project: str, dataset_id: str) -> Dataset:
        """The dataset."""
        return await self.store.find(project, dataset_id)

    async def list(
        self, project: str, *, name: str | None = None, after: tuple[datetime, str] | None = None, limit: int
    ) -> Sequence[Dataset]:
        """Versions, newest first; of this name only, if given."""
        return await self.store.list(project, name=name, after=after, limit=limit)

    def content(self, dataset: Dataset) -> AsyncIterator[bytes]:
        """The items as NDJSON, piece by piece."""
        return self.store.parts(dataset.id)

    async def document(self, dataset: Dataset, options: Mapping[str, Any]) -> AsyncIterator[bytes]:
        """The body of a batch that scores the dataset, with the options as JSON."""
        yield to_json(options) + b"\n"
        async for part in self.content(dataset):
            yield part

    async def erase(self, project: str, dataset_id: str) -> None:
        """Removes the dataset; runs that scored it stay."""
        await self.store.erase(project, dataset_id)

    async def _fill(self, project: str, dataset_id: str, content: AsyncIterable[bytes]) -> None:
        """Stores the content. Raises ProjectFull where the quota does not allow all of it."""
        number = 0
        async for piece in content:
            if self.quota is not None:
                await self.quota.require_room(project, len(piece))
            await self.store.append(dataset_id, number, piece)
            number += 1

    @asynccontextmanager
    async def _whole_or_nothing(self, dataset_id: str) -> AsyncIterator[None]:
        """Where the block ends with an error, nothing of what it stored stays."""
        try:
            yield
        except BaseException:
            # What cannot be removed now is removed when its time is over; the first error is the one to raise.
            with suppress(StoreError):
                await self.store.discard(dataset_id)
            raise

    @asynccontextmanager
    async def _read(
        self, project: str, upload: UploadedFile, asked: FileQuestion, *, keep: bool
    ) -> AsyncIterator[tuple[FileReport, IO[bytes]]]:
        """The report of the file, and its items, where they are to be kept."""
        async with self.turns.take(project), temporary_file() as source, temporary_file() as items:
            async for piece in self.store.parts(upload.id):
                with translate_errors():
                    await asyncio.to_thread(source.write, piece)
            with translate_errors():
                await asyncio.to_thread(source.flush)
            yield await read_file(source, upload.name, asked, self.limits, items if keep else None), items


class Growth:
    """What a dataset becomes as it is copied and added to: the number of its items, how many of them are new, the
    digest, and whether some of it is evidently Korean. Methods take a while: not for an event loop."""

    def __init__(self, limits: Limits, *, korean: bool) -> None:
        self.items = 0
        self.new = 0
        self.korean = korean
        self._limits = limits
        self._bytes = 0
        self._ids = set[str]()
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def note(self, part: bytes) -> None:
        """Takes a part that was there, of whole lines."""
        for line in part.splitlines():
            self._ids.add(str(from_json(line).get("id")))
            self.items += 1
        self._count(part)

    def add(self, conversations: Sequence[BatchConversation]) -> list[bytes]:
        """The lines of those that are not there, in pieces. Raises InvalidRequest for more than a batch may hold."""
        lines = []
        for one in conversations:
            if str(one.id) in self._ids:
                continue
            self._ids.add(str(one.id))
            self.korean = self.korean or is_korean(turn.text for turn in one.turns)
            lines.append(one.model_dump_json(exclude_defaults=True).encode() + b"\n")
        self.new, self.items = len(lines), self.items + len(lines)
        if self.items > self._limits.batch_items or self._bytes + sum(map(len, lines)) > self._limits.batch_bytes:
            most, size = self._limits.batch_items, self._limits.batch_bytes
            raise InvalidRequest(Message("dataset-full", items=most, size=size), pointer="/dataset")
        pieces = list(cut_lines(lines))
        for piece in pieces:
            self._count(piece)
        return pieces

    def _count(self, part: bytes) -> None:
        self._bytes += len(part)
        self._digest.update(part)


def cut_lines(lines: Sequence[bytes]) -> Iterator[bytes]:
    """The lines in pieces of about `PART_BYTES`."""
    held, size = list[bytes](), 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= PART_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


@asynccontextmanager
async def temporary_file() -> AsyncIterator[IO[bytes]]:
    """A file without a name, which vanishes with its process. Raises StoreFull, StoreError."""
    with translate_errors():
        file: IO[bytes] = await asyncio.to_thread(tempfile.TemporaryFile, prefix="saiten-")
    try:
        yield file
    finally:
        # What could not be flushed is thrown away anyhow; its writer got the error.
        with suppress(OSError):
            file.close()


async def read_parts(file: IO[bytes], note: Callable[[bytes], None]) -> AsyncIterator[bytes]:
    """The file's lines in pieces of about `PART_BYTES`; each piece is noted."""

    def read() -> bytes:
        piece = b"".join(file.readlines(PART_BYTES))
        note(piece)
        return piece

    file.seek(0)
    while piece := await asyncio.to_thread(read):
        yield piece


def dataset_name_of(file_name: str, limits: Limits) -> str:
    """The name that a dataset has by its file, as it may be called."""
    stem = Path(file_name.replace("\\", "/")).stem
    return "".join(filter(str.isprintable, stem)).strip()[: limits.name_characters] or "dataset"


def check_name(name: str, limits: Limits) -> str:
    """The name; raises InvalidRequest for one that is empty, too long, or more than a line."""
    if not (name.strip() and name.isprintable() and len(name) <= limits.name_characters):
        raise InvalidRequest(Message("dataset-name-form", maximum=limits.name_characters), pointer="/name")
    return name


def open_service(ground: Ground) -> DatasetService:
    """The service on what all capabilities stand on."""
    return DatasetService(
        store=DatasetStore(ground.engine),
        limits=ground.settings.limits,
        new_id=lambda: ground.new_id("ds_"),
        quota=ground.quota,
    )
