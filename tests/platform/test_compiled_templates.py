"""Compiled templates are kept in files, as far as they may be."""

import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from jinja2 import DictLoader, Environment

from saiten_server.platform.web.page import Compiled


class CompiledElsewhere(Compiled):
    """Kept in a folder of the test's."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder


def render_by(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch, *, compiles: bool) -> str:
    """What the template says in a process that starts with the folder; fails where it compiles unless it should."""
    environment = Environment(
        loader=DictLoader({"page": text}), bytecode_cache=CompiledElsewhere(folder), autoescape=True
    )
    generate = Mock(wraps=environment._generate)
    monkeypatch.setattr(environment, "_generate", generate)
    said = environment.get_template("page").render(name="私")
    assert generate.called is compiles
    return said


@pytest.fixture(autouse=True)
def _writes_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)


def test_a_second_start_reads_what_the_first_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "kept"
    assert render_by(folder, "<{{ name }}>", monkeypatch, compiles=True) == "<私>"
    assert render_by(folder, "<{{ name }}>", monkeypatch, compiles=False) == "<私>"


def test_a_changed_template_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    render_by(tmp_path, "{{ name }}", monkeypatch, compiles=True)
    assert render_by(tmp_path, "{{ name }}!", monkeypatch, compiles=True) == "私!"


def test_a_broken_file_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    render_by(tmp_path, "{{ name }}", monkeypatch, compiles=True)
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[:-20])
    assert render_by(tmp_path, "{{ name }}", monkeypatch, compiles=True) == "私"


@pytest.mark.parametrize("asked", [True, False])
def test_nothing_is_written_where_python_may_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: bool):
    monkeypatch.setattr(sys, "dont_write_bytecode", asked)
    folder = tmp_path / "file" / "kept"
    (tmp_path / "file").write_text("no folder")
    assert render_by(folder, "{{ name }}", monkeypatch, compiles=True) == "私"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
