"""The simulated gate decides as the gate does."""

import numpy as np
import pytest

from benchmarks.corrected import ITEMS, JUDGES, Array
from benchmarks.corrected_gate import DIALOGUES, draw_pair, fail_corrected, fail_judge, keep_rated
from saiten_server.comparison.gate import judge_gate
from saiten_server.comparison.values import ComparedRun, GateRule
from tests.support.runs import Row, make_frame

RATED = range(0, ITEMS, 5)


def make_run(name: str, scores: Array, people: Array) -> ComparedRun:
    items = [
        Row(
            str(row),
            None,
            {"overall": float(scores[row])},
            cluster=str(row * DIALOGUES // ITEMS),
            people={"overall": float(people[row])} if row in RATED else {},
        )
        for row in range(ITEMS)
    ]
    return ComparedRun(
        name, make_frame(items, ("overall",)), ITEMS, {"judge": ITEMS}, {"overall": (1.0, 5.0)}, ("overall",)
    )


@pytest.mark.parametrize(
    ("effect", "expected"), [("equal", (False, False)), ("drop", (True, True)), ("drift", (False, True))]
)
def test_the_verdicts_are_those_of_the_gate(effect: str, expected: tuple[bool, bool]) -> None:
    judge, generator = JUDGES[0], np.random.default_rng(4)
    pair = draw_pair(judge, 0.7, effect, generator)
    found = fail_corrected(*keep_rated(pair, list(RATED)), judge.scale), fail_judge(pair, generator)
    assert found == expected
    before, after = (
        make_run(name, *columns) for name, *columns in zip(("main", "pr"), pair.scores, pair.people, strict=True)
    )
    rule = GateRule(aspect="overall", max_drop=0.0)
    verdicts = [judge_gate(after, before, [rule], estimate=estimate).verdict for estimate in ("corrected", "judge")]
    assert tuple(verdict == "fail" for verdict in verdicts) == expected
