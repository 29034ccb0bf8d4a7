"""How long after a result is committed open pages show it: the list of runs, and the items of the run.

    python -m benchmarks.live                # twenty results, one every one to three seconds
    python -m benchmarks.live --quick        # five

A service of its own has a run judged, one response at a time, by a judge whose answers take one to three seconds. One
Chromium has both pages open and notes when each changes; meanwhile the database is asked every few milliseconds what is
committed. Both read the same clock.
"""

from __future__ import annotations

import random
import sqlite3
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Page, sync_playwright

from benchmarks.record import Figure, Report, at_most, run_alone
from tests.support.chromium import launch, visit
from tests.support.command import served
from tests.support.site import JudgeProcess, make_item, wait_until

NAME = "live"
RESULTS, QUICK_RESULTS = 20, 5
JUDGE_MS = (1000.0, 3000.0)
"""Drawn for each answer: with a constant one, results would come in step with the looks of the stream."""
LIMIT_SECONDS = 1.0
LOOK_SECONDS = 0.005
PATIENCE_SECONDS = 300.0

RECORD = """([selector, pattern]) => {
  window.shown = {};
  const look = () => {
    const found = document.querySelector(selector)?.textContent.match(new RegExp(pattern));
    if (found) { window.shown[found[1]] ??= Date.now() / 1000; }
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
}"""
"""Notes when a number first stands in a part of the page, in seconds since 1970."""


class CommitWatch(threading.Thread):
    """Notes in `seen` when so many results of the run were first committed, in seconds since 1970."""

    def __init__(self, file: Path, run: str) -> None:
        super().__init__(daemon=True)
        self._file, self._run = file, run
        self.seen: dict[int, float] = {}
        self.ended = threading.Event()

    def run(self) -> None:
        query = "SELECT scored + partial + failed FROM batches WHERE id = ?"
        with closing(sqlite3.connect(self._file)) as connection:
            while not self.ended.wait(LOOK_SECONDS):
                (count,) = connection.execute(query, (self._run,)).fetchone()
                self.seen.setdefault(count, time.time())


def post(url: str, count: int) -> str:
    """The id of a run of so many responses."""
    body: dict[str, Any] = {"name": "live", "relevance": None, "items": [make_item("x", n) for n in range(count)]}
    answer = httpx.post(f"{url}/v1/batches", json=body, trust_env=False, verify=False).raise_for_status()
    return str(answer.json()["id"])


def delays_of(page: Page, committed: Mapping[int, float], count: int) -> list[float]:
    """Seconds from each commit, but the last one's, to the first change that shows as many results or more."""
    shown = {int(number): at for number, at in page.evaluate("window.shown").items()}
    return [
        min(at for number, at in shown.items() if number >= wanted) - at_commit
        for wanted, at_commit in sorted(committed.items())
        if 0 < wanted < count
    ]


def watch(url: str, file: Path, judge: JudgeProcess, count: int) -> dict[str, list[float]]:
    """The delays of both pages."""
    with sync_playwright() as playwright:
        browser = launch(playwright)
        run = post(url, count)
        watched = {
            "list of runs": ("/", f"#progress-{run}", r"(\d+) of \d+"),
            "items of the run": (f"/runs/{run}/items", "#news", r"(\d+) new"),
        }
        with visit(browser, url) as first, visit(browser, url) as second:
            pages = dict(zip(watched, (first.page, second.page), strict=True))
            for name, (path, selector, pattern) in watched.items():
                pages[name].goto(path)
                pages[name].evaluate(RECORD, [selector, pattern])
            commits = CommitWatch(file, run)
            commits.start()
            draw = random.Random(0)
            for number in range(1, count + 1):
                judge.turn(latency_ms=draw.uniform(*JUDGE_MS))
                wait_until(lambda: max(commits.seen, default=0) >= number, PATIENCE_SECONDS, f"{number} results")  # noqa: B023
            pages["list of runs"].wait_for_timeout(2000)
            commits.ended.set()
            found = {name: delays_of(page, commits.seen, count) for name, page in pages.items()}
        browser.close()
    return found


def measure(report: Report, *, quick: bool = False) -> None:
    """Has a run judged while both pages are open."""
    count = 2 + (QUICK_RESULTS if quick else RESULTS)
    judge = JudgeProcess(latency_ms=max(JUDGE_MS))
    judge.start()
    try:
        with tempfile.TemporaryDirectory(prefix="saiten-bench-") as name:
            file = Path(name) / "live.db"
            settings = {
                "DATABASE_URL": f"sqlite+aiosqlite:///{file}",
                "OPENAI_API_KEY": "k",
                "OPENAI_BASE_URL": judge.base_url,
                "SAITEN_JUDGE_CONCURRENCY": "1",
                "SAITEN_LOG_LEVEL": "error",
            }
            with served(Path(name), **settings) as (url, _):
                found = watch(url, file, judge, count)
    finally:
        judge.stop()
    for page, delays in found.items():
        note = f"{len(delays)} results, at most {max(delays):.2f} s"
        report.add(Figure(NAME, page, "s", delays, target=at_most(LIMIT_SECONDS), note=note))


if __name__ == "__main__":
    run_alone(measure, __doc__)
