"""Without script everything that a person needs can be done: only more slowly."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Pages, finish_run
from tests.support.chromium import Visit, visit
from tests.support.site import make_item


@pytest.fixture
def plain(site: Pages, browser: Browser) -> Iterator[Visit]:
    """A visitor of the demo's runs whose browser runs no script."""
    with visit(browser, site.url, script=False) as seen:
        yield seen
    assert seen.complaints == []


def test_two_runs_are_picked_and_compared(plain: Visit):
    page = plain.goto("/")
    japanese = page.get_by_role("region", name="Runs of the rubric ja-dialogue")
    japanese.get_by_role("radio", name="Baseline nightly a-101").check()
    japanese.get_by_role("radio", name="Candidate nightly a-102").check()
    page.get_by_role("button", name="Compare").click()
    # While the two are being compared, the page asks again by itself.
    expect(page.get_by_role("heading", level=1)).to_contain_text("a-102 is worse than a-101")
    expect(page.locator("details.case[open]").filter(has_text="Full details of this response")).to_have_count(1)


def test_items_are_filtered_and_opened(plain: Visit, site: Pages):
    page = plain.goto(f"/explore?run={site.run('ja-dialogue', 'a-102')}")
    page.get_by_text("More filters").click()
    page.get_by_label("Warning").select_option(label="register shift (1)")
    page.get_by_role("button", name="Show", exact=True).click()
    row = page.locator(".case")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("register shift")
    row.locator("summary").click()
    row.get_by_role("link", name="Full details of this response").click()
    expect(page.get_by_role("region", name="Dialogue")).to_contain_text("register shift")
    expect(page.get_by_role("region", name="Ratings").get_by_role("article")).to_have_count(6)


def test_a_response_is_scored(plain: Visit):
    page = plain.goto("/try?example=ja")
    page.get_by_role("button", name="Score").click()
    expect(page.get_by_role("region", name="Ratings")).to_be_visible()


def test_a_response_is_rated_by_radio_buttons(workshop: str, browser: Browser):
    run = finish_run(workshop, [make_item("plain", number) for number in range(3)], name="rated without script")
    with visit(browser, workshop, script=False) as seen:
        page = seen.goto(f"/rate?run={run}")
        page.get_by_label("Responses", exact=True).fill("3")
        page.get_by_role("button", name="Start the round").click()
        page.get_by_label("Your name").fill("without script")
        page.get_by_role("button", name="Begin").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Response 1 of 3")
        # What is not chosen is told by the service, and what is chosen stays so.
        groups = page.get_by_role("radiogroup")
        for group in groups.all()[1:]:
            group.get_by_role("radio").last.check()
        page.get_by_role("button", name="Save and next").click()
        expect(page.get_by_role("alert")).to_contain_text("Not saved yet.")
        seen.forget(422)
        expect(groups.nth(1).get_by_role("radio").last).to_be_checked()
        groups.first.get_by_role("radio").first.check()
        page.get_by_role("button", name="Save and next").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Response 2 of 3")
        assert seen.complaints == []
