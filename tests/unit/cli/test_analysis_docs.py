"""Every command in docs/analyses.md prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.analysis.formats import read_ndjson
from app.analysis.reading import ObservationReader
from app.cli import saiten
from app.domain.analysis_request import REQUESTS

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "analyses.md").read_text(encoding="utf-8")
COMMANDS = dict(re.findall(r"```console\n\$ saiten (.*?)\n(.*?)\n```", PAGE, re.DOTALL))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_what_the_page_says(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(saiten, command.split())
    assert done.exit_code == 0, done.output
    assert [line.rstrip() for line in done.stdout.rstrip().splitlines()] == COMMANDS[command].splitlines()


def test_every_analysis_has_its_command() -> None:
    assert {command.split()[1] for command in COMMANDS} == set(REQUESTS)


def test_the_example_is_as_large_as_the_page_says() -> None:
    with (ROOT / "examples" / "ratings.ndjson").open("rb") as file:
        read = read_ndjson(file, ObservationReader())
    assert (len(read.systems), len(read.items), len(read.raters), len(read.ratings)) == (3, 12, 3, 3)
    assert read.n == 3 * 12 * 3
