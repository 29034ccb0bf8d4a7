"""Commands that tests fork, from a process that has imported everything, do what executed ones do."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.command import environment, finish, run, saiten
from tests.support.nursery import Forked


def execute(*arguments: str, folder: Path, stdin: bytes = b"", **variables: str) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, "-m", "saiten", *arguments], folder, stdin, variables)


@pytest.mark.parametrize(
    ("arguments", "stdin", "code"),
    [
        (["--help"], b"", 0),
        (["gate"], b"", 3),
        (["rubric", "show", "ko-comment"], b"", 0),
        (["score", "-"], b"{", 2),
        (["analyze", "agreement", "-"], b"\xff", 2),
        (["serve", "--host", "203.0.113.1"], b"", 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_it_says_the_same_and_ends_the_same(arguments: list[str], stdin: bytes, code: int, tmp_path: Path) -> None:
    forked = saiten(*arguments, folder=tmp_path, stdin=stdin)
    executed = execute(*arguments, folder=tmp_path, stdin=stdin)
    assert (forked.returncode, forked.stdout, forked.stderr) == (code, executed.stdout, executed.stderr)
    assert executed.returncode == code


def test_folder_and_environment_are_its_own_and_nothing_is_left_of_an_earlier_one(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        made = saiten("keys", "create", "--project", name, folder=tmp_path / name)
        assert made.returncode == 0, made.stderr
        assert name in saiten("keys", "list", folder=tmp_path / name).stdout
    assert "other" not in saiten("keys", "list", folder=tmp_path / "one").stdout
    refused = saiten("rubric", "list", folder=tmp_path, SAITEN_JUDGE_ATTEMPTS="none")
    assert (refused.returncode, "SAITEN_JUDGE_ATTEMPTS" in refused.stderr) == (3, True)
    assert saiten("rubric", "list", folder=tmp_path).returncode == 0


def test_several_at_a_time_each_get_their_own(tmp_path: Path) -> None:
    names = [f"project-{number}" for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        done = [*threads.map(lambda name: saiten("keys", "create", "--project", name, folder=tmp_path), names)]
    assert [one.returncode for one in done] == [0] * 8
    assert all(name in one.stderr for name, one in zip(names, done, strict=True))


def test_one_that_does_not_end_is_killed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "endless")
    with pytest.raises(subprocess.TimeoutExpired):
        finish(Forked(["score", "endless"], folder=tmp_path, variables=environment(tmp_path)), seconds=1.0)
    assert saiten("--version", folder=tmp_path).returncode == 0
