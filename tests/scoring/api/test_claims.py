"""A claim on an Idempotency-Key: renewed while the work lasts, and let go when it fails."""

import asyncio
from contextlib import suppress

import pytest
from fastapi import Request
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.errors import StoreUnavailable
from saiten_server.platform.sql.engine import read
from saiten_server.platform.sql.tables import idempotency_keys
from saiten_server.scoring import idempotency
from saiten_server.scoring.idempotency import claimed, show_life
from saiten_server.scoring.store import KEY_SECONDS, EvaluationStore, StoredAnswer
from tests.support.faults import words
from tests.support.waiting import LIMIT_SECONDS

KEY = "k1"
REQUEST = Request({"type": "http", "path": "/v1/batches", "headers": [], "state": {"project": "team"}})


class RenewingStore(EvaluationStore):
    """Counts renewals, fails those that it is told to, and lets `on_renewal` see each."""

    def __init__(self, engine: AsyncEngine, fails: int = 0) -> None:
        super().__init__(engine)
        self.fails = fails
        self.renewals = 0

    async def renew_key(self, project: str, key: str) -> None:
        self.renewals += 1
        if self.renewals <= self.fails:
            raise StoreUnavailable(words("gone"))


async def claims(engine: AsyncEngine) -> list[tuple[str, str]]:
    """Project and key of all that are held."""
    async with read(engine) as connection:
        rows = await connection.execute(select(idempotency_keys.c.project, idempotency_keys.c.key))
        return [(row.project, row.key) for row in rows]


class Enough(Exception):
    """Ends a loop that has no end."""


async def test_a_claim_is_renewed_four_times_in_its_life_whatever_the_store_does(sqlite_engine: AsyncEngine) -> None:
    store, slept = RenewingStore(sqlite_engine, fails=2), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) > 4:
            raise Enough

    with pytest.raises(Enough):
        await show_life(store, "team", KEY, sleep=sleep)
    assert slept == [KEY_SECONDS / 4] * 5
    assert store.renewals == 4


async def test_renewing_has_ended_when_the_work_has(sqlite_engine: AsyncEngine) -> None:
    store, before = RenewingStore(sqlite_engine), asyncio.all_tasks()
    async with claimed(REQUEST, store, KEY, "d") as replayed:
        assert replayed is None
        assert len(asyncio.all_tasks() - before) == 1
    assert asyncio.all_tasks() == before
    assert await claims(sqlite_engine) == [("team", KEY)]
    assert await store.claim_key("team", KEY, "other") == StoredAnswer("d", None, None)


@pytest.mark.parametrize("error", [ValueError("x"), asyncio.CancelledError()])
async def test_work_that_fails_ends_the_renewal_and_then_frees_the_key(
    error: BaseException, sqlite_engine: AsyncEngine
) -> None:
    before, at_release = asyncio.all_tasks(), list[int]()

    class Watching(RenewingStore):
        async def release_key(self, project: str, key: str) -> None:
            at_release.append(len(asyncio.all_tasks() - before))
            await super().release_key(project, key)

    store = Watching(sqlite_engine)
    with pytest.raises(type(error)):
        async with claimed(REQUEST, store, KEY, "d"):
            raise error
    # Renewed after its release, it might be another's.
    assert at_release == [0]
    assert await claims(sqlite_engine) == []


async def test_a_renewal_that_loses_its_cancellation_holds_no_answer_up(
    monkeypatch: pytest.MonkeyPatch, sqlite_engine: AsyncEngine
) -> None:
    renewing, before = asyncio.Event(), asyncio.all_tasks()

    class Losing(RenewingStore):
        async def renew_key(self, project: str, key: str) -> None:
            renewing.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    monkeypatch.setattr(idempotency, "KEY_SECONDS", 0.004)
    async with asyncio.timeout(LIMIT_SECONDS), claimed(REQUEST, Losing(sqlite_engine), KEY, "d"):
        await renewing.wait()
        monkeypatch.setattr(idempotency, "KEY_SECONDS", KEY_SECONDS)
    assert asyncio.all_tasks() == before


async def test_without_a_key_nothing_is_claimed(sqlite_engine: AsyncEngine) -> None:
    store, before = RenewingStore(sqlite_engine), asyncio.all_tasks()
    async with claimed(REQUEST, store, None, "d") as replayed:
        assert replayed is None
        assert asyncio.all_tasks() == before
    assert await claims(sqlite_engine) == []
