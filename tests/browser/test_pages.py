"""Every page: no complaint of the browser, no barrier, no page wider than the phone, in each language and colour."""

from __future__ import annotations

from itertools import product
from typing import Literal

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import Pages
from tests.support.chromium import DESK, PHONE, find_barriers, visit

NAMES = (
    "runs",
    "run",
    "run-ko",
    "items",
    "items-ko",
    "item",
    "item-ko",
    "compare",
    "compare-choose",
    "aspects",
    "aspects-ko",
    "try",
    "rate",
    "login",
    "nothing",
)
LOOKS: list[tuple[str, Literal["light", "dark"], tuple[int, int]]] = [
    ("en", "light", DESK),
    ("ja", "dark", DESK),
    ("ko", "light", DESK),
    ("ja", "light", PHONE),
    ("ko", "dark", PHONE),
    ("en", "dark", PHONE),
]


def path_of(site: Pages, name: str) -> str:
    """An address of the page, with something on it."""
    worse, before = site.run("ja-dialogue", "a-102"), site.run("ja-dialogue", "a-101")
    korean = next(run for told, run in site.runs.items() if "ko-comment" in told)
    return {
        "runs": "/",
        "run": f"/runs/{worse}",
        "run-ko": f"/runs/{korean}",
        "items": f"/runs/{worse}/items",
        "items-ko": f"/runs/{korean}/items",
        "item": f"/runs/{worse}/items/0",
        "item-ko": f"/runs/{korean}/items/0",
        "compare": f"/compare?baseline={before}&candidate={worse}",
        "compare-choose": "/compare",
        "aspects": "/aspects?rubric=ja-dialogue",
        "aspects-ko": "/aspects?rubric=ko-comment",
        "try": "/try",
        "rate": "/rate",
        "login": "/login",
        "nothing": "/nowhere",
    }[name]


@pytest.mark.parametrize(
    ("name", "look"),
    [*product(NAMES, LOOKS)],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else value,
)
def test_a_page_is_in_order(
    site: Pages, browser: Browser, name: str, look: tuple[str, Literal["light", "dark"], tuple[int, int]]
):
    locale, theme, size = look
    with visit(browser, site.url, locale=locale, theme=theme, size=size) as seen:
        answer = seen.page.goto(path_of(site, name))
        assert answer is not None
        assert answer.status == (404 if name == "nothing" else 200)
        seen.page.wait_for_function("() => !document.querySelector('.computing')")
        assert seen.page.locator("html").get_attribute("lang") == locale
        assert seen.page.locator("h1").count() == 1
        assert seen.overflow() <= 0, f"{seen.overflow()} px wider than the window"
        assert find_barriers(seen.page) == []
        refused = [told for told in seen.complaints if not (name == "nothing" and "404" in told)]
        assert refused == []


@pytest.mark.parametrize("name", NAMES)
def test_a_page_can_be_read_without_script(site: Pages, browser: Browser, name: str):
    with visit(browser, site.url, script=False) as seen:
        seen.page.goto(path_of(site, name))
        # What is computed behind a page comes with its own refresh.
        seen.page.locator("main:not(:has(.computing)) h1").wait_for()
        assert seen.page.locator("main").inner_text().strip()


def test_texts_have_their_own_language(site: Pages, browser: Browser):
    with visit(browser, site.url, locale="en") as seen:
        for name, language in (("item", "ja"), ("item-ko", "ko")):
            seen.page.goto(path_of(site, name))
            said = seen.page.locator(".chat .said")
            assert said.count() >= 2
            assert {said.nth(number).get_attribute("lang") for number in range(said.count())} == {language}
