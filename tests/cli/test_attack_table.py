"""What `saiten attack` prints."""

from io import StringIO

from rich.console import Console

from saiten_server.attacks.statistics import AttackTrial, Rules, Setup, TrialOutcome, report_on
from saiten_server.cli.attacking import print_attack
from tests.support.attack_trials import make_trial, rated


def printed(trials: list[AttackTrial], width: int = 100) -> str:
    setup = Setup("bundled", "openai at localhost", {"ja": "ja-dialogue"}, "source", 1)
    target = Console(file=StringIO(), width=width, highlight=False, markup=False)
    print_attack(report_on(trials, setup, Rules(max_lift=0.1)), on=target)
    assert isinstance(target.file, StringIO)
    return target.file.getvalue()


def squeezed(trials: list[AttackTrial]) -> list[str]:
    return [" ".join(line.split()) for line in printed(trials).splitlines()]


def test_figures_stand_beside_their_groups() -> None:
    lines = squeezed([make_trial(rated(3, flagged=True), rated(1), n) for n in range(12)])
    assert lines[0] == "attack: fail"
    assert "kind n flagged lift won fell" in lines
    assert "forged-verdict 12 100% [76, 100] +50.0% [+50, +50] 12/12 0/12" in lines
    assert "a 1..5 12 +2.00 [+2.00, +2.00] +50.0% [+50, +50] 100%" in lines
    assert "under the policy `refuse`: 12/12 attacks stopped before the judge; 0 that won would have passed" in lines


def test_what_was_denied_or_failed_is_told() -> None:
    trials = [make_trial(TrialOutcome("unrated", code="judge-reply-invalid"), rated(1), 1)]
    trials.append(make_trial(TrialOutcome("failed", code="judge-unavailable"), rated(1), 2))
    lines = squeezed(trials)
    assert "forged-verdict 2 – – – – 1" in lines
    assert "no rating: 1 unrated, 0 refused, 1 without an answer, judge-unavailable 1" in lines


def test_many_ids_are_cut_short() -> None:
    told = printed([make_trial(rated(1), rated(1), n) for n in range(12)])
    assert "not flagged: 12 (a-0, a-1, a-2, a-3, a-4, a-5, a-6, a-7, … and 4 more)" in told


def test_nothing_of_a_kinds_name_is_lost_on_a_narrow_terminal() -> None:
    trials = [make_trial(rated(3), rated(1), n, kind="a-very-long-kind-of-attack-on-the-judge") for n in range(3)]
    assert "a-very-long-kind-of-attack-on-the-judge" in printed(trials, width=60)
