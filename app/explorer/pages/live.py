"""`/live`: the progress of runs and how much is new since the page was made, as server-sent events for the page.

A page has one stream. It looks at the store several times a second at most, tells what changed within a second, and
ends with the service.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event

from saiten.core.wording import title_run
from saiten_server.core.batch import Batch
from saiten_server.core.errors import NotFound, StoreError
from saiten_server.explorer.pages.exploration import read_address_number
from saiten_server.explorer.pages.runs import read_asked
from saiten_server.platform.web.dependencies import Serving, read_cursor
from saiten_server.platform.web.language import Speech, speech_of
from saiten_server.platform.web.page import PageRoute, Project, render_text
from saiten_server.runs import watching
from saiten_server.runs.watching import ENDS, GoesOn, Opened, RunWatch, StreamPlaces, steady

if TYPE_CHECKING:
    from saiten_server.container import Container
from saiten.core.messages import Message

logger = logging.getLogger("saiten.web")

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST_WATCHED_RUNS = 50
MOST_STREAMS = 500
"""Of a process. Beyond them a page is told not to come back, and does without."""

LONGEST_POLL_SECONDS = 0.75
"""What is stored is told within a second."""

MOST_NEW = 25
"""As many as a page of the list has; of more it is said that there are more."""

OVER = "over"
"""The last event: every run has ended. A reconnection with this id is answered with 204."""

Find = Callable[[Iterable[str]], Awaitable[dict[str, Batch | None]]]
"""Finds runs by their ids; None stands for one that there is not."""

Show = Callable[[Batch], str]
Count = Callable[[], Awaitable[int]]


@dataclass(frozen=True)
class News:
    """How much a page does not show yet: it is counted again and again, and told with these words."""

    count: Count
    say: Callable[[int], str]


@router.get("/live")
async def follow_runs(
    request: Request,
    container: Serving,
    project: Project,
    opened: Opened,
    run: Annotated[list[str] | None, Query()] = None,
) -> Response:
    """`progress` with each run's progress at once and at every change, `ended` and `gone` of a run, `news` with how
    much is new, and `over` where nothing is left to follow.

    `since` is the newest run that a list shows, whose filter the other parameters are; `results` is a run of whose
    results a page has seen `seen`.
    """
    places: StreamPlaces = request.app.state.streams
    watch: RunWatch = request.app.state.watch
    if request.headers.get("last-event-id") == OVER or places.taken.total() >= MOST_STREAMS:
        return Response(status_code=204)
    # Before the store is asked, so that many at once are not let in together.
    opened.enter_context(places.take(project))
    find = partial(watch.look_at, project)
    looked = await find(list(dict.fromkeys(run or ()))[:MOST_WATCHED_RUNS])
    runs = {run_id: found for run_id, found in looked.items() if found is not None}
    news = await find_news(request, container, project)
    if not runs and news is None:
        raise NotFound(Message("runs-not-found"))

    language = speech_of(request).language

    def show(batch: Batch) -> str:
        return watch.show(batch, project, language, lambda one: render_text(request, "progress.html", batch=one))

    told = stream_events(runs, find, show, partial(say_end, request), watching.make_rest(request), news=news)
    # Otherwise nginx holds events back until its buffer is full.
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return EventSourceResponse(told, headers=headers)


async def find_news(request: Request, container: Container, project: str) -> News | None:
    """What is to be counted; None where the page asks for none. Raises NotFound for a run that is not there."""
    speech, asked = speech_of(request), request.query_params
    watch: RunWatch = request.app.state.watch
    if (since := asked.get("since")) is not None:
        seen, wanted = read_cursor(since or None), read_asked(request).filter()
        list_runs, key = partial(container.batches.list, project, wanted, after=None), repr(wanted)

        async def count_runs() -> int:
            newest = await watch.once((project, key, 1), lambda: list_runs(limit=1))
            if not newest or (seen is not None and (newest[0].created_at, newest[0].id) <= seen):
                return 0
            found = await watch.once((project, key, MOST_NEW), lambda: list_runs(limit=MOST_NEW + 1))
            return sum(seen is None or (one.created_at, one.id) > seen for one in found)

        return News(count_runs, lambda count: say_news(speech, count))
    if (run_id := asked.get("results")) is not None:
        await container.batches.find(project, run_id)
        known = read_address_number(asked.get("seen")) or 0

        async def count_results() -> int:
            batch = await watch.look(project, run_id)
            return 0 if batch is None else max(0, batch.counts.total - batch.counts.queued - known)

        return News(count_results, lambda count: say_results(speech, count))
    return None


def say_news(speech: Speech, count: int) -> str:
    """`3 new runs`; of more than MOST_NEW that there are more."""
    shown = speech.formats.count(min(count, MOST_NEW)) + ("+" if count > MOST_NEW else "")
    return speech.ngettext("%(count)s new run", "%(count)s new runs", count, shown)


def say_results(speech: Speech, count: int) -> str:
    """`12 new results`."""
    return speech.ngettext("%(count)s new result", "%(count)s new results", count, speech.formats.count(count))


async def stream_events(
    runs: Mapping[str, Batch],
    find: Find,
    show: Show,
    say: Show,
    goes_on: GoesOn,
    *,
    news: News | None = None,
) -> AsyncIterator[bytes]:
    """The events from `runs` to the end of all of them, or with `news` as long as the stream goes on."""
    clock = asyncio.get_running_loop().time
    open_runs = {run_id: batch for run_id, batch in runs.items() if batch.status not in ENDS}
    for batch in runs.values():
        yield write_event(batch, show, say)
    sent_at, wait, told = clock(), watching.SHORTEST_POLL_SECONDS, 0
    while open_runs or news is not None:
        if not await goes_on(wait):
            return
        changed = False
        for run_id, found in (await look_again(find, open_runs)).items():
            before = open_runs[run_id]
            if found is before or (found is not None and steady(found) == steady(before)):
                continue
            changed = True
            yield format_event("gone", {"id": run_id}) if found is None else write_event(found, show, say)
            if found is None or found.status in ENDS:
                del open_runs[run_id]
            else:
                open_runs[run_id] = found
        if news is not None and (count := await count_again(news, told)) != told:
            told, changed = count, True
            yield format_event("news", {"text": news.say(count) if count else ""})
        longest = min(LONGEST_POLL_SECONDS, watching.LONGEST_POLL_SECONDS)
        wait = watching.SHORTEST_POLL_SECONDS if changed else min(longest, wait * 1.5)
        if changed:
            sent_at = clock()
        elif clock() - sent_at >= watching.SILENT_SECONDS:
            yield KEEPALIVE_COMMENT
            sent_at = clock()
    yield format_event(OVER, {}, event_id=OVER)


async def look_again(find: Find, runs: Mapping[str, Batch]) -> Mapping[str, Batch | None]:
    """The runs as they are now, or as they were if the store is unavailable."""
    try:
        return await find(runs)
    except StoreError as error:
        logger.warning("%s: %s", error.code, error.loggable, extra={"code": error.code})
        return dict(runs)


async def count_again(news: News, told: int) -> int:
    """How much is new now, or was if the store is unavailable."""
    try:
        return await news.count()
    except StoreError as error:
        logger.warning("%s: %s", error.code, error.loggable, extra={"code": error.code})
        return told


def write_event(batch: Batch, show: Show, say: Show) -> bytes:
    """A run's progress, with a text for screen readers if it has ended."""
    if batch.status in ENDS:
        return format_event("ended", {"id": batch.id, "html": show(batch), "said": say(batch)})
    return format_event("progress", {"id": batch.id, "html": show(batch)})


def format_event(name: str, data: Mapping[str, str], *, event_id: str | None = None) -> bytes:
    """One event."""
    retry = None if event_id else watching.RECONNECT_MILLISECONDS
    return format_sse_event(event=name, data_str=json.dumps(data, ensure_ascii=False), id=event_id, retry=retry)


def say_end(request: Request, batch: Batch) -> str:
    """That the run has ended, for a screen reader."""
    _, run = speech_of(request).say, title_run(batch)
    if batch.status == "completed":
        return _("The run %(run)s is complete.", run=run)
    return _("The run %(run)s was cancelled.", run=run)
