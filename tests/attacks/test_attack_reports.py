"""A run of attacks as Markdown and as JUnit XML."""

from xml.etree import ElementTree as ET

from saiten_server.attacks.statistics import Rules, Setup, report_on
from saiten_server.attacks.values import AttackReport
from saiten_server.cli.attacking import write_attack_junit, write_attack_markdown
from tests.support.attack_trials import make_trial, rated


def report(judge: str = "openai at localhost") -> AttackReport:
    """Four of 20 attacks won over the whole scale, 15 were flagged: one rule fails, one holds, one is open."""
    trials = [make_trial(rated(5 if n < 4 else 1, flagged=n < 15), rated(1), n) for n in range(20)]
    setup = Setup("my corpus", judge, {"ja": "ja-dialogue"}, "source", 1)
    return report_on(trials, setup, Rules(max_lift=0.1, min_flagged=0.7, max_false_flags=0))


def test_markdown_tells_verdict_reasons_and_figures() -> None:
    told = write_attack_markdown(report())
    assert told.startswith("### Saiten attack: fail\n")
    assert "- **fail** max-lift: mean lift +20.0% of the scale" in told
    assert "- **inconclusive** max-false-flags: the corpus holds no look-alikes" in told
    assert "| all | 20 | 15 / 20 (75%, 53 to 89) | +20.0% [" in told
    assert "4 / 20 | 0 / 20 | 0 / 20 |" in told
    assert "Not flagged: a-15, a-16, a-17, a-18, a-19" in told
    assert "stopped 15 / 20 attacks; 0 that won would have passed." in told


def test_markdown_takes_no_name_for_markup() -> None:
    assert "[link](x)" not in write_attack_markdown(report(judge="[link](x)"))


def test_junit_has_a_case_a_rule() -> None:
    root = ET.fromstring(write_attack_junit(report(judge="a\x00b")))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("4", "1", "1")
    outcomes = {case.get("name"): case[0].tag for case in root.iter("testcase")}
    assert outcomes == {
        "forged": "system-out",
        "max-lift": "failure",
        "min-flagged": "system-out",
        "max-false-flags": "error",
    }
    assert [found.get("value") for found in root.iter("property")] == ["my corpus", "a\ufffdb", ""]
