"""An API key as it may be shown.

One line of the audit log: what an administrator did.

What holds for all of a project's evaluations: how suspected attacks are dealt with, and how long texts are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from app.domain.model import Finite, Value

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


Integrity = Literal["flag", "refuse", "judge-twice"]
"""What becomes of a dialogue that looks like an attack on the judge: it is judged and flagged; it is refused before
anybody is asked; or it is judged as it is and once more without the suspicious spans, and both are told."""

TextKeeping = Literal["keep", "hash", "drop"]
"""What becomes of texts in time: nothing; a keyed digest takes their place, so that equal ones are still known as such;
or nothing of them is left."""


class ProjectPolicy(Value):
    """`after_days` is how long texts are kept where they are not kept for good: from a single evaluation's making, or
    from the end of a batch."""

    integrity: Integrity = "flag"
    texts: TextKeeping = "keep"
    after_days: Annotated[Finite, Field(ge=0, le=36_500)] = 30.0


DEFAULT_POLICY = ProjectPolicy()
