"""An API key as it may be shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Scope = Literal["read", "write", "admin"]


@dataclass(frozen=True)
class APIKey:
    """A key as it may be shown: never the key itself. `revoked_at` is None while it is good.

    `requests_per_minute` and `usd_per_day` (UTC days) are None where the service's own limits hold.
    """

    id: str
    name: str
    project: str
    scope: Scope
    created_at: datetime
    revoked_at: datetime | None
    requests_per_minute: int | None = None
    usd_per_day: float | None = None
