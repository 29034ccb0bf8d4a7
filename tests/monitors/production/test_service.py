"""Live conversations that become items of datasets, and windows that are used further, on each database."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.access import ProjectPolicy
from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.erasure.store import TextStore
from saiten_server.governance.store import PolicyStore
from saiten_server.monitors.production.service import ProductionService
from saiten_server.monitors.production.store import ProductionStore
from saiten_server.monitors.production.values import ConversationFilter, DatasetGrowth, DatasetRequest
from saiten_server.monitors.traces.commits import name_id
from saiten_server.monitors.traces.store import LiveStore
from saiten_server.monitors.values import LiveResult, Monitor
from saiten_server.runs.datasets.service import DatasetService
from saiten_server.runs.datasets.store import DatasetStore
from tests.support.batches import START
from tests.support.live import PROJECT, MonitorBench, make_live

RATINGS = {"bad": 2.0, "fair": 5.0, "good": 8.0}


class Production:
    """A monitor's bench with what its conversations are used for."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.bench = MonitorBench(engine)
        names = iter(range(10_000))
        self.datasets = DatasetService(
            store=DatasetStore(engine, clock=self.bench.clock),
            limits=DEFAULT_LIMITS,
            new_id=lambda: f"ds_{next(names)}",
        )
        self.policies = PolicyStore(engine)
        self.service = ProductionService(
            store=ProductionStore(engine),
            datasets=self.datasets,
            batches=self.bench.batches,
            live=LiveStore(engine),
            policies=self.policies,
            limits=DEFAULT_LIMITS,
        )

    async def watch(self, **options: Any) -> Monitor:
        """A monitor that saw and scored three conversations."""
        monitor = await self.bench.make(**options)
        for number, name in enumerate(RATINGS):
            live = make_live(name, at=START + timedelta(minutes=number))
            self.bench.live.close(replace(live, id=name_id(PROJECT, name)))
        await self.bench.work.do_round()
        await self.bench.score(RATINGS, faulty=0)
        await self.bench.work.do_round()
        return monitor

    async def add(self, monitor: Monitor, **asked: Any) -> DatasetGrowth:
        request = DatasetRequest.model_validate({"dataset": "hard", **asked}, context={"limits": DEFAULT_LIMITS})
        return await self.service.add_to_dataset(PROJECT, monitor, request)

    async def items(self, dataset_id: str) -> list[dict[str, Any]]:
        found = await self.datasets.find(PROJECT, dataset_id)
        content = b"".join([part async for part in self.datasets.content(found)])
        return [json.loads(line) for line in content.splitlines()]


@pytest.fixture
def production(engine: AsyncEngine) -> Production:
    return Production(engine)


@pytest.fixture
def quick(sqlite_engine: AsyncEngine) -> Production:
    return Production(sqlite_engine)


async def test_a_whole_conversation_becomes_an_item_that_says_where_it_is_from(production: Production) -> None:
    monitor = await production.watch(rate=1.0)
    grown = await production.add(monitor, conversations=["bad", "good", "bad"])
    assert (grown.version, grown.items, grown.added, grown.known, grown.unavailable) == (1, 2, 2, 0, 0)
    first, second = await production.items(grown.id)
    assert [one["id"] for one in (first, second)] == [name_id(PROJECT, "bad"), name_id(PROJECT, "good")]
    assert [turn["role"] for turn in first["turns"]] == ["user", "system"]
    day = START.replace(hour=0, minute=0, second=0, microsecond=0)
    assert {"monitor": monitor.id, "conversation": "bad", "window": day.isoformat(), "probability": "1"}.items() <= (
        first["metadata"].items()
    )


async def test_what_is_added_twice_is_there_once(production: Production) -> None:
    monitor = await production.watch()
    first = await production.add(monitor, conversations=["bad"])
    again = await production.add(monitor, conversations=["bad"])
    assert (again.id, again.version, again.added, again.known) == (first.id, 1, 0, 1)
    more = await production.add(monitor, filter={})
    assert (more.version, more.items, more.added, more.known) == (2, 3, 2, 1)
    assert len({one["id"] for one in await production.items(more.id)}) == 3
    # The version before stays as it was.
    assert len(await production.items(first.id)) == 1


async def test_a_filter_takes_the_newest_of_the_sample_that_fit(quick: Production) -> None:
    monitor = await quick.watch()
    low = await quick.add(monitor, dataset="low", filter={"at_most": {"overall": 5}})
    assert [one["metadata"]["conversation"] for one in await quick.items(low.id)] == ["fair", "bad"]
    one = await quick.add(monitor, dataset="one", filter={"at_most": {"overall": 5}}, limit=1)
    assert [each["metadata"]["conversation"] for each in await quick.items(one.id)] == ["fair"]
    for nothing in ({"at_most": {"overall": 1}}, {"finding": "any"}, {"run": "ba_none"}, {"at_most": {"none": 9}}):
        with pytest.raises(InvalidRequest) as refused:
            await quick.add(monitor, filter=nothing)
        assert refused.value.message.id == "no-conversation-fits"


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ({"finding": "repetition"}, True),
        ({"finding": "any"}, True),
        ({"finding": "register-mix"}, False),
        ({"at_most": {"overall": 4.0}}, True),
        ({"at_most": {"overall": 3.9}}, False),
        ({"at_most": {"coherence": 4.0}}, False),
        ({"run": "ba_1", "finding": "repetition"}, True),
        ({"run": "ba_2"}, False),
    ],
)
def test_all_that_a_filter_gives_holds(wanted: dict[str, Any], fits: bool) -> None:
    found = LiveResult(
        conversation="a",
        closed_at=START,
        system=None,
        build=None,
        outcome="sampled",
        probability=1.0,
        run="ba_1",
        position=0,
        status="scored",
        turns=2,
        answers=1,
        errors=0,
        latency_seconds=None,
        findings={"repetition": 1},
        aspects={"overall": 4.0},
        faulty_turns=None,
    )
    assert ConversationFilter.model_validate(wanted).takes(found) == fits


async def test_what_cannot_be_added_is_refused_and_leaves_nothing(quick: Production) -> None:
    monitor = await quick.watch()
    with pytest.raises(InvalidRequest) as refused:
        await quick.add(monitor, conversations=["bad", "none"])
    assert (refused.value.message.id, refused.value.pointer) == ("conversation-not-seen", "/conversations/1")
    await quick.policies.save_policy(PROJECT, ProjectPolicy(texts="drop", after_days=1), START)
    with pytest.raises(InvalidRequest) as refused:
        await quick.add(monitor, conversations=["bad"])
    assert refused.value.message.id == "dataset-texts-go"
    assert list(await quick.datasets.list(PROJECT, limit=10)) == []


async def test_what_is_erased_cannot_come_back(production: Production, engine: AsyncEngine) -> None:
    monitor = await production.watch()
    grown = await production.add(monitor, filter={})
    await TextStore(engine).erase_marked(PROJECT, {"conversation": "bad"})
    assert {one["metadata"]["conversation"] for one in await production.items(grown.id)} == {"fair", "good"}
    with pytest.raises(InvalidRequest) as refused:
        await production.add(monitor, conversations=["bad"])
    assert refused.value.message.id == "conversation-not-seen"


async def test_a_version_that_comes_in_between_is_added_to(
    production: Production, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = await production.watch()
    read, rivals = production.service._read_all, [["good"]]

    async def read_slowly(*asked: Any) -> Any:
        if rivals:
            await production.add(monitor, conversations=rivals.pop())
        return await read(*asked)

    monkeypatch.setattr(production.service, "_read_all", read_slowly)
    grown = await production.add(monitor, conversations=["bad"])
    assert (grown.version, grown.items) == (2, 2)


async def test_an_erasure_in_between_lets_the_dataset_be_put_together_again(
    production: Production, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = await production.watch()
    read, erasures = production.service._read_all, [{"conversation": "good"}]

    async def read_slowly(*asked: Any) -> Any:
        found = await read(*asked)
        if erasures:
            await TextStore(engine).erase_marked(PROJECT, erasures.pop())
        return found

    monkeypatch.setattr(production.service, "_read_all", read_slowly)
    grown = await production.add(monitor, filter={})
    assert {one["metadata"]["conversation"] for one in await production.items(grown.id)} == {"bad", "fair"}


async def test_a_dataset_of_responses_takes_no_conversation(quick: Production) -> None:
    monitor = await quick.watch()
    store, content = quick.datasets.store, b'{"context":[{"speaker":"A","text":"a"}],"response":"1"}\n'
    await store.begin(PROJECT, "ds_own", "hard", state="receiving")
    await store.append("ds_own", 0, content)
    await store.accept_next(PROJECT, "ds_own", "0" * 64, after=None, items=1, unit="item", korean=False)
    with pytest.raises(InvalidRequest) as refused:
        await quick.add(monitor, conversations=["bad"])
    assert refused.value.message.id == "dataset-of-responses"


async def test_the_last_complete_window_is_found(production: Production) -> None:
    monitor = await production.watch()
    with pytest.raises(NotFound) as missing:
        await production.service.find_window(PROJECT, monitor.id, None)
    assert missing.value.message.id == "no-complete-window"
    (open_window,) = await production.bench.service.windows(PROJECT, monitor.id, before=None, limit=9)
    run = open_window[1].run
    with pytest.raises(InvalidRequest) as refused:
        await production.service.find_window(PROJECT, monitor.id, run)
    assert refused.value.message.id == "window-not-complete"
    assert (await production.service.find_window(PROJECT, monitor.id, run, complete=False)).run == run
    production.bench.clock.move(2 * 86_400)
    await production.bench.work.do_round()
    assert (await production.service.find_window(PROJECT, monitor.id, None)).run == run
    with pytest.raises(NotFound) as missing:
        await production.service.find_window("rivals", monitor.id, run)
    assert missing.value.message.id == "window-not-found"
