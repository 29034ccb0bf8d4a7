"""What a transaction does with the spans that arrive: each goes to its conversation, once.

A span without a conversation's id belongs to that which another span of its trace names, and until one does to its
trace.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from pydantic_core import to_json
from sqlalchemy import and_, delete, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from saiten_server.monitors.traces.tables import (
    HEAD,
    UNREAD,
    conversation,
    counted,
    live_conversations,
    live_counts,
    live_spans,
    live_traces,
    of_trace,
    span,
)
from saiten_server.monitors.traces.values import SpanRow, TraceRules
from saiten_server.platform.sql import engine as db
from saiten_server.platform.sql.engine import insert_into, insert_or_ignore
from saiten_server.platform.sql.sizes import add_bytes, count_bytes

MOST_SPANS = 2_000
"""Of a conversation. More of them are refused."""

MOST_TEXT_BYTES = 16 * 1024 * 1024
"""Of the texts of a conversation."""

SPAN_BYTES = 200
"""What a row of a span takes beside its text."""

CONVERSATIONS_AT_ONCE = 500
"""Conversations of one statement."""

MOST_UNREAD = 100
"""Unknown conventions of a project that are remembered."""


@dataclass(frozen=True)
class Arrived:
    """What one body brings to a project. `unread` are counts by library and names of attributes."""

    project: str
    rows: Sequence[SpanRow]
    at: datetime
    rules: TraceRules
    counts: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[tuple[str, str], int] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Kept:
    """What became of a body: how many spans were stored, were there before, came late, or were too many for their
    conversation; and the digests of the texts that are stored now."""

    stored: int = 0
    known: int = 0
    late: int = 0
    refused: int = 0
    texts: list[int] = field(default_factory=list)


def name_id(project: str, name: str, *, is_trace: bool = False) -> str:
    """The id of a conversation by its name, or of one that only its trace names."""
    text = json.dumps([project, "trace" if is_trace else "name", name])
    return f"lc_{hashlib.sha256(text.encode()).hexdigest()[:32]}"


@dataclass
class Group:
    """The rows of one conversation in a transaction, with the conversation's row where there is one. `taken` are the
    rows that it has room for, by their keys; `refused` counts the others."""

    project: str
    name: str
    trace: str | None
    rules: TraceRules
    at: datetime
    head: Any | None = None
    rows: list[tuple[SpanRow, Kept]] = field(default_factory=list)
    taken: dict[str, tuple[SpanRow, Kept]] = field(default_factory=dict)
    refused: int = 0

    @property
    def is_late(self) -> bool:
        """Whether spans arrive too late for their conversation."""
        head = self.head
        if head is None or head.state == "open":
            return False
        grace = timedelta(seconds=self.rules.grace_seconds)
        return bool(head.state == "done" or head.closed_at is None or self.at - head.closed_at > grace)

    def take_rows(self) -> None:
        """Takes the rows that the conversation has room for."""
        spans, size = (self.head.spans + self.head.late, self.head.bytes) if self.head is not None else (0, 0)
        for row, own in self.rows:
            if row.key in self.taken:
                own.known += 1
            elif spans >= MOST_SPANS or size > MOST_TEXT_BYTES:
                own.refused += 1
                self.refused += 1
            else:
                self.taken[row.key] = (row, own)
                spans, size = spans + 1, size + len(row.said)

    def count(self, stored: Collection[str]) -> Counter[str]:
        """What the stored rows, given by their keys, add to the conversation's row; tells their bodies."""
        sums = Counter({"refused": self.refused})
        late = self.is_late
        for key, (row, own) in self.taken.items():
            if key not in stored:
                own.known += 1
                continue
            own.stored += 1
            own.late += late
            own.texts += row.fresh
            counts = {"late": 1} if late else {"spans": 1, "answers": row.answers}
            sums.update({"bytes": count_bytes(row.said) + SPAN_BYTES, **counts})
        return sums

    def describe(self, key: str, sums: Counter[str], stored: Collection[str]) -> dict[str, Any]:
        """What is added to the conversation's row, and its state: one that was closed is open again, unless the rows
        are late."""
        told = read_attributes(self.head)
        for name, (row, _) in self.taken.items():
            told |= row.attributes if name in stored else {}
        return {
            "id": key,
            "project": self.project,
            "name": self.name,
            "trace": self.trace,
            "first_at": self.at,
            "last_at": self.at,
            "version": 1,
            "count_at": max(1, self.rules.max_turns // 2),
            "attributes": write_attributes(told),
            **state_of(self.head if self.is_late or not sums["spans"] else None),
            **{name: sums[name] for name in ("spans", "answers", "late", "refused", "bytes")},
        }


def state_of(head: Any | None) -> dict[str, Any]:
    """The columns that tell a conversation's state: as they are, or those of an open one."""
    if head is None:
        return {"state": "open", "closed_at": None, "owner": None, "lease_until": None}
    return {name: getattr(head, name) for name in ("state", "closed_at", "owner", "lease_until")}


async def keep_bodies(connection: AsyncConnection, bodies: Sequence[Arrived]) -> Sequence[Kept]:
    """Stores what these bodies bring, each span once."""
    kept = [Kept() for _ in bodies]
    homes = await find_homes(connection, bodies)
    groups: dict[str, Group] = {}
    for body, own in zip(bodies, kept, strict=True):
        for row in body.rows:
            place_row(groups, homes, body, row, own)
    added = await keep_groups(connection, groups)
    await keep_counts(connection, bodies)
    await add_bytes(connection, added)
    return kept


@dataclass(frozen=True)
class Home:
    """The conversation that spans go to; `trace` where only that names it."""

    id: str
    name: str
    trace: str | None = None


Homes = Mapping[tuple[str, str], Home]
"""By project and trace, of spans that name no conversation."""


async def find_homes(connection: AsyncConnection, bodies: Sequence[Arrived]) -> Homes:
    """Where spans go that name no conversation. What a body tells of a trace is remembered, and what was stored of it
    before moves along."""
    named: dict[tuple[str, str], str] = {}
    wanted: set[tuple[str, str]] = set()
    for body in bodies:
        for trace, name in body.named.items():
            named.setdefault((body.project, trace), name)
        for row in body.rows:
            if row.conversation:
                named.setdefault((body.project, row.trace), row.conversation)
            wanted.add((body.project, row.trace))
    found = await read_homes(connection, wanted | named.keys())
    fresh = {place: Home(name_id(place[0], name), name) for place, name in sorted(named.items()) if place not in found}
    if fresh:
        at = bodies[0].at
        rows = [
            {"project": project, "trace": trace, "conversation_id": home.id, "name": home.name, "seen_at": at}
            for (project, trace), home in fresh.items()
        ]
        await connection.execute(insert_or_ignore(connection, live_traces), rows)
        await join_traces(connection, fresh)
    return found | fresh


async def read_homes(connection: AsyncConnection, places: Collection[tuple[str, str]]) -> dict[tuple[str, str], Home]:
    """The homes of traces that are known."""
    by_project: dict[str, list[str]] = defaultdict(list)
    for project, trace in places:
        by_project[project].append(trace)
    found: dict[tuple[str, str], Home] = {}
    for project, traces in by_project.items():
        for some in db.cut_pieces(traces, CONVERSATIONS_AT_ONCE):
            query = select(of_trace.trace, of_trace.conversation_id, of_trace.name)
            rows = await connection.execute(query.where(of_trace.project == project, of_trace.trace.in_(some)))
            found |= {(project, row.trace): Home(row.conversation_id, row.name) for row in rows}
    return found


async def join_traces(connection: AsyncConnection, fresh: Homes) -> None:
    """Moves what was stored of traces before their conversations were known, unless monitors are done with it or at
    it."""
    olds = {name_id(project, trace, is_trace=True): home for (project, trace), home in fresh.items()}
    free = or_(conversation.state == "open", and_(conversation.state == "closed", conversation.owner.is_(None)))
    for some in db.cut_pieces(sorted(olds), CONVERSATIONS_AT_ONCE):
        query = select(*HEAD).where(conversation.id.in_(some), free).order_by(conversation.id).with_for_update()
        for row in (await connection.execute(query)).all():
            await join_trace(connection, row, olds[row.id])


async def join_trace(connection: AsyncConnection, row: Any, home: Home) -> None:
    """Moves a conversation's spans to another one, and removes it."""
    target = (await connection.execute(select(*HEAD).where(conversation.id == home.id).with_for_update())).one_or_none()
    late = target is not None and target.state == "done"
    head = row if target is None else target if late else None
    moved = select(sa.literal(home.id), span.key, span.received_at, sa.literal(late), span.said)
    names = ["conversation_id", "key", "received_at", "late", "said"]
    into = insert_into(connection, live_spans).from_select(names, moved.where(span.conversation_id == row.id))
    await connection.execute(into.on_conflict_do_nothing())
    await connection.execute(delete(live_spans).where(span.conversation_id == row.id))
    await connection.execute(delete(live_conversations).where(conversation.id == row.id))
    told = read_attributes(row) | (read_attributes(target) if target is not None else {})
    values = {**row._mapping, "id": home.id, "name": home.name, "trace": None, **state_of(head)}
    if late:
        values |= {"late": row.spans, "spans": 0, "answers": 0}
    await connection.execute(merge_conversations(connection), [values | {"attributes": write_attributes(told)}])


async def join_named(connection: AsyncConnection, ids: Collection[str]) -> None:
    """Moves what belongs to traces whose conversation another process has learned meanwhile."""
    query = (
        select(conversation.project, conversation.trace)
        .join(live_traces, and_(of_trace.project == conversation.project, of_trace.trace == conversation.trace))
        .where(conversation.id.in_(ids), conversation.state == "open")
    )
    places = [(row.project, row.trace) for row in (await connection.execute(query)).all()]
    if places:
        await join_traces(connection, await read_homes(connection, places))


def place_row(groups: dict[str, Group], homes: Homes, body: Arrived, row: SpanRow, own: Kept) -> None:
    """Adds a row to the group of its conversation."""
    project = body.project
    if row.conversation:
        home = Home(name_id(project, row.conversation), row.conversation)
    else:
        alone = Home(name_id(project, row.trace, is_trace=True), row.trace, row.trace)
        home = homes.get((project, row.trace), alone)
    group = groups.setdefault(home.id, Group(project, home.name, home.trace, body.rules, body.at))
    group.rows.append((row, own))


async def keep_groups(connection: AsyncConnection, groups: Mapping[str, Group]) -> Mapping[str, int]:
    """Stores the rows of each conversation that are not stored; returns the bytes that each project takes more."""
    for some in db.cut_pieces(sorted(groups), CONVERSATIONS_AT_ONCE):
        query = select(*HEAD).where(conversation.id.in_(some)).order_by(conversation.id).with_for_update()
        for head in (await connection.execute(query)).all():
            groups[head.id].head = head
    rows = []
    for key, group in sorted(groups.items()):
        group.take_rows()
        common = {"conversation_id": key, "received_at": group.at, "late": group.is_late}
        rows += [{**common, "key": name, "said": row.said} for name, (row, _) in sorted(group.taken.items())]
    stored: dict[str, set[str]] = defaultdict(set)
    if rows:
        into = insert_or_ignore(connection, live_spans).returning(span.conversation_id, span.key)
        for row in await connection.execute(into, rows):
            stored[row.conversation_id].add(row.key)
    added: Counter[str] = Counter()
    heads = []
    for key, group in sorted(groups.items()):
        sums = group.count(stored[key])
        added[group.project] += sums["bytes"]
        if any(sums.values()):
            heads.append(group.describe(key, sums, stored[key]))
    if heads:
        await connection.execute(merge_conversations(connection), heads)
    return added


def merge_conversations(connection: AsyncConnection) -> Any:
    """Adds to a conversation's row, or makes it."""
    into = insert_into(connection, live_conversations)
    old, new = conversation, into.excluded
    added = {name: old[name] + new[name] for name in ("version", "spans", "answers", "late", "refused", "bytes")}
    replaced = {name: new[name] for name in ("state", "closed_at", "lease_until", "owner", "attributes")}
    times = {
        "first_at": sa.case((new.first_at < old.first_at, new.first_at), else_=old.first_at),
        "last_at": sa.case((new.last_at > old.last_at, new.last_at), else_=old.last_at),
    }
    return into.on_conflict_do_update(index_elements=["id"], set_={**added, **replaced, **times})


async def keep_counts(connection: AsyncConnection, bodies: Iterable[Arrived]) -> None:
    """Adds to what was left out of the projects' spans."""
    sums: dict[tuple[str, str, str], int] = defaultdict(int)
    abouts: dict[tuple[str, str, str], str] = {}
    at = None
    for body in bodies:
        at = body.at
        for what, count in body.counts.items():
            sums[body.project, what, ""] += count
        for about, count in body.unread.items():
            text = json.dumps(about)
            key = (body.project, UNREAD, hashlib.sha256(text.encode()).hexdigest()[:16])
            sums[key] += count
            abouts[key] = text
    for key in await list_excess(connection, abouts):
        sums[key[0], UNREAD, "other"] += sums.pop(key)
        abouts[key[0], UNREAD, "other"] = json.dumps(["other", ""])
    rows = [
        {"project": key[0], "what": key[1], "key": key[2], "about": abouts.get(key, ""), "count": count, "last_at": at}
        for key, count in sorted(sums.items())
        if count
    ]
    if rows:
        into = insert_into(connection, live_counts)
        values = {"count": counted["count"] + into.excluded["count"], "last_at": into.excluded.last_at}
        added = into.on_conflict_do_update(index_elements=[*live_counts.primary_key], set_=values)
        await connection.execute(added, rows)


async def list_excess(
    connection: AsyncConnection, abouts: Mapping[tuple[str, str, str], str]
) -> Sequence[tuple[str, str, str]]:
    """Those of the unknown conventions that are new where a project has many: they are counted together."""
    excess: list[tuple[str, str, str]] = []
    for project in sorted({key[0] for key in abouts}):
        query = select(counted.key).where(counted.project == project, counted.what == UNREAD)
        known = set((await connection.execute(query)).scalars())
        fresh = [key for key in abouts if key[0] == project and key[2] not in known]
        excess += fresh[max(0, MOST_UNREAD - len(known)) :]
    return excess


def read_attributes(row: Any | None) -> dict[str, str]:
    """The attributes of a conversation's row."""
    return {} if row is None else dict(json.loads(row.attributes))


def write_attributes(attributes: Mapping[str, str]) -> str:
    """Attributes as they are stored, in the form in which an erasure looks for them."""
    return to_json(dict(attributes)).decode()
