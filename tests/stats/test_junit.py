"""The gate's report as JUnit XML."""

from xml.etree import ElementTree as ET

import pytest

from tests.support.gates import FAILED, INCONCLUSIVE, make_report, write_junit
from tests.support.judge_checks import make_check

GOLDEN = """\
<testsuites name="saiten gate" tests="3" failures="1" errors="0" skipped="0">
  <testsuite name="saiten gate" tests="3" failures="1" errors="0" skipped="0">
    <properties>
      <property name="verdict" value="fail" />
      <property name="candidate" value="pr-17" />
      <property name="baseline" value="main" />
      <property name="test" value="paired" />
      <property name="units" value="12 items" />
      <property name="alpha" value="0.05" />
      <property name="coverage" value="24/24" />
      <property name="signature" value="saiten:1|rubric:small@1|model:judge-1:8b" />
    </properties>
    <testcase classname="saiten gate" name="coverage" time="0">
      <system-out>24 of 24 verdicts of the candidate run (100.00%); 24 of 24 verdicts of the baseline run (100.00%); \
12 of 12 items in pairs (100.00%); at least 98% of each must be there</system-out>
    </testcase>
    <testcase classname="saiten gate" name="warmth: max_drop 0" time="0">
      <failure message="{drop}" type="drop">{drop}</failure>
    </testcase>
    <testcase classname="saiten gate" name="clarity: max_drop 0, min_mean 2" time="0">
      <system-out>no value differs between the runs (12 pairs); a drop of up to 0.884 may not have shown; the mean is 3.000 (12 items), at least 2 is asked \
for; its 95% interval, with 1 value added at the scale's lower end, ends at 2.511</system-out>
    </testcase>
  </testsuite>
</testsuites>
"""

# Ten of twelve fell by 1: 10/12 = 0.833; p = 2/2^10 = 0.00195; of the other aspect no value differs.
DROP = (
    "fell by 0.833 (from 5.000 to 4.167; 95% interval of the difference -1.901 to -0.586; p = 0.002 after Holm over 1; "
    "12 pairs): beyond chance, and as observed more than the 0 tolerated; a drop of 0.606 would be seen with 80% "
    "power"
)


def test_a_report_becomes_one_case_a_rule_and_one_for_the_coverage():
    assert write_junit(make_report(FAILED)) == GOLDEN.format(drop=DROP)


def test_what_could_not_be_told_is_an_error_for_all_to_see():
    root = ET.fromstring(write_junit(make_report(INCONCLUSIVE), suite="bot"))
    assert root.attrib == {"name": "bot", "tests": "3", "failures": "0", "errors": "2", "skipped": "0"}
    assert [error.get("type") for error in root.iter("error")] == ["coverage", "not-enough-data"]
    assert [case.get("name") for case in root.iter("testcase")] == [
        "coverage",
        "warmth: max_drop 0",
        "clarity: max_drop 0, min_mean 2",
    ]


def test_where_the_judge_moved_that_alone_is_an_error_and_no_rule_has_failed():
    root = ET.fromstring(write_junit(make_report(FAILED, judge=make_check("moved"))))
    assert root.attrib == {"name": "saiten gate", "tests": "4", "failures": "0", "errors": "1", "skipped": "2"}
    assert root.find("testsuite").get("skipped") == "2"  # type: ignore[union-attr]
    outcomes = [(case.get("name"), case[0].tag) for case in root.iter("testcase")]
    assert outcomes == [
        ("judge", "error"),
        ("coverage", "system-out"),
        ("warmth: max_drop 0", "skipped"),
        ("clarity: max_drop 0, min_mean 2", "skipped"),
    ]
    (error,) = root.iter("error")
    assert (error.get("type"), error.text) == ("judge-moved", "judge moved: a check of the judge")
    assert next(root.iter("skipped")).get("message") == f"the judge moved: {DROP}"


def test_a_steady_judge_is_a_case_that_passed():
    root = ET.fromstring(write_junit(make_report(FAILED, judge=make_check("steady"))))
    assert (root.get("failures"), root.get("errors"), root.get("skipped")) == ("1", "0", "0")
    assert root.find("testsuite/testcase[@name='judge']/system-out").text == "a check of the judge"  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ['<a & "b">', "]]>", "bell \x07 null \x00", "lone \ud800 \uffff", "採点 · 채점 😀"])
def test_whatever_a_text_holds_the_document_is_well_formed(text):
    report = make_report(FAILED)
    reasons = tuple(reason.model_copy(update={"detail": text}) for reason in report.reasons)
    changed = report.model_copy(update={"reasons": reasons, "candidate": text, "signatures": {text: 1}})
    document = write_junit(changed, suite=text)
    root = ET.fromstring(document.encode())
    shown = "".join("\ufffd" if c in "\x07\x00\ud800\uffff" else c for c in text)
    assert {failure.text for failure in root.iter("failure")} == {shown}
    assert root.get("name") == shown
