"""Retention: which projects are swept, with which bound, and that trouble ends no sweep for good."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.access import ProjectPolicy, TextKeeping
from saiten_server.core.errors import StoreUnavailable
from saiten_server.erasure.service import Retention
from saiten_server.erasure.store import TextStore
from saiten_server.governance.store import PolicyStore
from tests.support.faults import words

NOW = datetime(2026, 11, 21, 1, 0, tzinfo=UTC)


class CountingTexts(TextStore):
    """With so many records due in each project; the first calls fail as often as `failing` says."""

    def __init__(self, engine: AsyncEngine, due: dict[str, int], failing: int = 0) -> None:
        super().__init__(engine)
        self.policies = PolicyStore(engine)
        self.due = due
        self.failing = failing
        self.asked: list[tuple[str, TextKeeping, datetime, int]] = []

    async def redact(
        self, project: str, texts: TextKeeping, before: datetime, limit: int, *, under: ProjectPolicy | None = None
    ) -> int:
        assert under is not None
        assert under.texts == texts
        self.asked.append((project, texts, before, limit))
        if self.failing:
            self.failing -= 1
            raise StoreUnavailable(words("away"))
        done = min(limit, self.due.get(project, 0))
        self.due[project] = self.due.get(project, 0) - done
        return done


async def make(texts: CountingTexts, sleep=asyncio.sleep) -> Retention:
    policies = texts.policies
    await policies.save_policy("kept", ProjectPolicy(integrity="refuse"), NOW)
    await policies.save_policy("hashed", ProjectPolicy(texts="hash", after_days=2), NOW)
    await policies.save_policy("dropped", ProjectPolicy(texts="drop", after_days=0), NOW)
    return Retention(policies=policies, texts=texts, now=lambda: NOW, sleep=sleep, at_once=2)


async def test_a_sweep_does_all_that_is_due_in_steps(sqlite_engine: AsyncEngine) -> None:
    texts = CountingTexts(sqlite_engine, {"hashed": 5, "dropped": 1, "kept": 9})
    assert await (await make(texts)).sweep() == 6
    assert texts.asked == [
        *[("dropped", "drop", NOW, 2)] * 2,
        *[("hashed", "hash", NOW - timedelta(days=2), 2)] * 4,
    ]
    assert texts.due == {"hashed": 0, "dropped": 0, "kept": 9}


async def test_a_defect_ends_no_sweeping(sqlite_engine: AsyncEngine, caplog: pytest.LogCaptureFixture) -> None:
    texts, slept = CountingTexts(sqlite_engine, {"hashed": 1, "dropped": 1}), list[float]()

    async def break_first(*_: object, **__: object) -> int:
        del texts.redact
        raise ValueError("a record that nobody can read")

    async def sleep(seconds: float) -> None:
        if seconds:
            slept.append(seconds)
        # The broken one comes first, and does not keep the other from its turn in the same sweep.
        assert texts.due["hashed"] == 0
        if len(slept) == 2:
            raise asyncio.CancelledError

    texts.redact = break_first  # type: ignore[method-assign]
    with pytest.raises(asyncio.CancelledError):
        await (await make(texts, sleep)).run()
    assert texts.due == {"hashed": 0, "dropped": 0}
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        "texts that are to go stay"
    ]


async def test_a_store_that_is_away_is_asked_again(sqlite_engine: AsyncEngine) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) > 20:
            raise asyncio.CancelledError

    texts = CountingTexts(sqlite_engine, {"dropped": 3}, failing=1)
    with pytest.raises(asyncio.CancelledError):
        await (await make(texts, sleep)).run()
    assert texts.due["dropped"] == 0
