"""SQLite's file as the operating system sees it: still there, and written by one at a time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from app.adapters.sql.failures import LOCKED
from app.domain.errors import StoreUnavailable

PATIENCE_SECONDS = 15
"""How long a writer waits for another, in this process or in a different one."""


class DatabaseFile:
    """The file behind an engine; a database in memory has none, and `path` stays None.

    SQLite goes on reading and writing a file that was deleted under it, and everything written there is lost. The file
    is therefore remembered once its tables are made, and looked for before each transaction.
    """

    def __init__(self) -> None:
        self.path: Path | None = None
        self._identity: tuple[int, int] | None = None
        self._writing = asyncio.Lock()

    def remember(self) -> None:
        """Takes the file that lies there now for the right one."""
        self._identity = self._identify()

    def check(self) -> None:
        """Raises StoreUnavailable where the file is gone, or another lies in its place."""
        if self._identity is not None and self._identify() != self._identity:
            raise StoreUnavailable("the database file is gone or was replaced; put it back, then restart Saiten")

    def _identify(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path) if self.path else None
        except OSError:
            return None
        return None if found is None else (found.st_dev, found.st_ino)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """One at a time, in the order of asking: SQLite itself lets writers poll, and the unlucky one starve.

        Raises StoreUnavailable where those before it take too long.
        """
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._writing.acquire()
        except TimeoutError:
            raise StoreUnavailable(LOCKED) from None
        try:
            yield
        finally:
            self._writing.release()
