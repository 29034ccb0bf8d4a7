"""Sequences of builds, on each database."""

import asyncio

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.comparison.sequences import SequenceStore
from saiten_server.comparison.values import GateSequence, SequenceDrop
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.runs.store.batches import BatchStore
from tests.support.batches import START, make_batch

BEGUN = GateSequence(name="夜間", baseline="ba_0", alpha=0.05, started_at=START)


async def test_places_are_given_once_and_kept(engine: AsyncEngine) -> None:
    store, batches = SequenceStore(engine), BatchStore(engine)
    for number in range(4):
        await make_batch(batches, f"ba_{number}", 1)
    places = await asyncio.gather(
        *(store.enter("team", BEGUN, f"ba_{number}", START) for number in (1, 2, 3) for _ in range(2))
    )
    assert sorted(places) == [1, 1, 2, 2, 3, 3]
    drops = {"overall": SequenceDrop(night=2, first=1, size=0.5)}
    await store.settle("team", BEGUN.name, 2, "fail", drops)
    await store.settle("team", BEGUN.name, 3, "inconclusive", {})
    found = await store.find("team", BEGUN.name)
    assert found is not None
    assert [one.verdict for one in found.builds] == ["inconclusive", "fail", "inconclusive"]
    assert [one.drops for one in found.builds] == [None, drops, {}]
    assert [one.name for one in await store.list("team")] == ["夜間"]

    for project, batch, fault in (("team", "ba_9", NotFound), ("rivals", "ba_1", NotFound)):
        with pytest.raises(fault):
            await store.enter(project, BEGUN, batch, START)
    with pytest.raises(InvalidRequest):
        await store.enter("team", BEGUN.model_copy(update={"baseline": "ba_1"}), "ba_2", START)
    assert await store.find("rivals", BEGUN.name) is None
    assert not await store.remove("rivals", BEGUN.name)

    erased = found.builds[0].batch
    assert erased is not None
    await batches.erase("team", erased)
    left = await store.find("team", BEGUN.name)
    assert left is not None
    assert [one.batch is None for one in left.builds] == [True, False, False]
    await batches.erase("team", "ba_0")
    assert await store.find("team", BEGUN.name) is None
