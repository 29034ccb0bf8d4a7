"""`/rubrics/draft/try`: a draft is checked, estimated and scored once, and nothing of it stays."""

import json
import re
from pathlib import Path

import httpx

from saiten_server.scoring.rubrics.files import default_folder
from tests.support.conversations import find_planted
from tests.support.fake_openai import FakeOpenAI
from tests.support.keyed import make_keys
from tests.support.serving import judged_by, serving

ADDRESS = "/rubrics/draft/try"
DRAFT = (default_folder() / "ja-dialogue.yaml").read_text(encoding="utf-8")
PASTED = "利用者: 予約を変えたいのですが。\nボット： かしこまりました。\n\nA: おはよう。\nB: ねむい。"


async def send(client: httpx.AsyncClient, draft: str, dialogues: str, **more: str) -> httpx.Response:
    return await client.post(ADDRESS, data={"rubric": draft, "dialogues": dialogues, **more})


def seen_in(page: str) -> str:
    (found,) = re.findall(r'name="seen" value="([^"]+)"', page)
    return str(found)


async def test_a_draft_is_checked_estimated_and_scored_without_being_stored(client):
    assert "Nothing is stored." in (await client.get(ADDRESS)).text
    # What is asked for without an estimate gets one first.
    for action in ("check", "score"):
        checked = await send(client, DRAFT, PASTED, action=action)
        assert checked.status_code == 200
        assert "The rubric is valid: 6 aspects" in checked.text
        assert "To score takes 0 calls to the judge: about" in checked.text
        assert "Scored by the draft" not in checked.text
    given = {"action": "score", "seen": seen_in(checked.text)}
    changed = await send(client, DRAFT, PASTED + "!", **given)
    assert "Scored by the draft" not in changed.text
    scored = await send(client, DRAFT, PASTED, **given)
    assert scored.status_code == 200
    assert scored.text.count("<tbody>") == 2
    assert "かしこまりました。" in scored.text
    assert re.search(r'Naturalness</span></th><td class="num">[123]</td><td>', scored.text)
    items = [{"id": "a", "rubric": "x", "context": [{"speaker": "A", "text": "やあ"}], "response": "<b>はい\u2028ね"}]
    lines = "\n".join(json.dumps(one, ensure_ascii=False) for one in items)
    scored = await send(client, DRAFT, lines, action="score", seen=seen_in((await send(client, DRAFT, lines)).text))
    assert "&lt;b&gt;はい" in scored.text
    page = (await client.get("/")).text
    assert "かしこまりました。" not in page
    assert [one["id"] for one in (await client.get("/v1/rubrics")).json()["rubrics"]].count("ja-dialogue") == 1


async def test_every_fault_is_told_at_its_line(client):
    broken = DRAFT.replace("version:", "versoin:", 1)
    for draft, dialogues, told in (
        (broken, PASTED, ["did you mean version?", "/version"]),
        ("", PASTED, ["is empty"]),
        ("a: [", PASTED, ["is not valid YAML"]),
        ("&a {}", PASTED, ["anchors"]),
        ("[" * 2000, PASTED, ["is nested more than"]),
        ("\0", PASTED, ["U+0000"]),
        ("x: <script>alert(1)</script>", PASTED, ["is missing"]),
        (DRAFT, "", ["give 1 to 5 dialogues"]),
        (DRAFT, "A: a\nB: b\n\n" * 6, ["give 1 to 5 dialogues"]),
        (DRAFT, "no speaker here", ["Dialogue 1", "each line is to be NAME: text"]),
        (DRAFT, '{"context": [}', ["Dialogue 1", "JSON"]),
        (DRAFT, '{"context": 3, "response": ""}', ["/context", "/response"]),
    ):
        page = await send(client, draft, dialogues)
        assert page.status_code == 422, (draft[:20], dialogues)
        alert = page.text[page.text.index('id="faults"') : page.text.rindex("<form method")]
        for text in told:
            assert text in alert, (text, alert)
        assert "<script>alert" not in page.text
    # A judge that does not take such a rubric says so, before anything is scored.
    other = await send(client, (default_folder() / "lfqa.yaml").read_text(encoding="utf-8"), "A: a\nB: b")
    assert other.status_code == 422
    assert "This could not be scored" in other.text


async def test_faults_are_told_in_the_language_of_the_page(client):
    for language, told in (("ja", "必須の項目がありません"), ("ko", "필수 항목이 없습니다")):
        client.headers["Accept-Language"] = language
        page = await send(client, "x: 1", PASTED)
        assert told in page.text, language
        assert "is missing" not in page.text


async def test_only_who_may_write_tries_a_draft(client, tmp_path: Path):
    (reader,) = await make_keys(tmp_path, ("default", "read"))
    client.headers.update(reader)
    page = await client.get(ADDRESS)
    assert page.status_code == 200
    assert '<fieldset class="bare stack" disabled>' in page.text
    assert (await send(client, DRAFT, PASTED)).status_code == 403


async def test_an_llm_judge_is_asked_by_the_draft_and_nothing_is_cached(tmp_path: Path):
    draft = (default_folder() / "ja-conversation.yaml").read_text(encoding="utf-8").replace("ja-conversation", "mine")
    pasted = "客: 予約したいです。\n店: [fault:memory]お名前は？\n客: さっき言いました。\n店: すみません。"
    async with FakeOpenAI(find_planted) as fake, serving(tmp_path, **judged_by(fake)) as client:
        checked = (await send(client, draft, pasted)).text
        assert "To score takes 1 call to the judge" in checked
        seen = seen_in(checked)
        assert len(fake.requests) == 0
        for count in (1, 2):
            scored = await send(client, draft, pasted, action="score", seen=seen)
            assert "Scored by the draft" in scored.text
            assert len(fake.requests) == count
        metrics = (await client.get("/metrics")).text
        assert ('rubric="draft"' in metrics, 'rubric="mine"' in metrics) == (True, False)
