"""Runs that were scored in different ways are not compared."""

import pytest

from saiten_server.comparison.differences import check_signatures, find_differences
from saiten_server.comparison.gate import judge_gate
from saiten_server.comparison.values import GateRule
from saiten_server.core.errors import SignatureMismatch
from saiten_server.core.signature import read_signature, sign
from tests.support.runs import make_run

LINE = "saiten:1|model:judge-1:8b|weight:10"


def signed(*signatures: str, name: str = "run"):
    return make_run(name, {"warmth": [1, 2]}, signatures=dict.fromkeys(signatures, 1))


def test_pieces_are_read_as_they_were_signed():
    pieces = {"judge": "openai/http://host:8000/v1", "model": "a:b:c", "dropped": "-"}
    assert read_signature(sign(pieces)) == pieces


def test_runs_of_one_signature_can_be_compared():
    assert find_differences(signed(LINE), signed(LINE)) == {}


def test_every_differing_piece_is_named_with_both_values():
    other = "saiten:1|model:judge-2:8b|weight:10|path:both"
    assert find_differences(signed(LINE), signed(other)) == {
        "model": ("judge-1:8b", "judge-2:8b"),
        "path": ("-", "both"),
    }


def test_a_run_that_mixes_signatures_is_not_one_run():
    mixed = signed(LINE.replace(":10", ":9"), LINE)
    assert find_differences(mixed, signed(LINE)) == {"weight": ("10, 9", "10")}
    # The same mix on both sides is a mix still.
    assert find_differences(mixed, mixed) == {"weight": ("10, 9", "10, 9")}


def test_an_unsigned_run_is_not_taken_for_one_scored_alike():
    assert find_differences(signed(), signed(LINE)) == {"signature": ("-", LINE)}
    assert find_differences(signed(), signed()) == {}


def test_a_run_without_results_differs_from_nothing():
    empty = make_run("empty", {"warmth": []})
    assert find_differences(empty, signed(LINE)) == {}
    assert find_differences(signed(LINE, LINE + "0"), empty) == {"weight": ("10, 100", "-")}


@pytest.mark.parametrize("signatures", [{}, {LINE.replace("judge-1", "judge-2"): 2}])
def test_where_every_candidate_failed_it_is_coverage_that_is_missing(signatures):
    failed = make_run("failed", {"warmth": [None, None]}, signatures=signatures)
    for report in (judge_gate(failed, signed(LINE)), judge_gate(signed(LINE), failed)):
        assert report.verdict == "inconclusive"
        assert report.reasons[0].code == "coverage"
        assert "0 of 2 verdicts" in str(report.reasons[0].detail)
    # One value is enough to have been made in another way.
    one = make_run("one", {"warmth": [None, 3]}, signatures=signatures)
    with pytest.raises(SignatureMismatch):
        judge_gate(one, signed(LINE))


def test_a_mismatch_is_refused_unless_it_is_allowed():
    other = signed(LINE.replace("10", "5"))
    with pytest.raises(SignatureMismatch) as refused:
        check_signatures(signed(LINE), other, allow_mismatch=False)
    assert refused.value.pieces == {"weight": ("10", "5")}
    assert "weight differs" in refused.value.detail
    assert check_signatures(signed(LINE), other, allow_mismatch=True) == {"weight": ("10", "5")}


def test_a_run_of_two_digests_is_refused_without_a_baseline_too():
    mixed = signed("saiten:1|rubric:r@1|digest:aaa", "saiten:1|rubric:r@1|digest:bbb")
    rules = [GateRule(aspect="warmth", min_mean=1.0)]
    with pytest.raises(SignatureMismatch, match="not all made in the same way; these pieces differ: digest") as refused:
        judge_gate(mixed, None, rules)
    assert refused.value.pieces == {"digest": ("-", "aaa, bbb")}
    with pytest.raises(SignatureMismatch):
        judge_gate(mixed, mixed, rules)
    assert judge_gate(mixed, None, rules, allow_signature_mismatch=True).verdict == "pass"
    upgraded = signed("saiten:1|digest:aaa", "saiten:2|digest:aaa")
    assert judge_gate(upgraded, None, rules).verdict == "pass"


def test_another_release_of_saiten_is_no_difference():
    other = LINE.replace("saiten:1", "saiten:2")
    assert find_differences(signed(LINE), signed(other)) == {}
    assert find_differences(signed(LINE, other), signed(LINE, other)) == {}  # a batch over an upgrade
    assert judge_gate(signed(other), signed(LINE)).comparison is not None


@pytest.mark.parametrize(
    ("before", "after", "advised"),
    [
        ("ja-dialogue@1", "ja-dialogue@2", True),
        ("ja-dialogue@1", "ko-comment@1", False),
        ("ja-dialogue", "ja-dialogue@2", False),
        ("ja-dialogue@1", "ja-dialogue@x", False),
    ],
)
def test_two_versions_of_a_rubric_are_told_with_what_to_ask_for(before: str, after: str, advised: bool):
    one, other = signed(f"saiten:1|rubric:{before}"), signed(f"saiten:1|rubric:{after}")
    with pytest.raises(SignatureMismatch) as refused:
        check_signatures(one, other, allow_mismatch=False)
    assert ('rubric = "ja-dialogue@1"' in refused.value.detail) == advised
