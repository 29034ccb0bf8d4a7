"""Tasks that lose a cancellation are cancelled again."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from saiten_server.platform import tasks
from saiten_server.platform.tasks import cancel_for_good, end_once, end_tasks
from saiten_server.runs.redis_queue import SAQJobQueue
from saiten_server.runs.work import ChunkJob


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "AGAIN_SECONDS", 0.01)


@pytest.mark.parametrize("end", [cancel_for_good, end_tasks])
async def test_a_task_that_loses_two_cancellations_ends(end: Callable[..., Awaitable[None]]) -> None:
    lost = 0

    async def work() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                lost += 1
                if lost > 2:
                    raise

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await end([task])
    assert (lost, task.cancelled()) == (3, True)


async def test_an_error_that_a_task_died_of_is_raised_once_all_have_ended() -> None:
    async def die() -> None:
        raise ValueError("dead")

    died, waits = asyncio.create_task(die()), asyncio.create_task(asyncio.Event().wait())
    await asyncio.wait([died])
    with pytest.raises(ValueError, match="dead"):
        await end_tasks([died, waits])
    assert waits.cancelled()
    with pytest.raises(ValueError, match="dead"):
        await end_once(died)


async def test_a_task_that_cleans_up_is_cancelled_once() -> None:
    began, cleaned = asyncio.Event(), False

    async def work() -> None:
        nonlocal cleaned
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(5 * tasks.AGAIN_SECONDS)
            cleaned = True

    task = asyncio.create_task(work())
    await began.wait()
    await end_once(task)
    assert (cleaned, task.cancelled()) == (True, True)


async def test_a_task_that_died_is_no_reason_to_leave_others() -> None:
    async def die() -> None:
        raise ValueError("dead")

    died, waits = asyncio.create_task(die()), asyncio.create_task(asyncio.Event().wait())
    await asyncio.wait([died])
    await cancel_for_good([died, waits])
    assert waits.cancelled()
    with pytest.raises(ValueError, match="dead"):
        died.result()


async def test_with_nothing_to_end_nothing_is_waited_for() -> None:
    turns: list[str] = []
    asyncio.get_running_loop().call_soon(turns.append, "somebody else's")
    await cancel_for_good([])
    assert turns == []
    await asyncio.sleep(0)
    assert turns == ["somebody else's"]


async def test_a_loop_over_redis_ends_in_whichever_turn_it_is_cancelled(redis_url: str) -> None:
    """As the ledger does: in one of these turns redis-py sends, and before Python 3.12 the cancellation is lost."""
    queue = SAQJobQueue(redis_url)
    await queue.put([ChunkJob("ba_1", 0)])

    async def put_then_wait() -> None:
        await queue.put([ChunkJob("ba_1", 0)])
        await asyncio.Event().wait()

    for turns in range(40):
        task = asyncio.create_task(put_then_wait())
        for _ in range(turns):
            await asyncio.sleep(0)
        await cancel_for_good([task])
        assert task.done()
    await queue.close()
