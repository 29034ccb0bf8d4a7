"""The list of runs: searched, filtered, and two of them picked."""

from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Pages
from tests.support.chromium import PHONE, Visit


def rows_of(page: Page) -> Locator:
    """All runs that are shown."""
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader"))


def test_two_picked_runs_are_compared(visitor: Visit, site: Pages):
    page = visitor.goto("/")
    compare = page.get_by_role("button", name="Compare")
    told = page.get_by_role("status").filter(has_text="ick")
    expect(compare).to_be_disabled()
    expect(told).to_have_text("Pick a baseline and a candidate.")
    japanese = page.get_by_role("region", name="Runs of the rubric ja-dialogue")
    japanese.get_by_role("radio", name="Baseline nightly a-101").check()
    expect(told).to_have_text("Pick a candidate too.")
    japanese.get_by_role("radio", name="Candidate nightly a-101").check()
    expect(told).to_have_text("Pick two different runs.")
    expect(compare).to_be_disabled()
    japanese.get_by_role("radio", name="Candidate nightly a-102").check()
    expect(page.get_by_text("Ready to compare.")).to_be_visible()
    compare.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("a-102 is worse than a-101")
    picked = [site.run("ja-dialogue", build) for build in ("a-101", "a-102")]
    asked = parse_qs(urlsplit(page.url).query)
    assert [*asked["baseline"], *asked["candidate"]] == picked


def test_a_pick_outlasts_a_filter(visitor: Visit):
    page = visitor.goto("/")
    page.get_by_role("region", name="ja-dialogue").get_by_role("radio", name="Baseline nightly a-101").check()
    page.get_by_role("combobox", name="System").fill("bot-b")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("radio", name="Baseline: nightly · a-101")).to_be_checked()
    page.get_by_role("region", name="ja-dialogue").get_by_role("radio", name="Candidate nightly b-202").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("a-101")
    expect(page.get_by_role("heading", level=1)).to_contain_text("b-202")


def test_the_list_is_searched_and_filtered(visitor: Visit):
    page = visitor.goto("/")
    expect(rows_of(page)).to_have_count(18)
    show = page.get_by_role("button", name="Show", exact=True)
    page.get_by_role("combobox", name="System").fill("bot-b")
    show.click()
    expect(rows_of(page)).to_have_count(8)
    for row in rows_of(page).all():
        expect(row).to_contain_text("bot-b")
    page.get_by_role("combobox", name="Rubric").select_option("ko-comment")
    show.click()
    expect(rows_of(page)).to_have_count(2)
    page.get_by_role("link", name="Show all").click()
    expect(rows_of(page)).to_have_count(18)
    page.get_by_role("searchbox", name="Search").fill("a-102")
    page.keyboard.press("Enter")
    expect(rows_of(page)).to_have_count(3)
    for row in rows_of(page).all():
        expect(row).to_contain_text("a-102")
    page.get_by_role("combobox", name="Status").select_option(label="cancelled")
    show.click()
    expect(page.get_by_text("No run matches.")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="Show all").last.click()
    expect(rows_of(page)).to_have_count(18)


def test_two_runs_are_picked_on_a_phone(visitor: Visit):
    visitor.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    page = visitor.goto("/")
    korean = page.get_by_role("region", name="ko-comment")
    # A finger hits the label, not the button that it belongs to.
    korean.get_by_text("Baseline diary a-101").click()
    korean.get_by_text("Candidate diary a-102").click()
    expect(korean.get_by_role("radio", name="Candidate diary a-102")).to_be_checked()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("a-102")
    assert visitor.overflow() <= 0


def test_what_changed_covers_nothing_else(visitor: Visit):
    visitor.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    page = visitor.goto("/")
    words = page.locator("#glances .verdict, #first .verdict")
    expect(words.first).to_be_visible()
    assert words.evaluate_all("all => all.map(one => getComputedStyle(one).position)") == ["static"] * words.count()
