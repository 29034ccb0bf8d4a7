"""Renders specifications as SVG for pages, in a separate process for the JavaScript engine, with a cache."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor
from typing import Any
from xml.etree import ElementTree

from cachetools import LRUCache

from saiten_server.core.model import digest
from saiten_server.platform.charts.canvas import CONFIG, sanitize

logger = logging.getLogger("saiten.charts")

MOST_KEPT = 256
MOST_BEGUN = 64
"""The most drawings that wait for pages at a time; further ones start when there is room."""

LINKS = frozenset({"url", "href"})
"""Keys by which a specification could load data or link elsewhere."""

SVG = "http://www.w3.org/2000/svg"
ELEMENTS = frozenset({"svg", "g", "path", "line", "rect", "text", "tspan"})
ATTRIBUTES = frozenset(
    {
        *("d", "x", "y", "x1", "x2", "y1", "y2", "dx", "dy", "width", "height", "transform"),
        *("fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap"),
        *("stroke-linejoin", "stroke-miterlimit", "opacity", "text-anchor", "font-size", "font-weight", "font-style"),
    }
)
"""The only attributes that are kept, so that no id, link, style or handler reaches a page."""

DEFAULT_ATTRIBUTES = {("opacity", "1"), ("transform", "translate(0,0)")}
EMPTY_PATHS = frozenset({"", "M0,0h0v0h0Z"})
LONG_FRACTION = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")
MARKS_CLASS = re.compile(r"\b(\w+)_marks\b")
SENTENCE_ENDS = (".", "。", "!", "！", "?", "？", ":", "：")


class ChartRenderer:
    """Renders Vega-Lite specifications as SVG that can be inserted into HTML. For one event loop.

    The first drawing takes half a second and more, as it starts the JavaScript engine; later ones some hundredths. The
    engine holds Python's lock while it draws, so in a thread, which is what it has without `open_executor`, everything
    else waits: a process of its own, which takes some 160 MB, keeps the loop free.
    """

    def __init__(self, *, open_executor: Callable[[], Executor] | None = None, most_kept: int = MOST_KEPT) -> None:
        self._open_executor = open_executor
        self._executor: Executor | None = None
        self._kept: LRUCache[str, str] = LRUCache(most_kept)
        # The engine has one thread: a second drawing would only hold another of the executor's while it waits.
        self._turn = asyncio.Lock()
        self._begun: dict[str, asyncio.Task[str]] = {}

    async def draw(self, spec: Mapping[str, Any]) -> str:
        """The chart as `<svg>`. Raises ValueError for an invalid specification, or one with a link."""
        sanitized = sanitize_spec(spec)
        key = digest(sanitized)
        if (found := self._kept.get(key)) is not None:
            return found
        async with self._turn:
            # An earlier task in the queue may have asked for the same.
            if (found := self._kept.get(key)) is None:
                found = self._kept[key] = await self._draw(sanitized)
            return found

    async def draw_soon(self, spec: Mapping[str, Any], seconds: float) -> str | None:
        """The chart; None where it takes longer, too many wait, or its process ended twice. A later request gets it."""
        sanitized = sanitize_spec(spec)
        key = digest(sanitized)
        if (found := self._kept.get(key)) is not None:
            return found
        task = self._begun.get(key)
        if task is None:
            if len(self._begun) >= MOST_BEGUN:
                return None
            task = self._begun[key] = asyncio.create_task(self.draw(sanitized))
            task.add_done_callback(lambda _: self._end(key))
        await asyncio.wait({task}, timeout=seconds)
        if not task.done() or task.cancelled() or isinstance(task.exception(), BrokenExecutor):
            return None
        return task.result()

    def warm(self) -> None:
        """Starts the engine's process, if there is one, in the background, before the next drawing needs it."""
        if self._executor is None and self._open_executor is not None:
            self._executor = self._open_executor()
            self._executor.submit(draw_svg, {"data": {"values": [{}]}, "mark": "point"})

    def close(self) -> None:
        """Ends the executor that was opened; a drawing after it would open another."""
        for task in self._begun.values():
            task.cancel()
        self._end_executor()

    def _end_executor(self) -> None:
        if self._executor is not None:
            # Waits for the process, which takes a tenth of a second: a process that a signal ends frees nothing later.
            self._executor.shutdown(cancel_futures=True)
            self._executor = None

    def _end(self, key: str) -> None:
        """Forgets a finished drawing. A failure is logged, since its page may never be requested again."""
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


def sanitize_spec(value: Any) -> Any:
    """A copy without characters that are invalid in XML or break a page's layout."""
    if isinstance(value, str):
        return sanitize(value)
    if isinstance(value, Mapping):
        if linked := LINKS & value.keys():
            raise ValueError(f"a chart has no {min(linked)!r}")
        return {name: sanitize_spec(part) for name, part in value.items()}
    return [sanitize_spec(part) for part in value] if isinstance(value, list | tuple) else value


def draw_svg(spec: dict[str, Any]) -> str:
    """Draws in this thread, without loading URLs or files."""
    import vl_convert

    drawn = vl_convert.vegalite_to_svg(spec, config=CONFIG, allowed_base_urls=[])
    title = spec.get("usermeta", {}).get("title", "")
    return clean_svg(drawn, title=title, description=spec.get("description", ""))


def clean_svg(drawn: str, *, title: str, description: str) -> str:
    """The drawing as one `<svg class="chart" role="img">` for HTML. Its marks have classes `chart-NAME`, no more.

    It has a viewBox and its natural width, so CSS may scale it; only what is in ELEMENTS and ATTRIBUTES is kept.
    """
    # The renderer wrote it a moment ago, of texts that it escapes: there is no document type to attack with.
    root = ElementTree.fromstring(drawn)  # noqa: S314
    content = ElementTree.Element("g", {"aria-hidden": "true"})
    content.extend(part for child in root for part in keep_visible(child))
    image = ElementTree.Element("svg", {"xmlns": SVG, "class": "chart"})
    image.attrib |= {name: root.get(name, "") for name in ("viewBox", "width")}
    if label := join_label(title, description):
        image.attrib |= {"role": "img", "aria-label": label}
    else:
        image.set("aria-hidden", "true")
    image.append(content)
    return ElementTree.tostring(image, encoding="unicode")


def join_label(title: str, description: str) -> str:
    """Both in one text, with punctuation between them at which a voice pauses."""
    title, description = title.strip(), description.strip()
    between = " " if title.endswith(SENTENCE_ENDS) else ". "
    return between.join(part for part in (title, description) if part)


def keep_visible(element: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """The visible part of an element: itself, its children where it is a plain group, or nothing."""
    tag = element.tag.removeprefix(f"{{{SVG}}}")
    if tag not in ELEMENTS or element.get("display") == "none" or is_unseen(tag, element):
        return
    kept = ElementTree.Element(tag, dict(keep_attributes(element)))
    kept.text = element.text if tag in {"text", "tspan"} else None
    kept.extend(part for child in element for part in keep_visible(child))
    if tag != "g":
        yield kept
    elif not kept.attrib:
        yield from kept
    elif len(kept):
        yield kept


def is_unseen(tag: str, element: ElementTree.Element) -> bool:
    """True for paths without a line, and for frames of groups that have neither fill nor stroke."""
    if tag != "path":
        return False
    bare = "fill" not in element.keys() and "stroke" not in element.keys()  # noqa: SIM118 - not a mapping
    return element.get("d", "") in EMPTY_PATHS or (element.get("class") == "background" and bare)


def keep_attributes(element: ElementTree.Element) -> Iterator[tuple[str, str]]:
    """The attributes that a chart needs, with short numbers, and its name as a class."""
    for name, value in element.items():
        if name == "class" and (found := MARKS_CLASS.search(value)):
            yield "class", f"chart-{found[1].replace('_', '-')}"
        elif name in ATTRIBUTES and (name, value) not in DEFAULT_ATTRIBUTES:
            # Two digits after the point are finer than any screen.
            yield name, LONG_FRACTION.sub(lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), value)
