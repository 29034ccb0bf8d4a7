"""Server-sent events of a batch: at once, on every change, and one last that says how it ended."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from saiten.core.messages import Message
from saiten_server.core.batch import Batch
from saiten_server.core.errors import StoreUnavailable
from saiten_server.governance.keys import APIKeyStore
from saiten_server.platform.sql.engine import open_engine
from saiten_server.runs.watching import rest, stream_events
from tests.support.events import Event, read_event, read_events
from tests.support.faults import words
from tests.support.keyed import make_keys
from tests.support.posted import make_body, post_batch, wait_for
from tests.support.serving import serving
from tests.support.waiting import LIMIT_SECONDS


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls often, so that tests need not wait."""
    monkeypatch.setattr("saiten_server.runs.watching.SHORTEST_POLL_SECONDS", 0.01)
    monkeypatch.setattr("saiten_server.runs.watching.LONGEST_POLL_SECONDS", 0.01)


async def test_a_batch_is_followed_to_its_end(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        path = f"/v1/batches/{(await post_batch(client, 30))['id']}"
        async with client.stream("GET", f"{path}/events") as response:
            events = [event async for event in read_events(response)]
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert (response.headers["cache-control"], response.headers["content-language"]) == ("no-store", "en")
        assert {name for name, _ in events[:-1]} == {"progress"}
        assert events[-1] == ("completed", (await client.get(path)).json())
        late = await client.get(f"{path}/events")
        assert [read_event(block)[0] for block in late.text.split("\n\n")[:-1]] == ["progress", "completed"]
        assert (await client.get(f"{path}/events", headers={"Last-Event-ID": "completed"})).status_code == 204


@pytest.mark.parametrize("had_key", [True, False])
async def test_a_stream_ends_once_its_reader_would_not_be_let_in(tmp_path: Path, redis_url: str, had_key: bool) -> None:
    async with serving(tmp_path, judge="lexical", redis_url=redis_url) as client:
        headers = (await make_keys(tmp_path, ("default", "write")))[0] if had_key else {}
        batch = await client.post("/v1/batches", json=make_body(), headers=headers)
        path = f"/v1/batches/{batch.json()['id']}"
        async with asyncio.timeout(LIMIT_SECONDS), client.stream("GET", f"{path}/events", headers=headers) as response:
            events = read_events(response)
            assert (await anext(events))[0] == "progress"
            engine = open_engine(f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}")
            keyring = APIKeyStore(engine)
            if had_key:
                for key in await keyring.list():
                    await keyring.revoke(key.id)
            await keyring.create("the next", "default", "admin")
            await engine.dispose()
            assert [event async for event in events] == []
        assert (await client.get(f"{path}/events", headers=headers)).status_code == 401


async def test_pause_resume_and_cancel_are_told(tmp_path: Path, redis_url: str) -> None:
    async with serving(tmp_path, judge="lexical", redis_url=redis_url) as client:
        path = f"/v1/batches/{(await post_batch(client))['id']}"
        async with client.stream("GET", f"{path}/events") as response:
            events = read_events(response)
            told = [await anext(events)]
            for step in ("pause", "resume", "cancel"):
                await client.post(f"{path}/{step}")
                told.append(await anext(events))
            told += [event async for event in events]
    assert [(name, batch["status"]) for name, batch in told] == [
        ("progress", "queued"),
        ("progress", "paused"),
        ("progress", "queued"),
        ("progress", "cancelled"),
        ("cancelled", "cancelled"),
    ]


async def test_an_erasure_ends_the_stream(tmp_path: Path, redis_url: str) -> None:
    async with serving(tmp_path, judge="lexical", redis_url=redis_url) as client:
        batch = await post_batch(client)
        path = f"/v1/batches/{batch['id']}"
        async with client.stream("GET", f"{path}/events") as response:
            events = read_events(response)
            await anext(events)
            await client.delete(path)
            assert [event async for event in events] == [("erased", {"id": batch["id"]})]


async def test_a_caller_who_leaves_is_not_told_any_more(
    tmp_path: Path, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="saiten.web"):
        async with serving(tmp_path, judge="lexical", redis_url=redis_url) as client:
            path = f"/v1/batches/{(await post_batch(client))['id']}/events"
            async with client.stream("GET", path) as response:
                await anext(read_events(response))
            # The request's own log record is written when it is over.
            async with asyncio.timeout(LIMIT_SECONDS):
                while not any(getattr(record, "path", "") == path for record in caplog.records):
                    await asyncio.sleep(0.01)
    assert "unexpected error" not in caplog.text


@pytest.fixture
async def batch(tmp_path: Path, redis_url: str) -> Batch:
    """A batch that is queued."""
    async with serving(tmp_path, judge="lexical", redis_url=redis_url) as client:
        response = await client.post("/v1/batches", json=make_body())
    return Batch.model_validate_json(response.content)


class Sightings:
    """What one look after the other finds; an error is raised, and the last stands for ever."""

    def __init__(self, *found: Batch | Exception | None) -> None:
        self._found: Sequence[Batch | Exception | None] = found
        self.looks = 0

    async def find(self) -> Batch | None:
        found = self._found[min(self.looks, len(self._found) - 1)]
        self.looks += 1
        if isinstance(found, Exception):
            raise found
        return found


async def admit() -> bool:
    return True


async def collect(batch: Batch, sightings: Sightings) -> list[Event]:
    pieces = [piece async for piece in stream_events(batch, sightings.find, partial(rest, admit, asyncio.Event()))]
    return [read_event(piece.decode().strip()) for piece in pieces]


async def test_what_changes_as_time_passes_is_no_news(batch: Batch) -> None:
    later = batch.model_copy(update={"rate_per_second": 3.5})
    done = batch.model_copy(update={"status": "completed", "progress": 1.0})
    events = await collect(batch, Sightings(batch, later, batch, done))
    assert [name for name, _ in events] == ["progress", "progress", "completed"]


async def test_a_store_that_is_away_for_a_while_ends_nothing(batch: Batch, caplog: pytest.LogCaptureFixture) -> None:
    done = batch.model_copy(update={"status": "cancelled"})
    away = StoreUnavailable(words("the database is away"))
    events = await collect(batch, Sightings(away, away, done))
    assert [name for name, _ in events] == ["progress", "progress", "cancelled"]
    assert "store-unavailable" in caplog.text


@pytest.mark.parametrize("language", ["en", "ja", "ko"])
async def test_why_a_batch_pauses_is_said_in_the_readers_language(batch: Batch, language: str) -> None:
    detail = Message("pause-judge-refuses", fault=words("?"))
    paused = batch.model_copy(update={"status": "paused", "pause_detail": detail})
    pieces = stream_events(batch, Sightings(paused, None).find, partial(rest, admit, asyncio.Event()), language)
    told = [read_event(piece.decode().strip()) async for piece in pieces][1][1]
    assert told["pause_detail"] == detail.say(language)
    assert told["messages"]["pause_detail"] == {"code": detail.id, "values": detail.as_json()}


async def test_silence_is_broken_by_comments(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saiten_server.runs.watching.SILENT_SECONDS", 0.0)
    events = await collect(batch, Sightings(batch, batch, None))
    assert [name for name, _ in events] == ["progress", ":", ":", "erased"]


async def test_a_stop_of_the_service_ends_the_stream_without_a_last_event(batch: Batch) -> None:
    stopping, sightings = asyncio.Event(), Sightings(batch)
    events = stream_events(batch, sightings.find, partial(rest, admit, stopping))
    assert read_event((await anext(events)).decode().strip())[0] == "progress"
    stopping.set()
    assert [piece async for piece in events] == []
    assert sightings.looks == 0


async def test_the_end_is_told_to_who_comes_after_it(tmp_path: Path) -> None:
    async with serving(tmp_path, judge="lexical") as client:
        batch = await post_batch(client)
        await wait_for(client, batch["id"])
        response = await client.get(f"/v1/batches/{batch['id']}/events")
    assert response.text.rstrip().endswith("id: completed")


async def test_the_protocol_cuts_no_stream(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saiten_server.cli.server.HEADER_SECONDS", 1.0)
    monkeypatch.setattr("saiten_server.cli.server.CLOSING_SECONDS", 1.0)
    async with serving(tmp_path, judge="lexical", redis_url=redis_url) as client:
        path = f"/v1/batches/{(await post_batch(client))['id']}"
        async with client.stream("GET", f"{path}/events") as response:
            events = read_events(response)
            await anext(events)
            # Twice as long as anything that is cut may last.
            await asyncio.sleep(2)
            await client.post(f"{path}/cancel")
            assert [name for name, _ in [event async for event in events]] == ["progress", "cancelled"]
