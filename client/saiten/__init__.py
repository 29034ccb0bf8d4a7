"""Saiten's client: asks a running service over HTTP, or a private one that it starts.

async with saiten.AsyncClient("https://…", api_key="…") as client:
    result = await client.evaluate({"context": […], "response": "…"})
"""

from __future__ import annotations

from saiten.client import AsyncClient
from saiten.errors import (
    AnswerInvalid,
    PrivateServiceFailed,
    SaitenError,
    ServiceRefused,
    ServiceUnreachable,
    SignatureMismatch,
)

__all__ = [
    "AnswerInvalid",
    "AsyncClient",
    "PrivateServiceFailed",
    "SaitenError",
    "ServiceRefused",
    "ServiceUnreachable",
    "SignatureMismatch",
]
