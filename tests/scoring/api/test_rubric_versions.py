"""Versions of a rubric over HTTP: each batch stays with the one by which it was scored."""

import json
import sqlite3
from pathlib import Path

import httpx
import pytest

from tests.support.posted import post_batch, wait_for


async def score(client: httpx.AsyncClient, count: int = 2, **options: object) -> str:
    """A batch that is scored; its id."""
    batch_id: str = (await post_batch(client, count, **options))["id"]
    await wait_for(client, batch_id, "completed")
    return batch_id


def change_options(folder: Path, batch_id: str, old: str, new: str) -> None:
    """Puts what an earlier release, or another installation, would have stored in the place of what is there."""
    with sqlite3.connect(folder / "saiten.db") as database:
        done = database.execute(
            "update batches set options = replace(options, ?, ?) where id = ? and instr(options, ?) > 0",
            (old, new, batch_id, old),
        )
        assert done.rowcount == 1


async def test_a_rubric_is_read_in_its_newest_version_or_in_the_one_that_is_named(client: httpx.AsyncClient) -> None:
    listed = {each["id"]: each for each in (await client.get("/v1/rubrics")).json()["rubrics"]}
    assert (listed["ja-dialogue"]["version"], listed["ja-dialogue"]["versions"]) == (2, [1, 2])
    assert listed["lfqa"]["versions"] == [1]
    assert (await client.get("/v1/info")).json()["rubric_versions"]["ja-dialogue"] == [1, 2]
    versions = {
        name: (await client.get(f"/v1/rubrics/{name}")).json()["version"]
        for name in ("ja-dialogue", "ja-dialogue@1", "ja-dialogue%402")
    }
    assert versions == {"ja-dialogue": 2, "ja-dialogue@1": 1, "ja-dialogue%402": 2}
    for name in ("ja-dialogue@3", "ja-dialogue@", "ja-dialogue@1@1", "ja-dialogue@01"):
        refused = await client.get(f"/v1/rubrics/{name}")
        assert refused.status_code == 404
    assert "ja-dialogue@1, ja-dialogue@2" in (await client.get("/v1/rubrics/ja-dialogue@3")).json()["detail"]


@pytest.mark.parametrize(
    ("name", "status"), [("ja-dialogue@1", 200), ("ja-dialogue@9", 422), ("ja-dialogue@0", 422), ("ja-dialogue@x", 422)]
)
async def test_an_evaluation_is_by_the_version_that_it_names(client: httpx.AsyncClient, name: str, status: int) -> None:
    body = {"rubric": name, "context": [{"speaker": "A", "text": "おはよう。"}], "response": "おはよう。"}
    response = await client.post("/v1/evaluations", json=body)
    assert response.status_code == status, response.text
    found = response.json()
    if status == 200:
        assert (found["rubric"]["id"], found["rubric"]["version"]) == ("ja-dialogue", 1)
        assert "|rubric:ja-dialogue@1|" in found["signature"]
    else:
        assert found["errors"][0]["pointer"] == "/rubric"


async def test_batches_are_found_by_rubric_and_by_version(client: httpx.AsyncClient) -> None:
    first = await score(client, rubric="ja-dialogue@1", metadata={"rubric": "ja-dialogue@2", "path": "x"})
    second = await score(client)

    async def listed(rubric: str) -> list[str]:
        return [batch["id"] for batch in (await client.get("/v1/batches", params={"rubric": rubric})).json()["items"]]

    found = {batch["id"]: batch for batch in (await client.get("/v1/batches")).json()["items"]}
    assert [(found[each]["rubric"], found[each]["rubric_version"]) for each in (first, second)] == [
        ("ja-dialogue", 1),
        ("ja-dialogue", 2),
    ]
    assert await listed("ja-dialogue") == [second, first]
    assert (await listed("ja-dialogue@1"), await listed("ja-dialogue@2")) == ([first], [second])
    for unknown in ("ja-dialogue@3", "ja_dialogue@1", "ja-dialogue@", f"ja-dialogue@{'9' * 5000}"):
        assert await listed(unknown) == []
    assert (await client.get(f"/v1/batches/{first}/summary")).json()["rubric_version"] == 1
    home = (await client.get("/")).text
    assert "Runs of the rubric ja-dialogue@1" in home
    assert "Runs of the rubric ja-dialogue@2" in home


async def test_runs_by_two_versions_do_not_compare_and_it_is_said_what_to_ask_for(client: httpx.AsyncClient) -> None:
    first, second = await score(client, rubric="ja-dialogue@1"), await score(client)
    refused = await client.post("/v1/comparisons", json={"baseline": first, "candidate": second})
    assert (refused.status_code, refused.json()["code"]) == (409, "signature-mismatch")
    assert 'ask for rubric = "ja-dialogue@1"' in refused.json()["detail"]
    again = await score(client, rubric="ja-dialogue@1")
    assert (await client.post("/v1/comparisons", json={"baseline": first, "candidate": again})).status_code == 200


async def test_a_batch_of_an_earlier_release_stays_with_version_1(client: httpx.AsyncClient, tmp_path: Path) -> None:
    old = await score(client, rubric="ja-dialogue@1", judge={"samples": 1})
    change_options(tmp_path, old, '"rubric":"ja-dialogue@1"', '"rubric":"ja-dialogue"')
    assert (await client.get(f"/v1/batches/{old}")).json()["rubric_version"] == 1
    listed = (await client.get("/v1/batches", params={"rubric": "ja-dialogue@1"})).json()["items"]
    assert [batch["id"] for batch in listed] == [old]
    again = await score(client, rubric="ja-dialogue@1")
    assert (await client.post("/v1/comparisons", json={"baseline": old, "candidate": again})).status_code == 200
    assert (await client.get(f"/explore?run={old}&run={again}")).status_code == 200


async def test_what_was_scored_by_a_version_that_is_gone_can_still_be_read(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    gone = await score(client, rubric="ja-dialogue@1")
    change_options(tmp_path, gone, '"rubric":"ja-dialogue@1"', '"rubric":"ja-dialogue@7"')
    assert (await client.get(f"/v1/batches/{gone}")).json()["rubric_version"] == 7
    for path in (f"/v1/batches/{gone}/summary", f"/v1/batches/{gone}/results?format=csv", f"/runs/{gone}", "/"):
        assert (await client.get(path)).status_code == 200, path
    gated = await client.post("/v1/gates", json={"candidate": gone, "rules": [{"aspect": "overall", "min_mean": 1}]})
    assert gated.status_code == 200


async def test_ratings_are_held_against_the_version_that_was_scored(client: httpx.AsyncClient) -> None:
    batch_id = await score(client, rubric="ja-dialogue@1")
    lines = (await client.get(f"/v1/batches/{batch_id}/results")).text.splitlines()
    evaluation = json.loads(lines[0])["id"]
    for target in ({"evaluation": evaluation}, {"batch": batch_id, "item": json.loads(lines[0])["item"]}):
        for rating, status in ((3, 200), (9, 422)):
            line = json.dumps({**target, "rater": "a", "ratings": {"overall": rating}})
            response = await client.post(
                "/v1/ratings", content=line.encode(), headers={"Content-Type": "application/x-ndjson"}
            )
            assert response.status_code == status, response.text
