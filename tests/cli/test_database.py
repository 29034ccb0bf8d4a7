"""`saiten database`, and what every other command says of a database whose revision is not known."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from saiten_server.cli.administration import database
from saiten_server.platform.sql.schema import LAST_CHAINED, known_numbers
from tests.support.command import ROOT, saiten
from tests.support.migrations import NUMBER, add_migration

OLDEST = known_numbers()[0]

OPENING = [
    ("keys", "list"),
    ("audit",),
    ("ratings", "export"),
    ("analyze", "agreement", "--batch", "ba_0"),
    ("score", "-"),
    ("serve", "--port", "0"),
    ("worker",),
    ("database", "downgrade", OLDEST, "--yes"),
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


def test_an_older_database_is_refused_in_each_language(tmp_path: Path) -> None:
    saiten("keys", "list", folder=tmp_path)
    revise(tmp_path, "0028")
    for arguments, language, words in (
        (
            ("serve", "--port", "0"),
            "en",
            f"has revision 0028, and this version of Saiten upgrades only from {OLDEST} on: ",
        ),
        (
            ("database", "upgrade"),
            "en",
            f"run `saiten database upgrade` at commit {LAST_CHAINED}, then start this version",
        ),
        (
            ("database", "upgrade"),
            "ja",
            f"リビジョンは 0028 ですが、この版の Saiten がアップグレードできるのは {OLDEST} 以降です",
        ),
        (("database", "upgrade"), "ko", f"커밋 {LAST_CHAINED}에서 `saiten database upgrade`를 실행한 다음"),
    ):
        done = saiten(*arguments, folder=tmp_path, SAITEN_JUDGE="lexical", SAITEN_LANGUAGE=language)
        assert done.returncode == 3
        (said,) = done.stderr.splitlines()
        assert words in said
    assert revision_of(tmp_path) == "0028"


@pytest.mark.parametrize("page", ["CHANGELOG.md", "docs/operations.md", "docs/development.md"])
def test_the_guides_name_the_commit_that_upgrades_an_older_database(page: str) -> None:
    assert f"commit {LAST_CHAINED}" in " ".join((ROOT / page).read_text().replace("Commit", "commit").split())


def test_show_names_the_revision_and_changes_nothing(tmp_path: Path, bare_sqlite_url: str) -> None:
    empty = saiten("database", "show", folder=tmp_path, DATABASE_URL=bare_sqlite_url)
    assert "the database has no tables yet" in empty.stdout
    saiten("keys", "list", folder=tmp_path, DATABASE_URL=bare_sqlite_url)
    shown = saiten("database", "show", folder=tmp_path).stdout.splitlines()
    assert [line[2:6] for line in shown if line.startswith("*")] == [revision_of(tmp_path)]
    revise(tmp_path, "9999")
    assert "* 9999  made by a newer version" in saiten("database", "show", folder=tmp_path).stdout
    revise(tmp_path, "0028")
    older = f"* 0028  from an older version of Saiten; upgrade it at commit {LAST_CHAINED} first"
    assert older in saiten("database", "show", folder=tmp_path).stdout


def test_a_schema_goes_back_only_when_it_is_said_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saiten("keys", "list", folder=tmp_path)
    newest = revision_of(tmp_path)
    add_migration(tmp_path, monkeypatch)
    monkeypatch.setenv("DATABASE_URL", f"sqlite+aiosqlite:///{tmp_path}/saiten.db")

    def take_back(*arguments: str) -> Result:
        return CliRunner().invoke(database, ["downgrade", *arguments])

    assert CliRunner().invoke(database, ["upgrade"]).exit_code == 0
    for arguments, code, left in (([newest], 2, NUMBER), ([newest, "--yes"], 0, newest)):
        done = take_back(*arguments)
        assert done.exit_code == code
        assert f"{NUMBER}  Notes of a test" in done.stderr
        assert revision_of(tmp_path) == left
    assert "already" in take_back(newest).stderr
    assert saiten("database", "downgrade", "base", "--yes", folder=tmp_path).returncode == 3
