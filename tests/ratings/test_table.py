"""Which result a human rating is of, by whatever it is named; and what of a doubt."""

from typing import Any

import numpy as np

from saiten_server.comparison.runs import find_batch
from saiten_server.core.reports import RatingsUsed
from saiten_server.ratings.reliability import CountedRatings
from saiten_server.ratings.table import Answers, judge_opinions, rater_opinions
from saiten_server.ratings.values import StoredRating
from tests.support.batches import START
from tests.support.bench import Bench
from tests.support.scored_batches import score_batch

NO_RATINGS = RatingsUsed(counted=0, simulated=False, simulated_left_out=0, excluded=0)


def rating(item: str | None = None, value: float = 1.0, **changes: Any) -> StoredRating:
    given = {"item": item, "rater": "r1", "ratings": {"warmth": value}, **changes}
    return StoredRating(**given, created_at=START)


async def fill(bench: Bench, *ids: str) -> Answers:
    batches = [await find_batch(bench.batches, "team", one) for one in ids]
    named = [rating(evaluation=f"ev_{one}_{number}") for one in ids for number in range(4)]
    return await bench.comparison.runs.read_answers("team", batches, CountedRatings(named, NO_RATINGS))


def named(table: Answers) -> list[tuple[str, str]]:
    """System and item of each row."""
    return [
        (table.systems.values[a], table.items.values[b])
        for a, b in zip(table.systems.number, table.items.number, strict=True)
    ]


def rated(table: Answers, *ratings: StoredRating) -> list[tuple[str, str]]:
    return [named(table)[opinion.row] for opinion in table.rate(ratings)]


async def test_the_observations_hold_everything_that_the_analyses_read(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0], "clarity": [None]}, blend=0.25, systems=["甲"])
    table = await fill(bench, "ba_1")
    found = rater_opinions(table, [rating("item-0", ratings={"warmth": 0.5, "clarity": 2})]).observe()
    assert (found.systems, found.items, found.raters) == (("甲",), ("item-0",), ("r1",))
    # The same opinion is what the blended value is held against; where nothing is blended there is nothing.
    ratings = {name: column.tolist() for name, column in found.ratings.items()}
    assert ratings == {"warmth": [0.5], "clarity": [2], "warmth.blended": [0.5]}
    scores = {name: column[0] for name, column in found.scores.items()}
    assert (list(scores), scores["warmth"], scores["warmth.blended"]) == (
        ["warmth", "clarity", "warmth.blended"],
        0,
        0.25,
    )
    assert np.isnan(scores["clarity"])
    assert found.similarity is not None
    assert found.similarity.tolist() == [0.5]


async def test_a_rating_may_name_a_result_in_many_ways(bench: Bench) -> None:
    entries = [("a", 0), ("a", 1), ("b", None)]
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1, 1]}, entries=entries, systems=["甲", "乙", "甲"])
    table = await fill(bench, "ba_1")
    first, second = ("甲", "a#0"), ("乙", "a#1")
    for named, expected in (
        (rating(evaluation="ev_ba_1_1"), [second]),
        (rating("a", candidate=0), [first]),
        (rating("a", batch="ba_1", candidate=1), [second]),
        (rating("a", system="甲"), [first]),
        (rating("a", candidate=1, system="乙"), [second]),
        (rating("a", candidate=1, system="甲"), []),
        (rating("a"), []),  # two results: which is meant?
        (rating("b", system="甲", batch="ba_1"), [("甲", "b")]),
        (rating("b", batch="ba_2"), []),
        (rating("b", candidate=0), []),
        (rating("c"), []),
        (rating(evaluation="ev_other"), []),
    ):
        assert rated(table, named) == expected, named
    assert (table.ambiguous, table.unmatched) == (1, 5)


async def test_an_item_of_two_batches_is_in_doubt_unless_the_batch_is_named(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0]}, name="old")
    await score_batch(bench.batches, "ba_2", {"warmth": [1]}, name="new")
    table = await fill(bench, "ba_1", "ba_2")
    assert rated(table, rating("item-0"), rating("item-0", batch="ba_2")) == [("new", "item-0")]
    assert table.ambiguous == 1


async def test_two_batches_of_one_system_are_two_systems(bench: Bench) -> None:
    for batch_id in ("ba_1", "ba_2", "ba_3"):
        await score_batch(bench.batches, batch_id, {"warmth": [0, 1]}, metadata={"system": "甲"})
    await score_batch(bench.batches, "ba_4", {"warmth": [0]})
    table = await fill(bench, "ba_1", "ba_2", "ba_3", "ba_4")
    assert [system for system, _ in named(table)] == [
        *("甲", "甲", "甲 (ba_2)", "甲 (ba_2)", "甲 (ba_3)", "甲 (ba_3)", "ba_4")
    ]


async def test_an_item_that_one_system_answers_twice_is_told_apart(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1]}, entries=[("a", None), ("a", None)])
    table = await fill(bench, "ba_1")
    assert [item for _, item in named(table)] == ["a", "a@1"]
    assert rated(table, rating(evaluation="ev_ba_1_1")) == [("ba_1", "a@1")]


async def test_of_one_raters_ratings_of_a_response_the_later_counts_aspect_by_aspect(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0], "clarity": [2]})
    table = await fill(bench, "ba_1")
    ratings = [
        rating("item-0", ratings={"warmth": 0, "clarity": 1}),
        rating("item-0", ratings={"warmth": 1}, rater="r2"),
        rating("item-0", batch="ba_1", ratings={"warmth": 1}),
        rating(evaluation="ev_ba_1_0", ratings={"warmth": 0.5}),
    ]
    assert [(opinion.rater, opinion.ratings) for opinion in table.rate(ratings)] == [
        ("r1", {"warmth": 0.5, "clarity": 1}),
        ("r2", {"warmth": 1}),
    ]


async def test_a_failed_result_can_be_rated_and_has_no_score(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1]}, fail=[1])
    table = await fill(bench, "ba_1")
    found = rater_opinions(table, [rating("item-1")]).observe()
    assert (found.scores, found.ratings["warmth"].tolist()) == ({}, [1.0])


async def test_the_clusters_of_batches_are_those_of_the_observations(bench: Bench) -> None:
    ones: list[int | None] = [0, 1, 1, 0]
    await score_batch(bench.batches, "ba_1", {"warmth": ones}, clusters=["0a", "0a", None, None])
    await score_batch(bench.batches, "ba_2", {"warmth": ones}, clusters=[None, None, "0b", "0b"])
    first, both = await fill(bench, "ba_1"), await fill(bench, "ba_1", "ba_2")
    assert np.unique(judge_opinions(first).observe().cluster, return_inverse=True)[1].tolist() == [0, 0, 1, 2]
    # Batches that answer the same items: what either takes together belongs together.
    together = judge_opinions(both).observe().cluster
    assert len({*together.tolist()}) == 2
    await score_batch(bench.batches, "ba_3", {"warmth": ones})
    assert judge_opinions(await fill(bench, "ba_3")).observe().dialogue is None
