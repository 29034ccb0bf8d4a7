"""What SIGTERM means to a benchmark: what it started is ended, and its folders are removed."""

from __future__ import annotations

import signal
from types import FrameType


def end_on_sigterm() -> None:
    """From now on the signal ends this process as an exception would: from within, closing what is open."""
    signal.signal(signal.SIGTERM, end)


def end(sign: int, frame: FrameType | None) -> None:
    """As a shell says it of a process that a signal ended."""
    raise SystemExit(128 + sign)
