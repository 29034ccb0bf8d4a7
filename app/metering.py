"""Adds up what judging costs while something is done, whatever becomes of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from app.domain.evaluation import Usage


@dataclass
class Meter:
    """USD of every judgement since the meter was begun; those whose cost is not known count as nothing."""

    cost_usd: float = 0.0


_running: ContextVar[Meter | None] = ContextVar("saiten_meter", default=None)


@contextmanager
def metering() -> Iterator[Meter]:
    """Counts in this block and in the tasks that it begins."""
    begun = Meter()
    token = _running.set(begun)
    try:
        yield begun
    finally:
        _running.reset(token)


def meter(usage: Usage) -> None:
    """Adds one judgement to the meter that runs here, if any."""
    running = _running.get()
    if running is not None:
        running.cost_usd += usage.cost_usd or 0.0
