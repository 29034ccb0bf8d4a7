"""First paint and bytes of pages as a visitor's Chromium has them, nothing cached."""

from __future__ import annotations

import importlib.util
import os
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ROUNDS = 3
PATIENCE_SECONDS = 20
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


@dataclass(frozen=True)
class Painted:
    """Milliseconds from the visit to the first content on the screen, and all bytes that came, headers included."""

    paint_ms: float
    wire: int


def paint(url: str, paths: Sequence[str]) -> list[Painted]:
    """Each page in a window without a cache, the median of a few; nothing where there is no browser."""
    found = os.environ.get("SAITEN_TEST_CHROMIUM") or next(
        (path for name in NAMES if (path := shutil.which(name))), None
    )
    if found is None or importlib.util.find_spec("playwright") is None:
        print("  first paint: not measured, it needs Chromium and playwright")
        return []
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"])
        paint_once(browser, url, paths[0])  # the browser's own start is none of the page's
        painted = [middle([paint_once(browser, url, path) for _ in range(ROUNDS)]) for path in paths]
        browser.close()
    return painted


def paint_once(browser: Browser, url: str, path: str) -> Painted:
    """One visit of a visitor who was never here."""
    context = browser.new_context(base_url=url, locale="ja", viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        session, came = context.new_cdp_session(page), list[int]()

        def count(event: dict[str, Any]) -> None:
            came.append(int(event["encodedDataLength"]))

        session.on("Network.loadingFinished", count)
        session.send("Network.enable")
        page.goto(path, wait_until="load")
        for _ in range(PATIENCE_SECONDS * 50):  # the pages' policy lets nothing wait inside them
            if (painted := page.evaluate(PAINT)) is not None:
                return Painted(float(painted), sum(came))
            page.wait_for_timeout(20)
        raise TimeoutError(f"{path} shows nothing after {PATIENCE_SECONDS} s")
    finally:
        context.close()


def middle(found: Sequence[Painted]) -> Painted:
    """The median of each."""
    paints, wires = [one.paint_ms for one in found], [one.wire for one in found]
    return Painted(statistics.median(paints), int(statistics.median(wires)))
