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

from saiten.core.messages import Message
from saiten_server.core.errors import StoreError, StoreFull, StoreUnavailable

DATABASE_FULL = Message("database-full")
LOCKED = Message("database-locked")
UNREACHABLE = Message("database-unreachable")
NO_TABLE = Message("database-table-missing")
NEARLY_FULL_BYTES = 4 * 1024 * 1024
"""Below this, a failed read or write is for want of space: SQLite's log grows by up to this between checkpoints."""

SQLITE = {
    sqlite3.SQLITE_BUSY: LOCKED,
    sqlite3.SQLITE_LOCKED: LOCKED,
    sqlite3.SQLITE_READONLY: Message("database-file-read-only"),
    sqlite3.SQLITE_IOERR: Message("database-disk-failed"),
    sqlite3.SQLITE_CORRUPT: Message("database-file-damaged"),
    sqlite3.SQLITE_NOTADB: Message("database-file-not-sqlite"),
    sqlite3.SQLITE_CANTOPEN: Message("database-file-not-opened"),
    sqlite3.SQLITE_PERM: Message("database-file-not-permitted"),
    sqlite3.SQLITE_NOMEM: Message("database-memory"),
}
"""What to do, by SQLite's primary result code."""

DISK_FULL_CODES = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})
"""Codes that SQLite also gives if there is not enough space for a file beside the database."""

WRITING = frozenset({sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_TRUNCATE, sqlite3.SQLITE_IOERR_SHMSIZE})

POSTGRES = {
    "08": UNREACHABLE,
    "28": Message("database-login"),
    "3D000": Message("database-missing"),
    "42P01": NO_TABLE,
    "42501": Message("database-right-missing"),
    "25P03": Message("database-transaction-idle"),
    "25006": Message("database-read-only"),
    "40": Message("database-transaction-lost"),
    "53": Message("database-resources"),
    # What a database says that is closed for maintenance.
    "55000": UNREACHABLE,
    "55P03": LOCKED,
    "57014": Message("database-statement-too-long"),
    "57P": Message("database-restarting"),
    "58": Message("database-server-disk-failed"),
    "XX001": Message("database-damaged"),
    "XX002": Message("database-index-damaged"),
}
"""What to do, by SQLSTATE or its beginning."""

POSTGRES_FULL = "53100"


def translate_error(error: Exception, file: Path | None = None) -> StoreError:
    """The `Store…` error of a database error; `file` is SQLite's. The detail names no URL, statement or value."""
    if isinstance(error, PoolTimeout):
        return StoreUnavailable(Message("database-connections-taken"))
    cause = error.orig if isinstance(error, DBAPIError) else error
    if (code := getattr(cause, "sqlite_errorcode", None)) is not None:
        return _translate_sqlite(code, str(cause), file)
    if state := getattr(cause, "sqlstate", None):
        return _translate_postgres(state)
    if isinstance(cause, OSError):
        return (
            StoreFull(DATABASE_FULL) if cause.errno in {errno.ENOSPC, errno.EDQUOT} else StoreUnavailable(UNREACHABLE)
        )
    if isinstance(error, DBAPIError):
        # Drivers give no code for a connection that they, not the server, found closed.
        lost = error.connection_invalidated or any(sign in str(cause).lower() for sign in ("connection", "closed"))
        return StoreUnavailable(UNREACHABLE) if lost else refused(type(cause).__name__)
    return StoreError(Message("database-layer-failed", reason=type(error).__name__))


def refused(name: str) -> StoreError:
    """A fault of Saiten's: the database is well and did not take the statement."""
    return StoreError(Message("database-statement-refused", name=name))


def _translate_sqlite(code: int, words: str, file: Path | None) -> StoreError:
    primary = code & 0xFF
    lacks_space = primary in DISK_FULL_CODES and (
        _is_nearly_full(file) or (code in WRITING and _is_file_size_limited())
    )
    if primary == sqlite3.SQLITE_FULL or lacks_space:
        return StoreFull(DATABASE_FULL)
    if words.startswith("no such table"):
        return StoreUnavailable(NO_TABLE)
    if primary in SQLITE:
        return StoreUnavailable(SQLITE[primary])
    return refused(f"SQLite {code}")


def _translate_postgres(state: str) -> StoreError:
    if state == POSTGRES_FULL:
        return StoreFull(DATABASE_FULL)
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
