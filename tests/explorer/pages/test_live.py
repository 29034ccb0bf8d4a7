"""Progress of several runs at once, as HTML in the visitor's language."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from html import unescape
from itertools import islice
from pathlib import Path

import httpx
import pytest

from saiten_server.core.batch import Batch
from saiten_server.core.errors import StoreUnavailable
from saiten_server.explorer.pages.live import News, count_again, look_again, stream_events
from saiten_server.runs.watching import RunWatch
from tests.support.events import read_events
from tests.support.faults import words
from tests.support.keyed import make_keys
from tests.support.posted import make_body, post_batch, wait_for
from tests.support.serving import serving


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls often, so that tests need not wait."""
    monkeypatch.setattr("saiten_server.runs.watching.SHORTEST_POLL_SECONDS", 0.01)
    monkeypatch.setattr("saiten_server.runs.watching.LONGEST_POLL_SECONDS", 0.01)


async def test_runs_are_followed_to_the_end_of_all(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        ids = [(await post_batch(client, 20, name=name))["id"] for name in ("nightly", "weekly")]
        async with client.stream("GET", "/live", params={"run": ids}) as response:
            events = [event async for event in read_events(response)]
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        again = await client.get("/live", params={"run": ids}, headers={"Last-Event-ID": "over"})
    assert events[-1] == ("over", {})
    ended = {data["id"]: data for name, data in events if name == "ended"}
    assert set(ended) == set(ids)
    assert ended[ids[0]]["said"] == "The run nightly is complete."
    assert "completed" in ended[ids[0]]["html"]
    assert again.status_code == 204


async def test_steps_are_told_in_the_visitors_language(tmp_path: Path, redis_url: str) -> None:
    async with serving(tmp_path, judge="lexical", redis_url=redis_url) as client:
        batch = await post_batch(client, name='"><img onerror=1>')
        path = f"/v1/batches/{batch['id']}"
        headers = {"Accept-Language": "ja"}
        async with client.stream("GET", "/live", params={"run": batch["id"]}, headers=headers) as response:
            events = read_events(response)
            told = [await anext(events)]
            for step in ("pause", "cancel"):
                await client.post(f"{path}/{step}")
                told.append(await anext(events))
            told += [event async for event in events]
    assert [name for name, _ in told] == ["progress", "progress", "ended", "over"]
    assert "一時停止" in told[1][1]["html"]
    assert "中止されました" in told[2][1]["said"]
    assert all("<img" not in data.get("html", "") for _, data in told)


async def test_an_erased_run_is_gone(tmp_path: Path, redis_url: str) -> None:
    async with serving(tmp_path, judge="lexical", redis_url=redis_url) as client:
        batch = await post_batch(client)
        async with client.stream("GET", "/live", params={"run": [batch["id"], "ba_nothing"]}) as response:
            events = read_events(response)
            await anext(events)
            await client.delete(f"/v1/batches/{batch['id']}")
            assert [event async for event in events] == [("gone", {"id": batch["id"]}), ("over", {})]


@pytest.mark.parametrize("query", ["", "?run=", "?run=ba_nothing", "?run=%00"])
async def test_nothing_to_follow_is_a_404(tmp_path: Path, query: str) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        assert (await client.get(f"/live{query}")).status_code == 404


async def test_other_projects_runs_are_not_told(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        ours, theirs = await make_keys(tmp_path, ("ours", "write"), ("theirs", "read"))
        made = (await client.post("/v1/batches", json=make_body(name="secret"), headers=ours)).json()
        assert (await client.get("/live", params={"run": made["id"]}, headers=theirs)).status_code == 404
        assert (await client.get("/live", params={"run": made["id"]})).headers["location"].startswith("/login")


async def test_the_stream_ends_with_the_service_and_beats_while_it_is_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        batch = Batch(**await wait_for(client, (await post_batch(client))["id"]))
    batch = batch.model_copy(update={"status": "running"})
    monkeypatch.setattr("saiten_server.runs.watching.SILENT_SECONDS", 0.0)
    over = False

    async def find(_: Iterable[str]) -> dict[str, Batch | None]:
        return {batch.id: batch}

    async def goes_on(_: float) -> bool:
        return not over

    stream = stream_events({batch.id: batch}, find, lambda _: "<b>", lambda _: "", goes_on)
    assert b"event: progress" in await anext(stream)
    assert (await anext(stream)).startswith(b":")
    over = True
    assert [event async for event in stream] == []


async def read_news(response: httpx.Response) -> AsyncIterator[str]:
    async for name, data in read_events(response):
        if name == "news":
            yield data["text"]


async def test_pages_are_told_what_is_new(tmp_path: Path, redis_url: str) -> None:
    async with serving(tmp_path, judge="lexical", redis_url=redis_url) as client:
        empty = re.search(r'data-watch="([^"]+)"', (await client.get("/")).text)
        assert empty is not None
        assert (await client.get("/live?since=nonsense")).status_code == 422
        assert (await client.get("/live?results=ba_nothing")).status_code == 404
        await post_batch(client, name="first")
        watch = re.search(r'data-watch="([^"]+)"', (await client.get("/?text=nightly")).text)
        assert watch is not None
        # The address of the list that was empty, and of one with a filter, with the words of the language.
        async with (
            client.stream("GET", f"/live?{unescape(empty[1])}") as all_runs,
            client.stream("GET", f"/live?{unescape(watch[1])}", headers={"Accept-Language": "ja"}) as some,
        ):
            told, filtered = read_news(all_runs), read_news(some)
            assert await anext(told) == "1 new run"
            await post_batch(client, name="other")
            assert await anext(told) == "2 new runs"
            batch = await post_batch(client, name="nightly")
            assert await anext(filtered) == "新しい実行 1 件"
            await client.delete(f"/v1/batches/{batch['id']}")
            assert await anext(filtered) == ""
        page = (await client.get(f"/explore?run={batch['id']}")).text
        assert "data-watch" not in page


async def test_results_are_counted_and_streams_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        run = (await post_batch(client, 5))["id"]
        await wait_for(client, run)
        async with client.stream("GET", f"/live?results={run}&seen=2") as response:
            assert await anext(read_news(response)) == "3 new results"
        monkeypatch.setattr("saiten_server.explorer.pages.live.MOST_STREAMS", 0)
        assert (await client.get(f"/live?results={run}&seen=2")).status_code == 204


async def test_a_project_has_its_own_places(tmp_path: Path, redis_url: str) -> None:
    async with serving(tmp_path, judge="lexical", redis_url=redis_url, project_streams=2) as client:
        one, other = await make_keys(tmp_path, ("one", "write"), ("other", "write"))
        ids = [(await client.post("/v1/batches", json=make_body(1), headers=key)).json()["id"] for key in (one, other)]
        follow, page = f"/v1/batches/{ids[0]}/events", f"/live?run={ids[0]}"
        texts: list[AsyncIterator[str]] = []  # one that is forgotten would close its stream
        async with AsyncExitStack() as stack:
            for address in (follow, page):
                found = await stack.enter_async_context(client.stream("GET", address, headers=one))
                assert found.status_code == 200
                texts.append(found.aiter_text())
                await anext(texts[-1])
            refused = await client.get(follow, headers=one)
            assert (refused.status_code, refused.json()["code"]) == (429, "stream-limit-reached")
            assert "SAITEN_PROJECT_STREAMS" in refused.json()["detail"]
            async with client.stream("GET", f"/v1/batches/{ids[1]}/events", headers=other) as theirs:
                assert theirs.status_code == 200


async def test_streams_that_are_asked_for_together_take_no_more_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, judge="lexical", project_streams=2) as client:
        run = (await post_batch(client, 1))["id"]
        await wait_for(client, run)
        both, ask = asyncio.Event(), RunWatch.look_at

        async def look_later(watch: RunWatch, project: str, run_ids: Iterable[str]) -> dict[str, Batch | None]:
            await both.wait()
            return await ask(watch, project, run_ids)

        monkeypatch.setattr(RunWatch, "look_at", look_later)
        asked = [asyncio.create_task(client.get("/live", params={"run": run})) for _ in range(5)]
        refused = [await one for one in islice(asyncio.as_completed(asked), 3)]
        assert {one.status_code for one in refused} == {429}
        both.set()
        answers = await asyncio.gather(*asked)
        assert sorted(one.status_code for one in answers) == [200, 200, 429, 429, 429]
        # A place is given back where there is nothing to follow, and where a stream is over.
        lost = [await client.get("/live?run=ba_none") for _ in range(3)]
        assert {one.status_code for one in lost} == {404}
        assert (await client.get("/live", params={"run": run})).status_code == 200


def make_queued(run_id: str) -> Batch:
    counts = {"total": 2, "queued": 2, "scored": 0, "partial": 0, "failed": 0}
    none = dict.fromkeys(("name", "relevance", "budget_usd", "rate_per_second", "estimated_end", "signature"))
    about = {
        "id": run_id,
        "status": "queued",
        "rubric": "r",
        "path": "source",
        "progress": 0.0,
        "judge": {},
        "usage": {},
    }
    return Batch.model_validate({**none, **about, "counts": counts, "metadata": {}, "created_at": datetime.now(UTC)})


async def test_one_query_serves_all_that_follow_the_same_runs() -> None:
    asked: list[list[str]] = []

    async def find(_: str, ids: Sequence[str]) -> list[Batch]:
        asked.append(sorted(ids))
        await asyncio.sleep(0)
        return [make_queued("ba_1")]

    watch = RunWatch(find)
    found = await asyncio.gather(*(watch.look("team", run) for _ in range(300) for run in ("ba_1", "ba_none")))
    batch = found[0]
    assert batch is not None
    assert all(one is batch for one in found[::2])
    assert set(found[1::2]) == {None}
    assert asked == [["ba_1", "ba_none"]]
    assert await watch.look("team", "ba_1") is batch
    assert len(asked) == 1
    written: list[str] = []

    def write(_: Batch) -> str:
        written.append("html")
        return "html"

    for language in ("ja", "ko", "ja"):
        assert watch.show(batch, "team", language, write) == "html"
    assert len(written) == 2


async def test_a_stream_asks_for_all_its_runs_at_once_and_not_again_while_asked() -> None:
    asked: list[list[str]] = []
    queued, answer = {one: make_queued(one) for one in map(str, range(50))}, asyncio.Event()

    async def find(_: str, found: Sequence[str]) -> list[Batch]:
        asked.append([*found])
        await answer.wait()
        return [queued[one] for one in found if one in queued]

    watch = RunWatch(find)

    async def follow() -> None:
        rounds = iter([True, False])

        async def goes_on(_: float) -> bool:
            return next(rounds)

        events = stream_events(queued, partial(watch.look_at, "team"), lambda _: "", lambda _: "", goes_on)
        assert len([event async for event in events]) == len(queued)

    streams = [asyncio.create_task(follow())]
    while not asked:
        await asyncio.sleep(0)
    streams += [asyncio.create_task(follow()) for _ in range(9)]
    other = asyncio.create_task(watch.look_at("team", ["0", "more"]))
    while len(asked) == 1:
        await asyncio.sleep(0)
    answer.set()
    await asyncio.gather(*streams)
    assert await other == {"0": queued["0"], "more": None}
    assert asked == [[*queued], ["more"]]


async def test_after_an_outage_the_store_is_asked_again() -> None:
    answers: list[StoreUnavailable | list[Batch]] = [StoreUnavailable(words("gone")), [make_queued("ba_1")]]

    async def find(*_: object) -> list[Batch]:
        answer = answers.pop(0)
        if isinstance(answer, StoreUnavailable):
            raise answer
        return answer

    watch, before = RunWatch(find), make_queued("ba_1")
    look = partial(watch.look_at, "team")
    assert (await look_again(look, {"ba_1": before}))["ba_1"] is before
    assert (await look_again(look, {"ba_1": before}))["ba_1"] is not before


async def test_an_outage_of_the_store_changes_no_count() -> None:
    async def fail() -> int:
        raise StoreUnavailable(words("gone"))

    assert await count_again(News(fail, str), 3) == 3
