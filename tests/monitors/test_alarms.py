"""Alarms of a monitor: not enough, ok, raised with what explains it, and resolved."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from saiten_server.monitors.service import MonitorService
from saiten_server.monitors.sinks.values import SentAlarm
from saiten_server.monitors.store.sums import Counted, add_sums, slot_of
from saiten_server.monitors.values import Alarm, AlarmOptions, MeasureState, MonitorChange
from saiten_server.platform.sql import engine as db
from tests.support.batches import START
from tests.support.live import PROJECT, MonitorBench, make_live

OPTIONS = {"aspects": ["overall"], "reference_days": 7, "alpha": 0.05}


async def add_days(bench: MonitorBench, monitor_id: str, first: int, days: int, mean: float, per_day: int = 30) -> None:
    """Adds what that many conversations a day would have added to the monitor's sums."""
    random = np.random.default_rng(first)
    stored = await bench.service.find(PROJECT, monitor_id)
    counted = []
    for day in range(first, first + days):
        place = slot_of("day", START + timedelta(days=day))
        counted += [Counted("overall", *place, float(value), 1.0, 1.0) for value in random.normal(mean, 1, per_day)]
        counted += [Counted("kind:unclear-intention", *place, 0.0, 2.0, 1.0) for _ in range(per_day)]
    async with db.change(bench.engine) as connection:
        await add_sums(connection, stored, counted)


async def close_one(bench: MonitorBench, name: str, rating: float, *, faulty: int = 0) -> None:
    """One more conversation ends, is scored, and is looked at."""
    bench.live.close(make_live(name, at=bench.clock()))
    await bench.work.do_round()
    await bench.score(rating, faulty=faulty)
    await bench.work.do_round()


async def look(service: MonitorService, monitor_id: str) -> tuple[dict[str, MeasureState], list[Alarm]]:
    states, alarms = await service.alarms(PROJECT, monitor_id, before=None, limit=10)
    return {one.measure: one for one in states}, [*alarms]


async def take_alarms(bench: MonitorBench, *, settle: bool = False) -> list[str]:
    """What is to be told of alarms now; with `settle` the webhook takes it."""
    (waiting,) = await bench.outbox.backlog(bench.clock())
    taken = await bench.outbox.take(waiting.place, bench.clock(), 9)
    for one in taken if settle else ():
        await bench.outbox.settle(one)
    return [one.body.event for one in taken if isinstance(one.body, SentAlarm)]


async def test_an_alarm_is_raised_explained_and_resolved(bench: MonitorBench) -> None:
    monitor = await bench.make(alarm=OPTIONS)
    await close_one(bench, "first", 7.0)
    states, alarms = await look(bench.service, monitor.id)
    assert (states["overall"].state, alarms) == ("not-enough", [])
    await add_days(bench, monitor.id, 0, 7, 7.0)
    await add_days(bench, monitor.id, 7, 2, 7.0)
    bench.clock.move(86_400 * 8)
    await close_one(bench, "fine", 7.0)
    states, alarms = await look(bench.service, monitor.id)
    assert (states["overall"].state, alarms) == ("ok", [])
    bench.clock.move(86_400 * 3)
    await close_one(bench, "worst", 1.0, faulty=1)
    await add_days(bench, monitor.id, 9, 3, 5.0)
    await close_one(bench, "bad", 2.0)
    states, (alarm,) = await look(bench.service, monitor.id)
    assert states["overall"].state == "alarm"
    assert alarm.measure == "overall"
    assert alarm.resolved_at is None
    assert alarm.difference < -1
    assert alarm.interval is not None
    assert alarm.interval[1] < 0
    assert alarm.since >= START.replace(hour=0) + timedelta(days=9)
    assert (alarm.conversations[0].conversation, alarm.conversations[0].value) == ("worst", 1.0)
    assert [one.kind for one in alarm.kinds] == ["unclear-intention"]
    # The same alarm goes on, and is not raised again.
    await close_one(bench, "again", 1.0)
    assert len((await look(bench.service, monitor.id))[1]) == 1
    await add_days(bench, monitor.id, 12, 2, 7.0)
    bench.clock.move(86_400 * 2)
    await close_one(bench, "mended", 7.0)
    states, (alarm,) = await look(bench.service, monitor.id)
    assert states["overall"].state == "ok"
    assert alarm.resolved_at == bench.clock()
    # What it was about raises no other.
    await close_one(bench, "still", 7.0)
    states, alarms = await look(bench.service, monitor.id)
    assert (states["overall"].state, len(alarms)) == ("ok", 1)


async def test_rules_are_watched_where_the_judge_sees_nothing(quick: MonitorBench) -> None:
    monitor = await quick.make(rate=0.0, alarm=OPTIONS)
    await close_one(quick, "first", 7.0)
    states, _ = await look(quick.service, monitor.id)
    assert "finding:repetition" in states


async def test_another_rubric_begins_another_reference(quick: MonitorBench) -> None:
    monitor = await quick.make(alarm=OPTIONS)
    await close_one(quick, "first", 7.0)
    await add_days(quick, monitor.id, 0, 7, 7.0)
    await quick.service.change(PROJECT, monitor.id, MonitorChange(rubric="ja-conversation@1"))
    assert (await look(quick.service, monitor.id))[0] == {}
    found = await quick.service.find(PROJECT, monitor.id)
    assert (found.epoch, found.reference_from) == (2, None)


async def test_another_reference_ends_the_alarms_that_are_on_and_says_so(bench: MonitorBench) -> None:
    hook = {"kind": "webhook", "url": "http://hooks.example/a"}
    monitor = await bench.make(alarm=OPTIONS, send_to=[hook])
    await close_one(bench, "first", 7.0)
    await add_days(bench, monitor.id, 0, 7, 7.0)
    await add_days(bench, monitor.id, 7, 3, 5.0)
    bench.clock.move(86_400 * 9)
    await close_one(bench, "worst", 1.0)
    states, (alarm,) = await look(bench.service, monitor.id)
    assert (states["overall"].state, alarm.resolved_at) == ("alarm", None)
    bench.clock.move(1)
    changed = AlarmOptions.model_validate({**OPTIONS, "alpha": 0.01})
    await bench.service.change(PROJECT, monitor.id, MonitorChange(alarm=changed))
    states, (alarm,) = await look(bench.service, monitor.id)
    assert (states, alarm.resolved_at) == ({}, bench.clock())
    assert await take_alarms(bench) == ["raised"]
    # Another process does not tell that it is over while this one tells that it was raised.
    assert await take_alarms(bench) == []
    bench.clock.move(61)
    assert await take_alarms(bench, settle=True) == ["raised"]
    assert await take_alarms(bench, settle=True) == ["resolved"]


async def test_no_alarm_is_told_of_once_the_last_monitor_is_gone(quick: MonitorBench) -> None:
    registry = quick.work.instruments.telemetry.registry
    monitor = await quick.make(alarm=OPTIONS)
    await quick.work.do_round()
    assert registry.get_sample_value("saiten_monitor_alarms", {"monitor": monitor.id}) == 0
    await quick.service.remove(PROJECT, monitor.id)
    await quick.work.do_round()
    assert registry.get_sample_value("saiten_monitor_alarms", {"monitor": monitor.id}) is None


async def test_without_alarms_nothing_is_looked_at(quick: MonitorBench) -> None:
    monitor = await quick.make()
    await close_one(quick, "first", 7.0)
    assert await look(quick.service, monitor.id) == ({}, [])
