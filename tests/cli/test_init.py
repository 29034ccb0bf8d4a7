"""`saiten init`: what it writes is what the next command takes."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from saiten.commands.gate_settings import make_settings, read_gate_file
from saiten.commands.init import command, guess_rubric, read_template
from tests.support.bots import write_bot
from tests.support.command import environment, saiten

ROOT = Path(__file__).resolve().parents[2]
SHEET = "番号,質問,回答\r\nq1,週末は何をしましたか,海に行きました\r\nq2,元気ですか,はい、元気です\r\n"


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "データ.csv").write_bytes(SHEET.encode("cp932"))


def init(*arguments: str) -> Result:
    return CliRunner().invoke(command, [*arguments])


@pytest.mark.parametrize(
    ("contexts", "rubric"),
    [
        ([["안녕하세요?"]], "ko-dialogue"),
        ([[{"speaker": "A", "text": "주말에 뭐 했어요?"}]], "ko-dialogue"),
        (
            [[{"speaker": "일기", "text": "버스를 놓쳤다."}], [{"speaker": "게시글", "text": "이사했어요."}]],
            "ko-comment",
        ),
        ([[{"speaker": "일기", "text": "버스를 놓쳤다."}], [{"speaker": "A", "text": "안녕?"}]], "ko-dialogue"),
        ([["こんにちは"]], "ja-dialogue"),
    ],
)
def test_the_rubric_is_one_for_the_language_and_for_comments_where_all_are(contexts: list[Any], rubric: str) -> None:
    assert guess_rubric([{"context": context, "response": "."} for context in contexts]) == rubric


@pytest.mark.parametrize("name", ["github-actions.yml", "gitlab-ci.yml", "action.yml"])
def test_the_examples_and_the_templates_are_the_same(name: str) -> None:
    place = "action/action.yml" if name == "action.yml" else name
    assert (ROOT / "examples" / "ci" / place).read_text(encoding="utf-8") == read_template(name)


def test_a_bot_and_github(tmp_path: Path) -> None:
    bot = write_bot(tmp_path)
    done = init("--data", "データ.csv", "--bot", bot, "--rubric", "ja-dialogue", "--ci", "github")
    assert done.exit_code == 0, done.output
    assert "番号 → id" in done.output
    settings = make_settings(read_gate_file(None), {}, "saiten.toml")
    assert settings.judge == {"explain": True}
    assert (settings.candidate, settings.rules) == ("candidates.ndjson", [{"aspect": "overall", "max_drop": 0.1}])
    workflow = yaml.safe_load(Path(".github/workflows/saiten.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["gate"]["steps"]
    line = next(line for line in done.output.splitlines() if line.startswith("next: saiten "))
    assert steps[1]["run"].splitlines()[1] == line.removeprefix("next: ")
    assert yaml.safe_load(Path(".github/actions/saiten/action.yml").read_text(encoding="utf-8"))["runs"]

    # The command that it names next works as it is printed.
    shell = line.removeprefix("next: ").replace("saiten", f"{sys.executable} -m saiten", 1)
    ran = subprocess.run(["sh", "-c", shell], env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    items = [json.loads(text) for text in Path("candidates.ndjson").read_text(encoding="utf-8").splitlines()]
    assert [(item["id"], item["response"]) for item in items] == [
        ("q1", "「週末は何をしましたか」ですね。"),
        ("q2", "「元気ですか」ですね。"),
    ]


def test_data_with_responses_and_gitlab_until_the_first_gate(tmp_path: Path) -> None:
    done = init("--data", "データ.csv", "--bot", "none", "--rubric", "ja-dialogue", "--ci", "gitlab")
    assert done.exit_code == 0, done.output
    jobs = yaml.safe_load(Path("saiten.gitlab-ci.yml").read_text(encoding="utf-8"))
    assert jobs[".saiten"]["before_script"][1].endswith("test -f candidates.ndjson\n")
    assert done.output.splitlines()[-1] == "next: saiten gate --record baseline.ndjson"
    ran = saiten("gate", "--record", "baseline.ndjson", "--judge", "lexical", folder=tmp_path)
    assert (ran.returncode, ran.stdout.startswith("baseline recorded")) == (0, True), ran.stderr


def test_a_file_of_two_builds_leads_to_one_against_the_other(tmp_path: Path) -> None:
    sheet = "番号,ビルド,質問,応答\r\nq1,v1,元気ですか,はい、元気です\r\nq1,v2,元気ですか,そうですね\r\n"
    (tmp_path / "二つ.csv").write_bytes(sheet.encode("cp932"))
    made = init("--data", "二つ.csv", "--bot", "none", "--rubric", "ja-dialogue", "--ci", "none")
    assert made.exit_code == 0, made.output
    assert "next: saiten gate --record baseline.ndjson --where build=v1" in made.output
    assert "then: saiten gate --where build=v2" in made.output


def test_nothing_that_is_there_is_replaced_without_force(tmp_path: Path) -> None:
    Path("saiten.toml").write_text("mine", encoding="utf-8")
    options = ["--data", "データ.csv", "--bot", "none", "--rubric", "my-own", "--ci", "none"]
    done = init(*options)
    assert (done.exit_code, Path("saiten.toml").read_text(encoding="utf-8")) == (2, "mine")
    assert not Path("candidates.ndjson").exists()
    assert init(*options, "--force").exit_code == 0
    assert make_settings(read_gate_file(None), {}, "saiten.toml").rules == []
    same = init("--data", "candidates.ndjson", *options[2:], "--force")
    assert (same.exit_code, "rename it first" in same.output) == (2, True)


USAGE = {
    "nothing": ([], "give --data, --bot, --rubric, --ci too"),
    "a part": (["--data", "データ.csv", "--ci", "none"], "give --bot, --rubric too"),
    "no file": (["--data", "x", "--bot", "none", "--rubric", "a", "--ci", "none"], "x: No such file"),
    "no command": (
        ["--data", "データ.csv", "--bot", "no-such-bot-at-all", "--rubric", "a", "--ci", "none"],
        "no command",
    ),
    "two lines": (["--data", "データ.csv", "--bot", "sh\nx", "--rubric", "a", "--ci", "none"], "on one line"),
    "no rubric": (["--data", "データ.csv", "--bot", "none", "--rubric", '"', "--ci", "none"], "--rubric: lower-case"),
}


@pytest.mark.parametrize(("arguments", "message"), USAGE.values(), ids=USAGE)
def test_usage(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = init(*arguments)
    assert (done.exit_code, message in done.output) == (2, True), done.output
    assert [path.name for path in tmp_path.iterdir()] == ["データ.csv"]


def test_four_questions_on_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command_line = [sys.executable, "-m", "saiten", "init"]
    with subprocess.Popen(command_line, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        os.close(theirs)
        os.write(ours, "データ.csv\nnone\n\nnone\n".encode())
        said = process.communicate()[0].decode()
    os.close(ours)
    assert process.returncode == 0, said
    assert "Rubric [ja-dialogue]" in said
    assert Path("candidates.ndjson").exists()
