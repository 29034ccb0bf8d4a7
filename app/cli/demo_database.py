"""The file in which `saiten demo` keeps its runs: made whole, or not at all, and never in place of anything else."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from app.domain.errors import SettingsInvalid

APPLICATION_ID = 0x53414944
"""SQLite keeps this number in the file's head for whoever made it: "SAID", for Saiten's demo."""

APPLICATION_ID_AT = 68
"""Where in the head it stands, big-endian (https://www.sqlite.org/fileformat2.html)."""

BESIDE = ("-wal", "-shm")


def check_place(file: Path) -> None:
    """Raises SettingsInvalid where `file` cannot be written, or holds something that the demo did not make."""
    folder = file.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise SettingsInvalid(f"--database {file}: its folder cannot be written; name another file")
    if not file.exists():
        return
    try:
        with file.open("rb") as opened:
            head = opened.read(APPLICATION_ID_AT + 4)
    except OSError as error:
        raise SettingsInvalid(f"--database {file}: {error.strerror}") from None
    if head[APPLICATION_ID_AT:] != APPLICATION_ID.to_bytes(4, "big"):
        raise SettingsInvalid(f"--database {file}: `saiten demo` did not make this file; remove it, or name another")


def keep_database(made: Path, file: Path) -> None:
    """Copies the finished database `made` to `file`. Raises SettingsInvalid; what was at `file` is then still there."""
    fresh = file.with_name(f"{file.name}.{os.getpid()}.new")
    try:
        copy_database(made, fresh)
        for suffix in BESIDE:
            # SQLite would take an old log beside the new file for the new file's own.
            file.with_name(file.name + suffix).unlink(missing_ok=True)
        fresh.replace(file)
    except OSError as error:
        raise SettingsInvalid(f"--database {file}: {error.strerror}") from None
    except sqlite3.Error as error:
        raise SettingsInvalid(f"--database {file}: {error}") from None
    finally:
        for suffix in ("", *BESIDE):
            with suppress(OSError):
                fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)


def copy_database(made: Path, fresh: Path) -> None:
    """A copy that is one file, with everything of the original's log in it, and the demo's mark."""
    with closing(sqlite3.connect(made)) as source, closing(sqlite3.connect(fresh)) as target:
        source.backup(target)
        target.execute(f"PRAGMA application_id = {APPLICATION_ID}")
