"""What SIGTERM means to a process that is about to serve."""

from __future__ import annotations

import os
import signal
from types import FrameType


def leave_on_sigterm() -> None:
    """Ends this process with 0 on SIGTERM, at once, for as long as nothing else takes the signal.

    The first process of a container does not even hear of a signal that it has no handler for: told to stop while it
    starts, it would go on until it is killed. Nothing has been promised to anybody yet, and what is being written, the
    schema say, is in a transaction.
    """
    signal.signal(signal.SIGTERM, leave)


def leave(sign: int, frame: FrameType | None) -> None:
    """No SystemExit: raised amid the making of a class it comes out of Python 3.11 as a RuntimeError, and raised in
    what the collector calls it is printed and forgotten."""
    os._exit(0)
