"""Evaluations that are saved together share a transaction, and nothing else."""

import asyncio
from collections.abc import Sequence

import pytest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.errors import StoreError, StoreFull, StoreUnavailable
from saiten_server.platform.sql.engine import open_engine
from saiten_server.scoring.store import MOST_SAVED_ROWS, EvaluationRow, EvaluationStore
from tests.support.faults import words
from tests.support.records import make_record


def watch_commits(engine: AsyncEngine) -> list[object]:
    """Grows with each commit."""
    commits: list[object] = []
    event.listen(engine.sync_engine, "commit", commits.append)
    return commits


async def test_those_that_come_together_are_one_transaction(engine: AsyncEngine) -> None:
    store, commits = EvaluationStore(engine), watch_commits(engine)
    await asyncio.gather(*(store.save("team", make_record(f"ev_{number}")) for number in range(20)))
    assert len(commits) == 1
    other = open_engine(engine.url.render_as_string(hide_password=False))
    found = [await EvaluationStore(other).find("team", f"ev_{number}") for number in range(20)]
    assert found == [make_record(f"ev_{number}") for number in range(20)]
    await other.dispose()


async def test_no_transaction_is_larger_than_allowed(engine: AsyncEngine) -> None:
    store, commits = EvaluationStore(engine), watch_commits(engine)
    await asyncio.gather(*(store.save("team", make_record(f"ev_{number}")) for number in range(MOST_SAVED_ROWS + 1)))
    assert len(commits) == 2


async def test_one_that_the_database_refuses_takes_no_other_with_it(engine: AsyncEngine) -> None:
    store = EvaluationStore(engine)
    await store.save("team", make_record("ev_taken"))
    wanted = ["ev_1", "ev_taken", "ev_2"]
    results = await asyncio.gather(*(store.save("team", make_record(name)) for name in wanted), return_exceptions=True)
    assert [type(result) for result in results] == [type(None), StoreError, type(None)]
    assert await store.find("team", "ev_1") is not None
    assert await store.find("team", "ev_2") is not None


async def test_one_that_cannot_be_encoded_takes_no_other_with_it(engine: AsyncEngine) -> None:
    store = EvaluationStore(engine)
    results = await asyncio.gather(
        store.save("team", make_record("ev_1")),
        store.save("\ud800", make_record("ev_2")),
        store.save("team", make_record("ev_3")),
        return_exceptions=True,
    )
    assert results[0] is results[2] is None
    # As each database's driver calls it.
    assert isinstance(results[1], (StoreError, ValueError))
    assert await store.find("team", "ev_3") is not None


class Broken(EvaluationStore):
    """Keeps the rows that it was to write; fails where `fails` says so."""

    def __init__(self, fails: dict[str, Exception]) -> None:
        super().__init__(open_engine("sqlite+aiosqlite://"))
        self.fails = fails
        self.tried: list[list[str]] = []

    async def _insert(self, rows: Sequence[EvaluationRow]) -> None:
        names = [row["id"] for row in rows]
        self.tried.append(names)
        for name in names:
            if name in self.fails:
                raise self.fails[name]


async def save_all(saving: EvaluationStore, *names: str) -> list[BaseException | None]:
    return await asyncio.gather(*(saving.save("team", make_record(name)) for name in names), return_exceptions=True)


async def test_a_database_that_is_away_is_asked_once_for_all() -> None:
    away = StoreUnavailable(words("away"))
    saving = Broken({"b": away})
    assert await save_all(saving, "a", "b", "c") == [away, away, away]
    assert saving.tried == [["a", "b", "c"]]


async def test_where_there_is_no_space_for_one_there_may_be_for_others() -> None:
    full = StoreFull(words("full"))
    saving = Broken({"b": full})
    assert await save_all(saving, "a", "b", "c") == [None, full, None]
    assert saving.tried == [["a", "b", "c"], ["a"], ["b"], ["c"]]


async def test_one_alone_is_not_tried_twice() -> None:
    refused = StoreError(words("refused"))
    saving = Broken({"a": refused})
    assert await save_all(saving, "a") == [refused]
    assert saving.tried == [["a"]]


async def test_where_it_goes_away_meanwhile_the_rest_is_told() -> None:
    away = StoreUnavailable(words("away"))
    saving = Broken({"b": StoreError(words("refused")), "c": away})
    assert [type(one) for one in await save_all(saving, "a", "b", "c")] == [type(None), StoreError, StoreUnavailable]


@pytest.mark.parametrize("callers", [1, 8])
async def test_whoever_is_cancelled_takes_no_other_along(engine: AsyncEngine, callers: int) -> None:
    store = EvaluationStore(engine)
    saves = [asyncio.create_task(store.save("team", make_record(f"ev_{number}"))) for number in range(callers + 1)]
    await asyncio.sleep(0)
    saves[0].cancel()
    await asyncio.gather(*saves[1:])
    for number in range(1, callers + 1):
        assert await store.find("team", f"ev_{number}") is not None


async def test_closing_waits_for_what_nobody_waits_for_any_more(engine: AsyncEngine) -> None:
    store = EvaluationStore(engine)
    saving = asyncio.create_task(store.save("team", make_record()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    saving.cancel()
    await store.close()
    assert await store.find("team", "ev_1") is not None
