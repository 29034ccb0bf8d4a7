"""What a bot answered, kept in a file by what it was sent."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from saiten.bots import Bot, BotReply, BotTurn
from saiten.core.errors import SaitenError
from saiten.core.language import tell

APPLICATION = 0x5361_6974
"""Marks the file as this cache (`PRAGMA application_id`)."""

LOCKED_SECONDS = 30.0
ASKED_AT_ONCE = 500


class CacheUnusable(SaitenError):
    """The file is no cache, or cannot be read or written."""

    code = "cache-unusable"


class ReplyCache:
    """A SQLite file, which several runs may use at the same time.

    Methods block, may be called from any thread, and raise CacheUnusable.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        if not Path(path).absolute().parent.is_dir():
            raise CacheUnusable("--cache " + tell("{path}: there is no such folder", path=path))
        try:
            self._file = sqlite3.connect(path, timeout=LOCKED_SECONDS, check_same_thread=False, isolation_level=None)
            self._open()
        except sqlite3.Error as error:
            raise self._failure(error) from None

    def _open(self) -> None:
        marked = self._file.execute("PRAGMA application_id").fetchone()[0]
        (tables,) = self._file.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and marked != APPLICATION:
            self._file.close()
            raise CacheUnusable(tell("--cache {path}: this file is not a cache of saiten collect", path=self._path))
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = NORMAL")
        self._file.execute(f"PRAGMA application_id = {APPLICATION}")
        self._file.execute(
            "CREATE TABLE IF NOT EXISTS replies (digest BLOB PRIMARY KEY, text TEXT NOT NULL, latency_ms REAL NOT NULL)"
            " WITHOUT ROWID"
        )

    def _failure(self, error: sqlite3.Error) -> CacheUnusable:
        return CacheUnusable(f"--cache {self._path}: {error}")

    def find(self, digests: Sequence[bytes]) -> dict[bytes, BotReply]:
        """The replies that are kept."""
        found: dict[bytes, BotReply] = {}
        try:
            with self._lock:
                for start in range(0, len(digests), ASKED_AT_ONCE):
                    some = digests[start : start + ASKED_AT_ONCE]
                    marks = ",".join("?" * len(some))
                    rows = self._file.execute(
                        f"SELECT digest, text, latency_ms FROM replies WHERE digest IN ({marks})",  # noqa: S608
                        some,
                    )
                    found.update((digest, BotReply(text, latency_ms)) for digest, text, latency_ms in rows)
        except sqlite3.Error as error:
            raise self._failure(error) from None
        return found

    def keep(self, digest: bytes, said: BotReply) -> None:
        """Stores a reply; what another run stored meanwhile is replaced."""
        try:
            with self._lock:
                self._file.execute(
                    "INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", (digest, said.text, said.latency_ms)
                )
        except sqlite3.Error as error:
            raise self._failure(error) from None

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._file.close()


def digest_turn(bot: Bot, turn: BotTurn) -> bytes:
    """What a reply is kept under: the bot's name, and all that it is sent."""
    return sha256(bot.name.encode("utf-8", "replace") + b"\0" + bot.payload(turn)).digest()
