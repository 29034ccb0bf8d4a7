"""Preference runs over HTTP, on both databases where what is stored matters, with a judge that is scripted."""

from __future__ import annotations

import codecs
import csv
import io
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from saiten.commands.pairwise_gate import PairwiseJob, cover, decide, list_shares
from saiten.core.messages import Message
from tests.support.fake_deepl import KEY, FakeDeepL
from tests.support.fake_openai import Answer, FakeOpenAI, Request, status
from tests.support.fake_provider_batch import FakeProviderBatch
from tests.support.pair_judge import (
    always_tie,
    answer_with,
    is_of_pair,
    prefer_longer,
    prefer_shown_first,
    texts_of,
    use_other_words,
)
from tests.support.posted import make_context, wait_for
from tests.support.serving import judged_by, serving

LENGTHS = {"bot-a": 3, "bot-b": 2, "bot-c": 1}


async def post_system(client: httpx.AsyncClient, system: str, count: int = 3, **more: Any) -> str:
    """The id of a completed run of a system, whose responses are as long as LENGTHS says."""
    items = [
        {"id": f"i{number}", "context": make_context(number), "response": f"{number}番" + "です。" * LENGTHS[system]}
        for number in range(count)
    ]
    body = {"name": "nightly", "metadata": {"system": system}, "items": items, "relevance": None, **more}
    answer = await client.post("/v1/batches", json=body)
    assert answer.status_code == 202, answer.text
    batch_id: str = answer.json()["id"]
    await wait_for(client, batch_id)
    return batch_id


async def finish(client: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any]:
    """The preference run once it is completed."""
    answer = await client.post("/v1/preference-runs", json=body)
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    assert answer.headers["Location"] == f"/v1/preference-runs/{found['id']}"
    return await wait_until(client, found["id"], "completed")


async def wait_until(client: httpx.AsyncClient, run_id: str, status: str) -> dict[str, Any]:
    """The preference run once it has this status."""
    async with client.stream("GET", f"/v1/preference-runs/{run_id}/events") as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: ") and json.loads(line[6:])["status"] == status:
                break
    found: dict[str, Any] = (await client.get(f"/v1/preference-runs/{run_id}")).json()
    assert found["status"] == status, found
    return found


async def read_lines(client: httpx.AsyncClient, run_id: str, **query: Any) -> list[dict[str, Any]]:
    """The run's results."""
    answer = await client.get(f"/v1/preference-runs/{run_id}/results", params=query)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_every_two_runs_are_compared_on_their_common_items(tmp_path: Path) -> None:
    async with (
        FakeOpenAI(answer_with(prefer_longer)) as fake,
        serving(tmp_path, **judged_by(fake)) as client,
    ):
        runs = [await post_system(client, system, 3 - place % 2) for place, system in enumerate(LENGTHS)]
        fake.requests.clear()
        body = {"name": "spring", "runs": runs, "judge": {"expected": True}}
        estimate = (await client.post("/v1/preference-runs/estimates", json=body)).json()
        assert (estimate["candidates"], estimate["calls"]) == (7, 14)
        run = await finish(client, body)
        assert run["id"].startswith("pf_")
        assert run["pairs"]["systems"] == ["bot-a", "bot-b", "bot-c"]
        assert (run["pairs"]["items"], run["pairs"]["calls"], run["pairs"]["left_out"]) == (3, 14, {})
        assert run["counts"]["scored"] == 7
        assert run["usage"]["judge_calls"] == 14 == sum(map(is_of_pair, fake.requests))
        assert "wording:1/" in run["signature"]
        lines = await read_lines(client, run["id"], texts=True)
        assert [line["position"] for line in lines] == list(range(7))
        for line in lines:
            assert line["aspects"]["overall"]["preference"] == "first"
            assert line["texts"]["first"]["response"].startswith(line["item"].removeprefix("i"))
            assert len(line["texts"]["first"]["response"]) == line["first"]["length"]
        places = {item: [n for n, line in enumerate(lines) if line["item"] == item] for item in ("i0", "i1", "i2")}
        assert all(found == list(range(found[0], found[-1] + 1)) for found in places.values())
        again = await client.get(f"/v1/preferences/{lines[0]['id']}")
        assert again.json()["aspects"] == lines[0]["aspects"]
        rows = list(csv.DictReader(io.StringIO(await get_csv(client, run["id"]))))
        assert [row["overall"] for row in rows] == ["first"] * 7
        assert {(row["overall.first_shown"], row["overall.second_shown"]) for row in rows} == {("first", "first")}
        # It is no batch of ratings.
        assert (await client.get(f"/v1/batches/{run['id']}")).status_code == 404
        assert (await client.delete(f"/v1/batches/{run['id']}")).status_code == 404
        assert (await client.post(f"/v1/batches/{run['id']}/pause")).status_code == 404
        assert {one["id"] for one in (await client.get("/v1/batches")).json()["items"]} == set(runs)
        assert [one["id"] for one in (await client.get("/v1/preference-runs")).json()["items"]] == [run["id"]]
        assert (await client.get(f"/v1/preference-runs/{runs[0]}")).status_code == 404


async def get_csv(client: httpx.AsyncClient, run_id: str) -> str:
    """The run's table."""
    answer = await client.get(f"/v1/preference-runs/{run_id}/results", params={"format": "csv"})
    assert answer.status_code == 200, answer.text
    for_excel = {"format": "csv", "excel": "true"}
    marked = await client.get(f"/v1/preference-runs/{run_id}/results", params=for_excel)
    assert marked.content == codecs.BOM_UTF8 + answer.content
    lines = await client.get(f"/v1/preference-runs/{run_id}/results", params={"excel": "true"})
    assert lines.status_code == 422
    return answer.text


async def test_the_summary_tells_what_the_order_decides(tmp_path: Path) -> None:
    async with (
        FakeOpenAI(answer_with(prefer_shown_first)) as fake,
        serving(tmp_path, **judged_by(fake)) as client,
    ):
        runs = [await post_system(client, system, 8) for system in ("bot-a", "bot-b")]
        run = await finish(client, {"runs": runs, "pairs": "baseline", "baseline": runs[1]})
        summary = (await client.get(f"/v1/preference-runs/{run['id']}/summary")).json()
        assert summary["aspects"]["overall"] == {
            "first": 0,
            "second": 0,
            "tie": 8,
            "missing": 0,
            "position_dependent": 8,
        }
        [pair] = summary["pairs"]
        assert (pair["first"]["system"], pair["second"]["system"]) == ("bot-b", "bot-a")
        position = summary["position"]["overall"]
        assert (position["consistency"], position["pairs"], position["first_shown"]) == (0.0, 8, 16)
        low, high = position["interval"]
        assert low == 0.0
        assert 0.2 < high < 0.6


async def test_a_budget_of_calls_takes_a_sample_of_items(tmp_path: Path) -> None:
    async with (
        FakeOpenAI(answer_with(prefer_longer)) as fake,
        serving(tmp_path, **judged_by(fake)) as client,
    ):
        runs = [await post_system(client, system, 6) for system in LENGTHS]
        fake.requests.clear()
        run = await finish(client, {"runs": runs, "orders": "random", "budget_calls": 9})
        assert sum(map(is_of_pair, fake.requests)) == 9
        assert (run["pairs"]["items"], run["pairs"]["left_out"]) == (3, {"budget_calls": 9})


async def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    async with (
        FakeOpenAI(answer_with(prefer_longer)) as fake,
        serving(tmp_path, **judged_by(fake)) as client,
    ):
        one, other = [await post_system(client, system) for system in ("bot-a", "bot-b")]
        explained = await post_system(client, "bot-c", judge={"explain": True})
        english = await post_system(client, "bot-c", rubric="lfqa")
        context = [{"speaker": "A", "text": "別の話です。"}]
        items = [{"id": f"i{number}", "context": context, "response": "はい。"} for number in range(3)]
        answer = await client.post("/v1/batches", json={"items": items, "relevance": None})
        apart = answer.json()["id"]
        await wait_for(client, apart)
        fake.requests.clear()
        bad: list[tuple[dict[str, Any], int, str]] = [
            ({"runs": [one, one]}, 422, "invalid-request"),
            ({"runs": [one]}, 422, "invalid-request"),
            ({"runs": [one, other], "pairs": "active", "alpha": 1e-10}, 422, "invalid-request"),
            ({"runs": [one, "ba_none"]}, 404, "not-found"),
            ({"runs": [one, explained]}, 409, "signature-mismatch"),
            ({"runs": [one, english]}, 409, "runs-unfit"),
            ({"runs": [one, apart]}, 409, "runs-unfit"),
            ({"runs": [one, other], "budget_calls": 1}, 409, "runs-unfit"),
            ({"runs": [one, other], "stop": "resolved"}, 422, "invalid-request"),
            ({"runs": [one, other], "pairs": "active", "mode": "provider-batch"}, 422, "invalid-request"),
            ({"runs": [one, other], "pairs": "active", "aspects": ["overall", "coherence"]}, 422, "invalid-request"),
            ({"runs": [one, other], "baseline": one}, 422, "invalid-request"),
            ({"runs": [one, other], "pairs": "baseline"}, 422, "invalid-request"),
            ({"runs": [one, other], "aspects": ["nothing"]}, 422, "unknown-aspect"),
            ({"runs": [one, other], "judge": {"explain": True}}, 422, "invalid-request"),
        ]
        for body, status, code in bad:
            found = await client.post("/v1/preference-runs", json=body)
            assert (found.status_code, found.json()["code"]) == (status, code), (body, found.text)
            if body.get("pairs") == "baseline":
                assert found.json()["detail"] == "/baseline: is missing"
        unfit = await client.post("/v1/preference-runs", json={"runs": [one, apart]}, headers={"Accept-Language": "ko"})
        reasons = [Message(one["code"], **one["values"]) for one in unfit.json()["values"]["reasons"]]
        assert {reason.id for reason in reasons} == {"left-out-contexts", "left-out-alone"}
        assert all(reason.say("ko") in unfit.json()["detail"] for reason in reasons)
        assert (await client.get("/v1/preference-runs")).json()["items"] == []
        assert fake.requests == []
        allowed = await finish(client, {"runs": [one, explained], "allow_signature_mismatch": True})
        assert allowed["counts"]["scored"] == 3


async def test_an_erased_run_takes_its_texts_from_the_pairs(tmp_path: Path) -> None:
    async with (
        FakeOpenAI(answer_with(prefer_longer)) as fake,
        serving(tmp_path, **judged_by(fake)) as client,
    ):
        runs = [await post_system(client, system) for system in ("bot-a", "bot-b")]
        answer = await client.post("/v1/preference-runs", json={"runs": runs})
        run_id = answer.json()["id"]
        await wait_until(client, run_id, "completed")
        assert (await client.delete(f"/v1/batches/{runs[0]}")).status_code == 204
        lines = await read_lines(client, run_id, texts=True)
        assert [line["texts"]["first"] for line in lines] == [None] * 3
        assert all(line["texts"]["second"] for line in lines)
        # What is judged after that fails, and says why.
        assert (await client.post("/v1/preference-runs", json={"runs": runs})).status_code == 404
        assert (await client.delete(f"/v1/preference-runs/{run_id}")).status_code == 204
        assert (await client.get(f"/v1/preference-runs/{run_id}")).status_code == 404
        assert (await client.get(f"/v1/preferences/{lines[0]['id']}")).status_code == 404


async def test_a_run_is_paused_by_its_budget_and_a_key_answers_once(tmp_path: Path) -> None:
    async with (
        FakeOpenAI(answer_with(prefer_longer)) as fake,
        serving(tmp_path, **judged_by(fake)) as client,
    ):
        runs = [await post_system(client, system) for system in ("bot-a", "bot-b")]
        fake.requests.clear()
        body, headers = {"runs": runs, "budget_usd": 0}, {"Idempotency-Key": "run-1"}
        one = await client.post("/v1/preference-runs", json=body, headers=headers)
        other = await client.post("/v1/preference-runs", json=body, headers=headers)
        assert other.json() == one.json()
        assert other.headers["Idempotent-Replayed"] == "true"
        paused = await wait_until(client, one.json()["id"], "paused")
        assert paused["pause_reason"] == "budget-exhausted"
        assert fake.requests == []
        cancelled = await client.post(f"/v1/preference-runs/{paused['id']}/cancel")
        assert cancelled.json()["status"] == "cancelled"
        assert cancelled.json()["pairs"]["runs"] == runs


async def test_an_active_run_stops_once_every_order_is_known(tmp_path: Path) -> None:
    async with (
        FakeOpenAI(answer_with(prefer_longer)) as fake,
        serving(tmp_path, **judged_by(fake)) as client,
    ):
        runs = [await post_system(client, system, 30) for system in LENGTHS]
        fake.requests.clear()
        run = await finish(client, {"runs": runs, "pairs": "active", "stop": "resolved"})
        # Three times ten items: as clear as this, one round tells.
        assert run["counts"] == {"total": 30, "queued": 0, "scored": 30, "partial": 0, "failed": 0, "expired": 0}
        [first] = run["pairs"]["rounds"]
        assert first["pairs"] == [[0, 1, 10], [0, 2, 10], [1, 2, 10]]
        assert sorted(first["resolved"]) == [[0, 1], [0, 2], [1, 2]]


async def test_an_active_run_goes_on_where_nothing_is_known_until_its_budget_ends(tmp_path: Path) -> None:
    async with (
        FakeOpenAI(answer_with(prefer_shown_first)) as fake,
        serving(tmp_path, **judged_by(fake)) as client,
    ):
        runs = [await post_system(client, system, 30) for system in LENGTHS]
        fake.requests.clear()
        run = await finish(client, {"runs": runs, "pairs": "active", "budget_calls": 100})
        assert run["counts"]["scored"] == run["counts"]["total"] == 50
        assert sum(map(is_of_pair, fake.requests)) == run["pairs"]["calls"] == 100
        counts = [sum(count for *_, count in each["pairs"]) for each in run["pairs"]["rounds"]]
        assert counts == [30, 15, 5]
        assert [each["resolved"] for each in run["pairs"]["rounds"]] == [[], [], []]
        lines = await read_lines(client, run["id"])
        assert [line["position"] for line in lines] == list(range(50))
        seen = [(line["item"], line["first"]["run"], line["second"]["run"]) for line in lines]
        assert len(set(seen)) == 50
        assert run["pairs"]["items"] == len({line["item"] for line in lines})


async def test_the_provider_s_batch_mode_answers_both_orders(tmp_path: Path) -> None:
    behaviour = answer_with(prefer_longer)
    async with FakeProviderBatch(instant=True) as fake:
        fake.chat, fake.line = behaviour, lambda _, request: behaviour(request)
        settings = {"openai_api_key": "k", "openai_base_url": fake.base_url, "provider_poll_seconds": 0.05}
        async with serving(tmp_path, **settings) as client:
            runs = [await post_system(client, system) for system in ("bot-a", "bot-b")]
            fake.live.clear()
            run = await finish(client, {"runs": runs, "mode": "provider-batch"})
            assert fake.live == []
            assert (run["counts"]["scored"], run["usage"]["judge_calls"]) == (3, 6)
            assert [line["aspects"]["overall"]["preference"] for line in await read_lines(client, run["id"])] == [
                "first"
            ] * 3


@pytest.mark.parametrize("mode", ["live", "provider-batch"])
async def test_runs_are_compared_on_the_english_path(tmp_path: Path, mode: str) -> None:
    behaviour = answer_with(prefer_longer)
    async with FakeProviderBatch(instant=True) as fake:
        fake.chat, fake.line = behaviour, lambda _, request: behaviour(request)
        settings = {"openai_api_key": "k", "openai_base_url": fake.base_url, "provider_poll_seconds": 0.05}
        with FakeDeepL() as deepl:
            settings |= {"deepl_api_key": KEY, "deepl_server_url": deepl.url}
            async with serving(tmp_path, **settings) as client:
                runs = [await post_system(client, system) for system in ("bot-a", "bot-b")]
                assert deepl.texts == []
                body = {"runs": runs, "path": "english", "mode": mode}
                estimate = (await client.post("/v1/preference-runs/estimates", json=body)).json()
                run = await finish(client, body)
                assert (run["path"], run["counts"]["scored"], run["usage"]["judge_calls"]) == ("english", 3, 6)
                spent = run["usage"]["translated_characters"]
                assert estimate["translated_characters"] == spent == sum(map(len, deepl.texts)) > 0
                assert "path:english" in run["signature"]
                lines = await read_lines(client, run["id"], texts=True)
                assert [line["aspects"]["overall"]["preference"] for line in lines] == ["first"] * 3
                # The texts are those of the runs: what they were in English is not stored.
                assert {line["path"] for line in lines} == {"english"}
                assert not any("[EN]" in json.dumps(line) for line in lines)


def talk(goal: str, *said: str) -> dict[str, Any]:
    """A conversation of the user and the system in turn."""
    roles = ("user", "system")
    turns = [{"speaker": roles[n % 2], "role": roles[n % 2], "text": text} for n, text in enumerate(said)]
    return {"turns": turns, "goal": goal}


async def test_conversations_are_paired_by_their_ids_and_goals(tmp_path: Path) -> None:
    async with (
        FakeOpenAI(answer_with(prefer_longer)) as fake,
        serving(tmp_path, **judged_by(fake)) as client,
    ):
        runs, opening = [], "予約を変えたいのですが。"
        for answer, goal in (("はい。", "席を取る"), ("承知しました。いつがよろしいですか。", "金曜に変える")):
            items = [
                {"id": "same", **talk("金曜に変える", opening, answer)},
                {"id": "apart", **talk(goal, opening, answer)},
            ]
            body = {"rubric": "ja-conversation", "items": items, "metadata": {"system": answer}}
            runs.append((await client.post("/v1/batches", json=body)).json()["id"])
            await wait_for(client, runs[-1])
        run = await finish(client, {"runs": runs})
        assert (run["counts"]["scored"], run["counts"]["failed"]) == (1, 1)
        lines = {line["item"]: line for line in await read_lines(client, run["id"])}
        assert lines["same"]["aspects"]["overall"]["preference"] == "second"
        assert lines["apart"]["error"]["code"] == "contexts-differ"
        summary = (await client.get(f"/v1/preference-runs/{run['id']}/summary")).json()
        assert summary["aspects"]["overall"]["second"] == 1


async def test_an_active_run_ends_where_too_little_can_be_known(tmp_path: Path) -> None:
    for number, pick in enumerate((prefer_longer, always_tie, use_other_words)):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with (
            FakeOpenAI(answer_with(pick)) as fake,
            serving(folder, **judged_by(fake)) as client,
        ):
            runs = [await post_system(client, system) for system in ("bot-a", "bot-b")]
            run = await finish(client, {"runs": runs, "pairs": "active"})
            assert run["counts"]["queued"] == 0
            assert run["counts"]["total"] == 3
            assert [one["resolved"] for one in run["pairs"]["rounds"]] == [[]]


async def test_more_pairs_than_a_batch_may_hold_are_refused(tmp_path: Path) -> None:
    async with (
        FakeOpenAI(answer_with(prefer_longer)) as fake,
        serving(tmp_path, **judged_by(fake), limits={"batch_items": 5}) as client,
    ):
        runs = [await post_system(client, system) for system in LENGTHS]
        refused = await client.post("/v1/preference-runs", json={"runs": runs})
        assert (refused.status_code, refused.json()["values"]) == (422, {"count": 9, "maximum": 5})
        assert (await finish(client, {"runs": runs, "budget_calls": 10}))["counts"]["scored"] == 5
        run = await finish(client, {"runs": runs, "pairs": "active"})
        assert run["counts"]["total"] == 5


async def test_a_gate_by_pairs_does_not_pass_on_the_pairs_that_the_judge_answered(tmp_path: Path) -> None:
    """The judge has no verdict on the candidate's last responses, which may be the worst; and one item more is the
    baseline's alone."""

    def pick(_: Request, names: tuple[str, str], texts: dict[str, str]) -> str:
        if any(text.startswith(("8番", "9番")) for text in texts.values()):
            return "no idea"
        return prefer_longer(_, names, texts)

    async with FakeOpenAI(answer_with(pick)) as fake, serving(tmp_path, **judged_by(fake)) as client:
        runs = [await post_system(client, "bot-a", 10), await post_system(client, "bot-b", 11)]
        run = await finish(client, {"runs": runs})
        summary = (await client.get(f"/v1/preference-runs/{run['id']}/summary")).json()
        ranking = (await client.post("/v1/analyses/ranking", json={"preference_run": run["id"]})).json()
    job = PairwiseJob(runs[0], runs[1], None, None, 0.05, 0.05)
    bare = decide(ranking, job, "bot-a", "bot-b", look=1)
    assert bare.verdict == "pass"
    shares = list_shares(run, summary, {"bot-a", "bot-b"})
    assert [share[:2] for share in shares] == [(8, 10), (10, 11)]
    found = cover(bare, shares, 0.98)
    assert (found.verdict, found.code, found.share) == ("inconclusive", "coverage", 1)
    assert found.reason == (
        "8 of 10 judged pairs have a preference (80.00%); 10 of the larger run's 11 responses in pairs (90.91%); "
        "at least 98% of each must be there; " + bare.reason
    )
    assert cover(bare, shares, 0.8).verdict == "pass"
    # Where nothing was judged there is nothing to speak of.
    assert cover(bare, [(0, 0, shares[0][2])], 0.0).verdict == "inconclusive"


async def test_failures_of_other_pairs_do_not_count_against_the_two_of_a_gate(tmp_path: Path) -> None:
    """The judge refuses every pair of `bot-b` and `bot-c`."""
    answer = answer_with(prefer_longer)

    def refuse_short(request: Request) -> Answer:
        if is_of_pair(request) and all("です。" * 3 not in text for text in texts_of(request).values()):
            return status(400, "no")(request)
        return answer(request)

    async with FakeOpenAI(refuse_short) as fake, serving(tmp_path, **judged_by(fake)) as client:
        run = await finish(client, {"runs": [await post_system(client, system) for system in LENGTHS]})
        summary = (await client.get(f"/v1/preference-runs/{run['id']}/summary")).json()
    assert (run["counts"]["scored"], run["counts"]["failed"]) == (6, 3)
    assert [pair["failed"] for pair in summary["pairs"]] == [0, 0, 3]
    assert list_shares(run, summary, {"bot-a", "bot-b"})[0][:2] == (3, 3)
    assert list_shares(run, summary, {"bot-b", "bot-c"})[0][:2] == (0, 3)
    # A service of an earlier release does not tell them apart: they may be of any two.
    for pair in summary["pairs"]:
        pair["failed"] = 0
    assert list_shares(run, summary, {"bot-a", "bot-b"})[0][:2] == (3, 6)
