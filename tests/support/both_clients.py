"""Client and AsyncClient as one: every method is awaited, and an iteration is a list."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

import saiten

Kind = Literal["asynchronous", "blocking"]


class Either:
    """A client or a run of either kind. What is no method is returned as it is."""

    def __init__(self, asked: Any) -> None:
        self.asked = asked

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.asked, name)
        return self._wrap(found) if inspect.ismethod(found) else found

    def _wrap(self, method: Callable[..., Any]) -> Callable[..., Any]:
        blocking = isinstance(self.asked, saiten.Client | saiten.Run)

        async def call(*arguments: Any, **options: Any) -> Any:
            if blocking:
                found = await asyncio.to_thread(call_blocking, method, *arguments, **options)
            else:
                made = method(*arguments, **options)
                found = [one async for one in made] if inspect.isasyncgen(made) else await made
            return Either(found) if isinstance(found, saiten.Run | saiten.AsyncRun) else found

        return call


def call_blocking(method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    found = method(*arguments, **options)
    return list(found) if inspect.isgenerator(found) else found


@asynccontextmanager
async def client_of(kind: Kind, url: str, **options: Any) -> AsyncIterator[Any]:
    """A client of that kind, which is closed at the end."""
    if kind == "asynchronous":
        async with saiten.AsyncClient(url, **options) as client:
            yield Either(client)
        return
    waiting = saiten.Client(url, **options)
    try:
        yield Either(waiting)
    finally:
        await asyncio.to_thread(waiting.close)
