"""`DatasetStore` on each database: versions by content, and what retention and erasure take away."""

import asyncio
import hashlib
from datetime import timedelta

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import NotFound
from saiten_server.erasure.store import TextStore
from saiten_server.platform.sql.engine import fetch_value
from saiten_server.platform.sql.tables import dataset_parts, datasets
from saiten_server.runs.datasets.service import DatasetService, read_parts
from saiten_server.runs.datasets.store import MOST_UPLOADS, RECEIVING, UPLOAD_LIFE, DatasetStore
from saiten_server.runs.datasets.values import Dataset, FileQuestion
from tests.support.batches import HandClock

USER = {"user": "u-42"}
PLAIN = b'{"context":[{"speaker":"A","text":"\xe6\xb5\xb7"}],"response":"1"}\n'
MARKED = b'{"context":[{"speaker":"A","text":"secret"}],"response":"2","metadata":{"user":"u-42","n":"1"}}\n'
SIMILAR = b'{"context":[{"speaker":"A","text":"\\"user\\":\\"u-42\\""}],"response":"3","metadata":{"user":"u-4"}}\n'


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def store(engine: AsyncEngine, clock: HandClock) -> DatasetStore:
    return DatasetStore(engine, clock=clock)


async def keep(
    store: DatasetStore, dataset_id: str, *parts: bytes, name: str = "talk", project: str = "team"
) -> Dataset:
    upload = f"up_{dataset_id}"
    await store.begin(project, upload, "a.csv")
    await store.append(upload, 0, b"raw")
    await store.begin(project, dataset_id, name, state=RECEIVING)
    for number, content in enumerate(parts):
        await store.append(dataset_id, number, content)
    content = b"".join(parts)
    items, digest = content.count(b"\n"), hashlib.sha256(content).hexdigest()
    kept, _ = await store.accept(project, dataset_id, digest, items=items, unit="item", korean=False, upload_id=upload)
    return kept


async def read(store: DatasetStore, dataset_id: str) -> bytes:
    return b"".join([part async for part in store.parts(dataset_id)])


async def test_the_same_content_is_the_same_version_and_other_content_the_next(store, clock) -> None:
    first = await keep(store, "ds_1", PLAIN, MARKED)
    assert (first.version, first.items, first.size_bytes) == (1, 2, len(PLAIN + MARKED))
    assert await read(store, "ds_1") == PLAIN + MARKED
    clock.move(60)
    assert (await keep(store, "ds_2", PLAIN + MARKED)).id == "ds_1"
    assert (await keep(store, "ds_3", PLAIN)).version == 2
    clock.move(60)
    assert (await keep(store, "ds_4", PLAIN, name="other")).version == 1
    assert (await keep(store, "ds_5", PLAIN, project="rivals")).version == 1
    assert [one.id for one in await store.list("team", limit=9)] == ["ds_4", "ds_3", "ds_1"]
    assert [one.id for one in await store.list("team", name="talk", limit=1)] == ["ds_3"]
    shown = await store.find("team", "ds_4")
    assert [one.id for one in await store.list("team", after=(shown.created_at, shown.id), limit=1)] == ["ds_3"]
    for project, dataset_id in (("rivals", "ds_1"), ("team", "ds_2"), ("team", "up_ds_1")):
        with pytest.raises(NotFound):
            await store.find(project, dataset_id)
    with pytest.raises(NotFound):
        await store.erase("rivals", "ds_1")
    await store.erase("team", "ds_1")
    with pytest.raises(NotFound):
        await read(store, "ds_1")
    assert (await keep(store, "ds_6", MARKED)).version == 3


async def test_contents_that_are_kept_at_once_are_versions_one_after_another(store) -> None:
    kept = await asyncio.gather(*(keep(store, f"ds_{number}", b"%d\n" % number) for number in range(8)))
    assert sorted(one.version for one in kept) == list(range(1, 9))


async def test_files_wait_for_a_while_and_only_so_many(store, engine, clock) -> None:
    texts = TextStore(engine, clock=clock)
    for number in range(MOST_UPLOADS + 1):
        clock.move(1)
        await store.begin("team", f"up_{number}", "a.csv")
        await store.make_room("team")
    await store.begin("rivals", "up_r", "b.csv")
    with pytest.raises(NotFound):
        await store.find_upload("team", "up_0")
    assert (await store.find_upload("team", "up_1")).name == "a.csv"
    with pytest.raises(NotFound):
        await store.find_upload("rivals", "up_1")
    kept = await keep(store, "ds_1", PLAIN)
    assert [await store.find_kept(project, "up_ds_1") for project in ("team", "rivals")] == [kept, None]
    with pytest.raises(NotFound):
        await read(store, "up_ds_1")  # a process that still read it does not take the beginning for the whole
    clock.move(UPLOAD_LIFE.total_seconds() + 1)
    await texts.expire_uploads()
    assert await store.find_kept("team", "up_ds_1") is None
    assert await fetch_value(engine, select(func.count()).select_from(datasets)) == 1
    assert (await store.find("team", "ds_1")) == kept
    with pytest.raises(NotFound):
        await store.append("up_1", 1, b"late")


async def test_an_erasure_takes_the_marked_items_and_all_files(store, engine, clock) -> None:
    texts = TextStore(engine, clock=clock)
    await keep(store, "ds_1", PLAIN + MARKED + SIMILAR, MARKED, PLAIN)
    await keep(store, "ds_2", MARKED, name="all")
    await keep(store, "ds_3", MARKED, project="rivals")
    await store.begin("team", "up_9", "a.csv")
    assert (await texts.erase_marked("team", USER)).dataset_items == 3
    left = PLAIN + SIMILAR + PLAIN
    changed = await store.find("team", "ds_1")
    assert (changed.items, changed.size_bytes, changed.digest) == (3, len(left), hashlib.sha256(left).hexdigest())
    assert await read(store, "ds_1") == left
    assert await read(store, "ds_3") == MARKED
    for gone in (store.find("team", "ds_2"), store.find_upload("team", "up_9")):
        with pytest.raises(NotFound):
            await gone
    assert (await texts.erase_marked("team", USER)).dataset_items == 0


async def test_what_is_read_while_an_erasure_passes_is_not_kept(store, engine, clock) -> None:
    await store.begin("team", "up_1", "a.csv")
    await TextStore(engine, clock=clock).erase_marked("team", USER)
    await store.begin("team", "ds_1", "talk", state=RECEIVING)
    await store.append("ds_1", 0, MARKED)
    with pytest.raises(NotFound):
        await store.accept("team", "ds_1", "0", items=1, unit="item", korean=False, upload_id="up_1")
    assert await store.list("team", limit=9) == []
    first = await keep(store, "ds_2", PLAIN)
    await store.begin("team", "ds_3", "talk", state=RECEIVING)  # the form was sent twice
    again = await store.accept("team", "ds_3", first.digest, items=1, unit="item", korean=False, upload_id="up_ds_2")
    assert again == (first, False)


async def test_nothing_stays_of_a_file_that_is_erased_while_it_is_kept(store, engine, monkeypatch) -> None:
    async def pieces():
        yield PLAIN

    service = DatasetService(store=store, limits=Limits(), new_id=iter(["up_1", "ds_1"]).__next__)
    upload = await service.find_upload("team", await service.upload("team", "a.ndjson", pieces()))

    async def read_late(items, note):
        async for piece in read_parts(items, note):
            yield piece
        await store.discard(upload.id)

    monkeypatch.setattr("saiten_server.runs.datasets.service.read_parts", read_late)
    with pytest.raises(NotFound):
        await service.keep("team", upload, FileQuestion(), "talk")
    assert await fetch_value(engine, select(func.count()).select_from(datasets)) == 0


async def test_a_project_that_keeps_no_texts_keeps_no_datasets(store, engine, clock) -> None:
    texts = TextStore(engine, clock=clock)
    await keep(store, "ds_1", PLAIN)
    await keep(store, "ds_2", PLAIN, project="rivals")
    clock.move(timedelta(days=2).total_seconds())
    young = await keep(store, "ds_3", MARKED)
    before = clock() - timedelta(days=1)
    assert await texts.redact("team", "hash", before, 500) == 1
    assert await texts.redact("team", "hash", before, 500) == 0
    assert await store.list("team", limit=9) == [young]
    assert len(await store.list("rivals", limit=9)) == 1
    assert await fetch_value(engine, select(func.count()).select_from(dataset_parts)) == 2
