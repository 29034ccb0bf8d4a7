"""A test's `caplog` holds what this test logs, and not what another one left to the garbage collector."""

import asyncio
import gc
import logging
import socket
from itertools import cycle
from typing import Any

import asyncpg
import pytest

from tests.support.waiting import LIMIT_SECONDS


async def leave_future(error: Exception) -> None:
    asyncio.get_running_loop().create_future().set_exception(error)
    gc.collect(1)


async def test_a_connection_that_was_given_up_while_it_was_made_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    def tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        told.append(str(context["exception"]))
        loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(tell)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = {"host": "127.0.0.1", "port": silent.getsockname()[1]}
        # It takes the one turn of the loop between the connection and its first word, which comes sooner or later.
        # Where it never comes, asyncpg has mended it, and `is_of_now` can go.
        async with asyncio.timeout(LIMIT_SECONDS):
            for turns in cycle(range(1, 40)):
                connecting = asyncio.create_task(asyncpg.connect(**address, user="x", database="x"))
                for _ in range(turns):
                    await asyncio.sleep(0)
                connecting.cancel()
                await asyncio.wait([connecting])
                await asyncio.sleep(0.01)
                gc.collect(1)  # it is young; to look through all there is takes a tenth of a second
                if told:
                    break
    assert told == ["unexpected connection_lost() call"]
    assert caplog.records == []


@pytest.mark.parametrize(
    "error", [ConnectionError("reset"), RuntimeError("unexpected connection_lost() call"), ValueError("ours")]
)
async def test_what_is_left_unretrieved_otherwise_still_shows(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    await leave_future(error)
    assert [record.name for record in caplog.records] == ["asyncio"]


def test_an_error_that_says_the_same_elsewhere_still_shows(caplog: pytest.LogCaptureFixture) -> None:
    error = ConnectionError("unexpected connection_lost() call")
    logging.getLogger("saiten").error("Future exception was never retrieved", exc_info=error)
    logging.getLogger("asyncio").error("another", exc_info=error)
    assert len(caplog.records) == 2
