"""Every command in docs/analyses.md prints what the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from saiten_server.analyses.requests import REQUESTS
from saiten_server.cli import saiten
from saiten_server.stats.reading import ObservationReader, read_ndjson
from tests.support.command import saiten as run_saiten
from tests.support.command import served

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "analyses.md").read_text(encoding="utf-8")
HERE = "http://127.0.0.1:8000"
COMMANDS = dict(re.findall(r"```console\n\$ saiten (.*?)\n(.*?)\n```", PAGE, re.DOTALL))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_what_the_page_says(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(saiten, command.split())
    assert done.exit_code == 0, done.output
    assert [line.rstrip() for line in done.stdout.rstrip().splitlines()] == COMMANDS[command].splitlines()


def test_the_command_of_the_metrics_prints_what_its_page_says(tmp_path: Path) -> None:
    pytest.importorskip("rouge_score")
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    items = page.partition('```json title="answers.ndjson"\n')[2].partition("```")[0]
    (tmp_path / "answers.ndjson").write_text(items, encoding="utf-8")
    command, _, shown = page.partition("```text\n$ saiten ")[2].partition("\n```")[0].partition("\n")
    done = run_saiten(*command.split(), folder=tmp_path, SAITEN_ENCODER="")
    assert done.returncode == 0, done.stderr
    assert lines_of(done.stdout) == lines_of(shown)


def test_human_ratings_make_the_badge_that_the_page_shows(tmp_path: Path) -> None:
    section = PAGE.partition("## Human ratings\n")[2].partition("## Over HTTP\n")[0]
    scoring, rating, removing = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    before, after, _ = re.findall(r"```text\n(.*?)```", section, re.DOTALL)
    with served(tmp_path) as (url, _):
        script = f"{scoring}curl -s $URL/v1/batches/$BATCH/summary\n{rating}{removing}".replace(HERE, url)
        script = script.replace("@examples", f"@{ROOT}/examples").replace("saiten ", f"{sys.executable} -m saiten ")
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
        done = subprocess.run(["sh", "-ec", script], cwd=tmp_path, env=environment, capture_output=True, check=True)
    printed = hide_date(" ".join(done.stdout.decode().split()))
    parts = [" ".join(line.removesuffix("…").split()) for line in [*before.splitlines(), *after.splitlines()]]
    assert len(parts) >= 8
    assert [part for part in parts if hide_date(part) not in printed] == []
    assert '{"removed":5}' in printed


def hide_date(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d", "", text)


def lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def test_every_analysis_has_its_command() -> None:
    assert {command.split()[1] for command in COMMANDS} == set(REQUESTS)


def test_the_example_is_as_large_as_the_page_says() -> None:
    with (ROOT / "examples" / "ratings.ndjson").open("rb") as file:
        read = read_ndjson(file, ObservationReader())
    assert (len(read.systems), len(read.items), len(read.raters), len(read.ratings)) == (3, 12, 3, 3)
    assert read.n == 3 * 12 * 3
