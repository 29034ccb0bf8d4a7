"""The flow control state that all processes share through Redis."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any, cast

from redis.asyncio import Redis

from saiten_server.platform import flow_state
from saiten_server.platform.flow_state import Demand, FlowLimits, FlowReport, Grant, LocalFlowState
from saiten_server.platform.redis.request_limits import FAILURES, RedisOutage

logger = logging.getLogger("saiten.flow")

LIVE_SECONDS = 10
"""A process that made no exchange for so long has no share any more, and its calls are forgotten."""
KEPT_SECONDS = 3600
"""After so long without a call all that was learned of an endpoint is forgotten."""
HEARTBEAT_SECONDS = 3.0
OVERDUE_SECONDS = 5.0
"""A process with calls under way that was silent for this long is assumed to have only its share of them."""
ASK_AGAIN_SECONDS = 0.02
"""When to ask again where the others have all the calls under way, and none that ends here would tell of a place."""
LOST_SECONDS = 5.0
"""For so long after a failure Redis is not looked for again."""


class RedisFlowState:
    """`FlowState` for all processes that use the same Redis and `scope`. An exchange is one script in one round trip.
    If Redis fails or takes longer than `timeout_seconds`, the process continues with its share of what was known last,
    and looks for Redis every few seconds while it makes calls. The client is not closed with it."""

    heartbeat_seconds: float | None = HEARTBEAT_SECONDS

    def __init__(
        self,
        client: Redis,
        scope: str,
        bounds: FlowLimits,
        *,
        timeout_seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._script = client.register_script(read_script())
        self._client = client
        # Braces keep both keys on one node of a cluster.
        self._keys = [f"saiten:flow:{{{scope}}}", f"saiten:flow:{{{scope}}}:processes"]
        self._process = secrets.token_hex(8)
        self._bounds = [bounds.concurrency, bounds.requests_per_minute or 0, bounds.tokens_per_minute or 0]
        self._longest_pause_seconds = bounds.longest_pause_seconds
        self._alone = False
        """Whether the last exchange did without Redis, which does not know what was reported then."""
        self._timeout_seconds = timeout_seconds
        self._local = LocalFlowState(bounds, clock=clock)
        self._outage = RedisOutage(
            lambda: client.exists(self._keys[1]),
            user="flow control",
            instead="each process keeps to its share",
            logger=logger,
            timeout_seconds=timeout_seconds,
            look_seconds=LOST_SECONDS,
            clock=clock,
        )

    async def exchange(self, report: FlowReport, demand: Demand) -> Grant:
        if self._alone:
            report = replace(report, closed_seconds=max(report.closed_seconds, self._local.closed_seconds))
        answer = await self._outage.ask(lambda: self._script(keys=self._keys, args=self._write(report, demand)))
        self._alone = answer is None
        if answer is None:
            return await self._local.exchange(report, demand)
        return self._read(answer)

    async def reopen(self) -> None:
        """Also ends the pause in this process where Redis is away; the others learn of it only from Redis."""
        await self._local.reopen()
        await self._outage.ask(lambda: cast("Awaitable[int]", self._client.hdel(self._keys[0], "opens_at")))

    async def close(self) -> None:
        """Gives up its share at once, if Redis can be reached."""
        await self._outage.close()
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await cast("Awaitable[int]", self._client.hdel(self._keys[1], self._process))
        except FAILURES as error:
            logger.info("flow control: Redis was not told of this process's end (%s)", type(error).__name__)

    def _write(self, report: FlowReport, demand: Demand) -> list[Any]:
        age = report.throttled_age_seconds
        learned = [report.requests_per_minute or 0, report.tokens_per_minute or 0]
        seen = [report.successes, -1 if age is None else max(0.0, age), report.closed_seconds, report.tokens, *learned]
        pauses = [self._longest_pause_seconds, int(report.probing)]
        return [self._process, *self._bounds, *seen, *pauses, demand.in_flight, demand.interactive, *demand.tokens]

    def _read(self, answer: Sequence[Any]) -> Grant:
        admitted, places, wait, closed, limit, processes, answered, requests, tokens = map(float, answer)
        self._local.adopt(
            limit=int(limit),
            processes=int(processes),
            answered=bool(answered),
            closed_seconds=closed,
            requests_per_minute=requests or None,
            tokens_per_minute=tokens or None,
        )
        return Grant(int(admitted), int(places), None if wait < 0 else wait, closed)


def scope_of(endpoint: str, api_key: str) -> str:
    """The name of an endpoint's and key's common state. The key cannot be had back from it."""
    key_digest = hashlib.sha256(api_key.encode()).hexdigest()
    return hashlib.sha256(f"{endpoint}\n{key_digest}".encode()).hexdigest()[:32]


def read_script() -> str:
    """The script, with the constants that it shares with the state in memory."""
    constants = {**vars(flow_state), **globals()}
    text = files(__package__).joinpath("flow.lua").read_text("utf-8")
    return re.sub(r"@([A-Z_]+)", lambda found: str(constants[found[1]]), text)
