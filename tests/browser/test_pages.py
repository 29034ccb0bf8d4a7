"""Every page: no complaint of the browser, no barrier, no page wider than the window, in each language, size and colour."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import Pages
from tests.support.chromium import DESK, PHONE, Visit, find_barriers, visit

NAMES = (
    "runs",
    "run",
    "run-ko",
    "run-talks",
    "items",
    "items-ko",
    "item",
    "item-ko",
    "item-talk",
    "compare",
    "compare-choose",
    "explore",
    "explore-choose",
    "aspects",
    "aspects-ko",
    "try",
    "rate",
    "rubrics",
    "rubric",
    "rubric-changes",
    "login",
    "nothing",
)
LOCALES = ("en", "ja", "ko")
LOOKS: tuple[tuple[Literal["light", "dark"], tuple[int, int]], ...] = (("light", DESK), ("dark", PHONE))


def path_of(site: Pages, name: str) -> str:
    """An address of the page, with something on it."""
    worse, before = site.run("ja-dialogue", "a-102"), site.run("ja-dialogue", "a-101")
    korean = next(run for told, run in site.runs.items() if "ko-comment" in told)
    talks = site.run("ja-conversation", "bot-c")
    return {
        "runs": "/",
        "run": f"/runs/{worse}",
        "run-ko": f"/runs/{korean}",
        "run-talks": f"/runs/{talks}",
        "items": f"/runs/{worse}/items",
        "items-ko": f"/runs/{korean}/items",
        "item": f"/runs/{worse}/items/0",
        "item-ko": f"/runs/{korean}/items/0",
        "item-talk": f"/runs/{talks}/items/0",
        "compare": f"/compare?baseline={before}&candidate={worse}",
        "compare-choose": "/compare",
        "explore": f"/explore?run={before}&run={worse}&warning=&status=scored",
        "explore-choose": "/explore?text=a",
        "aspects": "/aspects?rubric=ja-dialogue",
        "aspects-ko": "/aspects?rubric=ko-comment",
        "try": "/try",
        "rate": "/rate",
        "rubrics": "/rubrics",
        "rubric": "/rubrics/ko-comment",
        "rubric-changes": "/rubrics/ja-dialogue?against=1",
        "login": "/login",
        "nothing": "/nowhere",
    }[name]


@pytest.mark.parametrize("locale", LOCALES)
def test_pages_are_in_order(site: Pages, browser: Browser, locale: str):
    """One visitor per language walks through all pages, and looks at each in both sizes and both colours."""
    with visit(browser, site.url, locale=locale) as seen:
        found = {name: look_at(seen, path_of(site, name), locale, turn) for turn, name in enumerate(NAMES)}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def look_at(seen: Visit, path: str, locale: str, turn: int) -> list[str]:
    """Opens the page; what is wrong with it. axe-core looks at each look of it once, in one language or another."""
    status = 404 if path == "/nowhere" else 200
    page = seen.page
    answer = page.goto(path)
    page.wait_for_function("() => !document.querySelector('.computing')")
    wrong = [] if answer is not None and answer.status == status else [f"answered {answer and answer.status}"]
    if (language := page.locator("html").get_attribute("lang")) != locale:
        wrong.append(f"is in {language}")
    if (heads := page.locator("h1").count()) != 1:
        wrong.append(f"has {heads} headings")
    for number, (theme, (width, height)) in enumerate(LOOKS):
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": height})
        if (wider := seen.overflow()) > 0:
            wrong.append(f"is {wider} px wider than a window of {width}")
        if (turn + LOCALES.index(locale)) % len(LOCALES) == number:
            wrong += find_barriers(page)
    wrong += [told for told in seen.complaints if not (status == 404 and "404" in told)]
    seen.complaints.clear()
    return wrong


def test_pages_can_be_read_without_script(site: Pages, browser: Browser):
    with visit(browser, site.url, script=False) as seen:
        for name in NAMES:
            seen.page.goto(path_of(site, name))
            # What is computed behind a page comes with its own refresh.
            seen.page.locator("main:not(:has(.computing)) h1").wait_for()
            assert seen.page.locator("main").inner_text().strip(), name


def test_texts_have_their_own_language(site: Pages, browser: Browser):
    with visit(browser, site.url, locale="en") as seen:
        for name, language in (("item", "ja"), ("item-ko", "ko")):
            seen.page.goto(path_of(site, name))
            said = seen.page.locator(".chat .said")
            assert said.count() >= 2
            assert {said.nth(number).get_attribute("lang") for number in range(said.count())} == {language}
