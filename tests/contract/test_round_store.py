"""Rating rounds, on each database."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.batch import BatchOptions
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.ratings.rounds.store import RoundStore
from saiten_server.ratings.store import RatingStore
from saiten_server.ratings.values import ABANDONED_SECONDS, RatingRound, RoundDraw, RoundOptions, Task
from saiten_server.runs.store.batches import BatchStore
from tests.support.batches import START, make_batch, make_candidates
from tests.support.drawn import draw

ABANDONED = timedelta(seconds=ABANDONED_SECONDS)
MOMENT = timedelta(microseconds=1)
POSITIONS = (7, 2, 9, 0, 4)


@dataclass
class Bench:
    """The store under test, and the batches that rounds belong to."""

    rounds: RoundStore
    batches: BatchStore
    ratings: RatingStore


@pytest.fixture
def bench(engine: AsyncEngine) -> Bench:
    return Bench(RoundStore(engine), BatchStore(engine), RatingStore(engine))


def make_round(round_id: str = "rr_1", drawn: int = len(POSITIONS), **changes: Any) -> RatingRound:
    options = RoundOptions(**{"name": "人手評価", **changes})
    return RatingRound(id=round_id, batch="ba_1", options=options, drawn=drawn, created_at=START)


@dataclass
class Round:
    """A round of the project `team`, seen by its raters. `now` moves by hand."""

    store: RoundStore
    id: str = "rr_1"
    now: datetime = START

    async def take(self, rater: str) -> Task | None:
        return await self.store.take("team", self.id, rater, self.now)

    async def position(self, rater: str) -> int:
        """Of a response that there has to be."""
        task = await self.take(rater)
        assert task is not None
        return task.position

    async def finish(self, rater: str, position: int) -> bool:
        return await self.store.finish("team", self.id, rater, position, self.now)

    async def rate(self, rater: str, most: int = 10_000) -> list[int]:
        """Rates what the rater gets, `most` at most: their positions, in order."""
        rated = list[int]()
        while len(rated) < most and (task := await self.take(rater)) is not None:
            assert await self.finish(rater, task.position)
            rated.append(task.position)
        return rated


async def open_round(bench: Bench, positions: Sequence[int] = POSITIONS, **changes: Any) -> Round:
    if await bench.batches.find("team", "ba_1") is None:
        await make_batch(bench.batches, "ba_1", 10)
    opened = make_round(drawn=len(positions), **changes)
    await bench.rounds.open_round("team", opened, draw(positions))
    return Round(bench.rounds)


# Rounds


async def test_a_round_comes_back_as_it_was_opened(bench: Bench) -> None:
    await make_batch(bench.batches, "ba_1", 10)
    opened = make_round(items=50, raters_per_item=2, items_per_rater=4, seed=2**32 - 1)
    await bench.rounds.open_round("team", opened, draw(POSITIONS))
    assert await bench.rounds.find_round("team", "rr_1") == opened
    assert await bench.rounds.find_round("team", "rr_none") is None


async def test_a_round_keeps_the_probabilities_of_what_it_drew(bench: Bench) -> None:
    await make_batch(bench.batches, "ba_1", 10)
    opened = make_round(choose="informative", aspect="warmth").model_copy(update={"signals": ("samples", "paths")})
    await bench.rounds.open_round("team", opened, RoundDraw(POSITIONS, [1 / 3, 0.25, 1.0, 0.5, 1e-3]))
    assert await bench.rounds.find_round("team", "rr_1") == opened
    drawn = await bench.rounds.items("team", "rr_1")
    assert [(one.position, one.item, one.probability) for one in drawn] == [
        (7, "item-7", 1 / 3),
        (2, "item-2", 0.25),
        (9, "item-9", 1.0),
        (0, "item-0", 0.5),
        (4, "item-4", 1e-3),
    ]
    assert await bench.rounds.items("rivals", "rr_1") == await bench.rounds.items("team", "rr_\0") == []
    made = Round(bench.rounds)
    await made.rate("甲", 1)
    await made.take("甲")
    (rated,) = await bench.ratings.draws("team", ["ba_1", "ba_none"])
    known = {one.position: one.probability for one in drawn}
    assert rated == ("ba_1", rated.position, "甲", "rr_1", known[rated.position])
    assert await bench.ratings.draws("rivals", ["ba_1"]) == []


@pytest.mark.parametrize("missing", ["ba_none", "ba_theirs", "ba_receiving", "ba_\0"])
async def test_without_a_batch_there_is_no_round(bench: Bench, missing: str) -> None:
    await make_batch(bench.batches, "ba_theirs", 3, project="rivals")
    await bench.batches.begin("team", "ba_receiving", BatchOptions(), START)
    await bench.batches.append("ba_receiving", make_candidates(3))
    with pytest.raises(NotFound):
        await bench.rounds.open_round("team", make_round().model_copy(update={"batch": missing}), draw(POSITIONS))
    assert await bench.rounds.find_round("team", "rr_1") is None


async def test_rounds_are_listed_newest_first(bench: Bench) -> None:
    for batch_id in ("ba_1", "ba_2"):
        await make_batch(bench.batches, batch_id, 10)
    for number, batch_id in enumerate(["ba_1", "ba_2", "ba_1"]):
        changes = {"batch": batch_id, "created_at": START + timedelta(minutes=number)}
        await bench.rounds.open_round("team", make_round(f"rr_{number}").model_copy(update=changes), draw(POSITIONS))
    assert [one.id for one in await bench.rounds.list_rounds("team")] == ["rr_2", "rr_1", "rr_0"]
    assert [one.id for one in await bench.rounds.list_rounds("team", "ba_1")] == ["rr_2", "rr_0"]
    assert [one.id for one in await bench.rounds.list_rounds("team", limit=2)] == ["rr_2", "rr_1"]
    assert await bench.rounds.list_rounds("team", "ba_none") == []


async def test_a_closed_round_gives_nothing_out_and_takes_what_it_gave(bench: Bench) -> None:
    made = await open_round(bench)
    position = await made.position("甲")
    closed = await bench.rounds.close_round("team", "rr_1", START + ABANDONED)
    assert closed == make_round().model_copy(update={"closed_at": START + ABANDONED})
    assert await bench.rounds.find_round("team", "rr_1") == closed
    assert (await made.take("甲"), await made.take("乙")) == (None, None)
    assert await made.finish("甲", position)
    # Closed since when it was.
    assert await bench.rounds.close_round("team", "rr_1", START + 2 * ABANDONED) == closed


async def test_a_round_is_its_project_s_alone(bench: Bench) -> None:
    made = await open_round(bench)
    position = await made.position("甲")
    for project, round_id in (("rivals", "rr_1"), ("team", "rr_none"), ("team", "rr_\0"), ("te\ud800m", "rr_1")):
        assert await bench.rounds.find_round(project, round_id) is None
        assert await bench.rounds.close_round(project, round_id, START) is None
        assert await bench.rounds.take(project, round_id, "乙", START) is None
        assert await bench.rounds.tasks(project, round_id, "甲") == []
        assert not await bench.rounds.finish(project, round_id, "甲", position, START)
        assert await bench.rounds.progress(project, [round_id]) == {}
    assert await bench.rounds.list_rounds("rivals") == []
    assert await bench.rounds.tasks("team", "rr_1", "甲") == [Task(number=0, of=5, position=position, done=False)]


async def test_a_round_goes_with_its_batch(bench: Bench) -> None:
    made = await open_round(bench)
    position = await made.position("甲")
    await bench.batches.erase("team", "ba_1")
    assert await bench.rounds.find_round("team", "rr_1") is None
    assert await bench.rounds.list_rounds("team") == []
    assert await made.take("甲") is None
    assert await bench.rounds.tasks("team", "rr_1", "甲") == []
    assert not await made.finish("甲", position)
    assert await bench.rounds.progress("team", ["rr_1"]) == {}


# What a rater gets


async def test_a_rater_gets_every_response_once(bench: Bench) -> None:
    made = await open_round(bench)
    rated = await made.rate("甲")
    assert sorted(rated) == sorted(POSITIONS)
    assert await bench.rounds.tasks("team", "rr_1", "甲") == [
        Task(number=number, of=5, position=position, done=True) for number, position in enumerate(rated)
    ]
    assert await bench.rounds.tasks("team", "rr_1", "乙") == []


async def test_a_rater_who_comes_back_gets_the_same_response(bench: Bench) -> None:
    made = await open_round(bench)
    rated = await made.rate("甲", 2)
    third = await made.take("甲")
    assert third is not None
    assert (third.number, third.done) == (2, False)
    assert third.position not in rated
    assert await made.take("甲") == third
    made.now += 2 * ABANDONED
    assert await made.take("甲") == third
    assert len(await bench.rounds.tasks("team", "rr_1", "甲")) == 3


async def test_one_rater_gets_so_many_at_most(bench: Bench) -> None:
    made = await open_round(bench, items_per_rater=3)
    first = await made.take("甲")
    assert first is not None
    assert first.of == 3
    assert len(await made.rate("甲")) == 3
    assert len(await made.rate("乙")) == 3


async def test_more_per_rater_than_there_are_is_all(bench: Bench) -> None:
    made = await open_round(bench, items_per_rater=6)
    first = await made.take("甲")
    assert first is not None
    assert first.of == 5


async def test_each_rater_has_an_order_of_their_own_and_the_same_again(bench: Bench) -> None:
    await make_batch(bench.batches, "ba_1", 30)
    orders = dict[tuple[str, str, int], list[int]]()
    for round_id, seed in (("rr_1", 0), ("rr_2", 0), ("rr_3", 1)):
        opened = make_round(round_id, 30, seed=seed, raters_per_item=3)
        await bench.rounds.open_round("team", opened, draw(range(30)))
        for rater in ("Ann", "ann", "乙"):
            orders[round_id, rater, seed] = await Round(bench.rounds, round_id).rate(rater, 30)
    assert all(sorted(order) == [*range(30)] for order in orders.values())
    for rater in ("Ann", "ann", "乙"):
        assert orders["rr_1", rater, 0] == orders["rr_2", rater, 0] != orders["rr_3", rater, 1]
    assert len({tuple(orders["rr_1", rater, 0]) for rater in ("Ann", "ann", "乙")}) == 3


async def test_what_most_others_rated_comes_first(bench: Bench) -> None:
    made = await open_round(bench, range(10))
    begun = await made.rate("甲", 4)
    assert sorted(await made.rate("乙", 4)) == sorted(begun)
    # Two have the four; then one more is begun by another.
    fifth = (await made.rate("丙", 5))[-1]
    assert fifth not in begun
    assert (await made.rate("丁", 1)) == [fifth]  # the four have all the raters that they get


async def test_what_is_only_given_and_not_rated_comes_not_first(bench: Bench) -> None:
    made = await open_round(bench, range(10), raters_per_item=2)
    held = await made.position("甲")
    (rated,) = await made.rate("乙", 1)
    assert held != rated
    assert await made.position("丙") == rated


async def test_a_response_that_has_all_its_raters_is_given_to_no_other(bench: Bench) -> None:
    made = await open_round(bench, raters_per_item=2)
    assert [len(await made.rate(rater)) for rater in ("甲", "乙", "丙")] == [5, 5, 0]


# Abandoned


async def test_what_was_abandoned_goes_to_another(bench: Bench) -> None:
    made = await open_round(bench, [3], raters_per_item=1)
    assert await made.position("甲") == 3
    made.now += ABANDONED - MOMENT
    assert await made.take("乙") is None
    made.now += MOMENT
    assert await made.position("乙") == 3
    assert await made.take("丙") is None


async def test_who_comes_back_late_may_still_finish(bench: Bench) -> None:
    made = await open_round(bench, [3], raters_per_item=1)
    await made.position("甲")
    made.now += ABANDONED
    assert await made.rate("乙") == [3]
    assert await made.position("甲") == 3
    assert await made.finish("甲", 3)
    assert await made.take("甲") is None
    told = (await bench.rounds.progress("team", ["rr_1"]))["rr_1"]
    assert (told.ratings, told.wanted, told.complete, told.raters) == (1, 1, 1, {"乙": 1, "甲": 1})


async def test_to_ask_again_is_to_be_given_it_again(bench: Bench) -> None:
    made = await open_round(bench, [3], raters_per_item=1)
    await made.position("甲")
    made.now += ABANDONED - MOMENT
    await made.position("甲")
    made.now += ABANDONED - MOMENT
    assert await made.take("乙") is None
    # Abandoned, and not given to another meanwhile.
    made.now += ABANDONED
    await made.position("甲")
    assert await made.take("乙") is None


async def test_who_asks_again_takes_no_place_that_others_filled(bench: Bench) -> None:
    made = await open_round(bench, [3], raters_per_item=1)
    await made.position("甲")
    made.now += ABANDONED
    await made.position("乙")
    made.now += ABANDONED - MOMENT
    assert await made.position("甲") == 3  # still the one that is not done, and counts no more
    made.now += MOMENT
    assert await made.position("丙") == 3
    assert await made.take("丁") is None


async def test_what_was_rated_long_ago_counts(bench: Bench) -> None:
    made = await open_round(bench, raters_per_item=1)
    await made.rate("甲")
    made.now += 100 * ABANDONED
    assert await made.take("乙") is None


# At once


@pytest.mark.parametrize("items", [1, 3])
async def test_twenty_who_take_at_once_get_no_more_than_there_is(bench: Bench, items: int) -> None:
    made = await open_round(bench, POSITIONS[:items], raters_per_item=3)
    taken = await asyncio.gather(*(made.take(f"rater-{number}") for number in range(20)))
    given = Counter(task.position for task in taken if task is not None)
    assert given == dict.fromkeys(POSITIONS[:items], 3)


async def test_twenty_who_rate_to_the_end_at_once_leave_nothing_over(bench: Bench) -> None:
    made = await open_round(bench, raters_per_item=3)
    rated = await asyncio.gather(*(made.rate(f"rater-{number}") for number in range(20)))
    assert Counter(position for one in rated for position in one) == dict.fromkeys(POSITIONS, 3)
    told = (await bench.rounds.progress("team", ["rr_1"]))["rr_1"]
    assert (told.ratings, told.complete) == (15, 5)


async def test_one_rater_in_twenty_windows_gets_one_response(bench: Bench) -> None:
    made = await open_round(bench)
    taken = await asyncio.gather(*(made.take("甲") for _ in range(20)))
    assert len(set(map(str, taken))) == 1
    assert len(await bench.rounds.tasks("team", "rr_1", "甲")) == 1


async def test_a_batch_that_is_erased_while_raters_are_at_work_takes_its_round_along(bench: Bench) -> None:
    made = await open_round(bench, raters_per_item=20)
    raters = [f"rater-{number}" for number in range(10)]
    held = {rater: await made.position(rater) for rater in raters}
    await asyncio.gather(
        *(made.take(f"new-{number}") for number in range(10)),
        *(made.finish(rater, position) for rater, position in held.items()),
        bench.batches.erase("team", "ba_1"),
        *(made.take(rater) for rater in raters),
    )
    assert await bench.rounds.find_round("team", "rr_1") is None
    assert await bench.rounds.tasks("team", "rr_1", "rater-0") == []


# Raters


@pytest.mark.parametrize("rater", ["'; DROP TABLE round_tasks; --", "😀" * 128, "評" * 128, "e\u0301", "%", "a b"])
async def test_a_rater_may_have_any_name(bench: Bench, rater: str) -> None:
    made = await open_round(bench)
    assert len(await made.rate(rater, 2)) == 2
    assert len(await bench.rounds.tasks("team", "rr_1", rater)) == 2
    assert (await bench.rounds.progress("team", ["rr_1"]))["rr_1"].raters == {rater: 2}


async def test_names_differ_by_case_and_by_code_points(bench: Bench) -> None:
    made = await open_round(bench, raters_per_item=100)
    names = ["ann", "Ann", "é", "e\u0301", "ａｎｎ"]
    for number, name in enumerate(names):
        await made.rate(name, number)
        await made.take(name)
    assert (await bench.rounds.progress("team", ["rr_1"]))["rr_1"].raters == {
        name: number for number, name in enumerate(names)
    }


@pytest.mark.parametrize("rater", ["a\0", "\ud800"])
async def test_a_name_that_no_column_can_hold_is_refused(bench: Bench, rater: str) -> None:
    made = await open_round(bench)
    with pytest.raises(InvalidRequest):
        await made.take(rater)
    assert await bench.rounds.tasks("team", "rr_1", rater) == []
    assert not await made.finish(rater, POSITIONS[0])


async def test_nobody_finishes_what_they_were_not_given(bench: Bench) -> None:
    made = await open_round(bench)
    position = await made.position("甲")
    others = set(POSITIONS) - {position}
    assert not any([await made.finish("甲", other) for other in [*others, 99]])
    assert not await made.finish("乙", position)
    assert await made.finish("甲", position)
    assert await made.finish("甲", position)  # again, and nothing is counted twice
    assert (await bench.rounds.progress("team", ["rr_1"]))["rr_1"].ratings == 1


# Progress


async def test_progress_counts_ratings_responses_and_raters(bench: Bench) -> None:
    made = await open_round(bench, raters_per_item=2)
    later = make_round("rr_2", 1, raters_per_item=1).model_copy(update={"created_at": START + ABANDONED})
    await bench.rounds.open_round("team", later, draw([3]))
    await made.rate("甲")
    await made.rate("乙", 2)
    await made.take("丙")
    told = await bench.rounds.progress("team", ["rr_2", "rr_1", "rr_none", "rr_1"])
    assert set(told) == {"rr_1", "rr_2"}
    first, second = told["rr_1"], told["rr_2"]
    assert (first.ratings, first.wanted, first.complete) == (7, 10, 2)
    assert first.raters == {"甲": 5, "乙": 2, "丙": 0}
    assert (second.ratings, second.wanted, second.complete, second.raters) == (0, 1, 0, {})
    assert await bench.rounds.progress("team", []) == {}


async def test_the_largest_round_works(bench: Bench) -> None:
    await make_batch(bench.batches, "ba_1", 2000)
    opened = make_round(drawn=2000, raters_per_item=1)
    await bench.rounds.open_round("team", opened, draw(range(1999, -1, -1)))
    assert len({*await Round(bench.rounds).rate("甲", 5)}) == 5


async def test_responses_count_as_shared_by_those_who_rated_in_both(bench: Bench) -> None:
    made = await open_round(bench)
    await bench.rounds.open_round("team", make_round("rr_2"), draw(POSITIONS))
    other = Round(bench.rounds, "rr_2")
    assert await bench.rounds.count_shared("team", "rr_1", "rr_2") == (0, 0)
    seen = {*await made.rate("甲", 2), *await made.rate("乙", 3)}
    await made.rate("丙", 1)
    for rater in "甲乙":
        await other.rate(rater, 1)
    assert await other.take("丙")  # given, and not rated
    assert await bench.rounds.count_shared("team", "rr_1", "rr_2") == (2, len(seen))
    assert (await bench.rounds.count_shared("team", "rr_2", "rr_1"))[0] == 2
    assert await bench.rounds.count_shared("other", "rr_1", "rr_2") == (0, 0)
