"""Takes in what bots send: bodies are decoded in a thread, one at a time, and stored in groups before they are
answered. What waits is bounded: beyond that callers are asked to come again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from saiten.core.messages import Message
from saiten_server.core.errors import Overloaded
from saiten_server.governance.store import PolicyStore
from saiten_server.monitors.traces.commits import Arrived
from saiten_server.monitors.traces.limits import DEFAULT_LIMITS, Reason, Signal, WireLimits, unpack
from saiten_server.monitors.traces.store import LiveStore
from saiten_server.monitors.traces.tables import SPAN_BYTES
from saiten_server.monitors.traces.values import Read, Redact, TraceRules
from saiten_server.platform.capability import Ground
from saiten_server.platform.coalescing import Coalescer
from saiten_server.platform.sql.engine import cut_pieces
from saiten_server.platform.sql.sizes import count_bytes
from saiten_server.platform.tasks import surviving
from saiten_server.runs.quota import StorageQuota
from saiten_server.text.personal import hide_personal

logger = logging.getLogger("saiten.traces")

RECENT_SECONDS = 5.0
"""How long rules may be out of date."""

ROWS_AT_ONCE, PIECES_AT_ONCE = 256, 4
"""Rows of a piece of a body, and pieces of one transaction: making its statements holds the event loop."""

MOST_WAITING_BYTES = 128 * 1024 * 1024
"""Of bodies that are unpacked, decoded or stored, or wait for that; a body counts with what it may hold unpacked."""

PACKED_TIMES = 8
"""How much larger a packed body is taken to be until it is unpacked. Exporters' bodies are 5 to 15 times as large."""

BUSY_SECONDS = 2.0
"""When to come again."""

CLOSING_SECONDS = 2.0
EXPIRE_SECONDS = 600.0
"""Between two looks for conversations that are to be closed, and for those that are to go."""

COUNT_SECONDS = 60.0
"""Between two counts of all of them."""


def keep_text(text: str, kinds: Collection[str]) -> str:
    """The text as it is."""
    return text


class KnownTexts:
    """Digests of texts that stored rows hold: the newest `most`, and up to as many before them. What is not among them
    is stored once more."""

    def __init__(self, most: int = 50_000) -> None:
        self._most = most
        self._new: set[int] = set()
        self._old: set[int] = set()

    def __contains__(self, digest: object) -> bool:
        return digest in self._new or digest in self._old

    def add(self, digests: Collection[int]) -> None:
        """Remembers texts, after their rows are stored."""
        self._new.update(digests)
        if len(self._new) > self._most:
            self._new, self._old = set(), self._new


@dataclass
class IntakeOutcome:
    """What became of a body: how many of its spans were stored that were not there, how many were rejected why, and
    how many are of calls that no convention reads."""

    stored: int = 0
    rejected: Counter[Reason] = field(default_factory=Counter)
    unread: int = 0


class TraceIntake:
    """Takes in spans and log records. `redact` hides what the project's rules name, before a text is stored."""

    def __init__(
        self,
        store: LiveStore,
        quota: StorageQuota,
        now: Callable[[], datetime],
        *,
        redact: Redact = keep_text,
        limits: WireLimits = DEFAULT_LIMITS,
        most_waiting_bytes: int = MOST_WAITING_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self.limits = limits
        self._quota = quota
        self._now = now
        self._redact = redact
        self._most_waiting_bytes = most_waiting_bytes
        self._clock = clock
        self._known = KnownTexts()
        self._rules: Mapping[str, TraceRules] = {}
        self._rules_until = -1.0
        self._waiting_bytes = 0
        self._decoding = asyncio.Lock()
        self._commits = Coalescer(store.keep, most=PIECES_AT_ONCE)

    async def take(self, project: str, body: bytes, signal: Signal, *, is_json: bool, is_packed: bool) -> IntakeOutcome:
        """Stores the spans of a body. Raises BodyTooLarge, BodyDamaged, Overloaded, ProjectFull and StoreError: then
        nothing of it is stored, or all that is may be sent again."""
        with self._waiting(len(body) * PACKED_TIMES if is_packed else len(body)):
            rules = await self._find_rules(project)
            outcome, read = IntakeOutcome(), Read()

            def work() -> None:
                # Both load the readers of files: no start of the service is to wait for them.
                from saiten_server.monitors.traces.reading import SpanReader
                from saiten_server.monitors.traces.wire import decode_signal

                nonlocal read
                plain = unpack(body, self.limits) if is_packed else body
                found = decode_signal(plain, signal, self.limits, is_json=is_json)
                outcome.rejected = found.rejected
                read = SpanReader(project, rules, self._known, self._redact).read(found.spans)

            # Decoding holds the interpreter: several threads would only slow each other.
            async with self._decoding:
                await asyncio.to_thread(work)
            return await self._keep(project, rules, read, outcome)

    async def _keep(self, project: str, rules: TraceRules, read: Read, outcome: IntakeOutcome) -> IntakeOutcome:
        names = sum(count_bytes(name) + SPAN_BYTES for name in read.named.values())
        await self._quota.require_room(project, names + sum(count_bytes(row.said) + SPAN_BYTES for row in read.rows))
        counts = {**read.counts, **{f"rejected-{why}": count for why, count in outcome.rejected.items()}}
        outcome.unread = read.unread.total()
        first = Arrived(project, read.rows[:ROWS_AT_ONCE], self._now(), rules, counts, read.unread, read.named)
        rest = (Arrived(project, rows, first.at, rules) for rows in cut_pieces(read.rows[ROWS_AT_ONCE:], ROWS_AT_ONCE))
        if first.rows or counts or read.unread or read.named:
            for kept in await asyncio.gather(*map(self._commits.submit, (first, *rest))):
                outcome.stored += kept.stored
                outcome.rejected["conversation-full"] += kept.refused
                self._known.add(kept.texts)
        return outcome

    @contextmanager
    def _waiting(self, size: int) -> Iterator[None]:
        """Counts the bytes of a body in hand. Raises Overloaded beyond what may wait."""
        if self._waiting_bytes and self._waiting_bytes + size > self._most_waiting_bytes:
            raise Overloaded(
                Message("traces-waiting", limit=self._most_waiting_bytes), retry_after_seconds=BUSY_SECONDS
            )
        self._waiting_bytes += size
        try:
            yield
        finally:
            self._waiting_bytes -= size

    async def set_rules(self, project: str, rules: TraceRules) -> None:
        """Replaces the project's rules; other processes follow within `RECENT_SECONDS`."""
        await self.store.set_rules(project, rules)
        self._rules_until = -1.0

    async def _find_rules(self, project: str) -> TraceRules:
        if self._clock() >= self._rules_until:
            self._rules = await self.store.find_rules()
            self._rules_until = self._clock() + RECENT_SECONDS
        return self._rules.get(project, TraceRules())


class TraceUpkeep:
    """Closes conversations that have ended, and removes old ones. Several processes may run it. `tell` takes how many
    there are by state, once a minute."""

    def __init__(
        self,
        *,
        store: LiveStore,
        policies: PolicyStore,
        days: float,
        now: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        tell: Callable[[Mapping[str, int]], None] = lambda states: None,
    ) -> None:
        self._store = store
        self._policies = policies
        self._days = days
        self._now = now
        self._sleep = sleep
        self._expire_at: datetime | None = None
        self._count_at: datetime | None = None
        self._tell = tell

    async def run(self) -> None:
        """Sweeps until cancelled. What a sweep leaves undone, the next one finds."""
        while True:
            with surviving(logger, "conversations"):
                await self.sweep()
            await self._sleep(CLOSING_SECONDS)

    async def sweep(self) -> int:
        """Closes what is due; now and then removes what is old. Returns how many were closed."""
        now = self._now()
        closed = await self._store.close_due(now)
        if self._expire_at is None or now >= self._expire_at:
            self._expire_at = now + timedelta(seconds=EXPIRE_SECONDS)
            await self.expire(now)
        if self._count_at is None or now >= self._count_at:
            self._count_at = now + timedelta(seconds=COUNT_SECONDS)
            self._tell(await self._store.count_states())
        return closed

    async def expire(self, now: datetime) -> None:
        """Removes conversations that are older than `days`, or than their project keeps texts."""
        before = now - timedelta(days=self._days)
        await self._store.expire(None, before)
        await self._store.forget_traces(before)
        for project, policy in (await self._policies.policies()).items():
            if policy.texts != "keep":
                await self._store.expire(project, now - timedelta(days=policy.after_days))


def open_service(ground: Ground) -> TraceIntake:
    """The service on what all capabilities stand on."""
    return TraceIntake(LiveStore(ground.engine), ground.quota, ground.now, redact=hide_personal)
