"""The judge's check: what is asked how often, what is held against what, and what is stored when."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten.core.messages import Message
from saiten_server.comparison.judge_checks.service import (
    ANCHORS_AT_ONCE,
    MOST_CALLS,
    MOST_CHECK_RUNS,
    RECORDED_FOR_ONE,
    RECORDED_RUNS,
    count_runs,
    load_anchors,
    make_key,
)
from saiten_server.comparison.judge_checks.values import AnchorRatings, JudgeCheck, JudgeCheckRequest, PooledDrift
from saiten_server.core.access import AuditEvent
from saiten_server.core.errors import (
    InvalidRequest,
    JudgeReplyInvalid,
    JudgeUnavailable,
    StoreUnavailable,
    UnknownRubric,
)
from saiten_server.core.evaluation import Unrated
from saiten_server.core.model import digest
from saiten_server.core.rubric import Rubric
from saiten_server.providers.ports import Judgement, JudgingTask, RequestScope
from tests.support.bench import KO, Bench, build_bench
from tests.support.fake_judge import FakeJudge, hash_opinion
from tests.support.faults import words

ANCHORS = load_anchors("ko-comment")
TEXTS = {anchor.response: number for number, anchor in enumerate(ANCHORS)}


async def check(bench: Bench, project: str = "team", scope: RequestScope | None = None, **options: Any) -> JudgeCheck:
    request = JudgeCheckRequest.model_validate({"rubric": "ko-comment", **options})
    return await bench.anchors.check(project, request, scope or RequestScope())


def shifted(share: float, by: Callable[[int], int | Unrated] = lambda rating: 1 - rating) -> Any:
    """The opinion of before, but on the first anchors, as many as `share` says, changed by `by` on `sympathy`."""

    def opinion(task: JudgingTask, aspect: Any, sample: int) -> int | Unrated:
        rating = hash_opinion(task, aspect, sample)
        if aspect.id != "sympathy" or TEXTS[task.dialogue.response] >= share * len(ANCHORS):
            return rating
        assert isinstance(rating, int)
        return by(rating)

    return opinion


async def test_the_first_check_stores_several_runs(bench: Bench) -> None:
    first = await check(bench)
    assert (first.verdict, first.judge, first.anchors, first.unrated) == ("recorded", "fake/fake-1", len(ANCHORS), 0)
    assert first.detail == Message("first-ratings-stored")
    assert (first.aspects, first.reference_at) == ({}, None)
    assert len(bench.judge.tasks) == RECORDED_RUNS * len(ANCHORS)
    assert {len(runs) for aspects in first.ratings.ratings.values() for runs in aspects.values()} == {RECORDED_RUNS}
    assert list(first.ratings.ratings) == [anchor.id for anchor in ANCHORS]
    for task in bench.judge.tasks:
        assert (task.rubric.id, task.language, task.lane) == ("ko-comment", "ko", "batch")


async def test_the_next_check_asks_as_often_and_finds_the_judge_steady(bench: Bench) -> None:
    first = await check(bench)
    bench.judge.tasks.clear()
    bench.tomorrow()
    second = await check(bench)
    assert len(bench.judge.tasks) == MOST_CHECK_RUNS * len(ANCHORS) <= MOST_CALLS
    assert (second.verdict, second.reference_at) == ("steady", first.ratings.at)
    total = 3 * len(ANCHORS)
    assert str(second.detail) == (
        f"the judge rates the anchors as on 2026-11-21: 0 of {total} ratings changed; a shift of 0.09 in any aspect would "
        "be found in at least 80% of all checks"
    )
    assert second.pooled == PooledDrift(p_shift=1, p_changed=1, moved=False)
    assert {drift.shift for drift in second.aspects.values()} == {0.0}
    assert second.ratings.at > first.ratings.at
    # What is stored stays: a judge that creeps must not take its measure along.
    bench.tomorrow()
    assert (await check(bench)).reference_at == first.ratings.at


async def test_a_judge_that_moved_on_one_aspect_is_found_and_the_aspect_is_named(bench: Bench) -> None:
    await check(bench)
    bench.judge.opinion = shifted(0.5)
    moved = await check(bench)
    assert moved.verdict == "moved"
    assert [name for name, drift in moved.aspects.items() if drift.moved] == ["sympathy"]
    assert str(moved.detail).startswith("the judge moved since 2026-11-21: sympathy (mean ")
    assert f"{len(ANCHORS) // 2} of {len(ANCHORS)} changed" in str(moved.detail)
    assert moved.aspects["sympathy"].changed == len(ANCHORS) // 2


async def test_a_judge_that_rates_no_more_has_moved(bench: Bench) -> None:
    await check(bench)
    bench.judge.opinion = shifted(1, lambda _: Unrated(reason="refused", detail=""))
    moved = await check(bench)
    assert (moved.verdict, moved.unrated, moved.aspects["sympathy"].lost) == ("moved", len(ANCHORS), len(ANCHORS))
    assert "no longer rated" in str(moved.detail)
    assert moved.aspects["sympathy"].undefined["shift"] == Message("no-anchor-rated-twice")


async def test_nothing_rated_is_not_stored(bench: Bench) -> None:
    opinion, bench.judge.opinion = bench.judge.opinion, lambda *_: Unrated(reason="refused", detail="")
    with pytest.raises(JudgeReplyInvalid, match="rated none"):
        await check(bench)
    bench.judge.opinion = opinion
    assert (await check(bench)).detail == Message("first-ratings-stored")


async def test_a_reference_in_the_request_is_used_rather_than_the_stored(bench: Bench) -> None:
    own = (await check(bench, "rivals")).ratings
    bench.judge.opinion = shifted(0.5)
    await check(bench)
    assert (await check(bench)).verdict == "steady"
    against = await check(bench, reference=own.model_dump())
    assert (against.verdict, against.reference_at) == ("moved", own.at)
    bench.judge.opinion = hash_opinion
    assert (await check(bench, reference=own.model_dump())).verdict == "steady"


async def test_a_reference_without_a_rating_is_no_measure(bench: Bench) -> None:
    own = (await check(bench)).ratings
    named = {anchor: dict.fromkeys(aspects, (None,)) for anchor, aspects in own.ratings.items()}
    for ratings in ({}, {"nobody": {"naturalness": (3,)}}, named):
        answer = await check(bench, reference={**own.model_dump(), "ratings": ratings})
        assert (answer.verdict, answer.detail) == ("recorded", Message("given-ratings-without-ratings"))
    # So small an alpha finds nothing, which is said.
    unseen = await check(bench, reference=own.model_dump(), alpha=0.0001)
    assert unseen.verdict == "steady"
    assert "at alpha 0.0001 this check finds no change" in str(unseen.detail)
    assert "would be found" not in str(unseen.detail)


async def test_a_reference_of_other_anchors_is_answered_with_ratings_to_keep(bench: Bench) -> None:
    stored = (await check(bench)).ratings
    bench.tomorrow()
    other = stored.model_copy(update={"anchors": "0" * 64}).model_dump()
    answer = await check(bench, reference=other)
    assert (answer.verdict, answer.aspects) == ("recorded", {})
    assert answer.detail == Message("given-ratings-of-other-anchors")
    assert (await check(bench, reference=answer.ratings.model_dump())).verdict == "steady"
    # What the service has stored is not the caller's file.
    assert (await check(bench)).reference_at == stored.at
    record = await check(bench, reference=other, record=True)
    assert (await check(bench)).reference_at == record.ratings.at


@pytest.mark.parametrize("changes", [{"judge": {"model": "fake-2"}}, {"judge": {"samples": 3}}, {"path": "english"}])
async def test_a_reference_of_a_judge_that_was_asked_otherwise_measures_nothing(
    bench: Bench, changes: dict[str, Any]
) -> None:
    reference = (await check(bench)).ratings.model_dump()
    if "path" in changes:
        reference["asked"] = "0" * 64  # there is no translator on the bench
        changes = {}
    answer = await check(bench, reference=reference, **changes)
    assert answer.verdict == "recorded"
    said = Message("given-ratings-of-other-judge", judge="fake/fake-1")
    assert answer.detail == said


async def test_stored_ratings_of_other_anchors_are_replaced(bench: Bench) -> None:
    key = make_key(KO, JudgeCheckRequest(rubric="ko-comment"), "fake/fake-1")
    first = (await check(bench)).ratings
    old = AnchorRatings.model_validate({**first.model_dump(), "anchors": "0" * 64})
    await bench.anchors.store.keep("team", key, old)
    again = await check(bench)
    assert (again.verdict, again.detail) == (
        "recorded",
        Message("stored-ratings-of-other-anchors"),
    )
    assert (await check(bench)).verdict == "steady"


async def test_record_stores_anew_on_request(bench: Bench) -> None:
    await check(bench)
    bench.judge.opinion = shifted(0.5)
    assert (await check(bench, record=True)).detail == Message("ratings-stored-as-asked")
    assert (await check(bench)).verdict == "steady"


@pytest.mark.parametrize(
    "options", [{"judge": {"model": "other"}}, {"judge": {"samples": 2}}, {"judge": {"explain": True}}]
)
async def test_a_judge_asked_in_another_way_is_another(bench: Bench, options: dict[str, Any]) -> None:
    await check(bench)
    assert (await check(bench, **options)).verdict == "recorded"
    assert (await check(bench)).verdict == "steady"
    assert (await check(bench, "rivals")).verdict == "recorded"


async def test_the_default_model_by_its_name_is_the_same_judge(bench: Bench) -> None:
    await check(bench)
    assert (await check(bench, judge={"model": "fake-1"})).verdict == "steady"


async def test_another_signature_is_told_beside_the_verdict(bench: Bench) -> None:
    own = (await check(bench)).ratings
    other = own.model_copy(update={"signature": own.signature.replace("model:fake-1", "model:fake-0")})
    answer = await check(bench, reference=other.model_dump())
    assert answer.signature_differences == {"model": ("fake-0", "fake-1")}


async def test_the_judges_error_is_raised_as_it_is_and_nothing_is_stored(bench: Bench) -> None:
    error = bench.judge.error = JudgeUnavailable(words("away"), retry_after_seconds=7)
    with pytest.raises(JudgeUnavailable) as caught:
        await check(bench)
    assert caught.value is error
    bench.judge.error = None
    assert (await check(bench)).verdict == "recorded"


async def test_rubrics_without_anchors_or_unknown_are_the_callers_fault(bench: Bench) -> None:
    with pytest.raises(InvalidRequest, match="no anchors for the rubric small") as caught:
        await check(bench, rubric="small")
    assert caught.value.pointer == "/rubric"
    with pytest.raises(UnknownRubric):
        await check(bench, rubric="nope")
    assert bench.judge.tasks == []


async def test_few_are_asked_at_a_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    running, peak, judge = 0, 0, FakeJudge.judge

    async def watch(self: FakeJudge, task: JudgingTask) -> Judgement:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0)
        running -= 1
        return await judge(self, task)

    monkeypatch.setattr(FakeJudge, "judge", watch)
    await check(bench)
    assert peak == ANCHORS_AT_ONCE


@pytest.mark.parametrize(
    ("asked", "stored", "checked"),
    [
        ({}, RECORDED_RUNS, 4),  # 32 anchors, one call each
        ({"judge": {"samples": 2}}, RECORDED_RUNS, 2),
        ({"path": "both"}, RECORDED_RUNS, 2),
        ({"judge": {"samples": 16}}, RECORDED_FOR_ONE, 1),
    ],
)
def test_a_check_asks_as_often_as_150_calls_allow(asked: dict[str, Any], stored: int, checked: int) -> None:
    request = JudgeCheckRequest.model_validate({"rubric": "ko-comment", **asked})
    assert count_runs(KO, len(ANCHORS), request, check=False) == stored
    assert count_runs(KO, len(ANCHORS), request, check=True) == checked


def test_ratings_that_the_first_release_stored_are_still_found() -> None:
    options = {"expected": False, "explain": False, "samples": 1}
    stored_under = digest([KO.id, KO.digest, "source", "fake/fake-1", options])
    assert make_key(KO, JudgeCheckRequest(rubric="ko-comment"), "fake/fake-1") == stored_under
    screening = JudgeCheckRequest.model_validate({"judge": {"screen": True}})
    assert make_key(KO, screening, "fake/fake-1") != stored_under


async def test_a_version_of_a_rubric_is_asked_the_anchors_of_its_id(sqlite_engine: AsyncEngine) -> None:
    newer = Rubric.model_validate_json(json.dumps(json.loads(KO.model_dump_json()) | {"version": KO.version + 1}))
    bench = build_bench(sqlite_engine, newer)
    first = await check(bench, rubric=f"ko-comment@{KO.version}")
    assert {task.rubric.version for task in bench.judge.tasks} == {KO.version}
    assert (first.verdict, first.anchors) == ("recorded", len(ANCHORS))
    other = await check(bench)  # the newest: another measure, which is stored beside the first
    assert other.verdict == "recorded"
    assert "nothing was stored of this judge yet" in str(other.detail)
    assert (await check(bench, rubric=f"ko-comment@{KO.version}")).verdict == "steady"


async def test_only_ratings_that_replace_others_are_noted_with_who_did_so(bench: Bench) -> None:
    first = await check(bench)
    await check(bench, "rivals")
    assert await bench.audit.events(None, before=None, limit=9) == []
    bench.tomorrow()
    await check(bench, record=True, scope=RequestScope(actor="key_1"))
    [event] = await bench.audit.events(None, before=None, limit=9)
    assert (event.at, event.project, event.actor, event.target) == (bench.now(), "team", "key_1", "ko-comment")
    assert event.action == "judge-reference.replaced"
    assert event.detail["before"] == first.ratings.at.isoformat()


async def test_a_log_that_fails_fails_the_check(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: AuditEvent) -> None:
        raise StoreUnavailable(words("away"))

    await check(bench)
    monkeypatch.setattr(bench.audit, "note", fail)
    with pytest.raises(StoreUnavailable):
        await check(bench, record=True)
