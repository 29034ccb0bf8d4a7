"""The demo's file is made whole, and takes the place of nothing but its like."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from saiten_server.cli.demo import check_place, keep_database
from saiten_server.core.errors import SettingsInvalid


def write(file: Path, value: str) -> Path:
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE kept (value TEXT)")
        database.execute("INSERT INTO kept VALUES (?)", (value,))
        database.commit()
    return file


def read(file: Path) -> list[str]:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        return [value for (value,) in database.execute("SELECT value FROM kept")]


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_a_later_file_takes_the_place_of_an_earlier_one_and_of_its_log(tmp_path: Path) -> None:
    made, kept = tmp_path / "made", tmp_path / "kept"
    for folder in (made, kept):
        folder.mkdir()
    keep_database(write(made / "1.db", "first"), kept / "demo.db")
    check_place(kept / "demo.db")
    for suffix in ("-wal", "-shm"):
        (kept / f"demo.db{suffix}").write_bytes(b"of a service that was killed")
    keep_database(write(made / "2.db", "second"), kept / "demo.db")
    assert read(kept / "demo.db") == ["second"]
    assert "of a service" not in "".join(f.read_text(errors="replace") for f in kept.iterdir())


def test_what_is_not_whole_leaves_the_earlier_file(tmp_path: Path) -> None:
    kept = tmp_path / "demo.db"
    keep_database(write(tmp_path / "made.db", "first"), kept)
    (tmp_path / "made.db").write_bytes(b"no database at all, however long it may be" * 40)
    before = names(tmp_path)
    with pytest.raises(SettingsInvalid, match=r"demo\.db: file is not a database"):
        keep_database(tmp_path / "made.db", kept)
    assert names(tmp_path) == before
    assert read(kept) == ["first"]


@pytest.mark.parametrize("content", [b"", b"SQLite", None], ids=["empty", "text", "a database of others"])
def test_a_file_that_the_demo_did_not_make_is_not_replaced(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "results.db"
    if content is None:
        write(file, "paid for")
    else:
        file.write_bytes(content)
    with pytest.raises(SettingsInvalid, match="did not make this file"):
        check_place(file)


def test_a_folder_that_is_not_there_is_said_before_anything_is_scored(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match="its folder cannot be written"):
        check_place(tmp_path / "none" / "demo.db")
