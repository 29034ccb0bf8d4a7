"""Places of systems: told apart where they differ, and wrong no more often than is said."""

from dataclasses import replace

import numpy as np

from saiten_server.comparison.ranking import rank_runs
from saiten_server.comparison.values import ComparedRun
from tests.support.runs import make_run, rows_of, with_rows

ITEMS = 60


def draw(generator: np.random.Generator, shifts: list[float], items: int = ITEMS) -> list[ComparedRun]:
    """Runs over the same items, some of which are harder for all."""
    hard = generator.normal(0, 0.7, items)
    columns = [np.clip(np.rint(3 + shift + hard + generator.normal(0, 0.6, items)), 1, 5) for shift in shifts]
    return [make_run(f"s{number}", {"overall": column.tolist()}) for number, column in enumerate(columns)]


def test_systems_that_differ_have_places_and_equal_ones_share_them() -> None:
    runs = draw(np.random.default_rng(1), [0.0, 1.0, -1.0, 0.0])
    assert rank_runs(runs).judged == {"overall": [(2, 3), (1, 1), (4, 4), (2, 3)]}
    assert rank_runs(runs).corrected == {}
    always = [make_run(name, {"overall": [value] * ITEMS}) for name, value in (("a", 2.0), ("b", 3.0), ("c", 3.0))]
    assert rank_runs(always).judged == {"overall": [(3, 3), (1, 2), (1, 2)]}
    # Five dialogues tell nothing, nor do runs without items in common, nor one run.
    assert rank_runs([make_run("a", {"overall": [1.0] * 5}), make_run("b", {"overall": [5.0] * 5})]).judged == {
        "overall": [(1, 2), (1, 2)]
    }
    apart = with_rows(runs[1], [replace(one, item=f"x{one.item}") for one in rows_of(runs[1])])
    assert rank_runs([runs[0], apart]).judged["overall"] == [(1, 2), (1, 2)]
    assert rank_runs(runs[:1]).judged["overall"] == [(1, 1)]


def test_an_aspect_with_its_best_level_inside_counts_by_the_distance() -> None:
    near, far = [3.0, 3.0, 2.0] * 20, [5.0, 5.0, 4.0] * 20
    runs = [make_run(name, {"overall": column}, best={"overall": 3.0}) for name, column in (("a", near), ("b", far))]
    assert rank_runs(runs).judged["overall"] == [(1, 1), (2, 2)]


def test_few_equal_changes_do_not_tell_systems_apart() -> None:
    """Ten items that all gain 0.2 may lack one in ten that falls by far; sixty hardly do."""
    for items, places in ((10, [(1, 2), (1, 2)]), (60, [(2, 2), (1, 1)])):
        runs = [make_run(name, {"overall": [value] * items}) for name, value in (("a", 3.0), ("b", 3.2))]
        assert rank_runs(runs).judged == {"overall": places}


def test_equal_systems_are_seldom_told_apart() -> None:
    generator = np.random.default_rng(2)
    wrong = sum(
        any(places != (1, 4) for places in rank_runs(draw(generator, [0.0] * 4)).judged["overall"]) for _ in range(200)
    )
    assert wrong <= 200 * 0.05 + 2 * (200 * 0.05 * 0.95) ** 0.5  # two standard errors above 5%


def test_people_decide_the_corrected_places() -> None:
    generator = np.random.default_rng(3)
    runs = draw(generator, [0.0, 0.0], items=200)
    # The judge sees no difference; people rate the second a point lower.
    said = [
        with_rows(
            run,
            [
                replace(one, people={"overall": float(np.clip((one.ratings["overall"] or 0) - down, 1, 5))}, weight=1.0)
                if number % 2
                else one
                for number, one in enumerate(rows_of(run))
            ],
        )
        for run, down in zip(runs, (0, 1), strict=True)
    ]
    found = rank_runs(said)
    assert found.judged["overall"] == [(1, 2), (1, 2)]
    assert [place.places for place in found.corrected["overall"]] == [(1, 1), (2, 2)]
    means = [place.figure.mean for place in found.corrected["overall"] if place.figure]
    assert means[0] - means[1] > 0.5
    one_rated = rank_runs([said[0], runs[1]]).corrected["overall"]
    assert [(place.figure is None, place.places) for place in one_rated] == [(False, (1, 2)), (True, (1, 2))]
    assert [bool(place.needed) for place in one_rated] == [False, True]
