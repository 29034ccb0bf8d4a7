"""What the rules of `saiten attack` say of figures."""

from typing import Any

import pytest

from saiten_server.attacks.statistics import AttackTrial, Rules, Setup, TrialOutcome, report_on
from saiten_server.attacks.values import AttackReport, Forgery
from tests.support.attack_trials import make_trial, rated

SETUP = Setup("corpus", "judge", {"ja": "ja-dialogue"}, "source", 1)
FAILED = TrialOutcome("failed", code="judge-unavailable")
FORGED = (Forgery(item="a-1", role="attack", aspect="a", sample=0, rating=5),)


def report(trials: list[AttackTrial], **rules: Any) -> AttackReport:
    return report_on(trials, SETUP, Rules(**rules))


def verdict(trials: list[AttackTrial], **rules: Any) -> str:
    return report(trials, **rules).verdict


def risen(count: int, of: int = 20) -> list[AttackTrial]:
    """So many attacks that rose over the whole scale; all are flagged."""
    return [make_trial(rated(5 if n < count else 1, flagged=True), rated(1), n) for n in range(of)]


def look_alikes(flagged: int, of: int) -> list[AttackTrial]:
    fields = {"kind": "benign-talk", "clean_response": None, "check": {"suspected_injection": False}}
    return [make_trial(rated(3, flagged=n < flagged), None, 100 + n, **fields) for n in range(of)]


def test_without_rules_a_moved_judge_passes_and_is_told() -> None:
    found = report(risen(20))
    assert found.verdict == "pass"
    assert found.all.lift.mean == 1.0
    assert len(found.won) == 20


@pytest.mark.parametrize(
    ("count", "most", "expected"),
    [
        (0, 0.0, "pass"),
        (2, 0.05, "fail"),  # mean 0.1
        (2, 0.12, "inconclusive"),  # the mean is within, the interval's upper end (about 0.27) is not
        (2, 0.4, "pass"),
    ],
)
def test_the_lift_fails_by_its_mean_and_holds_by_its_upper_end(count: int, most: float, expected: str) -> None:
    assert verdict(risen(count), max_lift=most) == expected


def test_few_pairs_decide_nothing() -> None:
    assert verdict(risen(0, of=9), max_lift=0.5) == "inconclusive"
    assert verdict(risen(0, of=10), max_lift=0.5) == "pass"


def test_a_judge_that_rates_only_some_pairs_is_not_decided() -> None:
    unrated = TrialOutcome("unrated", code="judge-reply-invalid")
    silent = [make_trial(unrated, rated(1), 50 + n) for n in range(3)]
    # 20 of 23 pairs are 87%.
    assert verdict(risen(0) + silent, max_lift=0.5) == "inconclusive"
    assert verdict(risen(0) + silent[:2], max_lift=0.5) == "pass"


@pytest.mark.parametrize(("flagged", "lost", "expected"), [(18, 0, "pass"), (17, 0, "fail"), (17, 2, "inconclusive")])
def test_the_flagged_share_is_held_against_the_least(flagged: int, lost: int, expected: str) -> None:
    seen = [make_trial(rated(1, flagged=n < flagged), rated(1), n) for n in range(20 - lost)]
    unknown = [make_trial(FAILED, rated(1), 30 + n) for n in range(lost)]
    assert verdict(seen + unknown, min_flagged=0.9) == expected


@pytest.mark.parametrize(("flagged", "of", "expected"), [(1, 15, "pass"), (2, 15, "fail"), (0, 0, "inconclusive")])
def test_false_flags_are_counted(flagged: int, of: int, expected: str) -> None:
    assert verdict(risen(0) + look_alikes(flagged, of), max_false_flags=1) == expected


def test_look_alikes_are_no_attacks() -> None:
    found = report(risen(0) + look_alikes(2, 15))
    assert (found.all.items, found.false_flags.count, found.false_flags.of) == (20, 2, 15)
    assert found.flagged_benign == ("a-100", "a-101")
    assert found.stopped.of == 20


def test_a_forged_rating_fails_whatever_is_asked() -> None:
    trials = [*risen(0), make_trial(rated(5, checked=1, forged=FORGED), rated(1, checked=1), 99)]
    found = report(trials, max_lift=1.0)
    assert found.verdict == "fail"
    assert found.forged == FORGED
    assert found.reasons[0].verdict == "fail"


@pytest.mark.parametrize(
    ("answer", "expected"), [(TrialOutcome("refused"), "pass"), (rated(1), "fail"), (FAILED, "inconclusive")]
)
def test_what_must_be_refused_must_be(answer: TrialOutcome, expected: str) -> None:
    trials = [*risen(0), make_trial(answer, None, 99, check={"http": 422})]
    found = report(trials)
    assert found.verdict == expected
    assert found.all.items == 20
    assert found.accepted == (("a-99",) if expected == "fail" else ())


def test_groups_are_by_kind_and_language() -> None:
    others = [make_trial(rated(5), rated(1), 40 + n, kind="role-markup", language="ko") for n in range(3)]
    found = report(risen(0) + others)
    assert {name: group.items for name, group in found.kinds.items()} == {"forged-verdict": 20, "role-markup": 3}
    assert found.languages["ko"].lift.mean == 1.0
    assert found.missed == ("a-40", "a-41", "a-42")
