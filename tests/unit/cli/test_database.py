"""`saiten database`, and what every other command says of a database that a newer version made."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.command import saiten

OPENING = [
    ("keys", "list"),
    ("audit",),
    ("ratings", "export"),
    ("analyze", "agreement", "--batch", "ba_0"),
    ("score", "-"),
    ("serve", "--port", "0"),
    ("worker",),
    ("database", "downgrade", "0001", "--yes"),
]
"""Commands that open the database."""


def revise(folder: Path, number: str) -> None:
    with closing(sqlite3.connect(folder / "saiten.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (number,))
        connection.commit()


def revision_of(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "saiten.db")) as connection:
        return str(connection.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def test_a_database_of_a_newer_version_ends_every_command_with_one_sentence(tmp_path: Path, redis_url: str) -> None:
    assert saiten("keys", "list", folder=tmp_path).returncode == 0
    revise(tmp_path, "9999")
    item = '{"context": [{"speaker": "A", "text": "やあ"}], "response": "うん"}'
    for arguments in OPENING:
        done = saiten(*arguments, folder=tmp_path, stdin=item.encode(), SAITEN_JUDGE="lexical", REDIS_URL=redis_url)
        said = [line for line in done.stderr.splitlines() if line.startswith("saiten: ")]
        assert done.returncode == 3, (arguments, done.stderr)
        assert len(said) == 1, (arguments, done.stderr)
        assert "was made by a newer version of Saiten (revision 9999;" in said[0]
        assert "Traceback" not in done.stderr
    assert revision_of(tmp_path) == "9999"


def test_show_names_the_revision_and_changes_nothing(tmp_path: Path, bare_sqlite_url: str) -> None:
    empty = saiten("database", "show", folder=tmp_path, DATABASE_URL=bare_sqlite_url)
    assert "the database has no tables yet" in empty.stdout
    saiten("keys", "list", folder=tmp_path, DATABASE_URL=bare_sqlite_url)
    shown = saiten("database", "show", folder=tmp_path).stdout.splitlines()
    assert [line[2:6] for line in shown if line.startswith("*")] == [revision_of(tmp_path)]
    revise(tmp_path, "9999")
    assert "* 9999  made by a newer version" in saiten("database", "show", folder=tmp_path).stdout


@pytest.mark.parametrize("yes", [False, True])
def test_a_schema_goes_back_only_when_it_is_said_twice(tmp_path: Path, yes: bool) -> None:
    saiten("keys", "list", folder=tmp_path)
    newest = revision_of(tmp_path)
    done = saiten("database", "downgrade", "0006", *(["--yes"] if yes else []), folder=tmp_path)
    assert done.returncode == (0 if yes else 2)
    assert "0007  Limits and spending of keys" in done.stderr
    assert revision_of(tmp_path) == ("0006" if yes else newest)
    assert "already" in saiten("database", "downgrade", revision_of(tmp_path), folder=tmp_path).stderr
    assert saiten("database", "downgrade", "base", "--yes", folder=tmp_path).returncode == 3
