"""Follows a batch to its end: by server-sent events, which are taken up again after a lost connection, and by asking
where no events come through."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

import httpx

from saiten.connection import MOST_POLL_SECONDS, POLL_SECONDS, Connection, Object, may_pass
from saiten.core.errors import AnswerInvalid, SaitenError, ServiceRefused, ServiceUnreachable
from saiten.core.language import tell
from saiten.waiting import read_object

ENDS = ("completed", "cancelled", "erased")
"""Events after which there is nothing more to say."""

SILENT_SECONDS = 45.0
"""A stream without a word for so long is lost: the service sends one every 15 s."""

FIELDS = frozenset({"event", "id"})
"""Of an event beside its data; others say nothing here."""

MOST_EVENT_CHARACTERS = 64 * 1024 * 1024
RECONNECT_SECONDS = 2.0
PATIENCE_SECONDS = 600.0
"""How long a service that does not answer is waited for, as while it is upgraded. The batch goes on without us."""


@dataclass(frozen=True)
class Event:
    """One server-sent event."""

    name: str
    data: str
    id: str | None


async def read_events(lines: AsyncIterator[str]) -> AsyncGenerator[Event, None]:
    """The events of a stream. One that breaks off is left out. Raises AnswerInvalid for one that does not end."""
    fields: dict[str, str] = {}
    data, size = list[str](), 0
    async for written in lines:
        line = written.removesuffix("\r")
        if line == "":
            if data:
                yield Event(fields.get("event", "message"), "\n".join(data), fields.get("id"))
            fields, data, size = {}, [], 0
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
            size += len(line)
            if size > MOST_EVENT_CHARACTERS:
                raise AnswerInvalid(
                    tell("the service's answer has more than {most:,} bytes", most=MOST_EVENT_CHARACTERS)
                )
        elif name in FIELDS:
            fields[name] = value


class Follower:
    """The states of a batch, or of what is like one at `path`, one by one."""

    def __init__(
        self,
        connection: Connection,
        batch_id: str,
        *,
        path: str = "/v1/batches",
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._connection = connection
        self._place = f"{path}/{batch_id}"
        self._patience = patience_seconds
        self._last_id: str | None = None
        self._answered = time.monotonic()
        self._streams = True

    async def states(self) -> AsyncGenerator[Object, None]:
        """Each state until the batch is completed or cancelled. Raises ServiceRefused, with 404 once it is erased, and
        ServiceUnreachable after ten minutes without an answer."""
        pause = POLL_SECONDS
        while True:
            if self._streams:
                async with aclosing(self._stream()) as found:
                    async for state in found:
                        yield state
                        if state.get("status") in ENDS:
                            return
                pause = RECONNECT_SECONDS if self._streams else POLL_SECONDS
            answer = await self._ask()
            if answer is not None:
                yield answer
                if answer.get("status") in ENDS:
                    return
            await self._connection.sleep(pause)
            if not self._streams:
                pause = min(MOST_POLL_SECONDS, 1.25 * pause)

    async def _stream(self) -> AsyncGenerator[Object, None]:
        """The states of one stream of events, as far as it goes. A stream without any is the last one that is tried,
        unless its connection was lost."""
        headers = {"Last-Event-ID": self._last_id} if self._last_id else {}
        path = f"{self._place}/events"
        came = lost = False
        try:
            async with aclosing(self._connection.lines(path, headers=headers, silent_seconds=SILENT_SECONDS)) as lines:
                async for event in read_events(lines):
                    state = json.loads(event.data)
                    if not isinstance(state, dict):
                        return  # asking shows what it is
                    came, self._answered = True, time.monotonic()
                    self._last_id = event.id or self._last_id
                    if event.name == "erased":
                        return
                    yield state
        except ServiceUnreachable as error:
            # One that was only silent is behind a proxy that holds events back.
            lost = not isinstance(error.__cause__, httpx.TimeoutException)
        except (SaitenError, ValueError, RecursionError):
            pass  # asking shows whether the service is there, and why it refuses
        finally:
            self._streams = came or lost

    async def _ask(self) -> Object | None:
        """The state now; None where the service does not answer, which is waited for."""
        try:
            state = read_object(await self._connection.request("GET", self._place))
        except (ServiceUnreachable, ServiceRefused) as error:
            passes = not isinstance(error, ServiceRefused) or may_pass(error)
            if not passes or time.monotonic() - self._answered > self._patience:
                raise
            return None
        self._answered = time.monotonic()
        return state
