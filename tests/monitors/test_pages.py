"""The pages of monitors, in three languages and without script."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy import insert

from saiten_server.monitors.store import tables as t
from saiten_server.monitors.values import Alarm, RisenKind, WorseConversation
from saiten_server.platform.sql import engine as db
from tests.support.batches import START
from tests.support.databases import open_sqlite
from tests.support.live import MonitorBench, make_live
from tests.support.serving import serving

PAGE = {"Accept": "text/html"}
FOUND = {"en": "repetition", "ja": "繰り返し", "ko": "반복"}


async def read(client: httpx.AsyncClient, path: str, language: str = "en") -> str:
    answered = await client.get(path, headers={**PAGE, "Accept-Language": language})
    assert answered.status_code == 200, answered.text
    return answered.text


async def fill(url: str) -> str:
    """A monitor of the project of a service without keys, with a result, one that waits, and an alarm."""
    async with open_sqlite(url) as engine:
        bench = MonitorBench(engine, project="default")
        monitor = await bench.make(
            name="<窓口>", alarm={"aspects": ["overall"]}, send_to=[{"kind": "phoenix", "url": "http://sink.example"}]
        )
        bench.live.close(make_live("a & b", *["うん、まあいいんじゃないでしょうか。"] * 3, project="default"))
        await bench.work.do_round()
        await bench.score(3.0, faulty=1)
        await bench.work.do_round()
        bench.live.close(make_live("later", at=START + timedelta(minutes=1), project="default"))
        await bench.work.do_round()
        alarm = Alarm(
            id="al_1",
            measure="overall",
            raised_at=START,
            since=START,
            difference=-0.5,
            interval=(-0.8, -0.2),
            conversations_compared=40,
            conversations=(WorseConversation(conversation="a & b", run="ba_2", position=0, value=3.0),),
            kinds=(RisenKind(kind="repetition", before=1.0, after=4.5),),
        )
        row = {"id": alarm.id, "monitor_id": monitor.id, "raised_at": START, "alarm": alarm.model_dump_json()}
        await db.execute(engine, insert(t.monitor_alarms).values(row))
        return monitor.id


@pytest.mark.parametrize(
    ("language", "words"),
    [
        (
            "en",
            [
                "Newest conversations",
                "Worst conversations:",
                "repetition",
                "1 sampled conversation waits",
                "not enough",
            ],
        ),
        ("ja", ["新しい対話", "特に悪い対話", "警報", "抽出した対話 1 件"]),
        ("ko", ["최신 대화", "특히 나쁜 대화", "경보", "추출한 대화 1건"]),
    ],
)
async def test_a_monitor_with_its_alarms_windows_and_newest_conversations(
    tmp_path: Path, language: str, words: list[str]
) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        monitor_id = await fill(f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}")
        page = await read(client, f"/monitors/{monitor_id}", language)
        assert [word for word in words if word not in page] == []
        assert "&lt;窓口&gt;" in page
        assert "a &amp; b" in page
        assert "<窓口>" not in page
        assert f'warn">{FOUND[language]}<' in page
        listed = await read(client, "/monitors", language)
        assert f'href="/monitors/{monitor_id}"' in listed


async def test_without_monitors_the_page_says_how_to_make_one(client: httpx.AsyncClient) -> None:
    assert "POST /v1/monitors" in await read(client, "/monitors")
    assert (await client.get("/monitors/mo_none", headers=PAGE)).status_code == 404


@pytest.mark.parametrize(("language", "words"), [("en", "seconds"), ("ja", "秒が過ぎると"), ("ko", "초가지나면")])
async def test_a_new_monitor_says_how_conversations_get_to_it(
    client: httpx.AsyncClient, language: str, words: str
) -> None:
    monitor = {"name": "new", "rubric": "ja-conversation", "filter": {"service.name": "<bot>"}, "idle_seconds": 90}
    made = (await client.post("/v1/monitors", json=monitor)).raise_for_status().json()
    page = await read(client, f"/monitors/{made['id']}", language)
    assert "<code>/v1/traces</code>" in page
    assert f"90{words}" in page.replace(" ", "")
    assert "<code>service.name=&lt;bot&gt;</code>" in page
