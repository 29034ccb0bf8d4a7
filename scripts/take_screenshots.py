"""Takes the pictures in docs/dashboard/: every page, on the demo's runs. Needs Chromium and the dev extra."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "dashboard"
DESK = (1280, 860)
BROWSERS = ("chromium", "chromium-headless-shell", "google-chrome")
TALLEST = 1700
"""Pixels: what is further down tells no more of how a page looks."""


@dataclass(frozen=True)
class Picture:
    """One page as one visitor sees it."""

    name: str
    path: str
    locale: str = "en"
    part: str | None = None
    """A selector of what of the page is shown; all of it without one."""


def list_pictures(runs: dict[str, str], rounds: str) -> Iterator[Picture]:
    """Each page in English, and those that matter most in the other languages too."""
    after, before = runs["ja-dialogue bot-a a-102"], runs["ja-dialogue bot-a a-101"]
    compared = f"/explore?run={before}&run={after}"
    comments = [runs[f"ko-comment bot-a {build}"] for build in ("a-101", "a-102")]
    chat = [runs[f"ko-dialogue bot-a {build}"] for build in ("a-101", "a-102")]
    korean = f"/explore?run={comments[0]}&run={comments[1]}"
    yield Picture("runs", "/")
    yield Picture("run", f"/runs/{after}")
    yield Picture("items", f"/explore?run={after}")
    yield Picture("explore", compared)
    yield Picture("case", compared, part=".cases > :first-child")
    for locale, shown, beside in (("ja", after, compared), ("ko", comments[1], korean)):
        yield Picture(f"runs-{locale}", "/", locale)
        yield Picture(f"run-{locale}", f"/runs/{shown}", locale)
        yield Picture(f"explore-{locale}", beside, locale)
        yield Picture(f"try-{locale}", f"/try?example={locale}", locale)
    yield Picture("case-ja", compared, "ja", part=".cases > :first-child")
    yield Picture("case-ko", f"/explore?run={chat[0]}&run={chat[1]}", "ko", part=".cases > :first-child")
    yield Picture("item-ja", f"/runs/{after}/items/0", "ja")
    yield Picture("item-ko", f"/runs/{comments[1]}/items/0", "ko")
    yield Picture("aspects", "/explore/aspects?rubric=ja-dialogue")
    yield Picture("try", "/try?example=ja")
    yield Picture("sheet", f"{rounds}/sheet?rater=Aiko", "ja")


@contextmanager
def demo_service() -> Iterator[str]:
    """A service of its own process with fresh runs of the demo; yields its URL."""
    with tempfile.TemporaryDirectory(prefix="saiten-pictures-") as folder:
        database = Path(folder) / "demo.db"
        command = [sys.executable, "-m", "saiten_server"]
        subprocess.run([*command, "demo", "--quiet", "--database", str(database)], check=True, cwd=ROOT)
        settings = {
            "DATABASE_URL": f"sqlite+aiosqlite:///{database}",
            "SAITEN_JUDGE": "lexical",
            "SAITEN_DRAIN_SECONDS": "0",
            "SAITEN_LOG_LEVEL": "error",
        }
        serve = [*command, "serve", "--port", "0"]
        with subprocess.Popen(serve, cwd=ROOT, env={**os.environ, **settings}, stdout=subprocess.PIPE) as process:
            said = process.stdout.readline().decode() if process.stdout else ""
            try:
                yield said.split()[3]
            finally:
                process.terminate()


def find_runs(url: str) -> dict[str, str]:
    """Ids by `rubric system build`."""
    found: list[dict[str, Any]] = httpx.get(f"{url}/v1/batches?limit=200", trust_env=False).json()["items"]
    return {
        f"{run['rubric']} {run['metadata'].get('system')} {run['metadata'].get('build')}": run["id"] for run in found
    }


def open_round(url: str, run: str) -> str:
    """Opens a rating round, and returns its address."""
    form = {"run": run, "name": "Spring round", "items": "40", "raters_per_item": "3", "seed": "0"}
    answer = httpx.post(f"{url}/rate", data=form, trust_env=False)
    return answer.headers["location"]


def take(browser: Browser, url: str, picture: Picture) -> None:
    """Writes the picture's file."""
    width, height = DESK
    context = browser.new_context(
        base_url=url,
        locale=picture.locale,
        viewport={"width": width, "height": height},
        timezone_id="Asia/Seoul" if picture.locale == "ko" else "Asia/Tokyo",
    )
    page = context.new_page()
    page.goto(picture.path)
    page.wait_for_function("() => !document.querySelector('.computing')")
    page.set_viewport_size({"width": width, "height": min(TALLEST, height_of(page))})
    shown = page if picture.part is None else page.locator(picture.part)
    shown.screenshot(path=FOLDER / f"{picture.name}.png")
    context.close()


def height_of(page: Page) -> int:
    """The whole page's height in pixels."""
    height: int = page.evaluate("document.documentElement.scrollHeight")
    return height


def main() -> None:
    """Takes all pictures again. The old ones stay until the service and the browser run."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    chromium = os.environ.get("SAITEN_TEST_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    with demo_service() as url, sync_playwright() as playwright:
        runs = find_runs(url)
        rounds = open_round(url, runs["ja-dialogue bot-a a-102"])
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        for picture in list_pictures(runs, rounds):
            take(browser, url, picture)
            print(picture.name)
        browser.close()


if __name__ == "__main__":
    main()
