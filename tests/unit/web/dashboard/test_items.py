"""The list of a run's results: sorted, filtered, paged, and safe to look at."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.datastructures import QueryParams

from app.domain.summary import Scores
from app.web.dashboard.items import Listing, cell_of, list_columns, list_numbers, read_listing, read_number, shorten
from tests.support.cases import in_turn
from tests.support.elements import Page
from tests.support.keyed import make_keys
from tests.support.posted import post_batch
from tests.support.serving import serving
from tests.support.shown_batch import BATCH, HOSTILE, keep_shown, load_rubric

COUNT = 120
ITEMS = f"/runs/{BATCH}/items"
MEASURES = ("naturalness", "coherence", "overall", "overall.blended")


@pytest.fixture
async def client(tmp_path: Path, sqlite_url: str):
    await keep_shown(sqlite_url, COUNT, path="both")
    async with serving(tmp_path, judge="lexical") as found:
        yield found


async def look(client, query: str = "", **headers: str) -> Page:
    response = await client.get(ITEMS + query, headers=headers)
    assert response.status_code == 200, response.text
    return Page(response.text)


def positions(page: Page) -> list[int]:
    return [int(urlsplit(link["href"]).path.rsplit("/", 1)[1]) for link in page.all("a", class_="row-link")]


async def test_the_worst_come_first_and_those_without_a_rating_last(client):
    page = await look(client)
    assert len(positions(page)) == 50
    assert positions(page)[:3] == [3, 6, 9]
    assert page.one("th", aria_sort="ascending").text.startswith("Overall quality")
    last = await look(client, "?page=3")
    assert positions(last)[-1] == 2
    assert last.one("span", aria_current="page").text == "3"


async def test_a_head_sorts_worst_first_and_then_best_first(client):
    page = await look(client)
    (head,) = [link for link in page.all("a") if link.text == "Naturalness"]
    worst = await look(client, "?" + urlsplit(head["href"]).query)
    assert positions(worst)[:3] == [0, 6, 9]
    (again,) = [link for link in worst.all("a") if link.text.startswith("Naturalness")]
    best = await look(client, "?" + urlsplit(again["href"]).query)
    assert positions(best)[:2] == [5, 8]
    assert best.one("th", aria_sort="descending").text.startswith("Naturalness")


@in_turn(
    ("query", "expected"),
    [
        ("?unrated=*", [3]),
        ("?unrated=naturalness", [3]),
        ("?unrated=coherence", []),
        ("?status=failed", [2]),
        ("?status=partial", [3]),
        ("?warning=translation-sensitive", [1]),
        ("?warning=suspected-injection", [4]),
        ("?value=overall:3&value=naturalness:1", [0]),
        ("?text=%EF%BC%8812%EF%BC%89", [12]),
        ("?text=item-77", [77]),
        ("?system=bot-a&value=overall:3&sort=position&order=best&text=item-1", [116, 110, 104, 14]),
        ("?sort=overall.blended&value=naturalness:1&status=scored&page=1&text=(0)", [0]),
    ],
)
async def test_filters_leave_what_fits(client, query, expected):
    page = await look(client, query)
    assert positions(page) == expected


async def test_a_filter_is_a_chip_that_takes_it_away(client):
    page = await look(client, "?status=failed&warning=suspected-injection&sort=coherence")
    chips = page.all("a", class_="chip")
    assert [chip.text for chip in chips] == [
        "Warning: suspected injection × Remove this filter",
        "Status: failed × Remove this filter",
    ]
    left = parse_qs(urlsplit(chips[0]["href"]).query)
    assert left == {"status": ["failed"], "sort": ["coherence"]}
    assert "Without one of the filters you would see:" in page.one("main").text
    assert "Warning: suspected injection: 1 item" in page.one("main").text


async def test_pages_say_how_many_there_are_and_keep_the_list(client):
    page = await look(client, "?sort=coherence&order=best&page=2")
    assert "51–100 of 120 items" in page.one("main").text
    onward = page.one("a", rel="next")
    assert parse_qs(urlsplit(onward["href"]).query) == {"sort": ["coherence"], "order": ["best"], "page": ["3"]}
    first = page.all("a", class_="row-link")[0]
    assert parse_qs(urlsplit(first["href"]).query)["at"] == ["50"]


@in_turn(
    "query",
    [
        "?sort=nothing&order=sideways&page=-1",
        "?page=999999999999999999999",
        "?page=99",
        "?value=overall&value=overall:nan&value=overall:1e999&value=:3&value=nothing:1",
        "?unrated=nothing&status=queued",
        "?text=%00%ff&system=%F0%9F",
        "?sort=%22%3E%3Cscript%3E",
    ],
)
async def test_what_an_address_gets_wrong_is_passed_by(client, query):
    page = await look(client, query)
    assert page.one("h1").text == "Items"


async def test_hostile_texts_are_texts(client):
    page = await look(client, "?sort=position")
    assert page.inline() == []
    assert page.all("img") == []
    assert HOSTILE in page.one("main").text
    asked = await look(client, "?text=%3Cscript%3E%22%3E%3Cimg%20src%3Dx%20onerror%3D1%3E&warning=%3Cimg%3E")
    assert asked.inline() == []
    assert asked.all("img") == []


@pytest.mark.parametrize(("language", "heading", "worst"), [("ja", "項目", "悪い順"), ("ko", "항목", "나쁜 순")])
async def test_the_page_speaks_the_visitors_language(client, language, heading, worst):
    page = await look(client, **{"Accept-Language": language})
    assert page.one("html")["lang"] == language
    assert page.one("h1").text == heading
    assert worst in page.one("main").text
    words = page.all("span", class_="said")
    assert {word["lang"] for word in words} <= {"ja", "en"}


async def test_an_unrated_cell_says_why_and_a_rating_what_it_means(client):
    page = await look(client, "?unrated=*")
    unrated = [cell for cell in page.all("td", class_="num") if "unrated" in cell.text]
    assert [cell["title"] for cell in unrated] == ["the judge refused"]
    assert page.all("td", title="Contradicts", class_="cell-n5")


async def test_another_projects_run_is_not_there(client, tmp_path):
    (other,) = await make_keys(tmp_path, ("other", "read"))
    assert (await client.get(ITEMS, headers=other)).status_code == 404
    assert (await client.get("/runs/ba_nothing/items", headers=other)).status_code == 404


async def test_a_run_without_results_says_so(tmp_path, redis_url):
    async with serving(tmp_path, judge="lexical", redis_url=redis_url) as client:
        batch = await post_batch(client)
        response = await client.get(f"/runs/{batch['id']}/items")
    assert response.status_code == 200
    assert "No result yet" in Page(response.text).one("main").text


def test_by_default_a_list_is_sorted_by_what_sums_a_response_up():
    lfqa, diary = load_rubric("lfqa"), load_rubric("ko-comment")
    nothing = QueryParams("")
    assert read_listing(nothing, MEASURES, load_rubric()).sort == "overall"
    assert read_listing(nothing, ("sensibleness", "specificity", "ssa"), diary).sort == "ssa"
    assert read_listing(nothing, ("formality", "factuality"), lfqa).sort == "formality"
    assert read_listing(nothing, ("gone", "more"), None).sort == "gone"
    assert read_listing(nothing, (), None).sort is None


def test_where_the_best_is_inside_the_scale_the_farthest_are_the_worst():
    worst = Listing("formality").query(load_rubric("lfqa").best)
    best = Listing("formality", best_first=True).query(load_rubric("lfqa").best)
    assert (worst.target, worst.descending) == (0.0, True)
    assert (best.target, best.descending) == (0.0, False)
    assert Listing("factuality").query(load_rubric("lfqa").best).target is None


def test_a_list_is_read_back_as_it_was_written():
    asked = "sort=coherence&order=best&value=overall:3&value=coherence:0&unrated=*&warning=w&status=partial&system=a&text=b+c"
    listing = read_listing(QueryParams(asked), MEASURES, load_rubric())
    assert listing == Listing(
        "coherence", True, {"overall": 3.0, "coherence": 0.0}, "*", "w", None, "partial", "a", "b c"
    )
    written = {name: value for name, value in listing.parameters().items() if value}
    assert written["value"] == ["overall:3", "coherence:0"]
    assert len(list(listing.without_each())) == 7
    assert all(without != listing for _, _, without in listing.without_each())


def test_a_cell_is_the_darker_the_farther_its_value_is_from_the_best():
    lfqa = load_rubric("lfqa")
    columns = {column.measure: column for column in list_columns(("formality", "factuality", "mate"), lfqa)}
    low, high = lfqa.aspect("factuality").scale
    assert (columns["factuality"].shade(low), columns["factuality"].shade(high)) == (5, 0)
    assert [columns["formality"].shade(value) for value in (-1, 0, 1)] == [5, 0, 5]
    assert columns["formality"].level(0) == lfqa.aspect("formality").level(0)
    assert columns["mate"].level(1.0) is None
    scores = Scores("partial", {"formality": (None, None, "refused", None)}, {"mate": None})
    assert cell_of(columns["formality"], scores).unrated == "refused"
    assert cell_of(columns["mate"], scores).value is None


def test_pages_near_by_are_linked_and_the_ends():
    assert list_numbers(1, 1) == [1]
    assert list_numbers(5, 9) == [1, None, 3, 4, 5, 6, 7, None, 9]
    assert list_numbers(1, 2000) == [1, 2, 3, None, 2000]


def test_excerpts_are_short_and_on_one_line():
    assert shorten("一\n二  三") == "一 二 三"
    assert shorten("あ" * 500) == "あ" * 89 + "…"


@pytest.mark.parametrize(("text", "expected"), [("7", 7), ("0", 0), (None, None), ("-1", None), ("1e3", None), ("９", None), ("9" * 30, None)])  # fmt: skip
def test_numbers_in_addresses_are_small(text, expected):
    assert read_number(text) == expected
