"""Cases are paired, and differ, as a comparison of the same runs finds it; noise and people's ratings are measured."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from saiten_server.comparison.pairing import find_shared_ids, match_runs
from saiten_server.comparison.values import ComparedRun
from saiten_server.explorer.case_table import (
    CaseTable,
    choose_cases,
    identify,
    make_case_table,
    measure_people,
    page_of,
)
from saiten_server.runs.frame import Label, RunFrame
from saiten_server.runs.result import CaseQuery, CaseScale
from tests.support.runs import Row, make_frame, make_run, rows_of

ASPECTS = ("warmth", "clarity")
SCALES = {"warmth": CaseScale(1, 5), "clarity": CaseScale(1, 5, best=3)}
PLAIN = Label("scored")
WARNED = Label("partial", frozenset({"register-shift"}), frozenset({("clarity", None)}))


def frame_of(rows: Sequence[Row], spread: float = np.nan) -> RunFrame:
    """The frame of a run; every third response is warned of."""
    return replace(
        make_frame(rows, ASPECTS),
        spread=np.full(len(rows), spread, dtype=np.float32),
        label=np.arange(len(rows)) % 3 // 2,
        labels=(PLAIN, WARNED),
    )


def table_of(*frames: RunFrame, numbered: bool = False) -> CaseTable:
    return make_case_table(frames, identify(frames, numbered=numbered, comparable=True), SCALES, ASPECTS)


def draw(seed: int, kind: str) -> tuple[ComparedRun, ComparedRun]:
    """Two runs of items that are named, only numbered, or under whose ids several contexts stand."""
    random_number = random.Random(seed)
    runs = []
    for run in range(2):
        items: list[Row] = []
        for number in range(40):
            if kind != "numbered" and random_number.random() < 0.1:
                continue
            name = {"named": f"item-{number}", "numbered": str(number), "shared": f"item-{number // 2}"}[kind]
            # Some numbers stand for other contexts in the other run.
            context = f"context-{number + 100 * run * (kind == 'numbered' and number % 5 == 0)}"
            for _ in range(random_number.choice((1, 1, 3))):
                ratings = {each: random_number.choice((None, 1.0, 2.0, 3.0, 4.0, 5.0)) for each in ASPECTS}
                items.append(Row(name, context, ratings))
        numbered = kind == "numbered"
        columns: dict[str, Sequence[float | None]] = dict.fromkeys(ASPECTS, ())
        runs.append(make_run(f"run-{run}", columns, rows=items, numbered=numbered, best={"clarity": 3.0}))
    return runs[0], runs[1]


def list_drops(runs: tuple[ComparedRun, ComparedRun], measure: str | None) -> dict[int, float]:
    """The pairs of the runs' comparison that fell, the largest drop first: by the position of the first response to the
    item in the baseline, the mean change."""
    paired, apart = match_runs(*runs), find_shared_ids(*(run.frame for run in runs)).tolist()
    firsts = {}
    for position, one in reversed([*enumerate(rows_of(runs[0]))]):
        firsts[one.item, one.context or 0 if one.item in apart else 0] = position
    columns = []
    for name in ASPECTS if measure is None else (measure,):
        before, after = (
            own.column(("aspect", name))[rows] for own, rows in zip(paired.means, paired.rows, strict=True)
        )
        columns.append((after - before) / (SCALES[name].width if measure is None else 1.0))
    rated = [[one for one in row if not np.isnan(one)] for row in zip(*columns, strict=True)]
    moved = {
        firsts[tuple(paired.means[0].keys[row].tolist())]: sum(values) / len(values)
        for row, values in zip(paired.rows[0].tolist(), rated, strict=True)
        if values
    }
    return {place: value for place, value in sorted(moved.items(), key=lambda pair: pair[1]) if value < -1e-6}


@pytest.mark.parametrize("kind", ["named", "numbered", "shared"])
def test_changes_are_those_of_the_comparison(kind):
    for seed in range(5):
        runs = draw(seed, kind)
        table = table_of(*(frame_of(rows_of(run)) for run in runs), numbered=kind == "numbered")
        for measure in (None, *ASPECTS):
            order, apart = choose_cases(table, CaseQuery(measure=measure, show="changed"), [], None)
            rows = page_of(table, CaseQuery(measure=measure), order, apart, offset=0, limit=999).rows
            drops = [row for row in rows if (row.changes[1] or 0) < -1e-6]
            known = list_drops(runs, measure)
            width = 1.0 if measure is None else SCALES[measure].width
            found = [(row.positions[0], (row.changes[1] or 0) * width) for row in drops]
            assert [value for _, value in found] == pytest.approx([*known.values()], abs=1e-5)
            assert {place for place, _ in found} == {*known}
            assert known


def test_filters_and_orders():
    first = [Row(f"i{number}", None, {"warmth": 3.0, "clarity": 3.0}) for number in range(6)]
    values = (3.0, 2.0, 1.0, 5.0, 4.0, None)
    second = [Row(f"i{number}", None, {"warmth": value}) for number, value in enumerate(values)]
    table = table_of(frame_of(first), frame_of(second))
    people = measure_people(table, {(0, 4): {"warmth": 1.0, "clarity": 3.0}, (1, 0): {"warmth": 3.0}, (0, 5): {}})

    def ask(**asked: Any) -> list[int]:
        order, _ = choose_cases(table, CaseQuery(**asked), [], people)
        found: list[int] = order.tolist()
        return found

    assert ask(sort="drop") == [2, 1, 0, 4, 3, 5]
    assert ask(sort="gain") == [3, 4, 0, 1, 2, 5]
    assert ask(sort="runs")[:2] == [2, 3]
    assert ask(sort="worst", measure="warmth")[:2] == [2, 1]
    assert ask(sort="best", measure="warmth")[:2] == [3, 4]
    assert ask(sort="people")[:2] == [4, 0]
    assert ask(sort="item", show="changed") == [1, 2, 3, 4]
    # With one sample each, a change of one level is noise.
    assert ask(sort="item", show="beyond") == [2, 3]
    assert ask(sort="item", warning="register-shift") == ask(sort="item", unrated="*") == [2, 5]
    assert ask(sort="item", levels={"warmth": (4.5, np.inf)}) == [3]
    assert ask(sort="item", levels={"nothing": (0, 9)}) == []
    assert choose_cases(table, CaseQuery(sort="item"), [[np.array([1, 9]), np.array([], int)]], None)[0].tolist() == [1]
    noisy = table_of(frame_of(first, 0.1), frame_of(second, 0.1))
    order, _ = choose_cases(noisy, CaseQuery(sort="item", show="beyond", measure="warmth"), [], None)
    assert order.tolist() == [2, 3]
    alone = table_of(frame_of(second))
    assert choose_cases(alone, CaseQuery(), [], None)[0].tolist() == [2, 1, 0, 4, 3, 5]
    nothing = table_of(frame_of([]), frame_of([]))
    assert choose_cases(nothing, CaseQuery(show="beyond"), [], None)[0].tolist() == []
