"""What requests leave in the metrics: routes, methods and statuses of Saiten's own, and nothing that a caller made up."""

import re
from pathlib import Path

import httpx
import pytest

from tests.support.records import BODY
from tests.support.serving import serving

REQUESTS = re.compile(r'^saiten_http_requests_total\{method="([^"]*)",route="([^"]*)",status="([^"]*)"\} (\S+)$', re.M)


async def count(client: httpx.AsyncClient) -> dict[tuple[str, str, str], float]:
    """Requests by (method, route, status)."""
    text = (await client.get("/metrics")).text
    return {(method, route, status): float(count) for method, route, status, count in REQUESTS.findall(text)}


async def series(client: httpx.AsyncClient) -> set[str]:
    """Every series that there is, without its value."""
    text = (await client.get("/metrics")).text
    return {line.rpartition(" ")[0] for line in text.splitlines() if line[0] != "#"}


async def test_requests_are_counted_by_the_route_that_answered(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        await client.post("/v1/evaluations", json={**BODY, "relevance": None})
        await client.get("/v1/batches/ba_none")
        await client.get("/v1/batches/ba_other")
        await client.head("/v1/rubrics")
        await client.put("/v1/rubrics")
        await client.get("/nowhere")
        found = await count(client)
    assert found == {
        ("POST", "/v1/evaluations", "200"): 1,
        ("GET", "/v1/batches/{batch_id}", "404"): 2,
        ("HEAD", "/v1/rubrics", "200"): 1,
        ("PUT", "/v1/rubrics", "405"): 1,
        ("GET", "unmatched", "404"): 1,
    }


async def test_a_stream_is_counted_once_it_has_ended(tmp_path: Path) -> None:
    route = "/v1/batches/{batch_id}/events"
    async with serving(tmp_path, judge="lexical") as client:
        items = [{"context": BODY["context"], "response": "そうですね"}]
        posted = await client.post("/v1/batches", json={"items": items, "relevance": None})
        async with client.stream("GET", f"/v1/batches/{posted.json()['id']}/events") as stream:
            assert not any(told[1] == route for told in await count(client))
            async for _ in stream.aiter_lines():
                pass
        assert (await count(client))["GET", route, "200"] == 1


async def test_hostile_paths_methods_and_names_make_no_new_series(tmp_path: Path) -> None:
    async def be_hostile(client: httpx.AsyncClient, mark: str) -> None:
        for method in (f"X{mark}".upper(), "PROPFIND", "GET"):
            for path in (f"/{mark}", f"/v1/batches/{mark}", f"/assets/{mark}/{mark}", f"/docs/assets/{mark}"):
                await client.request(method, f"{path}?text={mark}")
        for wrong in ({"rubric": f"r-{mark}"}, {"judge": {"model": mark}}, {"path": mark}, {"reference": mark}):
            await client.post("/v1/evaluations", json={**BODY, "relevance": None, **wrong})
        await client.post("/v1/gates", json={"candidate": mark})
        await client.post("/v1/judge-checks", json={"rubric": f"r-{mark}"})

    async with serving(tmp_path, judge="lexical") as client:
        await be_hostile(client, "first")
        await series(client)  # a look is a request too
        before = await series(client)
        for number in range(5):
            await be_hostile(client, f"other{number}")
        assert await series(client) == before
        assert not any("first" in name for name in before)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/v1/batches/ba_0123456789abcdef01234567", "/v1/batches/ba_0123456789abcdef01234567"),
        ("/v1/batches/sk-a-key-by-mistake", "/v1/batches/{batch_id}"),
        ("/a-text-by-mistake", "unmatched"),
    ],
)
async def test_the_log_has_the_route_with_ids_of_saitens_own_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str, told: str
) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        with caplog.at_level("INFO", logger="saiten.web"):
            await client.get(path)
    assert [vars(record)["path"] for record in caplog.records if record.getMessage() == "request"] == [told]


async def test_the_log_has_the_methods_that_http_knows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        with caplog.at_level("INFO", logger="saiten.web"):
            for method in ("GET", "saiten_a-key-by-mistake"):
                await client.request(method, "/livez")
    assert [vars(record)["method"] for record in caplog.records if record.getMessage() == "request"] == ["GET", "OTHER"]


async def test_an_address_with_a_control_character_is_nobodys(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        for path in ("/v1/policy%0A", "/v1/audit%0a", "/livez%00"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
