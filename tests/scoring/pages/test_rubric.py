"""`/rubrics`: rubrics in full, what changed between versions, and their files."""

import pytest

from saiten_server.core.rubric import Rubric
from saiten_server.platform.web.language import pick
from saiten_server.platform.web.page import MOST_CHARACTER_PAIRS
from saiten_server.scoring.rubrics.files import default_folder
from saiten_server.scoring.rubrics.pages import compare_rubrics
from tests.support.elements import Page
from tests.support.shown_batch import load_rubric


async def test_the_list_leads_to_every_version(client):
    found = [link["href"] for link in Page((await client.get("/rubrics")).text).all("a") if "@" in link["href"]]
    assert found == [
        "/rubrics/ja-conversation@2",
        "/rubrics/ja-conversation@1",
        "/rubrics/ja-dialogue@2",
        "/rubrics/ja-dialogue@1",
        "/rubrics/ko-comment@2",
        "/rubrics/ko-comment@1",
        "/rubrics/ko-conversation@2",
        "/rubrics/ko-conversation@1",
        "/rubrics/ko-dialogue@1",
        "/rubrics/lfqa@1",
    ]


@pytest.mark.parametrize(
    ("name", "leads"),
    [("ko-comment", True), ("ko-comment@2", True), ("ko-comment@1", False), ("ko-conversation", False)],
)
async def test_a_rubric_of_responses_leads_to_trying_it(client, name: str, leads: bool):
    main = (await client.get(f"/rubrics/{name}")).text.partition("<main")[2]
    assert ("/try?rubric=ko-comment" in [link["href"] for link in Page(main).all("a")]) == leads


@pytest.mark.parametrize(("asked", "shown"), [("", "ja"), ("en", "en"), ("xx", "ja")])
async def test_a_rubric_is_shown_in_the_language_asked_for_else_in_the_visitors(client, asked: str, shown: str):
    answer = await client.get("/rubrics/ja-dialogue", params={"language": asked}, headers={"Accept-Language": "ja"})
    text, rubric = Page(answer.text).one("main").text, load_rubric("ja-dialogue")
    for aspect in rubric.aspects:
        assert aspect.question[shown].split() == [word for word in aspect.question[shown].split() if word in text]
        for level in aspect.levels:
            assert level.label[shown] in text
            assert level.example is None or level.example[shown].response.strip() in text


async def test_names_are_in_the_visitors_language_and_what_a_judge_sees_stands_beside_them(client):
    page = Page((await client.get("/rubrics/ko-conversation?language=ko", headers={"Accept-Language": "ja"})).text)
    title, text = page.one("h1").text, page.one("main").text
    rubric = load_rubric("ko-conversation")
    assert "韓国語の対話全体" in title
    assert rubric.title["ko"] in title
    names = [name for aspect in rubric.aspects for name in (aspect.name, *(level.label for level in aspect.levels))]
    assert [name for name in names for said in (pick(name, "ja")[0], name["ko"]) if said not in text] == []
    assert {pick(name, "ja")[1] for name in names} == {"ja"}


async def test_the_file_is_downloaded_as_it_stands(client):
    answer = await client.get("/rubrics/ja-dialogue@1.yaml")
    assert answer.content == (default_folder() / "ja-dialogue.v1.yaml").read_bytes()
    assert answer.headers["content-disposition"] == 'attachment; filename="ja-dialogue.v1.yaml"'


@pytest.mark.parametrize("path", ["nothing", "ja-dialogue@9", "nothing.yaml", "ja-dialogue?against=9"])
async def test_what_there_is_not_is_not_found(client, path: str):
    assert (await client.get(f"/rubrics/{path}")).status_code == 404


def change(question: str) -> Rubric:
    """A rubric with another question."""
    rubric = load_rubric("ja-dialogue")
    first = rubric.aspects[0]
    asked = first.model_copy(update={"question": {**first.question, "ja": question}})
    return rubric.model_copy(update={"aspects": (asked, *rubric.aspects[1:])})


def test_a_change_is_shown_by_character_at_its_place():
    (found,) = compare_rubrics(change("応答は自然ですか。"), change("応答はとても自然ですか。"), "ja")
    assert (found.aspect, found.level, found.field) == (load_rubric("ja-dialogue").aspects[0].id, None, "Question")
    assert found.pieces == [("same", "応答は"), ("new", "とても"), ("same", "自然ですか。")]


def test_other_sentences_are_replaced_whole():
    (found,) = compare_rubrics(change("We went to my parents."), change("Boxes need unpacking now."), "ja")
    assert found.pieces == [("gone", "We went to my parents."), ("new", "Boxes need unpacking now.")]


def test_texts_that_take_too_long_to_compare_are_replaced_whole():
    before, after = "a" * (MOST_CHARACTER_PAIRS // 1000), "a" * 1001
    (found,) = compare_rubrics(change(before), change(after), "ja")
    assert found.pieces == [("gone", before), ("new", after)]


async def test_the_page_shows_what_changed(client):
    page = Page((await client.get("/rubrics/ja-dialogue", params={"against": "1"})).text)
    assert page.all("ins") or page.all("del")
    assert page.inline() == []


async def test_a_rubric_is_compared_with_another_one(client):
    page = Page((await client.get("/rubrics/ja-dialogue", params={"against": "lfqa@1", "language": "en"})).text)
    assert "lfqa@1 → ja-dialogue@2" in page.one("main").text
    assert page.all("ins")
    assert page.all("del")
