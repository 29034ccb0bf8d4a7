"""The HTTP client under the SDK: it follows no redirect, and reads no more of a reply than a verdict can have."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import openai

from app.adapters.openai.errors import ReplyTooLarge

TRANSFER_HEADERS = ("content-encoding", "content-length", "transfer-encoding")
"""What is true of a reply on its way, and not of its decoded body."""


class BoundedClient(openai.DefaultAsyncHttpxClient):
    """The SDK's own kind of client. `largest_reply_bytes` bounds every body, an error's too, as decoded.

    A small compressed body can hold gigabytes, so it is counted piece by piece while it is decoded.
    """

    def __init__(self, *, largest_reply_bytes: int, **settings: Any) -> None:
        super().__init__(**settings, follow_redirects=False)
        self._largest_reply_bytes = largest_reply_bytes

    async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        """As the base class does it. Raises ReplyTooLarge, having read no further and closed the connection."""
        response = await super().send(request, stream=True, **options)
        if stream:
            return response
        try:
            content = await self._read(response)
        finally:
            await response.aclose()
        headers = response.headers.copy()
        for name in TRANSFER_HEADERS:
            headers.pop(name, None)
        # Not imported: which package it is from is the SDK's affair.
        return type(response)(response.status_code, headers=headers, content=content, request=response.request)

    async def _read(self, response: Any) -> bytes:
        content = bytearray()
        async with aclosing(response.aiter_bytes()) as pieces:
            async for piece in pieces:
                content += piece
                if len(content) > self._largest_reply_bytes:
                    raise ReplyTooLarge(f"the reply has more than {self._largest_reply_bytes} bytes")
        return bytes(content)
