"""API keys as they may be shown, events of the audit log, and the policies of a project."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from saiten_server.core.model import Finite, Value

Scope = Literal["read", "write", "admin", "ingest"]
"""What a key may do: read; also write; also administer; or only send traces, and read nothing."""


@dataclass(frozen=True)
class APIKey:
    """A key as it may be shown, never the secret itself. `revoked_at` is None while it is valid. `requests_per_minute`
    and `usd_per_day` (UTC days) are None if the service's own limits apply."""

    id: str
    name: str
    project: str
    scope: Scope
    created_at: datetime
    revoked_at: datetime | None
    requests_per_minute: int | None = None
    usd_per_day: float | None = None


ANONYMOUS = "anonymous"
"""The actor where no authentication is required."""


class AuditEvent(Value):
    """Who (`actor`: a key's id, `cli:` and the user's name, or `anonymous`) did what to what in which project.

    `detail` holds Saiten's own words and numbers, never a dialogue's text or a key. `number` increases, and is 0 before
    the event is stored.
    """

    at: Annotated[datetime, Field(strict=False)]
    project: str
    actor: str
    action: str
    target: str
    detail: dict[str, Any] = Field(default_factory=dict)
    number: int = 0


Integrity = Literal["flag", "refuse", "judge-twice"]
"""How a dialogue that looks like an attack on the judge is treated: judged and flagged; refused before any judge call;
or judged twice, with and without the suspicious spans, and both reported."""

TextKeeping = Literal["keep", "hash", "drop"]
"""What happens to texts after a while: they are kept; replaced by a keyed digest, so that equal texts stay equal; or
dropped."""


class ProjectPolicy(Value):
    """The policy of a project. `after_days` is how long texts are kept unless `texts` is `keep`, counted from the
    creation of a single evaluation or the end of a batch."""

    integrity: Integrity = "flag"
    texts: TextKeeping = "keep"
    after_days: Annotated[Finite, Field(ge=0, le=36_500)] = 30.0


DEFAULT_POLICY = ProjectPolicy()
