"""Language and colours: switched on any page, and kept."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Pages
from tests.support.chromium import visit

DARK = "getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).slice(0, 3).every((part) => part < 80)"


def test_a_language_is_chosen_where_one_is_and_kept(site: Pages, browser: Browser):
    with visit(browser, site.url, locale="ko") as seen:
        address = f"/explore?run={site.run('ja-dialogue', 'a-102')}&sort=best"
        page = seen.goto(address)
        expect(page.locator("html")).to_have_attribute("lang", "ko")
        page.get_by_role("button", name="日本語").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("項目")
        assert page.url == site.url + address
        expect(page.locator("html")).to_have_attribute("lang", "ja")
        expect(page.get_by_role("button", name="日本語")).to_have_attribute("aria-pressed", "true")
        seen.goto("/")
        expect(page.get_by_role("heading", level=1)).to_have_text("実行")
        other = seen.context.new_page()
        other.goto("/try")
        expect(other.locator("html")).to_have_attribute("lang", "ja")
        other.close()
        page.get_by_role("button", name="English").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
        assert seen.complaints == []


def test_colours_are_chosen_where_one_is_and_kept(site: Pages, browser: Browser):
    with visit(browser, site.url, theme="light") as seen:
        page = seen.goto("/try?example=ja")
        assert not page.evaluate(DARK)
        page.get_by_role("button", name="Dark").click()
        expect(page.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
        assert urlsplit(page.url)[2:4] == ("/try", "example=ja")
        assert page.evaluate(DARK)
        seen.goto("/")
        assert page.evaluate(DARK)
        page.get_by_role("button", name="Same as the system").click()
        expect(page.get_by_role("button", name="Same as the system")).to_have_attribute("aria-pressed", "true")
        assert not page.evaluate(DARK)
        page.emulate_media(color_scheme="dark")
        assert page.evaluate(DARK)
        page.get_by_role("button", name="Light").click()
        expect(page.get_by_role("button", name="Light")).to_have_attribute("aria-pressed", "true")
        assert not page.evaluate(DARK)
        assert seen.complaints == []


@pytest.mark.parametrize("chosen", [None, "Dark"])
def test_a_dark_page_is_printed_dark_on_white(site: Pages, browser: Browser, chosen: str | None):
    with visit(browser, site.url, theme="dark") as seen:
        page = seen.goto("/rubrics")
        if chosen:
            page.get_by_role("button", name=chosen).click()
            expect(page.get_by_role("button", name=chosen)).to_have_attribute("aria-pressed", "true")
        assert page.evaluate(DARK)
        page.emulate_media(media="print", color_scheme="dark")
        assert not page.evaluate(DARK)
        assert seen.complaints == []


def test_a_page_after_a_form_switches_too(site: Pages, browser: Browser):
    """What a form answered has no address of its own to go back to, so its page is shown empty again, not an error."""
    with visit(browser, site.url) as seen:
        page = seen.goto("/try")
        page.get_by_role("button", name="Score").click()
        expect(page.get_by_role("alert")).to_be_visible()
        seen.forget(422)
        page.get_by_role("button", name="한국어").click()
        expect(page.locator("html")).to_have_attribute("lang", "ko")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.url == f"{site.url}/try"
        assert seen.complaints == []
