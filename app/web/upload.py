"""A body that may be too large to be held: read piece by piece, with limits on its size and the caller's slowness."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi import Request
from starlette.requests import ClientDisconnect

from app.batches.intake import Intake, Spool
from app.batches.service import BatchService
from app.domain.dialogue import Limits
from app.domain.strict_json import StrictJSONError
from app.web.bodies import Bodies
from app.web.body import (
    JSON,
    broken_off,
    invalid_json,
    refuse_declared,
    require_media_type,
    too_large,
    too_slow,
)

NDJSON = "application/x-ndjson"

SLOWEST_BYTES_PER_SECOND = 50_000
"""An upload at this pace or faster is never cut for its length; one that drips is cut like any other body."""


class Upload:
    """A request's body as a stream of bytes, to be read once.

    Reading raises Refused: 413 as soon as the body passes `limits.batch_bytes`; 408 where it is silent for longer than
    the body's time limit, or slower than `SLOWEST_BYTES_PER_SECOND` beyond it; 400 where it breaks off. Only the time
    that the caller is waited for counts, not what is done with the pieces. Overloaded where too many large bodies are
    arriving.
    """

    def __init__(self, request: Request) -> None:
        limits: Limits = request.app.state.limits
        self.ndjson = require_media_type(request.headers, JSON, NDJSON) == NDJSON
        refuse_declared(request.headers, limits.batch_bytes)
        self._request = request
        self._maximum = limits.batch_bytes
        self._most_held = limits.body_bytes
        self._bodies: Bodies = request.app.state.bodies
        self._timeout_seconds: float = request.app.state.body_timeout_seconds
        self._received = 0
        self._waited_seconds = 0.0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = self._request.stream()
        with self._bodies.arriving() as hold:
            while (piece := await self._wait(pieces)) is not None:
                self._received += len(piece)
                if self._received > self._maximum:
                    raise too_large(self._maximum)
                # Of what has arrived no more is kept than one value, which may be as large as a whole body elsewhere.
                hold(min(self._received, self._most_held))
                yield piece

    async def _wait(self, pieces: AsyncIterator[bytes]) -> bytes | None:
        """The next piece; None after the last."""
        clock = asyncio.get_running_loop().time
        granted = self._timeout_seconds + self._received / SLOWEST_BYTES_PER_SECOND
        started = clock()
        try:
            async with asyncio.timeout(min(self._timeout_seconds, granted - self._waited_seconds)):
                return await anext(pieces, None)
        except TimeoutError:
            seconds = self._waited_seconds + clock() - started
            raise too_slow(f"{self._received} bytes of the body arrived within {seconds:.1f} s") from None
        except ClientDisconnect:
            raise broken_off() from None
        finally:
            self._waited_seconds += clock() - started


async def receive_batch(request: Request, desk: BatchService, spool: Spool) -> Intake:
    """The batch in the body, whole and valid. Raises Refused and InvalidDocument."""
    upload = Upload(request)
    try:
        return await desk.take_in(upload, spool, ndjson=upload.ndjson)
    except StrictJSONError as error:
        raise invalid_json(str(error)) from None
