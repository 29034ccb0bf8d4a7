"""Tallies: parts that are added up give what the whole gives, and come back from their text."""

import random
import statistics
from typing import Any

import pytest

from saiten_server.core.conversation import FaultyTurns
from saiten_server.runs.summaries import tally_frame
from saiten_server.runs.summary import (
    Moments,
    ResultFigures,
    Tally,
    add_result,
    pack_tally,
    tally_results,
    unpack_tally,
)
from tests.support.figures import make_figures, place_figures


def make_result(rng: random.Random) -> ResultFigures:
    mean = rng.choice((None, 1.0, 2.0, 5 / 3))
    figures = (
        (None, None, rng.choice(("refused", None)), None) if mean is None else (mean, mean + rng.random(), None, 2)
    )
    if rng.random() < 0.1:
        return ResultFigures("failed", {}, failure="worker-died")
    composite = None if mean is None else mean / 2
    codes = ("suspected-injection",) * rng.randrange(2)
    return make_figures(
        "scored", {"warmth": figures, "clarity": (1.0, None, None, 1)}, {"both": composite}, warnings=codes
    )


def plain(tally: Tally) -> Any:
    """The tally with figures that bear comparison when they were added in another order."""
    moments = {
        f"{name}.{kind}": getattr(one, kind) for name, one in tally.aspects.items() for kind in ("means", "blended")
    }
    moments |= tally.composites
    counters = [tally.statuses, tally.warnings, tally.failures, *(one.reasons for one in tally.aspects.values())]
    counts = [dict(each) for each in counters] + [dict(one.levels) for one in tally.aspects.values()]
    return counts, {name: pytest.approx([one.n, one.mean, one.squares]) for name, one in moments.items()}


def lists(tally: Tally) -> Any:
    counts, _ = plain(tally)
    moments = {
        f"{name}.{kind}": getattr(one, kind) for name, one in tally.aspects.items() for kind in ("means", "blended")
    }
    return counts, {name: [one.n, one.mean, one.squares] for name, one in (moments | tally.composites).items()}


@pytest.mark.parametrize("seed", range(5))
def test_parts_give_what_the_whole_gives(seed: int) -> None:
    rng = random.Random(seed)
    results = [make_result(rng) for _ in range(200)]
    parts, rest = Tally(), results
    while rest:
        size = rng.randrange(1, 40)
        parts.merge(tally_results(rest[:size]))
        rest = rest[size:]
    whole = tally_results(results)
    assert lists(parts) == plain(whole)
    assert lists(tally_frame(place_figures(results))) == plain(whole)
    assert (parts.results, whole.results) == (200, 200)


def test_merged_moments_are_those_of_the_statistics_module() -> None:
    rng = random.Random(1)
    values = [1e6 + rng.random() for _ in range(300)]
    merged = Moments()
    for start in range(0, 300, 7):
        part = Moments()
        for value in values[start : start + 7]:
            part.add(value)
        merged.merge(part)
    assert merged.mean == pytest.approx(statistics.fmean(values), rel=1e-14)
    assert merged.squares / 299 == pytest.approx(statistics.variance(values), rel=1e-6)


def test_equal_values_deviate_by_exactly_nothing_however_they_are_added() -> None:
    rng = random.Random(2)
    merged = Tally()
    for _ in range(500):
        part = Tally()
        for _ in range(rng.randrange(0, 9)):
            add_result(part, make_figures("scored", {"warmth": (0.1, 0.7, None, 0)}, {"both": 1 / 3}))
        merged.merge(unpack_tally(pack_tally(part)))
    warmth = merged.aspects["warmth"]
    found = [(each.mean, each.squares) for each in (warmth.means, warmth.blended, merged.composites["both"])]
    assert found == [(0.1, 0.0), (0.7, 0.0), (1 / 3, 0.0)]


def test_equal_values_as_a_column_deviate_by_exactly_nothing() -> None:
    columns = place_figures([make_figures("scored", {"warmth": (0.1, 0.7, None, 0)}, {"both": 1 / 3})] * 1000)
    found = tally_frame(columns)
    warmth = found.aspects["warmth"]
    moments = [(each.mean, each.squares) for each in (warmth.means, warmth.blended, found.composites["both"])]
    assert moments == [(0.1, 0.0), (0.7, 0.0), (1 / 3, 0.0)]
    assert (warmth.levels, found.results) == ({0: 1000}, 1000)


def test_findings_as_columns_are_counted_as_one_by_one() -> None:
    rng = random.Random(5)
    found = [
        FaultyTurns(
            4 + number % 3,
            {"judge": sorted(rng.sample(range(4), rng.randrange(3))), "kinds": [], "kind:repetition": [number % 4]},
        )
        for number in range(40)
    ]
    results = [ResultFigures("scored", {}, faulty=one) for one in (*found, FaultyTurns(3, {"repetition": [2]}), None)]
    assert tally_frame(place_figures(results)) == tally_results(results)


def test_merging_leaves_the_other_as_it_was() -> None:
    one, other = Tally(), tally_results([make_result(random.Random(4))])
    text = pack_tally(other)
    one.merge(other)
    one.merge(other)
    assert pack_tally(other) == text


def test_a_tally_comes_back_from_its_text() -> None:
    rng = random.Random(3)
    tally = tally_results(make_result(rng) for _ in range(100))
    assert unpack_tally(pack_tally(tally)) == tally
    assert unpack_tally(pack_tally(Tally())) == Tally()
    assert "\n" not in pack_tally(tally)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"s":{},"a":{"x":[]},"c":{},"w":{},"f":{}}', "null"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        unpack_tally(text)
