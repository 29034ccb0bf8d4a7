"""The thread in which a blocking client makes its calls."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import threading
from collections.abc import AsyncGenerator, Iterator

import pytest

import saiten
from saiten.loop import BackgroundLoop


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
    assert closed.is_set()


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
    assert not thread.is_alive()


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
