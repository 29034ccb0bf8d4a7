"""The thread in which a blocking client makes its calls."""

import asyncio
import gc
import multiprocessing
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator

import pytest

import saiten
from saiten.items import LinesBody
from saiten.loop import BackgroundLoop
from tests.support.waiting import LIMIT_SECONDS


async def nothing() -> None:
    return None


@pytest.fixture
def loop() -> Iterator[BackgroundLoop]:
    made = BackgroundLoop()
    yield made
    if made._thread.is_alive():
        made.close(nothing())


def test_values_come_before_the_error_that_follows_them(loop: BackgroundLoop) -> None:
    closed = threading.Event()

    async def count() -> AsyncGenerator[int, None]:
        try:
            for number in range(5):
                yield number
            raise LookupError("broke off")
        finally:
            closed.set()

    values = loop.iterate(count(), 3)
    assert [next(values) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(LookupError, match="broke off"):
        next(values)
    assert closed.is_set()


def test_an_iteration_that_is_left_closes_its_generator(loop: BackgroundLoop) -> None:
    closed = threading.Event()

    async def count() -> AsyncGenerator[int, None]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    values = loop.iterate(count(), 2)
    assert next(values) == 1
    values.close()  # type: ignore[attr-defined]
    assert closed.wait(LIMIT_SECONDS)


def test_it_may_be_closed_from_its_own_thread(loop: BackgroundLoop) -> None:
    async def collect() -> None:
        loop.close(nothing())

    loop.run(collect())
    loop._thread.join(10)
    assert not loop._thread.is_alive()
    loop._loop.close()


def test_a_client_that_is_let_go_ends_its_thread() -> None:
    client = saiten.Client("http://127.0.0.1:9")
    thread = client._loop._thread
    del client
    gc.collect()
    thread.join(LIMIT_SECONDS)
    assert not thread.is_alive()


@pytest.mark.parametrize("what", ["client", "iteration"])
def test_a_finalizer_does_not_wait_for_the_thread(what: str) -> None:
    """Which may need what the garbage collector interrupted, such as the lock of an import."""
    interrupted = threading.Event()
    client = saiten.Client("http://127.0.0.1:9")
    loop, values = client._loop, client._loop.iterate(count_on(), 1)
    assert next(values) == 1
    loop._loop.call_soon_threadsafe(interrupted.wait)

    def let_go() -> None:
        nonlocal client, values
        if what == "client":
            del client
        else:
            del values
        gc.collect()
        raise LookupError

    try:
        assert isinstance(in_a_thread(let_go), LookupError)
        assert loop._thread.is_alive()
    finally:
        interrupted.set()
    if what == "client":
        loop._thread.join(LIMIT_SECONDS)
        assert loop._loop.is_closed()


def test_a_forked_process_is_told_to_make_a_client_of_its_own(loop: BackgroundLoop) -> None:
    assert loop.run(asyncio.sleep(0, result=1)) == 1
    context = multiprocessing.get_context("fork")
    told = context.SimpleQueue()

    def ask() -> None:
        try:
            loop.run(nothing())
        except RuntimeError as error:
            told.put(str(error))

    child = context.Process(target=ask)
    child.start()
    child.join(60)
    assert "before the process forked" in told.get()


def in_a_thread(call: Callable[[], object]) -> BaseException:
    """The error of a call that would wait for ever if it were wrong."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(LIMIT_SECONDS)
    assert not thread.is_alive()
    return raised[0]


def test_a_call_from_its_own_thread_is_refused(loop: BackgroundLoop) -> None:
    async def call() -> None:
        loop.run(nothing())

    assert "cannot call that client" in str(in_a_thread(lambda: loop.run(call())))
    assert loop.run(asyncio.sleep(0, result=1)) == 1


def test_an_exit_within_a_call_is_the_callers(loop: BackgroundLoop) -> None:
    async def leave() -> None:
        sys.exit("enough")

    assert isinstance(in_a_thread(lambda: loop.run(leave())), SystemExit)
    assert loop.run(asyncio.sleep(0, result=1)) == 1


def test_calls_of_other_threads_end_when_it_is_closed(loop: BackgroundLoop) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def close() -> None:
        begun.wait()
        loop.close(nothing())

    threading.Thread(target=close).start()
    assert "closed during the call" in str(in_a_thread(lambda: loop.run(work())))
    assert ended.is_set()
    with pytest.raises(RuntimeError, match="this client is closed"):
        loop.run(nothing())


async def count_on() -> AsyncGenerator[int, None]:
    number = 0
    while True:
        yield (number := number + 1)


def test_an_iteration_may_be_collected_in_its_own_thread(loop: BackgroundLoop) -> None:
    values = loop.iterate(count_on(), 1)
    assert next(values) == 1

    async def collect() -> None:
        values.close()  # type: ignore[attr-defined]

    def call() -> None:
        loop.run(collect())
        raise LookupError

    assert isinstance(in_a_thread(call), LookupError)


def test_an_iteration_may_end_after_its_client(loop: BackgroundLoop) -> None:
    values = loop.iterate(count_on(), 1)
    assert next(values) == 1
    loop.close(nothing())
    values.close()  # type: ignore[attr-defined]


def test_an_iteration_keeps_its_client() -> None:
    client = saiten.Client("http://127.0.0.1:9")
    thread = client._loop._thread
    values = client.results("ba_1")
    del client
    gc.collect()
    assert thread.is_alive()
    del values
    gc.collect()
    thread.join(LIMIT_SECONDS)
    assert not thread.is_alive()


def test_a_forked_process_ends_without_a_word() -> None:
    code = """
import os, sys, saiten
client = saiten.Client("http://127.0.0.1:9")
if os.fork() == 0:
    sys.exit()
os.wait()
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_exit_within_progress_pauses_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[object] = []

    async def post(_: object, __: object, ___: str, body: LinesBody, **____: object) -> str:
        body.close()
        return "ba_1"

    async def wait(*_: object, **__: object) -> None:
        sys.exit("enough")

    async def pause(_: object, batch: object) -> None:
        paused.append(batch)

    monkeypatch.setattr("saiten.client.AsyncClient._send_lines", post)
    monkeypatch.setattr("saiten.client.AsyncClient.wait", wait)
    monkeypatch.setattr("saiten.client.AsyncClient.pause_batch", pause)
    with saiten.Client("http://127.0.0.1:9") as client:
        assert isinstance(in_a_thread(lambda: client.run([])), SystemExit)
    assert paused == ["ba_1"]
