"""Lets a connection to SQLite that is given up twice come to its end."""

from __future__ import annotations

from asyncio import Future
from typing import Any
from weakref import ref


def stop_once(connection: Any, _record: Any) -> None:
    """SQLAlchemy's `connect` listener for aiosqlite: every call to `stop` answers with the future of the first.

    A task that is cancelled amid a statement has its connection closed; where it is cancelled again meanwhile, as when
    a caller hangs up and then the service stops, SQLAlchemy stops the connection's thread while the close still goes
    on. That then tells the thread to stop too, which is no longer there, and waits for its answer for ever: the event
    loop, and the process with it, does not end.
    """
    driver = connection.driver_connection
    stop, found = type(driver).stop, ref(driver)
    told: list[Future[Any] | None] = []

    def stop_it() -> Future[Any] | None:
        alive = found()
        if not told and alive is not None:
            told.append(stop(alive))
        return told[0] if told else None

    driver.stop = stop_it
