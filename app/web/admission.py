"""Who may come in: by a key, or from this machine while there are no keys."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request

from app.domain.errors import StoreError
from app.domain.governance import ANONYMOUS, APIKey
from app.storage.sql.keys import APIKeyStore
from app.web.problems import RequestRefused

LOOPBACK = frozenset({"127.0.0.1", "::1", "::ffff:127.0.0.1"})
LOCAL = LOOPBACK | {"localhost"}
ADDRESS = re.compile(r"\[[0-9A-Fa-f:.]+\]|\d+\.\d+\.\d+\.\d+")

SESSION_COOKIE = "saiten_session"
"""Holds the token of a visitor's session on the dashboard; no script can read it."""


class Credential(NamedTuple):
    """What a visitor shows: an API key, or the token of a session."""

    text: str
    is_session: bool = False


@dataclass(frozen=True)
class Admitted:
    """The visitor's project, and what may be done there; `key` is None for those who need none."""

    project: str
    scope: str
    key: APIKey | None = None
    name: str = ANONYMOUS

    @property
    def actor(self) -> str:
        """What the audit log calls the visitor."""
        return self.name if self.key is None else self.key.id


class Authenticator:
    """Looks keys up. `allow_anonymous` lets everybody in from anywhere while there are no keys."""

    def __init__(self, keyring: Callable[[], APIKeyStore], *, allow_anonymous: bool) -> None:
        self._keyring = keyring
        self._allow_anonymous = allow_anonymous
        self._only: tuple[str, Admitted] | None = None

    def take_only(self, key: str, actor: str) -> None:
        """From now on this key lets `actor` do everything in the project of calls without a key, and no other key is
        taken: for a private service, which serves the process that started it."""
        self._only = (key, Admitted("default", "admin", name=actor))

    async def admit(self, request: Request, shown: Credential | None) -> Admitted:
        """Whoever shows a key or a session; raises Refused (401, 403), and the `Store…` errors."""
        if self._only is not None:
            only, caller = self._only
            if shown is None or shown.is_session or not secrets.compare_digest(shown.text.encode(), only.encode()):
                raise RequestRefused(
                    401, "unauthorized", "A valid key is needed", "this service is another process's own"
                )
            return caller
        keyring = self._keyring()
        key = await find_key(keyring, shown)
        if key is not None:
            return Admitted(key.project, key.scope, key)
        if not await keyring.any():
            self._require_loopback(request)
            return Admitted("default", "admin")
        detail = "send Authorization: Bearer KEY with a key that `saiten keys create` made"
        raise RequestRefused(
            401, "unauthorized", "A valid key is needed", detail, {"WWW-Authenticate": 'Bearer realm="saiten"'}
        )

    async def holds(self, shown: Credential | None) -> bool:
        """Whether who was admitted with this would still be: not where the key was revoked or the session closed since,
        nor without either where there are keys by now. True while the store is out of reach, which must not end a
        stream of hours."""
        try:
            keyring = self._keyring()
            return await find_key(keyring, shown) is not None or not await keyring.any()
        except StoreError:
            return True

    def _require_loopback(self, request: Request) -> None:
        if self._allow_anonymous:
            return
        host = request.client.host if request.client else ""
        if host not in LOOPBACK:
            detail = "without keys the service answers only on loopback; make one with `saiten keys create`"
            raise RequestRefused(403, "loopback-only", "Not from here without a key", detail)
        # A page of another site in the user's own browser also comes from loopback: with its Origin, or under a name
        # of its own that leads here (DNS rebinding).
        if not is_local(request.headers.get("origin", "")) or is_public(request.headers.get("host", "")):
            detail = "without keys the service answers pages of this machine only; make a key with `saiten keys create`"
            raise RequestRefused(403, "loopback-only", "Not from this page without a key", detail)


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


async def find_key(keyring: APIKeyStore, shown: Credential | None) -> APIKey | None:
    """The good key that is shown, or that a session stands for. A session's token is no key, nor the other way."""
    if shown is None:
        return None
    return await (keyring.find_session(shown.text) if shown.is_session else keyring.find(shown.text))


def bearer_of(request: Request) -> Credential | None:
    """The key in the Authorization header."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    key = token.strip()
    return Credential(key) if scheme.lower() == "bearer" and key else None


def credential_of(request: Request) -> Credential | None:
    """What the request was admitted with, if anything."""
    return bearer_of(request) or cookie_of(request)


def cookie_of(request: Request) -> Credential | None:
    """The session in the dashboard's cookie."""
    token = request.cookies.get(SESSION_COOKIE)
    return Credential(token, is_session=True) if token else None
