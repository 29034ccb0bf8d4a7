"""`saiten keys`: a key's limits are given, shown and changed."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from saiten_server.cli.administration import keys as command


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{tmp_path / 'saiten.db'}")

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(command, arguments)

    return run


def make(keys, *options: str) -> str:
    """The id of a new key."""
    done = keys("create", *options)
    assert done.exit_code == 0, done.output
    return str(done.stderr.split(":")[0])


def row_of(keys, key_id: str) -> list[str]:
    """What `list` shows of the key: name, project, scope, and both limits."""
    shown = keys("list").stdout
    [line] = [line for line in shown.splitlines() if key_id in line]
    return [cell.strip() for cell in line.split("│")][2:7]


def test_a_key_is_made_with_its_limits_or_without(keys) -> None:
    limited = make(keys, "--name", "ci", "--requests-per-minute", "60", "--usd-per-day", "2.5")
    free = make(keys)
    assert row_of(keys, limited) == ["ci", "default", "write", "60", "2.5"]
    assert row_of(keys, free)[3:] == ["-", "-"]


def test_what_is_not_named_stays_and_default_takes_a_limit_away(keys) -> None:
    key_id = make(keys, "--requests-per-minute", "60", "--usd-per-day", "2.5")
    assert keys("limit", key_id, "--usd-per-day", "4").exit_code == 0
    assert row_of(keys, key_id)[3:] == ["60", "4"]
    assert keys("limit", key_id, "--requests-per-minute", "default").exit_code == 0
    assert row_of(keys, key_id)[3:] == ["-", "4"]


def test_an_id_is_shown_whole_however_long_the_name(keys) -> None:
    key_id = make(keys, "--name", "n" * 64, "--project", "p" * 64)
    assert key_id in keys("list").stdout


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--requests-per-minute", "0"),
        ("--requests-per-minute", "1.5"),
        ("--requests-per-minute", "100001"),
        ("--requests-per-minute", "many"),
        ("--usd-per-day", "0"),
        ("--usd-per-day", "-1"),
        ("--usd-per-day", "nan"),
        ("--usd-per-day", "inf"),
    ],
)
def test_what_is_no_limit_is_refused(keys, option: str, value: str) -> None:
    done = keys("create", option, value)
    assert done.exit_code == 2
    assert f"Invalid value for '{option}'" in done.stderr
    assert "no keys" in keys("list").stdout


def test_a_change_that_changes_nothing_is_refused(keys) -> None:
    done = keys("limit", make(keys))
    assert (done.exit_code, "name --requests-per-minute" in done.stderr) == (2, True)


def test_only_a_good_key_has_limits_to_change(keys) -> None:
    key_id = make(keys)
    keys("revoke", key_id)
    for wanted in (key_id, "key_none"):
        done = keys("limit", wanted, "--usd-per-day", "1")
        assert done.exit_code != 0
        assert "there is no valid key" in str(done.exception)
