"""Request bodies: limited while they arrive, parsed as strict JSON, and validated by the domain's models. Batches may
be too large for memory and are read as a stream (`Upload`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from email.message import Message as Header
from typing import Any, TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

from saiten.core.messages import Message
from saiten.core.strict_json import StrictJSONError, parse_strict_json
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import Overloaded
from saiten_server.core.validation import Model, validate
from saiten_server.platform.tasks import cancel_for_good
from saiten_server.platform.web.problems import RequestRefused

T = TypeVar("T")

MOST_BODY_BYTES = 256 * 1024 * 1024
FREE_BYTES = 64 * 1024
"""Bytes of each body that are not counted. Ordinary requests of a few kilobytes are thus served even while large, slow
bodies use the whole allowance."""

OVERLOAD_SECONDS = 5.0
CLOSED_EARLY = Message("connection-closed")
"""The caller is gone and never reads this, but the log must not report a disconnection as a defect."""


class BodyMemory:
    """Counts the bytes of bodies in memory, beyond `FREE_BYTES` of each; at most `maximum`."""

    def __init__(self, maximum: int = MOST_BODY_BYTES) -> None:
        self._maximum = maximum
        self.held = 0

    @contextmanager
    def arriving(self) -> Iterator[Callable[[int], None]]:
        """Yields a function to call with the bytes held of one body so far; it raises Overloaded beyond the maximum."""
        counted = 0

        def hold(size: int) -> None:
            nonlocal counted
            more = max(0, size - FREE_BYTES) - counted
            if more > 0 and self.held + more > self._maximum:
                detail = Message("bodies-arriving", limit=self._maximum)
                raise Overloaded(detail, retry_after_seconds=OVERLOAD_SECONDS)
            self.held += more
            counted += more

        try:
            yield hold
        finally:
            self.held -= counted


JSON = "application/json"

SMALL_BYTES = 16 * 1024
"""A body up to this size is parsed within 50 ms whatever it holds, so a thread would only delay it."""


def body_of(model: type[Model]) -> Callable[[Request], Awaitable[Model]]:
    """A FastAPI dependency that reads the body as `model`; a large one is parsed in a thread.

    The raw bytes are kept as `request.state.body`. Raises RequestRefused, InvalidDocument and Overloaded.
    """

    async def read(request: Request) -> Model:
        limits: Limits = request.app.state.limits
        require_media_type(request.headers, JSON)
        request.state.body = await receive(request, limits.body_bytes, request.app.state.body_timeout_seconds)
        return await decode_as(model, request.state.body, limits)

    return read


async def decode_as(model: type[Model], body: bytes, limits: Limits, *, unlimited: Collection[str] = ()) -> Model:
    """The body as `model`; a large one is parsed in a thread. Raises RequestRefused (400) and InvalidDocument."""
    if len(body) <= SMALL_BYTES:
        return validate(model, decode(body), limits, unlimited=unlimited)
    return await asyncio.to_thread(lambda: validate(model, decode(body), limits, unlimited=unlimited))


def require_media_type(headers: Mapping[str, str], *taken: str) -> str:
    """The body's media type. Raises RequestRefused (415) unless it is one of `taken`, uncompressed and in UTF-8."""
    if headers.get("content-type") in taken and "content-encoding" not in headers:
        # The usual case: the email parser takes longer than parsing the body.
        return headers["content-type"]
    message = Header()
    message["content-type"] = headers.get("content-type", "")
    # Without the header, the parser would return text/plain.
    media_type = message.get_content_type() if headers.get("content-type") else ""
    if media_type not in taken:
        raise unsupported(Message("media-type-wrong", types=" or ".join(taken)))
    charset = message.get_content_charset() or "utf-8"
    if charset not in {"utf-8", "utf8"}:
        raise unsupported(Message("charset-wrong"))
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise unsupported(Message("encoding-wrong"))
    return media_type


def unsupported(detail: Message) -> RequestRefused:
    """The refusal of an unsupported media type, charset or encoding."""
    return RequestRefused(415, "unsupported-media-type", detail)


async def receive(request: Request, maximum: int, timeout_seconds: float) -> bytes:
    """The body. Raises RequestRefused: 413 as soon as it exceeds `maximum` bytes, 408 if it takes too long, 400 if the
    connection closes; and Overloaded if too many large bodies are arriving."""
    refuse_declared(request.headers, maximum)
    bodies: BodyMemory = request.app.state.bodies
    body = bytearray()
    try:
        with bodies.arriving() as hold:
            async with asyncio.timeout(timeout_seconds):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > maximum:
                        raise too_large(maximum)
                    hold(len(body))
    except TimeoutError:
        raise too_slow(Message("body-too-slow", seconds=timeout_seconds)) from None
    except ClientDisconnect:
        raise invalid_json(CLOSED_EARLY) from None
    return bytes(body)


def refuse_declared(headers: Mapping[str, str], maximum: int) -> None:
    """Raises RequestRefused (413) if Content-Length exceeds `maximum`."""
    declared = headers.get("content-length", "")
    if declared.isdigit() and (len(declared) > 18 or int(declared) > maximum):
        raise too_large(maximum)


def too_large(maximum: int) -> RequestRefused:
    """The refusal of a body with more than `maximum` bytes."""
    return RequestRefused(413, "body-too-large", Message("body-bytes-most", maximum=maximum))


def too_slow(detail: Message) -> RequestRefused:
    """The refusal of a body that arrives too slowly; its connection is closed."""
    return RequestRefused(408, "body-timeout", detail, {"Connection": "close"})


def invalid_json(detail: Message) -> RequestRefused:
    """The refusal of a body that is not a JSON document."""
    return RequestRefused(400, "invalid-json", detail)


def decode(body: bytes) -> Any:
    """The JSON value. Raises RequestRefused (400)."""
    try:
        return parse_strict_json(body)
    except StrictJSONError as error:
        raise invalid_json(error.message) from None


NDJSON = "application/x-ndjson"

SLOWEST_BYTES_PER_SECOND = 50_000
"""An upload at this rate or faster never times out because of its length."""


class Upload:
    """A request's body as a stream of bytes, to be read once; of the media types that are taken.

    Reading raises RequestRefused: 413 as soon as the body exceeds `maximum`, by default `limits.batch_bytes`; 408 if no
    byte arrives within the time limit, or if the body is slower than `SLOWEST_BYTES_PER_SECOND` beyond it; 400 if the
    connection closes. Only time spent waiting for the caller counts. Raises Overloaded if too many large bodies are
    arriving.
    """

    def __init__(self, request: Request, *taken: str, maximum: int | None = None, keeps: bool = False) -> None:
        """`keeps`: what is read stays in memory, so that all of it counts there and not only its largest value."""
        limits: Limits = request.app.state.limits
        self.ndjson = require_media_type(request.headers, *(taken or (JSON, NDJSON))) == NDJSON
        self._maximum = limits.batch_bytes if maximum is None else maximum
        refuse_declared(request.headers, self._maximum)
        self._request = request
        self._most_held = self._maximum if keeps else limits.body_bytes
        self._bodies: BodyMemory = request.app.state.bodies
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
                # At most one JSON value is held at a time, and it may be as large as `body_bytes`.
                hold(min(self._received, self._most_held))
                yield piece

    async def _wait(self, pieces: AsyncIterator[bytes]) -> bytes | None:
        """The next piece, or None after the last."""
        clock = asyncio.get_running_loop().time
        granted = self._timeout_seconds + self._received / SLOWEST_BYTES_PER_SECOND
        started = clock()
        try:
            async with asyncio.timeout(min(self._timeout_seconds, granted - self._waited_seconds)):
                return await anext(pieces, None)
        except TimeoutError:
            seconds = self._waited_seconds + clock() - started
            raise too_slow(Message("body-part-too-slow", bytes=self._received, seconds=seconds)) from None
        except ClientDisconnect:
            raise invalid_json(CLOSED_EARLY) from None
        finally:
            self._waited_seconds += clock() - started


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The work's result, after the body was read. A caller who hangs up cancels the work at once: for work whose result
    is kept nowhere. Raises RequestRefused then, which is not sent to anyone."""

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = working, _ = asyncio.create_task(work), asyncio.create_task(watch())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise invalid_json(CLOSED_EARLY)
        return working.result()
    finally:
        await cancel_for_good(tasks)
