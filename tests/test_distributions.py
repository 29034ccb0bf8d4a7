"""Two distributions: the client `saiten`, and `saiten-server`, whose commands the client runs."""

import subprocess
import sys
import sysconfig
import tomllib
import venv
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any, NoReturn
from zipfile import ZipFile

import pytest

import saiten
from saiten import ServerMissing, commands, private
from saiten.commands.files import BATCH_OPTIONS
from saiten_server.cli import SERVER_COMMANDS
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
    assert {*listed} == {*SERVER_COMMANDS}
    assert {*listed, *commands.OWN_COMMANDS} == {*commands.COMMANDS}
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


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[ZipFile]:
    """The wheels of both distributions, made from the checkout."""
    folder = tmp_path_factory.mktemp("wheels")
    for source in (ROOT, ROOT / "client"):
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(command, cwd=source, check=True, capture_output=True)
    return [ZipFile(path) for path in folder.glob("*.whl")]


@pytest.fixture(scope="module")
def installed(wheels: list[ZipFile], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheels, and of ours only what they need: nothing of the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    for wheel in wheels:
        wheel.extractall(site)
    # A folder that a `.pth` names is searched, but its own `.pth` files, which lead to the checkout, are not read.
    paths = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    (site / "needed.pth").write_text("\n".join(paths), encoding="utf-8")
    return python


def run_installed(python: Path, folder: Path, *arguments: str) -> str:
    """What the interpreter prints in the folder, with nothing but a database of its own in the environment."""
    variables = environment(folder)
    del variables["PYTHONPATH"]
    done = subprocess.run(
        [str(python), *arguments], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wheels_have_every_file_of_the_packages(wheels: list[ZipFile]) -> None:
    """Also what is no Python: rubrics, templates, translations, messages, migrations, the script of Redis, models."""
    tops = {"app": "saiten_server", "rubrics": "saiten_server/rubrics", "client/saiten": "saiten"}
    source = {
        f"{top}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder, top in tops.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for wheel in wheels for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == source
    assert {Path(name).suffix for name in packed} >= {
        ".html",
        ".po",
        ".mo",
        ".toml",
        ".yaml",
        ".json",
        ".jsonl",
        ".lua",
    }


def test_an_app_of_the_user_does_no_harm(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    for name in ("app/__init__.py", "saiten_server.py"):
        (tmp_path / name).write_text("raise RuntimeError('the wrong app')\n", encoding="utf-8")
    assert "ja-dialogue" in run_installed(installed, tmp_path, "-m", "saiten", "rubric", "list")
    run_installed(installed, tmp_path, "-m", "saiten", "ratings", "export")


def test_the_server_and_an_app_of_the_user_are_imported_together(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("NAME = 'of the user'\n", encoding="utf-8")
    program = "import app, saiten_server.application; print(app.NAME, saiten_server.__file__)"
    site = next(installed.parents[1].rglob("saiten_server"))
    assert run_installed(installed, tmp_path, "-c", program) == f"of the user {site / '__init__.py'}\n"


def test_the_client_knows_the_options_of_a_batch() -> None:
    assert {*BatchOptions.model_fields} == BATCH_OPTIONS
