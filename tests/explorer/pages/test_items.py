"""The explorer's list of one run's responses: sorted, filtered, paged, and safe to look at."""

import csv
import io
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.datastructures import QueryParams

from saiten_server.core.evaluation import AspectResult, Unrated
from saiten_server.explorer.pages.cases import show_beginning
from saiten_server.explorer.pages.exploration import (
    LINES,
    Exploration,
    find_usual,
    list_numbers,
    read_address_number,
    read_exploration,
    translate_query,
)
from saiten_server.explorer.pages.explore import MOST_LINE_VALUES, cell_of, list_item_columns, show_columns
from saiten_server.runs.result import CaseQuery, ResultQuery
from tests.support.cases import in_turn
from tests.support.elements import Page
from tests.support.keyed import make_keys
from tests.support.posted import post_batch
from tests.support.records import make_record
from tests.support.serving import serving
from tests.support.shown_batch import BATCH, HOSTILE, keep_shown, load_rubric
from tests.support.statements import count, listening

COUNT = 120
ITEMS = f"/explore?run={BATCH}"
MEASURES = ("naturalness", "coherence", "overall", "overall.blended")


@pytest.fixture
async def client(sqlite_url: str, client):
    await keep_shown(sqlite_url, COUNT, path="both")
    return client


async def look(client, query: str = "", **headers: str) -> Page:
    response = await client.get(ITEMS + query, headers=headers)
    assert response.status_code == 200, response.text
    return Page(response.text)


def positions(page: Page) -> list[int]:
    return [int(case["id"].removeprefix("at-")) for case in page.all("details", class_="case")]


async def test_the_worst_come_first_and_those_without_a_rating_last(client):
    page = await look(client)
    assert len(positions(page)) == LINES
    assert positions(page)[:3] == [3, 6, 9]
    assert page.one("a", aria_current="true").text == "Overall quality ▲ worst first"
    last = await look(client, "&page=5")
    assert positions(last)[-1] == 2
    assert last.one("span", aria_current="page").text == "5"


async def test_a_head_sorts_worst_first_and_then_best_first(client):
    page = await look(client)
    (head,) = [link for link in page.all("a") if link.text == "Naturalness"]
    worst = Page((await client.get(head["href"])).text)
    assert positions(worst)[:3] == [0, 6, 9]
    (again,) = [link for link in worst.all("a") if link.text.startswith("Naturalness")]
    best = Page((await client.get(again["href"])).text)
    assert positions(best)[:2] == [5, 8]
    assert best.one("a", aria_current="true").text == "Naturalness ▼ best first"


@in_turn(
    ("query", "expected"),
    [
        ("&unrated=*", [3]),
        ("&unrated=naturalness", [3]),
        ("&unrated=coherence", []),
        ("&status=failed", [2]),
        ("&status=partial", [3]),
        ("&warning=translation-sensitive", [1]),
        ("&warning=suspected-injection", [4]),
        ("&value=overall:3&value=naturalness:1", [0]),
        ("&value=naturalness:..1&aspect=overall&least=3", [0]),
        ("&text=%EF%BC%8812%EF%BC%89", [12]),
        ("&text=item-77", [77]),
        ("&meta=system=bot-a&value=overall:3&sort=item&text=item-1", [14, 104, 110, 116]),
        ("&measure=overall.blended&value=naturalness:1&status=scored&page=1&text=(0)", [0]),
        ("&sort=people", []),
        ("&sort=samples&text=item-1&value=overall:3&meta=system=bot-a", [14, 104, 110, 116]),
    ],
)
async def test_filters_leave_what_fits(client, query, expected):
    page = await look(client, query)
    assert positions(page) == expected


async def test_a_filter_is_a_chip_that_takes_it_away(client):
    page = await look(client, "&status=failed&warning=suspected-injection&measure=coherence")
    chips = page.all("a", class_="chip")
    assert [chip.text for chip in chips] == [
        "Warning: suspected injection × Remove this filter",
        "Status: failed × Remove this filter",
    ]
    left = parse_qs(urlsplit(chips[0]["href"]).query)
    assert left == {"run": [BATCH], "status": ["failed"], "measure": ["coherence"]}
    assert "Without one of the filters you would see:" in page.one("main").text
    assert "Warning: suspected injection: 1 item" in page.one("main").text


async def test_pages_say_how_many_there_are_and_keep_the_list(client):
    page = await look(client, "&measure=coherence&sort=best&page=2")
    assert "26–50 of 120 items" in page.one("main").text
    onward = parse_qs(urlsplit(page.one("a", rel="next")["href"]).query)
    assert onward == {"run": [BATCH], "measure": ["coherence"], "sort": ["best"], "page": ["3"]}
    first = next(link for link in page.all("a") if link.attributes.get("href", "").startswith(f"/runs/{BATCH}/items/"))
    assert parse_qs(urlsplit(first["href"]).query) == {"at": ["25"], "measure": ["coherence"], "sort": ["best"]}


async def test_a_response_opens_in_place_with_its_context_ratings_and_reasons(client):
    page = await look(client, "&sort=item")
    (opened,) = [case for case in page.all("details", class_="case") if case["id"] == "at-0"]
    for said in ("おはよう。", "はい、よく眠れました。（0）", "話題に沿っている。", "3.41"):
        assert said in opened.text


async def test_the_list_downloads_as_it_is_filtered(client):
    query = f"run={BATCH}&value=overall:3&text=item-1&sort=item&meta=system=bot-a"
    lines = [json.loads(line) for line in (await client.get(f"/explore.ndjson?{query}")).text.splitlines()]
    assert [line["runs"][0]["position"] for line in lines] == [14, 104, 110, 116]
    rows = [*csv.DictReader(io.StringIO((await client.get(f"/explore.csv?{query}")).text))]
    assert (rows[0]["item"], rows[0]["position"], rows[0]["overall"]) == ("item-14", "14", "3.0")
    report = Page((await client.get(f"/explore.html?{query}")).text)
    assert positions(report) == [14, 104, 110, 116]


async def test_the_former_address_of_the_list_leads_to_it(client):
    former = f"/runs/{BATCH}/items?sort=coherence&order=best&value=overall:3&finding=any&system=bot-a&page=3&text=a"
    moved = await client.get(former)
    assert moved.status_code == 303
    assert parse_qs(urlsplit(moved.headers["location"]).query) == {
        "run": [BATCH],
        "sort": ["best"],
        "measure": ["coherence"],
        "value": ["overall:3"],
        "warning": ["finding:any"],
        "meta": ["system=bot-a"],
        "text": ["a"],
        "page": ["5"],
    }
    in_order = {name: value for name, value in translate_query(BATCH, QueryParams("sort=position")).items() if value}
    assert in_order == {"run": BATCH, "sort": "item"}


@in_turn(
    "query",
    [
        "&sort=nothing&measure=sideways&page=-1",
        "&page=999999999999999999999",
        "&page=99",
        "&value=overall&value=overall:nan&value=overall:1e999&value=:3&value=nothing:1&value=overall:1..2..3",
        "&unrated=nothing&status=queued",
        "&text=%00%ff&meta=system=%F0%9F",
        "&sort=%22%3E%3Cscript%3E",
    ],
)
async def test_what_an_address_gets_wrong_is_passed_by(client, query):
    page = await look(client, query)
    assert page.one("h1").text == "Items"


async def test_hostile_texts_are_texts(client):
    page = await look(client, "&sort=item")
    assert page.inline() == []
    assert page.all("img") == []
    assert HOSTILE in page.one("main").text
    asked = await look(client, "&text=%3Cscript%3E%22%3E%3Cimg%20src%3Dx%20onerror%3D1%3E&warning=%3Cimg%3E")
    assert asked.inline() == []
    assert asked.all("img") == []


@pytest.mark.parametrize(
    ("language", "heading", "worst"), [("ja", "項目", "値の悪い順"), ("ko", "항목", "값이 나쁜 순")]
)
async def test_the_page_speaks_the_visitors_language(client, language, heading, worst):
    page = await look(client, **{"Accept-Language": language})
    assert page.one("html")["lang"] == language
    assert page.one("h1").text == heading
    assert worst in page.one("main").text
    words = page.all("span", class_="said")
    assert {word["lang"] for word in words} <= {"ja", "en"}


async def test_an_unrated_cell_says_why_and_a_rating_what_it_means(client):
    page = await look(client, "&unrated=*")
    unrated = [cell for cell in page.all("span", class_="cell") if "unrated" in cell.text]
    assert [cell["title"] for cell in unrated] == ["the judge refused"]
    assert page.all("span", title="Contradicts", class_="cell-n5")


async def test_another_projects_run_is_not_there(client, tmp_path):
    (other,) = await make_keys(tmp_path, ("other", "read"))
    assert (await client.get(ITEMS, headers=other)).status_code == 404
    assert (await client.get("/explore?run=ba_nothing", headers=other)).status_code == 404


async def test_a_run_without_results_says_so(tmp_path, redis_url):
    async with serving(tmp_path, judge="lexical", redis_url=redis_url) as client:
        batch = await post_batch(client)
        response = await client.get(f"/explore?run={batch['id']}")
    assert response.status_code == 200
    assert "No result yet" in Page(response.text).one("main").text


def test_by_default_a_list_is_sorted_by_what_sums_a_response_up():
    lfqa, diary = load_rubric("lfqa"), load_rubric("ko-comment")
    assert find_usual(MEASURES, load_rubric()) == "overall"
    assert find_usual(("sensibleness", "specificity", "ssa"), diary) == "ssa"
    assert find_usual(("formality", "factuality"), lfqa) == "formality"
    assert find_usual(("gone", "more"), None) == "gone"
    assert find_usual((), None) is None


def test_where_the_best_is_inside_the_scale_the_farthest_are_the_worst():
    def ask(**asked: Any) -> ResultQuery:
        return Exploration(("ba_1",), CaseQuery(**asked)).query(load_rubric("lfqa").best)

    worst, best = ask(sort="worst", measure="formality"), ask(sort="best", measure="formality")
    assert (worst.target, worst.descending) == (0.0, True)
    assert (best.target, best.descending) == (0.0, False)
    assert ask(sort="worst", measure="factuality").target is None
    samples = ask(sort="samples", measure="formality")
    assert (samples.sort, samples.by_spread, samples.descending) == (None, True, True)


def test_a_list_is_read_back_as_it_was_written():
    asked = "sort=best&measure=coherence&value=overall:3&value=coherence:0..1&unrated=*&warning=w&status=partial&meta=a=b&text=b+c"
    state = read_exploration(QueryParams(asked), MEASURES, ["ba_1"], "overall")
    levels = {"overall": (3.0, 3.0), "coherence": (0.0, 1.0)}
    cases = CaseQuery("best", "coherence", "all", levels, "*", "w", "partial", "b c", ("a", "b"))
    assert state == Exploration(("ba_1",), cases, usual="overall")
    assert parse_qs(urlsplit(state.address()).query) == {"run": ["ba_1"], **parse_qs(asked)}
    assert len([*state.without_each()]) == 7
    assert all(without != state for _, _, without in state.without_each())


def test_a_cell_is_the_darker_the_farther_its_value_is_from_the_best():
    lfqa = load_rubric("lfqa")
    columns = {column.measure: column for column in list_item_columns(("formality", "factuality", "mate"), lfqa)}
    low, high = lfqa.aspect("factuality").scale
    assert (columns["factuality"].shade(low), columns["factuality"].shade(high)) == (5, 0)
    assert [columns["formality"].shade(value) for value in (-1, 0, 1)] == [5, 0, 5]
    assert columns["formality"].level(0) == lfqa.aspect("formality").level(0)
    assert columns["mate"].level(1.0) is None
    refused = Unrated(reason="refused", detail="…")
    unrated = AspectResult(rating=None, scale=(-1, 1), label=None, samples=(None,), mean=None, sd=None, unrated=refused)
    evaluation = make_record(aspects={"formality": unrated}, composites={"mate": None}).evaluation
    assert cell_of(columns["formality"], evaluation).unrated == "refused"
    assert cell_of(columns["mate"], evaluation).value is None
    assert cell_of(columns["mate"], None).value is None


def test_a_line_has_few_columns_and_what_it_is_sorted_by():
    columns = list_item_columns([f"m{number}" for number in range(20)] + ["m3.blended"], None)
    shown = [column.measure for column in show_columns(columns, "m3.blended")]
    assert (len(shown), shown[:2], shown[-1]) == (MOST_LINE_VALUES, ["m0", "m1"], "m3.blended")
    assert [column.measure for column in show_columns(columns[:2], "m1")] == ["m0", "m1"]


def test_pages_near_by_are_linked_and_the_ends():
    assert list_numbers(1, 1) == [1]
    assert list_numbers(5, 9) == [1, None, 3, 4, 5, 6, 7, None, 9]
    assert list_numbers(1, 2000) == [1, 2, 3, None, 2000]


def test_excerpts_are_short_and_on_one_line():
    assert show_beginning("一\n二  三") == "一 二 三"
    assert show_beginning("あ" * 500) == "あ" * 89 + "…"


@pytest.mark.parametrize(("text", "expected"), [("7", 7), ("0", 0), (None, None), ("-1", None), ("1e3", None), ("９", None), ("9" * 30, None)])  # fmt: skip
def test_numbers_in_addresses_are_small(text, expected):
    assert read_address_number(text) == expected


async def test_a_page_reads_its_results_once(client):
    await look(client)
    with listening() as statements:
        await look(client)
    assert [count(statements, table) for table in ("evaluations", "batch_items")] == [1, 1]
    assert count(statements, "batch_signatures") == 2  # of the run, and of the runs to choose from
