"""`/v1/analyses/{name}`: every form of the question, every fault at its place, and a badge only where it was earned."""

import asyncio
import csv
import io
import json
import random
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from saiten_server.analyses.reports import analyse
from saiten_server.analyses.requests import REQUESTS
from tests.support.cases import in_turn
from tests.support.keyed import make_keys
from tests.support.posted import NDJSON, make_context, make_item
from tests.support.serving import serving
from tests.support.waiting import LIMIT_SECONDS

JSON = {"Content-Type": "application/json"}
CSV = {"Content-Type": "text/csv"}
UNVALIDATED = "not validated against humans"
RECORDS = [
    {"system": system, "item": f"i{number}", "rater": rater, "ratings": {"fluent": (number + extra) % 5, "good": number % 3}}
    for system, extra in (("甲", 0), ("乙", 1))
    for number in range(6)
    for rater in ("r1", "r2")
]  # fmt: skip


def write(records: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records).encode()


def write_csv(records: list[dict[str, Any]]) -> bytes:
    sheet = io.StringIO()
    table = csv.writer(sheet)
    names = list(records[0]["ratings"])
    table.writerow(["system", "item", "rater", *names])
    table.writerows([one["system"], one["item"], one["rater"], *one["ratings"].values()] for one in records)
    return sheet.getvalue().encode()


async def ask(client: httpx.AsyncClient, name: str, body: Any, **headers: str) -> httpx.Response:
    return await client.post(f"/v1/analyses/{name}", json=body, headers=headers)


async def find(client: httpx.AsyncClient, name: str, body: Any, **headers: str) -> dict[str, Any]:
    response = await ask(client, name, body, **headers)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def score(client: httpx.AsyncClient, name: str = "a", count: int = 16, **more: Any) -> str:
    """The id of a completed batch of different responses, two in each dialogue."""
    headers = more.pop("headers", {})
    end = more.pop("end", "海まで行きました。")
    items = [
        make_item(number, context=make_context(number // 2), response="はい、" * (number % 5) + end)
        for number in range(count)
    ]
    body = {"name": name, "metadata": {"system": more.pop("system", name)}, "items": items, **more}
    response = await client.post("/v1/batches", json=body, headers=headers)
    batch: str = response.json()["id"]
    async with asyncio.timeout(LIMIT_SECONDS):
        while (await client.get(f"/v1/batches/{batch}", headers=headers)).json()["status"] != "completed":
            await asyncio.sleep(0.02)
    return batch


async def results(client: httpx.AsyncClient, batch: str, **headers: str) -> list[dict[str, Any]]:
    response = await client.get(f"/v1/batches/{batch}/results", headers=headers)
    return [json.loads(line) for line in response.content.splitlines()]


async def rate(client: httpx.AsyncClient, batch: str, **headers: str) -> None:
    """Three raters who mostly agree with the judge."""
    rng = random.Random(1)
    ratings = []
    for line in await results(client, batch, **headers):
        for rater in ("r1", "r2", "r3"):
            values = {
                name: min(aspect["scale"][1], max(aspect["scale"][0], aspect["rating"] + rng.choice([-1, 0, 0, 1])))
                for name, aspect in line["aspects"].items()
            }
            ratings.append({"item": line["item"], "batch": batch, "rater": rater, "ratings": values})
    response = await client.post("/v1/ratings", content=write(ratings), headers=NDJSON | headers)
    assert response.status_code == 200, response.text


# Data in the request


async def test_agreement_has_the_shape_of_the_contract(client: httpx.AsyncClient) -> None:
    found = await find(client, "agreement", {"data": RECORDS})
    aspect = found["aspects"]["fluent"]
    assert {"n", "raters", "mean", "sd", "spearman", "pearson", "krippendorff_alpha"} <= set(aspect)
    assert (aspect["n"], aspect["raters"], aspect["krippendorff_alpha"]) == (12, 2, 1)
    assert found["correlations"]["spearman"]["fluent"]["good"] == found["correlations"]["spearman"]["good"]["fluent"]


async def test_correlation_has_the_shape_of_the_contract(client: httpx.AsyncClient) -> None:
    data = [{"item": str(n), "ratings": {"x": n % 7}, "scores": {"x": n % 5}} for n in range(30)]
    aspect = (await find(client, "correlation", {"data": data}))["aspects"]["x"]
    assert {"n", "spearman", "pearson", "kendall", "spearman_interval", "pearson_interval", "bias"} <= set(aspect)
    low, high = aspect["spearman_interval"]
    assert low <= aspect["spearman"] <= high
    # 30 values of 0 … 4 have the mean 2; of 0 … 6 (four times, and 0 1 twice more) 85/30.
    assert aspect["bias"] == pytest.approx(2 - 85 / 30)


async def test_hierarchy_has_the_shape_of_the_contract(client: httpx.AsyncClient, shared: Path) -> None:
    body = (shared / "data" / "topical_chat_usr.jsonl").read_bytes()
    response = await client.post("/v1/analyses/hierarchy?alpha=0.01", content=body, headers=NDJSON)
    found = response.json()
    assert (found["alpha"], found["systems"], found["items"], len(found["dependencies"])) == (0.01, 6, 360, 9)
    first = found["dependencies"][0]
    assert {"lower", "higher", "common", "higher_only", "decorrelated"} <= set(first)
    assert set(first["decorrelated"]) >= {"method", "common_change", "higher_only_change", "new"}
    (natural,) = [one for one in found["dependencies"] if (one["lower"], one["higher"]) == ("natural", "overall")]
    assert (natural["common"], natural["higher_only"]) == (9, 1)


async def test_json_ndjson_and_csv_say_the_same(client: httpx.AsyncClient) -> None:
    expected = await find(client, "hierarchy", {"data": RECORDS, "alpha": 0.2, "method": "residual"})
    assert (expected["alpha"], expected["systems"], expected["items"]) == (0.2, 2, 12)
    for content, headers in ((write(RECORDS), NDJSON), (write_csv(RECORDS), CSV)):
        path = "/v1/analyses/hierarchy?alpha=0.2&method=residual"
        response = await client.post(path, content=content, headers=headers)
        assert (response.status_code, response.json()) == (200, expected), headers


async def test_aspects_in_the_query_are_a_list(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/analyses/agreement?aspects=good,fluent", content=write(RECORDS), headers=NDJSON)
    assert list(response.json()["aspects"]) == ["good", "fluent"]
    refused = await client.post("/v1/analyses/agreement?aspects=good", content=write(RECORDS), headers=NDJSON)
    (fault, *_) = refused.json()["errors"]
    assert (fault["pointer"], fault["detail"]) == ("/0", "line 1: unknown aspect 'fluent'")
    assert fault["values"]["fault"] == {"code": "aspect-unknown", "values": {"name": "'fluent'", "near": ""}}


async def test_an_analysis_that_there_is_not(client: httpx.AsyncClient) -> None:
    response = await ask(client, "astrology", {"data": RECORDS})
    assert (response.status_code, response.json()["code"]) == (404, "not-found")
    assert all(name in response.json()["detail"] for name in REQUESTS)


@in_turn(
    ("query", "pointer"),
    [
        ("alpha=2", "/alpha"),
        ("alpha=nan", "/query/alpha"),
        ("alpha=1e400", "/alpha"),
        ("alpha=%EF%BC%91", "/query/alpha"),
        ("alpha=", "/query/alpha"),
        ("alpha=0.1&alpha=0.2", "/query/alpha"),
        ("method=magic", "/method"),
        ("colour=red", "/query/colour"),
        ("data=%5B%5D", "/query/data"),
        ("batch=ba_1", "/query/batch"),
        ("rubric=nope", None),
    ],
)
async def test_an_option_that_does_not_fit_is_pointed_at(
    client: httpx.AsyncClient, query: str, pointer: str | None
) -> None:
    response = await client.post(f"/v1/analyses/hierarchy?{query}", content=write(RECORDS), headers=NDJSON)
    assert response.status_code == 422, response.text
    if pointer is None:
        assert response.json()["code"] == "unknown-rubric"
    else:
        assert [fault["pointer"] for fault in response.json()["errors"]] == [pointer]


async def test_numbers_in_the_query_are_spelled_as_in_json(client: httpx.AsyncClient) -> None:
    data = write([{"item": str(n), "ratings": {"x": n % 7}, "scores": {"x": n % 5}} for n in range(9)])
    for query, status in (("resamples=1000&seed=7", 200), ("resamples=1_000", 422), ("seed=1.5", 422)):
        response = await client.post(f"/v1/analyses/correlation?{query}", content=data, headers=NDJSON)
        assert response.status_code == status, query


async def test_options_of_a_json_body_stand_in_it(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/analyses/hierarchy?alpha=0.1", json={"data": RECORDS})
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, "/query/alpha")


@in_turn(
    ("body", "pointers"),
    [
        ({}, [""]),
        ({"data": []}, ["/data"]),
        ({"data": {}}, ["/data"]),
        ({"data": [3]}, ["/data/0"]),
        ({"data": [{"item": "a", "ratings": {"x": 1}}, {"item": "b", "ratings": {"x": "1"}}]}, ["/data/1"]),
        ({"data": [{"item": "a", "ratings": {"x": 1}}, {"item": "a", "ratings": {"x": 1}}]}, ["/data/1"]),
        ({"data": [{"ratings": {"x": 1}}, {"item": "b", "ratings": {"x": True}}]}, ["/data/0", "/data/1"]),
        ({"data": [{"item": "a", "ratings": {"x": 10**18}}]}, ["/data/0"]),
        ({"data": [{"item": "a", "ratings": {f"a{n}": 1 for n in range(10_000)}}]}, ["/data/0"]),
        ({"data": RECORDS, "batch": "ba_1"}, ["/batch"]),
        ({"batch": "ba_1", "batches": ["ba_1"]}, ["/batches"]),
        ({"batches": []}, ["/batches"]),
        ({"batch": 3}, ["/batch"]),
        ({"data": RECORDS, "colour": 1}, ["/colour"]),
        ({"data": RECORDS, "labels": {"OO": 1}}, None),
    ],
)
async def test_a_fault_is_pointed_at(client: httpx.AsyncClient, body: Any, pointers: list[str] | None) -> None:
    response = await ask(client, "agreement", body)
    problem = response.json()
    assert (response.status_code, problem["code"]) == (422, "invalid-request"), problem
    if pointers is not None:
        assert [fault["pointer"] for fault in problem["errors"]] == pointers


HUGE = b"9" * 5000
HOSTILE = [
    (b"", JSON, 400),
    (b"", NDJSON, 422),
    (b"", CSV, 422),
    (b"[" * 100_000, JSON, 400),
    (b'{"data":' + b"[" * 100_000 + b"]" * 100_000 + b"}", JSON, 400),
    (b"[" * 100_000, NDJSON, 422),
    (b'{"data": [], "data": []}', JSON, 400),
    (b'{"item": "a", "item": "b", "ratings": {"x": 1}}', NDJSON, 422),
    (b'{"data": [{"item": "a", "ratings": {"x": NaN}}]}', JSON, 400),
    (b'{"item": "a", "ratings": {"x": Infinity}}', NDJSON, 422),
    (b'{"item": "a", "ratings": {"x": 1e400}}', NDJSON, 422),
    (b'{"data": [{"item": "a", "ratings": {"x": 1e400}}]}', JSON, 400),
    (b'{"data": [{"item": "a", "ratings": {"x": ' + HUGE + b"}}]}", JSON, 400),
    (b'{"item": "a", "ratings": {"x": ' + HUGE + b"}}", NDJSON, 422),
    (b"item,x\na," + HUGE, CSV, 422),
    (b"item,x\na,nan\n", CSV, 422),
    (b"item,x\na,1e400\n", CSV, 422),
    (b"item,x,x\na,1,2\n", CSV, 422),
    (b'item,x\n"a,1\n', CSV, 422),
    (b'{"item": "\\ud800", "ratings": {"x": 1}}', NDJSON, 422),
    (b'{"data": [{"item": "\\udfff", "ratings": {"x": 1}}]}', JSON, 400),
    (b'{"item": "\xff\xfe", "ratings": {"x": 1}}', NDJSON, 422),
    (b'{"data": "\xff"}', JSON, 400),
    (b"item,x\n\xff,1\n", CSV, 422),
    (b"\x00" * 1000, NDJSON, 422),
    (b"\x00" * 1000, CSV, 422),
    (b"\xef\xbb\xbf{}", JSON, 400),
    (b"null", JSON, 422),
    (write(RECORDS), {}, 415),
    (write(RECORDS), {"Content-Type": "application/xml"}, 415),
    (write(RECORDS), {"Content-Type": "application/x-ndjson; charset=utf-16"}, 415),
    (write(RECORDS), {**NDJSON, "Content-Encoding": "br"}, 415),
]  # fmt: skip


async def test_hostile_bodies_are_the_callers_fault(client: httpx.AsyncClient) -> None:
    for content, headers, status in HOSTILE:
        response = await client.post("/v1/analyses/agreement", content=content, headers=headers)
        assert response.status_code == status, (content[:80], headers, response.text)
        assert response.headers["content-type"] == "application/problem+json"
        assert "9" * 201 not in response.text


@in_turn("name", [*REQUESTS])
async def test_long_names_are_not_echoed_and_many_faults_are_capped(client: httpx.AsyncClient, name: str) -> None:
    text = "あ" * 3000
    data = [{"item": text, "system": text, "rater": text, "ratings": {text: "x"}, "scores": {text: None}}] * 50
    for response in (
        await ask(client, name, {"data": data}),
        await ask(client, name, {"data": data, text: 1}),
        await client.post(f"/v1/analyses/{name}?{'q' * 3000}=1", content=write(data), headers=NDJSON),
    ):
        assert response.status_code == 422, response.text
        assert "あ" * 201 not in response.text
        assert "q" * 201 not in response.text
        assert len(response.json()["errors"]) <= 20


async def test_a_body_has_its_own_limit(tmp_path: Path) -> None:
    limits = {"analysis_bytes": 20_000, "body_bytes": 2000}
    async with serving(tmp_path, judge="lexical", limits=limits) as client:
        assert (await ask(client, "agreement", {"data": RECORDS})).status_code == 200
        for content, headers in ((write(RECORDS * 20), NDJSON), (write_csv(RECORDS * 200), CSV)):
            large = await client.post("/v1/analyses/agreement", content=content, headers=headers)
            assert (large.status_code, large.json()["code"]) == (413, "body-too-large")
            assert "20000 bytes" in large.json()["detail"]
        document = await ask(client, "agreement", {"data": RECORDS * 20})
        assert (document.status_code, document.json()["code"]) == (413, "body-too-large")
        assert "2000 bytes" in document.json()["detail"]


# Batches


async def test_a_batch_is_analysed_with_its_ratings(client: httpx.AsyncClient) -> None:
    batch = await score(client)
    response = await ask(client, "agreement", {"batch": batch})
    assert (response.status_code, response.json()["code"]) == (422, "invalid-request")
    assert "POST /v1/ratings" in response.json()["detail"]
    await rate(client, batch)
    agreement = (await find(client, "agreement", {"batch": batch}))["aspects"]["overall"]
    assert (agreement["n"], agreement["raters"]) == (16, 3)
    correlation = (await find(client, "correlation", {"batch": batch, "resamples": 100}))["aspects"]
    lines = await results(client, batch)
    assert correlation["overall"]["score_mean"] == pytest.approx(
        sum(line["aspects"]["overall"]["rating"] for line in lines) / 16
    )
    # The same question with the data spelled out has the same answer.
    data = [
        {"item": line["item"], "dialogue": line["cluster"], "rater": one["rater"], "ratings": one["ratings"], "scores": {n: a["mean"] for n, a in line["aspects"].items()}}
        for line in lines
        for one in map(json.loads, (await client.get(f"/v1/ratings?item={line['item']}")).content.splitlines())
    ]  # fmt: skip
    assert (await find(client, "correlation", {"data": data, "resamples": 100}))["aspects"] == correlation


async def test_judges_have_the_shape_of_the_contract(client: httpx.AsyncClient) -> None:
    data = [
        {
            "system": "bot", "item": f"i{n}", "ratings": {"overall": n % 5, "acceptability": n % 4},
            "scores": {"gpt": {"overall": n % 5, "mate": n % 4}, "rouge": {"overall": n % 3}},
        }
        for n in range(24)
    ]  # fmt: skip
    asked = {"data": data, "match": {"mate": "acceptability"}, "resamples": 100}
    found = (await find(client, "judges", asked))["aspects"]
    assert set(found) == {"overall", "acceptability"}
    assert set(found["overall"]) >= {"n", "ceiling", "scorers", "differences"}
    assert list(found["overall"]["scorers"]) == ["gpt", "rouge"]
    assert list(found["acceptability"]["scorers"]) == ["gpt (mate)"]
    assert set(found["overall"]["scorers"]["gpt"]) >= {
        "spearman", "spearman_interval", "pearson", "pearson_interval", "kendall", "kendall_interval"
    }  # fmt: skip
    assert set(found["overall"]["differences"][0]) == {"better", "worse", "difference", "interval", "p"}
    kept = await find(client, "judges", {"data": data, "resamples": 100, "records": True})
    assert kept["records"] == data


async def test_batches_are_scorers_of_the_same_answers(client: httpx.AsyncClient) -> None:
    one, other = await score(client, "one", system="bot"), await score(client, "two", system="bot")
    changed = await score(client, "three", system="bot", end="山まで行きました。")
    await rate(client, one)
    report = await find(client, "judges", {"batches": [one, other], "resamples": 100})
    alone = await find(client, "correlation", {"batch": one, "resamples": 100})
    varied = [name for name, found in alone["aspects"].items() if found["spearman"] is not None]
    assert varied
    for name in varied:
        found = report["aspects"][name]
        assert (found["n"], set(found["scorers"])) == (16, {"one", "two"})
        assert found["scorers"]["one"] == found["scorers"]["two"]
        assert found["scorers"]["one"]["spearman"] == alone["aspects"][name]["spearman"]
        assert [difference["p"] for difference in found["differences"]] == [1.0]
    assert report["ratings_used"] == alone["ratings_used"]
    # Of other responses to the same items nobody said anything.
    asked = await find(client, "judges", {"batches": [one, changed], "resamples": 100})
    assert set(asked["aspects"][varied[0]]["scorers"]) == {"one"}


async def test_batches_meet_in_win_rates(client: httpx.AsyncClient) -> None:
    one, two = await score(client, "one"), await score(client, "two")
    found = await find(client, "win-rates", {"batches": [one, two]})
    # The same responses by the same judge: nobody wins.
    assert {share["wins"] for share in found["aspects"]["overall"]["systems"].values()} == {0}
    assert set(found["aspects"]["overall"]["systems"]) == {"one", "two"}


@in_turn("name", [*REQUESTS])
async def test_a_batch_that_there_is_not(client: httpx.AsyncClient, name: str) -> None:
    response = await ask(client, name, {"batch": "ba_none"})
    assert (response.status_code, response.json()["code"]) == (404, "not-found")


# The reliability badge


async def details(client: httpx.AsyncClient, batch: str, **headers: str) -> set[str]:
    """What the badge says wherever it stands."""
    lines = await results(client, batch, **headers)
    evaluation = await client.get(f"/v1/evaluations/{lines[0]['id']}", headers=headers)
    summary = await client.get(f"/v1/batches/{batch}/summary", headers=headers)
    table = await client.get(f"/v1/batches/{batch}/results?format=csv", headers=headers)
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert list(rows[0])[-4:] == ["reliability", "dialogue", "cluster", "batch_metadata"]
    return {
        *(line["reliability"]["detail"] for line in lines),
        *(row["reliability"] for row in rows),
        evaluation.json()["reliability"]["detail"],
        summary.json()["reliability"]["detail"],
    }


async def test_a_correlation_shows_as_the_badge_everywhere(client: httpx.AsyncClient) -> None:
    batch = await score(client)
    other_rubric = await score(client, rubric="ko-comment")
    assert await details(client, batch) == {UNVALIDATED}
    body = {name: value for name, value in make_item(response="海まで行きました。").items() if name != "id"}
    assert (await client.post("/v1/evaluations", json=body)).json()["reliability"]["validated"] is False
    await rate(client, batch)
    aspects = (await find(client, "correlation", {"batch": batch}))["aspects"]
    (detail,) = await details(client, batch)
    assert detail.startswith("Spearman with people within systems, ")
    assert "fewer than 20 responses with two raters each: " in detail
    name = next(name for name, aspect in aspects.items() if aspect["spearman"] is not None)
    assert f"{name} ρ {aspects[name]['spearman']:.2f} (16)" in detail
    badge = (await client.post("/v1/evaluations", json=body)).json()["reliability"]
    assert (badge["validated"], badge["n"], badge["detail"]) == (False, 16, detail)  # 16 items prove little
    assert badge["aspects"][name]["spearman"] == aspects[name]["within_systems"]["spearman"]
    assert badge["aspects"][name]["raters"] == 3
    assert badge["at"][:10] in detail
    # Another rubric's results stay without.
    assert await details(client, other_rubric) == {UNVALIDATED}


async def test_who_may_only_read_sets_no_badge(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        writer, reader, rival = await make_keys(tmp_path, ("team", "write"), ("team", "read"), ("rivals", "write"))
        batch = await score(client, headers=writer)
        await rate(client, batch, **writer)
        async with asyncio.timeout(LIMIT_SECONDS):
            while UNVALIDATED in await details(client, batch, **writer):
                await asyncio.sleep(0.02)  # the ratings themselves make a badge, in the background

        async def computed_at() -> str:
            found: str = (await client.get(f"/v1/batches/{batch}/summary", headers=reader)).json()["reliability"]["at"]
            return found

        before = await computed_at()
        await find(client, "correlation", {"batch": batch}, **reader)
        # What is of chosen aspects is no badge: its intervals hold for these alone.
        await find(client, "correlation", {"batch": batch, "aspects": ["coherence"]}, **writer)
        assert await computed_at() == before
        await find(client, "correlation", {"batch": batch}, **writer)
        assert await computed_at() > before
        assert (await ask(client, "correlation", {"batch": batch}, **rival)).status_code == 404
        own = await score(client, headers=rival)
        assert await details(client, own, **rival) == {UNVALIDATED}


async def test_who_may_only_read_may_ask(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        (reader,) = await make_keys(tmp_path, ("team", "read"))
        await find(client, "agreement", {"data": RECORDS}, **reader)
        response = await client.post("/v1/analyses/agreement", content=write_csv(RECORDS), headers=CSV | reader)
        assert response.status_code == 200
        assert (await ask(client, "agreement", {"data": RECORDS})).status_code == 401


# The service beside it


async def test_the_service_answers_while_an_analysis_runs(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()

    def slow(*args: Any) -> Any:
        begun.set()
        go.wait(LIMIT_SECONDS)
        return analyse(*args)

    monkeypatch.setattr("saiten_server.analyses.reports.analyse", slow)
    task = asyncio.create_task(find(client, "agreement", {"data": RECORDS}))
    try:
        await asyncio.to_thread(begun.wait, 30)
        assert (await client.get("/livez")).status_code == 200
        assert (await client.get("/readyz")).status_code == 200
        assert not task.done()
    finally:
        go.set()
    assert (await task)["items"] == 12


async def test_the_document_knows_each_analysis_once(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    operation = document["paths"]["/v1/analyses/{name}"]["post"]
    (parameter,) = operation["parameters"]
    assert (parameter["name"], parameter["in"], parameter["required"]) == ("name", "path", True)
    assert parameter["schema"]["enum"] == [*REQUESTS]
    content = operation["requestBody"]["content"]
    assert set(content) == {"application/json", "application/x-ndjson", "text/csv"}
    for media_type, about in content.items():
        example = about["example"]
        body = json.dumps(example) if media_type == "application/json" else example
        headers = {"Content-Type": media_type}
        assert (await client.post("/v1/analyses/agreement", content=body, headers=headers)).status_code == 200
    schemas = set(document["components"]["schemas"])
    assert {model.__name__ for model in REQUESTS.values()} <= schemas
    referred = {part.split('"')[0] for part in json.dumps(document).split('"#/components/schemas/')[1:]}
    assert referred <= schemas
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            named = [(one["in"], one["name"]) for one in about.get("parameters", [])]
            assert len(set(named)) == len(named), (path, method)


def judged_records() -> list[dict[str, Any]]:
    """Forty scored items, the first twenty of which people rated."""
    draw = random.Random(3)
    records: list[dict[str, Any]] = []
    for number in range(40):
        rating = draw.randint(1, 5)
        record: dict[str, Any] = {"system": "a", "item": f"i{number}", "scores": {"good": min(5, rating + number % 2)}}
        if number < 20:
            record["ratings"] = {"good": rating}
        records.append(record)
    return records


async def test_corrected_figures_in_every_form(client: httpx.AsyncClient) -> None:
    records = judged_records()
    whole = await find(client, "corrected", {"data": records, "ranges": {"good": [1, 5]}, "margin": 0.2})
    own = whole["systems"]["a"]["aspects"]["good"]
    assert (own["judged"], own["rated"], own["refused"]) == (40, 20, None)
    assert 0 < own["corrected"]["lambda"] <= 1
    assert own["corrected"]["interval"][0] < own["corrected"]["mean"] < own["corrected"]["interval"][1]
    table = "item,system,good,score:good\n" + "".join(
        f"{one['item']},a,{one.get('ratings', {}).get('good', '')},{one['scores']['good']}\n" for one in records
    )
    for body, headers in ((write(records), NDJSON), (table.encode(), CSV)):
        response = await client.post("/v1/analyses/corrected?ranges=good=1:5&margin=0.2", content=body, headers=headers)
        assert response.json() == whole


@in_turn(
    ("change", "query", "pointer"),
    [
        ({"ranges": {"good": [5, 1]}}, "", "/ranges/good"),
        ({"ranges": {"good": [1, 4]}}, "", "off its scale from 1 to 4"),
        ({"quantile": "z"}, "", "/quantile"),
        ({"ranges": {"god": [1, 5]}}, "", "no record has the score 'god'"),
        ({}, "?ranges=good", "/query/ranges"),
        ({}, "?margin=0", "/margin"),
        ({}, "?ranges=good=1:5,good=1:5", "/query/ranges"),
        ({}, "?ranges=good=nan:5", "/ranges/good"),
    ],
)
async def test_faults_of_corrected_figures(
    client: httpx.AsyncClient, change: dict[str, Any], query: str, pointer: str
) -> None:
    if query:
        content = write(judged_records())
        response = await client.post(f"/v1/analyses/corrected{query}", content=content, headers=NDJSON)
    else:
        response = await ask(client, "corrected", {"data": judged_records(), **change})
    assert response.status_code in {400, 422}
    assert pointer in response.text
