"""Results of sampled conversations come back from their runs, and alarms are judged by what all measures add up to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Row, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten_server.core.conversation import ANY_CODE, FAULT_KINDS, FAULTY_TURNS, KIND, FaultyTurns
from saiten_server.core.evaluation import Evaluation
from saiten_server.monitors.sinks.store import post
from saiten_server.monitors.sinks.values import SentScores, address_alarm, address_scores
from saiten_server.monitors.sinks.writing import make_score
from saiten_server.monitors.store import tables as t
from saiten_server.monitors.store.alarms import Scales, judge_alarms
from saiten_server.monitors.store.monitors import read_monitor
from saiten_server.monitors.store.sums import Counted, add_sums, slot_of
from saiten_server.monitors.values import (
    Alarm,
    StoredMonitor,
)
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.tables import batches, evaluations, result_figures
from saiten_server.runs.store.rows import read_faulty
from saiten_server.scoring.store import read_evaluation

if TYPE_CHECKING:
    pass

RESULTS_AT_ONCE = 100
"""Results of one transaction."""

own, seen, state, alarm = t.monitors.c, t.monitor_conversations.c, t.monitor_states.c, t.monitor_alarms.c
result, figure = evaluations.c, result_figures.c


@dataclass(frozen=True)
class ScoredConversation:
    """A sampled conversation whose result is there; `evaluation` is None where it has failed."""

    row: Row[Any]
    evaluation: Evaluation | None
    faulty: FaultyTurns | None

    @property
    def ratings(self) -> dict[str, float]:
        """The mean ratings by aspect."""
        aspects = self.evaluation.aspects if self.evaluation else {}
        return {name: one.mean for name, one in aspects.items() if one.mean is not None}

    def tell(self, stored: StoredMonitor, now: datetime) -> SentScores:
        """The result as it is sent: the ratings with the judge's reasons, and the faulty turns."""
        row, aspects = self.row, self.evaluation.aspects if self.evaluation else {}
        made = [
            make_score(row.evaluation_id, name, one.mean, label=one.label, explanation=one.reason)
            for name, one in aspects.items()
            if one.mean is not None
        ]
        if (faults := self.faults) is not None:
            made.append(make_score(row.evaluation_id, FAULTY_TURNS, float(faults)))
        return SentScores(
            evaluation=row.evaluation_id or "",
            monitor=stored.monitor.id,
            session=None if row.name == row.trace_id else row.name,
            trace_id=row.trace_id,
            span_id=row.span_id,
            response=row.response_id,
            scored_at=now,
            scores=tuple(made),
        )

    @property
    def faults(self) -> int | None:
        """System turns with any finding; None where that is not known."""
        turns = self.faulty and self.faulty.turns_of(ANY_CODE)
        return None if turns is None else len(turns)


@dataclass(frozen=True)
class Folded:
    """What a fold found: the results, alarms that were raised or resolved with it, and whether more may wait."""

    scored: Sequence[ScoredConversation] = ()
    alarms: Sequence[Alarm] = ()
    more: bool = False


async def fold_results(engine: AsyncEngine, monitor_id: str, scales: Scales, now: datetime) -> Folded:
    """Takes in the results that are there since the last time, and judges the alarms where anything changed. Nothing
    where the monitor is gone."""
    async with db.change(engine) as connection:
        query = select(t.monitors).where(own.id == monitor_id).with_for_update()
        row = (await connection.execute(query)).one_or_none()
        if row is None:
            return Folded()
        stored = read_monitor(row, 0, 0.0)
        rows = await read_arrived(connection, monitor_id)
        scored = await asyncio.to_thread(lambda: [read_scored(one) for one in rows])
        for one in scored:
            await keep_scored(connection, one, now)
        mine = [one for one in scored if one.row.epoch == stored.epoch]
        await add_sums(connection, stored, [counted for one in mine for counted in count_judged(stored, one)])
        alarms = await judge_alarms(connection, stored, scales, now)
        outgoing = [
            each for one in scored if one.evaluation for each in address_scores(stored.monitor, one.tell(stored, now))
        ]
        for raised in alarms:
            outgoing += address_alarm(stored.monitor, raised, scales.names.get(raised.measure, {}))
        await post(connection, stored, outgoing, now)
    return Folded(scored, alarms, len(rows) == RESULTS_AT_ONCE)


async def read_arrived(connection: AsyncConnection, monitor_id: str) -> Sequence[Row[Any]]:
    """The rows of conversations that waited and have a result now, or whose run is gone."""
    there = (result.batch_id == seen.batch_id) & (result.position == seen.position)
    figures = (figure.batch_id == seen.batch_id) & (figure.position == seen.position)
    query = (
        select(
            t.monitor_conversations,
            result.id.label("evaluation_id"),
            result.record,
            figure.status.label("result_status"),
            figure.system_turns,
            figure.findings.label("result_findings"),
            batches.c.id.label("run"),
        )
        .outerjoin(batches, batches.c.id == seen.batch_id)
        .outerjoin(evaluations, there)
        .outerjoin(result_figures, figures)
        .where(seen.monitor_id == monitor_id, seen.waiting)
        .where(result.id.is_not(None) | batches.c.id.is_(None) | (batches.c.status == "cancelled"))
    )
    return (await connection.execute(query.order_by(seen.closed_at).limit(RESULTS_AT_ONCE))).all()


def read_scored(row: Row[Any]) -> ScoredConversation:
    """The conversation with its result."""
    evaluation = read_evaluation(row.record) if row.record else None
    return ScoredConversation(row, evaluation, read_faulty(row.system_turns, row.result_findings))


async def keep_scored(connection: AsyncConnection, one: ScoredConversation, now: datetime) -> None:
    """Notes the result with its conversation."""
    values = {
        "waiting": False,
        "scored_at": now,
        "status": one.row.result_status or "gone",
        "scores": json.dumps(one.ratings) if one.evaluation else None,
        "faulty": one.faults,
    }
    this = (seen.monitor_id == one.row.monitor_id) & (seen.conversation_id == one.row.conversation_id)
    await connection.execute(update(t.monitor_conversations).where(this).values(values))


def count_judged(stored: StoredMonitor, one: ScoredConversation) -> list[Counted]:
    """What the judge found, as measures, each weighted by the inverse of the probability of being sampled."""
    day, slot = slot_of(stored.options.window, one.row.closed_at)
    weight = 1 / one.row.probability
    found = [Counted(name, day, slot, value, 1.0, weight) for name, value in one.ratings.items()]
    faulty = one.faulty
    if faulty is not None and faulty.system_turns:
        rates = {
            FAULTY_TURNS: faulty.turns_of(ANY_CODE),
            **{KIND + kind: faulty.turns_of(KIND + kind) for kind in FAULT_KINDS},
        }
        size = float(faulty.system_turns)
        found += [Counted(name, day, slot, len(at), size, weight) for name, at in rates.items() if at is not None]
    return found


async def forget_skipped(engine: AsyncEngine, before: datetime) -> int:
    """Removes the rows of conversations from before that were not sampled: they are counted in their windows."""
    old = (seen.closed_at < before) & (seen.batch_id.is_(None)) & ~seen.waiting
    return await db.execute(engine, delete(t.monitor_conversations).where(old))
