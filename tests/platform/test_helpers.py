"""Helper processes: when they are begun, and what happens where one is killed."""

import asyncio
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any

from saiten_server.platform.helpers import BUSY, Helpers


class FakeExecutor(Executor):
    """Does work at once; breaks where `broken`."""

    def __init__(self) -> None:
        self.broken = False
        self.closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.broken:
            raise BrokenExecutor("killed")
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.closed = True


async def test_helpers_are_begun_under_load_and_anew_after_one_was_killed() -> None:
    opened: list[FakeExecutor] = []

    def open_executor() -> FakeExecutor:
        opened.append(FakeExecutor())
        return opened[-1]

    helpers, free = Helpers(open_executor), asyncio.Event()

    async def here() -> str:
        await free.wait()
        return "here"

    async def do(many: int) -> list[str]:
        def read(done: bytes) -> str | None:
            return done.decode() or None

        work = [helpers.work(bytes.upper, lambda: b"helped", read, here) for _ in range(many)]
        work += [helpers.work(bytes.upper, lambda: b"", read, here)]
        found = asyncio.gather(*work)
        for _ in range(5):
            await asyncio.sleep(0)
        free.set()
        return await found

    assert await do(BUSY - 1) == ["here"] * BUSY
    assert not opened
    free.clear()
    assert await do(BUSY) == ["here"] * (BUSY + 1)
    assert len(opened) == 1
    # Ready now. What a helper cannot do is done here.
    assert await do(2) == ["HELPED", "HELPED", "here"]
    opened[0].broken = True
    assert await do(1) == ["here", "here"]
    assert opened[0].closed
    free.clear()
    await do(BUSY)
    assert await do(1) == ["HELPED", "here"]
    assert len(opened) == 2
    helpers.close()
    assert opened[1].closed
