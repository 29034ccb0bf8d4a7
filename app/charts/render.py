"""Draws specifications, one at a time, with the last drawings kept."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, Executor
from typing import Any

from app.charts.engine import draw_svg
from app.charts.lettering import tame
from app.domain.model import digest

logger = logging.getLogger("saiten.charts")

MOST_KEPT = 256
MOST_BEGUN = 64
"""Drawings behind pages that wait at a time; of more none is begun until there is room."""

SMALLEST: dict[str, Any] = {"data": {"values": [{}]}, "mark": "point"}
LINKS = frozenset({"url", "href"})
"""Keys by which a specification would have something fetched, or take a reader elsewhere."""


class ChartRenderer:
    """Makes SVG of Vega-Lite specifications, to be put into HTML as it is. For one event loop.

    The first drawing takes half a second and more, as it starts the JavaScript engine; later ones some hundredths. The
    engine holds Python's lock while it draws, so in a thread, which is what it has without `open_executor`, everything
    else waits: `open_process` keeps the loop free.
    """

    def __init__(self, *, open_executor: Callable[[], Executor] | None = None, most_kept: int = MOST_KEPT) -> None:
        self._open_executor = open_executor
        self._executor: Executor | None = None
        self._most_kept = most_kept
        self._kept: OrderedDict[str, str] = OrderedDict()
        # The engine has one thread: a second drawing would only hold another of the executor's while it waits.
        self._turn = asyncio.Lock()
        self._begun: dict[str, asyncio.Task[str]] = {}

    async def draw(self, spec: Mapping[str, Any]) -> str:
        """The chart as `<svg>`. Raises ValueError for a specification with a link, or one that is none."""
        tamed = tame_spec(spec)
        key = digest(tamed)
        if (found := self._recall(key)) is not None:
            return found
        async with self._turn:
            # Somebody before in the queue may have asked for the same.
            if (found := self._recall(key)) is not None:
                return found
            drawn = await self._draw(tamed)
            self._kept[key] = drawn
            if len(self._kept) > self._most_kept:
                self._kept.popitem(last=False)
            return drawn

    async def draw_soon(self, spec: Mapping[str, Any], seconds: float) -> str | None:
        """The chart where that takes no longer; else None, and it goes on being drawn for who asks again. None too
        where its process has ended twice, or where too many others wait."""
        tamed = tame_spec(spec)
        key = digest(tamed)
        if (found := self._recall(key)) is not None:
            return found
        task = self._begun.get(key)
        if task is None:
            if len(self._begun) >= MOST_BEGUN:
                return None
            task = self._begun[key] = asyncio.create_task(self.draw(tamed))
            task.add_done_callback(lambda _: self._end(key))
        await asyncio.wait({task}, timeout=seconds)
        if not task.done() or task.cancelled() or isinstance(task.exception(), BrokenExecutor):
            return None
        return task.result()

    def warm(self) -> None:
        """Starts the engine's process in the background, where it is one: the next drawing need not wait for that."""
        if self._executor is None and self._open_executor is not None:
            self._executor = self._open_executor()
            self._executor.submit(draw_svg, SMALLEST)

    def close(self) -> None:
        """Ends the executor that was opened; a drawing after it would open another."""
        for task in self._begun.values():
            task.cancel()
        self._end_executor()

    def _end_executor(self) -> None:
        if self._executor is not None:
            # Waits for the process, which takes a tenth of a second: whoever is ended by a signal frees nothing later.
            self._executor.shutdown(cancel_futures=True)
            self._executor = None

    def _end(self, key: str) -> None:
        """Lets go of a drawing that has ended; of one that failed the log is told, since perhaps nobody comes back."""
        task = self._begun.pop(key)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a chart could not be drawn", exc_info=error)

    async def _draw(self, spec: dict[str, Any]) -> str:
        try:
            return await self._run(spec)
        except BrokenExecutor:
            # Its process was killed, perhaps while it was idle. Once more with a fresh one; twice is no accident.
            self._end_executor()
            return await self._run(spec)

    async def _run(self, spec: dict[str, Any]) -> str:
        if self._executor is None and self._open_executor is not None:
            self._executor = self._open_executor()
        return await asyncio.get_running_loop().run_in_executor(self._executor, draw_svg, spec)

    def _recall(self, key: str) -> str | None:
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)


def tame_spec(value: Any) -> Any:
    """A copy without characters that XML or a page's layout cannot bear."""
    if isinstance(value, str):
        return tame(value)
    if isinstance(value, Mapping):
        if linked := LINKS & value.keys():
            raise ValueError(f"a chart has no {min(linked)!r}")
        return {name: tame_spec(part) for name, part in value.items()}
    return [tame_spec(part) for part in value] if isinstance(value, list | tuple) else value
