"""A rater's sheet: what it shows, what it hides, and that it works by radio buttons alone."""

import asyncio
import html
import json
import re
from typing import Any

import httpx
import pytest

from saiten_server.core.rubric import Aspect
from saiten_server.platform.web.page import Form
from saiten_server.ratings.rounds.pages.sheet import Entered, examples_of, make_choice, read_chosen_levels
from saiten_server.scoring.rubrics.files import RubricFiles, default_folder
from tests.support.cases import in_turn
from tests.support.posted import wait_for

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'
NOTHING = {"_": ""}
"""A form without fields: httpx leaves out the type of an empty one."""
ASPECTS = ["naturalness", "coherence", "interestingness", "relevance", "consistency", "overall"]


async def start(client: httpx.AsyncClient, items: list[dict[str, Any]], **fields: Any) -> str:
    """The address of a round over a completed run of these items."""
    response = await client.post("/v1/batches", json={"name": "SECRET-run", "items": items})
    batch = await wait_for(client, response.json()["id"])
    started = await client.post("/rate", data={"run": batch["id"], "name": "一回目", **fields})
    address: str = started.headers["location"]
    return address


def items(count: int = 3) -> list[dict[str, Any]]:
    """Items of which everything that a rater must not see says so."""
    return [
        {
            "id": f"SECRET-item-{number}",
            "context": [{"speaker": "甲", "text": f"文脈{number}です。"}, {"speaker": "乙", "text": "なるほど。"}],
            "response": f"応答{number}です。" + "はい。" * number,
            "reference": f"SECRET-reference-{number}",
            "metadata": {"system": "SECRET-system", "build": "SECRET-build"},
        }
        for number in range(count)
    ]


async def show(client: httpx.AsyncClient, address: str, rater: str = "甲", **more: Any) -> str:
    response = await client.get(f"{address}/sheet", params={"rater": rater, **more}, follow_redirects=True)
    assert response.status_code == 200
    return response.text


def action_of(page: str) -> str:
    """Where the sheet is sent."""
    (found,) = re.findall(r'action="(/rate/[^"]+/sheet[^"]*)"', page)
    return html.unescape(found)


def lowest(page: str) -> dict[str, str]:
    """The first level of each aspect, as a browser would send it."""
    found: dict[str, str] = {}
    for name, value in re.findall(r'<input type="radio"[^>]*name="(rating\.[^"]+)" value="([^"]+)"', page):
        found.setdefault(name, value)
    return found


def checked(page: str) -> dict[str, str]:
    """What is chosen."""
    return dict(re.findall(r'<input type="radio"[^>]*name="(rating\.[^"]+)" value="([^"]+)" checked', page))


async def save(client: httpx.AsyncClient, page: str, **changes: str) -> httpx.Response:
    return await client.post(action_of(page), data={**lowest(page), **changes})


async def kept(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    text = (await client.get("/v1/ratings?rater=%E7%94%B2")).text
    return [json.loads(line) for line in text.splitlines()]


# What it shows


async def test_a_sheet_asks_every_aspect_by_radio_buttons_with_the_rubrics_words(client):
    page = await show(client, await start(client, items()))
    assert list(lowest(page)) == [f"rating.{aspect}" for aspect in ASPECTS]
    assert len(re.findall(r"<fieldset", page)) == len(ASPECTS) == len(re.findall(r"<legend>", page))
    assert "Response 1 of 3" in page
    assert page.count("応答") >= 1
    for text in ("Slightly unnatural", "A native speaker could say it exactly as it stands.", "Save and next", "Pause"):
        assert text in page
    assert "Back to the previous response" not in page
    japanese = (await client.get(action_of(page), headers={"Accept-Language": "ja"})).text
    assert "日本語を母語とする人が、そのまま口にしてもおかしくない。" in japanese


async def test_a_levels_key_is_its_own_number(client):
    page = await show(client, await start(client, items()))
    for aspect, values in (("naturalness", ["1", "2", "3"]), ("coherence", ["0", "1"])):
        found = re.findall(rf'name="rating.{aspect}" value="([^"]+)" data-key="(\d)">\s*<kbd[^>]*>(\d)</kbd>', page)
        assert [value for value, _, _ in found] == values
        assert [key for _, key, _ in found] == [kbd for _, _, kbd in found] == values


def test_levels_below_zero_and_beyond_nine_are_mapped_too():
    def aspect(low: int, high: int) -> Aspect:
        levels = [{"value": v, "label": {"en": str(v)}, "description": {"en": str(v)}} for v in range(low, high + 1)]
        return Aspect.model_validate({"id": "a", "name": {"en": "A"}, "question": {"en": "A?"}, "levels": levels})

    choice = make_choice(aspect(-1, 1), Entered({"a": -1.0}))
    assert [(one.key, one.level.value, one.chosen) for one in choice.levels] == [
        (1, -1, True),
        (2, 0, False),
        (3, 1, False),
    ]
    assert [one.key for one in make_choice(aspect(1, 11), Entered()).levels] == [*range(1, 10), None, None]
    assert [one.key for one in make_choice(aspect(0, 9), Entered()).levels] == [*range(10)]


def test_what_is_no_level_counts_as_not_chosen():
    rubric = RubricFiles([default_folder()]).get("lfqa")
    sent = {"formality": "-1", "amount_info": "+1", "factuality": "１", "other": "1"}
    form = Form([(f"rating.{name}", value) for name, value in sent.items()])
    assert read_chosen_levels(form, rubric.aspects) == {"formality": -1.0}


async def test_instructions_are_open_on_the_first_sheet_alone(client):
    address = await start(client, items())
    page = await show(client, address)
    assert '<details class="panel instructions" open>' in page
    assert "I went back to my parents&#39; place over the weekend, for the first time in ages." in page
    await save(client, page)
    page = await show(client, address)
    assert "Response 2 of 3" in page
    assert '<details class="panel instructions">' in page


def test_examples_do_not_repeat_a_context(ja_aspect):
    found = examples_of(ja_aspect, "ja")
    assert [one["again"] for one in found] == [False, True, True]
    assert {one["lang"] for one in found} == {"ja"}
    assert {one["lang"] for one in examples_of(ja_aspect, "ko")} == {"en"}


@pytest.fixture
def ja_aspect() -> Aspect:
    return RubricFiles([default_folder()]).get("ja-dialogue").aspects[0]


async def test_texts_are_shown_as_text(client):
    item = {"context": [{"speaker": HOSTILE[:60], "text": HOSTILE}], "response": f"{HOSTILE}はい"}
    address = await start(client, [item], name=HOSTILE)
    page = await show(client, address, HOSTILE)
    response = await save(client, page, comment=f"</textarea>{HOSTILE}")
    assert response.status_code == 303
    thanks, again = await show(client, address, HOSTILE), await show(client, address, HOSTILE, number=0)
    for each in (page, thanks, again):
        assert "alert(1)" in each
        assert "<script>" not in each
        assert "<img" not in each
        assert " style=" not in each
        assert not re.search(r"<[^>]* on\w+=", each.replace(html.escape(HOSTILE), ""))
    assert again.count("</textarea>") == 1


@in_turn("language", ["en", "ja", "ko"])
async def test_every_language_renders(client, language):
    address = await start(client, items(1))
    headers = {"Accept-Language": language}
    page = (await client.get(f"{address}/sheet?rater=a", headers=headers)).text
    await save(client, page)
    thanks = (await client.get(f"{address}/sheet?rater=a", headers=headers)).text
    for each in (page, thanks):
        assert f'<html lang="{language}"' in each
    assert {"en": "Thank you", "ja": "ありがとうございました", "ko": "감사합니다"}[language] in thanks


# What it hides


async def test_a_sheet_tells_nothing_but_dialogue_and_rubric(client):
    address = await start(client, items())
    (batch,) = (await client.get("/v1/batches")).json()["items"]
    results = [json.loads(line) for line in (await client.get(f"/v1/batches/{batch['id']}/results")).text.splitlines()]
    for rater in ("SECRET-rater", "丁"):
        page = await show(client, address, rater)
        await save(client, page, comment="SECRET-comment")
    page = await show(client, address, "甲")
    for secret in ("SECRET", batch["id"], "lexical", "丁", "ev_", *[result["id"] for result in results]):
        assert secret not in page + action_of(page), secret


async def test_two_responses_differ_on_the_page_by_their_texts_alone(client):
    """Not by their places in the run, the judge's ratings, or what others said of them."""
    address = await start(client, items(6), raters_per_item="1")
    pages, seen = [], set()
    for rater in ("r1", "r2", "r3"):
        page = await show(client, address, rater)
        (number,) = re.findall(r"文脈(\d)です", page)
        seen.add(number)
        plain = page.replace(f"文脈{number}です。", "…").replace(f"応答{number}です。" + "はい。" * int(number), "…")
        pages.append(plain.replace(rater, "…"))
    assert len(seen) == 3
    assert pages[0] == pages[1] == pages[2]


async def test_what_others_said_changes_nothing(client):
    address = await start(client, items(1))
    before = await show(client, address, "甲")
    await save(client, await show(client, address, "乙"), comment="とても硬い")
    assert await show(client, address, "甲") == before


# Rating


async def test_a_rating_is_kept_and_the_next_response_comes(client):
    address = await start(client, items())
    page = await show(client, address)
    response = await save(client, page, **{"rating.overall": "4", "comment": " 自然。\r\nよい。 "})
    assert response.status_code == 303
    assert "number" not in response.headers["location"]
    (rating,) = await kept(client)
    assert rating["ratings"]["overall"] == 4
    assert rating["ratings"]["coherence"] == 0
    assert rating["comment"] == "自然。\nよい。"
    assert "Response 2 of 3" in await show(client, address)


async def test_what_is_missing_is_pointed_out_and_what_was_entered_stays(client):
    page = await show(client, await start(client, items()))
    given = {"rating.naturalness": "2", "rating.coherence": "7", "comment": "\n下書き"}
    response = await client.post(action_of(page), data=given)
    assert response.status_code == 422
    again = response.text
    assert checked(again) == {"rating.naturalness": "2"}
    fieldsets = re.findall(r"<fieldset.*?</fieldset>", again, re.DOTALL)
    missing = ['aria-invalid="true"' in fieldset.split(">")[0] for fieldset in fieldsets]
    assert missing == [False, True, True, True, True, True]
    assert 'role="alert"' in again
    assert "下書き</textarea>" in again
    assert await kept(client) == []
    assert (await client.post(action_of(again), data=lowest(again))).status_code == 303


async def test_a_comment_that_is_too_long_is_pointed_out(client):
    page = await show(client, await start(client, items()))
    response = await save(client, page, comment="長" * 2001)
    assert response.status_code == 422
    assert 'aria-describedby="comment-fault"' in response.text
    assert "長" * 2001 in response.text
    assert len(checked(response.text)) == len(ASPECTS)
    assert (await save(client, page, comment="長" * 2000)).status_code == 303


async def test_saving_twice_keeps_one_rating(client):
    address = await start(client, items())
    page = await show(client, address)
    answers = await asyncio.gather(*[save(client, page) for _ in range(3)])
    assert {answer.status_code for answer in answers} == {303}
    assert len(await kept(client)) == 1
    for answer in answers:
        followed = await client.get(answer.headers["location"], follow_redirects=True)
        assert "Response 2 of 3" in followed.text


async def test_a_rater_goes_back_changes_and_goes_on(client):
    address = await start(client, items())
    await save(client, await show(client, address), comment="一")
    await save(client, await show(client, address))
    third = await show(client, address)
    assert "number=1" in html.unescape(third)
    back = await show(client, address, number=0)
    assert "Response 1 of 3" in back
    assert "一</textarea>" in back
    assert checked(back) == lowest(back)
    assert "You have already rated this response." in back
    response = await save(client, back, **{"rating.overall": "5"})
    assert response.headers["location"].endswith("number=1")
    assert "Response 2 of 3" in await show(client, address, number=1)
    assert sorted(rating["ratings"]["overall"] for rating in await kept(client)) == [1, 5]


@in_turn("number", ["-1", "1", "x", "٣", "9" * 5000, ""])
async def test_a_number_that_was_not_given_leads_to_the_next(client, number):
    address = await start(client, items())
    assert "Response 1 of 3" in await show(client, address)
    response = await client.get(f"{address}/sheet", params={"rater": "甲", "number": number})
    assert response.status_code == 303
    assert "number" not in response.headers["location"]
    posted = await client.post(f"{address}/sheet", params={"rater": "甲", "number": number}, data=NOTHING)
    assert posted.status_code == 404


async def test_another_raters_sheet_is_not_rated(client):
    address = await start(client, items())
    page = await show(client, address, "甲")
    response = await client.post(action_of(page).replace("%E7%94%B2", "b"), data=lowest(page))
    assert response.status_code == 404
    assert await kept(client) == []


@in_turn("rater", ["", " ", "a\nb", "名" * 129])
async def test_who_has_no_name_is_asked_for_it(client, rater):
    address = await start(client, items())
    for response in (
        await client.get(f"{address}/sheet", params={"rater": rater}),
        await client.post(f"{address}/sheet", params={"rater": rater, "number": "0"}, data=NOTHING),
    ):
        assert (response.status_code, response.headers["location"]) == (303, address)


# The end


async def test_the_thanks_tell_what_was_rated(client):
    address = await start(client, items(10))
    for _ in range(10):
        await save(client, await show(client, address))
    page = await show(client, address)
    assert "Thank you" in page
    assert "You have rated 10 responses as 甲." in page
    assert "SECRET" not in page
    numbers = [int(number) for number in re.findall(r"number=(\d+)", page)]
    assert set(numbers) == set(range(10))
    assert "Response 4 of 10" in await show(client, address, number=3)


async def test_a_limit_per_rater_ends_the_sheets(client):
    address = await start(client, items(), items_per_rater="1")
    page = await show(client, address)
    assert "Response 1 of 1" in page
    await save(client, page)
    assert "You have rated 1 response as 甲." in await show(client, address)


async def test_who_gets_nothing_is_told_why(client):
    address = await start(client, items(1), raters_per_item="1")
    await show(client, address, "甲")
    page = await show(client, address, "乙")
    assert "Nothing to rate" in page
    assert "with other raters" in page


async def test_what_is_in_hand_when_a_round_closes_may_be_rated(client):
    address = await start(client, items())
    await save(client, await show(client, address))
    await show(client, address)
    await client.post(f"{address}/close", data=NOTHING)
    page = await show(client, address)
    assert "The round is closed" in page
    assert "You still have one response to rate." in page
    second = await show(client, address, number=1)
    assert (await save(client, second)).status_code == 303
    assert "in hand" not in await show(client, address)
    assert len(await kept(client)) == 2


@pytest.mark.parametrize(
    ("language", "said"),
    [("en", "or one conversation, in an order"), ("ja", "または対話 1 件だけ"), ("ko", "또는 대화 하나만")],
)
async def test_a_round_of_conversations_does_not_promise_a_response(
    client: httpx.AsyncClient, language: str, said: str
) -> None:
    address = await start(client, items(1))
    shown = await client.get(address, headers={"Accept-Language": language})
    assert said in shown.text
