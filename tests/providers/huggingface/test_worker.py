"""One thread, jobs in order."""

import asyncio
import threading
from functools import partial

import pytest

from saiten_server.providers.huggingface import Worker
from tests.support.waiting import LIMIT_SECONDS


async def test_runs_jobs_in_order_in_one_daemon_thread() -> None:
    worker = Worker("of-this-test")
    order: list[int] = []

    def note(number: int) -> threading.Thread:
        order.append(number)
        return threading.current_thread()

    threads = await asyncio.gather(*(worker.submit(partial(note, number)) for number in range(5)))
    assert order == [0, 1, 2, 3, 4]
    (thread,) = set(threads)
    assert (thread.name, thread.daemon) == ("of-this-test", True)
    await worker.stop()
    thread.join()


async def test_a_thread_that_could_not_be_started_is_started_for_the_next_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    worker = Worker("of-this-test")
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            worker.submit(lambda: "never")
    async with asyncio.timeout(LIMIT_SECONDS):
        assert await worker.submit(lambda: "served") == "served"
    await worker.stop()


async def test_what_a_job_raises_belongs_to_who_waits_for_it() -> None:
    worker = Worker("of-this-test")

    def fail() -> None:
        raise KeyError("bug")

    failing, serving = worker.submit(fail), worker.submit(lambda: "served")
    with pytest.raises(KeyError, match="bug"):
        await failing
    assert await serving == "served"
    await worker.stop()


async def test_a_cancelled_job_that_waits_is_not_run() -> None:
    worker, go_on, ran = Worker("of-this-test"), threading.Event(), []
    first = worker.submit(go_on.wait)
    dropped, last = worker.submit(lambda: ran.append("dropped")), worker.submit(lambda: ran.append("last"))
    dropped.cancel()
    await asyncio.sleep(0)  # the cancellation reaches the thread's side in the loop's next turn
    go_on.set()
    await asyncio.gather(first, last)
    assert ran == ["last"]
    await worker.stop()


async def test_stopping_lets_the_job_at_hand_finish_within_the_grace() -> None:
    worker, go_on = Worker("of-this-test"), threading.Event()
    job = worker.submit(go_on.wait)
    await worker.stop(0.01)
    assert not job.done()
    go_on.set()
    assert await job
    await worker.stop()


async def test_a_worker_that_never_worked_stops_at_once() -> None:
    before = threading.active_count()
    await Worker("of-this-test").stop(grace_seconds=600)
    assert threading.active_count() == before


async def test_tidies_up_in_its_thread_while_there_is_no_job_as_often_as_it_is_told() -> None:
    waits: list[float | None] = [0.001, 0.0, None]
    names: list[str] = []
    done = threading.Event()

    def tidy() -> float | None:
        names.append(threading.current_thread().name)
        if len(names) == len(waits):
            done.set()
        return waits[len(names) - 1] if len(names) <= len(waits) else None

    worker = Worker("test", tidy)
    await worker.submit(lambda: None)
    await asyncio.to_thread(done.wait)
    assert names[:3] == ["test"] * 3
    assert await worker.submit(lambda: "still there") == "still there"
    await worker.stop()


async def test_an_idle_worker_without_anything_to_tidy_up_is_not_woken() -> None:
    calls: list[None] = []
    worker = Worker("test", lambda: calls.append(None))
    await worker.submit(lambda: None)
    await worker.stop()
    # Before the job, and before the word to stop.
    assert len(calls) == 2
