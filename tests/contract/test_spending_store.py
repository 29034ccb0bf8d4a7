"""What keys have spent, on each database."""

import asyncio
from datetime import datetime, timedelta, timezone

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.governance.store import SpendingStore
from tests.support.batches import START


@pytest.fixture
def spending(engine: AsyncEngine) -> SpendingStore:
    return SpendingStore(engine)


async def test_charges_add_up_by_key(spending: SpendingStore) -> None:
    assert await spending.spent_usd("key_1", START) == 0
    for cost in (0.25, 0.5):
        await spending.charge("key_1", cost, START)
    await spending.charge("key_2", 4.0, START)
    assert await spending.spent_usd("key_1", START) == 0.75
    assert await spending.spent_usd("key_2", START) == 4.0


async def test_a_day_ends_at_midnight_utc(spending: SpendingStore) -> None:
    last = datetime(2026, 11, 21, 23, 59, 59, tzinfo=START.tzinfo)
    await spending.charge("key_1", 1.0, last)
    assert await spending.spent_usd("key_1", last + timedelta(seconds=1)) == 0
    # The same moment on a clock in Tokyo, where it is the 22nd already.
    assert await spending.spent_usd("key_1", last.astimezone(timezone(timedelta(hours=9)))) == 1.0


async def test_charges_at_once_are_all_counted(spending: SpendingStore) -> None:
    await asyncio.gather(*(spending.charge("key_1", 0.125, START) for _ in range(40)))
    assert await spending.spent_usd("key_1", START) == 5.0


async def test_charges_at_once_go_to_their_own_keys_and_days(spending: SpendingStore) -> None:
    tomorrow = START + timedelta(days=1)
    charges = [(key, now) for key in ("key_2", "key_1") for now in (tomorrow, START)]
    await asyncio.gather(*(spending.charge(key, 0.5, now) for key, now in charges * 5))
    assert [await spending.spent_usd(key, now) for key, now in charges] == [2.5] * 4


async def test_nothing_is_charged_for_what_was_free(spending: SpendingStore) -> None:
    await spending.charge("key_1", 0.0, START)
    assert await spending.spent_usd("key_1", START) == 0


@pytest.mark.parametrize("key_id", ["\0", "\ud800"])
async def test_what_no_column_can_hold_has_spent_nothing(spending: SpendingStore, key_id: str) -> None:
    assert await spending.spent_usd(key_id, START) == 0


async def test_what_is_reserved_at_once_stays_within_the_limit(engine: AsyncEngine, spending: SpendingStore) -> None:
    other = SpendingStore(engine)  # of another process
    await spending.charge("key_1", 0.25, START)
    asked = [store.reserve("key_1", 0.125, 1.0, START) for store in (spending, other) for _ in range(10)]
    answers = await asyncio.gather(*asked)
    assert answers.count(None) == 6
    assert {answer for answer in answers if answer is not None} == {1.0}
    assert await spending.spent_usd("key_1", START) == 1.0


async def test_a_reservation_is_of_its_key_and_day(spending: SpendingStore) -> None:
    tomorrow = START + timedelta(days=1)
    asked = [(key, now) for key in ("key_2", "key_1") for now in (tomorrow, START)]
    answers = await asyncio.gather(*(spending.reserve(key, 0.75, 1.0, now) for key, now in asked * 2))
    assert answers == [None] * 4 + [0.75] * 4


async def test_what_was_not_needed_is_given_back(spending: SpendingStore) -> None:
    assert await spending.reserve("key_1", 1.0, 1.0, START) is None
    await spending.charge("key_1", -0.75, START)
    assert await spending.spent_usd("key_1", START) == 0.25
    assert await spending.reserve("key_1", 0.75, 1.0, START) is None


async def test_who_is_cancelled_while_reserving_has_reserved_nothing(spending: SpendingStore) -> None:
    asking = asyncio.create_task(spending.reserve("key_1", 1.0, 1.0, START))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    await spending.close()
    assert await spending.spent_usd("key_1", START) == 0
