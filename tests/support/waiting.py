"""How tests wait for what is to happen."""

import asyncio
import re
from typing import Any

import httpx

LIMIT_SECONDS = 240.0
"""What takes longer does not come, on whatever machine: one that is busy may be twenty times as slow as one at rest."""

COMPUTING = re.compile(r'class="(?:[^"]* )?computing[ "]')


async def read_computed(
    client: httpx.AsyncClient, path: str, params: dict[str, Any] | None = None, /, **headers: str
) -> str:
    """The page's HTML once nothing on it is being drawn or computed any more."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while True:
            page = await client.get(path, params=params, headers={"Accept": "text/html", **headers})
            assert page.status_code == 200, page.text
            if not COMPUTING.search(page.text):
                return page.text
            await asyncio.sleep(0.02)
