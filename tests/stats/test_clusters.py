"""Turns of one dialogue are drawn, held out and counted together."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saiten_server.stats.correlation import correlate_scores
from saiten_server.stats.fitting import fit_blend, fit_composite, hold_out
from saiten_server.stats.observations import Observations
from saiten_server.stats.reading import ObservationReader, read_array, read_csv, read_ndjson
from saiten_server.stats.win_rates import rate_wins
from tests.stats.test_composite_fitting import MATE, answers
from tests.support.observed import observe

TURNS = 5
RECORDS: list[dict[str, Any]] = [
    {"item": "a1", "system": "x", "dialogue": "a", "ratings": {"fluency": 1}},
    {"item": "a2", "system": "x", "dialogue": "a", "ratings": {"fluency": 2}},
    {"item": "b1", "system": "x", "dialogue": 7, "ratings": {"fluency": 3}},
    {"item": "b1", "system": "y", "ratings": {"fluency": 3}},
    {"item": "c1", "system": "x", "dialogue": None, "ratings": {"fluency": 1}},
]


def tell(records: list[dict[str, Any]]) -> Observations:
    return observe(records)


def repeat(records: list[dict[str, Any]], *, named: bool) -> Observations:
    """Each record as so many turns of a dialogue, which all say the same."""
    return observe(
        [
            {**one, "item": f"{one['item']}-{turn}", **({"dialogue": one["item"]} if named else {})}
            for one in records
            for turn in range(TURNS)
        ]
    )


def make_records(count: int, seed: int = 0) -> list[dict[str, Any]]:
    draw = np.random.default_rng(seed)
    ratings, noise, similarity = draw.integers(1, 6, count), draw.normal(0, 1.5, count), draw.normal(0.7, 0.1, count)
    return [
        {
            "item": f"i{number:03}",
            "ratings": {"overall": int(ratings[number])},
            "scores": {"overall": float(ratings[number] + noise[number])},
            "similarity": float(similarity[number] + 0.02 * ratings[number]),
        }
        for number in range(count)
    ]


def clusters_of(observations: Observations) -> list[set[str]]:
    found: dict[int, set[str]] = {}
    for row in range(observations.n):
        found.setdefault(int(observations.cluster[row]), set()).add(observations.items[observations.item[row]])
    return sorted(found.values(), key=min)


def test_records_name_their_dialogue_in_every_form():
    lines = [json.dumps(record).encode() + b"\n" for record in RECORDS]
    table = "item,system,dialogue,fluency\na1,x,a,1\na2,x,a,2\nb1,x,7,3\nb1,y,,3\nc1,x,,1\n"
    found = [
        read_ndjson(lines, ObservationReader()),
        read_ndjson([lines[0], b"\n", *lines[1:]], ObservationReader()),
        read_array(json.dumps(RECORDS).encode(), ObservationReader()),
        read_csv([line.encode() for line in table.splitlines(keepends=True)], ObservationReader()),
        observe(RECORDS),
    ]
    for one in found:
        assert clusters_of(one) == [{"a1", "a2"}, {"b1"}, {"c1"}]


def test_dialogues_that_share_an_item_are_one_cluster():
    records = [{"item": item, "dialogue": d, "ratings": {"f": 1}, "system": d} for item, d in ("1a", "2a", "2b", "3b")]
    assert clusters_of(tell(records)) == [{"1", "2", "3"}]


def test_without_dialogues_each_item_is_its_own_cluster():
    plain = [{name: value for name, value in record.items() if name != "dialogue"} for record in RECORDS]
    assert tell(plain).dialogue is None
    assert clusters_of(tell(plain)) == [{"a1"}, {"a2"}, {"b1"}, {"c1"}]


def test_repeated_turns_make_no_interval_of_a_correlation_narrower():
    records = make_records(30)
    alone = correlate_scores(observe(records), resamples=300)
    named = correlate_scores(repeat(records, named=True), resamples=300)
    single, turns = alone.aspects["overall"], named.aspects["overall"]
    assert (named.items, named.clusters, turns.n, turns.contexts, turns.clusters) == (150, 30, 150, 150, 30)
    assert turns.pearson == pytest.approx(single.pearson)
    assert turns.pearson_interval == pytest.approx(single.pearson_interval, abs=0.005)
    assert turns.bias_interval == pytest.approx(single.bias_interval)
    independent = correlate_scores(repeat(records, named=False), resamples=300)
    assert independent.clusters is None
    low, high = independent.aspects["overall"].pearson_interval or (0.0, 0.0)
    wide = turns.pearson_interval or (0.0, 0.0)
    assert high - low < 0.6 * (wide[1] - wide[0])


def test_folds_and_resamples_of_a_blend_keep_dialogues_together():
    records = make_records(40)
    alone, turns = fit_blend(observe(records), "overall"), fit_blend(repeat(records, named=True), "overall")
    assert (turns.n, turns.clusters) == (200, 40)
    assert (turns.weight, turns.interval) == (alone.weight, alone.interval)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(0, 99), st.sampled_from([0.0, 0.2, 0.5]))
def test_what_is_held_out_is_whole_clusters_of_about_that_share(sizes: list[int], seed: int, share: float):
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    held_out = hold_out(cluster, seed, share)
    for number in range(len(sizes)):
        assert len(set(held_out[cluster == number])) == 1
    assert abs(held_out.sum() - share * len(cluster)) <= max(sizes) / 2 + 0.5


def make_rated(count: int, *, systems: int = 1, turns: int = 1, named: bool = True) -> Observations:
    """Items that systems answer alike, in dialogues of so many turns."""
    columns = answers(count, 3)
    return observe(
        [
            {
                "item": f"{number:03}-{turn}",
                "system": f"s{system}",
                **({"dialogue": f"{number}"} if named and turns > 1 else {}),
                "ratings": {name: float(column[number]) for name, column in columns.items()},
            }
            for number in range(count)
            for system in range(systems)
            for turn in range(turns)
        ]
    )


def test_a_composite_fit_never_splits_a_question_or_a_dialogue():
    by_system = fit_composite(make_rated(40, systems=4), MATE, "acceptability")
    assert (by_system.n, by_system.clusters, by_system.train, by_system.test) == (160, 40, 128, 32)
    by_turn = fit_composite(make_rated(40, turns=4), MATE, "acceptability")
    assert (by_turn.n, by_turn.clusters, by_turn.train, by_turn.test) == (160, 40, 128, 32)


def test_repeated_turns_make_no_interval_of_a_weight_narrower():
    alone = fit_composite(make_rated(60), MATE, "acceptability")
    turns = fit_composite(make_rated(60, turns=9), MATE, "acceptability")
    independent = fit_composite(make_rated(60, turns=9, named=False), MATE, "acceptability")
    for name in alone.weights:
        widths = [high - low for low, high in (one.intervals[name] or (0, 0) for one in (alone, turns, independent))]
        assert 0.6 * widths[0] < widths[1] < 1.8 * widths[0]
        assert widths[2] < 0.5 * widths[0]


def test_repeated_turns_make_no_interval_of_a_win_rate_narrower():
    def contests(turns: int, *, named: bool) -> Observations:
        return observe(
            [
                {
                    "item": f"{number}-{turn}",
                    "system": system,
                    **({"dialogue": f"{number}"} if named else {}),
                    "ratings": {"overall": value},
                }
                for number in range(20)
                for turn in range(turns)
                for system, value in (("a", 3), ("b", 2 if number % 4 else 4))
            ]
        )

    alone, turns, independent = (
        rate_wins(contests(count, named=named)) for count, named in ((1, False), (8, True), (8, False))
    )
    assert (alone.clusters, turns.contexts, turns.clusters, independent.clusters) == (None, 160, 20, None)
    for pick in (
        lambda found: found.systems["a"].interval,
        lambda found: found.pairs[0].a_wins.interval,
        lambda found: found.pairs[0].preference_interval,
    ):
        widths = [high - low for low, high in (pick(one.aspects["overall"]) for one in (alone, turns, independent))]
        assert 0.9 * widths[0] < widths[1] < 1.3 * widths[0]
        assert widths[2] < 0.5 * widths[0]


def test_a_win_in_every_dialogue_is_worth_as_many_contexts_as_there_are_dialogues():
    records = [
        {"item": f"{number}-{turn}", "system": system, "dialogue": f"{number}", "ratings": {"overall": value}}
        for number in range(10)
        for turn in range(5)
        for system, value in (("a", 3), ("b", 2))
    ]
    assert rate_wins(observe(records)).aspects["overall"].systems["a"].interval == pytest.approx((0.7225, 1), abs=1e-4)
