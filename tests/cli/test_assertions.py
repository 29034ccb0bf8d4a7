"""Assertions of saiten.toml: how they are read, what they find, and a gate that fails by them."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from saiten.commands.assertions import Assertion, CheckedResponse, answers_of, check, read_assertions
from saiten.commands.files import InvalidItems
from tests.support.command import saiten
from tests.support.gate_files import write_items

CASES = {
    "contains": ({"contains": "円"}, "五円です", "五個です"),
    "not_contains": ({"not_contains": "すみません"}, "はい", "すみません。"),
    "matches": ({"matches": r"^\p{Hiragana}+[。？]$"}, "はい。", "ハイ。"),
    "not_matches": ({"not_matches": "(?i)as an ai"}, "no", "As an AI"),
    "max_characters": ({"max_characters": 3}, "あいう", "あいうえ"),
    "linear": ({"not_matches": "(a+)+$|(a|a)*b"}, "a" * 8000 + "!", "a" * 8000 + "b"),
}


@pytest.mark.parametrize(("table", "holds", "fails"), CASES.values(), ids=CASES)
def test_what_holds_and_what_does_not(table: dict[str, object], holds: str, fails: str) -> None:
    (finding,) = check([Assertion.model_validate(table)], [CheckedResponse("i1", holds), CheckedResponse("i2", fails)])
    assert [item for item, _ in finding.failed] == ["i2"]
    assert finding.checked == 2


def test_latency_and_items() -> None:
    items = [
        {"id": "fast", "response": "x", "metadata": {"latency_ms": "80"}},
        {"id": "slow", "responses": ["x", "y"], "metadata": {"latency_ms": "800"}},
        {"id": "unknown", "response": "x", "metadata": {"latency_ms": "nan"}},
        {"response": "x", "metadata": {"latency_ms": "99"}},
    ]
    tables = [{"max_latency_ms": 100.0}, {"contains": "x", "items": ["slow"]}, {"contains": "x", "items": ["none"]}]
    latency, named, missing = check([Assertion.model_validate(table) for table in tables], answers_of(items))
    assert latency.describe() == "3 of 5 responses do not hold: slow (800 ms), unknown (its latency is not known)"
    assert (named.checked, named.failed) == (2, [("slow", "")])
    assert not missing.holds
    assert missing.describe() == "there is no such item"


def test_many_failures_are_named_shortly() -> None:
    (finding,) = check([Assertion(contains="x")], [CheckedResponse(f"i{number}", "y") for number in range(100_000)])
    assert finding.describe().startswith("100,000 of 100,000 responses do not hold: i0, i1,")
    assert finding.describe().endswith("i9 and 99,990 more")


FAULTS = {
    "[[assertions]]\n": "name one of contains",
    '[[assertions]]\ncontains = "a"\nmatches = "b"\n': "name one of contains",
    '[[assertions]]\ncontain = "a"\n': "assertions.0.contain",
    '[[assertions]]\nmatches = "["\n': "assertions.0.matches: missing ]",
    '[[assertions]]\nmatches = "(?=a)b"\n': "look-around and back-references are not supported",
    '[[assertions]]\nmatches = "((a{100}){100}){100}"\n': "assertions.0.matches",
    "[[assertions]]\nmax_characters = 0\n": "assertions.0.max_characters",
    "[assertions]\n": "write each as [[assertions]]",
    "assertions = 3\n": "write each as [[assertions]]",
    "assertions = [3]\n": "assertions.0",
}


@pytest.mark.parametrize(("text", "message"), FAULTS.items())
def test_faults_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "s.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidItems) as caught:
        read_assertions(str(tmp_path / "s.toml"))
    assert message in caught.value.message


def test_a_failing_assertion_fails_the_gate_everywhere(tmp_path: Path) -> None:
    write_items(tmp_path, count=6, worse=2)
    rules = '[gate]\ncandidate = "items.ndjson"\n[[gate.rules]]\naspect = "overall"\nmin_mean = 1.0\n'
    assertions = '[[assertions]]\nnot_contains = "そうですか"\n[[assertions]]\nmax_characters = 500\n'
    (tmp_path / "saiten.toml").write_text(rules + assertions, encoding="utf-8")
    done = saiten("gate", "--junit", "g.xml", "--markdown", "g.md", "--judge", "lexical", folder=tmp_path)
    assert done.returncode == 1, done.stderr + done.stdout
    assert done.stdout.startswith("gate: fail\n  ✗ not_contains 'そうですか': 2 of 6 responses do not hold: i0, i1\n")
    cases = {case.get("name"): case for case in ET.parse(tmp_path / "g.xml").iter("testcase")}
    failure = cases["assertion: not_contains 'そうですか'"].find("failure")
    assert failure is not None
    assert failure.get("type") == "assertion-failed"
    assert cases["assertion: max_characters 500"].find("failure") is None
    assert "- **fail** assertion (not\\_contains 'そうですか'): 2 of 6" in (tmp_path / "g.md").read_text(
        encoding="utf-8"
    )

    told = saiten("gate", "--json", "--judge", "lexical", "--record", "base.ndjson", folder=tmp_path)
    answer = json.loads(told.stdout)
    assert (answer["verdict"], answer["reasons"][0]["code"]) == ("fail", "assertion-failed")
    assert not (tmp_path / "base.ndjson").exists(), "what fails is no baseline"


def test_results_without_texts_cannot_be_asserted(tmp_path: Path) -> None:
    from tests.support.gate_files import write_results

    write_results(tmp_path, "old.ndjson", [3] * 4)
    (tmp_path / "saiten.toml").write_text('[[assertions]]\ncontains = "x"\n', encoding="utf-8")
    done = saiten("gate", "--candidate", "old.ndjson", "--baseline", "old.ndjson", folder=tmp_path)
    assert done.returncode == 3
    assert "assertions look at responses, which this candidate does not hold" in done.stderr


def test_the_page_s_example_is_read(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    text = page.partition('```toml title="saiten.toml"\n')[2].partition("```")[0]
    (tmp_path / "s.toml").write_text(text, encoding="utf-8")
    assert [one.kind for one in read_assertions(str(tmp_path / "s.toml"))] == [
        "not_contains",
        "matches",
        "max_latency_ms",
    ]
    assert [name for name in Assertion.model_fields if name not in page] == []
