"""What waits is bounded, what is stored is said, and a real exporter is understood."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.access import ProjectPolicy
from saiten_server.core.errors import Overloaded, ProjectFull
from saiten_server.governance.store import PolicyStore
from saiten_server.monitors.traces.commits import name_id
from saiten_server.monitors.traces.limits import DEFAULT_LIMITS
from saiten_server.monitors.traces.service import TraceIntake, TraceUpkeep
from saiten_server.monitors.traces.store import LiveStore
from saiten_server.monitors.traces.tables import SPAN_BYTES
from saiten_server.monitors.traces.values import TraceRules
from saiten_server.monitors.traces.wire import decode_signal
from saiten_server.platform.sql.engine import open_engine
from saiten_server.runs.quota import StorageQuota, count_stored
from tests.support.serving import serving
from tests.support.spans import NOON, chat, export, make_span, talk, trace_id


def open_intake(engine: AsyncEngine, *, most: int | None = None, waiting: int = 10**9) -> TraceIntake:
    return TraceIntake(
        LiveStore(engine),
        StorageQuota(engine, most),
        lambda: NOON,
        redact=lambda text, kinds: text.replace("090-1234-5678", f"[{','.join(kinds)}]"),
        most_waiting_bytes=waiting,
    )


async def send(intake: TraceIntake, conversation: str, *, first: int = 0, turns: int = 2) -> int:
    body = export(talk(turns, conversation, first=first)).SerializeToString()
    outcome = await intake.take("team", body, "traces", is_json=False, is_packed=False)
    return outcome.stored


async def test_more_than_may_wait_is_asked_to_come_again(sqlite_engine: AsyncEngine) -> None:
    intake = open_intake(sqlite_engine, waiting=20_000)
    found = await asyncio.gather(
        *(send(intake, f"c{n}", first=100 * n, turns=8) for n in range(6)), return_exceptions=True
    )
    refused = [one for one in found if isinstance(one, Overloaded)]
    assert refused
    assert all(one.retry_after_seconds > 0 for one in refused)
    stored = [one for one in found if one == 8]
    assert len(stored) + len(refused) == 6
    assert await send(intake, "later", first=900) == 2


async def test_a_full_project_is_told(sqlite_engine: AsyncEngine) -> None:
    intake = open_intake(sqlite_engine, most=1_000)
    assert await send(intake, "a", turns=1) == 1
    with pytest.raises(ProjectFull):
        await send(intake, "b", first=9)
    assert await intake.store.find("team", name_id("team", "b")) is None


async def test_what_spans_only_name_takes_room_until_it_is_forgotten(engine: AsyncEngine) -> None:
    intake = open_intake(engine, most=20_000)
    spans = [make_span({"session.id": f"{number:0200}", "http.route": "/"}, number=number) for number in range(20)]
    body = export(spans).SerializeToString()
    for _ in range(2):
        await intake.take("team", body, "traces", is_json=False, is_packed=False)
    assert await count_stored(engine, "team") == 20 * (200 + SPAN_BYTES)
    more = export([replace(one, trace=trace_id(900 + number)) for number, one in enumerate(spans)]).SerializeToString()
    with pytest.raises(ProjectFull):
        await intake.take("team", more, "traces", is_json=False, is_packed=False)
    await send(intake, f"{0:0200}", turns=1)
    await intake.store.erase("team", name_id("team", f"{0:0200}"))
    assert await count_stored(engine, "team") == 19 * (200 + SPAN_BYTES)
    await intake.store.forget_traces(NOON + timedelta(days=1))
    assert await count_stored(engine, "team") == 0


async def test_rules_hide_texts_before_they_are_stored(sqlite_engine: AsyncEngine) -> None:
    intake = open_intake(sqlite_engine)
    await intake.set_rules("team", TraceRules(redact=("phone",), attributes=("channel", "down")))
    span = chat(["090-1234-5678です"], "はい", conversation="a", channel="電話", down=True, secret="x")
    await intake.take("team", export([span]).SerializeToString(), "traces", is_json=False, is_packed=False)
    found = await intake.store.find("team", name_id("team", "a"))
    assert found is not None
    assert [turn.text for turn in found.turns] == ["[phone]です", "はい"]
    assert found.attributes == {"channel": "電話", "down": "true"}


async def test_upkeep_closes_and_removes(sqlite_engine: AsyncEngine) -> None:
    intake, policies, now = open_intake(sqlite_engine), PolicyStore(sqlite_engine), [NOON]
    await send(intake, "a")
    told: list[Mapping[str, int]] = []
    upkeep = TraceUpkeep(store=intake.store, policies=policies, days=30, now=lambda: now[0], tell=told.append)
    assert await upkeep.sweep() == 0
    now[0] = NOON + timedelta(minutes=6)
    assert await upkeep.sweep() == 1
    assert await upkeep.sweep() == 0
    assert told == [{"open": 1}, {"closed": 1}]
    await policies.save_policy("team", ProjectPolicy(texts="drop", after_days=2), NOON)
    now[0] = NOON + timedelta(days=1)
    await upkeep.sweep()
    assert len(await intake.store.list("team")) == 1
    now[0] = NOON + timedelta(days=2.1)
    await upkeep.sweep()
    assert await intake.store.list("team") == []


def test_damaged_bodies_are_refused_or_read_never_more() -> None:
    draw = random.Random(0)
    body = export(talk(3, "a")).SerializeToString()
    for _ in range(3_000):
        damaged = bytearray(body)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        try:
            found = decode_signal(bytes(damaged), "traces", DEFAULT_LIMITS, is_json=False)
        except Exception as error:
            assert type(error).__name__ in {"BodyDamaged", "BodyTooLarge"}
        else:
            assert len(found.spans) + sum(found.rejected.values()) <= 6


async def test_the_exporter_of_the_sdk_is_understood(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra tracing")
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    def speak(url: str) -> bool:
        tracers = TracerProvider(resource=Resource({"service.name": "yoyaku-bot", "service.version": "2.0"}))
        exporter = OTLPSpanExporter(f"{url}/v1/traces", compression=Compression.Gzip)
        tracers.add_span_processor(BatchSpanProcessor(exporter))
        for one in talk(3, "sdk"):
            with tracers.get_tracer("bot").start_as_current_span("chat") as span:
                span.set_attributes(dict(one.attributes))
        flushed = tracers.force_flush()
        tracers.shutdown()
        return flushed

    async with serving(tmp_path, judge="lexical") as client:
        assert await asyncio.to_thread(speak, str(client.base_url).rstrip("/"))
        found = (await client.get(f"/v1/traces/conversations/{name_id('default', 'sdk')}")).json()
    assert len(found["turns"]) == 6
    assert (found["system"], found["build"]) == ("yoyaku-bot", "2.0")


async def test_postgresql_plans_for_what_a_body_brings(postgres_url: str) -> None:
    engine = open_engine(postgres_url)
    intake = open_intake(engine)
    for number in range(8):
        await send(intake, f"c{number}", first=10 * number)
    query = "SELECT sum(custom_plans), sum(generic_plans) FROM pg_prepared_statements WHERE statement LIKE 'SELECT live_traces%'"
    async with engine.connect() as connection:
        custom, generic = (await connection.execute(text(query))).one()
    await engine.dispose()
    assert custom > 5
    assert generic == 0
