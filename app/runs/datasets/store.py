"""Datasets, and the files that they come from until someone keeps what those hold."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pydantic_core import from_json
from sqlalchemy import ColumnElement, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten.core.messages import Message
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.core.model import digest
from saiten_server.core.rubric import Unit
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.engine import take_turn
from saiten_server.platform.sql.tables import dataset_parts, equals
from saiten_server.platform.sql.tables import datasets as table
from saiten_server.runs.datasets.values import Dataset, UploadedFile
from saiten_server.runs.store.erasure import Erasure
from saiten_server.runs.store.rows import utc_now

dataset, part = table.c, dataset_parts.c

UPLOAD, RECEIVING, KEPT_STATE, DONE = "upload", "receiving", "kept", "done"

MOST_UPLOADS = 10
"""Files of a project that wait to be kept; a further one takes the place of the oldest."""

MOST_DATASETS = 1000
"""Versions of datasets of a project."""

UPLOAD_LIFE = timedelta(hours=1)
"""How long a file waits to be kept."""

DATASET_COLUMNS = [
    dataset[name] for name in ("id", "name", "version", "digest", "items", "bytes", "unit", "korean", "created_at")
]


class DatasetStore:
    """Datasets by project. Raises NotFound for what is not there, or is another project's, and the `Store…` errors."""

    def __init__(self, engine: AsyncEngine, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._engine = engine
        self._clock = clock
        self._cleaning = Erasure(engine, clock=clock)

    async def begin(self, project: str, dataset_id: str, name: str, *, state: str = UPLOAD) -> None:
        """Opens a file, or a dataset in the state `RECEIVING`, whose parts follow."""
        row = {
            "id": dataset_id,
            "project": project,
            "state": state,
            "name": name,
            "key": digest(name),
            "digest": "",
            "unit": "item",
            "korean": False,
            "items": 0,
            "bytes": 0,
            "created_at": self._clock(),
        }
        async with db.write(self._engine) as connection:
            await connection.execute(insert(table), row)

    async def append(self, dataset_id: str, number: int, content: bytes) -> None:
        """Stores the next part. Raises NotFound where the whole was removed meanwhile."""
        async with db.change(self._engine) as connection:
            held = select(dataset.id).where(dataset.id == dataset_id, dataset.state.in_((UPLOAD, RECEIVING)))
            if (await connection.execute(held.with_for_update())).one_or_none() is None:
                raise no_dataset()
            await connection.execute(
                insert(dataset_parts), {"dataset_id": dataset_id, "number": number, "content": content}
            )
            size = dataset.bytes + len(content)
            await connection.execute(update(table).where(dataset.id == dataset_id).values(bytes=size))

    async def accept(
        self, project: str, dataset_id: str, found: str, *, items: int, unit: Unit, korean: bool, upload_id: str
    ) -> tuple[Dataset, bool]:
        """Makes what was received the next version of its name, and removes the file that it comes from; returns it,
        and whether it is new. Where the name has this content, `found` being its digest, that version is returned. Of
        the file only what it became is known until its time is over. Raises NotFound where it is gone by then, as by an
        erasure."""
        mine = (dataset.project == project) & (dataset.state == KEPT_STATE)
        async with db.change(self._engine) as connection:
            await take_turn(connection, project)  # or two who keep other contents at once make the same version
            held = select(dataset.key).where(dataset.id == dataset_id, dataset.state == RECEIVING).with_for_update()
            key = (await connection.execute(held)).scalar_one_or_none()
            if key is None:
                raise no_dataset()
            file = (dataset.project == project) & (dataset.id == upload_id) & (dataset.state == UPLOAD)
            was_there = (await connection.execute(select(dataset.id).where(file).with_for_update())).first() is not None
            same = select(*DATASET_COLUMNS).where(mine, dataset.key == key, dataset.digest == found)
            twin = (await connection.execute(same.order_by(dataset.version.desc()).limit(1))).one_or_none()
            if twin is not None:
                await connection.execute(delete(table).where(dataset.id == dataset_id))
            elif not was_there:
                raise no_dataset()  # it was erased while it was read, and so are its items
            else:
                values = {"digest": found, "items": items, "unit": unit, "korean": korean}
                twin = await keep_version(connection, project, key, dataset_id, values)
            if was_there:
                await connection.execute(update(table).where(file).values(state=DONE, name="", key=twin.id))
                await connection.execute(delete(dataset_parts).where(part.dataset_id == upload_id))
        self._cleaning.mark_traces()
        await self._cleaning.tidy()
        return read_dataset(twin), twin.id == dataset_id

    async def accept_next(
        self, project: str, dataset_id: str, found: str, *, after: Dataset | None, items: int, unit: Unit, korean: bool
    ) -> Dataset | None:
        """Makes what was received the version after `after`, the first one if that is None. None where another is the
        newest by now, or some of its items were erased, or what was received is gone, as by an erasure: then it is to
        be put together again."""
        mine = (dataset.project == project) & (dataset.state == KEPT_STATE)
        async with db.change(self._engine) as connection:
            await take_turn(connection, project)
            held = select(dataset.key).where(dataset.id == dataset_id, dataset.state == RECEIVING).with_for_update()
            key = (await connection.execute(held)).scalar_one_or_none()
            newest = select(dataset.id, dataset.digest).where(mine, dataset.key == key)
            last = (await connection.execute(newest.order_by(dataset.version.desc()).limit(1))).one_or_none()
            if key is None or (after and (after.id, after.digest)) != (last and (last.id, last.digest)):
                await connection.execute(delete(table).where(dataset.id == dataset_id))
                return None
            values = {"digest": found, "items": items, "unit": unit, "korean": korean}
            return read_dataset(await keep_version(connection, project, key, dataset_id, values))

    async def find_upload(self, project: str, upload_id: str) -> UploadedFile:
        """The file. Raises NotFound once it is kept, or its time is over."""
        query = select(dataset.id, dataset.name, dataset.bytes, dataset.created_at).where(
            equals(dataset.id, upload_id), equals(dataset.project, project), dataset.state == UPLOAD
        )
        row = await db.fetch_one(self._engine, query)
        if row is None:
            raise NotFound(Message("upload-not-found"))
        return UploadedFile(row.id, row.name, row.bytes, row.created_at)

    async def find_kept(self, project: str, upload_id: str) -> Dataset | None:
        """The dataset that the file became; None where it became none, or its time is over."""
        file = table.alias()
        done = equals(file.c.id, upload_id) & equals(file.c.project, project) & (file.c.state == DONE)
        became = select(file.c.key).where(done).scalar_subquery()
        mine = (dataset.id == became) & equals(dataset.project, project) & (dataset.state == KEPT_STATE)
        row = await db.fetch_one(self._engine, select(*DATASET_COLUMNS).where(mine))
        return None if row is None else read_dataset(row)

    async def find(self, project: str, dataset_id: str) -> Dataset:
        """The dataset."""
        row = await db.fetch_one(self._engine, select(*DATASET_COLUMNS).where(*self._this(project, dataset_id)))
        if row is None:
            raise no_dataset()
        return read_dataset(row)

    async def list(
        self, project: str, *, name: str | None = None, after: tuple[datetime, str] | None = None, limit: int
    ) -> Sequence[Dataset]:
        """Versions, newest first; `after` is (created_at, id) of the last one of the page before."""
        query = select(*DATASET_COLUMNS).where(equals(dataset.project, project), dataset.state == KEPT_STATE)
        if name is not None:
            query = query.where(dataset.key == digest(name))
        if after is not None:
            at, last = after
            query = query.where((dataset.created_at < at) | ((dataset.created_at == at) & (dataset.id < last)))
        rows = await db.fetch(self._engine, query.order_by(dataset.created_at.desc(), dataset.id.desc()).limit(limit))
        return [read_dataset(row) for row in rows]

    async def parts(self, dataset_id: str) -> AsyncIterator[bytes]:
        """The content from its beginning, part by part. Raises NotFound where it is removed meanwhile."""
        number = 0
        while True:
            query = select(part.content).where(part.dataset_id == dataset_id, part.number >= number)
            first = query.add_columns(part.number).order_by(part.number).limit(1)
            row = await db.fetch_one(self._engine, first)
            if row is None:
                break
            yield row.content
            number = row.number + 1
        there = select(dataset.id).where(equals(dataset.id, dataset_id), dataset.state != DONE)
        if await db.fetch_one(self._engine, there) is None:
            raise no_dataset()

    async def erase(self, project: str, dataset_id: str) -> None:
        """Removes the dataset."""
        async with db.write(self._engine) as connection:
            if (await connection.execute(delete(table).where(*self._this(project, dataset_id)))).rowcount == 0:
                raise no_dataset()
        self._cleaning.mark_traces()
        await self._cleaning.tidy()

    async def discard(self, dataset_id: str) -> None:
        """Removes what was not received to its end."""
        unfinished = (dataset.id == dataset_id) & (dataset.state != KEPT_STATE)
        if await db.execute(self._engine, delete(table).where(unfinished)):
            self._cleaning.mark_traces()
            await self._cleaning.tidy()

    async def make_room(self, project: str) -> None:
        """Removes the project's oldest files beyond `MOST_UPLOADS`."""
        query = select(dataset.id).where(equals(dataset.project, project), dataset.state == UPLOAD)
        ids = await db.fetch_column(self._engine, query.order_by(dataset.created_at.desc(), dataset.id.desc()))
        for each in ids[MOST_UPLOADS:]:
            await self.discard(each)

    def _this(self, project: str, dataset_id: str) -> tuple[ColumnElement[bool], ...]:
        return equals(dataset.id, dataset_id), equals(dataset.project, project), dataset.state == KEPT_STATE


async def keep_version(
    connection: AsyncConnection, project: str, key: str, dataset_id: str, values: Mapping[str, Any]
) -> Any:
    """Makes what was received the next version of its name; returns its row. Raises InvalidRequest beyond
    `MOST_DATASETS`."""
    mine = (dataset.project == project) & (dataset.state == KEPT_STATE)
    counted = select(func.count()).select_from(table).where(mine)
    if (await connection.execute(counted)).scalar_one() >= MOST_DATASETS:
        raise InvalidRequest(Message("datasets-most", maximum=MOST_DATASETS))
    newest = select(func.max(dataset.version)).where(mine, dataset.key == key)
    version = ((await connection.execute(newest)).scalar_one() or 0) + 1
    this = update(table).where(dataset.id == dataset_id)
    await connection.execute(this.values(state=KEPT_STATE, version=version, **values))
    return (await connection.execute(select(*DATASET_COLUMNS).where(dataset.id == dataset_id))).one()


def no_dataset() -> NotFound:
    """The error for a dataset that does not exist or belongs to another project."""
    return NotFound(Message("dataset-not-found"))


def read_dataset(row: Any) -> Dataset:
    """The dataset of a row."""
    return Dataset(
        id=row.id,
        name=row.name,
        version=row.version,
        digest=row.digest,
        items=row.items,
        size_bytes=row.bytes,
        unit=row.unit,
        korean=row.korean,
        created_at=row.created_at,
    )


async def expire_uploads(engine: AsyncEngine, now: datetime) -> int:
    """Removes files that were not kept within `UPLOAD_LIFE`, of all projects; returns how many."""
    old = (dataset.state != KEPT_STATE) & (dataset.created_at < now - UPLOAD_LIFE)
    # Looks first: there is one now and then, and this is asked every few seconds.
    if not await db.fetch_column(engine, select(dataset.id).where(old).limit(1)):
        return 0
    return await db.execute(engine, delete(table).where(old))


async def remove_datasets(connection: AsyncConnection, project: str, before: datetime, limit: int) -> int:
    """Removes the project's datasets and files that are older than `before`: at most `limit` of them; how many it
    were."""
    if limit <= 0:
        return 0
    held = dataset.state != DONE  # of such a one there is nothing left, and it goes within the hour
    query = select(dataset.id).where(dataset.project == project, dataset.created_at < before, held)
    old = (await connection.execute(query.order_by(dataset.created_at).limit(limit))).scalars().all()
    await connection.execute(delete(table).where(dataset.id.in_(old)))
    return len(old)


async def erase_items(
    engine: AsyncEngine, project: str, metadata: Mapping[str, str], marked: Sequence[ColumnElement[bool]]
) -> int:
    """Removes the items whose metadata hold all these entries from the project's datasets, and all files that wait to
    be kept, in which they cannot be told; returns how many items. `marked` are the conditions that a part has the
    entries somewhere. A dataset without an item left is removed."""
    async with db.write(engine) as connection:
        await connection.execute(delete(table).where(dataset.project == project, dataset.state != KEPT_STATE))
    query = select(part.dataset_id).join(table, dataset.id == part.dataset_id)
    ids: Sequence[str] = await db.fetch_column(engine, query.where(dataset.project == project, *marked).distinct())
    return sum([await erase_items_of(engine, each, metadata, marked) for each in sorted(ids)])


async def erase_items_of(
    engine: AsyncEngine, dataset_id: str, metadata: Mapping[str, str], marked: Sequence[ColumnElement[bool]]
) -> int:
    """The same of one dataset, whose digest and size become those of what is left."""
    erased = 0
    mine = part.dataset_id == dataset_id
    async with db.change(engine) as connection:
        held = select(dataset["items"]).where(dataset.id == dataset_id).with_for_update()
        items = (await connection.execute(held)).scalar_one_or_none()
        if items is None:
            return 0
        numbers = (await connection.execute(select(part.number).where(mine, *marked))).scalars().all()
        for number in numbers:
            this = mine & (part.number == number)
            content = (await connection.execute(select(part.content).where(this))).scalar_one()
            left, gone = await asyncio.to_thread(take_out, content, metadata)
            erased += gone
            change = (
                update(dataset_parts).where(this).values(content=left) if left else delete(dataset_parts).where(this)
            )
            if gone:
                await connection.execute(change)
        if erased == items:
            await connection.execute(delete(table).where(dataset.id == dataset_id))
        elif erased:
            values = await measure_parts(connection, dataset_id)
            this_one = update(table).where(dataset.id == dataset_id)
            await connection.execute(this_one.values(items=items - erased, **values))
    return erased


def take_out(content: bytes, metadata: Mapping[str, str]) -> tuple[bytes, int]:
    """The lines of a part without those items, and how many it were."""
    lines = content.splitlines(keepends=True)
    left = [line for line in lines if not metadata.items() <= from_json(line).get("metadata", {}).items()]
    return b"".join(left), len(lines) - len(left)


async def measure_parts(connection: AsyncConnection, dataset_id: str) -> dict[str, Any]:
    """Digest and size of a dataset's parts."""
    found, size = hashlib.sha256(), 0
    numbers = select(part.number).where(part.dataset_id == dataset_id).order_by(part.number)
    for number in (await connection.execute(numbers)).scalars().all():
        this = select(part.content).where(part.dataset_id == dataset_id, part.number == number)
        content = (await connection.execute(this)).scalar_one()
        await asyncio.to_thread(found.update, content)
        size += len(content)
    return {"digest": found.hexdigest(), "bytes": size}
