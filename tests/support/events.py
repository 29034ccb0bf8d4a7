"""Server-sent events, as a browser reads them."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx

Event = tuple[str, dict[str, Any]]


def read_event(block: str) -> Event:
    """Name and data of one event; a comment has the name ':'."""
    fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
    return fields.get("event", ":"), json.loads(fields.get("data", "{}"))


async def read_events(response: httpx.Response) -> AsyncIterator[Event]:
    rest = ""
    async for text in response.aiter_text():
        *blocks, rest = (rest + text).split("\n\n")
        for block in blocks:
            yield read_event(block)
