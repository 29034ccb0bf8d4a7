"""Whom a log record is about: the request, the batch and the candidate that are being worked on. Ids, never a text."""

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
    """Whatever is logged inside carries these ids, also by tasks begun inside, beside those from further out."""
    token = about.set({**about.get(), **ids})
    try:
        yield
    finally:
        about.reset(token)
