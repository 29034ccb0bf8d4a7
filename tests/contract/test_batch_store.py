"""The store of batches, on each database."""

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from math import isnan
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.batch import EXPIRED, BatchFilter, BatchOptions, BatchUsage, Counts, Entry, KeyedAnswer
from saiten_server.core.dialogue import digest_context
from saiten_server.core.errors import IdempotencyKeyInUse, StoreError
from saiten_server.core.evaluation import (
    AspectResult,
    EvaluationRequest,
    JudgeOptions,
    RelevanceOptions,
    Unrated,
    Usage,
)
from saiten_server.core.model import key_of
from saiten_server.runs import summaries
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.summary import Intervals, MeanEstimate, Tally
from saiten_server.runs.work import COLLECT, FINISH, ChunkJob, Committed
from saiten_server.scoring.store import EvaluationStore, StoredAnswer
from tests.support.batches import (
    LEASE,
    START,
    C,
    HandClock,
    claim,
    fail,
    finish,
    finish_all,
    live,
    make_batch,
    make_candidates,
    run_chunk,
)
from tests.support.dict_cache import DictCache
from tests.support.faults import words
from tests.support.figures import read_all

OWN_MEAN = RelevanceOptions(baseline="batch")


@dataclass
class Bench:
    """The store under test, where its keyed answers go, and its clock."""

    store: BatchStore
    keys: EvaluationStore
    clock: HandClock
    engine: AsyncEngine

    async def live(self, seconds: float) -> None:
        """Moves the clock while workers live."""
        await live(self.engine, self.clock, seconds)


@pytest.fixture
async def bench(engine: AsyncEngine) -> Bench:
    clock = HandClock()
    return Bench(BatchStore(engine, window=4, clock=clock), EvaluationStore(engine), clock, engine)


@pytest.fixture
def store(bench: Bench) -> BatchStore:
    return bench.store


async def counts(store: BatchStore, batch_id: str = "ba_1") -> Counts:
    found = await store.find("team", batch_id)
    assert found is not None
    return found.counts


async def status(store: BatchStore, batch_id: str = "ba_1") -> str:
    found = await store.find("team", batch_id)
    assert found is not None
    return found.status


async def usage(store: BatchStore, batch_id: str = "ba_1") -> BatchUsage:
    found = await store.find("team", batch_id)
    assert found is not None
    return found.usage


# Taking in


async def test_a_batch_is_invisible_until_it_is_accepted(store: BatchStore) -> None:
    await store.begin("team", "ba_1", BatchOptions(), START)
    await store.append("ba_1", make_candidates(3))
    assert await store.find("team", "ba_1") is None
    assert await store.list("team", BatchFilter(), after=None, limit=9) == []
    assert await store.project_of("ba_1") is None
    assert await store.options("team", "ba_1") is None
    assert await store.candidates("ba_1", after=-1, limit=9) == []
    assert await store.next_jobs("ba_1", 9) == []
    assert await store.claim(ChunkJob("ba_1", 0), "w1", LEASE) is None
    assert await store.pause("ba_1", "why", words("…")) is None
    assert await store.sweep(9, 60) == []
    accepted = await store.accept("team", "ba_1", unit_cost_usd=None, answer=None)
    assert accepted == await store.find("team", "ba_1")
    assert (accepted.status, accepted.counts) == ("queued", Counts(total=3, queued=3, scored=0, partial=0, failed=0))


async def test_what_was_told_of_a_batch_comes_back(store: BatchStore) -> None:
    given: dict[str, Any] = {
        "name": "夜間",
        "metadata": {"系": "甲"},
        "budget_usd": 1.5,
        "relevance": None,
        "path": "both",
    }
    options = BatchOptions.model_validate({**given, "rubric": "ja-dialogue@2"})
    await make_batch(store, count=3, **given, rubric=options.rubric)
    found = await store.find("team", "ba_1")
    assert found is not None
    assert {name: getattr(found, name) for name in given} == given
    assert (found.created_at, found.started_at, found.progress, found.rate_per_second) == (START, None, 0.0, None)
    assert (found.signature, found.signatures, found.usage) == (None, {}, BatchUsage())
    assert await store.options("team", "ba_1") == options
    assert await store.candidates("ba_1", after=0, limit=1) == make_candidates(1, first=1)


async def test_appending_goes_on_over_many_calls(store: BatchStore) -> None:
    await store.begin("team", "ba_1", BatchOptions(), START)
    for first in range(0, 70 * C, 35 * C):
        await store.append("ba_1", make_candidates(35 * C, first))
    await store.accept("team", "ba_1", unit_cost_usd=None, answer=None)
    assert (await counts(store)).total == 70 * C
    assert [entry.position for entry, _ in (await claim(store, 69)).todo] == list(range(69 * C, 70 * C))
    assert await store.claim(ChunkJob("ba_1", 70), "w1", LEASE) is None


async def test_the_keyed_answer_is_kept_with_the_acceptance(bench: Bench) -> None:
    await bench.keys.claim_key("team", "k", "digest")
    await make_batch(bench.store, answer=KeyedAnswer("k", 202, b"{}"))
    assert await bench.keys.claim_key("team", "k", "digest") == StoredAnswer("digest", 202, b"{}")


async def test_a_key_that_was_answered_meanwhile_accepts_nothing(bench: Bench) -> None:
    await bench.keys.claim_key("team", "k", "digest")
    await bench.keys.answer_key("team", "k", 202, b"first")
    with pytest.raises(IdempotencyKeyInUse):
        await make_batch(bench.store, answer=KeyedAnswer("k", 202, b"second"))
    assert await bench.store.find("team", "ba_1") is None
    assert await bench.keys.claim_key("team", "k", "digest") == StoredAnswer("digest", 202, b"first")


async def test_a_discarded_batch_is_gone_and_an_accepted_one_is_not_discarded(store: BatchStore) -> None:
    await store.begin("team", "ba_1", BatchOptions(), START)
    await store.discard("ba_1")
    with pytest.raises(StoreError):
        await store.append("ba_1", make_candidates(1))
    with pytest.raises(StoreError):
        await store.accept("team", "ba_1", unit_cost_usd=None, answer=None)
    await make_batch(store)
    await store.discard("ba_1")
    assert await status(store) == "queued"


async def test_a_batch_begun_an_hour_ago_is_swept_away(bench: Bench) -> None:
    await bench.store.begin("team", "ba_1", BatchOptions(), bench.clock.now)
    await bench.store.append("ba_1", make_candidates(1))
    bench.clock.move(3599)
    await bench.store.sweep(4, 60)
    await bench.store.append("ba_1", make_candidates(1, first=1))
    bench.clock.move(2)
    await bench.store.sweep(4, 60)
    with pytest.raises(StoreError):
        await bench.store.append("ba_1", make_candidates(1, first=2))


# Looking


async def test_pages_of_batches_are_complete_newest_first(store: BatchStore) -> None:
    for number in range(7):  # pairs share a moment
        await make_batch(store, f"ba_{number}", 1, created_at=START + timedelta(seconds=number // 2))
    seen, after = [], None
    while page := await store.list("team", BatchFilter(), after=after, limit=3):
        seen += [batch.id for batch in page]
        after = (page[-1].created_at, page[-1].id)
    assert seen == [f"ba_{number}" for number in reversed(range(7))]


async def test_batches_are_filtered(store: BatchStore) -> None:
    await make_batch(store, "ba_1", 1, name="a", metadata={"x": "1", "y": "2"})
    await make_batch(store, "ba_2", 1, name="b", metadata={"x": "1"})
    await make_batch(store, "ba_3", 1, rubric="other")
    await store.cancel("team", "ba_3")

    async def ids(**wanted: object) -> list[str]:
        page = await store.list("team", BatchFilter(**wanted), after=None, limit=9)  # type: ignore[arg-type]
        return [batch.id for batch in page]

    assert await ids(name="a") == ["ba_1"]
    assert await ids(rubric="other") == ["ba_3"]
    await make_batch(
        store, "ba_4", 1, project="versions", rubric="other@2", metadata={"rubric": "other@1", "path": "x"}
    )
    for rubric, expected in {"other": ["ba_4"], "other@2": ["ba_4"], "other@1": [], "other_": []}.items():
        found = await store.list("versions", BatchFilter(rubric=rubric), after=None, limit=9)
        assert [(batch.id, batch.rubric, batch.rubric_version) for batch in found] == [
            (batch_id, "other", 2) for batch_id in expected
        ]
    assert await ids(status="queued") == ["ba_2", "ba_1"]
    assert await ids(status="receiving") == []
    assert await ids(metadata={"x": "1"}) == ["ba_2", "ba_1"]
    assert await ids(metadata={"x": "1", "y": "2"}) == ["ba_1"]
    assert await ids(metadata={"x": "2"}) == []
    assert await ids(name="a\0") == []


async def test_another_projects_batch_is_not_there(store: BatchStore) -> None:
    await make_batch(store)
    await run_chunk(store, 0)
    assert await store.find("rivals", "ba_1") is None
    assert await store.list("rivals", BatchFilter(), after=None, limit=9) == []
    assert await store.results("rivals", "ba_1", after=-1, limit=9) == []
    assert len(await store.frame("rivals", "ba_1", after=-1, limit=9)) == 0
    assert await store.find_evaluation("rivals", "ba_1", 0) is None
    assert await store.options("rivals", "ba_1") is None
    assert await store.pause("ba_1", "why", words("…"), project="rivals") is None
    assert await store.resume("rivals", "ba_1") is None
    assert await store.cancel("rivals", "ba_1") is None
    assert not await store.erase("rivals", "ba_1")
    assert await status(store) == "running"
    assert await store.project_of("ba_1") == "team"


@pytest.mark.parametrize("text", ["ba_1\0", "\ud800"])
async def test_what_no_column_can_hold_is_not_there(store: BatchStore, text: str) -> None:
    assert await store.find("team", text) is None
    assert await store.results("team", text, after=-1, limit=1) == []
    assert await store.cancel("team", text) is None
    assert not await store.erase("team", text)


# Working


async def test_a_thousand_candidates_from_end_to_end(bench: Bench) -> None:
    store = bench.store
    await make_batch(store, count=1000)
    ready = await store.next_jobs("ba_1", 4)
    assert ready == [ChunkJob("ba_1", number) for number in range(4)]
    done = []
    while ready:
        job = ready.pop(0)
        work = await claim(store, job.chunk)
        bench.clock.move(0.5)
        told = await store.commit("w1", [*finish_all(work)[:-1], fail(work, work.todo[-1][0].position)], [job])
        ready += told.ready
        done.append(job.chunk)
        assert len(ready) <= 4
    assert done == list(range(1000 // C))
    found = await store.find("team", "ba_1")
    assert found is not None
    assert (found.status, found.progress, found.estimated_end) == ("completed", 1.0, None)
    assert found.counts == Counts(total=1000, queued=0, scored=1000 - 1000 // C, partial=0, failed=1000 // C)
    assert found.usage == BatchUsage(judge_calls=found.counts.scored, prompt_tokens=10 * found.counts.scored)
    assert (found.signature, found.signatures) == ("saiten:0|rubric:ja-dialogue@1", {})
    assert found.finished_at == START + timedelta(seconds=500 / C)
    assert found.rate_per_second == pytest.approx(2 * C)
    assert await store.sweep(4, 0) == []
    positions, after = [], -1
    while page := await store.results("team", "ba_1", after=after, limit=300):
        positions += [result.entry.position for result in page]
        after = positions[-1]
    assert positions == list(range(1000))


async def test_results_say_what_became_of_each_candidate(bench: Bench) -> None:
    store = bench.store
    await make_batch(store, count=3)
    work = await claim(store, 0)
    record = finish(work, 0)
    await store.commit("w1", [record, fail(work, 2)], [])
    first, last = await store.results("team", "ba_1", after=-1, limit=9)
    assert record.record is not None
    assert (without_digest(first.entry), first.evaluation) == (work.todo[0][0], record.record.evaluation)
    assert (last.entry, last.evaluation, last.failure) == (work.todo[2][0], None, fail(work, 2).failure)
    assert await store.find_evaluation("team", "ba_1", 0) == record.record.evaluation.id
    assert await store.find_evaluation("team", "ba_1", 1) is None
    scores, none = await read_all(bench.engine)
    assert isinstance(record.record.request, EvaluationRequest)
    assert (scores.system, scores.context) == ("甲", digest_context(record.record.request.context))
    assert first.entry.context_digest == scores.context
    assert scores.values == {("aspect", "naturalness"): 3.0, ("blended", "naturalness"): 3.41}
    assert (scores.status, scores.find_rating("naturalness"), scores.warnings) == ("scored", 3, ("baseline-judge",))
    assert (none.status, none.values, none.failure) == ("failed", {}, "judge-refused-request")
    frame = await store.frame("team", "ba_1", after=0, limit=1)
    assert (frame.positions.tolist(), frame.labels[frame.label[0]].failure) == ([2], "judge-refused-request")


async def test_the_first_claim_starts_the_batch(bench: Bench) -> None:
    options = BatchOptions(rubric="ja-dialogue@2")
    await make_batch(bench.store, rubric=options.rubric)
    bench.clock.move(3)
    work = await claim(bench.store, 1)
    assert (work.project, work.options, work.suspect, work.affordable) == ("team", options, False, C)
    assert list(work.todo) == make_candidates(C, first=C)
    found = await bench.store.find("team", "ba_1")
    assert found is not None
    assert (found.status, found.started_at) == ("running", START + timedelta(seconds=3))


async def test_progress_gives_a_rate_and_an_end(bench: Bench) -> None:
    await make_batch(bench.store, count=50)  # ten of them are done in five seconds
    work = await claim(bench.store, 0)
    bench.clock.move(5)
    await bench.store.commit("w1", [finish(work, position) for position in range(10)], [])
    found = await bench.store.find("team", "ba_1")
    assert found is not None
    assert (found.progress, found.rate_per_second) == (0.2, 2.0)
    assert found.estimated_end == bench.clock.now + timedelta(seconds=20)


async def test_of_two_owners_who_claim_at_once_one_wins(store: BatchStore) -> None:
    await make_batch(store)
    claims = await asyncio.gather(*(store.claim(ChunkJob("ba_1", 0), f"w{number}", LEASE) for number in range(6)))
    assert sum(work is not None for work in claims) == 1


async def test_a_lease_that_ran_out_goes_to_another_and_the_late_results_are_refused(bench: Bench) -> None:
    store = bench.store
    await make_batch(store)
    old = await claim(store, 0, "w1")
    await store.commit("w1", [finish(old, 0)], [])
    assert await store.claim(old.job, "w2", LEASE) is None
    bench.clock.move(LEASE + 1)
    new = await claim(store, 0, "w2")
    assert new.suspect
    assert [entry.position for entry, _ in new.todo] == list(range(1, C))
    assert await store.commit("w1", [finish(old, 1)], [old.job]) == Committed(lost=frozenset({old.job}))
    assert await store.renew("w1", [old.job], LEASE) == Committed(lost=frozenset({old.job}))
    assert (await counts(store)).scored == 1
    assert not (await store.commit("w2", finish_all(new), [new.job])).lost
    assert (await counts(store)).scored == C


async def test_a_renewed_lease_does_not_run_out(bench: Bench) -> None:
    await make_batch(bench.store)
    work = await claim(bench.store, 0)
    for _ in range(3):
        bench.clock.move(LEASE - 1)
        assert await bench.store.renew("w1", [work.job], LEASE) == Committed()
    assert await bench.store.claim(work.job, "w2", LEASE) is None
    assert ChunkJob("ba_1", 0) not in await bench.store.sweep(4, 5)


async def test_a_result_is_kept_and_counted_once(store: BatchStore) -> None:
    await make_batch(store)
    work = await claim(store, 0)
    result = finish(work, 0, cost_usd=0.5)
    assert await store.commit("w1", [result, result], []) == Committed()
    assert await store.commit("w1", [result, fail(work, 0)], []) == Committed()
    found = await store.find("team", "ba_1")
    assert found is not None
    assert (found.counts.scored, found.counts.failed, found.usage.cost_usd) == (1, 0, 0.5)
    assert len(await store.results("team", "ba_1", after=-1, limit=9)) == 1


async def test_many_commits_at_once_are_all_counted(store: BatchStore) -> None:
    await make_batch(store, count=8 * C)
    works = [await claim(store, number, f"w{number}") for number in range(8)]
    await asyncio.gather(
        *(store.commit(f"w{number}", finish_all(work), [work.job]) for number, work in enumerate(works))
    )
    assert await status(store) == "completed"
    assert (await counts(store)).scored == 8 * C


async def test_a_chunk_with_candidates_left_goes_back_without_a_suspicion(store: BatchStore) -> None:
    await make_batch(store, count=C)
    work = await claim(store, 0, "w1")
    told = await store.commit("w1", [finish(work, 3)], [work.job])
    assert told.ready == (ChunkJob("ba_1", 0),)
    again = await claim(store, 0, "w2")
    assert not again.suspect
    assert 3 not in [entry.position for entry, _ in again.todo]


async def test_a_chunk_that_was_complete_when_its_worker_died_is_closed_by_the_claim(bench: Bench) -> None:
    await make_batch(bench.store, count=C)
    work = await claim(bench.store, 0)
    await bench.store.commit("w1", finish_all(work), [])
    bench.clock.move(LEASE + 1)
    assert await bench.store.claim(work.job, "w2", LEASE) is None
    assert await status(bench.store) == "completed"


async def test_tries_are_marked_and_told_to_the_next_owner(bench: Bench) -> None:
    await make_batch(bench.store)
    work = await claim(bench.store, 0, "w1")
    assert [await bench.store.mark(work.job, "w1", 7) for _ in range(2)] == [0, 1]
    assert await bench.store.mark(work.job, "w9", 7) == 2
    bench.clock.move(LEASE + 1)
    assert (await claim(bench.store, 0, "w2")).tries == {7: 2}


async def test_signatures_that_differ_are_counted(store: BatchStore) -> None:
    await make_batch(store)
    work = await claim(store, 0)
    await store.commit("w1", [finish(work, 0), finish(work, 1), finish(work, 2, signature="other")], [])
    found = await store.find("team", "ba_1")
    assert found is not None
    assert found.signature is None
    assert found.signatures == {"saiten:0|rubric:ja-dialogue@1": 2, "other": 1}


# What all results amount to


def measured(tally: Tally) -> Any:
    """The tally without its order, its moments to the digits that no order of adding changes."""
    moments = {name: one.means for name, one in tally.aspects.items()}
    moments |= {f"{name}.blended": one.blended for name, one in tally.aspects.items()} | tally.composites
    counts: list[Counter[Any]] = [tally.statuses, tally.warnings, tally.failures]
    counts += [counter for _, one in sorted(tally.aspects.items()) for counter in (one.levels, one.reasons)]
    rounded = {name: (one.n, round(one.mean, 9), round(one.squares, 6)) for name, one in moments.items()}
    return [dict(counter) for counter in counts], rounded


async def add_up(store: BatchStore) -> Tally:
    return await summaries.add_up(store, "team", "ba_1")


async def known(store: BatchStore, batch_id: str = "ba_1") -> Tally | None:
    return (await store.tallies("team", [batch_id]))[batch_id]


def vary(position: int) -> dict[str, Any]:
    """A result's aspects, composites and status: of one in seven nothing is rated."""
    if position % 7 == 6:
        missing = Unrated(reason="refused", detail="")
        unrated = AspectResult(
            rating=None, scale=(1, 3), label=None, samples=(None,), mean=None, sd=None, unrated=missing
        )
        return {"aspects": {"naturalness": unrated}, "composites": {"ssa": None}, "status": "failed"}
    value = 1 + position % 3
    rated = AspectResult(
        rating=value, scale=(1, 3), label="…", samples=(value,), mean=value + position / 7, sd=0.0, blended=position / 3
    )
    return {"aspects": {"naturalness": rated}, "composites": {"ssa": position / 9}}


async def test_the_figures_are_those_of_all_results_after_every_commit(store: BatchStore) -> None:
    await make_batch(store, count=C)
    assert await known(store) == Tally()
    work = await claim(store, 0)
    for first in range(0, C, 8):
        results = [finish(work, position, **vary(position)) for position in range(first, first + 7)]
        await store.commit("w1", [*results, fail(work, first + 7)], [])
        tally = await known(store)
        assert tally is not None
        assert tally.results == first + 8
        assert measured(tally) == measured(await add_up(store))
    await store.commit("w1", [finish(work, 0)], [work.job])  # kept before, so not counted again
    assert measured(await add_up(store)) == measured(await known(store) or Tally())


async def test_the_figures_hold_what_workers_commit_at_once(store: BatchStore) -> None:
    await make_batch(store, count=8 * C)
    works = [await claim(store, number, f"w{number}") for number in range(8)]
    await asyncio.gather(
        *(
            store.commit(f"w{number}", [finish(work, entry.position, **vary(entry.position)) for entry, _ in part], [])
            for number, work in enumerate(works)
            for part in (work.todo[:20], work.todo[20:])
        )
    )
    tally = await known(store)
    assert tally is not None
    assert tally.results == 8 * C
    assert measured(tally) == measured(await add_up(store))


async def test_the_figures_of_other_projects_and_of_no_batch_are_left_out(store: BatchStore) -> None:
    await make_batch(store, count=1)
    await make_batch(store, "ba_2", 1, project="rivals")
    await store.begin("team", "ba_3", BatchOptions(), START)
    assert await store.tallies("team", ["ba_1", "ba_2", "ba_3", "ba_4"]) == {"ba_1": Tally()}
    assert await store.tallies("team", []) == {}
    assert await store.tallies("team", ["ba_1\0"]) == {}


async def test_figures_that_a_rewrite_made_unknown_are_kept_once_somebody_has_added_them_up(store: BatchStore) -> None:
    await make_batch(store, count=C, relevance=OWN_MEAN)
    await run_chunk(store, 0)
    (first,) = await store.results("team", "ba_1", after=-1, limit=1)
    assert first.evaluation is not None
    changed = first.evaluation.model_copy(update=vary(5))
    await store.rewrite("ba_1", [(0, changed)])
    assert await known(store) is None
    await store.keep_tally("team", "ba_1", await add_up(store))  # still running
    assert await known(store) is None
    await store.complete("ba_1")
    await store.keep_tally("team", "ba_1", Tally())  # not of all its results
    await store.keep_tally("rivals", "ba_1", await add_up(store))
    await store.keep_tally("team", "ba_1\0", Tally())
    assert await known(store) is None
    tally = await add_up(store)
    await store.keep_tally("team", "ba_1", tally)
    assert await known(store) == tally
    other, one = Tally(), summaries.tally_frame(await store.frame("team", "ba_1", after=0, limit=1))
    for _ in range(C):
        other.merge(one)
    await store.keep_tally("team", "ba_1", other)
    assert await known(store) == tally  # what is known stays


async def test_unknown_figures_of_a_cancelled_batch_wait_for_who_still_holds_a_chunk(store: BatchStore) -> None:
    await make_batch(store, count=2 * C)
    await run_chunk(store, 0)
    (first,) = await store.results("team", "ba_1", after=-1, limit=1)
    assert first.evaluation is not None
    work = await claim(store, 1)
    await store.rewrite("ba_1", [(0, first.evaluation)])
    await store.cancel("team", "ba_1")
    await store.keep_tally("team", "ba_1", await add_up(store))
    assert await known(store) is None
    await store.commit("w1", finish_all(work), [work.job])
    assert await known(store) is None  # what is unknown is not added to
    await store.keep_tally("team", "ba_1", await add_up(store))
    assert measured(await known(store) or Tally()) == measured(await add_up(store))


async def test_a_dialogue_goes_with_its_candidate_to_its_result(store: BatchStore) -> None:
    await make_batch(store, count=C, turns=4)
    work = await claim(store, 0)
    assert work.todo == make_candidates(C, turns=4)
    await store.commit("w1", [*finish_all(work)[1:], fail(work, 0)], [work.job])
    results = await store.results("team", "ba_1", after=-1, limit=C)
    placed = [entry for entry, _ in make_candidates(C, turns=4)]
    assert [without_digest(one.entry) for one in results] == placed
    frame = await store.frame("team", "ba_1", after=-1, limit=C)
    assert frame.clusters.tolist() == [key_of(entry.cluster or "") for entry in placed]
    digests = [one.entry.context_digest for one in results]
    assert frame.contexts.tolist() == [0 if one is None else key_of(one) for one in digests]
    assert (results[0].line()["dialogue"], results[0].line()["cluster"]) == ("d-0", "0" * 16)


def without_digest(entry: Entry) -> Entry:
    """The entry without the digest of its context, which results alone have."""
    return entry.model_copy(update={"context_digest": None})


async def test_values_are_read_in_pages_with_their_clusters(store: BatchStore) -> None:
    await make_batch(store, count=C, turns=4)
    assert len(await store.frame("team", "ba_1", after=-1, limit=9)) == 0
    await run_chunk(store, 0)
    frame = await store.frame("team", "ba_1", after=4, limit=3)
    assert (frame.positions.tolist(), frame.clusters.tolist()) == ([5, 6, 7], [key_of(f"{1:016x}")] * 3)
    found = (await store.results("team", "ba_1", after=4, limit=1))[0].evaluation
    assert found is not None
    assert {key: column[0] for key, column in frame.values.items() if not isnan(column[0])} == {
        **{("aspect", name): one.mean for name, one in found.aspects.items()},
        **{("composite", name): value for name, value in found.composites.items() if value is not None},
        **{("blended", name): one.blended for name, one in found.aspects.items()},
    }
    assert len(await store.frame("rivals", "ba_1", after=-1, limit=9)) == 0


async def test_intervals_are_kept_of_an_ended_batch_until_a_result_changes(store: BatchStore) -> None:
    known = MeanEstimate(clusters=3, interval=(1.0, 2.5), reason=None)
    intervals = Intervals(results=2 * C, clusters=3, measures={"warmth": known})
    await make_batch(store, count=2 * C)
    await run_chunk(store, 0)
    await store.keep_intervals("team", "ba_1", intervals)
    assert await store.intervals("team", ["ba_1"]) == {}  # it goes on
    await run_chunk(store, 1)
    await store.keep_intervals("rivals", "ba_1", intervals)
    await store.keep_intervals("team", "ba_1", intervals.model_copy(update={"results": 1}))
    assert await store.intervals("team", ["ba_1"]) == {}
    await store.keep_intervals("team", "ba_1", intervals)
    assert await store.intervals("team", ["ba_1", "ba_2"]) == {"ba_1": intervals}
    assert await store.intervals("rivals", ["ba_1"]) == await store.intervals("team", []) == {}
    (first,) = await store.results("team", "ba_1", after=-1, limit=1)
    assert first.evaluation is not None
    await store.rewrite("ba_1", [(0, first.evaluation)])
    assert await store.intervals("team", ["ba_1"]) == {}


# Budget and cost


async def test_one_unknown_cost_makes_the_sum_unknown_for_good(store: BatchStore) -> None:
    await make_batch(store)
    work = await claim(store, 0)
    for position, cost in enumerate([0.1, None, 0.1]):
        await store.commit("w1", [finish(work, position, cost_usd=cost)], [])
    found = await store.find("team", "ba_1")
    assert found is not None
    assert (found.usage.cost_usd, found.usage.judge_calls) == (None, 3)


async def test_a_budget_is_reserved_and_stops_before_it_is_passed(store: BatchStore) -> None:
    await make_batch(store, count=3 * C, budget_usd=C / 10 + 0.5, unit_cost_usd=0.1)
    first, second = await claim(store, 0), await claim(store, 1)
    assert (first.affordable, second.affordable) == (C, 5)
    assert await store.claim(ChunkJob("ba_1", 2), "w1", LEASE) is None
    assert await status(store) == "running"
    await store.commit("w1", finish_all(first, cost_usd=0.1), [first.job])
    told = await store.commit("w1", finish_all(second, cost_usd=0.05), [second.job])
    assert ChunkJob("ba_1", 1) in told.ready
    third = await claim(store, 1)  # 0.25 USD are left, and a candidate has cost 0.1
    assert third.affordable == 2
    await store.commit("w1", finish_all(third, cost_usd=0.1), [third.job])
    assert await store.claim(ChunkJob("ba_1", 1), "w1", LEASE) is None
    found = await store.find("team", "ba_1")
    assert found is not None
    assert (found.status, found.pause_reason) == ("paused", "budget-exhausted")
    assert found.usage.cost_usd == pytest.approx(C / 10 + 0.45)


async def test_a_budget_cannot_be_kept_where_costs_are_unknown(store: BatchStore) -> None:
    await make_batch(store, budget_usd=100)
    await run_chunk(store, 0, cost_usd=None)
    assert await store.claim(ChunkJob("ba_1", 1), "w1", LEASE) is None
    assert await status(store) == "paused"


async def test_what_costs_nothing_fits_into_no_budget_at_all(store: BatchStore) -> None:
    await make_batch(store, count=C, budget_usd=0.0, unit_cost_usd=0.0)
    await run_chunk(store, 0)
    assert await status(store) == "completed"


async def test_a_budget_beyond_all_reckoning_allows_everything(store: BatchStore) -> None:
    await make_batch(store, count=C, budget_usd=1e308, unit_cost_usd=0.0001)
    assert (await claim(store, 0)).affordable == C


async def test_a_dearer_candidate_than_expected_raises_what_is_reckoned_with(store: BatchStore) -> None:
    await make_batch(store, budget_usd=10, unit_cost_usd=0.01)
    work = await claim(store, 0)
    await store.commit("w1", [finish(work, 0, cost_usd=4.0)], [work.job])
    assert (await claim(store, 1)).affordable == 1


# Steering


async def test_a_paused_batch_gives_no_work_and_goes_on_when_it_is_resumed(bench: Bench) -> None:
    store = bench.store
    await make_batch(store)
    work = await claim(store, 0)
    assert await store.next_jobs("ba_1", 4) == [ChunkJob("ba_1", 1), ChunkJob("ba_1", 2)]
    paused = await store.pause("ba_1", "judge-unauthorized", words("no key"))
    assert paused is not None
    assert (paused.status, paused.pause_reason, str(paused.pause_detail)) == ("paused", "judge-unauthorized", "no key")
    assert await store.claim(ChunkJob("ba_1", 1), "w2", LEASE) is None
    assert await store.renew("w1", [work.job], LEASE) == Committed(stopped=frozenset({work.job}))
    assert await store.commit("w1", [finish(work, 0)], []) == Committed(stopped=frozenset({work.job}))
    assert await store.commit("w1", [], [work.job]) == Committed()
    assert await store.sweep(4, 0) == []
    again = await store.pause("ba_1", "other", words("…"))
    assert again is not None
    assert again.pause_reason == "judge-unauthorized"
    resumed = await store.resume("team", "ba_1")
    assert resumed is not None
    assert (resumed.status, resumed.pause_reason, resumed.pause_detail) == ("queued", None, None)
    assert await store.sweep(4, 60) == [ChunkJob("ba_1", number) for number in range(3)]
    bench.clock.move(100)
    await claim(store, 0)
    bench.clock.move(1)
    found = await store.find("team", "ba_1")
    assert found is not None
    assert (found.status, found.started_at, found.rate_per_second) == ("running", START, None)


async def test_a_batch_whose_last_results_come_in_while_it_is_paused_is_completed(store: BatchStore) -> None:
    await make_batch(store, count=C)
    work = await claim(store, 0)
    await store.pause("ba_1", "manual", words("…"), project="team")
    await store.commit("w1", finish_all(work), [work.job])
    found = await store.find("team", "ba_1")
    assert found is not None
    assert (found.status, found.pause_reason) == ("completed", None)


async def test_a_cancelled_batch_stays_cancelled_and_keeps_what_comes_in(store: BatchStore) -> None:
    await make_batch(store, count=C)
    work = await claim(store, 0)
    cancelled = await store.cancel("team", "ba_1")
    assert cancelled is not None
    assert (cancelled.status, cancelled.finished_at) == ("cancelled", START)
    await store.commit("w1", finish_all(work), [work.job])
    for steer in (store.resume("team", "ba_1"), store.cancel("team", "ba_1"), store.pause("ba_1", "why", words("…"))):
        found = await steer
        assert found is not None
        assert (found.status, found.counts.scored) == ("cancelled", C)
    assert await store.backlog() == (0, 0.0)


@pytest.mark.parametrize("count", [1, 3, 10, C])
async def test_a_batch_that_the_provider_was_given_within_its_budget_is_scored(bench: Bench, count: int) -> None:
    # Two tries at 0.1 USD each are reckoned with; the provider takes half of one, 0.05 USD, for what it was sent.
    await make_batch(bench.store, count=count, mode="provider-batch", budget_usd=count * 0.05, unit_cost_usd=0.2)
    await bench.store.sweep(4, 10)
    assert await bench.store.claim(ChunkJob("ba_1", COLLECT), "w1", LEASE) is not None
    await bench.store.release_held_chunks("ba_1")
    await bench.store.commit("w1", [], [ChunkJob("ba_1", COLLECT)])
    work = await claim(bench.store, 0)
    assert work.affordable == count
    await bench.store.commit("w1", finish_all(work, cost_usd=0.05), [work.job])
    assert await status(bench.store) == "completed"


async def test_a_step_that_closes_after_the_last_chunk_ends_no_batch(bench: Bench) -> None:
    await make_batch(bench.store, count=2, mode="provider-batch", relevance=RelevanceOptions(baseline="batch"))
    await bench.store.sweep(4, 10)
    assert await bench.store.claim(ChunkJob("ba_1", COLLECT), "w1", LEASE) is not None
    await bench.store.release_held_chunks("ba_1")
    work = await claim(bench.store, 0, "w2")
    told = await bench.store.commit("w2", finish_all(work), [work.job])
    assert tuple(told.ready) == (ChunkJob("ba_1", FINISH),)
    await bench.store.commit("w1", [], [ChunkJob("ba_1", COLLECT)])
    assert await status(bench.store) == "running"
    assert await bench.store.claim(ChunkJob("ba_1", FINISH), "w2", LEASE) is not None
    await bench.store.complete("ba_1")
    assert await status(bench.store) == "completed"


async def test_an_erased_batch_leaves_nothing_and_late_results_are_refused(store: BatchStore) -> None:
    await make_batch(store)
    work = await claim(store, 0)
    await store.commit("w1", [finish(work, 0), finish(work, 1), fail(work, 2)], [])
    assert await store.erase("team", "ba_1")
    assert await store.list_erased_calls(9) == ("key-0", "key-1", "key-failed", "key-shared")
    await store.note_erased_calls(["key-1", "key-late"])
    assert await store.list_erased_calls(9) == ("key-0", "key-1", "key-failed", "key-late", "key-shared")
    await store.settle_erasures(DictCache())
    assert await store.list_erased_calls(9) == ()
    lost = Committed(lost=frozenset({work.job}))
    assert await store.commit("w1", [finish(work, 3)], [work.job]) == lost
    assert await store.renew("w1", [work.job], LEASE) == lost
    assert await store.mark(work.job, "w1", 3) == 0
    await store.rewrite("ba_1", [])
    await store.complete("ba_1")
    assert await store.find("team", "ba_1") is None
    assert await store.results("team", "ba_1", after=-1, limit=9) == []
    assert await store.candidates("ba_1", after=-1, limit=9) == []
    assert not await store.erase("team", "ba_1")
    await make_batch(store)  # nothing of it is in the way
    assert (await counts(store)).scored == 0


async def test_erasing_while_results_come_in_leaves_nothing(store: BatchStore) -> None:
    await make_batch(store, count=8 * C)
    works = [await claim(store, number) for number in range(8)]
    commits = [store.commit("w1", finish_all(work), [work.job]) for work in works]
    await asyncio.gather(*commits[:4], store.erase("team", "ba_1"), *commits[4:])
    assert await store.find("team", "ba_1") is None
    assert await store.results("team", "ba_1", after=-1, limit=9) == []


# Queueing


async def test_no_more_than_a_window_is_under_way(store: BatchStore) -> None:
    await make_batch(store, count=10 * C)
    assert await store.next_jobs("ba_1", 3) == [ChunkJob("ba_1", number) for number in range(3)]
    assert await store.next_jobs("ba_1", 3) == []
    await claim(store, 0)
    assert await store.next_jobs("ba_1", 3) == []
    assert await store.sweep(4, 60) == [ChunkJob("ba_1", 3)]
    assert await store.sweep(4, 60) == []


async def test_batches_share_the_window(store: BatchStore) -> None:
    for name in ("ba_1", "ba_2", "ba_3"):
        await make_batch(store, name, 10 * C)
    jobs = await store.sweep(10, 60)
    assert sorted(job.batch for job in jobs) == [name for name in ("ba_1", "ba_2", "ba_3") for _ in range(4)]
    await store.cancel("team", "ba_3")
    assert len(await store.sweep(10, 60)) == 2
    assert await store.next_jobs("ba_1", 4) == []


async def test_a_lost_queue_is_told_again_after_a_while_and_once(bench: Bench) -> None:
    await make_batch(bench.store, count=3 * C)
    jobs = await bench.store.next_jobs("ba_1", 4)
    bench.clock.move(10)
    assert await bench.store.sweep(4, 10) == []
    bench.clock.move(1)
    assert await bench.store.sweep(4, 10) == jobs
    assert await bench.store.sweep(4, 10) == []


async def test_a_lease_that_ran_out_is_told_once(bench: Bench) -> None:
    await make_batch(bench.store, count=C)
    work = await claim(bench.store, 0, "w1")
    bench.clock.move(LEASE)
    assert await bench.store.sweep(4, 10) == []
    bench.clock.move(1)
    assert await bench.store.sweep(4, 10) == [work.job]
    assert await bench.store.sweep(4, 10) == []
    bench.clock.move(11)
    assert await bench.store.sweep(4, 10) == [work.job]
    assert (await claim(bench.store, 0, "w2")).suspect


async def test_sweeps_at_once_tell_each_job_once(store: BatchStore) -> None:
    await make_batch(store, count=5 * C)
    swept = await asyncio.gather(*(store.sweep(5, 60) for _ in range(6)))
    jobs = [job for each in swept for job in each]
    assert sorted(job.chunk for job in jobs) == list(range(5))


async def test_the_backlog_counts_what_is_to_be_done(bench: Bench) -> None:
    assert await bench.store.backlog() == (0, 0.0)
    await make_batch(bench.store, "ba_1", C + 10)
    await make_batch(bench.store, "ba_2", 5, created_at=START + timedelta(seconds=5))
    await run_chunk(bench.store, 0)
    bench.clock.move(60)
    assert await bench.store.backlog() == (15, 60.0)


async def test_a_batch_that_the_provider_has_is_old_after_its_day(bench: Bench) -> None:
    await make_batch(bench.store, "ba_1", 5, mode="provider-batch")
    bench.clock.move(86_400)
    assert await bench.store.backlog() == (5, 0.0)
    bench.clock.move(60)
    assert await bench.store.backlog() == (5, 60.0)
    await make_batch(bench.store, "ba_2", 5, created_at=START + timedelta(seconds=86_400))
    assert await bench.store.backlog() == (10, 60.0)
    bench.clock.move(60)
    await bench.store.cancel("team", "ba_1")
    assert await bench.store.backlog() == (5, 120.0)


async def test_options_are_given_of_a_batch_that_is_worked_on(store: BatchStore) -> None:
    assert await store.active_options("ba_1") is None
    await make_batch(store, count=C)
    queued = await store.active_options("ba_1")
    assert queued is not None
    assert queued == await store.options("team", "ba_1")
    await claim(store, 0)
    assert await store.active_options("ba_1") == queued
    await store.pause("ba_1", "requested", words("…"), project="team")
    assert await store.active_options("ba_1") is None
    await store.resume("team", "ba_1")
    assert await store.active_options("ba_1") == queued
    await store.cancel("team", "ba_1")
    assert await store.active_options("ba_1") is None


async def test_paused_batches_are_counted_by_their_reason(store: BatchStore) -> None:
    assert await store.paused() == {}
    for number in range(4):
        await make_batch(store, f"ba_{number}", C)
    await store.pause("ba_0", "judge-quota-exhausted", words("…"))
    await store.pause("ba_1", "judge-quota-exhausted", words("…"))
    await store.pause("ba_2", "requested", words("…"), project="team")
    assert await store.paused() == {"judge-quota-exhausted": 2, "requested": 1}
    await store.resume("team", "ba_0")
    await store.cancel("team", "ba_1")
    await store.erase("team", "ba_2")
    assert await store.paused() == {}


# The end that is made of all results, and the provider's batch mode


async def test_a_batch_with_its_own_mean_ends_in_two_steps(bench: Bench) -> None:
    store, end = bench.store, ChunkJob("ba_1", FINISH)
    await make_batch(store, count=2 * C, relevance=OWN_MEAN)
    assert await store.claim(end, "w1", LEASE) is None
    assert await run_chunk(store, 0) == [ChunkJob("ba_1", 1)]
    await store.complete("ba_1")  # too early
    assert await run_chunk(store, 1) == [end]
    assert await status(store) == "running"
    assert await store.sweep(4, 10) == []
    bench.clock.move(11)
    assert await store.sweep(4, 10) == [end]
    results = await store.results("team", "ba_1", after=-1, limit=1)
    assert results[0].evaluation is not None
    before = (await read_all(bench.engine))[0]
    changed = results[0].evaluation.model_copy(update={"signature": "new", "composites": {"ssa": 0.5}})
    for _ in range(2):  # doing it twice is doing it once
        await store.rewrite("ba_1", [(0, changed), (99, changed)])
    assert (await store.results("team", "ba_1", after=-1, limit=1))[0].evaluation == changed
    after = (await read_all(bench.engine))[0]
    assert (after.values["composite", "ssa"], after.context) == (0.5, before.context)
    await store.complete("ba_1")
    found = await store.find("team", "ba_1")
    assert found is not None
    assert (found.status, found.finished_at) == ("completed", bench.clock.now)
    assert found.signatures == {"new": 1, "saiten:0|rubric:ja-dialogue@1": 2 * C - 1}
    assert found.counts.scored == 2 * C
    bench.clock.move(100)
    assert await store.sweep(4, 10) == []


async def test_an_end_can_be_leased_like_a_chunk(bench: Bench) -> None:
    store, end = bench.store, ChunkJob("ba_1", FINISH)
    await make_batch(store, count=C, relevance=OWN_MEAN)
    await run_chunk(store, 0)
    work = await claim(store, FINISH)
    assert list(work.todo) == []
    assert await store.claim(end, "w2", LEASE) is None
    assert await store.commit("w1", [], [end]) == Committed()  # not made: a sweep tells it again, not the commit
    assert await store.sweep(4, 10) == [end]
    await claim(store, FINISH)
    await store.complete("ba_1")
    assert await store.commit("w1", [], [end]) == Committed()
    assert await status(store) == "completed"
    assert await store.claim(end, "w2", LEASE) is None


async def test_an_end_that_comes_while_the_batch_is_paused_waits(store: BatchStore) -> None:
    await make_batch(store, count=C, relevance=OWN_MEAN)
    work = await claim(store, 0)
    await store.pause("ba_1", "manual", words("…"))
    assert await store.commit("w1", finish_all(work), [work.job]) == Committed()
    await store.resume("team", "ba_1")
    assert await store.sweep(4, 60) == [ChunkJob("ba_1", FINISH)]


async def test_a_batch_in_the_providers_mode_is_held_until_its_calls_are_answered(bench: Bench) -> None:
    store, collect = bench.store, ChunkJob("ba_1", COLLECT)
    await make_batch(store, count=2 * C, mode="provider-batch")
    assert await store.next_jobs("ba_1", 4) == []
    assert await store.sweep(4, 10) == [collect]
    assert await store.claim(ChunkJob("ba_1", 0), "w1", LEASE) is None
    work = await claim(store, COLLECT)
    assert (list(work.todo), await status(store)) == ([], "running")
    assert await store.commit("w1", [], [collect]) == Committed()
    assert await store.sweep(4, 10) == [collect]
    assert await store.release_held_chunks("ba_1") == [ChunkJob("ba_1", 0), ChunkJob("ba_1", 1)]
    assert await store.release_held_chunks("ba_1") == []
    assert await store.sweep(4, 10) == []
    await run_chunk(store, 0)
    await run_chunk(store, 1)
    assert await status(store) == "completed"


# The rubric


async def test_a_worker_with_another_file_of_the_rubric_leaves_the_batch_to_others(store: BatchStore) -> None:
    await make_batch(store, count=C, rubric_digest="aa", rubric="ja-dialogue@2")
    (job,) = await store.next_jobs("ba_1", 9)
    asked = []

    def has_rubric(name: str, digest: str) -> bool:
        asked.append((name, digest))
        return False

    assert await store.claim(job, "w1", LEASE, has_rubric=has_rubric) is None
    assert asked == [("ja-dialogue@2", "aa")]
    waiting = await store.find("team", "ba_1")
    assert waiting is not None
    assert (waiting.status, waiting.waiting_reason) == ("queued", "rubric-differs")
    # The next sweep queues it again, and not only once the queue seems to have lost it.
    assert await store.sweep(9, 1000.0) == [job]
    assert await store.claim(job, "w2", LEASE, has_rubric=lambda *_: True) is not None
    going_on = await store.find("team", "ba_1")
    assert going_on is not None
    assert (going_on.status, going_on.waiting_reason) == ("running", None)
    # It has not lost its chunk to one that may not have it.
    assert await store.claim(job, "w1", LEASE, has_rubric=has_rubric) is None
    assert await store.renew("w2", [job], LEASE) == Committed()


# The deadline

HOUR = 3600.0


async def test_a_batch_ends_at_its_deadline_with_what_is_missing_expired(bench: Bench) -> None:
    store = bench.store
    await make_batch(store, count=C + 10, deadline_hours=1.0)
    work = await claim(store, 0)
    await store.commit("w1", [finish(work, 3), fail(work, 5)], [])
    await bench.live(HOUR - 1)
    assert await store.expire() == []
    assert await status(store) == "running"
    await bench.live(2)
    assert await store.claim(ChunkJob("ba_1", 1), "w2", LEASE) is None
    assert await store.expire() == []
    assert await status(store) == "completed"
    assert await counts(store) == Counts(total=C + 10, queued=0, scored=1, partial=0, failed=1, expired=C + 8)
    results = await store.results("team", "ba_1", after=-1, limit=1000)
    assert [one.entry.position for one in results] == list(range(C + 10))
    assert {one.entry.position for one in results if one.failure == EXPIRED} == set(range(C + 10)) - {3, 5}
    # What comes in later is refused.
    late = await store.commit("w1", [finish(work, 4)], [work.job])
    assert late == Committed(lost=frozenset({work.job}))
    tally = (await store.tallies("team", ["ba_1"]))["ba_1"]
    assert tally is not None
    assert tally.failures[EXPIRED.code] == C + 8


async def test_time_in_which_a_batch_is_paused_or_queued_does_not_count(bench: Bench) -> None:
    store = bench.store
    await make_batch(store, count=10, deadline_hours=1.0)
    await bench.live(5 * HOUR)
    await store.commit("w1", [], [(await claim(store, 0)).job])
    await bench.live(0.75 * HOUR)
    await store.pause("ba_1", "requested", words("…"))
    await bench.live(9 * HOUR)
    await store.resume("team", "ba_1")
    await bench.live(9 * HOUR)
    await store.expire()
    await store.commit("w1", [], [(await claim(store, 0)).job])
    await bench.live(0.2 * HOUR)
    await store.expire()
    assert await status(store) == "running"
    await bench.live(0.1 * HOUR)
    await store.expire()
    assert (await status(store), (await counts(store)).expired) == ("completed", 10)


@pytest.mark.parametrize(("mode", "hours"), [("live", 24), ("provider-batch", 48)])
async def test_every_batch_has_a_deadline(bench: Bench, mode: str, hours: int) -> None:
    store = bench.store
    await make_batch(store, count=3, mode=mode)
    found = await store.find("team", "ba_1")
    assert found is not None
    assert found.deadline_hours == hours
    assert await store.claim(ChunkJob("ba_1", 0 if mode == "live" else COLLECT), "w1", LEASE) is not None
    await bench.live(hours * HOUR - 1)
    await store.expire()
    assert await status(store) == "running"
    await bench.live(1)
    await store.expire()
    assert (await status(store), (await counts(store)).expired) == ("completed", 3)
    assert await store.sweep(4, 1.0) == []


async def test_processes_that_end_a_batch_at_once_end_it_once(bench: Bench) -> None:
    store = bench.store
    await make_batch(store, count=25 * C, deadline_hours=1.0, relevance=OWN_MEAN)
    await claim(store, 0)
    await bench.live(HOUR)
    jobs = [job for told in await asyncio.gather(*(store.expire() for _ in range(3))) for job in told]
    assert jobs == [ChunkJob("ba_1", FINISH)]
    assert (await counts(store)).expired == 25 * C
    assert await status(store) == "running"
    await claim(store, FINISH)
    await store.complete("ba_1")
    assert await status(store) == "completed"


@pytest.mark.parametrize(("mode", "chunk"), [("live", 0), ("provider-batch", COLLECT)])
async def test_time_in_which_no_worker_lives_does_not_count(bench: Bench, mode: str, chunk: int) -> None:
    store = bench.store
    await make_batch(store, count=10, deadline_hours=1.0, mode=mode)
    assert await claim(store, chunk)
    await bench.live(0.5 * HOUR)
    bench.clock.move(60 * HOUR)
    # Before the first sign too: a job that was queued may be claimed at once.
    assert await store.claim(ChunkJob("ba_1", chunk), "w2", LEASE) is not None
    await store.expire()
    await bench.live(0.4 * HOUR)
    await store.expire()
    assert (await status(store), (await counts(store)).expired) == ("running", 0)
    await bench.live(0.2 * HOUR)
    await store.expire()
    assert (await status(store), (await counts(store)).expired) == ("completed", 10)


async def test_a_clock_that_jumps_counts_nothing(bench: Bench) -> None:
    store = bench.store
    await make_batch(store, count=10, deadline_hours=1.0)
    await claim(store, 0)
    for hours in (30, -60, 9000, -8000):
        await bench.live(10.0)
        bench.clock.move(hours * HOUR)
        await store.expire()
        assert await status(store) == "running"
    await store.pause("ba_1", "requested", words("…"))
    bench.clock.move(-5 * HOUR)
    await store.resume("team", "ba_1")
    await store.claim(ChunkJob("ba_1", 0), "w2", LEASE)
    await bench.live(HOUR - 41.0)
    await store.expire()
    assert await status(store) == "running"
    await bench.live(2.0)
    await store.expire()
    assert (await counts(store)).expired == 10


async def test_signs_of_several_workers_count_the_time_once(bench: Bench) -> None:
    ahead = BatchStore(bench.engine, clock=lambda: bench.clock() + timedelta(seconds=8))
    await make_batch(bench.store, count=10, deadline_hours=1 / 60)
    await claim(bench.store, 0)
    for _ in range(25):
        bench.clock.move(2.0)
        await ahead.expire()
        await bench.store.expire()
    assert await status(bench.store) == "running"
    for _ in range(6):
        bench.clock.move(2.0)
        await bench.store.expire()
    assert (await counts(bench.store)).expired == 10


# What waits


async def test_a_chunk_that_is_set_aside_makes_room_for_the_next(store: BatchStore) -> None:
    await make_batch(store, count=12 * C)
    jobs = await store.next_jobs("ba_1", 4)
    for job in jobs:
        assert await store.claim(job, "w1", LEASE) is not None
    assert await store.next_jobs("ba_1", 4) == []
    await store.set_aside(jobs[0], "w2")
    assert await store.next_jobs("ba_1", 4) == []
    for _ in range(2):
        await store.set_aside(jobs[0], "w1")
    assert await store.next_jobs("ba_1", 4) == [ChunkJob("ba_1", 4)]
    for job in [*jobs[1:], ChunkJob("ba_1", 4)]:
        await store.claim(job, "w1", LEASE)
        await store.set_aside(job, "w1")
    # It counts again once it went back.
    told = await store.commit("w1", [], [jobs[0]])
    assert told.ready == tuple(ChunkJob("ba_1", number) for number in (0, 5, 6, 7))


async def test_a_scored_candidate_is_found(store: BatchStore) -> None:
    await make_batch(store, count=5)
    work = await claim(store, 0)
    assert await store.find_scored("ba_1") is None
    await store.commit("w1", [fail(work, 0), finish(work, 3)], [])
    assert await store.find_scored("ba_1") == work.todo[3][1]
    assert await store.find_scored("ba_2") is None


async def test_a_candidate_of_which_something_is_unrated_is_found_too(store: BatchStore) -> None:
    # Some judges never rate one of the aspects: such a batch has no other candidates.
    await make_batch(store, count=5)
    work = await claim(store, 0)
    await store.commit("w1", [fail(work, 0), finish(work, 2, status="partial")], [])
    assert await store.find_scored("ba_1") == work.todo[2][1]


async def test_who_is_halted_is_found(store: BatchStore) -> None:
    for number in range(4):
        await make_batch(store, f"ba_{number}", count=1)
    jobs = [(await claim(store, 0, batch_id=f"ba_{number}")).job for number in range(4)]
    await store.pause("ba_1", "requested", words("…"))
    await store.cancel("team", "ba_2")
    await store.erase("team", "ba_3")
    told = await store.find_halted(jobs)
    assert told == Committed(lost=frozenset(jobs[3:]), stopped=frozenset(jobs[1:3]), cancelled=frozenset(jobs[2:3]))
    assert await store.find_halted([]) == Committed()


# What workers had begun


async def test_what_a_dead_worker_may_have_begun_is_counted_when_another_takes_over(bench: Bench) -> None:
    store = bench.store
    await make_batch(store, count=C)
    work = await store.claim(ChunkJob("ba_1", 0), "w1", LEASE, 4)
    assert work is not None
    await store.commit("w1", [finish(work, 0, cost_usd=0.5), finish(work, 1, cost_usd=0.25)], [], {work.job: 6})
    bench.clock.move(LEASE + 1)
    assert (await usage(store)).judge_calls == 2
    again = await store.claim(work.job, "w2", LEASE)
    assert again is not None
    found = await usage(store)
    assert (found.judge_calls, found.estimated_calls, found.prompt_tokens) == (8, 6, 80)
    assert found.cost_usd == pytest.approx(0.75 + 6 * 0.375)
    # Once, and not where the worker closes the chunk.
    await store.commit("w2", finish_all(again), [work.job], {work.job: 0})
    assert (await usage(store)).estimated_calls == 6
    assert (await usage(store)).judge_calls == 8 + C - 2


async def test_before_the_first_result_a_call_for_each_path_and_sample_is_counted(bench: Bench) -> None:
    store = bench.store
    judge = JudgeOptions(samples=3)
    await make_batch(store, count=C, unit_cost_usd=0.2, path="both", judge=judge, budget_usd=9.0)
    assert await store.claim(ChunkJob("ba_1", 0), "w1", LEASE, 2) is not None
    bench.clock.move(LEASE + 1)
    await claim(store, 0, "w2")
    found = await usage(store)
    assert (found.judge_calls, found.estimated_calls) == (12, 12)
    assert found.cost_usd == pytest.approx(2 * 0.2 / 3)


async def test_cached_replies_make_no_call_that_was_begun_cheaper(bench: Bench) -> None:
    store = bench.store
    await make_batch(store, count=C)
    work = await store.claim(ChunkJob("ba_1", 0), "w1", LEASE, 4)
    assert work is not None
    cached = [replace(finish(work, number), usage=Usage(cost_usd=0.0)) for number in range(1, 10)]
    await store.commit("w1", [finish(work, 0, cost_usd=0.5), *cached], [], {work.job: 6})
    bench.clock.move(LEASE + 1)
    await claim(store, 0, "w2")
    found = await usage(store)
    assert (found.judge_calls, found.estimated_calls, found.prompt_tokens) == (7, 6, 70)
    assert found.cost_usd == pytest.approx(7 * 0.5)


async def test_what_was_cut_off_is_counted_when_its_chunk_goes_back(store: BatchStore) -> None:
    await make_batch(store, count=C)
    work = await store.claim(ChunkJob("ba_1", 0), "w1", LEASE, 4)
    assert work is not None
    await store.commit("w1", [finish(work, 0)], [work.job], {work.job: 3})
    assert (await usage(store)).estimated_calls == 3
    await claim(store, 0, "w2")
    assert (await usage(store)).estimated_calls == 3


async def test_what_the_providers_batch_paid_for_is_not_counted_twice(bench: Bench) -> None:
    store = bench.store
    await make_batch(store, count=C, mode="provider-batch")
    await store.release_held_chunks("ba_1")
    assert await store.claim(ChunkJob("ba_1", 0), "w1", LEASE, 4) is not None
    bench.clock.move(LEASE + 1)
    await claim(store, 0, "w2")
    assert (await usage(store)).judge_calls == 0


async def test_the_newest_pairs_are_of_the_whole_store_whatever_came_since(store: BatchStore) -> None:
    async def post(batch_id: str, day: int, *, done: bool = True, project: str = "team", **options: Any) -> None:
        moment = START + timedelta(days=day)
        await make_batch(store, batch_id, 1, project=project, created_at=moment, **options)
        if done:
            await run_chunk(store, 0, batch_id)
            await store.complete(batch_id)

    for number, system in enumerate(("bot-a", "bot-b")):
        for day in (0, 1, 2):
            metadata = {"system": system, "build": str(day)}
            await post(f"ba_{system}_{day}", 3 * number + day, name="nightly", metadata=metadata)
    for day in range(10, 38):
        await post(f"ba_once_{day}", day, name=f"once {day}")
    for number, (name, rubric) in enumerate(
        [("plain", "ja-dialogue")] * 2 + [(None, "ja-dialogue")] * 2 + [("plain", "other")]
    ):
        await post(f"ba_other_{number}", 40 + number, name=name, rubric=rubric)
    await post("ba_open", 50, name="nightly", metadata={"system": "bot-a"}, done=False)
    await post("ba_theirs", 51, name="nightly", metadata={"system": "bot-a"}, project="rivals")

    async def pairs(limit: int = 9, **wanted: Any) -> list[tuple[str, str]]:
        found = await store.newest_pairs("team", BatchFilter(**wanted), limit=limit)
        return [(batch.id, before.id) for batch, before in found]

    bots = [(f"ba_{system}_2", f"ba_{system}_1") for system in ("bot-b", "bot-a")]
    assert await pairs() == [("ba_other_1", "ba_other_0"), *bots]
    assert await pairs(limit=1) == [("ba_other_1", "ba_other_0")]
    assert await pairs(name="nightly") == bots
    assert await pairs(metadata={"system": "bot-a"}) == bots[1:]
    assert await pairs(name="a\0") == []

    asked = ["ba_open", "ba_bot-b_2", "ba_bot-a_1", "ba_bot-a_0", "ba_other_1", "ba_other_3", "ba_other_4", "ba_theirs"]
    assert await store.befores("team", asked) == {
        "ba_open": "ba_bot-a_2",
        "ba_bot-b_2": "ba_bot-b_1",
        "ba_bot-a_1": "ba_bot-a_0",
        "ba_other_1": "ba_other_0",
    }
    assert await store.befores("team", []) == {}
