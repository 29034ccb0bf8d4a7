"""One process that draws, for all services that the tests of a process start."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class KeptExecutor(Executor):
    """An executor that stays open when its user shuts it down."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._executor.submit(fn, *args, **kwargs)
