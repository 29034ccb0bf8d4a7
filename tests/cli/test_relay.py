"""`saiten judges run --judge relay:FOLDER`: whoever answers the files judges, and nothing is rated by half."""

import json
import subprocess
from pathlib import Path

import pytest

from saiten_server.cli.judging import RATING_FAULTS
from saiten_server.providers.openai.relay import ANSWER, LONGEST_ANSWER_BYTES, PROMPT, RelayFolder
from tests.support.command import saiten

ITEMS = [
    {"id": f"c{number}", "context": [{"speaker": "A", "text": f"{number}番の方は？"}], "response": "はい、私です。"}
    for number in range(9)
]
RATINGS = [
    {"item": f"c{number}", "rater": rater, "ratings": {"coherence": number % 2, "overall": 1 + number % 5}}
    for number in range(9)
    for rater in ("a", "b")
]


def ask(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    for name, lines in (("items", ITEMS), ("ratings", RATINGS)):
        (folder / f"{name}.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    options = ("--judge", "relay:asked", "--rubric", "ja-dialogue@1", *options)
    return saiten("judges", "run", "items.ndjson", "--ratings", "ratings.ndjson", *options, folder=folder)


def answer_all(folder: Path) -> list[Path]:
    """Answers each question with the highest level of each aspect, but for items with an even number the lowest."""
    written = []
    for path in sorted(folder.glob(f"*{PROMPT}")):
        body = json.loads(path.read_text(encoding="utf-8"))["body"]
        schema = body["response_format"]["json_schema"]["schema"]["properties"]
        even = any(f"{number}番" in body["messages"][1]["content"] for number in range(0, 9, 2))
        levels = {name: (min if even else max)(one["enum"]) for name, one in schema.items()}
        answer = path.with_name(path.name.replace(PROMPT, ANSWER))
        answer.write_text(json.dumps(levels), encoding="utf-8")
        written.append(answer)
    return written


def test_questions_are_written_and_once_all_are_answered_they_are_compared_with_people(tmp_path: Path) -> None:
    first = ask(tmp_path)
    assert (first.returncode, first.stdout) == (2, "")
    assert "asked: 9 of 9 questions have no answer yet" in first.stderr
    answers = answer_all(tmp_path / "asked")
    held = answers[0].read_text(encoding="utf-8")
    answers[0].unlink()
    second = ask(tmp_path)
    assert (second.returncode, second.stdout) == (2, "")
    assert "1 of 9 questions have no answer yet" in second.stderr
    answers[0].write_text(held, encoding="utf-8")
    done = ask(tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["aspects"]["coherence"]
    assert (found["n"], found["scorers"]["relay"]["spearman"]) == (9, 1.0)
    answers[0].write_text(held.replace("0", "1"), encoding="utf-8")
    edited = ask(tmp_path, "--json")
    assert (edited.returncode, edited.stdout) == (2, "")
    assert f"{answers[0].name}: was changed after it was read" in edited.stderr


@pytest.mark.parametrize("fault", ["doubled", "foreign", "unnamed", "edited"])
def test_a_file_that_is_not_what_was_asked_for_is_a_fault(tmp_path: Path, fault: str) -> None:
    name, folder = "0" * 32, RelayFolder(tmp_path)
    (tmp_path / "notes.txt" if fault == "unnamed" else tmp_path / f"{name}{ANSWER}").write_text("{}", encoding="utf-8")
    if fault in {"doubled", "edited"}:
        (tmp_path / f"{name}{PROMPT}").write_text("{}", encoding="utf-8")
    if fault == "doubled":
        (tmp_path / f"{name}.answer.json").write_text("{}", encoding="utf-8")
    found = {code for _, code in folder.inspect().faults}
    assert found == {"doubled": {"edited", "doubled"}, "unnamed": {"foreign"}}.get(fault, {fault})


@pytest.mark.parametrize("content", [b"\xff\xfe{\x00}\x00", "{}　".encode("cp932"), b" " * (LONGEST_ANSWER_BYTES + 1)])
def test_an_answer_that_cannot_be_read_is_a_fault(tmp_path: Path, content: bytes) -> None:
    folder = RelayFolder(tmp_path)
    folder.ask("key", {})
    (question,) = tmp_path.iterdir()
    answer = question.with_name(question.name.replace(PROMPT, ANSWER))
    answer.write_bytes(content)
    assert folder.inspect().faults == ((answer.name, "unreadable"),)
    assert "UTF-8" in RATING_FAULTS["unreadable"]
    answer.write_bytes(b" " * LONGEST_ANSWER_BYTES)
    assert folder.inspect().faults == ()


def test_faults_are_named_before_anything_is_judged(tmp_path: Path) -> None:
    folder = tmp_path / "asked"
    folder.mkdir()
    (folder / f"{'0' * 32}{ANSWER}").write_text("{}", encoding="utf-8")
    done = ask(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "answers no question that is here" in done.stderr
    assert len(list(folder.iterdir())) == 1


def test_an_answer_that_is_no_verdict_rates_nothing(tmp_path: Path) -> None:
    ask(tmp_path)
    answers = answer_all(tmp_path / "asked")
    answers[0].write_text(f"My verdict: {answers[0].read_text(encoding='utf-8')}", encoding="utf-8")
    done = ask(tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["aspects"]["coherence"]["n"] == 8


def test_a_relay_takes_no_other_service(tmp_path: Path) -> None:
    assert ask(tmp_path, "--url", "http://127.0.0.1:1").returncode == 2
    assert "relay:FOLDER" in saiten("judges", "run", "x", "--ratings", "y", "--judge", "gpt", folder=tmp_path).stderr
