"""Human ratings, exclusions, validations of judges and ratings of anchors, on each database."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.comparison.judge_checks.service import AnchorStore
from saiten_server.comparison.judge_checks.values import AnchorRatings
from saiten_server.core.batch import BatchOptions, Candidate, Entry
from saiten_server.core.dialogue import UNBOUNDED, Utterance
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.core.reliability import AspectValidation, JudgeKey, Validation
from saiten_server.ratings.rounds.store import RoundStore
from saiten_server.ratings.store import RatingStore
from saiten_server.ratings.values import (
    Excluded,
    Exclusion,
    HumanRating,
    RatingFilter,
    RatingRound,
    RatingsAdded,
    RoundOptions,
    StoredRating,
)
from saiten_server.runs.store.batches import BatchStore
from saiten_server.scoring.store import EvaluationStore
from tests.support.batches import START, claim, fail, finish, make_batch, make_candidates
from tests.support.drawn import draw
from tests.support.records import make_record

ANY = RatingFilter()
LATER = START + timedelta(hours=1)


@dataclass
class Bench:
    """The store under test, and those that say what there is to rate."""

    meta: RatingStore
    batches: BatchStore
    records: EvaluationStore
    rounds: RoundStore


@pytest.fixture
def anchors(engine: AsyncEngine) -> AnchorStore:
    return AnchorStore(engine)


@pytest.fixture
def bench(engine: AsyncEngine) -> Bench:
    return Bench(RatingStore(engine), BatchStore(engine), EvaluationStore(engine), RoundStore(engine))


@pytest.fixture
def meta(bench: Bench) -> RatingStore:
    return bench.meta


def make_rating(item: str | None = "item-1", rater: str = "r1", value: float = 3.0, **changes: Any) -> HumanRating:
    given = {"item": item, "rater": rater, "ratings": {"naturalness": value}, **changes}
    return HumanRating.model_validate(given, context={"limits": UNBOUNDED})


def of_evaluation(evaluation: str, **changes: Any) -> HumanRating:
    return make_rating(None, evaluation=evaluation, **changes)


async def keep(meta: RatingStore, *ratings: HumanRating, project: str = "team") -> RatingsAdded:
    return await meta.keep(project, ratings, START)


async def everything(meta: RatingStore, project: str = "team", **wanted: Any) -> list[StoredRating]:
    found = await meta.list(project, RatingFilter(**wanted), after=-1, limit=100_000)
    return [rating for _, rating in found]


async def of_batch(meta: RatingStore, batch_id: str = "ba_1", project: str = "team") -> list[StoredRating]:
    return [rating for _, rating in await meta.of_batch(project, batch_id, after=-1, limit=100_000)]


def told(ratings: Sequence[StoredRating]) -> list[tuple[str | None, str, float]]:
    """Target, rater and value of each."""
    return [(one.item or one.evaluation, one.rater, one.ratings["naturalness"]) for one in ratings]


async def score(batches: BatchStore, batch_id: str = "ba_1") -> None:
    """A batch of six whose first four have evaluations, and whose fifth failed."""
    await make_batch(batches, batch_id, 6)
    work = await claim(batches, 0, batch_id=batch_id)
    await batches.commit("w1", [*(finish(work, position) for position in range(4)), fail(work, 4)], [])


async def open_round(bench: Bench, round_id: str, rater: str, *positions: int) -> None:
    """A round in which the rater has rated these results of ba_1."""
    opened = RatingRound(
        id=round_id, batch="ba_1", options=RoundOptions(name="round"), drawn=len(positions), created_at=START
    )
    await bench.rounds.open_round("team", opened, draw(positions))
    for _ in positions:
        task = await bench.rounds.take("team", round_id, rater, START)
        assert task is not None
        await bench.rounds.finish("team", round_id, rater, task.position, START)


# Keeping


async def test_ratings_come_back_as_they_were_kept_in_order(bench: Bench) -> None:
    await score(bench.batches)
    given = [
        make_rating(comment="自然だ。\n少し硬い 🙆‍♀️", ratings={"b": 0.1 + 0.2, "a": -4.0}),
        of_evaluation("ev_ba_1_0", rater="'; DROP TABLE human_ratings; --"),
        make_rating("item-2", batch="ba_1", system="甲", simulated=True),
        make_rating("item-0", candidate=2**31 - 1, system="=1+1"),
    ]
    assert await bench.meta.keep("team", given, LATER) == RatingsAdded(added=4, replaced=0)
    assert await everything(bench.meta) == [StoredRating(**one.model_dump(), created_at=LATER) for one in given]
    assert [*(await everything(bench.meta))[0].ratings] == ["b", "a"]
    assert await everything(bench.meta, "rivals") == []


async def test_an_evaluation_tells_its_rubric_to_its_project_alone(bench: Bench) -> None:
    await score(bench.batches)
    await bench.records.save("team", make_record("ev_alone"))
    ids = ["ev_ba_1_0", "ev_alone", "ev_none", "ev_\0", "ev_alone"]
    assert await bench.meta.rubrics_of("team", ids) == dict.fromkeys(ids[:2], "ja-dialogue@1")
    assert await bench.meta.rubrics_of("rivals", ids) == {}
    assert await bench.meta.rubrics_of("team", []) == {}


async def test_nothing_kept_is_nothing_added(meta: RatingStore) -> None:
    assert await keep(meta) == RatingsAdded(added=0, replaced=0)


async def test_a_later_rating_takes_the_place_of_the_earlier_and_stands_last(meta: RatingStore) -> None:
    await keep(meta, make_rating("a", comment="old"), make_rating("b"))
    ((first, _), (second, _)) = await meta.list("team", ANY, after=-1, limit=9)
    kept = await meta.keep("team", [make_rating("a", value=1.0), make_rating("c")], LATER)
    assert kept == RatingsAdded(added=1, replaced=1)
    assert told(await everything(meta)) == [("b", "r1", 3.0), ("a", "r1", 1.0), ("c", "r1", 3.0)]
    # Whoever had read up to the second finds what came later.
    since = await meta.list("team", ANY, after=second, limit=9)
    assert [(one.item, one.comment, one.created_at) for _, one in since] == [("a", None, LATER), ("c", None, LATER)]
    assert first < second < since[0][0]


async def test_of_the_same_rating_twice_in_a_call_the_last_counts(meta: RatingStore) -> None:
    twice = [make_rating("a", value=1.0), make_rating("b"), make_rating("a", value=2.0)]
    assert await keep(meta, *twice) == RatingsAdded(added=2, replaced=0)
    assert told(await everything(meta)) == [("b", "r1", 3.0), ("a", "r1", 2.0)]
    assert await keep(meta, *twice) == RatingsAdded(added=0, replaced=2)


async def test_every_part_of_the_target_tells_ratings_apart(bench: Bench) -> None:
    await score(bench.batches)
    apart = [
        make_rating("item-1"),
        make_rating("item-1", rater="r2"),
        make_rating("item-2"),
        make_rating("item-1", batch="ba_1"),
        make_rating("item-1", candidate=0),
        make_rating("item-1", candidate=1),
        make_rating("item-1", system=""),
        make_rating("item-1", system="甲"),
        of_evaluation("ev_ba_1_1"),
    ]
    assert await keep(bench.meta, *apart) == RatingsAdded(added=len(apart), replaced=0)
    assert await keep(bench.meta, make_rating("item-1"), project="rivals") == RatingsAdded(added=1, replaced=0)
    assert await keep(bench.meta, *apart) == RatingsAdded(added=0, replaced=len(apart))
    assert len(await everything(bench.meta)) == len(apart)


async def test_ten_thousand_at_once_are_kept_and_replaced(bench: Bench) -> None:
    await bench.batches.begin("team", "ba_1", BatchOptions(), START)
    await bench.batches.append("ba_1", make_candidates(5000))
    await bench.batches.accept("team", "ba_1", unit_cost_usd=None, answer=None)
    of_items = [make_rating(f"item-{number}", batch="ba_1") for number in range(5000)]
    free = [make_rating(f"item-{number}") for number in range(2500, 7500)]
    assert await keep(bench.meta, *of_items, *free) == RatingsAdded(added=10_000, replaced=0)
    assert [one.item for one in await everything(bench.meta)] == [one.item for one in (*of_items, *free)]
    assert await keep(bench.meta, *free) == RatingsAdded(added=0, replaced=5000)
    assert len(await of_batch(bench.meta)) == 7500
    with pytest.raises(NotFound) as caught:
        await keep(bench.meta, *of_items, make_rating("item-5000", batch="ba_1"))
    assert caught.value.pointer == "5000"


async def test_who_keep_the_same_at_once_do_not_collide(meta: RatingStore) -> None:
    ratings = [make_rating(f"item-{number}") for number in range(50)]
    calls = [ratings, ratings[::-1], ratings[25:] + ratings[:25]]
    kept = await asyncio.gather(*(keep(meta, *one) for one in calls), meta.remove("team", RatingFilter(rater="r1")))
    assert sum(one.added + one.replaced for one in kept if isinstance(one, RatingsAdded)) == 150
    await keep(meta, *ratings)
    assert len(await everything(meta)) == 50


@pytest.mark.parametrize("missing", [
    {"evaluation": "ev_none", "item": None},
    {"evaluation": "ev_theirs", "item": None},
    {"evaluation": "e" * 500, "item": None},
    {"batch": "ba_none"},
    {"batch": "ba_theirs"},
    {"batch": "ba_receiving"},
    {"batch": "ba_erased"},
    {"batch": "ba_1", "item": "item-6"},
    {"batch": "ba_1", "item": "item-1", "candidate": 0},
])  # fmt: skip
async def test_what_is_not_there_is_not_rated_and_nothing_is_kept(bench: Bench, missing: dict[str, Any]) -> None:
    await score(bench.batches)
    await bench.records.save("rivals", make_record("ev_theirs"))
    await make_batch(bench.batches, "ba_theirs", 3, project="rivals")
    await make_batch(bench.batches, "ba_erased", 3)
    await bench.batches.erase("team", "ba_erased")
    await bench.batches.begin("team", "ba_receiving", BatchOptions(), START)
    await bench.batches.append("ba_receiving", make_candidates(3))
    wrong = make_rating(**{"item": "item-1", **missing})
    with pytest.raises(NotFound) as caught:
        await keep(bench.meta, make_rating(), of_evaluation("ev_ba_1_0"), wrong, replace_rater(wrong))
    assert caught.value.pointer == "2"
    assert await everything(bench.meta) == []


def replace_rater(rating: HumanRating) -> HumanRating:
    return rating.model_copy(update={"rater": "another"})


async def test_a_failure_in_the_place_of_an_evaluation_is_not_rated_as_one(bench: Bench) -> None:
    await score(bench.batches)
    failed = (await bench.batches.results("team", "ba_1", after=3, limit=1))[0]
    assert failed.failure is not None
    found = await bench.batches.find_evaluation("team", "ba_1", failed.entry.position)
    assert found is not None
    with pytest.raises(NotFound):
        await keep(bench.meta, of_evaluation(found))
    # Its response may well be rated.
    await keep(bench.meta, make_rating(failed.entry.item, batch="ba_1"))


async def test_candidates_are_rated_by_their_number(bench: Bench) -> None:
    candidate = Candidate(context=(Utterance(speaker="甲", text="おはよう"),), response="返事")
    several = [(Entry(position=place, item="many", candidate=place), candidate) for place in range(2)]
    await bench.batches.begin("team", "ba_1", BatchOptions(), START)
    await bench.batches.append("ba_1", several)
    await bench.batches.accept("team", "ba_1", unit_cost_usd=None, answer=None)
    for number in (0, 1, None):
        await keep(bench.meta, make_rating("many", batch="ba_1", candidate=number))
    with pytest.raises(NotFound):
        await keep(bench.meta, make_rating("many", batch="ba_1", candidate=2))
    assert [one.candidate for one in await everything(bench.meta)] == [0, 1, None]


@pytest.mark.parametrize("text", ["a\0", "\ud800"])
async def test_what_no_column_can_hold_is_refused_or_not_there(
    meta: RatingStore, anchors: AnchorStore, text: str
) -> None:
    good = make_rating()
    await keep(meta, good)
    for name in ("item", "rater", "comment", "system"):
        with pytest.raises(InvalidRequest) as caught:
            await keep(meta, good, good.model_copy(update={name: text}))
        assert caught.value.pointer == "1"
    for name in ("item", "evaluation", "batch", "rater"):
        wanted = ANY.model_copy(update={name: text})
        assert await meta.list("team", wanted, after=-1, limit=9) == []
        assert await meta.remove("team", wanted) == 0
    assert await of_batch(meta, text) == []
    assert await everything(meta, text) == []
    assert len(await everything(meta)) == 1
    with pytest.raises(InvalidRequest):
        await meta.keep_validation("team", replace(KEY, judge=text), VALIDATION)
    assert await meta.validations(text) == {}
    with pytest.raises(InvalidRequest):
        await anchors.keep("team", text, ANCHORS)
    assert await anchors.find("team", text) is None


# Reading


async def test_pages_are_complete(meta: RatingStore) -> None:
    await keep(meta, *(make_rating(f"item-{number}", rater=f"r{number % 2}") for number in range(7)))
    seen, after = list[str | None](), -1
    while page := await meta.list("team", RatingFilter(rater="r0"), after=after, limit=2):
        seen += [rating.item for _, rating in page]
        after = page[-1][0]
    assert seen == ["item-0", "item-2", "item-4", "item-6"]


async def test_the_number_of_a_removed_rating_is_not_given_again(meta: RatingStore) -> None:
    await keep(meta, make_rating("a"), make_rating("b"))
    after = (await meta.list("team", ANY, after=-1, limit=9))[-1][0]
    assert await meta.remove("team", RatingFilter(item="b")) == 1
    await keep(meta, make_rating("c"))
    assert told([one for _, one in await meta.list("team", ANY, after=after, limit=9)]) == [("c", "r1", 3.0)]


async def test_ratings_are_filtered_and_removed_by_every_field(bench: Bench) -> None:
    await score(bench.batches)
    ratings = [
        make_rating("item-1"),
        make_rating("item-1", batch="ba_1", rater="r2"),
        of_evaluation("ev_ba_1_1"),
        make_rating("item-2", rater="r2"),
    ]
    filters: list[tuple[dict[str, str], list[int]]] = [
        ({"item": "item-1"}, [0, 1]),
        ({"batch": "ba_1"}, [1, 2]),  # the evaluation's too, which names no batch and is of one
        ({"evaluation": "ev_ba_1_1"}, [2]),
        ({"rater": "r2"}, [1, 3]),
        ({"item": "item-1", "rater": "r2"}, [1]),
        ({"item": "", "rater": "r2"}, []),
    ]
    await keep(bench.meta, make_rating("item-1", rater="r2"), project="rivals")
    for wanted, places in filters:
        await keep(bench.meta, *ratings)
        chosen = told(await everything(bench.meta, **wanted))
        assert chosen == [((one := ratings[place]).item or one.evaluation, one.rater, 3.0) for place in places]
        assert await bench.meta.remove("team", RatingFilter(**wanted)) == len(places)
        assert await everything(bench.meta, **wanted) == []
        assert len(await everything(bench.meta)) == len(ratings) - len(places)
    assert len(await everything(bench.meta, "rivals")) == 1


async def test_a_mark_changes_with_every_rating_that_comes_or_goes(meta: RatingStore) -> None:
    marks = [await meta.mark("team")]
    assert (marks[0].count, marks[0].newest) == (0, -1)
    for step in (make_rating("a"), make_rating("b"), make_rating("a", value=1.0)):
        await keep(meta, step)
        marks.append(await meta.mark("team"))
    assert await meta.remove("team", RatingFilter(item="b")) == 1
    marks.append(await meta.mark("team"))
    assert [mark.count for mark in marks] == [0, 1, 2, 2, 1]
    assert len(set(marks)) == len(marks)
    await keep(meta, make_rating("a"), project="rivals")
    assert await meta.mark("team") == marks[-1]


async def test_to_remove_all_is_to_be_said(meta: RatingStore) -> None:
    await keep(meta, make_rating())
    with pytest.raises(InvalidRequest):
        await meta.remove("team", ANY)
    assert len(await everything(meta)) == 1


async def test_of_a_batch_are_its_evaluations_its_items_and_free_items_of_the_same_id(bench: Bench) -> None:
    await score(bench.batches)
    await score(bench.batches, "ba_2")
    await bench.records.save("team", make_record("ev_alone"))
    await make_batch(bench.batches, "ba_theirs", 3, project="rivals")
    await keep(bench.meta, make_rating("item-1"), project="rivals")
    await keep(
        bench.meta,
        make_rating("item-5", value=1.0),
        make_rating("item-6", value=2.0),  # no item of either
        make_rating("item-1", batch="ba_2", value=3.0),
        make_rating("item-1", batch="ba_1", value=4.0),
        of_evaluation("ev_ba_2_0", value=5.0),
        of_evaluation("ev_ba_1_0", value=6.0),
        of_evaluation("ev_alone", value=7.0),
        make_rating("item-1", value=8.0, system="甲"),
    )
    assert [one.ratings["naturalness"] for one in await of_batch(bench.meta)] == [1.0, 4.0, 6.0, 8.0]
    assert [one.ratings["naturalness"] for one in await of_batch(bench.meta, "ba_2")] == [1.0, 3.0, 5.0, 8.0]
    assert await of_batch(bench.meta, "ba_none") == []
    assert await of_batch(bench.meta, "ba_theirs") == []
    assert await of_batch(bench.meta, "ba_1", "rivals") == []
    seen, after = list[float](), -1
    while page := await bench.meta.of_batch("team", "ba_1", after=after, limit=1):
        assert len(page) == 1
        seen.append(page[0][1].ratings["naturalness"])
        after = page[0][0]
    assert seen == [1.0, 4.0, 6.0, 8.0]


async def test_ratings_of_a_batch_go_when_it_is_erased(bench: Bench) -> None:
    await score(bench.batches)
    await score(bench.batches, "ba_2")
    await bench.records.save("team", make_record("ev_alone"))
    gone = [of_evaluation("ev_ba_1_0"), make_rating("item-1", batch="ba_1")]
    stay = [of_evaluation("ev_alone"), make_rating("item-1"), of_evaluation("ev_ba_2_0")]
    await keep(bench.meta, *gone, *stay)
    await bench.batches.erase("team", "ba_1")
    assert [(one.evaluation, one.item) for one in await everything(bench.meta)] == [
        (one.evaluation, one.item) for one in stay
    ]
    assert await of_batch(bench.meta) == []
    for one in gone:
        with pytest.raises(NotFound):
            await keep(bench.meta, one)


async def test_who_rate_a_batch_while_it_is_erased_are_told_or_lose_their_ratings_with_it(bench: Bench) -> None:
    await score(bench.batches)
    ratings = [of_evaluation(f"ev_ba_1_{number % 4}", rater=f"r{number}") for number in range(100)]
    calls = (keep(bench.meta, *ratings[start : start + 20]) for start in range(0, 100, 20))
    outcomes = await asyncio.gather(bench.batches.erase("team", "ba_1"), *calls, return_exceptions=True)
    assert outcomes[0] is True
    assert all(isinstance(one, RatingsAdded | NotFound) for one in outcomes[1:])
    assert await everything(bench.meta) == []


# Validations and anchors

KEY = JudgeKey("ja-dialogue@1", "d" * 12, "source", "judge:openai|model:models/" + "長" * 1000)
VALIDATION = Validation(
    n=40,
    batch="ba_1",
    at=START,
    aspects={
        "naturalness": AspectValidation(
            n=40, raters=3, spearman=0.1 + 0.2, pearson=None, spearman_interval=(-0.1, 0.6), ceiling_spearman=0.7
        )
    },
)
ANCHORS = AnchorRatings(
    rubric="ja-dialogue",
    anchors="a" * 64,
    asked="a" * 64,
    judge="fake/fake-1",
    signature="saiten:0",
    at=START,
    ratings={"a1": {"naturalness": (3, None, 2)}},
)


async def test_the_newest_validation_of_each_judge_is_kept(meta: RatingStore) -> None:
    others = [replace(KEY, **{name: "x"}) for name in ("rubric", "digest", "path", "judge")]
    newer = VALIDATION.model_copy(update={"n": 41, "batch": None, "at": LATER})
    assert await meta.validations("team") == {}
    for key in [KEY, *others]:
        await meta.keep_validation("team", key, VALIDATION)
    await meta.keep_validation("team", KEY, newer)
    await meta.keep_validation("rivals", KEY, VALIDATION)
    assert await meta.validations("team") == {KEY: newer, **dict.fromkeys(others, VALIDATION)}
    assert await meta.validations("rivals") == {KEY: VALIDATION}


async def test_anchor_ratings_are_found_by_project_and_key(anchors: AnchorStore) -> None:
    key, newer = "鍵" * 1000, ANCHORS.model_copy(update={"signature": "saiten:1", "at": LATER})
    assert await anchors.find("team", key) is None
    await anchors.keep("team", key, ANCHORS)
    assert await anchors.find("team", key) == ANCHORS
    await anchors.keep("team", key, newer)
    assert await anchors.find("team", key) == newer
    assert await anchors.find("team", key[1:]) is None
    assert await anchors.find("rivals", key) is None


async def test_who_keep_for_the_first_time_at_once_do_not_collide(meta: RatingStore, anchors: AnchorStore) -> None:
    await asyncio.gather(
        *(meta.keep_validation("team", KEY, VALIDATION) for _ in range(5)),
        *(anchors.keep("team", "k", ANCHORS) for _ in range(5)),
    )
    assert await meta.validations("team") == {KEY: VALIDATION}
    assert await anchors.find("team", "k") == ANCHORS


# Exclusions


async def test_raters_and_rounds_are_excluded_and_taken_back(bench: Bench) -> None:
    meta = bench.meta
    await score(bench.batches)
    await open_round(bench, "rr_1", "r1", 0, 1)
    rater, round_ = Exclusion(rater="乙" * 100), Exclusion(round="rr_1")
    assert await meta.exclude("team", rater, START)
    assert not await meta.exclude("team", rater, LATER)
    assert await meta.exclude("team", round_, LATER)
    for project, missing in (("team", "rr_2"), ("rivals", "rr_1")):
        with pytest.raises(NotFound):
            await meta.exclude(project, Exclusion(round=missing), LATER)
    kept = [(one.rater, one.round, one.created_at) for one in await meta.exclusions("team")]
    assert kept == [(rater.rater, None, START), (None, "rr_1", LATER)]
    excluded = await meta.excluded("team")
    assert excluded == Excluded(frozenset({"乙" * 100}), frozenset({("r1", "ev_ba_1_0"), ("r1", "ev_ba_1_1")}))
    assert excluded.holds(of_evaluation("ev_ba_1_0"))
    assert excluded.holds(make_rating(rater="乙" * 100))
    assert not excluded.holds(of_evaluation("ev_ba_1_2"))
    assert not excluded.holds(make_rating())
    assert await meta.excluded("rivals") == Excluded()
    assert await meta.include("team", round_)
    assert not await meta.include("team", round_)
    assert await meta.excluded("team") == Excluded(frozenset({"乙" * 100}))


async def test_batches_with_ratings_of_people_are_told_the_newest_first(bench: Bench) -> None:
    for batch in ("ba_1", "ba_2", "ba_3"):
        await score(bench.batches, batch)
    simulated = make_rating("item-1", batch="ba_3", simulated=True)
    await keep(bench.meta, make_rating("item-1", batch="ba_2"), of_evaluation("ev_ba_1_0"), make_rating(), simulated)
    assert await bench.meta.rated_batches("team", limit=9) == ["ba_1", "ba_2"]
    assert await bench.meta.rated_batches("team", limit=1) == ["ba_1"]
    assert await bench.meta.rated_batches("rivals", limit=9) == []
