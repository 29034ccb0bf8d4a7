"""The exit codes of all commands: with a bad option, a file that is not there, and no service."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import saiten_server.cli
from saiten import commands
from saiten.commands import exits

PAGE = Path(__file__).resolve().parents[2] / "docs" / "exit-codes.md"
Words = tuple[str, ...]


def walk(group: click.Group, path: Words = ()) -> Iterator[Words]:
    """Every command below the group, by its names."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        yield from walk(found, (*path, name)) if isinstance(found, click.Group) else [(*path, name)]


OWN = list(walk(commands.LazyGroup("saiten")))
SERVERS = list(walk(saiten_server.cli.ServersGroup("saiten")))

FILES: dict[Words, Words] = {
    ("score",): ("none.csv",),
    ("batch",): ("none.csv",),
    ("convert",): ("none.csv",),
    ("gate",): ("--candidate", "none.csv"),
    ("ratings", "import"): ("none.csv",),
    ("analyze", "agreement"): ("none.csv",),
    ("analyze", "metrics"): ("none.csv", "--language", "ja"),
    ("attack",): ("none.ndjson",),
    ("adopt",): ("none.parquet",),
}
"""What names a file that is not there. The files of `rubric check` are what it tells about: it ends with 1."""

SERVICES: dict[Words, Words] = {
    ("batch",): ("items.ndjson",),
    ("score",): ("items.ndjson",),
    ("gate",): ("--candidate", "items.ndjson"),
    ("ratings", "export"): (),
    ("ratings", "exclude"): ("--rater", "R"),
    ("ratings", "include"): ("--rater", "R"),
    ("ratings", "import"): ("ratings.ndjson",),
    ("ratings", "round"): ("ba_00", "--name", "a"),
    ("ratings", "pairs"): ("ba_00", "ba_01", "--name", "a"),
    ("compare-runs",): ("ba_00", "ba_01"),
    ("leaderboard",): ("--name", "nightly"),
    ("judges", "run"): ("ba_00",),
    ("link", "make"): ("ba_00", "ba_01"),
    ("link", "list"): (),
    ("link", "delete"): ("ln_00",),
    ("link", "plan"): ("ba_00",),
    ("rubric", "list"): (),
    ("rubric", "show"): ("ja-dialogue",),
    ("analyze", "agreement"): ("--batch", "ba_00"),
    ("attack",): (),
    ("baseline", "pin"): ("nightly", "ba_00"),
    ("baseline", "list"): (),
    ("baseline", "unpin"): ("nightly",),
    ("reopen",): (),
    ("adopt",): ("s3://bucket/run",),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}")
    monkeypatch.setenv("SAITEN_ENCODER", "off")
    (tmp_path / "items.ndjson").write_text('{"context": [{"speaker": "A", "text": "q"}], "response": "r"}')
    (tmp_path / "ratings.ndjson").write_text('{"batch": "ba_00", "item": "1", "rater": "R", "ratings": {"fluency": 3}}')


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of `saiten …`, in this process."""
    monkeypatch.setattr(sys, "argv", ["saiten", *arguments])
    return commands.run(commands.saiten) if arguments[0] in commands.OWN_COMMANDS else saiten_server.cli.run()


def code_of(path: Words, capsys: pytest.CaptureFixture[str], found: int, words: str = "") -> int:
    """The code, where one message and no traceback stands on standard error."""
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert words in said.err
    assert said.out == ""
    return exits.UNUSABLE if path == ("gate",) and found == exits.COULD_NOT_RUN else found


@pytest.mark.parametrize("path", [*OWN, *SERVERS], ids=" ".join)
def test_a_bad_option(path: Words, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(monkeypatch, *path, "--nonsense")
    assert code_of(path, capsys, found, "--nonsense") == exits.UNUSABLE


@pytest.mark.parametrize("path", FILES, ids=" ".join)
def test_a_bad_file(path: Words, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(monkeypatch, *path, *FILES[path])
    assert code_of(path, capsys, found, "No such file") == exits.UNUSABLE


@pytest.mark.parametrize("path", SERVICES, ids=" ".join)
def test_a_dead_service(path: Words, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(monkeypatch, *path, *SERVICES[path], "--url", "http://127.0.0.1:1")
    assert found == exits.COULD_NOT_RUN
    code_of(path, capsys, found, "no service answers at http://127.0.0.1:1")


RUBRICS: dict[Words, Words] = {
    ("score",): ("items.ndjson",),
    ("batch",): ("items.ndjson",),
    ("gate",): ("--candidate", "items.ndjson"),
    ("attack",): (),
    ("offline", "plan"): (".",),
    ("analyze", "agreement"): ("ratings.ndjson",),
}
"""What goes with a rubric that is not there."""


@pytest.mark.parametrize("path", [*RUBRICS, ("rubric", "show")], ids=" ".join)
def test_an_unknown_rubric(path: Words, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    named = ("--rubric", "nope") if path in RUBRICS else ("nope",)
    assert code_of(path, capsys, run(monkeypatch, *path, *RUBRICS.get(path, ()), *named), "nope") == exits.UNUSABLE


def test_every_command_that_asks_a_service_is_tried_without_one() -> None:
    # Each analysis asks in the same way; `collect` and `simulate` ask a bot first.
    asking: set[Words] = {("analyze", "agreement")}
    for group in (commands.LazyGroup("saiten"), saiten_server.cli.ServersGroup("saiten")):
        for path in walk(group):
            command: click.Command | None = group
            for name in path:
                assert isinstance(command, click.Group)
                command = command.get_command(click.Context(command), name)
            assert command is not None
            if any("--url" in one.opts for one in command.params) and path[0] not in {"analyze", "collect", "simulate"}:
                asking.add(path)
    assert asking == {*SERVICES}


def test_gate_tells_bad_usage_from_an_inconclusive_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "gate", "--nonsense") == exits.COULD_NOT_RUN
    assert (exits.VERDICT_EXITS["inconclusive"], exits.UNUSABLE) == (2, 2)


def test_the_page_and_the_help_name_every_code() -> None:
    codes = [value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)]
    page = PAGE.read_text(encoding="utf-8")
    assert [code for code in codes if f"| {code} |" not in page or f"\n{code}  " not in exits.EPILOG] == []


@pytest.mark.parametrize(("written", "meant"), [("scroe", "score"), ("convet", "convert"), ("keyss", "keys")])
def test_a_misspelt_command_is_recognised(
    written: str, meant: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_callers(monkeypatch, written) == exits.UNUSABLE
    assert f"there is no command '{written}'; did you mean '{meant}'?" in capsys.readouterr().err


def run_callers(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["saiten", *arguments])
    return commands.run(commands.saiten)
