"""Monitors as callers make, change and read them."""

from __future__ import annotations

import asyncio
import builtins
import json
import secrets
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Row

from saiten.core.messages import Message
from saiten_server.core.dialogue import CHECKED
from saiten_server.core.errors import InvalidRequest, NotFound, PriceUnknown, UnknownRubric
from saiten_server.core.evaluation import JudgeOptions
from saiten_server.core.rubric import Rubric
from saiten_server.core.validation import validate
from saiten_server.monitors.sinks.store import OutboxStore
from saiten_server.monitors.sinks.values import SinkKeys
from saiten_server.monitors.store.monitors import AspectNames, MonitorStore, Place, name_window
from saiten_server.monitors.traces.service import TraceIntake
from saiten_server.monitors.traces.values import TraceRules
from saiten_server.monitors.values import (
    Alarm,
    LiveResult,
    MeasureState,
    MeasureValue,
    Monitor,
    MonitorChange,
    MonitorOptions,
    StoredMonitor,
    Window,
)
from saiten_server.runs.summaries import Bounds, bounds_of
from saiten_server.scoring.rubrics.files import RubricSource
from saiten_server.scoring.subject import check_unit

if TYPE_CHECKING:
    from saiten_server.stats.observations import Floats


@dataclass(kw_only=True, eq=False)
class MonitorService:
    """Monitors within the caller's project. Methods raise NotFound for a monitor that is not in the project,
    InvalidRequest, InvalidDocument, UnknownRubric, PriceUnknown and StoreError."""

    store: MonitorStore
    intake: TraceIntake
    rubrics: RubricSource
    sinks: SinkKeys
    outbox: OutboxStore
    now: Callable[[], datetime]
    new_id: Callable[[str], str]
    has_price: Callable[[str, JudgeOptions], bool]
    """Whether the price of judging by a rubric is known."""
    new_salt: Callable[[], str] = secrets.token_hex
    """Decides who is sampled. Those who send conversations may not know it."""

    async def make(self, project: str, options: MonitorOptions, *, api_key: str | None = None) -> Monitor:
        """Makes a monitor; `api_key` is the id of the key that pays for its runs."""
        now = self.now()
        pinned = self._pin(options)
        monitor = Monitor(id=self.new_id("mo_"), version=1, created_at=now, updated_at=now, options=pinned)
        made = StoredMonitor(monitor, project, self.new_salt(), epoch=1, api_key=api_key)
        await self.store.create(made)
        await self._set_rules(project)
        return await self.show(project, monitor.id)

    async def change(self, project: str, monitor_id: str, changes: MonitorChange) -> Monitor:
        """Changes the options that are given, as a new version."""
        given = changes.model_dump(mode="json", include=changes.model_fields_set)

        def merge(before: MonitorOptions) -> MonitorOptions:
            # Lengths were checked as the body was read; a null in the place of what must be there shows here.
            return self._pin(validate(MonitorOptions, {**before.model_dump(mode="json"), **given}, CHECKED))

        if not await self.store.change(project, monitor_id, merge, self._name_aspects, self.now()):
            raise no_monitor(monitor_id)
        await self._set_rules(project)
        return await self.show(project, monitor_id)

    def _pin(self, options: MonitorOptions) -> MonitorOptions:
        """The options with the rubric's version, so that all results are by the same."""
        rubric = self.rubrics.get(options.rubric)
        check_unit(rubric, "conversation")
        self.sinks.require(options)
        if options.budget_usd_per_day is not None and not self.has_price(rubric.name, options.judge):
            raise PriceUnknown(Message("budget-price-unknown-here"), pointer="/budget_usd_per_day")
        if options.alarm is not None:
            require_aspects(rubric, options.alarm.aspects or ())
        return options.model_copy(update={"rubric": rubric.name})

    async def find(self, project: str, monitor_id: str) -> StoredMonitor:
        """The monitor as it is now."""
        found = await self.store.find(project, monitor_id, self.now())
        if found is None:
            raise no_monitor(monitor_id)
        return found

    async def show(self, project: str, monitor_id: str) -> Monitor:
        """The monitor with what became of what its sinks were to get."""
        stored = await self.find(project, monitor_id)
        return stored.monitor.model_copy(update={"sinks": tuple(await self.outbox.states(stored))})

    async def remove(self, project: str, monitor_id: str) -> None:
        """Removes it. Its runs stay, and end with what is in them."""
        if not await self.store.remove(project, monitor_id, self.now()):
            raise no_monitor(monitor_id)
        await self._set_rules(project)

    async def _set_rules(self, project: str) -> None:
        """Has the project's conversations read and closed as its monitors need it. Looks again after it has written:
        another caller may have changed a monitor in between, and written before."""
        rules = None
        while rules != (found := merge_rules(await self.store.list_all(self.now(), project))):
            rules = found
            await self.intake.set_rules(project, rules)

    async def windows(
        self, project: str, monitor_id: str, *, before: Place | None, limit: int
    ) -> Sequence[tuple[str, Window]]:
        """Its windows, the newest first, each with its name among those that begin at its time."""
        options = (await self.find(project, monitor_id)).options
        rows = await self.store.windows(monitor_id, before=before, limit=limit)
        scored = await self.store.scored({row.run for row in rows if row.run is not None})
        described = await asyncio.to_thread(describe_windows, rows, scored, self._find_bounds(options))
        return [(name_window(row), one) for row, one in zip(rows, described, strict=True)]

    def _name_aspects(self, options: MonitorOptions) -> AspectNames:
        """What the rubric calls its aspects; nothing where it is gone."""
        try:
            return {aspect.id: {**aspect.name} for aspect in self.rubrics.get(options.rubric).aspects}
        except UnknownRubric:
            return {}

    def _find_bounds(self, options: MonitorOptions) -> Bounds:
        """The ends of the scales of the rubric; none where it is gone."""
        try:
            return bounds_of(self.rubrics.get(options.rubric))
        except UnknownRubric:
            return {}

    async def results(
        self, project: str, monitor_id: str, *, before: Place | None, limit: int
    ) -> Sequence[tuple[str, LiveResult]]:
        """What it saw of conversations, the newest first."""
        await self.find(project, monitor_id)
        return await self.store.conversations(monitor_id, before=before, limit=limit)

    async def alarms(
        self, project: str, monitor_id: str, *, before: Place | None, limit: int
    ) -> tuple[Sequence[MeasureState], Sequence[Alarm]]:
        """How each measure stands, and the alarms, the newest first."""
        await self.find(project, monitor_id)
        states = await self.store.states(monitor_id)
        return states, await self.store.alarms(monitor_id, before=before, limit=limit)

    # Last, for its name hides the type's from whatever stands below

    async def list(self, project: str) -> builtins.list[Monitor]:
        """The project's monitors, newest first."""
        return [one.monitor for one in await self.store.list(project, self.now())]


def no_monitor(monitor_id: str) -> NotFound:
    """The error for a monitor that there is not."""
    return NotFound(Message("monitor-not-found", id=monitor_id[:64]))


def require_aspects(rubric: Rubric, names: Sequence[str]) -> None:
    """Raises InvalidRequest for a name that no aspect of the rubric has."""
    known = [aspect.id for aspect in rubric.aspects]
    for number, name in enumerate(names):
        if name not in known:
            detail = Message("alarm-aspect-unknown", name=name[:64], rubric=rubric.name, aspects=", ".join(known))
            raise InvalidRequest(detail, pointer=f"/alarm/aspects/{number}")


def merge_rules(monitors: Sequence[StoredMonitor]) -> TraceRules:
    """What a project's conversations are read and closed by. One ends for all monitors at once: after the longest time
    without a turn, and at the fewest turns. What any of them covers is covered."""
    if not monitors:
        return TraceRules()
    every = [one.options for one in monitors]
    return TraceRules(
        idle_seconds=max(one.idle_seconds for one in every),
        max_turns=min(one.max_turns for one in every),
        attributes=tuple(sorted({name for one in every for name in one.attributes})),
        redact=tuple(sorted({kind for one in every for kind in one.redact})),
        watched_since=min(one.monitor.created_at for one in monitors),
    )


def describe_windows(rows: Sequence[Row[Any]], scored: Sequence[Row[Any]], bounds: Bounds) -> list[Window]:
    """The windows with their figures. numpy is loaded here."""
    by_run = defaultdict[str, list[Row[Any]]](list)
    for one in scored:
        by_run[one.batch_id].append(one)
    return [describe_window(row, by_run.get(row.run, []), bounds) for row in rows]


def describe_window(row: Row[Any], scored: Sequence[Row[Any]], bounds: Bounds) -> Window:
    """A window with the mean of each aspect over its sample, and the rate of faulty turns."""
    rated = [(1 / one.probability, json.loads(one.scores)) for one in scored]
    names = sorted({name for _, own in rated for name in own})
    faulty = [
        (1 / one.probability, 100 * one.faulty, one.answers) for one in scored if one.faulty is not None and one.answers
    ]
    findings = json.loads(row.findings)
    return Window(
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        system=row.system,
        build=row.build,
        run=row.run,
        open=not row.sealed,
        conversations=row.conversations,
        sampled=row.sampled,
        thinned=row.thinned,
        answers=row.answers,
        turns_mean=row.turns / row.conversations if row.conversations else None,
        errors=row.errors,
        latency_seconds_mean=row.latency_seconds / row.timed if row.timed else None,
        findings={code: 100 * count / row.answers for code, count in findings.items() if row.answers},
        aspects={
            name: measure([(weight, own[name], 1.0) for weight, own in rated if name in own], bounds.get(name))
            for name in names
        },
        faulty_turns=measure(faulty, PERCENT, is_rate=True),
    )


FEWEST = 6
"""Conversations of an interval."""


PERCENT = (0.0, 100.0)


def measure(
    observed: Sequence[tuple[float, float, float]], bounds: tuple[float, float] | None, *, is_rate: bool = False
) -> MeasureValue:
    """The ratio of sums of values and sizes, each conversation weighted, from (weight, value, size), with the interval
    that the run has: over conversations, within `bounds`, and none where all are alike unless it is a rate."""
    import numpy as np

    from saiten_server.stats.resampling import estimate_mean, estimate_rate

    if not observed:
        return MeasureValue(value=None, n=0)
    table: Floats = np.array(observed, dtype=float)
    weight, value, size = table.T
    sums, sizes = weight * value, weight * size
    weighted = bool(np.ptp(weight))
    if is_rate and bounds is not None:
        found = estimate_rate(sums, sizes, bounds=bounds, weighted=weighted)
    else:
        found = estimate_mean(sums, sizes, bounds=bounds, weighted=weighted)
    few = len(observed) < FEWEST
    return MeasureValue(value=found.mean, interval=None if few else found.interval, n=len(observed))
