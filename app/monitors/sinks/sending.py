"""Sends what waits. A sink that does not answer is left alone for longer each time; it holds up nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from saiten_server.monitors.sinks.store import LONGEST_PAUSE, OutboxStore, WaitingItem
from saiten_server.monitors.sinks.values import SentAlarm, SinkKeys
from saiten_server.monitors.sinks.writing import SinkCall, write_alarm, write_scores
from saiten_server.platform.tasks import surviving
from saiten_server.platform.telemetry import Telemetry

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger("saiten.monitors")

ROUND_SECONDS = 1.0
AT_ONCE = 16
"""What is sent side by side."""

TIMEOUT_SECONDS = 10.0

REFUSED = frozenset({400, 404, 405, 409, 410, 413, 415, 422})
"""Statuses by which a sink says that it will never take this."""


class Unanswered(Exception):
    """The sink did not take it, and may later. `pause` is what it asked for."""

    def __init__(self, code: str, pause: timedelta | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.pause = pause


@dataclass(kw_only=True, eq=False)
class Sender:
    """Sends what waits for all sinks, until cancelled. Several processes may do so at once."""

    outbox: OutboxStore
    keys: SinkKeys
    open_client: Callable[[], httpx.AsyncClient]
    now: Callable[[], datetime]
    telemetry: Telemetry
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self) -> None:
        """Looks once a second. What a failure leaves undone, the next look finds."""
        client: httpx.AsyncClient | None = None
        try:
            while True:
                more = False
                with surviving(logger, "sinks"):
                    waiting = await self.outbox.backlog()
                    self.telemetry.outbox(waiting)
                    if waiting:
                        client = client or self.open_client()
                        more = await self.send_due(client) == AT_ONCE
                await self.sleep(0 if more else ROUND_SECONDS)
        finally:
            if client is not None:
                await client.aclose()

    async def send_due(self, client: httpx.AsyncClient) -> int:
        """Sends what is due; returns how much that was."""
        due = await self.outbox.take(self.now(), AT_ONCE)
        await asyncio.gather(*(self._send(client, one) for one in due))
        return len(due)

    async def _send(self, client: httpx.AsyncClient, one: WaitingItem) -> None:
        try:
            refused = await self._deliver(client, one)
        except Unanswered as error:
            self.telemetry.sent(one.sink.kind, "unanswered")
            await self.outbox.put_off(one, self.now(), error.code, error.pause)
        else:
            self.telemetry.sent(one.sink.kind, "refused" if refused else "sent")
            await self.outbox.settle(one, error=refused)

    async def _deliver(self, client: httpx.AsyncClient, one: WaitingItem) -> str | None:
        """None where the sink took it, else the status by which it refused it for good. Raises Unanswered."""
        import httpx

        if not self.keys.lists(one.sink.url):
            raise Unanswered("not-listed")
        key, sent = self.keys.find(one.sink.url), one.body
        letter = write_alarm(one.sink, sent, key) if isinstance(sent, SentAlarm) else write_scores(one.sink, sent, key)
        headers = {**letter.headers, "Idempotency-Key": one.id}
        for call in letter.calls:
            try:
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    response = await client.post(call.url, json=call.body, headers=headers)
                    is_kept = response.is_success or await has_kept(client, call, headers)
            except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as error:
                raise Unanswered(name_failure(error)) from None
            status = response.status_code
            if is_kept:
                continue
            if status in REFUSED:
                return f"status-{status}"
            raise Unanswered(f"status-{status}", read_pause(response.headers.get("retry-after")))
        return None


async def has_kept(client: httpx.AsyncClient, call: SinkCall, headers: Mapping[str, str]) -> bool:
    """Whether a service that takes nothing twice has this already."""
    return call.kept_at is not None and (await client.get(call.kept_at, headers=headers)).is_success


def name_failure(error: Exception) -> str:
    """A code for what went wrong, which quotes nothing."""
    return "timeout" if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__ else "unreachable"


def read_pause(header: str | None) -> timedelta | None:
    """What `Retry-After` asks for in seconds; None where it says nothing that is believed."""
    if header is None or not header.isascii() or not header.isdecimal() or len(header) > 9:
        return None
    return min(LONGEST_PAUSE, timedelta(seconds=int(header)))


def open_client() -> httpx.AsyncClient:
    """A client that follows no redirects, which could lead to a service that the operator has not listed."""
    import httpx

    return httpx.AsyncClient(follow_redirects=False, timeout=TIMEOUT_SECONDS, trust_env=False)
