"""The explorer: cases of several runs beside each other, found, sorted, filtered and read on one page."""

import csv
import io
import json
import re
from urllib.parse import quote

import httpx
import pytest

from saiten_server.explorer.pages.cases import mark_difference
from tests.support.elements import Page
from tests.support.shown_batch import BATCH, HOSTILE, keep_shown
from tests.support.waiting import read_computed

CONTEXT = [{"speaker": "A", "text": "週末に映画を見ました。"}]
RESPONSES = {
    "films": ("それは楽しそうですね。何を見ましたか？", "知らない。"),
    "same": ("いいですね。", "いいですね。"),
    "hostile": (HOSTILE, HOSTILE.replace("2", "3")),
}


async def post(client: httpx.AsyncClient, number: int, **more: object) -> str:
    """A finished run with each item's response of that number."""
    items = [
        {"id": name, "context": CONTEXT, "response": said[number], "metadata": {"topic": name}}
        for name, said in RESPONSES.items()
    ]
    body = {"rubric": "ja-dialogue", "relevance": None, "items": items, "metadata": {"build": f"b{number}"}, **more}
    run = (await client.post("/v1/batches", json=body)).json()["id"]
    async with client.stream("GET", f"/v1/batches/{run}/events") as events:
        await events.aread()  # to the end of the run
    return str(run)


async def look(client: httpx.AsyncClient, path: str, **headers: str) -> Page:
    return Page(await read_computed(client, path, **headers))


def items_of(page: Page) -> list[str]:
    return [line.text.split()[0] for line in page.all("summary", class_="row-link")]


async def test_cases_are_sorted_filtered_and_read(client):
    before, after = await post(client, 0), await post(client, 1)
    chooser = await look(client, "/explore")  # two runs may have one name, and other rubrics
    assert ["ja-dialogue@" in label.text for label in chooser.all("label", class_="check")] == [True, True]
    base = f"/explore?run={before}&run={after}"
    page = await look(client, base)
    # The largest drop comes first and stands open, with context, both responses and what differs.
    assert items_of(page)[0] == "films"
    (opened,) = [case for case in page.all("details", class_="case") if case.has(open="")]
    for said in ("映画", "何を見ました", "知らない。"):
        assert said in opened.text
    assert {"del", "ins"} == {name for name in ("del", "ins") if page.all(name)}
    assert {f"/runs/{run}/items/0" for run in (before, after)} <= {link["href"] for link in page.all("a")}
    found = {
        "&show=changed": {"films"},
        "&show=beyond": set(),
        "&text=" + quote("映画"): {"films", "same", "hostile"},
        "&text=" + quote("知ら"): {"films"},
        "&text=" + quote("知"): {"films"},
        "&text=" + quote("ＦＩＬＭＳ"): {"films"},
        "&text=" + quote("楽しそうですね。何"): {"films"},
        "&text=" + quote("楽し何"): set(),
        "&meta=topic=same": {"same"},
        "&meta=topic=none": set(),
        "&aspect=overall&least=99": set(),
        "&warning=language-mismatch": {"hostile"},
        "&status=failed": set(),
        "&unrated=*": set(),
        "&page=9": {"films", "same", "hostile"},
    }
    for address, wanted in found.items():
        assert sorted(items_of(await look(client, base + address))) == sorted(wanted), address
    for sort in ("gain", "runs", "samples", "people", "worst", "best", "item"):
        assert len(items_of(await look(client, f"{base}&sort={sort}&measure=overall"))) == 3, sort
    assert items_of(await look(client, f"/explore?run={after}&run={before}&sort=gain"))[0] == "films"
    # What is chosen goes along to other runs, as far as it is of one run too.
    kept = await look(client, f"{base}&value=overall:1..5&sort=gain&mismatch=1")
    assert {one["value"] for one in kept.all("input", type="hidden", name="value")} == {"overall:1..5"}
    (alone,) = {one["href"] for one in kept.all("a") if one["href"].startswith(f"/explore?run={after}&sort")}
    assert alone == f"/explore?run={after}&sort=gain&value=overall%3A1..5"
    assert (await look(client, alone)).one("option", value="worst", selected="")
    assert f"/explore?run={after}" in {one["href"] for one in (await look(client, base)).all("a")}
    # Every run that holds a text is found without naming it.
    whole = await look(client, "/explore?text=" + quote("知らない"))
    assert [link["href"] for link in whole.all("a") if "/explore?run=" in link["href"]] == [
        f"/explore?run={after}&text=" + quote("知らない")
    ]
    assert (await client.get(f"/explore?run={before}&run=ba_none")).status_code == 404
    query = base.partition("?")[2] + "&show=changed"
    (told,) = map(json.loads, (await client.get(f"/explore.ndjson?{query}")).text.splitlines())
    assert (told["item"], told["context"]) == ("films", CONTEXT)
    assert [side["response"] for side in told["runs"]] == [*RESPONSES["films"]]
    assert told["runs"][1]["change"] < 0
    heads, row = csv.reader(io.StringIO((await client.get(f"/explore.csv?{query}")).text))
    found_row = dict(zip(heads, row, strict=True))
    assert (found_row["item"], found_row["B.response"]) == ("films", "知らない。")
    assert float(found_row["B.overall"]) == told["runs"][1]["values"]["overall"]
    report = await client.get(f"/explore.html?{query}")
    page = Page(report.text)
    assert page.one("h1").text.startswith("No aspect shows a difference between")
    assert [found.text for found in page.all("h2", id="gate")] == ["Gate by the default rules"]
    assert "知らない。" in report.text
    assert not re.search("<script|<link|src=", report.text)
    assert (await client.get("/explore.csv")).status_code == 422


async def test_reasons_are_read_and_hostile_texts_stay_texts(client, tmp_path):
    await keep_shown(f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}", 6, path="both")
    answer = await client.get(f"/explore?run={BATCH}&text={quote('話題')}&meta={quote(HOSTILE)}=1&page=-1&least=nan")
    assert (answer.status_code, Page(answer.text).all("summary", class_="row-link")) == (200, [])
    answer = await client.get(f"/explore?run={BATCH}")
    assert "話題に沿っている。" in {quoted.text for quoted in Page(answer.text).all("blockquote")}
    assert "<script>alert" not in answer.text
    assert "<img src=x" not in answer.text


async def test_a_run_without_reasons_says_so(client):
    """The lexical judge gives reasons where it is asked for them."""
    silent, told = await post(client, 0), await post(client, 1, judge={"explain": True})
    for address, language, said in (
        (f"run={silent}", "en", "The judge gave no reasons for these ratings. It was asked for ratings alone."),
        (
            f"run={told}&run={silent}",
            "en",
            "The judge gave no reasons for the ratings of B. It was asked for ratings alone.",
        ),
        (f"run={silent}", "ja", "これらの評点には判定モデルの理由がありません。 評点だけを求めたためです。"),
        (
            f"run={silent}&run={told}",
            "ko",
            "A의 평점에는 심사 모델이 밝힌 이유가 없습니다. 평점만 요청했기 때문입니다.",
        ),
    ):
        page = await look(client, f"/explore?{address}", **{"Accept-Language": language})
        assert said in [note.text for note in page.all("p", class_="note")]
        # It is said above the list, and not again in each case.
        assert "no reasons yet" not in page.one("main").text
    page = await look(client, f"/explore?run={told}", **{"Accept-Language": "en"})
    assert page.all("blockquote")
    assert "no reasons" not in page.one("main").text
    first = json.loads((await client.get(f"/v1/batches/{silent}/results")).text.splitlines()[0])["id"]
    assert (await client.post(f"/evaluations/{first}/reasons", data={"back": ""})).status_code == 303
    page = await look(client, f"/explore?run={silent}", **{"Accept-Language": "en"})
    assert "gave no reasons" not in page.one("main").text  # it was asked for some afterwards
    shown = page.one("main").text
    assert shown.count("asked again for these reasons") == 1, "once for a response, not for each aspect"
    assert "no reasons yet" in shown, "of the others"


async def test_findings_of_conversations_are_named(client):
    lines = (
        "席を三名で予約したいです。",
        "Certainly, I have booked a table for three people at seven o'clock for you.",
    )
    turns = [
        {"speaker": role, "text": text, "role": role} for role, text in zip(("user", "system"), lines, strict=True)
    ]
    body = {"rubric": "ja-conversation", "items": [{"id": "talk", "turns": turns}]}
    run = (await client.post("/v1/batches", json=body)).raise_for_status().json()["id"]
    async with client.stream("GET", f"/v1/batches/{run}/events") as events:
        await events.aread()
    page = await look(client, f"/explore?run={run}&warning=finding%3Awrong-language", **{"Accept-Language": "en"})
    options = {option.attributes["value"]: option.text for option in page.all("option")}
    assert options["finding:wrong-language"] == "Findings: wrong language"
    assert items_of(page) == ["talk"]
    assert "no reasons" not in page.one("main").text  # a conversation has findings


def test_differences_are_of_what_readers_take_for_a_character():
    assert mark_difference("同じ", "同じ") is None
    assert mark_difference("長" * 2000, "短") is None
    pieces = mark_difference("これはか\u3099です", "これはか👍🏽です") or ()
    assert [*pieces] == [("same", "これは"), ("gone", "か\u3099"), ("new", "か👍🏽"), ("same", "です")]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("ご予約は明日の15時で承りました。", "ご予約は明日の16時で承りました。", "ご予約は明日の1[5|6]時で承りました。"),
        ("返品は30日以内にお願いします。", "返品は14日以内にお願いします。", "返品は[30|14]日以内にお願いします。"),
        ("はい、できます。", "いいえ、できません。", "[はい|いいえ]、できま[す|せん]。"),
        ("주문이 접수되었습니다. 내일 도착합니다.", "주문이 접수되었습니다. 모레 도착합니다.", "주문이 접수되었습니다. [내일|모레] 도착합니다."),
        ("営業時間は10時から19時までです。", "申し訳ありませんが、その質問にはお答えできません。", None),
        ("そうですね。明日は雨になりそうですよ。", "そうですね。私もカレーが一番好きです。", None),
        ("大変ですね。", "何も食べてくれないと心配ですね。別の味にしてみてはどうですか？", None),
        ("죄송하지만 도와드릴 수 없습니다.", "강릉은 바다가 예뻐서 저도 좋아해요.", None),
        ("I can book a table for two at seven.", "The museum opens at ten on Sundays.", None),
    ],
)  # fmt: skip
def test_unrelated_responses_are_shown_plain(before: str, after: str, told: str | None):
    pieces = mark_difference(before, after)
    marks = {"same": "{}", "gone": "[{}|", "new": "{}]"}
    shown = None if pieces is None else "".join(marks[piece.kind].format(piece.text) for piece in pieces)
    assert shown == told


async def test_no_page_calls_a_run_by_its_id(client):
    first, second = await post(client, 0, metadata={}), await post(client, 1, metadata={})
    pages = ("/", f"/runs/{first}", f"/runs/{first}/items/0", "/explore", f"/explore?run={first}&run={second}", "/rate")
    for address in pages:
        page = Page((await client.get(address)).text)
        # The run's own page says it once more, for commands and scripts.
        heading = "h1" if address == f"/runs/{first}" else "main"
        assert "ba_" not in page.one(heading).text, address
        assert "ba_" not in page.one("title").text, address
    texts = Page((await client.get(f"/explore?run={first}&run={second}")).text).one("main").text
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC · ja-dialogue@2", texts)
