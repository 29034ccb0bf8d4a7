"""`saiten rubric new`: what it writes is a rubric as it is."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from saiten_server.cli.rubric import command
from saiten_server.scoring.rubrics.files import check_rubric, default_folder, read_rubric_file


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("language", ["ja", "ko", "en"])
def test_a_new_rubric_is_valid_as_it_is(tmp_path: Path, language: str) -> None:
    done = CliRunner().invoke(command, ["new", "my-bot", "--language", language, "--folder", "規準"])
    assert done.exit_code == 0, done.output
    path = tmp_path / "規準" / "my-bot.yaml"
    assert check_rubric(path) == []
    rubric = read_rubric_file(path)
    assert (rubric.id, rubric.version, rubric.source_language, tuple(rubric.languages)) == (
        "my-bot",
        1,
        language,
        (language,),
    )
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=rubric.schema.json\n")
    assert "NAME" not in text
    schema = path.with_name("rubric.schema.json").read_bytes()
    assert schema == (default_folder() / "rubric.schema.json").read_bytes()
    items = [json.loads(line) for line in path.with_name("my-bot.test.ndjson").read_text(encoding="utf-8").splitlines()]
    assert [(item["id"], item["rubric"]) for item in items] == [("good", "my-bot"), ("poor", "my-bot")]

    # The command that it names next works as it is printed.
    line = next(line for line in done.output.splitlines() if line.startswith("next: saiten rubric "))
    checked = CliRunner().invoke(command, line.removeprefix("next: saiten rubric ").replace("'", "").split())
    assert (checked.exit_code, "my-bot version 1" in checked.output) == (0, True), checked.output


def test_what_is_there_is_replaced_with_force_only(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("mine", encoding="utf-8")
    done = CliRunner().invoke(command, ["new", "mine", "--language", "ja"])
    assert (done.exit_code, (tmp_path / "mine.yaml").read_text(encoding="utf-8")) == (2, "mine")
    assert "--force replaces it" in done.output
    assert CliRunner().invoke(command, ["new", "mine", "--language", "ja", "--force"]).exit_code == 0
    assert check_rubric(tmp_path / "mine.yaml") == []


@pytest.mark.parametrize(
    ("name", "why"), {"Mine": "lower-case", "../x": "lower-case", "ja-dialogue": "there already"}.items()
)
def test_names_that_will_not_do(tmp_path: Path, name: str, why: str) -> None:
    done = CliRunner().invoke(command, ["new", name, "--language", "ja"])
    assert (done.exit_code, why in done.output, [*tmp_path.iterdir()]) == (2, True, [])
