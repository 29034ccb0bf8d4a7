"""What people prefer of pairs that the judge compared: alone, and in a preference run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from saiten_server.preferences.human.store import HumanPreferenceStore
from tests.preferences.runs.test_api import finish, post_system, read_lines
from tests.preferences.test_api import CONTEXT, LONG, SHORT, asking, compare
from tests.support.databases import open_sqlite
from tests.support.pair_judge import answer_with, prefer_longer

HUMAN = "/v1/preferences/human"


async def read(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (await client.get(HUMAN)).text.splitlines()]


async def test_a_person_disagrees_with_the_judge_about_one_pair(tmp_path: Path) -> None:
    async with asking(tmp_path, answer_with(prefer_longer)) as (client, _):
        found = await compare(client, metadata={"user": "42"})
        given = {"pair": found["id"], "rater": "甲", "preference": "second", "shown": ["second", "first"]}
        assert (await client.post(HUMAN, json=given)).json() == {"added": 1, "replaced": 0}
        # The same context in texts of another rater is the same item.
        texts = {"context": CONTEXT, "first": {"response": LONG, "id": "bot-a"}}
        texts |= {"second": {"response": SHORT, "id": "bot-b"}}
        await client.post(HUMAN, json={**texts, "rater": "乙", "preference": "tie"})
        async with open_sqlite(f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}") as engine:
            shown = await HumanPreferenceStore(engine).shown("default")
        assert [(one.rater, one.first, one.choice, one.first_length) for one in shown] == [
            ("甲", "bot-b", "first", len(SHORT)),
            ("乙", "bot-a", "tie", len(LONG)),
        ]
        assert shown[0].item == shown[1].item
        assert (await client.post("/v1/erasures", json={"metadata": {"user": "42"}})).status_code == 200
        assert [one["rater"] for one in await read(client)] == ["乙"]


async def test_a_pair_of_a_preference_run_is_one_of_its_runs_and_goes_with_each(tmp_path: Path) -> None:
    async with asking(tmp_path, answer_with(prefer_longer)) as (client, _):
        runs = [await post_system(client, system) for system in ("bot-a", "bot-b")]
        compared = await finish(client, {"name": "spring", "runs": runs})
        lines = await read_lines(client, compared["id"])
        for rater, line in zip(("甲", "乙"), lines, strict=False):
            given = {"pair": line["id"], "rater": rater, "preference": "first"}
            assert (await client.post(HUMAN, json=given)).status_code == 200
        async with open_sqlite(f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}") as engine:
            shown = await HumanPreferenceStore(engine).shown("default", runs)
        assert [(one.item, one.first, one.second) for one in shown] == [(line["item"], *runs) for line in lines[:2]]
        assert (await client.delete(f"/v1/preference-runs/{compared['id']}")).status_code < 300
        assert await read(client) == []
