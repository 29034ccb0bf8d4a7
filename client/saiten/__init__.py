"""Saiten's client: calls a running service over HTTP, or a private one that it starts.

client = saiten.Client("https://…", api_key="…")
result = client.evaluate(context=["…"], response="…")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from saiten.core.errors import (
    AnswerInvalid,
    BatchStopped,
    InputUnusable,
    PrivateServiceFailed,
    SaitenError,
    ServerMissing,
    ServiceRefused,
    ServiceUnreachable,
    SignatureMismatch,
)

if TYPE_CHECKING:
    from saiten.client import AsyncClient, Client, Run
    from saiten.connection import Connection
    from saiten.rules import Rule
    from saiten.run import AsyncRun

__version__ = "0.1.0"

__all__ = [
    "AnswerInvalid",
    "AsyncClient",
    "AsyncRun",
    "BatchStopped",
    "Client",
    "Connection",
    "InputUnusable",
    "PrivateServiceFailed",
    "Rule",
    "Run",
    "SaitenError",
    "ServerMissing",
    "ServiceRefused",
    "ServiceUnreachable",
    "SignatureMismatch",
    "__version__",
]

LAZY = {
    "AsyncClient": "saiten.client",
    "AsyncRun": "saiten.run",
    "Client": "saiten.client",
    "Connection": "saiten.connection",
    "Rule": "saiten.rules",
    "Run": "saiten.client",
}
"""Imported when they are used: httpx and pydantic take a while, and `saiten --help` needs only the errors."""


def __getattr__(name: str) -> Any:
    if name not in LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(LAZY[name]), name)
