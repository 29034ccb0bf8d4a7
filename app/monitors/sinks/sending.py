"""Sends what waits. A sink that does not answer holds up no other, and is left alone for longer each time."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from saiten_server.monitors.sinks.store import LONGEST_PAUSE, Backlog, OutboxStore, SinkPlace, WaitingItem
from saiten_server.monitors.sinks.values import SentAlarm, SinkKeys
from saiten_server.monitors.sinks.writing import SinkCall, write_alarm, write_scores
from saiten_server.platform.tasks import surviving
from saiten_server.platform.telemetry import Telemetry

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger("saiten.monitors")

ROUND_SECONDS = 1.0
SENT_AT_ONCE = 8
"""What is sent to one sink side by side."""

SERVICE_SINKS = 8
"""Sinks of one service, which is what the operator lists, that have their turn at the same time."""

TURN_SECONDS = 10.0
"""How long one sink has its turn while others of its service may wait for theirs."""

SEND_SECONDS = 10.0
MOST_ANSWER_BYTES = 65_536
"""Of an answer, which is read only so that its connection can be used again."""

REFUSING_STATUSES = frozenset({400, 404, 405, 409, 410, 413, 415, 422})
"""Statuses by which a sink says that it will never take this."""


class Unanswered(Exception):
    """The sink did not take it, and may later. `pause` is what it asked for."""

    def __init__(self, code: str, pause: timedelta | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.pause = pause


@dataclass(kw_only=True, eq=False)
class Sender:
    """Sends what waits for all sinks, until cancelled. Several processes may do so at once. Each sink has its turns in
    a task of its own, so that none waits for the answer of another."""

    outbox: OutboxStore
    keys: SinkKeys
    open_client: Callable[[], httpx.AsyncClient]
    now: Callable[[], datetime]
    telemetry: Telemetry
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    _turns: dict[SinkPlace, str | None] = field(default_factory=dict, init=False)
    """The sinks that have their turn, with the service of each."""

    _last: dict[SinkPlace, float] = field(default_factory=dict, init=False)
    """When each sink that still waits last began a turn."""

    async def run(self) -> None:
        """Looks once a second. What a failure leaves undone, the next look finds."""
        client: httpx.AsyncClient | None = None
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    with surviving(logger, "sinks"):
                        now = self.now()
                        waiting = await self.outbox.backlog(now)
                        oldest = min((one.since for one in waiting), default=now)
                        self.telemetry.outbox(sum(one.count for one in waiting), (now - oldest).total_seconds())
                        if waiting:
                            client = client or self.open_client()
                            self.begin_turns(client, group, waiting)
                    await self.sleep(ROUND_SECONDS)
        finally:
            if client is not None:
                await client.aclose()

    def begin_turns(self, client: httpx.AsyncClient, group: asyncio.TaskGroup, waiting: Sequence[Backlog]) -> None:
        """Begins a turn of each sink that has something due, as far as its service has room: first the sinks whose
        last turn was longest ago."""
        due = [one for one in waiting if one.due]
        self._last = {one.place: self._last.get(one.place, 0.0) for one in waiting}
        busy = Counter(self._turns.values())
        for one in sorted(due, key=lambda each: self._last[each.place]):
            if one.place in self._turns or busy[one.service] >= SERVICE_SINKS:
                continue
            busy[one.service] += 1
            self._turns[one.place], self._last[one.place] = one.service, self.clock()
            group.create_task(self._have_turn(client, one.place))

    async def _have_turn(self, client: httpx.AsyncClient, place: SinkPlace) -> None:
        """Sends to one sink until nothing is due there, or its turn is over."""
        ends_at = self.clock() + TURN_SECONDS
        try:
            # What cannot be read, for example, holds up this sink alone.
            with surviving(logger, "sinks"):
                while self.clock() < ends_at and (due := await self.outbox.take(place, self.now(), SENT_AT_ONCE)):
                    failures = await asyncio.gather(*(self._send(client, one) for one in due), return_exceptions=True)
                    for failure in filter(None, failures):
                        raise failure
        finally:
            del self._turns[place]

    async def _send(self, client: httpx.AsyncClient, one: WaitingItem) -> None:
        try:
            refused = await self._deliver(client, one)
        except Unanswered as error:
            self.telemetry.sent(one.sink.kind, "unanswered")
            if await self.outbox.put_off(one, self.now(), error.code, error.pause):
                self._warn("a sink does not take what it is sent; it is tried again", one, error.code)
        else:
            self.telemetry.sent(one.sink.kind, "refused" if refused else "sent")
            await self.outbox.settle(one, error=refused)
            if refused:
                self._warn("a sink refused what it was sent, which is given up", one, refused)

    @staticmethod
    def _warn(message: str, one: WaitingItem, code: str) -> None:
        logger.warning(message, extra={"target": one.monitor_id, "kind": one.sink.kind, "code": code})

    async def _deliver(self, client: httpx.AsyncClient, one: WaitingItem) -> str | None:
        """None where the sink took it, else the status by which it refused it for good. Raises Unanswered."""
        import httpx

        if not self.keys.lists(one.sink.url):
            raise Unanswered("not-listed")
        key, sent = self.keys.find(one.sink.url), one.body
        if isinstance(sent, SentAlarm):
            letter = await asyncio.to_thread(write_alarm, one.sink, sent, key)
        else:
            letter = write_scores(one.sink, sent, key)
        headers = {**letter.headers, "Idempotency-Key": one.id}
        for call in letter.calls:
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    response = await send_request(client, "POST", call.url, headers, call.body)
                    is_kept = response.is_success or await has_kept(client, call, headers)
            except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as error:
                raise Unanswered(name_failure(error)) from None
            status = response.status_code
            if is_kept:
                continue
            if status in REFUSING_STATUSES:
                return f"status-{status}"
            raise Unanswered(f"status-{status}", read_pause(response.headers.get("retry-after")))
        return None


async def has_kept(client: httpx.AsyncClient, call: SinkCall, headers: Mapping[str, str]) -> bool:
    """Whether a service that takes nothing twice has this already."""
    return call.kept_at is not None and (await send_request(client, "GET", call.kept_at, headers)).is_success


async def send_request(
    client: httpx.AsyncClient, method: str, url: str, headers: Mapping[str, str], body: Any = None
) -> httpx.Response:
    """The status and headers of the answer. Its body says nothing that is needed, and may have no end."""
    async with client.stream(method, url, headers=headers, json=body) as response:
        size = 0
        async for piece in response.aiter_raw():
            size += len(piece)
            if size > MOST_ANSWER_BYTES:
                break
        return response


def name_failure(error: BaseException) -> str:
    """A code for what went wrong, which quotes nothing."""
    cause = error.__cause__ or error.__context__
    if isinstance(error, ssl.SSLCertVerificationError) or (cause and name_failure(cause) == "certificate"):
        return "certificate"
    return "timeout" if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__ else "unreachable"


def read_pause(header: str | None) -> timedelta | None:
    """What `Retry-After` asks for in seconds; None where it says nothing that is believed."""
    if header is None or not header.isascii() or not header.isdecimal() or len(header) > 9:
        return None
    return min(LONGEST_PAUSE, timedelta(seconds=int(header)))


def open_client() -> httpx.AsyncClient:
    """A client that follows no redirects, which could lead to a service that the operator has not listed. Proxies and
    certificates are those of the environment, as for the judge: HTTPS_PROXY, NO_PROXY, SSL_CERT_FILE."""
    import httpx

    # A sink must not wait for a connection because others hold them: what is sent at once is bounded by turns.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=SENT_AT_ONCE)
    return httpx.AsyncClient(follow_redirects=False, timeout=SEND_SECONDS, limits=limits)
