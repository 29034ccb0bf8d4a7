"""Rating with one key an aspect, with the keys switched off, and without script."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Pages
from tests.support.chromium import PHONE, Visit, find_barriers, visit

ASPECTS = 6


def begin(site: Pages, seen: Visit, rater: str = "甲") -> Page:
    """The first sheet of a new round."""
    page = seen.goto(f"/rate?run={site.run('ja-dialogue', 'a-102')}")
    page.locator("#items").fill("3")
    page.locator("form[action='/rate'] button.primary").click()
    page.locator("#rater").fill(rater)
    page.locator("form:has(#rater) button.primary").click()
    expect(page.locator("#sheet")).to_be_visible()
    return page


def wait_for_keys(page: Page) -> None:
    """Until the script has taken over."""
    expect(page.locator("fieldset.current")).to_have_count(1)


def chosen(page: Page) -> list[str]:
    """The values that are chosen, in the order of the aspects."""
    found: list[str] = page.locator("fieldset input:checked").evaluate_all("all => all.map(one => one.value)")
    return found


def current(page: Page) -> int:
    """The number of the marked aspect."""
    found: int = page.locator("fieldset.aspect").evaluate_all(
        "all => all.findIndex(one => one.classList.contains('current'))"
    )
    return found


def test_one_key_an_aspect_and_enter(site: Pages, visitor: Visit) -> None:
    page = begin(site, visitor)
    for number in range(3):
        expect(page.locator("h1")).to_have_text(f"Response {number + 1} of 3")
        wait_for_keys(page)
        for digit in "202201":
            page.keyboard.press(digit)
        assert chosen(page) == ["2", "0", "2", "2", "0", "1"]
        expect(page.locator("#save")).to_be_focused()
        page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Thank you")


def test_keys_move_between_aspects_and_leave_the_comment_alone(site: Pages, visitor: Visit) -> None:
    page = begin(site, visitor)
    wait_for_keys(page)
    page.keyboard.press("3")
    assert current(page) == 1
    page.keyboard.press("9")  # no such level
    assert (current(page), chosen(page)) == (1, ["3"])
    page.keyboard.press("ArrowDown")
    assert current(page) == 2
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Backspace")
    assert current(page) == 0
    page.keyboard.press("1")
    assert chosen(page) == ["1"]
    page.keyboard.press("c")
    page.keyboard.type("1 c 2")
    expect(page.locator("#comment")).to_have_value("1 c 2")
    assert chosen(page) == ["1"]
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.type") == "radio"


def test_what_is_missing_is_gone_to_before_anything_is_sent(site: Pages, visitor: Visit) -> None:
    page = begin(site, visitor)
    wait_for_keys(page)
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(page.locator("fieldset[aria-invalid=true]")).to_have_count(ASPECTS - 1)
    expect(page.locator("#announcement")).to_contain_text("Coherence")
    assert current(page) == 1
    page.keyboard.press("1")
    expect(page.locator("fieldset[aria-invalid=true]")).to_have_count(ASPECTS - 2)


def test_the_keys_are_switched_off_for_good(site: Pages, visitor: Visit) -> None:
    page = begin(site, visitor)
    wait_for_keys(page)
    page.get_by_label("Single-key shortcuts").uncheck()
    expect(page.locator("kbd:visible")).to_have_count(0)
    page.reload()
    wait_for_keys(page)
    expect(page.get_by_label("Single-key shortcuts")).not_to_be_checked()
    page.keyboard.press("1")
    assert chosen(page) == []
    # The browser's own keys are as ever.
    page.locator("fieldset input").first.focus()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    assert chosen(page) == ["2"]


@pytest.mark.parametrize("locale", ["ja", "ko"])
def test_a_round_without_script_on_a_phone(site: Pages, browser: Browser, locale: str) -> None:
    with visit(browser, site.url, locale=locale, size=PHONE, script=False) as seen:
        page = begin(site, seen)
        expect(page.locator("kbd:visible")).to_have_count(0)
        for aspect in page.locator("fieldset.aspect").all():
            aspect.locator("label").last.click()
        page.locator("#save").click()
        expect(page.locator("h1")).to_contain_text("2")
    assert seen.complaints == []


@pytest.mark.parametrize("size", [PHONE, (1280, 900)])
def test_sheets_have_no_barriers(site: Pages, browser: Browser, size: tuple[int, int]) -> None:
    with visit(browser, site.url, theme="dark", size=size) as seen:
        page = begin(site, seen)
        assert (find_barriers(page), seen.overflow()) == ([], 0)
        for aspect in page.locator("fieldset.aspect").all():
            aspect.locator("input").first.check()
        page.locator("#save").click()
        expect(page.locator("h1")).to_have_text("Response 2 of 3")
        seen.goto(page.url.split("/sheet")[0].removeprefix(site.url))
        assert (find_barriers(page), seen.overflow()) == ([], 0)
    assert seen.complaints == []
