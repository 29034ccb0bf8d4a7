"""The JavaScript engine that draws, and a process of its own for it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import Executor, ProcessPoolExecutor
from threading import Thread
from typing import Any

from app.charts.svg import clean_svg
from app.charts.theme import CONFIG


def draw_svg(spec: dict[str, Any]) -> str:
    """Draws now, in this thread, with nothing fetched: neither addresses nor files."""
    import vl_convert

    drawn = vl_convert.vegalite_to_svg(spec, config=CONFIG, allowed_base_urls=[])
    title = spec.get("usermeta", {}).get("title", "")
    return clean_svg(drawn, title=title, description=spec.get("description", ""))


def open_process() -> Executor:
    """One process that draws. It starts with the first drawing, takes some 160 MB, and ends with this one."""
    # Not forked: threads of this process may hold locks that nobody would open in the other.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(max_workers=1, mp_context=context, initializer=settle)


def settle() -> None:
    """Has the process end when its parent does, however that ends, and leave Ctrl-C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=leave_with_parent, daemon=True).start()


def leave_with_parent() -> None:
    """Waits for the parent's end, then ends this process."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)
