"""The dashboard's own style, scripts and icon, under addresses that change with their content."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Request, Response

from app.domain.errors import NotFound

router = APIRouter(prefix="/assets", include_in_schema=False)

TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
FOREVER = "public, max-age=31536000, immutable"


@cache
def read_assets() -> dict[str, bytes]:
    """All files, by name."""
    folder = files(__package__) / "static"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name.rpartition(".")[2] in TYPES}


@cache
def address(name: str) -> str:
    """The file's address, which changes with its content, so browsers may cache it forever."""
    return f"/assets/{digest(name)}/{name}"


def digest(name: str) -> str:
    """The digest of the file's content."""
    return hashlib.sha256(read_assets()[name]).hexdigest()[:12]


@router.get("/{version}/{name}")
async def read_asset(request: Request, version: str, name: str) -> Response:
    """The file, cacheable forever only under its current address."""
    found = read_assets().get(name)
    if found is None:
        raise NotFound("there is no such file")
    caching = FOREVER if version == digest(name) else "no-cache"
    return Response(found, headers={"Cache-Control": caching}, media_type=TYPES[name.rpartition(".")[2]])
