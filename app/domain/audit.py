"""One line of the audit log: what an administrator did."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from app.domain.model import Value

ANONYMOUS = "anonymous"
"""Who acts where nobody had to say who they are."""


class AuditEvent(Value):
    """Who (`actor`: a key's id, `cli:` and the user's name, or `anonymous`) did what to what in which project.

    `detail` holds Saiten's own words and numbers, never a dialogue's text or a key. `number` grows, and is 0 before the
    event is kept.
    """

    at: Annotated[datetime, Field(strict=False)]
    project: str
    actor: str
    action: str
    target: str
    detail: dict[str, Any] = Field(default_factory=dict)
    number: int = 0
