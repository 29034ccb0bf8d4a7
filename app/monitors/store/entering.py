"""Closed conversations enter a monitor, each once: they are counted, and those that are sampled join the run of their
window."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, Update, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten_server.core.batch import BatchConversation
from saiten_server.core.conversation import RULE_CODES
from saiten_server.core.model import digest
from saiten_server.monitors.sampling import attributes_of, count_halvings, draw
from saiten_server.monitors.store import tables as t
from saiten_server.monitors.store.monitors import read_monitor, read_spending
from saiten_server.monitors.store.sums import Counted, add_sums, slot_of
from saiten_server.monitors.traces.commits import write_attributes
from saiten_server.monitors.traces.values import LiveConversation
from saiten_server.monitors.values import Span, StoredMonitor
from saiten_server.platform.sql import engine as db
from saiten_server.runs.store.growing import GrowingBatch, begin_growing, grow
from saiten_server.scoring.admission import add_costs

SPANS: Mapping[Span, timedelta] = {"hour": timedelta(hours=1), "day": timedelta(days=1)}

own, seen, window = t.monitors.c, t.monitor_conversations.c, t.monitor_windows.c


@dataclass(frozen=True)
class ClosedConversation:
    """A conversation that has ended, with what rules found in it: the number of system turns by code. `item` is what
    is judged; None where no judge can read it. `expected_usd` is what judging it should cost, None if not known."""

    live: LiveConversation
    closed_at: datetime
    findings: Mapping[str, int]
    item: BatchConversation | None
    expected_usd: float | None = 0.0

    @property
    def latency_seconds(self) -> float | None:
        latencies = self.live.latencies
        return sum(latencies) / len(latencies) if latencies else None


LINE_DIGITS = 48

WindowKey = tuple[datetime, str]
"""When a window begins, and the digest of system and build."""

MakeBatch = Callable[[StoredMonitor, "WindowPlace"], GrowingBatch]


@dataclass(frozen=True)
class WindowPlace:
    """The window of a conversation."""

    starts_at: datetime
    ends_at: datetime
    system: str | None
    build: str | None

    @property
    def key(self) -> WindowKey:
        return self.starts_at, digest([self.system, self.build])[:LINE_DIGITS]


def begin_window(span: Span, moment: datetime) -> datetime:
    """The beginning of the window that the moment is in."""
    starts_at = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return starts_at.replace(hour=0) if span == "day" else starts_at


def window_of(span: Span, conversation: ClosedConversation) -> WindowPlace:
    """The window that the conversation belongs to, by when it ended."""
    starts_at = begin_window(span, conversation.closed_at)
    return WindowPlace(starts_at, starts_at + SPANS[span], conversation.live.system, conversation.live.build)


@dataclass(frozen=True)
class EnteredConversations:
    """The batches that have grown, and what became of each conversation that was new."""

    grown: Sequence[str] = ()
    outcomes: Sequence[str] = ()


async def enter_conversations(
    engine: AsyncEngine,
    monitor_id: str,
    closed: Sequence[ClosedConversation],
    make_batch: MakeBatch,
    now: datetime,
) -> EnteredConversations:
    """Takes the conversations in that the monitor has not seen. Does nothing where the monitor is gone."""
    async with db.change(engine) as connection:
        query = select(t.monitors).where(own.id == monitor_id).with_for_update()
        row = (await connection.execute(query)).one_or_none()
        if row is None:
            return EnteredConversations()
        ids = [one.live.id for one in closed]
        known = select(seen.conversation_id).where(seen.monitor_id == monitor_id, seen.conversation_id.in_(ids))
        old = set((await connection.execute(known)).scalars())
        new = [one for one in closed if one.live.id not in old]
        if not new:
            return EnteredConversations()
        _, spent_usd = (await read_spending(connection, [row.id], now))[row.id]
        stored = read_monitor(row, 0, spent_usd)
        entering = Entering(connection=connection, stored=stored, make_batch=make_batch, now=now)
        return await entering.take_in(new, spent_usd)


@dataclass(frozen=True, kw_only=True)
class Entering:
    """The conversations that enter a monitor in one transaction, which has locked it. `make_batch` says what a new run
    of a window is begun with."""

    connection: AsyncConnection
    stored: StoredMonitor
    make_batch: MakeBatch
    now: datetime

    async def take_in(self, new: Sequence[ClosedConversation], spent_usd: float | None) -> EnteredConversations:
        """Takes them in. `spent_usd` is what today's runs cost with what is in
        hand."""
        rows = self._draw(new, spent_usd)
        grown = []
        for place in {window_of(self.stored.options.window, one) for one in new}:
            mine = [(one, row) for one, row in zip(new, rows, strict=True) if self._key_of(one) == place.key]
            taken = [
                (tell_probability(one.item, row["probability"]), row)
                for one, row in mine
                if row["waiting"] and one.item is not None
            ]
            batch_id, first = await self._join(place, [item for item, _ in taken])
            for offset, (_, row) in enumerate(taken):
                row |= {"batch_id": batch_id, "position": first + offset}
            grown += [batch_id] if taken and batch_id else []
            await self._count(place, mine)
        await self.connection.execute(insert(t.monitor_conversations), rows)
        counted = [each for one in new for each in count_rules(self.stored, one)]
        await add_sums(self.connection, self.stored, counted)
        if self.stored.reference_from is None:
            first_day = min(one.closed_at for one in new).astimezone(UTC).toordinal()
            this = update(t.monitors).where(own.id == self.stored.monitor.id)
            await self.connection.execute(this.values(reference_from=first_day))
        return EnteredConversations(grown, [row["outcome"] for row in rows])

    def _draw(self, new: Sequence[ClosedConversation], spent_usd: float | None) -> list[dict[str, Any]]:
        """The rows of the conversations, sampled or not."""
        rows = []
        options = self.stored.options
        for one in new:
            # With its own price: what does not fit into what is left must not be begun.
            halvings = count_halvings(add_costs(spent_usd, one.expected_usd), options.budget_usd_per_day)
            drawn = draw(options, self.stored.salt, one.live, halvings)
            outcome = "unreadable" if drawn.outcome == "sampled" and one.item is None else drawn.outcome
            if outcome == "sampled":
                spent_usd = add_costs(spent_usd, one.expected_usd)
            rows.append(describe_conversation(self.stored, one, outcome, drawn.probability, self.now))
        return rows

    def _key_of(self, one: ClosedConversation) -> WindowKey:
        return window_of(self.stored.options.window, one).key

    async def _join(self, place: WindowPlace, items: Sequence[BatchConversation]) -> tuple[str | None, int]:
        """Adds the items to the run of the window, which is opened where there is none, or where its run has ended;
        returns the batch and the position of the first."""
        found = await self._find_open(place)
        if found is None:
            found = await self._open(place)
        if not items:
            return None, 0
        if found.batch_id is not None and (first := await grow(self.connection, found.batch_id, items)) is not None:
            return found.batch_id, first
        batch = self.make_batch(self.stored, place)
        await begin_growing(self.connection, batch, self.now)
        first = await grow(self.connection, batch.id, items) or 0
        if found.batch_id is not None:  # its run was cancelled, or erased
            await self.connection.execute(self._update(place, found.part).values(sealed=True))
            found = await self._open(place)
        await self.connection.execute(self._update(place, found.part).values(batch_id=batch.id))
        return batch.id, first

    def _same(self, place: WindowPlace) -> tuple[ColumnElement[bool], ...]:
        starts_at, line = place.key
        return window.monitor_id == self.stored.monitor.id, window.starts_at == starts_at, window.line == line

    def _update(self, place: WindowPlace, part: int) -> Update:
        return update(t.monitor_windows).where(*self._same(place), window.part == part)

    async def _find_open(self, place: WindowPlace) -> Row[Any] | None:
        query = select(t.monitor_windows).where(*self._same(place), ~window.sealed)
        return (await self.connection.execute(query)).one_or_none()

    async def _open(self, place: WindowPlace) -> Row[Any]:
        """Opens the window, or its next part."""
        parts = (await self.connection.execute(select(window.part).where(*self._same(place)))).scalars().all()
        counts = dict.fromkeys(("conversations", "sampled", "thinned", "turns", "answers", "errors", "timed"), 0)
        row = {
            "monitor_id": self.stored.monitor.id,
            "starts_at": place.starts_at,
            "ends_at": place.ends_at,
            "line": place.key[1],
            "part": max(parts, default=-1) + 1,
            "touched_at": self.now,
            "system": place.system,
            "build": place.build,
            "batch_id": None,
            "sealed": False,
            "latency_seconds": 0.0,
            "findings": "{}",
            **counts,
        }
        await self.connection.execute(insert(t.monitor_windows), row)
        query = select(t.monitor_windows).where(*self._same(place), ~window.sealed)
        return (await self.connection.execute(query)).one()

    async def _count(self, place: WindowPlace, mine: Sequence[tuple[ClosedConversation, Mapping[str, Any]]]) -> None:
        """Counts the conversations in the open window."""
        query = select(t.monitor_windows).where(*self._same(place), ~window.sealed)
        row = (await self.connection.execute(query)).one()
        findings = Counter[str](json.loads(row.findings))
        for one, _ in mine:
            findings.update({code: count for code, count in one.findings.items() if count})
        latencies = [value for one, _ in mine for value in one.live.latencies]
        outcomes = Counter(str(said["outcome"]) for _, said in mine)
        summed = ("turns", "answers", "errors")
        values = {
            "conversations": row.conversations + len(mine),
            "sampled": row.sampled + outcomes["sampled"],
            "thinned": row.thinned + outcomes["thinned"],
            **{name: row._mapping[name] + sum(said[name] for _, said in mine) for name in summed},
            "timed": row.timed + len(latencies),
            "latency_seconds": row.latency_seconds + sum(latencies),
            "findings": json.dumps(findings),
            "touched_at": self.now,
        }
        await self.connection.execute(self._update(place, row.part).values(values))


def tell_probability(item: BatchConversation, probability: float) -> BatchConversation:
    """The item with the probability with which it was sampled in its metadata, where results and files show it."""
    return item.model_copy(update={"metadata": {**item.metadata, "probability": f"{probability:.6g}"}})


def count_rules(stored: StoredMonitor, one: ClosedConversation) -> list[Counted]:
    """What rules found, as measures."""
    if not one.live.answers:
        return []
    day, slot = slot_of(stored.options.window, one.closed_at)
    return [
        Counted(f"finding:{code}", day, slot, one.findings.get(code, 0), one.live.answers, 1.0) for code in RULE_CODES
    ]


def describe_conversation(
    stored: StoredMonitor, one: ClosedConversation, outcome: str, probability: float, now: datetime
) -> dict[str, Any]:
    """The row of a conversation."""
    live = one.live
    answers = [turn for turn in live.turns if turn.role == "system"]
    last = answers[-1] if answers else None
    return {
        "monitor_id": stored.monitor.id,
        "conversation_id": live.id,
        "name": live.name,
        "version": stored.monitor.version,
        "epoch": stored.epoch,
        "turns": len(live.turns),
        "answers": live.answers,
        "errors": live.errors,
        "closed_at": one.closed_at,
        "entered_at": now,
        "scored_at": None,
        "system": live.system,
        "build": live.build,
        "attributes": write_attributes(attributes_of(live)),
        "findings": json.dumps({code: count for code, count in one.findings.items() if count}),
        "outcome": outcome,
        "probability": probability,
        "latency_seconds": one.latency_seconds,
        "expected_usd": one.expected_usd if outcome == "sampled" else None,
        "waiting": outcome == "sampled",
        "batch_id": None,
        "position": None,
        "trace_id": last and last.trace_id,
        "span_id": last and last.span_id,
        "response_id": last and last.response_id,
        "faulty": None,
        "status": None,
        "scores": None,
    }
