"""Pages of conversations: turns with findings beside them, and what a run's findings amount to."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from app.domain.conversation import Finding
from app.web.dashboard.conversation import find_earlier
from tests.support.conversations import find_planted, make_turns
from tests.support.fake_openai import FakeOpenAI
from tests.support.posted import wait_for
from tests.support.waiting import LIMIT_SECONDS

ITEMS: list[dict[str, Any]] = [
    {
        "id": "shop",
        "turns": make_turns("いらっしゃいませ。", "[fault:memory]お名前は?", "<b>うるさい</b>、黙れよ。"),
        "persona": {"name": "佐藤<i>", "age": 41},
        "goal": "注文を済ませる。",
    },
    {"id": "clinic", "turns": make_turns("承知しました。", "お待ちしております。")},
]


@pytest.fixture
async def fake() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI(find_planted) as running:
        yield running


async def read(client: httpx.AsyncClient, address: str, language: str = "en") -> str:
    """The page's HTML, once nothing on it is being drawn or computed."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while True:
            page = await client.get(address, headers={"accept": "text/html", "accept-language": language})
            assert page.status_code == 200, page.text
            if "computing soft" not in page.text and "empty computing" not in page.text:
                return page.text
            await asyncio.sleep(0.02)


async def test_a_run_of_conversations_shows_turns_findings_and_their_course(client: httpx.AsyncClient) -> None:
    batch = (await client.post("/v1/batches", json={"items": ITEMS, "budget_usd": 10})).json()["id"]
    await wait_for(client, batch)
    page = await read(client, f"/runs/{batch}/items/0")
    turns = re.findall(r'<li id="turn-(\d)" class="(\w+)( faulty)?">', page)
    assert [(number, role) for number, role, _ in turns] == [
        (str(number), "other" if number % 2 else "user") for number in range(6)
    ]
    assert [number for number, _, faulty in turns if faulty] == ["3", "5"]
    third = page[page.index('id="turn-3"') : page.index('id="turn-4"')]
    assert "found by the judge" in third
    assert "memory の評価を下げる発話がある。" in third
    fifth = page[page.index('id="turn-5"') : page.index('id="ratings"')]
    assert "register shift" in fifth
    assert 'href="#turn-3"' in fifth or 'href="#turn-1"' in fifth
    assert "&lt;b&gt;うるさい" in fifth
    assert "佐藤&lt;i&gt;" in page
    assert "注文を済ませる。" in page
    # The same by its evaluation; the other one has neither persona nor findings.
    evaluation = re.search(r'href="/evaluations/(ev_\w+)"', page)
    assert evaluation is not None
    assert 'id="turn-5"' in await read(client, f"/evaluations/{evaluation[1]}")
    other = await read(client, f"/runs/{batch}/items/1", "ko")
    assert "faulty" not in other
    assert "해당 없음" in other

    for code, items in (("judge", ["shop"]), ("register-shift", ["shop"]), ("repetition", []), ("any", ["shop"])):
        listed = await read(client, f"/runs/{batch}/items?finding={code}")
        assert re.findall(r'class="row-link"[^>]*><bdi[^>]*>(\w+)<', listed) == items, code
    for language in ("en", "ja", "ko"):
        run = await read(client, f"/runs/{batch}?faults=register-shift", language)
        found = run[run.index('<section id="findings"') : run.index('<section id="flagged"')]
        assert f"/runs/{batch}/items?finding=judge" in found
        assert found.count("<svg") == 3
        rows = re.findall(
            r'<th scope="row" class="num">(\d)</th><td class="num">(\d)</td><td class="num">(\d)</td>', found
        )
        assert rows == [("1", "2", "0"), ("2", "2", "0"), ("3", "1", "1")]


def test_the_earlier_turn_is_read_outside_quotations() -> None:
    for detail, by, earlier in (
        ("「turn 1 」 repeats turn 3: 「ok」.", "rule", 3),
        ("「ok」 repeats turn 9.", "rule", None),
        ("turn 2 is worse", "judge", None),
    ):
        finding = Finding(turn=5, aspect=None, code="repetition" if by == "rule" else None, by=by, detail=detail)  # type: ignore[arg-type]
        assert find_earlier(finding) == earlier
