"""The list of a run's items: sorted, filtered, walked through by keyboard, and downloaded."""

import csv
import json
import re

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import Pages
from tests.support.chromium import Visit, press, visit

ITEMS = 48


@pytest.fixture
def run(site: Pages) -> str:
    """The Japanese run of the worse build."""
    return site.run("ja-dialogue", "a-102")


def open_items(visitor: Visit, run: str) -> Page:
    """The list, as one comes to it from the run's page."""
    page = visitor.goto(f"/runs/{run}")
    page.get_by_role("link", name="All items").click()
    expect(page.get_by_role("heading", name="Items", level=1)).to_be_visible()
    return page


def rows_of(page: Page) -> Locator:
    """The lines of the list."""
    return page.locator(".case > summary")


def ratings_of(page: Page, name: str) -> list[float]:
    """The values of a measure, from the top."""
    cells = page.locator(".case > summary .cell").filter(has=page.locator(".label", has_text=name))
    shown = cells.evaluate_all("(cells) => cells.map((cell) => cell.textContent)")
    return [float(str(text).strip().removeprefix(name).split()[0]) for text in shown]


def names_of(page: Page) -> list[str]:
    """The items from the top."""
    return page.locator(".case > summary b").all_inner_texts()


def test_a_head_sorts(visitor: Visit, run: str):
    page = open_items(visitor, run)
    heads = page.get_by_role("group", name="Sort by")
    for told, in_order in (
        ("worst first", sorted),
        ("best first", lambda values: sorted(values, reverse=True)),
    ):
        heads.get_by_role("link", name="Interestingness").click()
        expect(heads.locator("[aria-current]")).to_have_text(re.compile(f"Interestingness .* {told}"))
        found = ratings_of(page, "Interestingness")
        assert found == in_order(found)
        assert found[0] == {"worst first": 1.0, "best first": 3.0}[told]
    heads.get_by_role("link", name="Item").click()
    expect(heads.locator("[aria-current]")).to_contain_text("Item")
    assert names_of(page) == sorted(names_of(page))


def test_filters_give_only_what_fits_and_chips_take_them_away(visitor: Visit, run: str):
    page = open_items(visitor, run)
    show = page.get_by_role("button", name="Show", exact=True)
    page.get_by_text("More filters").click()
    page.get_by_label("Rating", exact=True).select_option(label="Interestingness = 1 Not interesting")
    show.click()
    chips = page.get_by_role("list", name="Active filters")
    expect(chips).to_contain_text("Interestingness = 1 Not interesting")
    dull = ratings_of(page, "Interestingness")
    assert set(dull) == {1.0}
    assert 0 < len(dull) < ITEMS

    page.get_by_label("Warning").select_option(label="register shift (1)")
    show.click()
    expect(chips.get_by_role("listitem").filter(has_text="register shift")).to_have_count(1)
    chips.get_by_role("link", name="Interestingness = 1").click()
    expect(rows_of(page)).to_have_count(1)
    expect(rows_of(page)).to_contain_text("register shift")

    page.get_by_label("Text", exact=True).fill("これを言った人は誰もいません")
    show.click()
    expect(page.get_by_text("No item matches all filters")).to_be_visible()
    page.get_by_role("link", name="Remove all filters").click()
    expect(page.get_by_text(f"of {ITEMS} items")).to_be_visible()


def test_the_keyboard_walks_the_list_and_the_items(visitor: Visit, run: str):
    page = open_items(visitor, run)
    heads = page.get_by_role("group", name="Sort by")
    heads.get_by_role("link", name="Interestingness").click()
    expect(heads.locator("[aria-current]")).to_contain_text("Interestingness")
    expect(page.get_by_text("Keys: ↑ ↓ or j k, Enter")).to_be_visible()
    listed, address = names_of(page), page.url
    for number in range(3):
        press(page, "ArrowDown")
        expect(rows_of(page).nth(number)).to_be_focused()
    press(page, "Enter")
    opened = page.locator(".case[open]")
    expect(opened.get_by_role("region", name="Ratings")).to_be_visible()
    opened.get_by_role("link", name="Full details of this response").click()
    for key, number in ((None, 2), ("ArrowRight", 3), ("ArrowLeft", 2), ("ArrowLeft", 1)):
        if key is not None:
            press(page, key)
        expect(page.get_by_role("heading", level=1)).to_contain_text(listed[number])
        expect(page.get_by_role("navigation", name="Neighbouring items")).to_contain_text(f"{number + 1} of {ITEMS}")
    press(page, "Escape")
    expect(page.get_by_role("heading", name="Items", level=1)).to_be_visible()
    assert page.url.split("#")[0] == address
    assert names_of(page) == listed
    expect(rows_of(page).nth(1)).to_be_focused()


def test_an_item_shows_the_dialogue_and_every_rating(visitor: Visit, run: str):
    page = visitor.goto(f"/runs/{run}/items/0")
    dialogue = page.get_by_role("region", name="Dialogue")
    expect(dialogue).to_contain_text("Response under evaluation")
    ratings = page.get_by_role("region", name="Ratings")
    expect(ratings.get_by_role("article")).to_have_count(6)
    expect(ratings.locator("[aria-current=true]")).to_have_count(6)


def test_lines_are_short_on_a_phone(site: Pages, run: str, browser: Browser):
    with visit(browser, site.url, locale="ja", size=(390, 844)) as seen:
        page = seen.goto(f"/explore?run={run}")
        heights = rows_of(page).evaluate_all("(rows) => rows.map((row) => row.getBoundingClientRect().height)")
        assert max(heights) <= 120


@pytest.mark.parametrize("place", ["run", "list"])
def test_results_are_downloaded(visitor: Visit, run: str, place: str):
    page = visitor.goto(f"/runs/{run}" if place == "run" else f"/explore?run={run}")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="NDJSON", exact=True).click()
    lines = waiting.value.path().read_text(encoding="utf-8").splitlines()
    assert len(lines) == ITEMS
    assert {json.loads(line)["item"] for line in lines} == {f"talk-{number:02}" for number in range(1, ITEMS + 1)}
    assert waiting.value.suggested_filename.endswith(".ndjson")

    with page.expect_download() as waiting:
        page.get_by_role("link", name="CSV", exact=True).click()
    assert waiting.value.suggested_filename.endswith(".csv")
    with waiting.value.path().open(encoding="utf-8-sig", newline="") as table:
        rows = list(csv.DictReader(table))
    assert len(rows) == ITEMS
    assert {row["item"] for row in rows} == {f"talk-{number:02}" for number in range(1, ITEMS + 1)}


def test_the_summary_is_downloaded(visitor: Visit, run: str):
    page = visitor.goto(f"/runs/{run}")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Summary (JSON)").click()
    assert json.loads(waiting.value.path().read_text(encoding="utf-8"))["counts"]["total"] == ITEMS
