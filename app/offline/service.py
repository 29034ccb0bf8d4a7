"""Takes a run that was scored elsewhere into the service: its figures and ids, while its texts stay where they are."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from saiten.core.messages import Message, rebuild
from saiten_server.core.batch import Batch, BatchName, BatchOptions
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import IdempotencyKeyInUse, InvalidRequest, StoreError, UnknownRubric
from saiten_server.core.evaluation import Metadata
from saiten_server.core.model import RubricName, Value, digest
from saiten_server.core.rubric import Rubric
from saiten_server.offline.adopted import (
    AdoptedRow,
    make_candidate,
    make_evaluation,
    make_failure,
    make_record,
    read_entry,
    read_figures,
    read_usage,
    refuse,
)
from saiten_server.offline.places import find_place
from saiten_server.offline.store import Adopted, AdoptionStore
from saiten_server.offline.texts import AdoptedTexts
from saiten_server.platform.capability import Ground
from saiten_server.runs.quota import StorageQuota, expect_bytes
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.work import ChunkJob, FinishedCandidate
from saiten_server.scoring.rubrics.files import RubricSource, open_rubrics

ADOPTED_AT_ONCE = 200
"""Rows that are read and stored at a time: other requests have a turn in between."""

LINE_BYTES = 1 << 20


class AdoptRequest(Value):
    """Files of results that a service may read, to become a run of it."""

    url: Annotated[str, Field(min_length=1, max_length=2_000)] = Field(
        description="a file or a folder of Parquet files that `saiten offline` wrote, below an address that the "
        "operator allows (`SAITEN_ADOPT_FROM`)"
    )
    name: BatchName | None = Field(default=None, description="the batch's name, by which trends and baselines know it")
    metadata: Metadata = Field(default_factory=dict, description="the batch's metadata, such as system and build")
    rubric: RubricName | None = Field(default=None, description="needed only where the files name none")


@dataclass(frozen=True)
class Adoption:
    """A run that was adopted; `new` unless an earlier request had adopted the same results."""

    batch: Batch
    new: bool


@dataclass(kw_only=True, eq=False)
class AdoptionService:
    """Adopts runs within the caller's project. `allowed` are the addresses below which files may be read."""

    store: AdoptionStore
    rubrics: RubricSource
    quota: StorageQuota
    limits: Limits
    allowed: Sequence[str]
    texts: AdoptedTexts
    now: Callable[[], datetime]

    def find_place(self, url: str, project: str) -> str:
        """The address as it is opened. Raises InvalidRequest where the project may not read it."""
        return find_place(url, self.allowed, project)

    async def adopt(self, project: str, address: str, asked: AdoptRequest, folder: str | None = None) -> Adoption:
        """The run that the files at the address, in the `folder`, hold; all of it or nothing. The same results under
        the same name are one run, however often they are adopted. Raises InvalidRequest, which names the file and the
        row group or the row, UnknownRubric, ProjectFull, IdempotencyKeyInUse while another request adopts them, and
        StoreError."""
        async with read_files(address, self.limits.batch_items, folder) as lines:
            opening = await lines.next()
            if opening is None:
                raise InvalidRequest(Message("adopted-unreadable"), pointer="/url")
            rubric = self._find_rubric(asked, opening["rubric"])
            batch_id = "ba_" + digest([project, asked.name, opening["digest"]])[:24]
            known = await self.store.find(project, batch_id)
            if known is not None:
                if is_read_here(asked):
                    await self.store.place(batch_id, asked.url)
                return Adoption(known, new=False)
            await self.quota.require_room(project, expect_bytes(0, opening["rows"]))
            return Adoption(await self._write(project, batch_id, asked, rubric, lines.cut(rubric)), new=True)

    def _find_rubric(self, asked: AdoptRequest, named: Any) -> Rubric:
        name = named if isinstance(named, str) else asked.rubric
        if name is None:
            raise InvalidRequest(Message("adopted-rubric-missing"), pointer="/rubric")
        try:
            return self.rubrics.get(name)
        except UnknownRubric as error:
            raise UnknownRubric(error.message, pointer="/url") from None

    async def _write(
        self, project: str, batch_id: str, asked: AdoptRequest, rubric: Rubric, pieces: AsyncIterator[list[AdoptedRow]]
    ) -> Batch:
        now = self.now()
        options = BatchOptions(name=asked.name, rubric=rubric.name, relevance=None, metadata=asked.metadata)
        try:
            await self.store.begin(project, batch_id, options, now, rubric.digest)
        except StoreError:
            if await self.store.is_arriving(batch_id):
                raise IdempotencyKeyInUse(Message("adoption-running")) from None
            raise
        try:
            first = 0
            async for rows in pieces:
                results = await asyncio.to_thread(make_results, batch_id, rubric, rows, first, now)
                keys = {first + at: row["key"] for at, row in enumerate(rows) if row.get("key")}
                await self.store.append(batch_id, results, keys, now)
                first += len(rows)
            await self.store.place(batch_id, asked.url if is_read_here(asked) else None)
            return await self.store.finish(project, batch_id, now)
        except BaseException:
            await self.store.discard(batch_id)
            raise


UPLOAD = "upload"
"""Stands for the address of a file that was sent."""


def is_read_here(asked: AdoptRequest) -> bool:
    """Whether the files stay where the service may read them again."""
    return asked.url != UPLOAD


def make_results(batch_id: str, rubric: Rubric, rows: Sequence[AdoptedRow], first: int, now: datetime) -> Adopted:
    """The results of rows, numbered from `first`. Raises InvalidRequest for one that is none."""
    found = []
    for number, row in enumerate(rows, start=first):
        entry, figures, usage = read_entry(row, number), read_figures(row, number, rubric), read_usage(row, number)
        record = failure = None
        if row.get("signature") is None:
            failure = make_failure(row)
        else:
            made = "ev_" + digest([batch_id, number])[:24]
            record = make_record(make_evaluation(row, number, rubric, figures, made=made, now=now))
        finished = FinishedCandidate(ChunkJob(batch_id, 0), entry, record, failure, usage)
        found.append((finished, make_candidate(row, number), figures))
    return found


class AdoptedLines:
    """What the process that reads files writes: a first line that tells the rubric, then a result a line."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream

    async def next(self) -> dict[str, Any] | None:
        """The next line, None after the last; raises InvalidRequest for what the process could not read."""
        try:
            line = await self._stream.readline()
            if not line:
                return None
            found: dict[str, Any] = json.loads(line)
        except ValueError:  # a line that is too long, or cut off
            raise InvalidRequest(Message("adopted-unreadable"), pointer="/url") from None
        if "error" in found:
            raise InvalidRequest(read_message(found["error"]), pointer="/url")
        return found

    async def cut(self, rubric: Rubric) -> AsyncIterator[list[AdoptedRow]]:
        """The results, some at a time; raises InvalidRequest for one by another rubric, or where the process broke
        off."""
        number, rows = 0, list[AdoptedRow]()
        while (row := await self.next()) is not None:
            if row.get("end"):
                yield rows
                return
            if row.get("rubric") != rubric.name:
                raise refuse(number, "rubric")
            rows.append(row)
            number += 1
            if len(rows) == ADOPTED_AT_ONCE:
                yield rows
                rows = []
        raise InvalidRequest(Message("adopted-unreadable"), pointer="/url")


def read_message(error: dict[str, Any]) -> Message:
    """The message that the other process told."""
    return rebuild(error["code"], {name: read_told_value(value) for name, value in error["values"].items()})


def read_told_value(value: Any) -> Any:
    """A value of a message, which may be a message."""
    return read_message(value) if isinstance(value, dict) and "code" in value else value


@asynccontextmanager
async def read_files(address: str, most: int, folder: str | None) -> AsyncIterator[AdoptedLines]:
    """The lines of the files at an address, from a process that ends with the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-m", "saiten_server.offline.adopting", address, str(most)),
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=LINE_BYTES,
    )
    try:
        if process.stdout is None:
            raise InvalidRequest(Message("adopted-unreadable"), pointer="/url")
        yield AdoptedLines(process.stdout)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def open_service(ground: Ground) -> AdoptionService:
    """The service on what all capabilities stand on."""
    settings = ground.settings
    store, allowed = AdoptionStore(ground.engine, BatchStore(ground.engine)), (settings.adopt_from or "").split()
    return AdoptionService(
        store=store,
        rubrics=open_rubrics(settings.rubrics),
        quota=ground.quota,
        limits=settings.limits,
        allowed=allowed,
        texts=AdoptedTexts(store=store, allowed=allowed),
        now=ground.now,
    )
