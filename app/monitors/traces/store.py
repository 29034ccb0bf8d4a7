"""Spans, the conversations that they belong to, and what a project's intake has left out.

A conversation's id is derived from its project and name, so that several processes agree on it without asking. A span
without a conversation's id belongs to that which another span of its trace names, and until one does to its trace.
"""

from __future__ import annotations

import asyncio
import builtins
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, and_, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from saiten_server.monitors.traces.commits import (
    CONVERSATIONS_AT_ONCE,
    MOST_SPANS,
    Arrived,
    Kept,
    join_named,
    keep_bodies,
    read_attributes,
)
from saiten_server.monitors.traces.tables import (
    HEAD,
    TRACE_SIZE,
    UNREAD,
    conversation,
    counted,
    live_conversations,
    live_counts,
    live_rules,
    live_spans,
    live_traces,
    of_trace,
    rule,
    span,
)
from saiten_server.monitors.traces.values import ConversationClaim, LiveConversation, State, StoredSpan, TraceRules
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.engine import insert_or_replace
from saiten_server.platform.sql.sizes import add_bytes
from saiten_server.platform.sql.tables import Instant, equals

if TYPE_CHECKING:
    from saiten_server.monitors.traces.assembling import Assembled

COUNTED_AT_ONCE = 20
"""Long conversations that are put together to count their turns, of one sweep."""


NAME_MARK = "conversation"
"""The mark that is the caller's name of a conversation."""


@dataclass(frozen=True)
class UnreadSpans:
    """Spans of a library that no convention reads, with the names of attributes that may hold texts."""

    scope: str
    attributes: tuple[str, ...]
    spans: int
    last_at: datetime


class LiveStore:
    """Spans and conversations by project. Raises the `Store…` errors of `saiten_server.core.errors`."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def keep(self, bodies: Sequence[Arrived]) -> Sequence[Kept]:
        """Stores what these bodies bring in one transaction, each span once."""
        async with db.change(self._engine) as connection:
            if connection.dialect.name == "postgresql":
                # A plan that is kept from when the tables were small reads all traces of the project, again and again.
                await connection.execute(sa.text("SET LOCAL plan_cache_mode = force_custom_plan"))
            return await keep_bodies(connection, bodies)

    async def set_rules(self, project: str, rules: TraceRules) -> None:
        """Replaces the project's rules, which hold for spans that arrive, and conversations that close, from now on."""
        row = {
            "project": project,
            "rules": json.dumps(asdict(rules), default=str),
            "watched_since": rules.watched_since,
        }
        await db.execute(self._engine, insert_or_replace(self._engine, live_rules), row)

    async def find_rules(self) -> Mapping[str, TraceRules]:
        """The rules of all projects that have some."""
        return {row.project: read_rules(row) for row in await db.fetch(self._engine, select(live_rules))}

    async def close_due(self, now: datetime) -> int:
        """Closes conversations that are idle or have `max_turns`, of all projects, some at a time; returns how many."""
        rules = await self.find_rules()
        idle = [
            and_(conversation.project == project, conversation.last_at <= now - timedelta(seconds=own.idle_seconds))
            for project, own in rules.items()
        ]
        usual = and_(
            conversation.project.not_in([*rules]),
            conversation.last_at <= now - timedelta(seconds=TraceRules().idle_seconds),
        )
        due = select(conversation.id).where(conversation.state == "open", or_(usual, *idle))
        closed = 0
        while found := await db.fetch_column(
            self._engine, due.order_by(conversation.last_at).limit(CONVERSATIONS_AT_ONCE)
        ):
            closed += await self._close(found, now, or_(usual, *idle))
        return closed + await self._close_long(rules, now)

    async def _close(self, ids: Sequence[str], now: datetime, condition: ColumnElement[bool]) -> int:
        """Closes those of these that are still open and for which the condition holds; those of a trace whose
        conversation has become known join it first."""
        async with db.change(self._engine) as connection:
            await join_named(connection, ids)
            closing = update(live_conversations).where(
                conversation.id.in_(ids), conversation.state == "open", condition
            )
            values = {"state": "closed", "closed_at": now, "version": conversation.version + 1}
            return int((await connection.execute(closing.values(values))).rowcount)

    async def _close_long(self, rules: Mapping[str, TraceRules], now: datetime) -> int:
        """Closes open conversations with as many turns as a conversation may have."""
        long = select(*HEAD).where(conversation.state == "open", conversation.answers >= conversation.count_at)
        closed = 0
        for row in await db.fetch(self._engine, long.limit(COUNTED_AT_ONCE)):
            most = rules.get(row.project, TraceRules()).max_turns
            turns = len((await self._assemble(row)).turns)
            this = and_(conversation.version == row.version, conversation.state == "open")
            if turns >= most:
                closed += await self._close([row.id], now, this)
                continue
            later = row.answers + max(1, (most - turns) // 2)
            statement = update(live_conversations).where(conversation.id == row.id, this).values(count_at=later)
            await db.execute(self._engine, statement)
        return closed

    async def claim(
        self, owner: str, now: datetime, *, limit: int, lease_seconds: float
    ) -> Sequence[ConversationClaim]:
        """Closed conversations of projects that are watched, not done and not claimed by another worker, oldest first.
        Each comes to one worker, and to another one only after `lease_until`."""
        until = now + timedelta(seconds=lease_seconds)
        waiting = (
            select(*HEAD)
            .join(live_rules, rule.project == conversation.project)
            .where(
                conversation.state == "closed",
                conversation.closed_at >= rule.watched_since,
                or_(conversation.lease_until.is_(None), conversation.lease_until < now),
            )
            .order_by(conversation.last_at)
            .limit(limit)
            .with_for_update(skip_locked=True, of=live_conversations)
        )
        async with db.change(self._engine) as connection:
            rows = (await connection.execute(waiting)).all()
            values = {"owner": owner, "lease_until": until}
            if rows:
                mine = conversation.id.in_([row.id for row in rows])
                await connection.execute(update(live_conversations).where(mine).values(values))
        return [ConversationClaim(await self._assemble(row), owner, until) for row in rows]

    async def finish(self, claims: Sequence[ConversationClaim]) -> int:
        """Marks the conversations done, for good, and returns how many: not those that were reopened, erased, or given
        to another worker."""
        if not claims:
            return 0
        values = {"state": "done", "owner": None, "lease_until": None}
        mine = or_(*(and_(*claim_conditions(claim)) for claim in claims))
        return int(await db.execute(self._engine, update(live_conversations).where(mine).values(values)))

    async def release(self, claim: ConversationClaim) -> None:
        """Gives the conversation back, to be claimed again."""
        values = {"owner": None, "lease_until": None}
        await db.execute(self._engine, update(live_conversations).where(*claim_conditions(claim)).values(values))

    async def find(self, project: str, conversation_id: str) -> LiveConversation | None:
        """The conversation as it is now."""
        mine = (equals(conversation.project, project), equals(conversation.id, conversation_id))
        row = await db.fetch_one(self._engine, select(*HEAD).where(*mine))
        return None if row is None else await self._assemble(row)

    async def list(
        self, project: str, *, state: State | None = None, before: tuple[datetime, str] | None = None, limit: int = 50
    ) -> Sequence[LiveConversation]:
        """The project's conversations without their turns, the newest (`first_at`, `id`) first."""
        query = select(*HEAD).where(equals(conversation.project, project))
        if state is not None:
            query = query.where(conversation.state == state)
        if before is not None:
            query = query.where(sa.tuple_(conversation.first_at, conversation.id) < sa.tuple_(*bind_place(before)))
        newest = query.order_by(conversation.first_at.desc(), conversation.id.desc()).limit(limit)
        return [read_live(row) for row in await db.fetch(self._engine, newest)]

    async def erase(self, project: str, conversation_id: str) -> bool:
        """Removes the conversation with all its spans and texts; returns whether there was one."""
        return bool(await self._remove(equals(conversation.id, conversation_id), equals(conversation.project, project)))

    async def erase_marked(self, project: str, marks: Mapping[str, str]) -> int:
        """Removes all conversations with these attributes, of which `conversation` is the caller's name of it; returns
        how many. Stored are those that the project's rules name."""
        attributes = {name: value for name, value in marks.items() if name != NAME_MARK}
        mine = [
            equals(conversation.project, project),
            *db.has_marks(self._engine, conversation.attributes, attributes),
            *([equals(conversation.name, marks[NAME_MARK])] if NAME_MARK in marks else []),
        ]
        removed = 0
        while step := await self._remove(*mine):
            removed += step
        return removed

    async def expire(self, project: str | None, before: datetime) -> int:
        """Removes conversations that nothing was added to since then, of one project or of all, and that no monitor has
        still to look at; returns how many."""
        conditions = [conversation.last_at < before, conversation.state != "open"]
        removed = 0
        while step := await self._remove(*conditions, *([conversation.project == project] if project else [])):
            removed += step
        return removed

    async def forget_traces(self, before: datetime) -> None:
        """Forgets to which conversation old traces belong."""
        async with db.change(self._engine) as connection:
            await add_bytes(connection, await remove_traces(connection, of_trace.seen_at < before))

    async def _remove(self, *conditions: ColumnElement[bool]) -> int:
        """Removes some of the conversations for which the conditions hold."""
        async with db.change(self._engine) as connection:
            found = select(conversation.id, conversation.project, conversation.bytes).where(*conditions)
            rows = (await connection.execute(found.limit(CONVERSATIONS_AT_ONCE).with_for_update())).all()
            ids = [row.id for row in rows]
            freed: Counter[str] = Counter()
            if ids:
                await connection.execute(delete(live_spans).where(span.conversation_id.in_(ids)))
                freed = await remove_traces(connection, of_trace.conversation_id.in_(ids))
                await connection.execute(delete(live_conversations).where(conversation.id.in_(ids)))
            for row in rows:
                freed[row.project] -= row.bytes
            await add_bytes(connection, freed)
        return len(rows)

    async def count_states(self) -> Mapping[str, int]:
        """The conversations of all projects by state, out of the index."""
        query = select(conversation.state, func.count()).group_by(conversation.state)
        return {row[0]: row[1] for row in await db.fetch(self._engine, query)}

    async def count(self, project: str) -> tuple[Mapping[str, int], Mapping[str, int], builtins.list[UnreadSpans]]:
        """The project's conversations by state, what its spans were or why they were left out, and the unknown
        conventions, the most frequent first."""
        mine = equals(conversation.project, project)
        by_state = select(conversation.state, func.count()).where(mine).group_by(conversation.state)
        states = {row[0]: row[1] for row in await db.fetch(self._engine, by_state)}
        rows = await db.fetch(self._engine, select(live_counts).where(equals(counted.project, project)))
        counts = {row.what: row.count for row in rows if row.what != UNREAD}
        unread = [
            UnreadSpans(about[0], tuple(about[1].split()), row.count, row.last_at)
            for row in rows
            if row.what == UNREAD and (about := json.loads(row.about))
        ]
        return states, counts, sorted(unread, key=lambda one: -one.spans)

    async def _assemble(self, row: Any) -> LiveConversation:
        """The conversation of a row, put together from its spans."""
        query = select(span.key, span.said, span.received_at)
        own = query.where(span.conversation_id == row.id, span.late.is_(False)).limit(MOST_SPANS)
        spans = [StoredSpan(*each) for each in await db.fetch(self._engine, own)]
        return await put_together(row, spans)


async def remove_traces(connection: AsyncConnection, condition: ColumnElement[bool]) -> Counter[str]:
    """Forgets to which conversations these traces belong; returns, as negative numbers, the bytes of each project."""
    sizes = select(of_trace.project, func.sum(TRACE_SIZE)).where(condition).group_by(of_trace.project)
    freed = Counter({row[0]: -int(row[1]) for row in await connection.execute(sizes)})
    if freed:
        await connection.execute(delete(live_traces).where(condition))
    return freed


def bind_place(before: tuple[datetime, str]) -> tuple[Any, Any]:
    """A place among conversations, as SQL compares it."""
    return sa.literal(before[0], Instant), sa.literal(before[1], sa.String)


def claim_conditions(claim: ConversationClaim) -> Sequence[ColumnElement[bool]]:
    """The conditions that a claim still holds."""
    return (
        conversation.id == claim.conversation.id,
        conversation.owner == claim.owner,
        conversation.version == claim.conversation.version,
        conversation.state == "closed",
    )


async def put_together(row: Any, spans: Sequence[StoredSpan]) -> LiveConversation:
    """The conversation of a row and its spans, put together in a thread."""

    def work() -> Assembled:
        from saiten_server.monitors.traces.assembling import assemble  # loads the readers of files

        return assemble(spans)

    found = await asyncio.to_thread(work)
    spoken = [turn for turn in found.turns if turn.role == "system"]
    counts = Counter((turn.system, turn.build) for turn in reversed(spoken))
    system, build = counts.most_common(1)[0][0] if counts else (None, None)
    return replace(
        read_live(row),
        turns=tuple(found.turns),
        system=system,
        build=build,
        errors=found.errors,
        tool_calls=found.tool_calls,
        repeats=found.repeats,
        refused_spans=row.refused + found.refused,
    )


def read_live(row: Any) -> LiveConversation:
    """The conversation of a row, without its turns."""
    return LiveConversation(
        id=row.id,
        project=row.project,
        name=row.name,
        state=row.state,
        version=row.version,
        turns=(),
        first_at=row.first_at,
        last_at=row.last_at,
        closed_at=row.closed_at,
        attributes=read_attributes(row),
        late_spans=row.late,
        refused_spans=row.refused,
    )


def read_rules(row: Any) -> TraceRules:
    """The rules of a row."""
    told = json.loads(row.rules)
    listed = {name: tuple(told[name]) for name in ("attributes", "redact")}
    return TraceRules(**(told | listed | {"watched_since": row.watched_since}))
