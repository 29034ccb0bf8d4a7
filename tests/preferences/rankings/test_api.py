"""`/v1/analyses/ranking`: every source, every form, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
import pytest

from saiten.commands.pairwise_gate import PairwiseJob, decide, spend
from saiten.core.messages import Message
from saiten_server.preferences.rankings import report
from saiten_server.preferences.rankings.report import rank_preferences
from saiten_server.preferences.rankings.values import RankingRequest
from saiten_server.stats.shown_pairs import ShownPairs
from tests.support.posted import NDJSON, make_context, make_item
from tests.support.preferences import PreferenceWorld, draw_pairs
from tests.support.waiting import LIMIT_SECONDS

WORLD = PreferenceWorld((-1.2, 0.0, 1.2), position=0.3, nu=0.5, alike=0.3)
PATH = "/v1/analyses/ranking"
WINNERS = ("a", "b", "tie")


def list_records(pairs: ShownPairs, **more: Any) -> list[dict[str, Any]]:
    return [
        {"item": f"i{item}", "a": pairs.systems[a], "b": pairs.systems[b], "winner": WINNERS[choice], **more}
        for a, b, choice, item in zip(
            *(part.tolist() for part in (pairs.first, pairs.second, pairs.choice, pairs.item)), strict=True
        )
    ]


RECORDS = list_records(draw_pairs(WORLD, 60, np.random.default_rng(1)))


async def ask(client: httpx.AsyncClient, body: Any, **headers: str) -> httpx.Response:
    return await client.post(PATH, json=body, headers=headers)


async def test_a_ranking_has_all_that_the_contract_names(client: httpx.AsyncClient) -> None:
    response = await ask(client, {"data": RECORDS})
    assert response.status_code == 200, response.text
    found = response.json()
    assert [*found["systems"]] == ["s2", "s1", "s0"]
    best = found["systems"]["s2"]
    assert best["interval"][0] < 1.2 < best["interval"][1]
    assert (best["rank"], best["rank_interval"]) == (1, [1, 1])
    assert best["wins"] + best["losses"] + best["ties"] == 240
    assert sum(one["strength"] for one in found["systems"].values()) == pytest.approx(0, abs=1e-9)
    assert found["tied_with_best"] == ["s2"]
    assert {(one["better"], one["worse"]) for one in found["resolved"]} == {("s2", "s1"), ("s2", "s0"), ("s1", "s0")}
    assert found["position_effect"]["interval"][0] < 0.3 < found["position_effect"]["interval"][1]
    assert 0.3 < found["tie_parameter"] < 0.8
    assert 0 < found["position_consistency"] < 1
    assert found["components"] == [["s0", "s1", "s2"]] or sorted(found["components"][0]) == ["s0", "s1", "s2"]
    assert found["length_effect"] is None
    assert found["corrected"] is None


async def test_lines_and_tables_say_the_same(client: httpx.AsyncClient) -> None:
    plain = (await ask(client, {"data": RECORDS, "alpha": 0.1, "ties": "ordinal", "clusters": "item"})).json()
    body = "".join(json.dumps(one) + "\n" for one in RECORDS)
    query = "?alpha=0.1&ties=ordinal&clusters=item"
    lines = await client.post(PATH + query, content=body.encode(), headers=NDJSON)
    table = "item,a,b,winner\n" + "".join(",".join(one.values()) + "\n" for one in RECORDS)
    rows = await client.post(PATH + query, content=table.encode(), headers={"Content-Type": "text/csv"})
    assert lines.json() == rows.json() == plain


async def test_peoples_preferences_correct_the_judges(client: httpx.AsyncClient) -> None:
    by_people = draw_pairs(PreferenceWorld((-0.4, 0.0, 0.4)), 40, np.random.default_rng(2))
    people = list_records(by_people, rater="r1")
    found = (await ask(client, {"data": RECORDS + people})).json()
    assert found["by"] == "judge"
    assert found["corrected"]["by"] == "people"
    assert 0 <= found["corrected"]["weight"] <= 1
    assert found["corrected"]["systems"]["s2"]["strength"] < found["systems"]["s2"]["strength"] - 0.3
    alone = (await ask(client, {"data": RECORDS + people, "by": "people"})).json()
    assert alone["raters"] == 1
    assert alone["looks"] == 240
    few = (await ask(client, {"data": RECORDS + people[:30]}, **{"Accept-Language": "ja"})).json()
    assert few["corrected"] is None
    assert "15" in few["refused"]


async def test_length_is_controlled_and_both_are_shown(client: httpx.AsyncClient) -> None:
    rng = np.random.default_rng(3)
    padded = [{**one, "length_a": 100 + 60 * (one["a"] == "s0") + int(rng.integers(40)), "length_b": 100 + 60 * (one["b"] == "s0") + int(rng.integers(40))} for one in RECORDS]  # fmt: skip
    found = (await ask(client, {"data": padded})).json()
    assert found["length_effect"] is not None
    assert found["length_effect_interval"][0] < found["length_effect"] < found["length_effect_interval"][1]
    plain = (await ask(client, {"data": RECORDS})).json()
    assert plain["messages"]["undefined"]["length_effect"]["code"] == "ranking-no-lengths"
    assert found["without_covariates"]["s1"]["strength"] == plain["systems"]["s1"]["strength"]


async def test_why_there_is_no_effect_of_length_agrees_with_the_notes(client: httpx.AsyncClient) -> None:
    wins = [{**one, "length_a": 9 if one["winner"] == "a" else 5, "length_b": 9 if one["winner"] == "b" else 5} for one in RECORDS]  # fmt: skip
    two, sizes = [one for one in RECORDS if "s2" not in {one["a"], one["b"]}], {"s0": 10, "s1": 20}
    fixed = [{**one, "length_a": sizes[one["a"]], "length_b": sizes[one["b"]]} for one in two]
    for records, code in ((wins, "ranking-term-infinite"), (fixed, "ranking-term-collinear")):
        found = (await ask(client, {"data": records})).json()
        assert found["length_effect"] is None
        why = found["messages"]["undefined"]["length_effect"]
        assert why["code"] == code
        assert why in found["messages"]["notes"]


@pytest.mark.parametrize(
    ("records", "note"),
    [
        (RECORDS[:1], "ranking-few-clusters"),
        ([{**one, "winner": "a" if one["a"] == "s2" else "b" if one["b"] == "s2" else one["winner"]} for one in RECORDS], "ranking-not-one-scale"),
        (RECORDS + [{**one, "a": one["a"] + "x", "b": one["b"] + "x"} for one in RECORDS], "ranking-unconnected"),
        ([{**one, "winner": "a"} for one in RECORDS], "ranking-term-infinite"),
        ([{**one, "winner": "tie"} for one in RECORDS], None),
    ],
)  # fmt: skip
async def test_what_cannot_be_estimated_is_said(client: httpx.AsyncClient, records: Any, note: str | None) -> None:
    response = await ask(client, {"data": records})
    assert response.status_code == 200, response.text
    found = response.json()
    codes = [one["code"] for one in found.get("messages", {}).get("notes", [])]
    assert note is None or note in codes
    for one in found["systems"].values():
        assert one["strength"] is None or abs(one["strength"]) < 20
        assert (one["strength"] is None) == ("strength" in one["undefined"])


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "ranking-source-missing"),
        ({"data": [{**RECORDS[0], "winner": "nobody"}]}, "fault-at"),
        ({"data": RECORDS, "by": "people"}, "ranking-no-answers"),
        ({"runs": ["ba_1", "ba_1"]}, None),
        ({"runs": ["ba_1"]}, None),
        ({"data": RECORDS, "preference_run": "ba_1"}, None),
        ({"data": [{"item": "i", "a": f"s{n}", "b": "x", "winner": "a"} for n in range(300)]}, "fault-at"),
    ],
)
async def test_what_does_not_fit_is_refused(client: httpx.AsyncClient, body: Any, code: str | None) -> None:
    response = await ask(client, body)
    assert response.status_code == 422, response.text
    assert code is None or response.json()["code"] == code or response.json()["message"] == code


@pytest.mark.parametrize("query", ["?alpha=x", "?runs=ba_1", "?alpha=.1&alpha=.2", "?by=nobody"])
async def test_options_of_lines_are_checked(client: httpx.AsyncClient, query: str) -> None:
    response = await client.post(PATH + query, content=b"{}\n", headers=NDJSON)
    assert response.status_code == 422


async def test_runs_are_ranked_by_their_ratings(client: httpx.AsyncClient) -> None:
    runs = []
    for system, end in (("long", "海まで行って、夕方まで泳ぎました。とても楽しかったです。"), ("short", "海。")):
        items = [make_item(number, context=make_context(number), response=f"はい、{end}") for number in range(10)]
        body = {"name": system, "metadata": {"system": system}, "items": items}
        runs.append((await client.post("/v1/batches", json=body)).json()["id"])
    await wait_for(client, runs)
    response = await ask(client, {"runs": runs})
    assert response.status_code == 200, response.text
    found = response.json()
    assert {*found["systems"]} == {"long", "short"}
    assert found["looks"] == 10
    assert found["position_effect"] is None
    unknown = await ask(client, {"runs": runs, "aspect": "grace"})
    assert unknown.status_code == 422
    missing = await ask(client, {"runs": [runs[0], "ba_none"]})
    assert missing.status_code == 404


async def post_run(client: httpx.AsyncClient, system: str, contexts: Sequence[int], **more: Any) -> str:
    """The id of a completed run, whose item of each number has the context of that place in `contexts`."""
    items = [
        make_item(number, id=f"i{number}", context=make_context(context), response=f"はい、{system}です。")
        for number, context in enumerate(contexts)
    ]
    body = {"name": "nightly", "metadata": {"system": system}, "items": items, **more}
    answer = await client.post("/v1/batches", json=body)
    assert answer.status_code == 202, answer.text
    run = str(answer.json()["id"])
    await wait_for(client, [run])
    return run


async def test_runs_that_were_not_rated_alike_are_refused(client: httpx.AsyncClient) -> None:
    runs = [await post_run(client, "a", range(10)), await post_run(client, "b", range(10), rubric="ja-dialogue@1")]
    assert (await ask(client, {"runs": runs})).status_code in {409, 422}
    runs[1] = await post_run(client, "c", range(10), judge={"samples": 3})
    refused = await ask(client, {"runs": runs}, **{"Accept-Language": "ja"})
    assert (refused.status_code, refused.json()["code"]) == (409, "signature-mismatch")
    taken = await ask(client, {"runs": runs, "allow_signature_mismatch": True})
    assert taken.status_code == 200, taken.text


async def test_items_whose_contexts_differ_are_left_out(client: httpx.AsyncClient) -> None:
    first = await post_run(client, "a", range(10))
    some = (await ask(client, {"runs": [first, await post_run(client, "b", range(4, 14))]})).json()
    assert "detail" in some
    assert some["status"] == 422
    half = await post_run(client, "c", [*range(5), *range(25, 30)])
    found = (await ask(client, {"runs": [first, half]})).json()
    assert found["looks"] == 5
    assert any("5" in note and "contexts" in note for note in found["notes"])


@pytest.mark.parametrize("by", ["judge", "people"])
async def test_lengths_of_pairs_that_were_seen_in_one_order(client: httpx.AsyncClient, by: str) -> None:
    more = {} if by == "judge" else {"rater": "r1"}
    records = [
        {"item": f"i{n}", "a": "x", "b": "y", "winner": WINNERS[n % 3], "length_a": n % 7, "length_b": n % 5, **more}
        for n in range(30)
    ]
    answer = await ask(client, {"data": records})
    assert answer.status_code == 200, answer.text
    assert answer.json()["length_effect"] is not None


async def test_a_system_that_only_wins_and_ties_has_a_rank_and_no_strength(client: httpx.AsyncClient) -> None:
    records = [{"item": f"i{n}", "a": "x", "b": "y", "winner": "a" if n < 20 else "tie"} for n in range(30)]
    for ties in ("davidson", "ordinal"):
        answer = await ask(client, {"data": records, "ties": ties})
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert [one["strength"] for one in found["systems"].values()] == [None, None]
        assert [one["rank_interval"] for one in found["systems"].values()] == [[1, 1], [2, 2]]
        assert found["resolved"][0]["better"] == "x"


def test_of_many_pairs_no_interval_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would take some tenths of a millisecond, and 150 systems have 11,175 pairs."""
    pairs = draw_pairs(WORLD, 60, np.random.default_rng(1))
    shown = rank_preferences(pairs, RankingRequest()).pairs
    monkeypatch.setattr(report, "MOST_INTERVALS", 2)
    monkeypatch.setattr(report, "estimate_share", None)
    many = rank_preferences(pairs, RankingRequest()).pairs
    assert [one.share for one in many] == pytest.approx([one.share for one in shown], abs=1e-12)
    assert all(one.share_interval is not None for one in shown)
    assert all(one.undefined["share_interval"] == Message("ranking-many-met", most=2) for one in many)


async def wait_for(client: httpx.AsyncClient, runs: list[str]) -> None:
    import asyncio

    async with asyncio.timeout(LIMIT_SECONDS):
        for run in runs:
            while (await client.get(f"/v1/batches/{run}")).json()["status"] != "completed":
                await asyncio.sleep(0.02)


async def test_a_preference_run_that_is_not_there(client: httpx.AsyncClient) -> None:
    assert (await ask(client, {"preference_run": "ba_none"})).status_code == 404


@pytest.mark.parametrize(
    ("winners", "items", "code"),
    [
        (("tie", "tie"), 20, "ranking-only-ties"),
        (("a", "a"), 20, "ranking-only-position"),
        (("a", "tie", "tie", "a"), 20, "ranking-no-spread"),
        (("tie", "tie"), 4, "ranking-few-met"),
    ],
)
async def test_a_share_without_an_interval_says_why(
    client: httpx.AsyncClient, winners: Sequence[str], items: int, code: str
) -> None:
    """Each item is seen in both orders by turns."""
    records = [
        {"item": f"i{item}", "a": "s0" if at % 2 else "s1", "b": "s1" if at % 2 else "s0", "winner": winner}
        for item in range(items)
        for at, winner in enumerate(winners)
    ]
    found = (await ask(client, {"data": records})).json()
    (met,) = found["pairs"]
    assert (met["share"], met["share_interval"]) == (0.5, None)
    assert met["messages"]["undefined"]["share_interval"]["code"] == code
    job = PairwiseJob("s0", "s1", None, None, 0.05, 0.05)
    verdict = decide(found, job, "s0", "s1", look=1)
    assert (verdict.verdict, verdict.reason) == ("inconclusive", met["undefined"]["share_interval"])
    assert verdict.code == ("too-few" if items < 8 else "no-interval")
    for language in ("ja", "ko"):
        told = (await ask(client, {"data": records}, **{"Accept-Language": language})).json()["pairs"][0]
        assert told["undefined"]["share_interval"] != met["undefined"]["share_interval"]


def test_the_looks_of_a_gate_spend_no_more_than_alpha() -> None:
    assert spend(0.05, 1, last=True) == 0.05
    for looks in (2, 5, 20):
        spent = sum(spend(0.05, look) for look in range(1, looks)) + spend(0.05, looks, last=True)
        assert spent == pytest.approx(0.05)
