"""Work in a thread that ends soon after those who waited for it have gone."""

from __future__ import annotations

from contextvars import ContextVar
from threading import Event


class GivenUp(Exception):
    """No one waits any more. It ends the work in its thread and is not passed on."""


GIVEN_UP: ContextVar[Event | None] = ContextVar("given_up", default=None)
"""Set once no one waits for what this context computes; None where that is not known."""


def checkpoint() -> None:
    """To be called again and again in long work. Raises GivenUp once no one waits for it."""
    given_up = GIVEN_UP.get()
    if given_up is not None and given_up.is_set():
        raise GivenUp
