"""Every measure of a monitor against the reference: what raises an alarm, explains it, and ends it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Row, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from saiten_server.core.conversation import FAULT_KINDS, FAULTY_TURNS, KIND
from saiten_server.core.model import digest
from saiten_server.monitors.store import tables as t
from saiten_server.monitors.store.monitors import AspectNames, begin_of, resolve_alarms
from saiten_server.monitors.store.sums import SLOTS, SUM_COLUMNS, read_days, read_reference
from saiten_server.monitors.values import (
    FINDING_MEASURES,
    Alarm,
    AlarmOptions,
    RisenKind,
    StoredMonitor,
    WorseConversation,
)
from saiten_server.platform.sql.engine import insert_or_replace

if TYPE_CHECKING:
    from saiten_server.stats.alarms import StreamLook
    from saiten_server.stats.observations import Floats

MOST_DAYS = 30
"""A change is looked for from each of so many last days on."""

SHOWN = 5
"""Conversations and kinds that explain an alarm."""

MOST_CONVERSATIONS_READ = 2_000
"""Conversations among which the worst are looked for, the newest."""

RATES = frozenset({FAULTY_TURNS, *FINDING_MEASURES})
"""Measures of which more is worse, told per 100 system turns."""

seen, state, alarm = t.monitor_conversations.c, t.monitor_states.c, t.monitor_alarms.c


@dataclass(frozen=True)
class Scales:
    """The lowest and highest level of each aspect of the rubric, and what it is called, by language."""

    aspects: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    names: AspectNames = field(default_factory=dict)


def list_measures(scales: Scales, chosen: Sequence[str] | None) -> dict[str, float]:
    """What is watched: by measure the range of its values per size. They share alpha."""
    aspects = {name: ends for name, ends in scales.aspects.items() if chosen is None or name in chosen}
    rated = {name: high - low for name, (low, high) in aspects.items()}
    return {**rated, **dict.fromkeys((FAULTY_TURNS, *FINDING_MEASURES), 1.0)}


async def judge_alarms(
    connection: AsyncConnection, stored: StoredMonitor, scales: Scales, now: datetime
) -> list[Alarm]:
    """Looks at every measure; returns the alarms that were raised or resolved. The caller has locked the monitor."""
    options, begins = stored.options.alarm, stored.reference_from
    if options is None or begins is None:
        return []
    today = now.astimezone(UTC).toordinal()
    first = begins + options.reference_days
    oldest = max(first, today - MOST_DAYS + 1)
    mine = select(t.monitor_states).where(state.monitor_id == stored.monitor.id)
    review = AlarmReview(
        connection=connection,
        stored=stored,
        options=options,
        measures=list_measures(scales, options.aspects),
        reference=await read_reference(connection, stored, begins, options.reference_days),
        days=await read_days(connection, stored, oldest, today),
        states={row.measure: row for row in await connection.execute(mine)},
        first=first,
        oldest=oldest,
        now=now,
    )
    looks = await asyncio.to_thread(review.look)
    changed = [await review.keep(measure, look) for measure, look in looks.items()]
    return [one for one in changed if one is not None]


@dataclass(frozen=True, kw_only=True)
class AlarmReview:
    """One review of all measures: the sums of the reference and of the days from `oldest` on, and how each measure
    stood before. `first` is the first day after the reference; days are ordinals."""

    connection: AsyncConnection
    stored: StoredMonitor
    options: AlarmOptions
    measures: Mapping[str, float]
    reference: Mapping[str, Floats]
    days: Mapping[str, Floats]
    states: Mapping[str, Row[Any]]
    first: int
    oldest: int
    now: datetime

    def look(self) -> dict[str, StreamLook]:
        """How each measure stands. numpy is loaded here."""
        import numpy as np

        from saiten_server.stats.alarms import RaisedAlarm, look_at_stream

        nothing = np.zeros((SLOTS[self.stored.options.window], len(SUM_COLUMNS)))
        found = {}
        for measure, width in self.measures.items():
            row = self.states.get(measure)
            skipped = max(0, (row.first_day or self.oldest) - self.oldest) if row else 0
            on = row is not None and row.alarm_id is not None
            found[measure] = look_at_stream(
                self.reference.get(measure, nothing),
                self.days.get(measure, nothing[None][:0])[skipped:],
                first=self.oldest + skipped - self.first,
                alpha=self.options.alpha / len(self.measures),
                width=width,
                worse=1 if measure in RATES else -1,
                raised=RaisedAlarm(row.raised_day - self.first, row.raised_difference) if row and on else None,
            )
        return found

    async def keep(self, measure: str, look: StreamLook) -> Alarm | None:
        """Stores how the measure stands; returns the alarm that was raised or resolved, if any."""
        before = self.states.get(measure)
        since = None if look.since is None else self.first + look.since
        low, high = look.interval or (None, None)
        lasting = ("first_day", "raised_day", "raised_difference", "alarm_id")
        row: dict[str, Any] = {
            **{name: getattr(before, name) if before else None for name in lasting},
            "monitor_id": self.stored.monitor.id,
            "measure": measure,
            "state": look.state,
            "since_day": since,
            "difference": look.difference,
            "low": low,
            "high": high,
            "n": look.count,
            "looked_at": self.now,
        }
        changed = None
        if look.resolved and row["alarm_id"] is not None:
            (changed,) = await resolve_alarms(self.connection, self.now, alarm.id == row["alarm_id"]) or (None,)
            row |= {"first_day": since, "raised_day": None, "raised_difference": None, "alarm_id": None}
        elif look.state == "alarm" and row["alarm_id"] is None and since is not None:
            changed = await self._raise(measure, look, since)
            today = self.now.astimezone(UTC).toordinal()
            row |= {"alarm_id": changed.id, "raised_day": today, "raised_difference": look.difference}
        await self.connection.execute(insert_or_replace(self.connection, t.monitor_states), row)
        return changed

    async def _raise(self, measure: str, look: StreamLook, since: int) -> Alarm:
        scale = 100.0 if measure in RATES else 1.0
        low, high = look.interval or (0.0, 0.0)
        monitor = self.stored.monitor
        found = Alarm(
            id="al_" + digest([monitor.id, self.stored.epoch, measure, self.now.isoformat()])[:24],
            measure=measure,
            raised_at=self.now,
            since=begin_of(since),
            difference=scale * (look.difference or 0.0),
            interval=(scale * low, scale * high),
            conversations_compared=look.count,
            conversations=await self._find_worst(measure, begin_of(since)),
            kinds=find_risen(self.reference, self.days, since - self.oldest),
        )
        row = {
            "id": found.id,
            "monitor_id": monitor.id,
            "raised_at": self.now,
            "resolved_at": None,
            "alarm": found.model_dump_json(),
        }
        await self.connection.execute(insert(t.monitor_alarms), row)
        return found

    async def _find_worst(self, measure: str, since: datetime) -> tuple[WorseConversation, ...]:
        """The conversations since then that speak most for the alarm."""
        query = (
            select(seen.name, seen.batch_id, seen.position, seen.scores, seen.faulty, seen.findings, seen.answers)
            .where(seen.monitor_id == self.stored.monitor.id, seen.epoch == self.stored.epoch, seen.closed_at >= since)
            .order_by(seen.closed_at.desc())
            .limit(MOST_CONVERSATIONS_READ)
        )
        rows = (await self.connection.execute(query)).all()
        valued = [(value, row) for row in rows if (value := value_of(row, measure)) is not None]
        worst = sorted(valued, key=lambda one: one[0], reverse=measure in RATES)[:SHOWN]
        return tuple(
            WorseConversation(conversation=row.name, run=row.batch_id, position=row.position, value=value)
            for value, row in worst
        )


def value_of(row: Any, measure: str) -> float | None:
    """The conversation's own value of a measure; faults per 100 system turns."""
    if measure not in RATES:
        value: float | None = (json.loads(row.scores) if row.scores else {}).get(measure)
        return value
    found = row.faulty if measure == FAULTY_TURNS else json.loads(row.findings).get(measure.removeprefix("finding:"))
    return 100 * found / row.answers if found and row.answers else None


def find_risen(reference: Mapping[str, Floats], days: Mapping[str, Floats], start: int) -> tuple[RisenKind, ...]:
    """The kinds of faults that rose most since a day, per 100 system turns."""
    found = []
    for kind in FAULT_KINDS:
        old, new = reference.get(KIND + kind), days.get(KIND + kind)
        after = None if new is None else rate_of(new[max(0, start) :])
        before = 0.0 if old is None else rate_of(old)
        if after is not None and after > before:
            found.append(RisenKind(kind=kind, before=before, after=after))
    return tuple(sorted(found, key=lambda one: one.before - one.after)[:SHOWN])


def rate_of(sums: Floats) -> float:
    """The weighted rate per 100, of sums of shape (..., sums)."""
    size = float(sums[..., 2].sum())
    return 100 * float(sums[..., 1].sum()) / size if size else 0.0
