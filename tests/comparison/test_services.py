"""What callers ask of scores, over fakes: the right results and ratings in, everything of others' left out."""

import asyncio
import threading
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten.core.messages import Message
from saiten_server.analyses.requests import REQUESTS, AgreementRequest, AnalysisRequest
from saiten_server.comparison.requests import ComparisonRequest, GateRequest
from saiten_server.comparison.service import COMPARISONS_AT_ONCE
from saiten_server.comparison.values import GateRule
from saiten_server.core.errors import (
    InvalidLines,
    InvalidRequest,
    JudgeUnavailable,
    NotFound,
    SignatureMismatch,
    UnknownAspect,
)
from saiten_server.core.evaluation import JudgeOptions
from saiten_server.core.giving_up import checkpoint
from saiten_server.core.reliability import UNVALIDATED, AspectValidation, Validation
from saiten_server.ratings.reliability import key_in
from saiten_server.ratings.values import Exclusion, HumanRating, RatingFilter
from tests.support.bench import KO, Bench, build_bench
from tests.support.fake_rubrics import aspect_data, small_rubric
from tests.support.faults import said, words
from tests.support.scored_batches import SIGNATURE, score_batch
from tests.support.waiting import LIMIT_SECONDS

KO_SIGNATURE = f"saiten:1|rubric:ko-comment@1|digest:{KO.digest[:12]}|judge:fake|model:fake-1|path:source"
WARMTH = [0, 1, 1, 0, 1, 0]
CLARITY = [1, 2, 3, 3, 2, 1]


def ask(name: str, **given: Any) -> AnalysisRequest:
    return REQUESTS[name].model_validate(given)


def rating(item: str | None, rater: str = "r1", **changes: Any) -> HumanRating:
    return HumanRating.model_validate({"item": item, "rater": rater, "ratings": {"warmth": 1}, **changes})


async def rate_batch(bench: Bench, batch_id: str = "ba_1", **more: list[float]) -> None:
    """Two raters rate every item of the columns as the judge did, but for the last, of which they think the contrary."""
    columns: dict[str, list[float]] = {"warmth": [*WARMTH[:-1], 1], "clarity": [*CLARITY[:-1], 3], **more}
    given = [
        rating(f"item-{at}", rater, batch=batch_id, ratings={name: column[at] for name, column in columns.items()})
        for at in range(len(WARMTH))
        for rater in ("r1", "r2")
    ]
    await bench.rating.keep_ratings("team", given)


async def test_ratings_go_in_and_out_within_a_project(bench: Bench) -> None:
    await bench.rating.keep_ratings("team", [rating("a"), rating("b")])
    kept = await bench.rating.list_ratings("team", RatingFilter(item="b"), after=-1, limit=9)
    assert [(one.item, one.created_at) for _, one in kept] == [("b", bench.now.now)]
    assert await bench.rating.remove_ratings("rivals", RatingFilter(rater="r1")) == 0
    assert await bench.rating.remove_ratings("team", RatingFilter(rater="r1")) == 2


@pytest.mark.parametrize(
    ("ratings", "expected"),
    [
        ({"warmth": 2}, "/ratings/warmth: 2 is off its scale from 0 to 1"),
        ({"clarity": 0.5}, "/ratings/clarity: 0.5 is off its scale from 1 to 3"),
        ({"charity": 1}, "/ratings/charity: the rubric has no such aspect; did you mean 'clarity'?"),
        ({"mood": 1}, "/ratings/mood: the rubric has no such aspect"),
    ],
)
async def test_a_rating_of_a_batch_must_fit_its_rubric(bench: Bench, ratings: dict[str, float], expected: str) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": WARMTH})
    given = [rating("item-0", batch="ba_1"), rating("item-1", batch="ba_1", ratings=ratings)]
    with pytest.raises(InvalidLines) as caught:
        await bench.rating.keep_ratings("team", given)
    assert said(caught.value.faults) == [(2, expected)]
    assert await bench.rating.list_ratings("team", RatingFilter(), after=-1, limit=9) == []
    # Of an item alone nobody knows by which rubric it will be scored.
    await bench.rating.keep_ratings("team", [rating("item-1", ratings=ratings)])


async def test_a_value_between_two_levels_and_a_composite_fit(sqlite_engine: AsyncEngine) -> None:
    rubric = small_rubric("mixed", composites=[{"id": "both", "kind": "mean", "of": ["warmth", "clarity"]}])
    bench = build_bench(sqlite_engine, rubric)
    await score_batch(bench.batches, "ba_1", {"warmth": [0]}, rubric="mixed")
    kept = await bench.rating.keep_ratings(
        "team", [rating("item-0", batch="ba_1", ratings={"warmth": 0.5, "both": 2.0})]
    )
    assert kept.added == 1
    with pytest.raises(InvalidLines, match=r"2\.1 is off its scale from 0\.5 to 2"):
        await bench.rating.keep_ratings("team", [rating("item-0", batch="ba_1", ratings={"both": 2.1})])


async def test_ratings_of_very_many_batches_come_in_parts(bench: Bench) -> None:
    given = [rating("a", batch=f"ba_{number}") for number in range(1001)]
    with pytest.raises(InvalidRequest, match="ratings of 1,001 batches; send at most 1,000"):
        await bench.rating.keep_ratings("team", given)
    with pytest.raises(NotFound):
        await bench.rating.keep_ratings("team", given[:1000])


async def test_data_is_analysed_without_any_batch(bench: Bench) -> None:
    records = [{"item": str(n), "rater": r, "ratings": {"x": n}} for n in range(4) for r in ("r1", "r2")]
    report: Any = await bench.comparison.analyse("team", ask("agreement", data=records))
    assert report.aspects["x"].pearson == pytest.approx(1)
    with pytest.raises(InvalidLines, match="record 2: unknown aspect 'y'"):
        await bench.comparison.analyse(
            "team", ask("agreement", aspects=["x"], data=[records[0], {"item": "a", "ratings": {"y": 1}}])
        )
    with pytest.raises(InvalidRequest, match="give data, or a batch"):
        await bench.comparison.analyse("team", AgreementRequest())


async def test_a_batch_is_correlated_with_the_ratings_of_its_items(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": WARMTH, "clarity": CLARITY}, blend=0.25)
    await score_batch(bench.batches, "ba_2", {"warmth": WARMTH})
    await rate_batch(bench)
    await rate_batch(bench, "ba_2")
    report: Any = await bench.comparison.analyse("team", ask("correlation", batch="ba_1"))
    clarity = report.aspects["clarity"]
    assert (clarity.n, clarity.score_mean, clarity.rating_mean) == (6, pytest.approx(2), pytest.approx(14 / 6))
    # What is blended is held against the same opinions; a constant more changes no correlation.
    blended = report.aspects["clarity.blended"]
    assert blended.spearman == pytest.approx(clarity.spearman)
    assert blended.bias == pytest.approx(clarity.bias + 0.25)


@pytest.mark.parametrize("name", ["agreement", "correlation", "hierarchy", "blend-fit", "win-rates"])
async def test_every_analysis_of_a_batch_may_name_its_rubric_and_no_other(bench: Bench, name: str) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": WARMTH, "clarity": CLARITY}, blend=0.25, systems="ababab")
    await rate_batch(bench)
    more = {"aspect": "clarity", "folds": 2} if name == "blend-fit" else {}
    plain = await bench.comparison.analyse("team", ask(name, batch="ba_1", **more))
    assert await bench.comparison.analyse("team", ask(name, batch="ba_1", rubric="small", **more)) == plain
    with pytest.raises(InvalidRequest, match="was scored by the rubric small") as caught:
        await bench.comparison.analyse("team", ask(name, batch="ba_1", rubric="ko-comment", **more))
    assert caught.value.pointer == "/rubric"


async def test_aspects_choose_from_a_batch(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": WARMTH, "clarity": CLARITY}, blend=0.25)
    await rate_batch(bench)
    report: Any = await bench.comparison.analyse("team", ask("correlation", batch="ba_1", aspects=["clarity"]))
    assert list(report.aspects) == ["clarity"]
    with pytest.raises(UnknownAspect, match="'mood' has no rating here") as caught:
        await bench.comparison.analyse("team", ask("agreement", batch="ba_1", aspects=["clarity", "mood"]))
    assert caught.value.pointer == "/aspects/1"


async def test_an_aspect_that_one_rater_of_one_item_added_stops_no_analysis(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": WARMTH, "clarity": CLARITY})
    await rate_batch(bench)
    await bench.rating.keep_ratings("team", [rating("item-0", "r3", ratings={"mood": 9})])
    report: Any = await bench.comparison.analyse("team", ask("agreement", batch="ba_1"))
    assert set(report.aspects) == {"warmth", "clarity", "mood"}


async def test_a_composite_is_fitted_on_the_ratings_of_a_batch_that_has_composites(sqlite_engine: AsyncEngine) -> None:
    names = ("formality", "amount", "acceptability")
    rubric = small_rubric(
        "answers",
        aspects=[aspect_data(name, range(6)) for name in names],
        composites=[{"id": "sum", "kind": "linear", "terms": [{"aspect": n, "weight": 1} for n in names[:2]]}],
    )
    bench = build_bench(sqlite_engine, rubric)
    await score_batch(bench.batches, "ba_1", {name: [0] * 36 for name in names}, rubric="answers")
    given = [
        rating(
            f"item-{at}",
            batch="ba_1",
            ratings={"formality": at % 6, "amount": at // 6, "acceptability": 0.5 * (at % 6) + 0.25 * (at // 6)},
        )
        for at in range(36)
    ]
    await bench.rating.keep_ratings("team", given)
    fit: Any = await bench.comparison.analyse("team", ask("composite-fit", batch="ba_1", rubric="answers"))
    assert fit.weights == pytest.approx({"formality": 0.5, "amount": 0.25})


async def test_win_rates_are_the_judges_and_pass_over_what_failed(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [1, 1, 1, 0]}, name="a", fail=[3])
    await score_batch(bench.batches, "ba_2", {"warmth": [0, 0, 1, 1]}, name="b")
    report: Any = await bench.comparison.analyse("team", ask("win-rates", batches=["ba_1", "ba_2", "ba_1"]))
    wins = {name: share.wins for name, share in report.aspects["warmth"].systems.items()}
    assert wins == {"a": 2, "b": 0}
    with pytest.raises(InvalidRequest, match="no human ratings concern"):
        await bench.comparison.analyse("team", ask("win-rates", batches=["ba_1", "ba_2"], values="ratings"))


async def test_a_best_level_in_the_middle_counts_so_in_win_rates(sqlite_engine: AsyncEngine) -> None:
    rubric = small_rubric("manners", aspects=[aspect_data("formality", (-1, 0, 1), best=0)])
    bench = build_bench(sqlite_engine, rubric)
    for batch_id, name, column in (("ba_2", "stiff", [1, 1, 1]), ("ba_3", "right", [0, 0, 1])):
        await score_batch(bench.batches, batch_id, {"formality": column}, name=name, rubric="manners")
    report: Any = await bench.comparison.analyse("team", ask("win-rates", batches=["ba_2", "ba_3"]))
    wins = {name: share.wins for name, share in report.aspects["formality"].systems.items()}
    assert wins == {"stiff": 0, "right": 2}


async def test_what_has_no_values_says_so(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1]}, fail=[0, 1])
    with pytest.raises(InvalidRequest, match="has values yet"):
        await bench.comparison.analyse("team", ask("win-rates", batch="ba_1"))
    await score_batch(bench.batches, "ba_2", {"warmth": [0, 1]}, entries=[("a", 0), ("a", 1)])
    await bench.rating.keep_ratings("team", [rating("a")])
    with pytest.raises(InvalidRequest, match="1 ratings fit more than one result; name the batch"):
        await bench.comparison.analyse("team", ask("agreement", batch="ba_2"))


@pytest.mark.parametrize("project", ["rivals", "team"])
async def test_what_is_not_the_projects_is_not_found(bench: Bench, project: str) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1]}, project="other")
    await score_batch(bench.batches, "ba_2", {"warmth": [0, 1]}, project=project)
    for work in (
        bench.comparison.analyse(project, ask("agreement", batch="ba_1")),
        bench.comparison.analyse(project, ask("win-rates", batches=["ba_2", "ba_1"])),
        bench.comparison.compare(project, ComparisonRequest(baseline="ba_2", candidate="ba_1")),
        bench.comparison.gate(project, GateRequest(candidate="ba_2", baseline="ba_1")),
    ):
        with pytest.raises(NotFound, match="no batch ba_1"):
            await work


async def test_analyses_run_in_threads_and_few_at_a_time(bench: Bench) -> None:
    threads = {await bench.comparison.compute(threading.get_ident) for _ in range(3)}
    assert threading.get_ident() not in threads


# The badge


async def test_a_correlation_becomes_the_badge_of_its_judge(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": WARMTH, "clarity": CLARITY})
    await rate_batch(bench)
    await bench.comparison.analyse("team", ask("correlation", batch="ba_1"), remember=False)
    assert await bench.reliabilities.of("team", key_in(SIGNATURE)) == UNVALIDATED
    report: Any = await bench.comparison.analyse("team", ask("correlation", batch="ba_1"))
    badge = await bench.reliabilities.of("team", key_in(SIGNATURE))
    assert (badge.n, badge.at) == (6, bench.now.now)
    for name in ("warmth", "clarity"):
        assert badge.aspects[name].spearman == report.aspects[name].within_systems.spearman
    fewer = ask("correlation", batch="ba_1", aspects=["warmth"])
    await bench.comparison.analyse("team", fewer)
    assert set((await bench.reliabilities.of("team", key_in(SIGNATURE))).aspects) == {"warmth", "clarity"}
    assert await bench.reliabilities.of("rivals", key_in(SIGNATURE)) == UNVALIDATED


async def test_two_judges_at_once_give_neither_a_badge(bench: Bench) -> None:
    other = SIGNATURE.replace("lexical-1", "lexical-2")
    await score_batch(bench.batches, "ba_1", {"warmth": WARMTH, "clarity": CLARITY})
    await score_batch(bench.batches, "ba_2", {"warmth": WARMTH, "clarity": CLARITY}, signature=other)
    await rate_batch(bench)
    await rate_batch(bench, "ba_2")
    await bench.comparison.analyse("team", ask("correlation", batches=["ba_1", "ba_2"]))
    assert await bench.store.validations("team") == {}


async def test_a_batch_without_results_takes_no_badge_away(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": WARMTH, "clarity": CLARITY})
    await score_batch(bench.batches, "ba_2", {"warmth": [0]}, fail=[0])
    await rate_batch(bench)
    await bench.comparison.analyse("team", ask("correlation", batches=["ba_1", "ba_2"]))
    (found,) = (await bench.store.validations("team")).values()
    assert found.batch is None


async def test_data_sets_no_badge(bench: Bench) -> None:
    records = [{"item": str(n), "ratings": {"warmth": n}, "scores": {"warmth": n * n}} for n in range(5)]
    await bench.comparison.analyse("team", ask("correlation", data=records))
    assert await bench.store.validations("team") == {}


# Comparison and gate


async def two_runs(bench: Bench, names: tuple[str, str] = ("warmth", "clarity"), **options: Any) -> None:
    """Two batches of 30; in the second all drop from 1 to 0 in the aspect named first."""
    for batch_id, name, rating in (("ba_1", "old", 1), ("ba_2", "new", 0)):
        columns = {names[0]: [rating] * 30, names[1]: [1] * 30}
        await score_batch(bench.batches, batch_id, columns, name=name, **options)


async def two_korean_runs(bench: Bench, **options: Any) -> None:
    """The same by a rubric that has anchors."""
    await two_runs(bench, ("sympathy", "specificity"), rubric="ko-comment", signature=KO_SIGNATURE, **options)


async def test_a_comparison_is_candidate_minus_baseline(bench: Bench) -> None:
    await two_runs(bench)
    found = await bench.comparison.compare("team", ComparisonRequest(baseline="ba_1", candidate="ba_2"))
    assert (found.baseline, found.candidate) == ("old (ba_1)", "new (ba_2)")
    assert (found.aspects["warmth"].difference, found.aspects["warmth"].verdict) == (-1.0, "worse")
    assert (found.pairing.test, found.pairing.pairs) == ("paired", 30)


async def test_comparisons_and_gates_say_where_the_judge_follows_people(bench: Bench) -> None:
    await two_runs(bench)
    held = AspectValidation(n=40, raters=3, spearman=0.7, pearson=0.7, spearman_interval=(0.4, 0.8))
    found = Validation(n=40, batch="ba_0", at=bench.now.now, aspects={"warmth": held})
    await bench.store.keep_validation("team", key_in(SIGNATURE), found)
    comparison = await bench.comparison.compare("team", ComparisonRequest(baseline="ba_1", candidate="ba_2"))
    assert (comparison.reliability["warmth"], comparison.reliability["clarity"]) == ("validated", "unknown")
    report = await bench.comparison.gate("team", GateRequest(baseline="ba_1", candidate="ba_2"))
    assert report.comparison is not None
    assert report.reliability == report.comparison.reliability == comparison.reliability


async def test_other_signatures_are_refused_unless_allowed(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1]})
    await score_batch(bench.batches, "ba_2", {"warmth": [0, 1]}, signature=SIGNATURE.replace("lexical-1", "lexical-2"))
    for request in (
        bench.comparison.compare("team", ComparisonRequest(baseline="ba_1", candidate="ba_2")),
        bench.comparison.gate("team", GateRequest(baseline="ba_1", candidate="ba_2", check_judge=True)),
    ):
        with pytest.raises(SignatureMismatch) as caught:
            await request
        assert caught.value.pieces == {"model": ("lexical-1", "lexical-2")}
    allowed = ComparisonRequest(baseline="ba_1", candidate="ba_2", allow_signature_mismatch=True)
    assert (await bench.comparison.compare("team", allowed)).signature_differences == caught.value.pieces
    assert bench.judge.tasks == []


async def test_the_gate_fails_on_a_drop(bench: Bench) -> None:
    await two_runs(bench)
    report = await bench.comparison.gate("team", GateRequest(baseline="ba_1", candidate="ba_2"))
    assert (report.verdict, report.reasons[0].code, report.reasons[0].aspect) == ("fail", "drop", "warmth")
    assert bench.judge.tasks == []
    assert bench.telemetry.told == [("gated", "fail")]


async def test_a_judge_that_moved_is_told_before_a_drop(bench: Bench) -> None:
    await two_korean_runs(bench, judge=JudgeOptions(model="fake-9"))
    rules = (GateRule(aspect="sympathy", max_drop=0.0),)
    request = GateRequest(baseline="ba_1", candidate="ba_2", rules=rules, check_judge=True)
    first = await bench.comparison.gate("team", request)
    # The judge's own model is asked, which the batch named.
    assert {task.options.model for task in bench.judge.tasks} == {"fake-9"}
    assert (first.verdict, [reason.code for reason in first.reasons if reason.about == "judge"]) == ("fail", ["held"])
    opinion = bench.judge.opinion
    bench.judge.opinion = lambda task, aspect, sample: 1 - int(opinion(task, aspect, sample))  # type: ignore[arg-type]
    moved = await bench.comparison.gate("team", request)
    assert (moved.verdict, moved.reasons[0].code, moved.reasons[0].about) == ("inconclusive", "judge-moved", "judge")
    assert str(moved.reasons[0].detail).startswith("judge moved: the judge moved since 2026-11-21: ")
    # A gate that asks for a check is one gate and one check.
    counted = [told for told in bench.telemetry.told if told[0] in {"gated", "checked"}]
    assert counted == [("checked", "recorded"), ("gated", "fail"), ("checked", "moved"), ("gated", "inconclusive")]


async def test_a_gate_that_is_refused_costs_no_judge_call(bench: Bench) -> None:
    await two_korean_runs(bench)
    for changes, pointer in (
        ({"rules": [{"aspect": "nope", "min_mean": 1}]}, "/rules/0/aspect"),
        ({"rules": [{"aspect": "sympathy", "max_drop": 0}], "baseline": None}, "/rules/0/max_drop"),
        ({"baseline": None}, "/rules"),
    ):
        given = {"candidate": "ba_2", "baseline": "ba_1", "check_judge": True, **changes}
        with pytest.raises(InvalidRequest) as caught:
            await bench.comparison.gate("team", GateRequest.model_validate(given))
        assert caught.value.pointer == pointer
    assert bench.judge.tasks == []


async def test_a_rubric_without_anchors_is_a_fault_of_check_judge(bench: Bench) -> None:
    await two_runs(bench)
    with pytest.raises(InvalidRequest, match="no anchors for the rubric small") as caught:
        await bench.comparison.gate("team", GateRequest(baseline="ba_1", candidate="ba_2", check_judge=True))
    assert caught.value.pointer == "/check_judge"


async def test_an_error_of_the_judge_is_not_a_verdict(bench: Bench) -> None:
    await two_korean_runs(bench)
    bench.judge.error = JudgeUnavailable(words("away"))
    rules = (GateRule(aspect="sympathy", max_drop=0.0),)
    with pytest.raises(JudgeUnavailable):
        await bench.comparison.gate(
            "team", GateRequest(baseline="ba_1", candidate="ba_2", rules=rules, check_judge=True)
        )


async def rate_two(bench: Bench, **more: Any) -> None:
    """Twenty items, which the judge rates 1 in one run and 0 in the other, and people rate nearly alike in both."""
    for batch_id, warmth, other in (("ba_1", [1, 1, 1, 0] * 5, 99), ("ba_2", [0, 0, 1, 0] * 5, 7)):
        await score_batch(bench.batches, batch_id, {"warmth": warmth})
        given = [
            rating(f"item-{at}", batch=batch_id, ratings={"warmth": (at + at // 4 + (at % other == 1)) % 2}, **more)
            for at in range(20)
        ]
        await bench.rating.keep_ratings("team", given)


async def test_a_batch_is_corrected_by_the_ratings_of_some_of_its_items(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1, 1, 1] * 10})
    given = [
        rating(f"item-{at}", r, batch="ba_1", ratings={"warmth": at % 2}) for at in range(20) for r in ("r1", "r2")
    ]
    await bench.rating.keep_ratings("team", given)
    report: Any = await bench.comparison.analyse("team", ask("corrected", batch="ba_1"))
    (found,) = report.systems.values()
    own = found.aspects["warmth"]
    assert (own.judged, own.rated, own.judge.mean, own.human.mean) == (40, 20, pytest.approx(0.75), pytest.approx(0.5))
    assert own.corrected.mean == pytest.approx(0.5)
    assert 0 <= own.corrected.interval[0] < 0.5 < own.corrected.interval[1] <= 1
    assert report.ratings_used.counted == 40
    with pytest.raises(UnknownAspect):
        await bench.comparison.analyse("team", ask("corrected", batch="ba_1", aspects=["mood"]))
    assert await bench.comparison.analyse("team", ask("corrected", batch="ba_1", ranges={"warmth": [0, 1]})) == report
    for ranges in ({"warmth": [0, 2]}, {"mood": [0, 1]}):
        with pytest.raises(InvalidRequest, match="is not that of the batches' rubric"):
            await bench.comparison.analyse("team", ask("corrected", batch="ba_1", ranges=ranges))


async def test_simulated_ratings_correct_nothing(bench: Bench) -> None:
    await rate_two(bench, simulated=True)
    with pytest.raises(InvalidRequest, match="simulated"):
        await bench.comparison.analyse("team", ask("corrected", batches=["ba_1", "ba_2"]))
    asked = GateRequest(candidate="ba_2", baseline="ba_1", estimate="corrected")
    report = await bench.comparison.gate("team", asked)
    assert report.verdict == "inconclusive"
    assert report.corrected["warmth"].refused == Message("baseline-run-refused", why=Message("no-ratings"))


async def test_people_decide_a_gate_and_stand_beside_the_judge_in_a_comparison(bench: Bench) -> None:
    await rate_two(bench)
    rules = (GateRule(aspect="warmth", max_drop=0.2, must_detect=1),)
    terms: dict[str, Any] = {"candidate": "ba_2", "baseline": "ba_1", "rules": rules, "min_coverage": 0}
    assert (await bench.comparison.gate("team", GateRequest(**terms))).verdict == "fail"
    report = await bench.comparison.gate("team", GateRequest(**terms, estimate="corrected"))
    assert (report.verdict, report.corrected["warmth"].rated_candidate) == ("pass", 20)
    asked = ComparisonRequest(baseline="ba_1", candidate="ba_2", estimate="corrected")
    compared = await bench.comparison.compare("team", asked)
    assert compared.aspects["warmth"].verdict == "worse"
    assert compared.corrected["warmth"].verdict == "inconclusive"
    await bench.rating.exclude("team", Exclusion(rater="r1"))
    assert (await bench.comparison.compare("team", asked)).corrected["warmth"].rated_candidate == 0


async def test_those_who_go_leave_their_place_when_their_thread_ends(bench: Bench) -> None:
    going, begun = threading.Event(), list[int]()

    def work() -> None:
        begun.append(1)
        going.wait(LIMIT_SECONDS)

    gone = [asyncio.create_task(bench.comparison.compute(work)) for _ in range(8)]
    while len(begun) < COMPARISONS_AT_ONCE:
        await asyncio.sleep(0.01)
    for task in gone:
        task.cancel()
    await asyncio.wait(gone)
    later = asyncio.create_task(bench.comparison.compute(work))
    await asyncio.sleep(0.05)
    assert len(begun) == COMPARISONS_AT_ONCE
    going.set()
    await later
    assert len(begun) == COMPARISONS_AT_ONCE + 1, "those who waited never began"


async def test_work_ends_soon_after_its_caller_has_gone(bench: Bench) -> None:
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        try:
            begun.set()
            while True:
                checkpoint()
        finally:
            ended.set()

    gone = asyncio.create_task(bench.comparison.compute(work))
    await asyncio.to_thread(begun.wait, LIMIT_SECONDS)
    gone.cancel()
    assert await asyncio.to_thread(ended.wait, LIMIT_SECONDS)
    assert await bench.comparison.compute(lambda: "done") == "done"
    checkpoint()
