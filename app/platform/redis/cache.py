"""`CallCache` in Redis, for all processes. Redis may be gone, wiped or full at any time: a miss, never an error."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Callable, Sequence
from contextvars import Context
from operator import methodcaller
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import RedisError

from saiten.core.messages import Message
from saiten_server.core.errors import StoreUnavailable
from saiten_server.platform.coalescing import Coalescer
from saiten_server.platform.memory_cache import CallCache, Caller
from saiten_server.platform.tasks import cancel_for_good

logger = logging.getLogger("saiten.cache")

VALUE_PREFIX = "saiten:call:"
FLIGHTS = "saiten:flight:"

MOST_AT_ONCE = 100
"""Commands of one round trip: a hundred replies of the largest size are what a process may hold besides its work."""

FORGOTTEN_AT_ONCE = 500
"""Keys of one UNLINK."""

WARNED_EVERY_SECONDS = 5.0

CLAIM = """
local kept = redis.pcall('GET', KEYS[1])
if type(kept) == 'string' and kept ~= ARGV[3] then return kept end
-- An error is as good as the lock: with a Redis that takes no writes, every caller makes its own call.
if redis.pcall('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
-- No process sets a lock that would not expire in time. If the lock is the caller's own, its release was lost.
local left = redis.call('PTTL', KEYS[2])
local other = redis.pcall('GET', KEYS[2]) ~= ARGV[1]
if other and left >= 0 and left <= tonumber(ARGV[2]) then return 0 end
redis.pcall('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
return 1
"""
"""The reply; else 1 where the lock is now the caller's, 0 where it is another's. KEYS: value, lock. ARGV: owner,
milliseconds that the lock lasts, and perhaps the value that the caller refused."""

KEEP = """
local kept = redis.pcall('SET', KEYS[1], ARGV[3], 'EX', ARGV[2])
if redis.pcall('GET', KEYS[2]) == ARGV[1] then redis.call('DEL', KEYS[2]) end
return kept
"""
"""Keeps a reply and releases its lock at once: a caller that waits for the lock finds the reply. KEYS: value, lock.
ARGV: owner, seconds that it is kept, reply."""

RELEASE = "if redis.pcall('GET', KEYS[2]) == ARGV[1] then redis.call('DEL', KEYS[2]) end"
RENEW = "if redis.pcall('GET', KEYS[2]) == ARGV[1] then redis.call('PEXPIRE', KEYS[2], ARGV[2]) end"

Command = Callable[[Pipeline], object]
"""Adds one command to a pipeline."""


class RedisCallCache(CallCache):
    """Stores replies of at most `value_bytes` for `seconds`; Redis's `maxmemory` bounds the total.

    `client` must not decode responses. Commands that arrive together are one round trip, of `timeout_seconds` at most.
    After one that failed, Redis is not asked for `pause_seconds`, and every claim is granted at once.

    The right to make a call is a lock of `flight_seconds`, renewed while the call runs. It expires that long after its
    process died, and then another may make the call; if the process was only stopped, both may make it.
    """

    def __init__(
        self,
        client: Redis,
        *,
        seconds: int = 30 * 86_400,
        value_bytes: int = 256 * 1024,
        flight_seconds: float = 10.0,
        timeout_seconds: float = 1.0,
        pause_seconds: float = 3.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._seconds = seconds
        self._value_bytes = value_bytes
        self._flight_seconds = flight_seconds
        self._timeout_seconds = timeout_seconds
        self._pause_seconds = pause_seconds
        self._clock = clock
        self._owner = secrets.token_hex(8)
        self._flight_milliseconds = math.ceil(flight_seconds * 1000)
        self._commands = Coalescer(self._send, most=MOST_AT_ONCE)
        self._flights: set[str] = set()
        self._renewing: asyncio.Task[None] | None = None
        self._closed_until = -math.inf
        self._quiet_until = -math.inf

    async def get(self, key: str) -> bytes | None:
        found = await self._commands(lambda pipe: pipe.get(name(VALUE_PREFIX, key)))
        return found if isinstance(found, bytes) else None

    async def claim(self, key: str, refused: bytes | None = None) -> bytes | Caller:
        try:
            more = [] if refused is None else [refused]
            found = await self._commands(self._eval(CLAIM, key, self._flight_milliseconds, *more))
        except asyncio.CancelledError:
            # It may have been granted all the same.
            self._let_go(key)
            raise
        if isinstance(found, bytes):
            return found
        if found == 0:
            return Caller.WAIT
        if found == 1:
            self._hold(key)
        return Caller.CALL

    async def put(self, key: str, value: bytes) -> None:
        if len(value) <= self._value_bytes:
            self._flights.discard(key)
            await self._commands.submit(self._eval(KEEP, key, self._seconds, value))
        else:
            await self.leave(key)

    async def leave(self, key: str) -> None:
        await self._let_go(key)

    async def forget(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), FORGOTTEN_AT_ONCE):
            names = [name(VALUE_PREFIX, key) for key in keys[start : start + FORGOTTEN_AT_ONCE]]
            if not isinstance(await self._commands(methodcaller("unlink", *names)), int):
                raise StoreUnavailable(Message("redis-not-removed"))

    async def close(self) -> None:
        """Releases the locks of this process, so that no other process waits for them. The client is not closed."""
        if self._renewing is not None:
            await cancel_for_good([self._renewing])
        for key in list(self._flights):
            self._let_go(key)
        await self._commands.drain()

    def _eval(self, script: str, key: str, *arguments: Any) -> Command:
        """A script's run on the key's value and lock, with the owner as the first argument."""
        return lambda pipe: pipe.eval(script, 2, name(VALUE_PREFIX, key), name(FLIGHTS, key), self._owner, *arguments)

    def _hold(self, key: str) -> None:
        self._flights.add(key)
        if self._renewing is None or self._renewing.done():
            # In an empty context, because it outlives the call that began it.
            self._renewing = asyncio.create_task(self._renew(), context=Context())

    def _let_go(self, key: str) -> asyncio.Future[Any]:
        self._flights.discard(key)
        return self._commands.submit(self._eval(RELEASE, key))

    async def _renew(self) -> None:
        """Renews the locks of running calls. Ends when there are none."""
        while self._flights:
            await asyncio.sleep(self._flight_seconds / 3)
            for key in list(self._flights):
                self._commands.submit(self._eval(RENEW, key, self._flight_milliseconds))

    async def _send(self, commands: Sequence[Command]) -> Sequence[Any]:
        """The answers in order; an error or None for a command that failed."""
        if self._clock() < self._closed_until:
            return [None] * len(commands)
        try:
            async with asyncio.timeout(self._timeout_seconds), self._client.pipeline(transaction=False) as pipe:
                for add in commands:
                    add(pipe)
                answers: list[Any] = await pipe.execute(raise_on_error=False)
        except (RedisError, OSError) as error:
            self._closed_until = self._clock() + self._pause_seconds
            self._warn(error)
            return [None] * len(commands)
        for answer in answers:
            if isinstance(answer, RedisError):
                self._warn(answer)
        return answers

    def _warn(self, error: Exception) -> None:
        """Logs one warning for all failures of the next seconds. It names only the error's type, because Redis's
        message may quote what was sent."""
        if self._clock() >= self._quiet_until:
            self._quiet_until = self._clock() + WARNED_EVERY_SECONDS
            logger.warning(
                "the call cache in Redis failed (%s); calls are made as if it were empty", type(error).__name__
            )


def name(prefix: str, key: str) -> bytes:
    """The key's name in Redis."""
    return (prefix + key).encode("utf-8", "surrogatepass")
