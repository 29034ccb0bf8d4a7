"""The gate of a sequence on whole runs: what was found stays red until it is mended, and skewed data are doubted."""

import re

import numpy as np
import pytest

from benchmarks.sequences import OPEN, RED, Case, draw_months, keep_red
from saiten.commands.markdown import tell_sequence
from saiten.core.messages import Message
from saiten_server.comparison.gate import judge_gate
from saiten_server.comparison.sequence_gate import find_sound, is_mended, judge_in_sequence
from saiten_server.comparison.values import ComparedRun, GateReport, GateRule, GateSequence, SequenceBuild, SequenceDrop
from saiten_server.core.sentences import tell_sentence
from saiten_server.stats.sequences import describe_builds, look_at_newest_build
from tests.support.batches import START
from tests.support.gates import answer
from tests.support.runs import make_run

Drops = dict[str, SequenceDrop]


def judge(runs: list[ComparedRun], night: int, drops: Drops | None, most: float = 0.0) -> GateReport:
    """What the gate says of this night after one that left so much unmended."""
    plain = judge_gate(runs[night], runs[0], [GateRule(aspect="warmth", max_drop=most, must_detect=2)])
    before = SequenceBuild(night=night - 1, batch=None, judged_at=START, verdict="fail", drops=drops)
    told = SequenceBuild(night=night, batch=None, judged_at=START, verdict="fail", drops={"stale": PLACE})
    sequence = GateSequence(name="n", baseline="ba", alpha=0.05, started_at=START, builds=(before, told))
    earlier = {place: runs[place] for place in range(1, night) if place != 2}
    return judge_in_sequence(plain, runs[night], runs[0], earlier, sequence=sequence, night=night)


PLACE = SequenceDrop(night=1, first=1, size=1.0)


@pytest.fixture(scope="module")
def runs() -> list[ComparedRun]:
    """A baseline and twelve builds, of which nights 8 to 10 are worse by 1; night 2 was erased."""
    draw = np.random.default_rng(9)
    level = draw.normal(3.5, 0.4, 40)
    values = [level + draw.normal(0, 0.2, 40) - (1.0 if 8 <= night <= 10 else 0.0) for night in range(13)]
    return [make_run(f"b{night}", {"warmth": one.clip(1, 5).tolist()}) for night, one in enumerate(values)]


def test_a_red_stays_red_until_the_drop_is_mended(runs: list[ComparedRun]) -> None:
    said, drops = list[tuple[str, Message | str]](), dict[str, SequenceDrop]()
    for night in range(7, 13):
        report = judge(runs, night, drops)
        assert report.sequence is not None
        drops = dict(report.sequence.drops)
        said.append((report.verdict, next(one.detail for one in report.reasons if one.about == "rule")))
        if night == 9:
            mark = answer(report).sequence
            assert mark is not None
            assert "not mended, by the build that it was found in: warmth (8)" in tell_sequence(mark)
    assert [verdict for verdict, _ in said] == ["pass", "fail", "fail", "fail", "pass", "pass"]
    assert "not mended since build 8 of the sequence, which showed a drop of" in str(said[2][1])
    assert "the drop found in build 8 is mended" in str(said[4][1])
    assert [one for _, one in said if re.search("[a-z]{3,}", tell_sentence(one, "ja") + tell_sentence(one, "ko"))] == []
    assert drops == {}


def test_what_a_rule_tolerates_is_not_failed_and_other_rules_keep_their_drops(runs: list[ComparedRun]) -> None:
    found = judge(runs, 8, {})
    assert found.sequence is not None
    assert found.sequence.drops["warmth"].night == found.sequence.drops["warmth"].first == 8
    left = {**found.sequence.drops, "clarity": PLACE}
    lenient = judge(runs, 9, left, most=2.0)
    assert lenient.sequence is not None
    # All of the drop is tolerated now, but nothing has risen since it was found.
    assert (lenient.verdict, lenient.sequence.drops) == ("inconclusive", left)


def test_builds_that_are_as_bad_as_they_were_are_not_taken_for_mended() -> None:
    case = Case("", 100, 3, 0.05, drop=0.5, turn=10, mended=20)
    said = keep_red(draw_months(case, 10, np.random.default_rng(10)))
    assert (said[:, 11:19] == RED).mean() >= 0.97
    assert (said[:, 11:19] == OPEN).mean() <= 0.02
    assert (said[:, 21:] == RED).mean() <= 0.1


def test_a_drop_whose_builds_were_all_erased_is_not_shown_to_be_mended() -> None:
    values = np.random.default_rng(3).normal(3, 0.5, (30, 6))
    drop = SequenceDrop(night=6, first=6, size=1.0)
    nights = np.array([0, 1, 2, 3, 4, 7])
    assert not is_mended(describe_builds(values, np.arange(30)), nights, drop, tolerated=0, alpha=0.05, night=7)


def test_a_drop_that_a_few_dialogues_far_off_would_undo_is_doubted() -> None:
    """Of ten dialogues all fell by 0.2: one in ten that rises by 1.8 would be missing in a third of all samples."""
    draw = np.random.default_rng(4)
    night = np.arange(9)
    values = 3 - 0.2 * (night >= 8) + draw.normal(0, 0.02, (10, 9))
    builds = describe_builds(values, np.arange(10))
    seen = look_at_newest_build(builds, level=0.01)
    assert seen.significant.any()
    assert not find_sound(builds, seen, 2.0, level=0.01).any()
    # With no room above, none can have risen.
    assert find_sound(builds, seen, 0.0, level=0.01).any()


@pytest.mark.parametrize(
    ("items", "newest", "verdict", "told"),
    [
        (200, 5.0, "pass", "a drop of up to 0.0595 may not have shown"),
        (200, 4.0, "pass", "a drop of up to 0.094 may not have shown"),
        (8, 5.0, "inconclusive", "a drop of up to 1.25 may not have shown, and 1 must: about 11 dialogues would do"),
        # One of eight dialogues differs: its spread alone would show a drop of a half.
        (8, 4.0, "inconclusive", "a drop of up to 1.88 may not have shown, and 1 must"),
    ],
)
def test_what_hardly_differs_shows_no_more_than_so_many_dialogues_can(
    items: int, newest: float, verdict: str, told: str
) -> None:
    _, report = judge_ninth(items, newest, must_detect=1)
    reason = next(one for one in report.reasons if one.about == "rule")
    assert (reason.verdict, told in str(reason.detail)) == (verdict, True), str(reason.detail)
    assert "more nights" not in str(reason.detail)


def judge_ninth(items: int, newest: float, must_detect: float) -> tuple[GateReport, GateReport]:
    """The reports of a plain gate and in a sequence on the ninth build, of which one item has another rating, if that
    differs from 5."""
    same = [5.0] * items
    builds = [make_run(f"b{night}", {"warmth": same}) for night in range(8)]
    builds.append(make_run("b8", {"warmth": [newest, *same[1:]]}))
    rule = GateRule(aspect="warmth", max_drop=0.0, must_detect=must_detect)
    plain = judge_gate(builds[8], builds[0], [rule])
    sequence = GateSequence(name="n", baseline="ba", alpha=0.05, started_at=START, builds=())
    earlier = dict(enumerate(builds[1:8], start=1))
    return plain, judge_in_sequence(plain, builds[8], builds[0], earlier, sequence=sequence, night=8)


@pytest.mark.parametrize(("must_detect", "needed"), [(1, 11), (0.5, 23), (0.1, 119)])
def test_a_gate_and_a_sequence_count_what_it_takes_alike(must_detect: float, needed: int) -> None:
    for report, unit in zip(judge_ninth(10, 5.0, must_detect), ("items", "dialogues"), strict=True):
        reason = next(one for one in report.reasons if one.about == "rule")
        assert f"about {needed} {unit} would do" in str(reason.detail), str(reason.detail)
