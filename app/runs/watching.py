"""What the event streams of a process watch together: however many follow a run, the store is asked for it once."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Request, Response
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event

from saiten.core.messages import DEFAULT_LANGUAGE, Message
from saiten_server.core.batch import Batch
from saiten_server.core.errors import NotFound, StoreError, StreamLimitReached
from saiten_server.core.sentences import LANGUAGE
from saiten_server.platform.tasks import cancel_for_good
from saiten_server.platform.web.admission import Authenticator, credential_of
from saiten_server.platform.web.problems import language_of

SHORTEST_POLL_SECONDS = 0.5
LONGEST_POLL_SECONDS = 2.0
SILENT_SECONDS = 15.0
"""Proxies close connections that are silent for longer."""
RECONNECT_MILLISECONDS = 2000
logger = logging.getLogger("saiten.web")

GoesOn = Callable[[float], Awaitable[bool]]
"""Waits so many seconds, and returns whether the stream goes on."""
ENDS = frozenset({"completed", "cancelled", "erased"})


Asked = TypeVar("Asked")

FRESH_SECONDS = 0.4
"""An answer of the store is not older. Less than the shortest time between two looks of a stream."""

KEPT_SECONDS = 60.0
"""What no stream has looked at for so long is forgotten."""

STREAM_RETRY_SECONDS = 30.0
"""`Retry-After` for a page that finds no place: another is closed sooner or later."""


@dataclass(eq=False)
class Watched:
    """A run as the store last told it. `batch` stays the same object as long as nothing changes but time; `html` has
    its progress by language. `asking` is the question that will tell it again."""

    batch: Batch | None = None
    told_at: float = float("-inf")
    asked_at: float = float("-inf")
    html: dict[str, str] = field(default_factory=dict)
    asking: asyncio.Task[None] | None = None


class RunWatch:
    """Looks at runs for all streams of the process, in one query for those of a project that are due together."""

    def __init__(self, find: Callable[[str, Sequence[str]], Awaitable[list[Batch]]]) -> None:
        self._find = find
        self._runs: dict[tuple[str, str], Watched] = {}  # by project and run
        self._due: dict[str, dict[str, Watched]] = defaultdict(dict)
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._recent: dict[Hashable, tuple[float, asyncio.Future[Any]]] = {}

    async def look(self, project: str, run_id: str) -> Batch | None:
        """The run as it was a moment ago; None if there is none. Raises the `Store…` errors."""
        return (await self.look_at(project, [run_id]))[run_id]

    async def look_at(self, project: str, run_ids: Iterable[str]) -> dict[str, Batch | None]:
        """The same of several runs, by id. What is not known, or not asked for already, is asked for in one query."""
        now = asyncio.get_running_loop().time()
        runs = {run_id: self._runs.setdefault((project, run_id), Watched()) for run_id in run_ids}
        awaited = set[asyncio.Task[None]]()
        for run_id, run in runs.items():
            run.asked_at = now
            if now - run.told_at < FRESH_SECONDS:
                continue
            if run.asking is None:
                run.asking = self._ask_soon(project)
                self._due[project][run_id] = run
            awaited.add(run.asking)
        for task in awaited:
            # One stream that ends leaves the question to the others.
            await asyncio.shield(task)
        return {run_id: run.batch for run_id, run in runs.items()}

    def show(self, batch: Batch, project: str, language: str, show: Callable[[Batch], str]) -> str:
        """The run's progress, written once a change and language."""
        run = self._runs.get((project, batch.id))
        if run is None or run.batch is not batch:
            return show(batch)
        if language not in run.html:
            run.html[language] = show(batch)
        return run.html[language]

    async def once(self, key: Hashable, ask: Callable[[], Awaitable[Asked]]) -> Asked:
        """What `ask` tells, which is asked once for all that want the same at about the same time."""
        now = asyncio.get_running_loop().time()
        known = self._recent.get(key)
        if known is None or now - known[0] >= FRESH_SECONDS:
            self._recent = {one: told for one, told in self._recent.items() if now - told[0] < FRESH_SECONDS}
            known = self._recent[key] = (now, asyncio.ensure_future(ask()))
            known[1].add_done_callback(note_error)
        told: Asked = await asyncio.shield(known[1])
        return told

    async def close(self) -> None:
        await cancel_for_good([*self._asking.values()])

    def _ask_soon(self, project: str) -> asyncio.Task[None]:
        """The question that is about to be asked."""
        task = self._asking.get(project)
        if task is None:
            task = self._asking[project] = asyncio.create_task(self._ask(project))
            task.add_done_callback(note_error)
        return task

    async def _ask(self, project: str) -> None:
        """Asks for the runs that are due."""
        # All streams that the loop has ready come first.
        await asyncio.sleep(0)
        due = self._due.pop(project, {})
        # From here on another task asks for what becomes due.
        del self._asking[project]
        try:
            found = {batch.id: batch for batch in await self._find(project, [*due])}
        finally:
            for run in due.values():
                run.asking = None
        now = asyncio.get_running_loop().time()
        for run_id, run in due.items():
            batch, run.told_at = found.get(run_id), now
            if batch is None or run.batch is None or steady(batch) != steady(run.batch):
                run.batch, run.html = batch, {}
        self._runs = {key: run for key, run in self._runs.items() if now - run.asked_at < KEPT_SECONDS}


def note_error(asked: asyncio.Future[Any]) -> None:
    """Takes notice of an error that no stream is left to be told."""
    if not asked.cancelled():
        asked.exception()


def steady(batch: Batch) -> Batch:
    """The batch without the fields that change with time alone."""
    return batch.model_copy(update={"rate_per_second": None, "estimated_end": None})


class StreamPlaces:
    """Counts the event streams of this process by project, at most `most` of each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.taken = Counter[str]()

    @contextmanager
    def take(self, project: str) -> Iterator[None]:
        """Takes a place until the block ends. Raises StreamLimitReached if the project has as many as it may."""
        if self.taken[project] >= self._most:
            detail = Message("streams-open", most=self._most)
            raise StreamLimitReached(detail, retry_after_seconds=STREAM_RETRY_SECONDS)
        self.taken[project] += 1
        try:
            yield
        finally:
            self.taken[project] -= 1


async def open_stream() -> AsyncIterator[ExitStack]:
    """A FastAPI dependency: what is entered here is left once the answer is sent or given up, even if no event of it
    was ever asked for."""
    with ExitStack() as stack:
        yield stack


Opened = Annotated[ExitStack, Depends(open_stream)]


def make_rest(request: Request) -> GoesOn:
    """The `rest` function for this request."""
    admission: Authenticator = request.app.state.admission
    return partial(rest, partial(admission.holds, credential_of(request)), request.app.state.stopping)


async def rest(admitted: Callable[[], Awaitable[bool]], stopping: asyncio.Event, seconds: float) -> bool:
    """Waits, and returns whether the stream goes on: not if the service stops or the caller's key is not valid."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stopping.wait(), seconds)
        return False
    return await admitted()


LastEvent = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        description="the last event that an `EventSource` received; after an end the answer is 204",
    ),
]


async def follow_run(
    request: Request,
    opened: ExitStack,
    batch_id: str,
    last_event_id: str | None,
    *,
    look: Callable[[str, str], Awaitable[Batch | None]],
    missing: Message,
) -> Response:
    """The events of a run in the caller's language; 204 after its end. `look` tells whether it is there: NotFound says
    that it is `missing`."""
    if last_event_id in ENDS:
        return Response(status_code=204)
    project: str = request.state.project
    places: StreamPlaces = request.app.state.streams
    # Before the store is asked, so that many at once are not let in together.
    opened.enter_context(places.take(project))
    first = await look(project, batch_id)
    if first is None:
        raise NotFound(missing)
    find, language = partial(request.app.state.watch.look, project, batch_id), language_of(request)
    stream = stream_events(first, find, make_rest(request), language)
    # Otherwise nginx holds events back until its buffer is full.
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "Content-Language": language}
    return EventSourceResponse(stream, headers=headers | {"Vary": "Accept-Language"})


async def stream_events(
    batch: Batch, find: Callable[[], Awaitable[Batch | None]], goes_on: GoesOn, language: str = DEFAULT_LANGUAGE
) -> AsyncIterator[bytes]:
    """The events from `batch` to its end, or as long as the stream goes on."""
    clock = asyncio.get_running_loop().time
    yield write_event("progress", batch, language)
    sent_at, wait = clock(), SHORTEST_POLL_SECONDS
    while batch.status not in ENDS:
        if not await goes_on(wait):
            return
        found = await look_again(find, batch)
        if found is None:
            yield format_sse_event(event="erased", data_str=f'{{"id":"{batch.id}"}}', id="erased")
            return
        if steady(found) != steady(batch):
            yield write_event("progress", found, language)
            sent_at, wait = clock(), SHORTEST_POLL_SECONDS
        else:
            wait = min(LONGEST_POLL_SECONDS, wait * 1.5)
        if clock() - sent_at >= SILENT_SECONDS:
            yield KEEPALIVE_COMMENT
            sent_at = clock()
        batch = found
    yield write_event(batch.status, batch, language)


async def look_again(find: Callable[[], Awaitable[Batch | None]], batch: Batch) -> Batch | None:
    """The batch as it is now, or as it was if the store is unavailable, so that an outage does not end long streams."""
    try:
        return await find()
    except StoreError as error:
        logger.warning("%s: %s", error.code, error.loggable, extra={"code": error.code, "batch_id": batch.id})
        return batch


def write_event(name: str, batch: Batch, language: str) -> bytes:
    """One event with the batch as its data, its sentences in the language. The id of an end is its name, so that a
    reconnecting caller reports it."""
    event_id, retry = (name, None) if name in ENDS else (None, RECONNECT_MILLISECONDS)
    told = batch.model_dump_json(context={LANGUAGE: language})
    return format_sse_event(event=name, data_str=told, id=event_id, retry=retry)
