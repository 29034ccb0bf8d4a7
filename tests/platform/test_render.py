import asyncio
import os
import select
import signal
import sys
import threading
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any
from xml.etree import ElementTree

import pytest

from saiten_server.platform.charts import render
from saiten_server.platform.charts.canvas import ChartLabels, frame, letters, pixels, say_nothing
from saiten_server.platform.charts.histogram import HistogramLabels, build_histogram
from saiten_server.platform.charts.render import ChartRenderer, clean_svg, draw_svg
from saiten_server.platform.helpers import follow_parent, open_process
from tests.support.drawing import Drawing, draw
from tests.support.waiting import LIMIT_SECONDS

HOSTILE = [
    "<script>alert(1)</script>",
    "\"&'><img src=x onerror=alert(1)>",
    "]]>\x00\x0b\x1b[31m\u202eevil\ud800\ufffe",
    "日本語の対話システム",
    "한국어 대화 시스템",
    "👨‍👩‍👧‍👦🇯🇵",
    "שלום עולם مرحبا",
    "x" * 300,
    "${datum.x} {{x}} datum.text",
    "",
]


def chart(text: str) -> dict[str, Any]:
    labels = HistogramLabels(title=text, description=text, unrated=text, nothing=text)
    return build_histogram([(text, 3), ("b", 6)], 2, labels)


class Counted:
    """Stands where the engine is called: counts, and can be held up."""

    def __init__(self, real: Callable[[dict[str, Any]], str]) -> None:
        self.real, self.calls, self.at_once, self.most = real, 0, 0, 0
        self.lock = threading.Lock()
        self.allowed = threading.Event()
        self.allowed.set()

    def __call__(self, spec: dict[str, Any]) -> str:
        with self.lock:
            self.calls += 1
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        assert self.allowed.wait(LIMIT_SECONDS)
        drawn = self.real(spec)
        with self.lock:
            self.at_once -= 1
        return drawn


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted(draw_svg)
    monkeypatch.setattr(render, "draw_svg", counted)
    return counted


@pytest.mark.parametrize("text", HOSTILE)
async def test_texts_of_others_are_only_ever_text(text: str) -> None:
    drawn = Drawing(await ChartRenderer().draw(chart(text)))
    for element in drawn.root.iter():
        assert element.tag.rpartition("}")[2] in {"svg", "g", "path", "line", "text"}
        assert not {name for name in element.attrib if name.startswith("on") or name in {"style", "href", "id"}}
    assert drawn.text.count("<script") == drawn.text.count("<img") == drawn.text.count("xlink") == 0
    # Three labels, of which long ones have two lines.
    assert 3 <= len(drawn.texts("labels")) <= 6


async def test_a_text_that_fits_is_drawn_as_it_is() -> None:
    assert Drawing(await ChartRenderer().draw(chart("<b>&\"'日本"))).texts("labels")[0] == "<b>&\"'日本"


async def test_controls_are_made_visible_wherever_a_specification_has_them() -> None:
    text = letters("t", [{"text": "a\x00b\ud800\u202e"}], {"value": 0}, {"value": 5})
    spec = frame([text], ChartLabels("t\x01", "", ""), width=100, height=10)
    drawn = Drawing(await ChartRenderer().draw(spec))
    assert drawn.all_texts() == ["a\ufffdb\ufffd\ufffd"]
    assert drawn.root.get("aria-label") == "t\ufffd"


async def test_is_one_labelled_image() -> None:
    spec = say_nothing(ChartLabels("Levels", "How often each was given.", "nothing"), 100)
    drawn = Drawing(await ChartRenderer().draw(spec))
    assert drawn.root.attrib == {
        "class": "chart", "viewBox": "0 0 100 48", "width": "100", "role": "img",
        "aria-label": "Levels. How often each was given.",
    }  # fmt: skip
    assert [(child.tag[-1], child.attrib) for child in drawn.root] == [("g", {"aria-hidden": "true"})]
    assert not [e for e in list(drawn.root.iter())[1:] for name in e.attrib if name.startswith(("aria-r", "role"))]


async def test_is_decoration_without_title_and_description() -> None:
    drawn = Drawing(await ChartRenderer().draw(say_nothing(ChartLabels("", "", "x"), 100)))
    assert drawn.root.get("aria-hidden") == "true"
    assert drawn.root.get("role") is None


async def test_all_colours_are_the_pages() -> None:
    drawn = Drawing(await ChartRenderer().draw(chart("a")))
    colours = {e.attrib[name] for e in drawn.root.iter() for name in ("fill", "stroke") if name in e.attrib}
    assert "var(--chart-1)" in colours
    assert all(colour == "none" or colour.startswith("var(--") for colour in colours), colours


async def test_draws_the_same_once(counted: Counted) -> None:
    charts = ChartRenderer()
    first, second = await asyncio.gather(charts.draw(chart("a")), charts.draw(chart("a")))
    assert first == second == await charts.draw(chart("a"))
    assert counted.calls == 1


async def test_draws_one_after_the_other(counted: Counted) -> None:
    charts = ChartRenderer()
    drawn = await asyncio.gather(*(charts.draw(chart(str(number))) for number in range(8)))
    assert [Drawing(text).texts("labels")[0] for text in drawn] == [str(number) for number in range(8)]
    assert (counted.calls, counted.most) == (8, 1)


async def test_draws_in_another_process_what_it_draws_in_a_thread() -> None:
    charts = ChartRenderer(open_executor=open_process)
    try:
        assert await charts.draw(chart("<日本>")) == await ChartRenderer().draw(chart("<日本>"))
    finally:
        charts.close()


async def test_draws_on_when_the_process_was_killed() -> None:
    opened: list[ProcessPoolExecutor] = []

    def open_next() -> ProcessPoolExecutor:
        opened.append(ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=follow_parent))
        return opened[-1]

    charts = ChartRenderer(open_executor=open_next)
    try:
        await charts.draw(chart("a"))
        pid = await asyncio.get_running_loop().run_in_executor(opened[0], os.getpid)
        os.kill(pid, signal.SIGKILL)
        assert "<svg" in await charts.draw(chart("b"))
    finally:
        charts.close()
    assert len(opened) == 2


async def test_gives_up_where_every_process_ends() -> None:
    opened = 0

    def open_broken() -> ProcessPoolExecutor:
        nonlocal opened
        opened += 1
        return ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=end)

    charts = ChartRenderer(open_executor=open_broken)
    with pytest.raises(BrokenExecutor):
        await charts.draw(chart("a"))
    charts.close()
    assert opened == 2


def end() -> None:
    os._exit(1)


async def test_forgets_what_was_not_asked_for_the_longest(counted: Counted) -> None:
    charts = ChartRenderer(most_kept=2)
    for text in ("a", "b", "a", "c", "a"):
        await charts.draw(chart(text))
    assert counted.calls == 3
    await charts.draw(chart("b"))
    assert counted.calls == 4


async def test_a_failed_drawing_is_not_kept_and_blocks_nobody() -> None:
    charts = ChartRenderer()
    for _ in range(2):
        with pytest.raises(ValueError, match="conversion failed"):
            await charts.draw({"mark": {"type": "bar"}, "encoding": {"x": 7}, "layer": 3})
    assert "<svg" in await charts.draw(chart("a"))


@pytest.mark.parametrize(
    "part",
    [
        {"data": {"url": "http://127.0.0.1:9/x.json"}},
        {"data": {"url": "file:///etc/hostname"}},
        {"mark": {"type": "image", "url": "http://127.0.0.1:9/x.png"}},
        {"mark": {"type": "text", "href": "http://127.0.0.1:9/"}},
    ],
)
async def test_refuses_links(part: dict[str, Any], counted: Counted) -> None:
    with pytest.raises(ValueError, match="a chart has no"):
        await ChartRenderer().draw({"data": {"values": [{}]}, "mark": "point", **part})
    assert counted.calls == 0


async def test_the_engine_itself_fetches_nothing() -> None:
    served = 0

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        served += 1
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        spec = {"data": {"url": f"http://127.0.0.1:{port}/x.json"}, "mark": "point"}
        with pytest.raises(ValueError, match="not allowed"):
            await asyncio.to_thread(draw_svg, spec)
    assert served == 0


async def test_refuses_what_is_no_number() -> None:
    row = {"text": "a", "x": float("nan")}
    spec = frame(
        [letters("t", [row], pixels(0, 9).at("x"), {"value": 0})],
        ChartLabels("", "", ""),
        width=9,
        height=9,
    )
    with pytest.raises(ValueError, match="not JSON compliant"):
        await ChartRenderer().draw(spec)


def test_a_name_says_which_marks_are_which() -> None:
    assert len(draw(chart("a")).marks("bars")) == 2


async def test_a_page_waits_for_no_drawing_and_many_pages_ask_for_one(counted: Counted) -> None:
    charts = ChartRenderer()
    counted.allowed.clear()
    assert await asyncio.gather(*(charts.draw_soon(chart("a"), 0) for _ in range(5))) == [None] * 5
    counted.allowed.set()
    drawn = await charts.draw(chart("a"))
    assert await charts.draw_soon(chart("a"), 0) == drawn
    assert counted.calls == 1


async def test_only_so_many_drawings_wait_behind_pages(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "MOST_BEGUN", 2)
    charts = ChartRenderer()
    counted.allowed.clear()
    for text in "abc":
        assert await charts.draw_soon(chart(text), 0) is None
    counted.allowed.set()
    await charts.draw(chart("last"))  # behind those that wait
    assert counted.calls == 3
    assert await charts.draw_soon(chart("c"), 60) is not None


async def test_a_page_is_there_without_the_chart_where_every_process_ends(caplog: pytest.LogCaptureFixture) -> None:
    charts = ChartRenderer(
        open_executor=lambda: ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=end)
    )
    assert await charts.draw_soon(chart("a"), 60) is None
    charts.close()
    assert "a chart could not be drawn" in caplog.text


HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="9" height="8" viewBox="0 0 9 8">'


def clean(content: str) -> str:
    cleaned = clean_svg(f"{HEAD}{content}</svg>", title="t", description="")
    return cleaned.partition('<g aria-hidden="true">')[2].removesuffix("</g></svg>")


@pytest.mark.parametrize(
    "content",
    [
        "<script>alert(1)</script>",
        "<style>*{fill:red}</style>",
        '<a xlink:href="javascript:x"><text>a</text></a>',
        '<image href="http://x/y.png"/>',
        '<foreignObject><body xmlns="http://www.w3.org/1999/xhtml"/></foreignObject>',
        '<defs><clipPath id="clip0"/></defs>',
        '<use href="#a"/>',
        '<script xmlns="http://www.w3.org/1999/xhtml">x</script>',
    ],
)
def test_keeps_no_element_that_a_chart_does_not_need(content: str) -> None:
    assert clean_svg(f"{HEAD}{content}</svg>", title="t", description="").endswith('<g aria-hidden="true" /></svg>')


def test_keeps_no_attribute_that_a_chart_does_not_need() -> None:
    content = '<line id="a" style="x" onclick="y" href="z" tabindex="0" role="b" aria-label="c" class="mark" x2="3"/>'
    assert clean(content) == '<line x2="3" />'


def test_leaves_out_what_is_not_seen() -> None:
    unseen = '<path d="" stroke="red"/><path class="background" d="M0,0h9v9h-9Z"/><path d="M0,0h9" display="none"/>'
    assert clean(f'<g transform="translate(5,5)"><g>{unseen}</g></g><g><path d="M0,0h1" fill="red"/></g>') == (
        '<path d="M0,0h1" fill="red" />'
    )


def test_shortens_numbers_but_no_texts() -> None:
    drawn = '<text transform="translate(33.33333333,-0.0000001)" font-size="11px">0.123456</text>'
    assert clean(drawn) == '<text transform="translate(33.33,-0)" font-size="11px">0.123456</text>'


def test_names_marks_by_their_layer() -> None:
    assert clean('<g class="mark-rect role-mark bars_marks"><line x2="1"/></g>') == (
        '<g class="chart-bars"><line x2="1" /></g>'
    )


@pytest.mark.parametrize(
    ("title", "description", "label"),
    [("a", "b", "a. b"), ("一覧。", "説明", "一覧。 説明"), ("", "b", "b"), ("a", " ", "a"), ('"&<', "", '"&<')],
)
def test_labels_with_title_and_description(title: str, description: str, label: str) -> None:
    root = ElementTree.fromstring(clean_svg(f"{HEAD}</svg>", title=title, description=description))
    assert root.get("aria-label") == label


PARENT = """
import os, signal
from saiten_server.platform.helpers import open_process

if __name__ == "__main__":
    print(open_process().submit(os.getpid).result(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="waits by a pidfd")
async def test_the_process_ends_with_one_that_was_killed(tmp_path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    parent = await asyncio.create_subprocess_exec(
        sys.executable, str(script), stdout=PIPE, stderr=DEVNULL, env=environment
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    assert await parent.wait() == -signal.SIGKILL
    try:
        handle = os.pidfd_open(child)
    except ProcessLookupError:
        return
    try:
        ended, _, _ = await asyncio.to_thread(select.select, [handle], [], [], 20)
        assert ended
    finally:
        os.close(handle)
    # The child had the pipe open too: without its end the transport would be left to the garbage collector.
    assert await parent.stdout.read() == b""


def test_draws_in_the_thread_that_asks() -> None:
    assert draw_svg(say_nothing(ChartLabels("t", "d", "nothing"), 90)).startswith(
        '<svg xmlns="http://www.w3.org/2000/svg"'
    )
