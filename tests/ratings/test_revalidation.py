"""Badges that follow the ratings: soon, once for many changes, without work on end, and never on ratings that are gone."""

import asyncio
import logging
from collections.abc import Collection

import pytest
from sqlalchemy import delete

from saiten_server.analyses.requests import CorrelationRequest
from saiten_server.comparison.service import ComparisonService
from saiten_server.core.errors import StoreUnavailable
from saiten_server.core.reliability import UNVALIDATED, Reliability
from saiten_server.platform.sql.engine import write
from saiten_server.platform.sql.tables import validations
from saiten_server.ratings.reliability import NEWEST, BadgeRenewal, Reliabilities, Revalidation, key_in
from saiten_server.ratings.service import RatingService
from saiten_server.ratings.values import Exclusion, HumanRating, RatingFilter
from tests.support.bench import KO, Bench
from tests.support.fake_rubrics import FakeRubrics
from tests.support.faults import words
from tests.support.scored_batches import RUBRIC, SIGNATURE, score_batch

WARMTH = [0, 1, 1, 0, 1, 0]
KEY = key_in(SIGNATURE)


class HeldRevalidator:
    """Notes what it is asked for, and holds each renewal until `go`."""

    def __init__(self) -> None:
        self.done: list[tuple[str, bool]] = []
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.found: list[str] = []
        self.error: Exception | None = None
        self.seconds = 0.0
        self.time = 0.0

    async def renew(self, project: str, batch_id: str, *, removed: bool) -> None:
        self.begun.set()
        await self.go.wait()
        self.time += self.seconds
        self.done.append((batch_id, removed))
        if self.error is not None:
            raise self.error

    async def look(self, project: str, *, removed: bool) -> Collection[str]:
        return self.found


def begin(held: HeldRevalidator) -> Revalidation:
    revalidation = Revalidation(clock=lambda: held.time)
    revalidation.begin(held)
    return revalidation


async def turns() -> None:
    """Lets everything run that waits for nothing."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_what_is_asked_for_while_one_is_computed_is_computed_once_more() -> None:
    held = HeldRevalidator()
    revalidation = begin(held)
    revalidation.ask("team", ["ba_1"])
    await held.begun.wait()
    for _ in range(5):
        revalidation.ask("team", ["ba_1", "ba_2"])
    held.go.set()
    await revalidation.drain()
    assert held.done == [("ba_1", False), ("ba_1", False), ("ba_2", False)]


async def test_that_ratings_were_removed_is_not_forgotten_over_others_that_came_in() -> None:
    held = HeldRevalidator()
    held.go.set()
    revalidation = begin(held)
    revalidation.ask("team", ["ba_1"], removed=True)
    revalidation.ask("team", ["ba_1"])
    await revalidation.drain()
    assert held.done == [("ba_1", True)]


async def test_it_rests_nine_times_as_long_as_it_works() -> None:
    held = HeldRevalidator()
    held.seconds = 600.0
    held.go.set()
    revalidation = begin(held)
    revalidation.ask("team", ["ba_1"])
    await turns()
    assert held.done == [("ba_1", False)]  # the first waits for nothing
    for _ in range(3):
        revalidation.ask("team", ["ba_1"])
        await turns()
    assert len(held.done) == 1
    held.time += 5400
    await revalidation.drain()
    assert len(held.done) == 2
    revalidation.ask("team", ["ba_1"])
    held.time += 5400
    await turns()
    assert len(held.done) == 3


async def test_whoever_drains_waits_for_no_rest() -> None:
    held = HeldRevalidator()
    held.seconds = 600.0
    held.go.set()
    revalidation = begin(held)
    revalidation.ask("team", ["ba_1", "ba_2", "ba_3"])
    await turns()
    assert len(held.done) == 1
    await revalidation.drain()
    assert [batch_id for batch_id, _ in held.done] == ["ba_1", "ba_2", "ba_3"]


@pytest.mark.parametrize("error", [StoreUnavailable(words("away")), ZeroDivisionError()])
async def test_an_error_is_logged_and_ends_nothing(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    held = HeldRevalidator()
    held.error = error
    held.go.set()
    revalidation = begin(held)
    with caplog.at_level(logging.WARNING, logger="saiten.meta"):
        revalidation.ask("team", ["ba_1", "ba_2"])
        await revalidation.drain()
    assert [batch_id for batch_id, _ in held.done] == ["ba_1", "ba_2"]
    assert len(caplog.records) == 2


async def test_ratings_without_a_batch_are_looked_up() -> None:
    held = HeldRevalidator()
    held.go.set()
    held.found = ["ba_7", "ba_8"]
    revalidation = begin(held)
    revalidation.ask("team", [None], removed=True)
    await revalidation.drain()
    assert held.done == [("ba_7", True), ("ba_8", True)]


async def test_it_ends_in_the_middle_of_its_work_and_takes_nothing_more() -> None:
    held = HeldRevalidator()
    revalidation = begin(held)
    revalidation.ask("team", ["ba_1", "ba_2"])
    await held.begun.wait()
    await revalidation.close()
    revalidation.ask("team", ["ba_3"])
    held.go.set()
    await revalidation.drain()
    assert held.done == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_it_closes_unused() -> None:
    revalidation = Revalidation()
    revalidation.ask("team", ["ba_1"])
    await revalidation.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


# Over the stores


class Following:
    """Services whose badges follow; `asked` are the correlations."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.asked = bench, list[str]()
        self.revalidation = Revalidation()
        rubrics = FakeRubrics([RUBRIC, KO])
        self.comparison = ComparisonService(
            batches=bench.batches,
            runs=bench.comparison.runs,
            ratings=bench.store,
            rubrics=rubrics,
            reliabilities=bench.reliabilities,
            anchors=bench.anchors,
            links=bench.comparison.links,
            baselines=bench.comparison.baselines,
            sequences=bench.comparison.sequences,
            gates=bench.comparison.gates,
            now=bench.now,
        )
        self.rating = RatingService(
            batches=bench.batches,
            ratings=bench.store,
            rubrics=rubrics,
            now=bench.now,
            revalidation=self.revalidation,
        )
        self.revalidation.begin(
            BadgeRenewal(
                analyse=self._analyse,
                batches=bench.batches,
                ratings=bench.store,
                reliabilities=bench.reliabilities,
                now=bench.now,
            )
        )

    async def _analyse(self, project, request: CorrelationRequest, *, remember: bool):
        self.asked += request.batch_ids
        return await self.comparison.analyse(project, request, remember=remember)

    async def keep(self, *ratings: HumanRating) -> Reliability:
        await self.rating.keep_ratings("team", ratings)
        return await self.badge()

    async def remove(self, **wanted: str) -> Reliability:
        await self.rating.remove_ratings("team", RatingFilter(**wanted))
        return await self.badge()

    async def badge(self) -> Reliability:
        await self.rating.settle()
        return await self.bench.reliabilities.of("team", KEY)


def rate(values: list[int], batch: str | None = "ba_1", rater: str = "r1") -> list[HumanRating]:
    """A rater's ratings of the first items of a batch, or of any batch that has them."""
    return [
        HumanRating(item=f"item-{number}", batch=batch, rater=rater, ratings={"warmth": value})
        for number, value in enumerate(values)
    ]


@pytest.fixture
async def following(bench: Bench) -> Following:
    await score_batch(bench.batches, "ba_1", {"warmth": WARMTH, "clarity": [1, 2, 3, 3, 2, 1]})
    return Following(bench)


async def test_ratings_of_a_batch_become_the_badge_at_once(following: Following) -> None:
    badge = await following.keep(*rate(WARMTH))
    assert (badge.n, badge.at) == (6, following.bench.now.now)
    assert badge.aspects["warmth"].spearman == pytest.approx(1)
    again = await following.keep(*rate([1 - value for value in WARMTH]))
    assert again.aspects["warmth"].spearman == pytest.approx(-1)
    assert await following.bench.reliabilities.of("rivals", KEY) == UNVALIDATED


async def test_ratings_of_evaluations_do_so_too(following: Following) -> None:
    given = [
        HumanRating(evaluation=f"ev_ba_1_{number}", rater="r1", ratings={"warmth": value})
        for number, value in enumerate(WARMTH)
    ]
    assert (await following.keep(*given)).n == 6


async def test_ratings_of_items_alone_concern_only_the_batches_that_have_them(following: Following) -> None:
    other = SIGNATURE.replace("lexical-1", "lexical-2")
    entries = [(f"other-{number}", None) for number in range(6)]
    await score_batch(following.bench.batches, "ba_2", {"warmth": WARMTH}, signature=other, entries=entries)
    assert (await following.keep(*rate(WARMTH, batch=None))).n == 6
    assert following.asked == ["ba_1"]
    stray = HumanRating(item="elsewhere", rater="r1", ratings={"warmth": 1})
    assert (await following.keep(stray)).n == 6
    assert following.asked == ["ba_1"]


async def test_a_batch_that_a_badge_rests_on_is_looked_at_however_old(following: Following) -> None:
    await following.keep(*rate(WARMTH[:5]))
    other = SIGNATURE.replace("lexical-1", "lexical-2")
    for number in range(NEWEST + 1):
        await score_batch(following.bench.batches, f"ba_new_{number}", {"warmth": [0]}, signature=other)
    assert (await following.keep(*rate(WARMTH, batch=None, rater="r2"))).n == 6


async def test_too_few_ratings_are_no_news(following: Following, caplog: pytest.LogCaptureFixture) -> None:
    assert await following.keep(*rate([1])) == UNVALIDATED
    assert await following.keep(*rate([1, 1, 1], batch=None)) == UNVALIDATED
    assert await following.bench.batches.erase("team", "ba_1")
    following.revalidation.ask("team", ["ba_1", "ba_none"])
    assert await following.badge() == UNVALIDATED
    assert caplog.records == []


async def test_a_badge_follows_the_ratings_that_are_left_and_goes_with_the_last(following: Following) -> None:
    await following.keep(*rate(WARMTH), *rate(WARMTH[:3], rater="r2"))
    assert (await following.remove(batch="ba_1", rater="r1")).n == 3
    assert await following.remove(batch="ba_1") == UNVALIDATED
    # Gone is gone: however few come after, they count again.
    assert (await following.keep(*rate(WARMTH[:3]))).n == 3


@pytest.mark.parametrize("wanted", [{"rater": "r1"}, {"item": "item-0"}])
async def test_ratings_that_are_removed_by_another_name_leave_no_badge_either(
    following: Following, wanted: dict[str, str]
) -> None:
    assert (await following.keep(*rate(WARMTH[:3]))).n == 3
    assert await following.remove(**wanted) == UNVALIDATED


async def test_a_badge_of_several_batches_gives_way_when_ratings_of_one_go(following: Following) -> None:
    bench = following.bench
    await score_batch(bench.batches, "ba_2", {"warmth": WARMTH, "clarity": [1, 2, 3, 3, 2, 1]}, name="b")
    await following.keep(*rate(WARMTH), *rate(WARMTH, "ba_2"))
    await following.comparison.analyse("team", CorrelationRequest(batches=("ba_1", "ba_2")))
    assert (await following.badge()).n == 12
    assert (await following.keep(*rate(WARMTH[:5], "ba_2"))).n == 12
    assert (await following.remove(batch="ba_2", item="item-0")).n == 5


async def test_a_larger_correlation_of_another_batch_stays(following: Following) -> None:
    await score_batch(following.bench.batches, "ba_2", {"warmth": WARMTH})
    await following.keep(*rate(WARMTH))
    assert (await following.keep(*rate(WARMTH[:3], "ba_2"))).n == 6
    assert (await following.remove(batch="ba_2")).n == 6


async def test_nothing_is_computed_for_what_was_not_kept(following: Following) -> None:
    assert await following.remove(rater="nobody") == UNVALIDATED
    assert following.asked == []


async def test_simulated_ratings_become_no_badge(following: Following) -> None:
    simulated = [rating.model_copy(update={"simulated": True}) for rating in rate(WARMTH)]
    assert await following.keep(*simulated) == UNVALIDATED
    await following.comparison.analyse("team", CorrelationRequest(batch="ba_1"))
    assert await following.badge() == UNVALIDATED
    assert (await following.keep(*rate(WARMTH[:5], rater="hanako"))).n == 5


async def test_a_badge_follows_who_is_excluded(following: Following) -> None:
    junk = rate([1 - value for value in WARMTH], rater="junk")
    await following.keep(*rate(WARMTH[:5]), *junk)
    with_junk = await following.badge()
    assert with_junk.n == 6
    assert await following.rating.exclude("team", Exclusion(rater="junk"))
    badge = await following.badge()
    assert (badge.n, badge.aspects["warmth"].raters) == (5, 1)
    assert await following.rating.exclude("team", Exclusion(rater="r1"))
    assert await following.badge() == UNVALIDATED
    for rater in ("r1", "junk"):
        assert await following.rating.include("team", Exclusion(rater=rater))
    assert await following.badge() == with_junk


async def test_what_an_upgrade_cleared_is_computed_at_the_next_look(following: Following) -> None:
    await following.keep(*rate(WARMTH))
    store = following.bench.store
    async with write(following.bench.engine) as connection:
        await connection.execute(delete(validations))
    asked = list[str]()
    later = Reliabilities(store, clock=lambda: 0.0, renew=asked.append)
    assert await later.of("team", KEY) == await later.of("team", KEY) == UNVALIDATED
    assert asked == ["team"]
    following.revalidation.ask("team", [None], removed=True)  # what the service does when asked
    assert (await following.badge()).n == 6
