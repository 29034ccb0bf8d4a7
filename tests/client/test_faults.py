"""What is wrong with a file that a command reads, in the language of its user."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from saiten.answers import RelevanceResult
from saiten.commands.assertions import Assertion, read_assertions
from saiten.commands.files import InvalidItems
from saiten.commands.gate_settings import GateSettings, make_settings, read_gate_file
from saiten.commands.runs import parse_result
from saiten.core.errors import AnswerInvalid
from saiten.core.faults import explain
from saiten.core.language import use_language
from saiten.reading import read
from tests.support.faults import said

ENGLISH = re.compile(r"\b(must|should|missing|known|hold|holds|have|the result|the answer|name one)\b")


@pytest.fixture(params=["ja", "ko"])
def language(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The language of this process, taken back afterwards."""
    monkeypatch.setenv("LANGUAGE", "en")
    use_language(request.param)
    yield request.param
    use_language("en")


def read_gate(text: str) -> object:
    Path("gate.toml").write_text(text, encoding="utf-8")
    return make_settings(read_gate_file("gate.toml"), {}, "gate.toml")


def read_assertion(text: str) -> object:
    Path("gate.toml").write_text(f"[[assertions]]\n{text}", encoding="utf-8")
    return read_assertions("gate.toml")


def read_result(text: str) -> object:
    return parse_result("r.ndjson:2", {"status": "scored", "aspects": {"overall": {"mean": 3.0}}, text: []})


FILES: dict[str, tuple[Callable[[str], object], str, str, str]] = {
    "an unknown field": (read_gate, "[gate]\nmax_drops = 3\n", "ここでは使えない項目です", "여기서는 쓸 수 없는 항목입니다"),
    "many unknown fields": (
        read_gate, "[gate]\n" + "".join(f"x{number} = 1\n" for number in range(12)),
        "ここでは使えない項目です", "여기서는 쓸 수 없는 항목입니다",
    ),
    "no text": (read_gate, "[gate]\nname = 3\n", "文字列で指定してください", "문자열이어야 합니다"),
    "a date": (read_gate, "[gate]\nname = 2026-01-01\n", "文字列で指定してください", "문자열이어야 합니다"),
    "infinity": (read_gate, "[gate]\nalpha = inf\n", "有限の数値にしてください", "유한한 숫자여야 합니다"),
    "too small": (read_gate, "[gate]\ntimeout_seconds = 0.0\n", "0 より大きい値にしてください", "0보다 커야 합니다"),
    "a list": (read_gate, "[gate]\nrules = {}\n", "リストで指定してください", "목록이어야 합니다"),
    "no choice": (read_assertion, "", "いずれか 1 つを指定してください", "가운데 하나를 지정하십시오"),
    "an empty text": (read_assertion, 'contains = ""\n', "1 文字以上にしてください", "1자 이상이어야 합니다"),
    "an empty list": (read_assertion, 'contains = "a"\nitems = []\n', "1 件以上必要です", "1개 이상이어야 합니다"),
    "too few": (read_assertion, "max_characters = 0\n", "1 以上の値にしてください", "1 이상이어야 합니다"),
    "no object": (read_result, "composites", "オブジェクトで指定してください", "객체여야 합니다"),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_faults_of_files_are_told_in_the_users_language(
    language: str, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    use, text, *told = FILES[case]
    with pytest.raises(InvalidItems) as refused:
        use(text)
    assert told[language == "ko"] in str(refused.value)
    assert not ENGLISH.search(str(refused.value))


def test_an_answer_that_does_not_fit_is_told_in_the_users_language(language: str) -> None:
    with pytest.raises(AnswerInvalid) as refused:
        read(RelevanceResult, {})
    assert {"ja": "必須の項目がありません", "ko": "필수 항목이 없습니다"}[language] in str(refused.value)
    assert not ENGLISH.search(str(refused.value))


def test_faults_are_messages(language: str) -> None:
    given = {"rules": 3, "timeout_seconds": 0.0, **{f"x{number}": 1 for number in range(10)}}
    with pytest.raises(ValidationError) as refused:
        GateSettings.model_validate(given)
    faults = explain(refused.value, given)
    found = said(faults)
    assert ("/rules", "must be a list") in found
    assert ("/timeout_seconds", "should be greater than 0") in found
    assert ("/x0", "is not a field that is known here") in found
    assert ("", "holds 2 more fields that are not known here") in found
    assert not any(ENGLISH.search(what.say(language)) for _, what in faults)
    with pytest.raises(ValidationError) as refused:
        Assertion.model_validate({})
    assert str(explain(refused.value, {})[0][1]).startswith("name one of contains")
