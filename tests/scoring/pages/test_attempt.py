"""`/try`: a response typed in by hand is scored, and what is wrong is said where it is."""

import asyncio
import time

import pytest

from saiten_server.platform.web.page import Form
from saiten_server.scoring import pages as attempt
from saiten_server.scoring.pages import AttemptDraft, read_attempt, start_draft
from tests.support.cases import in_turn
from tests.support.elements import Page
from tests.support.fake_openai import FakeOpenAI, hang, status
from tests.support.faults import words
from tests.support.keyed import make_keys
from tests.support.serving import serving
from tests.support.shown_batch import HOSTILE, load_rubric
from tests.support.waiting import LIMIT_SECONDS

FILLED = {
    "rubric": "ja-dialogue",
    "speaker": ["A", "B", "A"],
    "text": ["おはよう。", "", "眠れた？"],
    "response": "はい、よく眠れました。",
    "samples": "2",
    "explain": "yes",
    "action": "score",
}


@pytest.fixture(autouse=True)
def wait_for_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, a form is answered with its result."""
    monkeypatch.setattr(attempt, "ATTEMPT_WAIT_SECONDS", 60.0)


async def send(client, status: int = 422, **changes) -> Page:
    response = await client.post("/try", data={**FILLED, **changes})
    assert response.status_code == status, response.text
    return Page(response.text)


async def test_an_empty_form_has_three_rows_and_all_rubrics(client):
    page = Page((await client.get("/try")).text)
    assert [area.text for area in page.all("textarea", name="text")] == ["", "", ""]
    assert [option["value"] for option in page.all("option")] == ["ja-dialogue", "ko-comment", "ko-dialogue", "lfqa"]
    assert page.all("select", name="path") == []
    assert "costs nothing" in page.one("main").text
    assert page.inline() == []


@pytest.mark.parametrize(
    ("reader", "rubric", "examples"),
    [("ko", "ko-dialogue", ["ko", "ja"]), ("ja", "ja-dialogue", ["ja", "ko"]), ("en", "ja-dialogue", ["ja", "ko"])],
)
async def test_the_form_opens_for_the_language_of_its_reader(client, reader, rubric, examples):
    page = Page((await client.get("/try", headers={"Accept-Language": reader})).text)
    assert page.one("option", selected="")["value"] == rubric
    offered = [link["href"] for link in page.all("a") if link["href"].startswith("/try?example=")]
    assert [address.partition("example=")[2][:2] for address in offered] == examples


@pytest.mark.parametrize(
    ("asked", "rubric", "speaker"),
    [
        ({"rubric": "ja-dialogue", "example": "ko"}, "ko-dialogue", "A"),
        ({"rubric": "ko-comment", "example": "ko"}, "ko-comment", "일기"),
        ({"rubric": "ko-dialogue", "example": "ja"}, "ja-dialogue", "A"),
    ],
)
async def test_an_example_is_of_what_its_rubric_is_for(client, asked, rubric, speaker):
    page = Page((await client.get("/try", params=asked)).text)
    assert page.one("option", selected="")["value"] == rubric
    assert page.all("input", name="speaker")[0]["value"] == speaker


async def test_what_is_sent_is_scored_kept_and_shown(client):
    response = await client.post("/try", data=FILLED)
    assert response.status_code == 303
    address = response.headers["location"]
    text = Page((await client.get(address)).text).one("main").text
    assert "はい、よく眠れました。" in text
    assert "眠れた？" in text
    # The form has the texts from the store alone: they are gone with the evaluation.
    for asked, told in (("attempt", 0), ("from", 1)):
        form = await client.get("/try", params={asked: address.rpartition("/")[2]})
        assert (form.status_code, form.text.count("眠れた？")) == (200, told)
    kept = (await client.get(f"/v1{address}?include=request")).json()
    assert [said["text"] for said in kept["request"]["context"]] == ["おはよう。", "眠れた？"]
    assert kept["request"]["judge"] == {
        "model": None,
        "samples": 2,
        "expected": False,
        "explain": True,
    }


async def test_an_utterance_is_added_without_script_and_nothing_lost(client):
    page = await send(client, 200, action="add", response="途中")
    assert [area.text for area in page.all("textarea", name="text")] == ["おはよう。", "", "眠れた？", ""]
    assert [field["value"] for field in page.all("input", name="speaker")] == ["A", "B", "A", "B"]
    assert page.one("textarea", name="response").text == "途中"


@in_turn(
    ("changes", "target"),
    [
        ({"text": ["おはよう。", "", "\u200b"]}, "text-2"),
        ({"speaker": ["A", "B", ""]}, "speaker-2"),
        ({"text": ["", "", ""]}, "context"),
        ({"response": ""}, "response"),
        ({"samples": "17"}, "samples"),
        ({"samples": "many"}, "samples"),
        ({"rubric": "nothing"}, "rubric"),
        ({"rubric": "lfqa"}, "rubric"),
        ({"path": "sideways"}, "path"),
    ],
)
async def test_a_fault_stands_at_its_field_and_in_the_summary(client, changes, target):
    page = await send(client, **changes)
    link = page.one("a", href=f"#{target}")
    assert link.text
    if target != "path":  # no translator: there is no such field
        field = next(element for element in page.elements if element.attributes.get("id") == target)
        assert field["aria-invalid"] == "true"
        assert page.one("p", id=field["aria-describedby"]).text
    response = changes.get("response", FILLED["response"])
    assert page.one("textarea", name="response").text == response


async def test_several_faults_are_all_told(client):
    page = await send(client, response="", samples="0", text=["あ" * 8001, "", "眠れた？"])
    assert "There are some problems" in page.one("main").text
    assert {link["href"] for link in page.all("a") if link.attributes.get("href", "").startswith("#")} == {
        "#main",
        "#text-0",
        "#response",
        "#samples",
    }


async def test_hostile_texts_are_kept_as_texts(client):
    page = await send(client, rubric=HOSTILE, response=HOSTILE, speaker=[HOSTILE, "B", "A"], samples=HOSTILE)
    assert page.inline() == []
    assert page.all("img") == []
    assert page.one("textarea", name="response").text == HOSTILE
    assert page.all("input", name="speaker")[0]["value"] == HOSTILE


async def test_a_judge_that_cannot_be_asked_loses_no_text(tmp_path):
    async with (
        FakeOpenAI(status(401)) as fake,
        serving(tmp_path, judge="openai", openai_api_key="k", openai_base_url=fake.base_url) as client,
    ):
        form = Page((await client.get("/try")).text)
        assert "costs money" in form.one("main").text
        response = await client.post("/try", data=FILLED)
    assert response.status_code == 503
    page = Page(response.text)
    assert "This could not be scored" in page.one("main").text
    assert page.one("textarea", name="response").text == FILLED["response"]


async def test_a_page_waits_for_the_judge_and_scoring_can_be_cancelled(tmp_path, monkeypatch):
    monkeypatch.setattr(attempt, "ATTEMPT_WAIT_SECONDS", 0.0)
    async with (
        FakeOpenAI(hang) as fake,
        serving(tmp_path, judge="openai", openai_api_key="k", openai_base_url=fake.base_url) as client,
    ):
        address = (await client.post("/try", data={**FILLED, "other": "いいえ。"})).headers["location"]
        page = Page((await client.get(address)).text)
        text = page.one("main").text
        assert "The judge is rating the response" in text
        assert "眠れた？" in text
        assert "いいえ。" in text
        assert page.one("div", id="waiting").has(data_renew="")
        assert (await client.get(address.partition("?")[0])).status_code == 200
        rival, reader = await make_keys(tmp_path, ("rivals", "write"), ("default", "read"))
        path = address.partition("?")[0]
        assert (await client.get(path, headers=rival)).status_code == 404
        assert (await client.post(f"{path}/cancel", data={"x": ""}, headers=rival)).status_code == 404
        assert (await client.post(f"{path}/cancel", data={"x": ""}, headers=reader)).status_code == 403
        writer = (await make_keys(tmp_path, ("default", "write")))[0]
        cancelled = await client.post(f"{path}/cancel", data={"x": ""}, headers=writer)
        assert cancelled.headers["location"] == f"/try?attempt={path.rpartition('/')[2]}"
        form = await client.get(cancelled.headers["location"], headers=writer)
        page = Page(form.text)
        assert page.one("textarea", name="response").text == FILLED["response"]
        assert page.one("textarea", name="other").text == "いいえ。"

        # Elsewhere it may be under way; who knows its address too late is told that there is none.
        now = int(time.time())
        for since, told in (("", 404), (now - 400, 404), (now, 200), ("x", 404)):
            elsewhere = await client.get("/try/ev_0", params={"since": since}, headers=writer)
            assert elsewhere.status_code == told
            assert ("If there is no result after 5 minutes, score it again." in elsewhere.text) == (told == 200)
        # Its form was of the process that scores it, and came to this one.
        sent = await client.post(f"/try/ev_0/cancel?other=ev_1&since={now}", data={"x": ""}, headers=writer)
        assert sent.headers["location"] == f"/try/ev_0?other=ev_1&since={now}"

        fake.script(status(401))
        address = (await client.post("/try", data=FILLED, headers=writer)).headers["location"]
        async with asyncio.timeout(LIMIT_SECONDS):
            while (await client.get(address, headers=writer)).status_code != 303:
                await asyncio.sleep(0.02)
        refused = await client.get(address, headers=writer, follow_redirects=True)
        assert refused.status_code == 503
        assert Page(refused.text).one("textarea", name="response").text == FILLED["response"]


async def test_two_responses_are_compared_and_edited(client):
    sent = await client.post("/try", data={**FILLED, "other": "いいえ。"})
    address = sent.headers["location"]
    page = Page((await client.get(address)).text)
    text = page.one("main").text
    for said in ("おはよう。", "はい、よく眠れました。", "いいえ。"):
        assert said in text
    assert [head.text for head in page.all("th", scope="col")] == ["Ratings", "A", "B"]
    assert len(page.all("th", scope="row")) == 6
    edit = next(link["href"] for link in page.all("a") if link.text == "Edit and score again")
    form = Page((await client.get(edit)).text)
    assert form.one("textarea", name="other").text == "いいえ。"
    assert [area.text for area in form.all("textarea", name="text")] == ["おはよう。", "眠れた？"]
    assert form.one("input", name="samples")["value"] == "2"
    single = next(link["href"] for link in page.all("a") if link["href"].startswith("/evaluations/"))
    again = next(link for link in Page((await client.get(single)).text).all("a") if link.text == "Edit and score again")
    assert Page((await client.get(again["href"])).text).one("textarea", name="other").text == ""
    assert (await client.get("/try/pair?a=ev_1&b=ev_2")).status_code == 404
    page = await send(client, other="\u200b")
    assert page.one("textarea", name="other")["aria-invalid"] == "true"


async def test_with_a_translator_the_path_can_be_chosen(tmp_path):
    async with serving(tmp_path, judge="lexical", deepl_api_key="k") as client:
        page = Page((await client.get("/try")).text)
    assert page.one("select", name="path")
    assert {"source", "english", "both"} <= {option["value"] for option in page.all("option")}


async def test_a_key_that_may_only_read_sees_why_it_cannot_send(client, tmp_path):
    (reader,) = await make_keys(tmp_path, ("default", "read"))
    page = Page((await client.get("/try", headers=reader)).text)
    assert page.one("fieldset", class_="bare").attributes.get("disabled") == ""
    assert "Your key is read-only" in page.one("main").text
    assert (await client.post("/try", data=FILLED, headers=reader)).status_code == 403


async def test_a_form_of_another_site_is_refused(client):
    response = await client.post("/try", data=FILLED, headers={"Sec-Fetch-Site": "cross-site"})
    assert response.status_code == 403


@pytest.mark.parametrize(
    ("language", "heading", "rubric"), [("ja", "試す", "ja-dialogue"), ("ko", "시험해 보기", "ko-dialogue")]
)
async def test_an_example_fills_the_form_and_can_be_scored(client, language, heading, rubric):
    response = await client.get(f"/try?example={language}", headers={"Accept-Language": language})
    page = Page(response.text)
    assert page.one("h1").text == heading
    (chosen,) = [option for option in page.all("option") if "selected" in option.attributes]
    assert chosen["value"] == rubric
    filled = {
        "rubric": rubric,
        "speaker": [field["value"] for field in page.all("input", name="speaker")],
        "text": [area.text for area in page.all("textarea", name="text")],
        "response": page.one("textarea", name="response").text,
        "samples": "1",
    }
    assert (await client.post("/try", data=filled)).status_code == 303


def test_an_unknown_rubric_or_example_is_passed_by():
    rubrics = [load_rubric("ko-comment"), load_rubric()]
    assert start_draft(rubrics, "en", "nothing", "xx").rubric == "ja-dialogue"
    assert start_draft(rubrics, "ja", "ko-comment", "").rubric == "ko-comment"
    assert start_draft(rubrics[:1], "ja", "", "ja").rubric == "ko-comment"
    assert start_draft(rubrics, "ko", "", "").rubric == "ko-comment"
    assert start_draft([], "ko", "", "ja").rubric == ""


def test_faults_are_found_at_the_rows_that_were_filled_in():
    draft = AttemptDraft(context=(("A", ""), ("B", "x"), ("A", ""), ("B", "y")))
    assert draft.fault("/context/1/text", words("…")).target == "text-3"
    assert draft.fault("/context/1/speaker", words("…")).row == 4
    assert draft.fault("/context", words("…")).target == "context"
    assert draft.fault("/judge/samples", words("…")).target == "samples"
    assert draft.fault("/metadata/x", words("…")).target == ""


def test_a_context_that_is_too_long_is_refused_and_not_cut():
    fields = [pair for number in range(5) for pair in (("speaker", "A"), ("text", str(number)))]
    assert len(read_attempt(Form(fields), 3).context) == 4
    assert len(read_attempt(Form(fields), 5).context) == 5
