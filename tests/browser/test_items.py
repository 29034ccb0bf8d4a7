"""The table of a run's items: sorted, filtered, walked through by keyboard, and downloaded."""

from __future__ import annotations

import csv
import json

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Pages
from tests.support.chromium import Visit

ITEMS = 48


@pytest.fixture
def run(site: Pages) -> str:
    """The Japanese run of the worse build."""
    return site.run("ja-dialogue", "a-102")


def open_items(visitor: Visit, run: str) -> Page:
    """The table, as one comes to it from the run's page."""
    page = visitor.goto(f"/runs/{run}")
    page.get_by_role("link", name="All items").click()
    expect(page.get_by_role("heading", name="Items", level=1)).to_be_visible()
    return page


def rows_of(page: Page) -> Locator:
    """The table's rows without its head."""
    return page.get_by_role("region", name="Items").get_by_role("row").filter(has=page.get_by_role("rowheader"))


def column_of(page: Page, name: str) -> list[str]:
    """What a column shows in each row, from the top."""
    heads = page.get_by_role("columnheader").all_inner_texts()
    (number,) = [index for index, head in enumerate(heads) if head.startswith(name)]
    shown = rows_of(page).evaluate_all("(rows, at) => rows.map((row) => row.cells[at].innerText)", number)
    return [str(text) for text in shown]


def ratings_of(page: Page, name: str) -> list[float]:
    """The numbers of a column."""
    return [float(text.removeprefix(name).split()[0]) for text in column_of(page, name)]


def names_of(page: Page) -> list[str]:
    """The items from the top."""
    return [text.split()[0] for text in column_of(page, "Item")]


def test_a_column_head_sorts(visitor: Visit, run: str):
    page = open_items(visitor, run)
    head = page.get_by_role("columnheader", name="Interestingness")
    assert head.get_attribute("aria-sort") is None
    for direction, told, in_order in (
        ("ascending", "worst first", sorted),
        ("descending", "best first", lambda values: sorted(values, reverse=True)),
    ):
        head.get_by_role("link").click()
        expect(head).to_have_attribute("aria-sort", direction)
        expect(head).to_contain_text(told)
        found = ratings_of(page, "Interestingness")
        assert len(set(found)) > 1
        assert found == in_order(found)
        assert len(found) == ITEMS
    expect(page.locator("[aria-sort]")).to_have_count(1)
    page.get_by_role("columnheader", name="Item").get_by_role("link").click()
    expect(page.get_by_role("columnheader", name="Item")).to_have_attribute("aria-sort", "ascending")
    assert names_of(page) == sorted(names_of(page))


def test_filters_give_only_what_fits_and_chips_take_them_away(visitor: Visit, run: str):
    page = open_items(visitor, run)
    show = page.get_by_role("button", name="Show")
    page.get_by_label("Rating").select_option(label="Interestingness = 1 Not interesting")
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

    page.get_by_label("Text", exact=True).fill("祖母")
    show.click()
    expect(chips.get_by_role("listitem").filter(has_text="祖母")).to_have_count(1)
    chips.get_by_role("link", name="register shift").click()
    found = names_of(page)
    assert 0 < len(found) < ITEMS
    for name in found:
        expect(rows_of(page).filter(has=page.get_by_role("link", name=name))).to_have_count(1)
    page.get_by_role("link", name=found[0]).click()
    expect(page.get_by_role("region", name="Dialogue")).to_contain_text("祖母")
    page.go_back()
    chips.get_by_role("link", name="祖母").click()
    expect(chips).to_have_count(0)
    expect(rows_of(page)).to_have_count(ITEMS)


def test_a_filter_without_items_says_what_to_do(visitor: Visit, run: str):
    page = open_items(visitor, run)
    page.get_by_label("Text", exact=True).fill("これを言った人は誰もいません")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("No item matches all filters")).to_be_visible()
    page.get_by_role("link", name="Remove all filters").click()
    expect(rows_of(page)).to_have_count(ITEMS)


def test_the_keyboard_walks_the_list_and_the_items(visitor: Visit, run: str):
    page = open_items(visitor, run)
    page.get_by_role("columnheader", name="Interestingness").get_by_role("link").click()
    expect(page.get_by_role("columnheader", name="Interestingness")).to_have_attribute("aria-sort", "ascending")
    expect(page.get_by_text("Keys: ↑ ↓ or j k, Enter")).to_be_visible()
    listed, address = names_of(page), page.url
    for name in listed[:3]:
        page.keyboard.press("ArrowDown")
        expect(page.get_by_role("link", name=name)).to_be_focused()
    page.keyboard.press("Enter")
    for key, number in ((None, 2), ("ArrowRight", 3), ("ArrowLeft", 2), ("ArrowLeft", 1), ("ArrowLeft", 0)):
        if key is not None:
            page.keyboard.press(key)
        expect(page.get_by_role("heading", level=1)).to_contain_text(listed[number])
        expect(page.get_by_role("navigation", name="Neighbouring items")).to_contain_text(f"{number + 1} of {ITEMS}")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("heading", level=1)).to_contain_text(listed[1])
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", name="Items", level=1)).to_be_visible()
    assert page.url.split("#")[0] == address
    assert names_of(page) == listed
    expect(page.get_by_role("link", name=listed[1])).to_be_focused()


def test_an_item_shows_the_dialogue_and_every_rating(visitor: Visit, run: str):
    page = open_items(visitor, run)
    name = names_of(page)[0]
    page.get_by_role("link", name=name).click()
    dialogue = page.get_by_role("region", name="Dialogue")
    expect(dialogue).to_contain_text("Response under evaluation")
    ratings = page.get_by_role("region", name="Ratings")
    expect(ratings.get_by_role("article")).to_have_count(6)
    expect(ratings.locator("[aria-current=true]")).to_have_count(6)


@pytest.mark.parametrize("place", ["run", "items"])
def test_results_are_downloaded(visitor: Visit, run: str, place: str):
    page = visitor.goto(f"/runs/{run}" + ("/items" if place == "items" else ""))
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
