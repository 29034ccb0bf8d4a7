"""A chunk's candidates: side by side, delivered one by one; what pauses the batch; and how suspects are tried again."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from saiten_server.core.errors import JudgeQuotaExhausted, JudgeRefusedRequest, JudgeUnavailable, StoreUnavailable
from saiten_server.core.evaluation import Unrated
from saiten_server.platform.flow_state import FlowLimits
from saiten_server.providers.flow_control import open_local_flow
from saiten_server.providers.ports import Judgement, JudgingTask, RequestScope
from saiten_server.runs.attempt import MAX_FAILED_ROUNDS, MOST_REFUSED, make_example
from saiten_server.runs.chunk import DEAD_LETTER, MOST_TRIES, BudgetReservation
from saiten_server.runs.commits import LeasedChunk
from saiten_server.runs.work import ChunkJob, Work
from saiten_server.scoring.rubrics.files import RubricFiles, default_folder
from tests.support.batches import LEASE, claim
from tests.support.faults import words
from tests.support.small_rubrics import joint_rubric
from tests.support.worker_bench import OWNER, Bench, HeldJudge, turns


def names(*positions: int) -> list[str]:
    return [f"返事 {position}" for position in positions]


def hold_judge(bench: Bench) -> HeldJudge:
    bench.judge.holds = True
    return bench.judge


async def free_places(bench: Bench) -> int:
    """How many may be begun before one has to wait."""
    places, taken = bench.context.places, 0
    while not places.locked():
        await places.acquire()
        taken += 1
    for _ in range(taken):
        places.release()
    return taken


async def begin(bench: Bench, count: int = 12, **options: Any) -> tuple[asyncio.Task[None], LeasedChunk]:
    await bench.post(count, **options)
    work, leased = await bench.lease()
    return bench.begin(work, leased), leased


async def test_as_many_side_by_side_as_there_are_places(bench: Bench) -> None:
    judge = hold_judge(bench)
    run, _ = await begin(bench, 12)
    await turns()
    assert judge.held == names(*range(8))
    judge.let_go("返事 3")
    await turns()
    assert bench.store.statuses() == {3: "scored"}
    assert judge.held == names(0, 1, 2, 4, 5, 6, 7, 8)
    judge.let_all_go()
    await run
    assert bench.store.statuses() == dict.fromkeys(range(12), "scored")
    assert bench.store.look().status == "completed"
    assert not bench.context.places.locked()


async def test_others_are_asked_while_results_wait_for_their_commit(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as may be in hand; beyond that the judge waits for the store."""
    stored, plain = asyncio.Event(), bench.store.commit

    async def commit(*arguments: Any) -> Any:
        await stored.wait()
        return await plain(*arguments)

    monkeypatch.setattr(bench.store, "commit", commit)
    judge = hold_judge(bench)
    run, leased = await begin(bench, 30)
    await turns()
    for asked in (range(8), range(8, 16)):
        assert judge.held == names(*asked)
        judge.let_go(*names(*asked))
        await turns()
    assert judge.held == []
    assert len(leased.tasks) == 16
    assert bench.store.statuses() == {}
    judge.holds = False
    stored.set()
    await run
    assert bench.store.statuses() == dict.fromkeys(range(30), "scored")
    assert await free_places(bench) == 8


async def test_each_result_is_counted_once_and_with_its_reason(bench: Bench) -> None:
    bench.judge.errors["返事 1"] = JudgeRefusedRequest(words("too long"))
    run, _ = await begin(bench, 3)
    await run
    counted = [told[1:] for told in bench.telemetry.told if told[0] == "batch_item"]
    assert sorted(counted) == [("failed", "judge-refused-request"), ("scored", ""), ("scored", "")]


async def test_unrated_responses_are_results_and_fail_nothing(bench: Bench) -> None:
    bench.judge.opinion = lambda *_: Unrated(reason="missing", detail="it left it out")
    run, _ = await begin(bench, 3)
    await run
    counted = [told[1:] for told in bench.telemetry.told if told[0] == "batch_item"]
    assert counted == [("failed", "judge-reply-invalid")] * 3
    assert bench.store.statuses() == {0: "failed", 1: "failed", 2: "failed"}
    assert bench.store.look().status == "completed"


async def test_a_spent_quota_pauses_the_batch_and_nobody_is_asked_any_more(bench: Bench) -> None:
    judge = hold_judge(bench)
    judge.errors["返事 0"] = JudgeQuotaExhausted(words("the quota is used up"))
    run, leased = await begin(bench, 40)
    await turns()
    judge.let_go("返事 0")
    await turns()
    kept = bench.store.look()
    assert (kept.status, kept.pause) == ("paused", ("judge-quota-exhausted", "the quota is used up"))
    assert leased.stopped
    # The place that came free is nobody's.
    assert judge.held == names(*range(1, 8))
    judge.let_all_go()
    await run
    # What was in hand is kept: it is paid for. The refused one has no result, and is asked again after a resume.
    assert judge.judged[0] == "返事 0"
    assert sorted(judge.judged) == names(*range(8))
    assert bench.store.statuses() == dict.fromkeys(range(1, 8), "scored")
    assert bench.store.look().chunks[0].state == "waiting"


async def test_a_candidate_that_comes_late_does_not_undo_a_resume(bench: Bench) -> None:
    judge = hold_judge(bench)
    judge.errors |= dict.fromkeys(names(0, 1), JudgeQuotaExhausted(words("the quota is used up")))
    run, _ = await begin(bench, 40)
    await turns()
    judge.let_go("返事 0")
    await turns()
    assert bench.store.look().status == "paused"
    await bench.store.resume("team", "ba_1")
    judge.let_all_go()
    await run
    # The second one goes back with the chunk.
    assert bench.store.look().status != "paused"
    assert set(bench.store.statuses()) == set(range(2, 8))


async def test_a_pause_stops_the_other_chunks_of_the_batch_too(bench: Bench) -> None:
    judge = hold_judge(bench)
    judge.errors["返事 0"] = JudgeQuotaExhausted(words("the quota is used up"))
    run, _ = await begin(bench, 40)
    others = [bench.buffer.add(ChunkJob(batch, 7)) for batch in ("ba_1", "ba_2")]
    await turns()
    judge.let_go("返事 0")
    await turns()
    assert [leased.stopped for leased in others] == [True, False]
    judge.let_all_go()
    await run


async def test_what_was_on_its_way_when_the_account_was_refused_calls_nobody_and_a_resume_does(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, plain = open_local_flow(FlowLimits(8)), bench.judge.judge
    refusal, called = JudgeQuotaExhausted(words("the quota is used up")), list[str]()

    async def judge(task: JudgingTask) -> Judgement:
        if task.dialogue.response != "返事 0":
            await turns()  # a cache is asked first
        async with flow.passage(lane=task.lane, max_wait_seconds=10, scope=task.scope) as call:
            called.append(task.dialogue.response)
            if len(called) == 1:
                flow.turn_away(refusal)
                raise refusal
            call.succeeded()
            return await plain(task)

    monkeypatch.setattr(bench.judge, "judge", judge)
    run, _ = await begin(bench, 40)
    await run
    assert (called, bench.store.statuses()) == (["返事 0"], {})
    await bench.store.resume("team", "ba_1")
    await bench.begin(*await bench.lease())
    assert bench.store.statuses() == dict.fromkeys(range(40), "scored")


async def test_a_judge_that_refuses_every_candidate_pauses_the_batch(bench: Bench) -> None:
    for position in range(40):
        bench.judge.errors[f"返事 {position}"] = JudgeRefusedRequest(words("no such model"))
    run, _ = await begin(bench, 40)
    await run
    kept = bench.store.look()
    assert kept.status == "paused"
    assert kept.pause[0] == "judge-refused-request"
    assert "no such model" in str(kept.pause[1])
    # Those before it count as refused; those in hand at the pause, too.
    assert len(bench.judge.tasks) < MOST_REFUSED + 8


async def test_a_judge_that_took_one_refuses_the_others_for_themselves(bench: Bench) -> None:
    for position in range(1, 20):
        bench.judge.errors[f"返事 {position}"] = JudgeRefusedRequest(words("too long"))
    run, _ = await begin(bench, 20)
    await run
    assert bench.store.statuses() == {0: "scored"} | dict.fromkeys(range(1, 20), "judge-refused-request")
    assert bench.store.look().status == "completed"


async def test_no_more_is_begun_than_the_budget_was_reserved_for(bench: Bench) -> None:
    run, _ = await begin(bench, 10, budget_usd=0.35, unit_cost_usd=0.1)
    await run
    assert bench.judge.judged == names(0, 1, 2)
    assert bench.store.statuses() == dict.fromkeys(range(3), "scored")
    assert bench.store.look().chunks[0].state in {"waiting", "queued"}


async def test_once_stopped_nothing_new_is_begun_and_the_lease_goes_back(bench: Bench) -> None:
    judge = hold_judge(bench)
    run, leased = await begin(bench, 12)
    await turns()
    leased.stop()
    judge.let_all_go()
    await run
    assert sorted(judge.judged) == names(*range(8))
    chunk = bench.store.look().chunks[0]
    assert (chunk.owner, chunk.crashes) == (None, 0)
    # Handed back, it is nobody's suspect, and the rest is done by whoever comes.
    again = await claim(bench.store, 0, "w2")
    assert [entry.position for entry, _ in again.todo] == [8, 9, 10, 11]
    assert not again.suspect


async def test_a_lost_chunk_cancels_its_calls_and_frees_its_places(bench: Bench) -> None:
    judge = hold_judge(bench)
    run, leased = await begin(bench, 12)
    await turns()
    leased.lose()
    await run
    assert sorted(judge.cancelled) == names(*range(8))
    assert bench.store.statuses() == {}
    assert await free_places(bench) == 8


async def test_a_run_that_is_cut_off_leaves_nothing_behind(bench: Bench) -> None:
    """While it waits for a place, and while it waits for what is in hand."""
    for count in (12, 4):
        judge = hold_judge(bench)
        batch_id = f"ba_{count}"
        await bench.post(count, batch_id)
        work, leased = await bench.lease(batch_id=batch_id)
        run = bench.begin(work, leased)
        await turns()
        leased.cut_off()
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        assert judge.held == []
        assert await free_places(bench) == 8
        assert bench.store.look(batch_id).chunks[0].owner is None


async def test_an_error_of_the_store_ends_the_chunk_and_is_raised(bench: Bench) -> None:
    async def fail(*_: object) -> None:
        raise StoreUnavailable(words("gone"))

    bench.store.pause = fail  # type: ignore[method-assign, assignment]
    bench.judge.errors["返事 0"] = JudgeQuotaExhausted(words("used up"))
    run, leased = await begin(bench, 40)
    with pytest.raises(StoreUnavailable):
        await run
    assert leased.stopped
    assert bench.store.look().status == "running"
    assert bench.store.look().chunks[0].owner is None


async def crash(bench: Bench, owner: str, marked: Sequence[int] = ()) -> None:
    """A worker takes the chunk, marks where it has to, and dies."""
    work = await claim(bench.store, 0, owner)
    for position in marked:
        await bench.store.mark(work.job, owner, position)
    await bench.time.move(LEASE + 1)


async def take_over(bench: Bench) -> tuple[Work, LeasedChunk]:
    work = await bench.store.claim(ChunkJob("ba_1", 0), OWNER, LEASE)
    assert work is not None
    return work, bench.buffer.add(work.job)


async def test_candidates_of_a_suspect_chunk_are_marked_before_they_are_begun(bench: Bench) -> None:
    judge = hold_judge(bench)
    await bench.post(12)
    await crash(bench, "w0")
    work, leased = await take_over(bench)
    assert work.suspect
    run = bench.begin(work, leased)
    await turns()
    # Nobody was marked before: they go side by side.
    assert judge.held == names(*range(8))
    assert bench.store.look().tries == dict.fromkeys(range(8), 1)
    judge.let_all_go()
    await run
    assert bench.store.look().tries == dict.fromkeys(range(12), 1)
    assert bench.store.look().status == "completed"


async def test_who_is_not_suspected_is_not_marked(bench: Bench) -> None:
    run, _ = await begin(bench, 12)
    await run
    assert bench.store.look().tries == {}


async def test_suspects_come_last_the_least_tried_first_and_one_at_a_time(bench: Bench) -> None:
    judge = hold_judge(bench)
    await bench.post(6)
    await crash(bench, "w0", marked=[1, 3])
    await crash(bench, "w9", marked=[1, 4])
    work, leased = await take_over(bench)
    assert work.tries == {1: 2, 3: 1, 4: 1}
    run = bench.begin(work, leased)
    await turns()
    assert (judge.held, leased.fed) == (names(0, 2, 5), False)
    judge.let_go()
    for position in (3, 4, 1):
        await turns()
        assert judge.held == names(position)
        judge.let_go()
    await run
    assert leased.fed
    assert bench.store.statuses() == dict.fromkeys(range(6), "scored")


async def test_two_chunks_try_one_suspect_at_a_time_between_them(bench: Bench) -> None:
    judge = hold_judge(bench)
    runs = []
    for batch_id in ("ba_1", "ba_2"):
        await bench.post(2, batch_id)
        work = await claim(bench.store, 0, "w0", batch_id)
        await bench.store.mark(work.job, "w0", 0)
    await bench.time.move(LEASE + 1)
    for batch_id in ("ba_1", "ba_2"):
        work = await claim(bench.store, 0, OWNER, batch_id)
        runs.append(bench.begin(work, bench.buffer.add(work.job)))
    seen = []
    while not all(run.done() for run in runs):
        await turns()
        seen.append(len(judge.held))
        judge.let_go()
    # First the two that are not suspected, side by side; then one suspect after the other.
    assert seen[:3] == [2, 1, 1]
    assert judge.judged == names(1, 1, 0, 0)


@pytest.mark.parametrize("tried", [MOST_TRIES - 1, MOST_TRIES])
async def test_after_so_many_tries_a_suspect_is_given_up_without_another_call(bench: Bench, tried: int) -> None:
    await bench.post(3)
    for number in range(tried):
        await crash(bench, f"w{10 + number}", marked=[1])
    work, leased = await take_over(bench)
    await bench.begin(work, leased)
    given_up = tried == MOST_TRIES
    assert bench.store.statuses() == {0: "scored", 1: DEAD_LETTER if given_up else "scored", 2: "scored"}
    assert bench.judge.judged == names(0, 2) if given_up else names(0, 2, 1)
    failure = bench.store.failures()[1]
    assert failure is None or "3 workers died" in failure.detail
    assert bench.store.look().status == "completed"


async def test_a_suspect_that_waits_keeps_the_others_out(bench: Bench) -> None:
    """One that only waits for its judge may still be the culprit."""
    await bench.post(3)
    await crash(bench, "w0", marked=[0, 1, 2])
    bench.judge.outage = JudgeUnavailable(words("down"))
    work, leased = await take_over(bench)
    run = bench.begin(work, leased)
    await bench.time.move(5)
    assert set(bench.judge.judged) & set(names(*range(3))) == {"返事 0"}
    bench.judge.outage = None
    await bench.time.move(10)
    await bench.time.move_until(run)
    assert bench.store.statuses() == dict.fromkeys(range(3), "scored")


# Candidates that the judge always fails


def fail_for_ever(bench: Bench, *positions: int) -> None:
    bench.judge.errors |= dict.fromkeys(names(*positions), JudgeUnavailable(words("it fails")))


@pytest.mark.parametrize("bench", [{"places": 2}], indirect=True)
async def test_candidates_that_wait_hold_no_place_that_others_need(bench: Bench) -> None:
    fail_for_ever(bench, 0, 1, 2)
    run, _ = await begin(bench, 12)
    await turns(400)
    # No time has gone by: those in trouble still wait for their second round.
    assert bench.store.statuses() == dict.fromkeys(range(3, 12), "scored")
    await bench.time.move(30)
    await bench.time.move_until(run)
    assert bench.store.statuses() == dict.fromkeys(range(3), "judge-unavailable") | dict.fromkeys(
        range(3, 12), "scored"
    )
    assert await free_places(bench) == 2


async def test_the_last_candidates_fail_by_probes_that_are_on_the_bill(bench: Bench) -> None:
    fail_for_ever(bench, 2)
    run, _ = await begin(bench, 3)
    await bench.time.move(30)
    await bench.time.move_until(run)
    assert bench.store.statuses() == {0: "scored", 1: "scored", 2: "judge-unavailable"}
    assert bench.store.look().status == "completed"
    asked = Counter(bench.judge.judged)
    # Rounds before the others are served count for nothing: the more of them, the longer the store takes.
    assert asked["返事 2"] >= MAX_FAILED_ROUNDS
    probes = asked.total() - asked["返事 2"] - 2
    assert 1 <= probes <= MAX_FAILED_ROUNDS
    assert bench.store.look().judge_calls == 2 + probes


async def test_candidates_fail_where_none_of_the_batch_was_ever_scored(bench: Bench) -> None:
    """The judge serves an example of the rubric, so there is no outage."""
    fail_for_ever(bench, 0, 1)
    run, _ = await begin(bench, 2)
    await bench.time.move(60)
    await bench.time.move_until(run)
    assert bench.store.statuses() == {0: "judge-unavailable", 1: "judge-unavailable"}
    assert bench.store.look().status == "completed"
    probes = [response for response in bench.judge.judged if response not in names(0, 1)]
    assert 1 <= len(probes) <= MAX_FAILED_ROUNDS
    assert bench.store.look().judge_calls == len(probes)


def test_an_example_to_probe_with_is_in_the_rubrics_language() -> None:
    shipped = RubricFiles([default_folder()]).get("ko-comment")
    wanted = shipped.aspects[0].levels[0].example
    assert wanted is not None
    assert make_example(shipped).response == wanted["ko"].response
    full = joint_rubric()
    levels = [level.model_copy(update={"example": None}) for level in full.aspects[0].levels]
    bare = full.model_copy(update={"aspects": (full.aspects[0].model_copy(update={"levels": levels}),)})
    assert make_example(bare).response == bare.title["ja"]


async def test_a_probe_that_outlasts_its_chunk_ends(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    turn, calls = asyncio.Event(), list[str]()

    async def probe(_work: Work, _candidate: object, _tools: object, scope: RequestScope) -> None:
        await turn.wait()
        assert scope.announce is None
        calls.append("made")

    monkeypatch.setattr("saiten_server.runs.chunk.probe_with", probe)
    fail_for_ever(bench, 2)
    run, leased = await begin(bench, 3)
    await bench.time.move(9)
    leased.stop()
    await bench.time.move(9)
    await bench.time.move_until(run)
    turn.set()
    await turns()
    # Else it would wait for ever, and no other probe could be sent.
    assert calls == ["made"]


async def test_in_an_outage_of_everything_nobody_fails_and_probes_are_few(bench: Bench) -> None:
    run, _ = await begin(bench, 12)
    await run
    await bench.post(12, "ba_2")
    work, leased = await bench.lease(batch_id="ba_2")
    bench.judge.outage = JudgeUnavailable(words("it fails"))
    run = bench.begin(work, leased)
    await bench.time.move(200)
    assert bench.store.statuses("ba_2") == {}
    bench.judge.outage = None
    await bench.time.move(9)
    await bench.time.move_until(run)
    assert bench.store.statuses("ba_2") == dict.fromkeys(range(12), "scored")


async def test_a_chunk_with_nothing_but_trouble_left_makes_room_for_the_next(bench: Bench) -> None:
    fail_for_ever(bench, 0)
    run, _ = await begin(bench, 60)
    await turns(400)
    assert len(bench.store.statuses()) == 39
    await bench.time.move(2)
    assert bench.store.look().chunks[0].set_aside
    await bench.time.move(30)
    await bench.time.move_until(run)
    assert not bench.store.look().chunks[0].set_aside
    assert bench.store.statuses()[0] == "judge-unavailable"


async def test_a_candidate_that_waits_when_its_chunk_is_stopped_is_not_tried_again(bench: Bench) -> None:
    fail_for_ever(bench, 0)
    run, leased = await begin(bench, 1)
    await turns()
    leased.stop()
    await bench.time.move(9)
    await bench.time.move_until(run)
    assert bench.judge.judged.count("返事 0") == 1
    assert bench.store.look().chunks[0].owner is None


@pytest.mark.parametrize("bench", [{"ahead": 6}], indirect=True)
async def test_no_more_is_begun_than_the_store_knows_of(bench: Bench) -> None:
    judge = hold_judge(bench)
    await bench.post(30)
    work, leased = await bench.lease()
    bench.store.gate.clear()
    run = bench.begin(work, leased)
    await turns()
    assert judge.held == names(0, 1)
    bench.store.gate.set()
    await turns()
    assert judge.held == names(*range(8))
    assert bench.store.look().chunks[0].begun >= 8
    judge.let_all_go()
    await run
    assert bench.store.statuses() == dict.fromkeys(range(30), "scored")
    assert bench.store.look().chunks[0].begun == 0
    assert bench.store.look().estimated_calls == 0


def test_without_a_budget_everything_may_begin() -> None:
    reservation = BudgetReservation(1, None)
    assert all(reservation.begin() for _ in range(100))
    reservation.end(None)
    assert reservation.begin()


def test_as_many_begin_as_were_reserved_for() -> None:
    # 3 x 0.1 in binary is a little more than 0.3: none is lost to that.
    reservation = BudgetReservation(3, 0.1)
    assert [reservation.begin() for _ in range(4)] == [True, True, True, False]


def test_what_was_cheaper_than_reckoned_leaves_room() -> None:
    reservation = BudgetReservation(2, 0.2)
    reservation.begin()
    reservation.end(0.05)
    # 0.4 - 0.05 are left: one at 0.2 fits, two do not.
    assert [reservation.begin(), reservation.begin()] == [True, False]


def test_what_was_dearer_is_what_the_next_are_reckoned_with() -> None:
    reservation = BudgetReservation(4, 0.1)
    reservation.begin()
    reservation.end(0.3)
    # 0.4 - 0.3 = 0.1 is left, and the next may cost 0.3 too.
    assert not reservation.begin()


def test_an_unknown_cost_ends_it() -> None:
    reservation = BudgetReservation(4, 0.0)
    reservation.begin()
    reservation.end(None)
    assert not reservation.begin()


def test_what_costs_nothing_has_no_bound() -> None:
    reservation = BudgetReservation(2, 0.0)
    assert all(reservation.begin() for _ in range(10))
