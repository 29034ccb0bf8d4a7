"""What a database's error means to the operator of Saiten: full, out of reach, or broken.

SQLite's errors are recognised by their result code (https://sqlite.org/rescode.html), PostgreSQL's by their SQLSTATE
(https://www.postgresql.org/docs/current/errcodes-appendix.html): words change with version and language, codes do not.
"""

from __future__ import annotations

import errno
import shutil
import sqlite3
from pathlib import Path

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app.domain.errors import StoreError, StoreFull, StoreUnavailable

FULL = "the database has no space left; free some, then try again"
LOCKED = "the database is locked by another process; let it finish or stop it, then try again"
UNREACHABLE = "the database cannot be reached; check DATABASE_URL and that it runs"
NO_TABLE = "a table of the database is missing; restore a backup, or restart Saiten to create the tables again"
NEARLY_FULL_BYTES = 4 * 1024 * 1024
"""Below this, a failed read or write is for want of space: SQLite's log grows by up to this between checkpoints."""

SQLITE = {
    sqlite3.SQLITE_BUSY: LOCKED,
    sqlite3.SQLITE_LOCKED: LOCKED,
    sqlite3.SQLITE_READONLY: "the database may not be written; check the rights of its file and folder",
    sqlite3.SQLITE_IOERR: "the disk under the database failed; check its health, quota and rights",
    sqlite3.SQLITE_CORRUPT: "the database file is damaged; stop Saiten and restore a backup",
    sqlite3.SQLITE_NOTADB: "the database file is no SQLite database; check DATABASE_URL, or restore a backup",
    sqlite3.SQLITE_CANTOPEN: "the database cannot be opened; check that its folder exists and may be written",
    sqlite3.SQLITE_PERM: "the database may not be opened; check the rights of its file and folder",
    sqlite3.SQLITE_NOMEM: "the database ran out of memory; free some, then try again",
}
"""What to do, by SQLite's primary result code."""

SPACE = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})
"""Codes that SQLite also gives if there is not enough space for a file beside the database."""

WRITING = frozenset({sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_TRUNCATE, sqlite3.SQLITE_IOERR_SHMSIZE})

POSTGRES = {
    "08": UNREACHABLE,
    "28": "the database refused the login; check user and password in DATABASE_URL",
    "3D000": "there is no such database; make it, or check the name in DATABASE_URL",
    "42P01": NO_TABLE,
    "42501": "the database user lacks a right; grant it the tables and the schema",
    "25P03": "the database ended a transaction that stood still; try again",
    "25006": "the database may not be written; check that DATABASE_URL names the primary",
    "40": "the database ended a transaction in favour of another; try again",
    "53": "the database has no connection or memory to spare; try again, or raise its limits",
    "55P03": LOCKED,
    "57014": "the database ended a statement that took too long; try again",
    "57P": "the database is starting, stopping or restarting; try again",
    "58": "the disk under the database failed; check the database's log",
    "XX001": "the database is damaged; check its log and restore a backup",
    "XX002": "an index of the database is damaged; check its log, then REINDEX",
}
"""What to do, by SQLSTATE or its beginning."""

POSTGRES_FULL = "53100"


def translate_error(error: Exception, file: Path | None = None) -> StoreError:
    """The `Store…` error of a database error; `file` is SQLite's. The detail names no URL, statement or value."""
    if isinstance(error, PoolTimeout):
        return StoreUnavailable("every connection to the database is taken; try again")
    cause = error.orig if isinstance(error, DBAPIError) else error
    if (code := getattr(cause, "sqlite_errorcode", None)) is not None:
        return _translate_sqlite(code, str(cause), file)
    if state := getattr(cause, "sqlstate", None):
        return _translate_postgres(state)
    if isinstance(cause, OSError):
        return StoreFull(FULL) if cause.errno in {errno.ENOSPC, errno.EDQUOT} else StoreUnavailable(UNREACHABLE)
    if isinstance(error, DBAPIError):
        # Drivers give no code for a connection that they, not the server, found closed.
        lost = error.connection_invalidated or any(sign in str(cause).lower() for sign in ("connection", "closed"))
        return StoreUnavailable(UNREACHABLE) if lost else refused(type(cause).__name__)
    return StoreError(f"the database layer failed ({type(error).__name__})")


def refused(name: str) -> StoreError:
    """A fault of Saiten's: the database is well and did not take the statement."""
    return StoreError(f"the database refused a statement ({name})")


def _translate_sqlite(code: int, words: str, file: Path | None) -> StoreError:
    primary = code & 0xFF
    lacks_space = primary in SPACE and (_is_nearly_full(file) or (code in WRITING and _is_file_size_limited()))
    if primary == sqlite3.SQLITE_FULL or lacks_space:
        return StoreFull(FULL)
    if words.startswith("no such table"):
        return StoreUnavailable(NO_TABLE)
    if primary in SQLITE:
        return StoreUnavailable(SQLITE[primary])
    return refused(f"SQLite {code}")


def _translate_postgres(state: str) -> StoreError:
    if state == POSTGRES_FULL:
        return StoreFull(FULL)
    advice = next((POSTGRES[state[:length]] for length in (5, 3, 2) if state[:length] in POSTGRES), None)
    return refused(f"SQLSTATE {state}") if advice is None else StoreUnavailable(advice)


def _is_nearly_full(file: Path | None) -> bool:
    """Whether the file's disk has next to nothing free."""
    try:
        return file is not None and shutil.disk_usage(file.parent).free < NEARLY_FULL_BYTES
    except OSError:
        return False


def _is_file_size_limited() -> bool:
    """Whether `ulimit -f` holds for this process: past it a write fails though the disk has space."""
    try:
        import resource
    except ImportError:
        return False
    return resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY
