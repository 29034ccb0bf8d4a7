"""A real browser that reports everything it complains about."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, Request, expect

from tests.support.services import absent
from tests.support.waiting import LIMIT_SECONDS

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PHONE = (360, 740)
DESK = (1280, 900)

REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""


def find_chromium() -> str:
    """The browser's path; skips, or fails in CI, where there is none."""
    given = os.environ.get("SAITEN_TEST_CHROMIUM")
    found = given or next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        absent("no Chromium: install it, or set SAITEN_TEST_CHROMIUM to its path")
    return found


def launch(playwright: Playwright) -> Browser:
    """The browser without a window; what is expected of its pages may take as long as on a busy machine."""
    expect.set_options(timeout=1000 * LIMIT_SECONDS)
    # A container has neither user namespaces for its sandbox, nor much shared memory. To draw as a graphics card would
    # takes a tenth more CPU.
    flags = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-software-rasterizer"]
    return playwright.chromium.launch(executable_path=find_chromium(), args=[*flags, "--disable-extensions"])


@dataclass
class Visit:
    """One visitor's browser window, and what went wrong in it."""

    page: Page
    context: BrowserContext
    complaints: list[str] = field(default_factory=list)

    def goto(self, path: str) -> Page:
        """Opens a page of the service; raises AssertionError for an answer that is an error."""
        answer = self.page.goto(path)
        assert answer is not None
        assert answer.status < 400, f"{path}: {answer.status}"
        return self.page

    def forget(self, status: int) -> None:
        """Takes one complaint of a page with this error status away, which a test asked for; fails without it."""
        (found, *_) = [told for told in self.complaints if f"the server responded with a status of {status} " in told]
        self.complaints.remove(found)

    def mark(self) -> None:
        """Leaves a mark that lasts as long as the page is not loaded anew."""
        self.page.evaluate("window.isTheSame = true")

    def is_same(self) -> bool:
        """Whether the marked page is still there."""
        return bool(self.page.evaluate("window.isTheSame === true"))

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        wider: int = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return wider


@contextmanager
def visit(
    browser: Browser,
    url: str,
    *,
    locale: str = "en",
    theme: Literal["light", "dark"] = "light",
    size: tuple[int, int] = DESK,
    script: bool = True,
    **more: Any,
) -> Iterator[Visit]:
    """A window of a fresh visitor."""
    width, height = size
    context = browser.new_context(
        base_url=url,
        locale=locale,
        color_scheme=theme,
        viewport={"width": width, "height": height},
        java_script_enabled=script,
        timezone_id="Asia/Tokyo",
        **more,
    )
    context.add_init_script(REPORT_VIOLATIONS)
    context.set_default_timeout(1000 * LIMIT_SECONDS)
    page = context.new_page()
    seen = Visit(page, context)

    def listen(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            seen.complaints.append(f"{message.type}: {message.text}")

    page.on("console", listen)
    page.on("pageerror", lambda error: seen.complaints.append(f"page error: {error}"))
    page.on("requestfailed", lambda request: note_failure(seen, request))
    try:
        yield seen
    finally:
        context.close()


def note_failure(seen: Visit, request: Request) -> None:
    """A complaint, unless the visitor left before a part of the page was there: that ends what is still loading."""
    if request.failure != "net::ERR_ABORTED" or request.resource_type == "document":
        seen.complaints.append(f"failed: {request.url} {request.failure}")


def press(page: Page, *keys: str) -> None:
    """Presses keys one after the other on a page whose scripts take them, whichever page was there before."""
    page.wait_for_load_state("domcontentloaded")  # modules have run by then; the page is seen before
    for key in keys:
        page.keyboard.press(key)


def find_barriers(page: Page) -> list[str]:
    """What axe-core calls serious or critical, with the first places of each."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    # What is in order it would list as well, which takes a third of its time.
    found = page.evaluate("async () => (await axe.run({resultTypes: ['violations']})).violations")
    grave = [one for one in found if one["impact"] in {"serious", "critical"}]
    return [f"{one['id']}: {one['help']} {[node['html'][:160] for node in one['nodes'][:3]]}" for one in grave]
