"""Who may come in: by a key, or from this machine while there are no keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request

from app.domain.errors import StoreError
from app.governance.acting import ANONYMOUS
from app.ports import APIKey, Keyring
from app.web.problems import Refused

LOOPBACK = frozenset({"127.0.0.1", "::1", "::ffff:127.0.0.1"})
LOCAL = LOOPBACK | {"localhost"}
ADDRESS = re.compile(r"\[[0-9A-Fa-f:.]+\]|\d+\.\d+\.\d+\.\d+")

SESSION_COOKIE = "saiten_key"
"""Holds the key of a visitor of the dashboard; no script can read it."""


@dataclass(frozen=True)
class Admitted:
    """The visitor's project, and what may be done there; `key` is None for those who need none."""

    project: str
    scope: str
    key: APIKey | None = None

    @property
    def actor(self) -> str:
        """What the audit log calls the visitor."""
        return ANONYMOUS if self.key is None else self.key.id


class Admission:
    """Looks keys up. `allow_anonymous` lets everybody in from anywhere while there are no keys."""

    def __init__(self, keyring: Callable[[], Keyring], *, allow_anonymous: bool) -> None:
        self._keyring = keyring
        self._allow_anonymous = allow_anonymous

    async def admit(self, request: Request, token: str | None) -> Admitted:
        """Whoever brings the key; raises Refused (401, 403), and the `Store…` errors."""
        keyring = self._keyring()
        if token:
            key = await keyring.find(token)
            if key is not None:
                return Admitted(key.project, key.scope, key)
        if not await keyring.any():
            self._require_loopback(request)
            return Admitted("default", "admin")
        detail = "send Authorization: Bearer KEY with a key that `saiten keys create` made"
        raise Refused(
            401, "unauthorized", "A valid key is needed", detail, {"WWW-Authenticate": 'Bearer realm="saiten"'}
        )

    async def holds(self, token: str | None) -> bool:
        """Whether who was admitted with this token would still be: not where its key was revoked since, nor without one
        where there are keys by now. True while the store is out of reach, which must not end a stream of hours."""
        try:
            keyring = self._keyring()
            return bool(token and await keyring.find(token)) or not await keyring.any()
        except StoreError:
            return True

    def _require_loopback(self, request: Request) -> None:
        if self._allow_anonymous:
            return
        host = request.client.host if request.client else ""
        if host not in LOOPBACK:
            detail = "without keys the service answers only on loopback; make one with `saiten keys create`"
            raise Refused(403, "loopback-only", "Not from here without a key", detail)
        # A page of another site in the user's own browser also comes from loopback: with its Origin, or under a name
        # of its own that leads here (DNS rebinding).
        if not is_local(request.headers.get("origin", "")) or is_public(request.headers.get("host", "")):
            detail = "without keys the service answers pages of this machine only; make a key with `saiten keys create`"
            raise Refused(403, "loopback-only", "Not from this page without a key", detail)


def is_local(origin: str) -> bool:
    """Whether an `Origin` header names this machine; true without one. A page that hides its site sends `null`."""
    try:
        return not origin or urlsplit(origin).hostname in LOCAL
    except ValueError:  # what no browser sends
        return False


def is_public(host: str) -> bool:
    """Whether a `Host` header names what somebody may have registered: neither an address nor a single word, and not
    below localhost."""
    name = host.rpartition(":")[0] or host
    return "." in name and not name.endswith(".localhost") and not ADDRESS.fullmatch(name)


def bearer_of(request: Request) -> str | None:
    """The key in the Authorization header."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token else None


def token_of(request: Request) -> str | None:
    """The key that the request was admitted with, if it was by one."""
    return bearer_of(request) or cookie_of(request)


def cookie_of(request: Request) -> str | None:
    """The key in the dashboard's cookie."""
    return request.cookies.get(SESSION_COOKIE) or None
