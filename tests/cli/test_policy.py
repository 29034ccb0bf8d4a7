"""`saiten policy` and `saiten erase`, on a database of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click import Command
from click.testing import CliRunner, Result

from saiten_server.cli.administration import erase, policy

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path / 'saiten.db'}")

    def invoke(command: Command, *arguments: str) -> Result:
        return CliRunner().invoke(command, arguments)

    return invoke


def test_what_is_named_is_set_and_the_rest_stays(run: Run) -> None:
    assert json.loads(run(policy, "show").stdout) == {"integrity": "flag", "texts": "keep", "after_days": 30.0}
    run(policy, "set", "--project", "team", "--texts", "hash", "--after-days", "0.5")
    done = run(policy, "set", "--project", "team", "--integrity", "judge-twice")
    assert done.exit_code == 0, done.output
    wanted = {"integrity": "judge-twice", "texts": "hash", "after_days": 0.5}
    assert json.loads(done.stdout) == wanted
    assert json.loads(run(policy, "show", "--project", "team").stdout) == wanted
    assert json.loads(run(policy, "show").stdout)["texts"] == "keep"


def test_nothing_named_is_a_usage_error(run: Run) -> None:
    assert run(policy, "set").exit_code == 2
    assert run(policy, "set", "--texts", "burn").exit_code == 2


def test_erase_prints_what_it_removed(run: Run) -> None:
    done = run(erase, "--project", "team", "--metadata", "user=u-42", "--metadata", "kind=a=b")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {
        "batches": 0,
        "candidates": 0,
        "evaluations": 0,
        "dataset_items": 0,
        "live_conversations": 0,
    }


@pytest.mark.parametrize(
    "given", [["--metadata", "user"], ["--metadata", "=x"], ["--metadata", "a=1", "--metadata", "a=2"], []]
)
def test_what_is_no_entry_is_a_usage_error(run: Run, given: list[str]) -> None:
    assert run(erase, "--project", "team", *given).exit_code == 2


def test_days_that_are_no_number_are_a_usage_error(run: Run) -> None:
    done = run(policy, "set", "--texts", "drop", "--after-days", "nan")
    assert (done.exit_code, "--after-days" in done.output) == (2, True)
