"""Preference runs, on each database: batches of pairs beside those of ratings, and what was seen of each pair."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.batch import (
    BatchFilter,
    PairPlan,
    PairRound,
    PairRunOptions,
    any_request_of,
)
from saiten_server.core.errors import NotFound
from saiten_server.core.evaluation import (
    AspectPreference,
    OrderVerdict,
    Pair,
    PairSide,
    PreferenceRequest,
    Record,
    Unrated,
)
from saiten_server.core.redaction import is_covered
from saiten_server.erasure.store import TextStore
from saiten_server.preferences.runs.planning import plan_pairs
from saiten_server.preferences.runs.service import PairBatchSource
from saiten_server.preferences.runs.store import SourceStore
from saiten_server.preferences.store import PreferenceStore
from saiten_server.preferences.values import ShownPair
from saiten_server.runs.intake import store_batch
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.work import FINISH, ChunkJob, FinishedCandidate, Work
from saiten_server.scoring.store import EvaluationStore
from tests.support.batches import LEASE, START
from tests.support.records import make_record
from tests.support.scored_batches import score_batch
from tests.support.stored_sizes import list_drift

RUNS = ("ba_1", "ba_2")
PLAN = PairPlan(runs=RUNS, systems=("波", "凪"), pairs="active", rounds=(PairRound(pairs=((0, 1, 4),)),))
SEEN = AspectPreference(
    preference="tie",
    position_dependent=True,
    orders=(
        OrderVerdict(shown=("second", "first"), verdict="second"),
        OrderVerdict(shown=("first", "second"), verdict="first"),
    ),
)


def judge(work: Work) -> list[FinishedCandidate]:
    """A result of each pair: whatever was shown first."""
    found = []
    for entry, candidate in work.todo:
        pair = Pair(
            first=PairSide(length=2),
            second=PairSide(length=7),
            aspects={"overall": SEEN},
            runs=candidate.pair.runs if candidate.pair else None,
        )
        made = make_record(f"pr_{entry.position}", pair=pair)
        request = any_request_of(work.options, candidate)
        record = Record.model_construct(evaluation=made.evaluation, request=request, trace=())
        found.append(FinishedCandidate(work.job, entry, record))
    return found


@pytest.fixture
async def ratings(engine: AsyncEngine) -> BatchStore:
    """Two runs with five items each, of which the last of the second failed."""
    store = BatchStore(engine)
    for batch_id, fail in zip(RUNS, ((), (4,)), strict=True):
        clusters = [f"{batch_id}-talk", f"{batch_id}-talk", None, None, None]
        await score_batch(store, batch_id, {"warmth": [1] * 5}, fail=fail, clusters=clusters, ids_given=True)
    return store


@pytest.fixture
async def source(engine: AsyncEngine, ratings: BatchStore) -> PairBatchSource:
    """Their pairs, as a batch that is stored."""
    runs = SourceStore(engine)
    plan = plan_pairs([await runs.read_responses(run, whole=False) for run in RUNS], None)
    assert plan.left_out == {"failed": 1, "alone": 1}
    found = PairBatchSource(PairRunOptions(rubric="small", pairs=PLAN), plan, runs, ratings, ids_given=True)
    pairs = BatchStore(engine, unit="pair")
    await store_batch(pairs, "team", "pf_1", found, now=START, unit_cost_usd=None, answer=None)
    return found


async def test_a_pair_has_the_texts_of_its_runs_while_they_are_there(
    engine: AsyncEngine, ratings: BatchStore, source: PairBatchSource
) -> None:
    worker = BatchStore(engine, unit="any")
    work = await worker.claim(ChunkJob("pf_1", 0), "w1", LEASE)
    assert work is not None
    assert [entry.position for entry, _ in work.todo] == [0, 1, 2, 3]
    assert {entry.item for entry, _ in work.todo} == {f"item-{number}" for number in range(4)}
    # The first run that has an item says of which dialogue it is.
    assert {entry.cluster for entry, _ in work.todo} == {"ba_1-talk", None}
    for entry, candidate in work.todo:
        assert candidate.shown is not None
        assert [one.context[0].text for one in candidate.shown] == [f"Hello, {entry.item}"] * 2
    await ratings.erase("team", "ba_2")
    for _, candidate in await worker.candidates("pf_1", after=-1, limit=10):
        assert candidate.shown is not None
        assert [is_covered(one.response) for one in candidate.shown] == [False, True]
    assert not await list_drift(engine)


async def test_what_was_seen_is_read_look_by_look(engine: AsyncEngine, source: PairBatchSource) -> None:
    worker, looks = BatchStore(engine, unit="any"), PreferenceStore(engine)
    work = await worker.claim(ChunkJob("pf_1", 0), "w1", LEASE)
    assert work is not None
    await worker.commit("w1", judge(work), [work.job])
    found = await looks.read_looks("team", "pf_1", "overall")
    assert len(found) == 8
    [item] = {entry.item for entry, _ in work.todo if entry.position == 2}
    [cluster] = {entry.cluster or entry.item for entry, _ in work.todo if entry.position == 2}
    assert found[4:6] == [
        ShownPair(item, cluster, "凪", "波", "first", first_length=7, second_length=2),
        ShownPair(item, cluster, "波", "凪", "first", first_length=2, second_length=7),
    ]
    assert await looks.read_looks("team", "pf_1", "warmth") == []
    for project, run in (("other", "pf_1"), ("team", "ba_1")):
        with pytest.raises(NotFound):
            await looks.read_looks(project, run, "overall")


async def test_no_store_of_one_kind_shows_or_steers_the_other(
    engine: AsyncEngine, ratings: BatchStore, source: PairBatchSource
) -> None:
    pairs = BatchStore(engine, unit="pair")
    for store, own, other in ((ratings, ["ba_1", "ba_2"], "pf_1"), (pairs, ["pf_1"], "ba_1")):
        assert sorted(one.id for one in await store.list("team", BatchFilter(), after=None, limit=9)) == own
        assert await store.find("team", other) is None
        assert [one.id for one in await store.find_all("team", [other])] == []
        assert await store.options("team", other) is None
        assert await store.cancel("team", other) is None
        assert await store.resume("team", other) is None
        assert not await store.erase("team", other)
    found = await BatchStore(engine, unit="any").find_all("team", ["ba_1", "pf_1"])
    assert {one.id: one.status for one in found} == {"ba_1": "completed", "pf_1": "queued"}


async def test_a_run_grows_at_its_end_and_comes_to_its_end_again(engine: AsyncEngine, source: PairBatchSource) -> None:
    worker = BatchStore(engine, unit="any")
    work = await worker.claim(ChunkJob("pf_1", 0), "w1", LEASE)
    assert work is not None
    told = await worker.commit("w1", judge(work), [work.job])
    end = ChunkJob("pf_1", FINISH)
    assert told.ready == [end] or tuple(told.ready) == (end,)
    assert await worker.claim(end, "w1", LEASE) is not None
    more = await source.read_rows([0, 2], 4)
    changed = source.options.model_copy(update={"pairs": PLAN.model_copy(update={"items": 6})})
    assert await worker.grow("pf_1", changed, more, 4)
    # Another owner of the end, such as after this one died, adds nothing twice.
    assert await worker.grow("pf_1", changed, more, 6)
    await worker.commit("w1", [], [end])
    assert await worker.claim(end, "w2", LEASE) is None
    assert await worker.next_jobs("pf_1", 5) == [ChunkJob("pf_1", 1)]
    work = await worker.claim(ChunkJob("pf_1", 1), "w2", LEASE)
    assert work is not None
    assert [entry.position for entry, _ in work.todo] == [4, 5]
    told = await worker.commit("w2", judge(work), [work.job])
    assert [*told.ready] == [end]
    assert await worker.claim(end, "w2", LEASE) is not None
    assert not await worker.grow("pf_1", changed, [], 6)
    await worker.complete("pf_1")
    found = await BatchStore(engine, unit="pair").find("team", "pf_1")
    assert found is not None
    assert (found.status, found.counts.total, found.counts.scored) == ("completed", 6, 6)
    assert not await list_drift(engine)
    assert len(await SourceStore(engine).read_pairs("pf_1")) == 4


async def test_retention_leaves_what_was_seen(engine: AsyncEngine, source: PairBatchSource) -> None:
    worker, later = BatchStore(engine, unit="any"), START + timedelta(days=40)
    work = await worker.claim(ChunkJob("pf_1", 0), "w1", LEASE)
    assert work is not None
    await worker.commit("w1", judge(work), [work.job])
    await worker.complete("pf_1")
    texts = TextStore(engine, clock=lambda: later)
    while await texts.redact("team", "drop", later, 100):
        pass
    assert len(await PreferenceStore(engine).read_looks("team", "pf_1", "overall")) == 8
    [(_, candidate), *_] = await worker.candidates("pf_1", after=-1, limit=10)
    assert candidate.pair is not None
    assert candidate.shown is not None
    assert all(is_covered(one.response) for one in candidate.shown)
    assert not await list_drift(engine)


async def test_the_texts_of_a_single_comparison_go_with_a_policy(engine: AsyncEngine) -> None:
    store, later = EvaluationStore(engine), datetime.now(UTC) + timedelta(days=40)
    request = PreferenceRequest.model_validate_json(
        '{"context": ["週末は？"], "first": {"response": "海です。"}, "second": {"response": "はい。"}}'
    )
    missing = Unrated(reason="unparseable", detail="海です。")
    aspect = AspectPreference(
        preference=None,
        position_dependent=False,
        orders=(OrderVerdict(shown=("first", "second"), verdict=None, missing=missing),),
    )
    pair = Pair(first=PairSide(length=4), second=PairSide(length=3), aspects={"overall": aspect})
    made = make_record("pr_1", pair=pair)
    await store.save("team", Record.model_construct(evaluation=made.evaluation, request=request, trace=()))
    assert await store.find("team", "pr_1") is None
    found = await store.find("team", "pr_1", pair=True)
    assert found is not None
    assert found.request == request
    await TextStore(engine, clock=lambda: later).redact("team", "drop", later, 100)
    found = await store.find("team", "pr_1", pair=True)
    assert found is not None
    assert "海です" not in found.model_dump_json()
    assert found.evaluation.pair is not None
    assert found.evaluation.pair.first.length == 4
    assert not await list_drift(engine)
