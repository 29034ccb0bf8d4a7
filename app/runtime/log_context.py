"""The ids of the request, batch and candidate in progress, which every log record carries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

NOTHING: Mapping[str, object] = MappingProxyType({})

about: ContextVar[Mapping[str, object]] = ContextVar("about", default=NOTHING)
"""The ids of this task and of those it starts, by the names that the log gives them."""


@contextmanager
def working_on(**ids: object) -> Iterator[None]:
    """Adds these ids to all records logged inside the block, also by tasks that are started in it."""
    token = about.set({**about.get(), **ids})
    try:
        yield
    finally:
        about.reset(token)
