"""Sequences of builds: over HTTP, and what becomes of them when batches are erased."""

from pathlib import Path
from urllib.parse import quote

from tests.support.keyed import make_keys
from tests.support.posted import post_batch, wait_for
from tests.support.serving import serving

NAME = "夜間/nightly"


async def test_a_sequence_keeps_its_builds_its_baseline_and_its_alpha(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        batches = [(await post_batch(client, 8, relevance=None))["id"] for _ in range(4)]
        for one in batches:
            await wait_for(client, one)
        address, rules = f"/v1/sequences/{quote(NAME, safe='')}", [{"aspect": "overall", "max_drop": 0.1}]
        first = {"candidate": batches[1], "sequence": NAME, "rules": rules}
        assert (await client.post("/v1/gates", json=first)).status_code == 422  # no baseline
        assert (await client.get(address)).status_code == 404

        asked = {**first, "baseline": batches[0], "alpha": 0.1}
        report = (await client.post("/v1/gates", json=asked)).json()
        told = report["sequence"]
        assert (told["name"], told["night"], told["alpha"], told["builds"]) == (NAME, 1, 0.1, 0)
        assert report["alpha"] == 0.1
        # The noise is not known yet.
        assert report["verdict"] == "inconclusive"
        again = (await client.post("/v1/gates", json=first)).json()
        assert again["sequence"] == told
        later = (await client.post("/v1/gates", json={**first, "candidate": batches[2]})).json()
        assert (later["sequence"]["night"], later["sequence"]["builds"]) == (2, 1)
        assert later["sequence"]["noise"] == {"overall": 0.0}

        for change in (
            {"baseline": batches[3]},
            {"alpha": 0.05},
            {"test": "unpaired"},
            {"estimate": "corrected"},
            {"candidate": batches[0]},
        ):
            assert (await client.post("/v1/gates", json={**first, **change})).status_code == 422, change

        listed = (await client.get("/v1/sequences")).json()["items"]
        assert [(one["name"], one["baseline"], one["builds"]) for one in listed] == [(NAME, batches[0], [])]
        builds = (await client.get(address)).json()["builds"]
        assert [(one["night"], one["batch"]) for one in builds] == [(1, batches[1]), (2, batches[2])]

        # A build that is erased keeps its place, and a baseline takes the sequence with it.
        assert (await client.delete(f"/v1/batches/{batches[1]}")).status_code in {200, 202, 204}
        builds = (await client.get(address)).json()["builds"]
        assert [(one["night"], one["batch"]) for one in builds] == [(1, None), (2, batches[2])]
        third = (await client.post("/v1/gates", json={**first, "candidate": batches[3]})).json()
        assert (third["sequence"]["night"], third["sequence"]["builds"]) == (3, 1)
        assert (await client.delete(address)).status_code == 204
        assert (await client.delete(address)).status_code == 404
        begun = (await client.post("/v1/gates", json={**first, "candidate": batches[3], "baseline": batches[0]})).json()
        assert begun["sequence"]["night"] == 1
        await client.delete(f"/v1/batches/{batches[0]}")
        assert (await client.get("/v1/sequences")).json() == {"items": []}


async def test_a_key_that_only_reads_begins_no_sequence(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        (reader,) = await make_keys(tmp_path, ("default", "read"))
        asked = {"candidate": "ba_0", "baseline": "ba_1", "sequence": NAME, "rules": []}
        answer = await client.post("/v1/gates", json=asked, headers=reader)
        assert (answer.status_code, answer.json()["message"]) == (403, "sequence-needs-write-key")
        assert (await client.get("/v1/sequences", headers=reader)).json() == {"items": []}
