"""HTTP to a judge's provider: no redirect is followed, and no more of a reply is read than a verdict can have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import aiohttp
import httpx2
import openai

from app.adapters.openai.errors import ReplyTooLarge

TRANSFER_HEADERS = ("content-encoding", "content-length", "transfer-encoding")
"""What is true of a reply on its way, and not of its decoded body."""
IDLE_SECONDS = 4.0
"""Many servers close an idle connection after 5 s, and a call that meets one as it is being closed is lost."""
PIECE_BYTES = 16 * 1024
"""Decoded at a time: a small compressed body can hold gigabytes."""
LIMITS = httpx2.Limits(max_connections=0, keepalive_expiry=IDLE_SECONDS)
"""0 is aiohttp's word for no limit: flow control bounds the calls."""


class BoundedClient(openai.DefaultAioHttpClient):
    """The SDK's own client over aiohttp. `largest_reply_bytes` bounds every body, an error's too, as decoded.

    A small compressed body can hold gigabytes, so it is counted piece by piece while it is decoded.
    """

    def __init__(self, *, largest_reply_bytes: int, **settings: Any) -> None:
        super().__init__(**settings, limits=LIMITS, follow_redirects=False)
        self._largest_reply_bytes = largest_reply_bytes

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """As the base class does it. Raises ReplyTooLarge, having read no further and closed the connection."""
        try:
            response = await super().send(request, stream=True, **options)
            return response if stream else await self._finish(response)
        except httpx2.TimeoutException as error:
            # The transport takes every broken connection for one that took too long.
            if isinstance(error.__cause__, TimeoutError):
                raise
            raise openai.APIConnectionError(request=request) from error
        except aiohttp.ClientError as error:
            raise openai.APIConnectionError(request=request) from error

    async def _finish(self, response: httpx2.Response) -> httpx2.Response:
        try:
            content = await self._read(response)
        finally:
            await response.aclose()
        headers = response.headers.copy()
        for name in TRANSFER_HEADERS:
            headers.pop(name, None)
        return httpx2.Response(response.status_code, headers=headers, content=content, request=response.request)

    async def _read(self, response: httpx2.Response) -> bytes:
        async with aclosing(response.aiter_bytes()) as pieces:
            return await join(pieces, self._largest_reply_bytes)


async def read_body(answer: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """The body of an answer that was asked for without `auto_decompress`, decoded. Raises ReplyTooLarge, having read
    no further, and httpx2.DecodingError."""
    pieces = answer.content.iter_chunked(PIECE_BYTES)
    if "Content-Encoding" not in answer.headers:
        return await join(pieces, most_bytes)
    encoding = [("content-encoding", answer.headers["Content-Encoding"])]
    encoded = httpx2.Response(answer.status, headers=encoding, content=pieces)
    async with aclosing(encoded.aiter_bytes()) as decoded:
        return await join(decoded, most_bytes)


async def join(pieces: AsyncIterator[bytes], most_bytes: int) -> bytes:
    """All pieces as one. Raises ReplyTooLarge as soon as there are more bytes."""
    found, length = [], 0
    async for piece in pieces:
        found.append(piece)
        length += len(piece)
        if length > most_bytes:
            raise ReplyTooLarge(f"the reply has more than {most_bytes} bytes")
    return found[0] if len(found) == 1 else b"".join(found)
