"""The HTTP client under the SDK: it follows no redirect, and reads no more of a reply than a verdict can have."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import aiohttp
import httpx2
import openai

from app.adapters.openai.errors import ReplyTooLarge

TRANSFER_HEADERS = ("content-encoding", "content-length", "transfer-encoding")
"""What is true of a reply on its way, and not of its decoded body."""
LIMITS = httpx2.Limits(max_connections=0, keepalive_expiry=4.0)
"""0 is aiohttp's word for no limit: flow control bounds the calls. Many servers close an idle connection after 5 s, and
a call that meets one as it is being closed is lost."""


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
        content = bytearray()
        async with aclosing(response.aiter_bytes()) as pieces:
            async for piece in pieces:
                content += piece
                if len(content) > self._largest_reply_bytes:
                    raise ReplyTooLarge(f"the reply has more than {self._largest_reply_bytes} bytes")
        return bytes(content)
