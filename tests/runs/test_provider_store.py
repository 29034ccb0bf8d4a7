"""The course of provider batches in SQL, on each database."""

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.batch import BatchOptions
from saiten_server.platform.sql.engine import read
from saiten_server.platform.sql.tables import provider_leftovers, provider_parts, provider_replies, provider_runs
from saiten_server.providers.ports import KeptReply, Leftover, PartState, ProviderPart
from saiten_server.runs.store.provider_batches import ProviderBatchStore, list_remains
from tests.support.held_batches import HeldBatches
from tests.support.provider_bench import Clock

TABLES = (provider_runs, provider_parts, provider_replies, provider_leftovers)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(engine: AsyncEngine, clock: Clock) -> ProviderBatchStore:
    return ProviderBatchStore(engine, clock=clock)


@pytest.fixture
def held(engine: AsyncEngine) -> HeldBatches:
    return HeldBatches(engine)


@pytest.fixture
async def batch(held: HeldBatches, store: ProviderBatchStore) -> str:
    """A batch that `me` holds."""
    batch_id = await held.add(BatchOptions(mode="provider-batch"), [])
    assert await store.lease(batch_id, "me", 60) is not None
    return batch_id


def make_part(batch_id: str, number: int = 0, state: PartState = "planning", **more: object) -> ProviderPart:
    return replace(ProviderPart(batch_id, number, state, after=-1, last=9), **more)  # type: ignore[arg-type]


async def sizes(engine: AsyncEngine) -> list[int]:
    async with read(engine) as connection:
        counts = [select(func.count()).select_from(table) for table in TABLES]
        return [(await connection.execute(query)).scalar_one() for query in counts]


# Leases


async def test_one_holds_the_lease(batch: str, store: ProviderBatchStore) -> None:
    assert await store.lease(batch, "you", 60) is None
    assert await store.lease(batch, "me", 60) is None


async def test_of_many_that_ask_at_once_one_gets_it(held: HeldBatches, store: ProviderBatchStore) -> None:
    batch_id = await held.add(BatchOptions(mode="provider-batch"), [])
    told = await asyncio.gather(*(store.lease(batch_id, f"owner{number}", 60) for number in range(12)))
    assert len([one for one in told if one is not None]) == 1


async def test_a_lease_runs_out(batch: str, store: ProviderBatchStore, clock: Clock) -> None:
    begun_at = clock()
    clock.advance(61)
    assert await store.lease(batch, "you", 60) == begun_at
    assert not await store.renew(batch, "me", 60)
    assert not await store.save("me", make_part(batch))
    assert not await store.plan("me", make_part(batch), ["k"], {}, {})
    assert await store.parts(batch) == []
    assert await store.planned(batch, ["k"]) == {}


async def test_a_renewed_lease_lasts(batch: str, store: ProviderBatchStore, clock: Clock) -> None:
    for _ in range(4):
        clock.advance(40)
        assert await store.renew(batch, "me", 60)
    assert await store.lease(batch, "you", 60) is None


async def test_a_released_lease_is_free_once_its_time_has_come(
    batch: str, store: ProviderBatchStore, clock: Clock
) -> None:
    await store.release(batch, "me", 30)
    clock.advance(29)
    assert await store.lease(batch, "you", 60) is None
    clock.advance(2)
    assert await store.lease(batch, "you", 60) is not None


async def test_a_lease_that_was_taken_over_is_not_released(batch: str, store: ProviderBatchStore, clock: Clock) -> None:
    clock.advance(61)
    await store.lease(batch, "you", 60)
    await store.release(batch, "me", 0)
    assert await store.lease(batch, "me", 60) is None


async def test_there_is_no_lease_of_what_there_is_not(store: ProviderBatchStore, engine: AsyncEngine) -> None:
    assert await store.lease("nothing", "me", 60) is None
    assert not await store.renew("nothing", "me", 60)
    assert not await store.plan("me", make_part("nothing"), [], {}, {})
    await store.release("nothing", "me", 0)
    assert await sizes(engine) == [0, 0, 0, 0]


# Parts


async def test_a_part_comes_back_as_it_was_kept(batch: str, store: ProviderBatchStore) -> None:
    plain = make_part(batch, 1)
    full = make_part(
        batch,
        0,
        "ended",
        round=3,
        requests=50_000,
        bytes=2**33,
        cost_usd=None,
        conceded=("seed", "temperature"),
        parameters={"temperature": 0, "response_format": "text"},
        alone=True,
        file_id="file-1",
        provider_batch_id="batch_1",
        output_file_id="file-2",
        error_file_id="file-3",
    )
    assert await store.save("me", plain)
    assert await store.save("me", full)
    assert await store.parts(batch) == [full, plain]
    assert await store.save("me", replace(full, state="done"))
    assert await store.parts(batch) == [replace(full, state="done"), plain]


async def test_keys_are_planned_with_their_part(batch: str, store: ProviderBatchStore) -> None:
    many = [f"{number:064x}" for number in range(2_500)]
    assert await store.plan("me", make_part(batch, 0), many, {"cached": b"reply"}, {})
    assert await store.plan("me", make_part(batch, 1), ["other"], {}, {})
    known = await store.planned(batch, [*many, "cached", "other", "unknown"])
    assert known == dict.fromkeys(many, 0) | {"cached": None, "other": 1}
    assert await store.find_reply(batch, "cached") == KeptReply(b"reply", bought=False)
    assert await store.find_reply(batch, many[0]) is None


async def test_a_plan_is_kept_whole_or_not_at_all(batch: str, store: ProviderBatchStore, engine: AsyncEngine) -> None:
    assert await store.plan("me", make_part(batch, 0), ["a"], {}, {})
    with pytest.raises(Exception, match="refused a statement"):
        await store.plan("me", make_part(batch, 0, requests=7), ["b", "a"], {}, {})
    assert (await store.parts(batch))[0].requests == 0
    assert await store.planned(batch, ["b"]) == {}


# Replies


async def test_the_first_reply_stays_and_what_was_not_asked_is_left_out(batch: str, store: ProviderBatchStore) -> None:
    await store.plan("me", make_part(batch), ["a", "b"], {"c": b"cached"}, {})
    await store.keep(batch, {"a": b"one", "c": b"other", "x": b"stranger"})
    await store.keep(batch, {"a": b"two"})
    await store.keep(batch, {})
    assert await store.find_reply(batch, "a") == KeptReply(b"one", bought=True)
    assert await store.find_reply(batch, "b") is None
    assert await store.find_reply(batch, "c") == KeptReply(b"cached", bought=False)
    assert await store.find_reply(batch, "x") is None
    assert await store.planned(batch, ["a", "b", "c"]) == {"a": None, "b": 0, "c": None}


async def test_replies_are_their_batches_own(held: HeldBatches, batch: str, store: ProviderBatchStore) -> None:
    other = await held.add(BatchOptions(mode="provider-batch"), [])
    await store.lease(other, "me", 60)
    for one in (batch, other):
        await store.plan("me", make_part(one), ["a"], {}, {})
    await store.keep(batch, {"a": b"mine"})
    assert await store.find_reply(other, "a") is None


# Erasure


async def test_calls_made_for_a_plan_are_noted_once_and_stay_as_long_as_the_batch(
    batch: str, held: HeldBatches, store: ProviderBatchStore
) -> None:
    await store.plan("me", make_part(batch), [], {}, {"t1": 3, "t2": 0})
    await store.plan("me", make_part(batch), [], {}, {"t2": 4, "t3": 5, "t1": 1})
    assert sorted(await store.calls(batch)) == ["t1", "t2", "t3"]
    assert await store.take_characters(batch, []) == 0
    assert await store.take_characters(batch, ["t1", "t2", "unknown"]) == 8
    assert await store.take_characters(batch, ["t1", "t2", "t3"]) == 5
    assert await store.take_characters(batch, ["t1", "t2", "t3"]) == 0
    await store.forget(batch)
    assert sorted(await store.calls(batch)) == ["t1", "t2", "t3"]
    await held.erase(batch)
    assert await store.calls(batch) == []


async def test_what_belongs_to_a_batch_goes_with_it(
    batch: str, held: HeldBatches, store: ProviderBatchStore, engine: AsyncEngine
) -> None:
    await store.plan("me", make_part(batch), ["a"], {"b": b"reply"}, {})
    assert await sizes(engine) == [1, 1, 2, 0]
    await held.erase(batch)
    assert await sizes(engine) == [0, 0, 0, 0]
    assert not await store.save("me", make_part(batch))
    await store.keep(batch, {"a": b"late"})
    assert await sizes(engine) == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("state", "remains"),
    [
        ("planned", []),
        ("uploading", [Leftover("name", "saiten-batch1-0-2.jsonl")]),
        (
            "uploaded",
            [Leftover("file", "f1"), Leftover("tags", '{"saiten": "batch1", "part": "0", "round": "2"}')],
        ),
        ("submitted", [Leftover("batch", "b1")]),
        ("ended", [Leftover("file", "f1"), Leftover("file", "f2"), Leftover("file", "f3")]),
        ("done", []),
    ],
)
async def test_what_stands_at_the_provider_is_left_over(
    batch: str, store: ProviderBatchStore, engine: AsyncEngine, state: PartState, remains: list[Leftover]
) -> None:
    ids = {
        "uploaded": {"file_id": "f1"},
        "submitted": {"file_id": "f1", "provider_batch_id": "b1"},
        "ended": {"file_id": "f1", "provider_batch_id": "b1", "output_file_id": "f2", "error_file_id": "f3"},
        "done": {"file_id": "f1", "provider_batch_id": "b1", "output_file_id": "f2", "error_file_id": "f3"},
    }
    part = make_part(batch, 0, state, round=2, **ids.get(state, {}))
    assert list_remains(part) == remains
    await store.plan("me", part, ["a"], {}, {})
    await store.forget(batch)
    found = await store.leftovers(10, 60)
    assert sorted(found, key=str) == sorted(remains, key=str)
    assert (await sizes(engine))[:3] == [0, 0, 0]
    assert not await store.save("me", part)


async def test_forgetting_twice_is_forgetting_once(batch: str, store: ProviderBatchStore) -> None:
    await store.save("me", make_part(batch, 0, "submitted", provider_batch_id="b1"))
    await asyncio.gather(store.forget(batch), store.forget(batch), store.forget("nothing"))
    assert await store.leftovers(10, 60) == [Leftover("batch", "b1")]


async def test_finished_batches_are_over_until_they_are_forgotten(
    batch: str, held: HeldBatches, store: ProviderBatchStore
) -> None:
    others = [await held.add(BatchOptions(mode="provider-batch"), []) for _ in range(3)]
    for other in others:
        await store.lease(other, "me", 60)
    for other, status in zip(others, ("completed", "cancelled", "paused"), strict=True):
        await held.put_status(other, status)
    assert sorted(await store.over(10)) == others[:2]
    assert len(await store.over(1)) == 1
    await store.forget(others[0])
    assert await store.over(10) == [others[1]]


# Leftovers


async def test_leftovers_are_kept_once_and_settled(batch: str, store: ProviderBatchStore) -> None:
    left = [Leftover("file", "f1"), Leftover("file", "f2")]
    await store.save("me", make_part(batch), left)
    await store.save("me", make_part(batch), left)
    assert sorted(await store.leftovers(10, 60), key=str) == left
    assert len(await store.leftovers(1, 60)) == 1
    await store.settle(left[0], removed=True)
    assert await store.leftovers(10, 60) == left[1:]


async def test_a_leftover_that_stays_rests_and_comes_after_the_others(
    batch: str, store: ProviderBatchStore, clock: Clock
) -> None:
    await store.save("me", make_part(batch), [Leftover("file", "f1")])
    await store.settle(Leftover("file", "f1"), removed=False)
    assert await store.leftovers(10, 60) == []
    clock.advance(61)
    await store.save("me", make_part(batch), [Leftover("file", "f2")])
    assert await store.leftovers(10, 60) == [Leftover("file", "f2"), Leftover("file", "f1")]


async def test_a_batch_that_a_part_claims_is_no_leftover(batch: str, store: ProviderBatchStore, clock: Clock) -> None:
    await store.leave([Leftover("batch", "b1"), Leftover("batch", "b2")])
    assert await store.leftovers(10, 60) == []
    clock.advance(61)
    await store.renew(batch, "me", 60)
    await store.save("me", make_part(batch, 0, "submitted", provider_batch_id="b1"))
    assert await store.leftovers(10, 60) == [Leftover("batch", "b2")]


async def test_an_erasure_and_a_plan_at_once_do_not_block_each_other(
    held: HeldBatches, store: ProviderBatchStore, engine: AsyncEngine
) -> None:
    for _ in range(10):
        batch_id = await held.add(BatchOptions(mode="provider-batch"), [])
        await store.lease(batch_id, "me", 60)
        keys = [f"{number:064x}" for number in range(300)]
        plans = (store.plan("me", make_part(batch_id, number), keys[number::8], {}, {}) for number in range(8))
        await asyncio.gather(*plans, held.erase(batch_id))
    assert await sizes(engine) == [0, 0, 0, 0]
