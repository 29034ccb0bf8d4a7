"""The audit log, on each database."""

import asyncio
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.access import AuditEvent
from saiten_server.governance.store import AuditLog
from tests.support.batches import START


@pytest.fixture
def log(engine: AsyncEngine) -> AuditLog:
    return AuditLog(engine)


def make_event(target: str = "key_1", **changes: Any) -> AuditEvent:
    given = {"at": START, "project": "team", "actor": "cli:ops", "action": "key.created", "target": target}
    return AuditEvent(**{**given, **changes})


async def targets(log: AuditLog, project: str | None, **page: Any) -> list[str]:
    return [event.target for event in await log.events(project, **{"before": None, "limit": 10, **page})]


async def test_what_was_noted_is_told_as_it_was(log: AuditLog) -> None:
    event = make_event(detail={"scope": "read", "usd_per_day": 1.5, "requests_per_minute": None, "名前": ["あ", "각"]})
    await log.note(event)
    [kept] = await log.events("team", before=None, limit=10)
    assert kept.number > 0
    assert kept.model_copy(update={"number": 0}) == event


async def test_events_are_told_newest_first(log: AuditLog) -> None:
    for target in ("one", "two", "three"):
        await log.note(make_event(target))
    assert await targets(log, "team") == ["three", "two", "one"]
    numbers = [event.number for event in await log.events("team", before=None, limit=10)]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) == 3


async def test_a_page_ends_at_its_limit_and_the_next_begins_below(log: AuditLog) -> None:
    for target in ("one", "two", "three"):
        await log.note(make_event(target))
    page = await log.events("team", before=None, limit=2)
    assert [event.target for event in page] == ["three", "two"]
    assert await targets(log, "team", before=page[-1].number, limit=2) == ["one"]
    assert await targets(log, "team", before=1) == []


async def test_a_project_sees_its_own_events_and_none_sees_all(log: AuditLog) -> None:
    await log.note(make_event("mine"))
    await log.note(make_event("theirs", project="other"))
    assert await targets(log, "team") == ["mine"]
    assert await targets(log, "other") == ["theirs"]
    assert await targets(log, "nobody") == []
    assert await targets(log, None) == ["theirs", "mine"]


async def test_many_at_a_time_lose_nothing(log: AuditLog) -> None:
    await asyncio.gather(*(log.note(make_event(f"key_{number}")) for number in range(20)))
    kept = await log.events("team", before=None, limit=100)
    assert {event.target for event in kept} == {f"key_{number}" for number in range(20)}
    assert len({event.number for event in kept}) == 20


async def test_no_project_has_a_name_that_no_column_can_hold(log: AuditLog) -> None:
    await log.note(make_event())
    assert await log.events("\0", before=None, limit=10) == []
    assert await log.events("\ud800", before=None, limit=10) == []
