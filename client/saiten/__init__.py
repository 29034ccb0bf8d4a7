"""Saiten's client: calls a running service over HTTP, or a private one that it starts.

async with saiten.AsyncClient("https://…", api_key="…") as client:
    result = await client.evaluate({"context": […], "response": "…"})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saiten.errors import (
    AnswerInvalid,
    PrivateServiceFailed,
    SaitenError,
    ServerMissing,
    ServiceRefused,
    ServiceUnreachable,
    SignatureMismatch,
)

if TYPE_CHECKING:
    from saiten.client import AsyncClient

__version__ = "0.1.0"

__all__ = [
    "AnswerInvalid",
    "AsyncClient",
    "PrivateServiceFailed",
    "SaitenError",
    "ServerMissing",
    "ServiceRefused",
    "ServiceUnreachable",
    "SignatureMismatch",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """The client is imported when it is used: httpx takes a while, and `saiten --help` needs only the errors."""
    if name == "AsyncClient":
        from saiten.client import AsyncClient

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
