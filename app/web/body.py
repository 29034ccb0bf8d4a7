"""Request bodies: bounded while they arrive, strict JSON, validated by the domain's own models."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from email.message import Message
from typing import Any

from fastapi import Request
from starlette.requests import ClientDisconnect

from app.domain.dialogue import Limits
from app.domain.strict_json import StrictJSONError, parse_strict_json
from app.domain.validation import Model, validate
from app.web.problems import Refused


def body_of(model: type[Model]) -> Callable[[Request], Awaitable[Model]]:
    """A FastAPI dependency that reads the body as `model`; it keeps the raw bytes as `request.state.body`."""

    async def read(request: Request) -> Model:
        limits: Limits = request.app.state.limits
        require_json(request.headers)
        request.state.body = await receive(request, limits.body_bytes, request.app.state.body_timeout_seconds)
        return validate(model, decode(request.state.body), limits)

    return read


def require_json(headers: Mapping[str, str]) -> None:
    """Raises Refused (415) for anything but unencoded UTF-8 JSON."""
    message = Message()
    message["content-type"] = headers.get("content-type", "")
    if message.get_content_type() != "application/json" or not headers.get("content-type"):
        raise unsupported("send Content-Type: application/json")
    charset = message.get_content_charset() or "utf-8"
    if charset not in {"utf-8", "utf8"}:
        raise unsupported("only UTF-8 is taken")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise unsupported("compressed bodies are not taken; send it without Content-Encoding")


def unsupported(detail: str) -> Refused:
    """The refusal of a body that is not UTF-8 JSON."""
    return Refused(415, "unsupported-media-type", "The body is in a form that is not taken", detail)


async def receive(request: Request, maximum: int, timeout_seconds: float) -> bytes:
    """The body; raises Refused: 413 as soon as it passes `maximum` bytes, 408 where it takes too long, 400 where it
    breaks off."""
    too_large = Refused(413, "body-too-large", "The body is too large", f"a body may have at most {maximum} bytes")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and (len(declared) > 18 or int(declared) > maximum):
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > maximum:
                    raise too_large
    except TimeoutError:
        detail = f"the body did not arrive within {timeout_seconds:g} s"
        raise Refused(408, "body-timeout", "The body took too long", detail, {"Connection": "close"}) from None
    except ClientDisconnect:
        # Nobody reads this answer, but the log must not call a caller who hung up a defect.
        raise Refused(400, "invalid-json", "The body is not valid JSON", "the connection closed early") from None
    return bytes(body)


def decode(body: bytes) -> Any:
    """The JSON value; raises Refused (400)."""
    try:
        return parse_strict_json(body)
    except StrictJSONError as error:
        raise Refused(400, "invalid-json", "The body is not valid JSON", str(error)) from None
