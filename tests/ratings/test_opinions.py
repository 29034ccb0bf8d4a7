"""What is said of a table's results, as columns: what a reader of the same records, one by one, would have."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from saiten_server.comparison.runs import find_batch
from saiten_server.core.batch import Entry
from saiten_server.core.errors import InvalidLines, InvalidRequest
from saiten_server.ratings.table import Answers, judge_opinions, name_run, rater_opinions
from saiten_server.ratings.values import StoredRating
from saiten_server.runs.frame import join_frames
from saiten_server.runs.summary import ResultFigures, flat_name
from saiten_server.stats import reading
from saiten_server.stats.observations import Observations
from saiten_server.stats.reading import ObservationReader
from tests.support.batches import START
from tests.support.bench import Bench
from tests.support.figures import make_figures, place_figures
from tests.support.scored_batches import score_batch

Scored = tuple[Entry, ResultFigures]

NAMES = ("warmth", "clarity", "tone")


def draw_scores(draw: random.Random) -> ResultFigures:
    """Anything that a result may be: failed, partial, blended in part, of another system."""
    if draw.random() < 0.1:
        return ResultFigures("failed", {}, failure="judge-refused-request")
    return make_figures(
        status="scored",
        aspects={
            name: (draw.choice([1.0, 2, 1 / 3, None]), draw.choice([None, 0.5]) if name == "warmth" else None, None, 1)
            for name in NAMES
        },
        composites={"both": draw.choice([0.5, None])},
        similarity=draw.choice([None, 0.25]),
        system=draw.choice([None, "甲", "乙"]),
    )


def draw_results(draw: random.Random, count: int) -> list[Scored]:
    """In order; some are candidates of one item, some of an id that was there already."""
    return [
        (
            Entry(
                position=at, item=f"item-{at // 2 if draw.random() < 0.5 else at}", candidate=draw.choice([None, at])
            ),
            draw_scores(draw),
        )
        for at in range(count)
    ]


def draw_ratings(draw: random.Random, count: int) -> list[StoredRating]:
    return [
        StoredRating(
            evaluation=f"ev_{draw.randrange(40)}",
            rater=draw.choice(["r1", "r2", "r3"]),
            ratings={name: draw.choice([1, 2, 2.5]) for name in (*NAMES, "mood") if draw.random() < 0.6} or {"mood": 1},
            created_at=START,
        )
        for _ in range(count)
    ]


async def fill(bench: Bench, results: Sequence[Scored], page: int) -> Answers:
    await score_batch(bench.batches, "ba_1", {"warmth": [0]}, name="夜間")
    parts = [results[start : start + page] for start in range(0, len(results), page)]
    frame = join_frames([place_figures([each for _, each in part], [entry for entry, _ in part]) for part in parts])
    items = {entry.position: entry.item for entry, _ in results}
    places = {f"ev_{position}": ("ba_1", position) for position in items}
    return Answers([name_run(await find_batch(bench.batches, "team", "ba_1"), frame, items)], places)


def name_values(figures: ResultFigures) -> dict[str, float | None]:
    """Every value of a result by name: means, composites, what is blended."""
    return {flat_name(key): value for key, value in figures.values.items()}


def read_records(records: Sequence[dict[str, Any]], wanted: Sequence[str] | None) -> Observations:
    """The strict reading of the records, of the wanted aspects alone."""
    fields = ("ratings", "scores")
    if wanted is not None:
        records = [
            {**record, **{field: {n: record[field][n] for n in wanted if n in record[field]} for field in fields}}
            for record in records
        ]
        records = [record for record in records if record["ratings"]]
    names = dict.fromkeys(name for record in records for field in fields for name in record[field])
    reader = ObservationReader(aspects=tuple(names), noun="result")
    for number, record in enumerate(records, start=1):
        reader.add(record, number)
    return reader.finish()


def describe(found: Observations) -> tuple[Any, ...]:
    """Everything, in order."""
    places = [column.tolist() for column in (found.system, found.item, found.rater)]
    columns = [(name, repr(column.tolist())) for many in (found.ratings, found.scores) for name, column in many.items()]
    b = None if found.similarity is None else repr(found.similarity.tolist())
    return found.systems, found.items, found.raters, places, columns, b


def record_of(table: Answers, row: int, results: Sequence[Scored]) -> dict[str, Any]:
    _, scores = results[row]
    record = {
        "system": table.systems.values[table.systems.number[row]],
        "item": table.items.values[table.items.number[row]],
        "scores": name_values(scores),
    }
    return record if scores.similarity is None else {**record, "similarity": scores.similarity}


@pytest.mark.parametrize("wanted", [None, ["tone", "warmth", "both"]])
@pytest.mark.parametrize("seed", range(15))
async def test_columns_are_those_of_the_records(bench: Bench, seed: int, wanted: list[str] | None) -> None:
    draw = random.Random(seed)
    results = draw_results(draw, 40)
    table = await fill(bench, results, draw.choice([1, 7, 40]))
    records = [record_of(table, row, results) for row in range(40)]
    scored = [
        {**one, "ratings": one["scores"]} for one in records if any(v is not None for v in one["scores"].values())
    ]
    assert describe(judge_opinions(table).observe(wanted)) == describe(read_records(scored, wanted))
    ratings = draw_ratings(draw, 60)
    rated = [{**records[one.row], "rater": one.rater, "ratings": one.ratings} for one in table.rate(ratings)]
    assert describe(rater_opinions(table, ratings).observe(wanted)) == describe(read_records(rated, wanted))


async def test_too_many_results_are_refused_in_the_readers_words(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    table = await fill(bench, draw_results(random.Random(1), 40), 40)
    opinions = judge_opinions(table)
    for name, most in (("MOST_READ_RATINGS", 5), ("MOST_CELLS", 100), ("MOST_ASPECTS", 2)):
        with monkeypatch.context() as patched:
            patched.setattr(reading, name, most)
            with pytest.raises(InvalidLines, match=r"^result \d+: .* (more than|are taken)"):
                opinions.observe()


async def test_a_rating_beyond_reckoning_is_refused(bench: Bench) -> None:
    table = await fill(bench, [(Entry(position=0, item="a", candidate=None), ResultFigures("scored", {}))], 1)
    rating = StoredRating(item="a", rater="r", ratings={"x": 1.0}, created_at=START).model_copy(
        update={"ratings": {"x": 1e16}}
    )
    with pytest.raises(InvalidLines, match="result 1: 'x' is not a number within"):
        rater_opinions(table, [rating]).observe()


async def test_where_nobody_said_anything_there_is_nothing(bench: Bench) -> None:
    failed = Entry(position=0, item="a", candidate=None), ResultFigures("failed", {}, failure="expired")
    table = await fill(bench, [failed], 1)
    with pytest.raises(InvalidRequest, match="no result of the batch has values yet"):
        judge_opinions(table)
    with pytest.raises(InvalidRequest, match="no human ratings concern these results"):
        rater_opinions(table, [])


async def test_two_results_that_would_share_a_name_are_told(bench: Bench) -> None:
    rated = make_figures("scored", {"warmth": (1.0, None, None, 1)}, {})
    named = [(Entry(position=at, item=item, candidate=None), rated) for at, item in enumerate(["a", "a", "a@1"])]
    table = await fill(bench, named, 3)
    with pytest.raises(InvalidLines, match="result 3: rates 'warmth' again after result 2"):
        judge_opinions(table).observe()
