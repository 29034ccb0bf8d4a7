"""Who acts, for what is noted far below the edge that let them in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

ANONYMOUS = "anonymous"

actor: ContextVar[str] = ContextVar("actor", default=ANONYMOUS)
"""A key's id, `cli:` and the user's name, or `anonymous`: of this task, and of those it starts."""


@contextmanager
def acting_as(name: str) -> Iterator[None]:
    """Whatever is noted inside was done by `name`."""
    token = actor.set(name)
    try:
        yield
    finally:
        actor.reset(token)
