"""Which human ratings count."""

from saiten.core.messages import Message
from saiten_server.core.reports import RatingsUsed
from saiten_server.ratings.reliability import fetch_ratings
from saiten_server.ratings.rounds.store import RoundStore
from saiten_server.ratings.store import RatingStore
from saiten_server.ratings.values import Exclusion, HumanRating, RatingRound, RoundOptions
from tests.support.batches import START
from tests.support.bench import Bench
from tests.support.drawn import draw
from tests.support.scored_batches import score_batch


def rate(rater: str, item: str = "item-0", *, simulated: bool = False) -> HumanRating:
    return HumanRating(item=item, batch="ba_1", rater=rater, ratings={"warmth": 1}, simulated=simulated)


async def look(store: RatingStore) -> tuple[list[str], RatingsUsed]:
    found = await fetch_ratings(store, "team", ["ba_1", "ba_1"])
    return [rating.rater for rating in found.ratings], found.used


async def test_simulated_ratings_count_only_where_there_are_no_others(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1]})
    store = bench.store
    assert await look(store) == ([], RatingsUsed(counted=0, simulated=False, simulated_left_out=0, excluded=0))
    await store.keep("team", [rate("s1", simulated=True), rate("s2", simulated=True)], START)
    raters, used = await look(store)
    assert raters == ["s1", "s2"]
    assert used == RatingsUsed(counted=2, simulated=True, simulated_left_out=0, excluded=0)
    assert [*used.notes()] == [Message("simulated-ratings-used")]
    await store.keep("team", [rate("hanako")], START)
    raters, used = await look(store)
    assert (raters, used.counted, used.simulated, used.simulated_left_out) == (["hanako"], 1, False, 2)
    assert [*used.notes()] == [Message("simulated-ratings-left-out", ratings=2)]


async def test_ratings_of_excluded_raters_and_rounds_are_left_out(bench: Bench) -> None:
    await score_batch(bench.batches, "ba_1", {"warmth": [0, 1]})
    store = bench.store
    of_round = HumanRating(evaluation="ev_ba_1_0", rater="taro", ratings={"warmth": 1})
    await store.keep("team", [rate("junk"), rate("junk", "item-1"), rate("taro"), of_round], START)
    rounds, options = RoundStore(bench.engine), RoundOptions(name="round")
    await rounds.open_round(
        "team", RatingRound(id="rr_1", batch="ba_1", options=options, drawn=1, created_at=START), draw([0])
    )
    await rounds.take("team", "rr_1", "taro", START)
    assert await rounds.finish("team", "rr_1", "taro", 0, START)
    for exclusion in (Exclusion(rater="junk"), Exclusion(round="rr_1")):
        await store.exclude("team", exclusion, START)
    raters, used = await look(store)
    assert (raters, used.counted, used.excluded) == (["taro"], 1, 3)
    assert [*used.notes()] == [Message("excluded-ratings-left-out", ratings=3)]
