"""Two distributions: the client `saiten`, and `saiten-server`, whose commands the client runs."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any, NoReturn

import pytest

import saiten
from saiten import ServerMissing, commands, private
from saiten.commands.files import BATCH_OPTIONS
from saiten_server.cli import PLACES
from saiten_server.core.batch import BatchOptions
from tests.support.command import environment

ROOT = Path(__file__).resolve().parents[1]
SERVER: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CLIENT: dict[str, Any] = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_server_needs_the_client_of_its_own_version() -> None:
    assert (CLIENT["name"], SERVER["name"]) == ("saiten", "saiten-server")
    (needed,) = [one for one in SERVER["dependencies"] if one.startswith("saiten")]
    assert needed == f"saiten[formats]=={saiten.__version__}"
    # What both need has the same bounds.
    assert set(CLIENT["dependencies"]) <= {*SERVER["dependencies"]}


def test_every_command_is_the_clients_or_has_an_entry_point() -> None:
    listed = SERVER["entry-points"][commands.GROUP]
    assert {*listed} == {*PLACES}
    assert {*listed, *commands.OWN} == {*commands.COMMANDS}
    assert commands.server_commands() == {*listed}, "run `make install` again"


def test_without_the_server_its_commands_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "server_commands", frozenset)
    monkeypatch.setattr(sys, "argv", ["saiten", "serve", "--help"])
    assert commands.run(commands.saiten) == 3
    assert "pip install saiten-server" in capsys.readouterr().err


def test_without_the_server_there_is_no_private_service(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> NoReturn:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(private, "distribution", find)
    with pytest.raises(ServerMissing, match=r"pip install saiten-server, or give --url"), private.private_service():
        pytest.fail("there is no server")


def test_arguments_reach_the_server_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(commands, "become_server", lambda name, arguments: given.append((name, arguments)))
    monkeypatch.setattr(sys, "argv", ["saiten", "analyze", "--help", "--", "-x", "--url=h", "é"])
    commands.run(commands.saiten)
    assert given == [("analyze", ["--help", "--", "-x", "--url=h", "é"])]


@pytest.mark.parametrize("name", ["app.py", "app/__init__.py", "saiten_server.py"])
def test_an_app_of_the_user_does_no_harm(tmp_path: Path, name: str) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / name).write_text("raise RuntimeError('the wrong app')\n", encoding="utf-8")
    for arguments in (["rubric", "list"], ["ratings", "export"]):
        done = subprocess.run(
            [sys.executable, "-m", "saiten", *arguments],
            cwd=tmp_path,
            env=environment(tmp_path, PYTHONPATH=str(ROOT / "client")),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_the_client_knows_the_options_of_a_batch() -> None:
    assert {*BatchOptions.model_fields} == BATCH_OPTIONS
