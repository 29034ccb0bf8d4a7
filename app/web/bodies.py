"""How much of the memory bodies may take that are still arriving, of all requests together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.domain.errors import Overloaded

MOST_BYTES = 256 * 1024 * 1024
FREE_BYTES = 64 * 1024
"""So much of each is not counted: while large bodies that come slowly take all the room, an ordinary request, whose
body is a few kilobytes, is served as ever."""

OVERLOAD_SECONDS = 5.0


class Bodies:
    """The bytes that are held, beyond the first of each body; `maximum` at most."""

    def __init__(self, maximum: int = MOST_BYTES) -> None:
        self._maximum = maximum
        self.held = 0

    @contextmanager
    def arriving(self) -> Iterator[Callable[[int], None]]:
        """Gives what is to be told how many bytes of one body are held; it raises Overloaded where there is no room."""
        counted = 0

        def hold(size: int) -> None:
            nonlocal counted
            more = max(0, size - FREE_BYTES) - counted
            if more > 0 and self.held + more > self._maximum:
                detail = f"bodies of {self._maximum} bytes are arriving already; send it again, or in smaller parts"
                raise Overloaded(detail, retry_after_seconds=OVERLOAD_SECONDS)
            self.held += more
            counted += more

        try:
            yield hold
        finally:
            self.held -= counted
