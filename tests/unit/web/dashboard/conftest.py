"""One process that draws, for all services that the tests of a process start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from app.runtime.helpers import open_process


class KeptExecutor(Executor):
    """An executor that stays open when its user shuts it down."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._executor.submit(fn, *args, **kwargs)


@pytest.fixture(scope="session")
def drawing_process() -> Iterator[Executor]:
    """Starts with the first chart."""
    with open_process() as executor:
        yield KeptExecutor(executor)


@pytest.fixture(autouse=True)
def share_drawing_process(drawing_process: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process starts a JavaScript engine, which takes a second of CPU: too much for each of some 200 tests."""
    monkeypatch.setattr("app.container.open_process", lambda most=1: drawing_process)
