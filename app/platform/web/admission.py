"""Authentication: by API key or session, or from this machine while there are no keys."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request

from saiten.core.messages import Message
from saiten_server.core.access import ANONYMOUS, APIKey
from saiten_server.core.errors import StoreError
from saiten_server.platform.web.problems import RequestRefused

if TYPE_CHECKING:
    from saiten_server.governance.keys import APIKeyStore

LOOPBACK = frozenset({"127.0.0.1", "::1", "::ffff:127.0.0.1"})
LOCAL = LOOPBACK | {"localhost"}
ADDRESS = re.compile(r"\[[0-9A-Fa-f:.]+\]|\d+\.\d+\.\d+\.\d+")

SESSION_COOKIE = "saiten_session"
"""Holds the token of a visitor's session on the dashboard; no script can read it."""


INVITED_COOKIE = "saiten_invited"
"""Holds the secret of a rater's invitation, which ends when the cookie does, and opens no more than the link itself."""


class Credential(NamedTuple):
    """What a caller presents: an API key, or the token of a session."""

    text: str
    is_session: bool = False


@dataclass(frozen=True)
class Admitted:
    """An authenticated caller: the project and the scope; `key` is None for callers without a key."""

    project: str
    scope: str
    key: APIKey | None = None
    name: str = ANONYMOUS

    @property
    def actor(self) -> str:
        """The caller's name in the audit log."""
        return self.name if self.key is None else self.key.id


class Authenticator:
    """Authenticates callers. Without any keys, `allow_anonymous` admits everyone who shows none, from any machine, but
    no page of another site. `host_names` are names of the service beside those that no other site can have."""

    def __init__(
        self, key_store: Callable[[], APIKeyStore], *, allow_anonymous: bool, host_names: Collection[str] = ()
    ) -> None:
        self._key_store = key_store
        self._allow_anonymous = allow_anonymous
        self._host_names = frozenset(host_names)
        self._only: tuple[str, Admitted] | None = None

    def take_only(self, key: str, actor: str) -> None:
        """Accepts only this key, and gives `actor` every right in the default project: for a private service, which
        serves the process that started it."""
        self._only = (key, Admitted("default", "admin", name=actor))

    async def admit(self, request: Request, shown: Credential | None) -> Admitted:
        """The caller with this credential. Raises RequestRefused (401, 403) and StoreError. An invited rater, who shows
        no other credential, is refused whatever else this service may answer to such callers."""
        if shown is None and INVITED_COOKIE in request.cookies:
            raise RequestRefused(403, "insufficient-scope", Message("invited-only-to-rate"))
        if self._only is not None:
            only, caller = self._only
            if shown is None or shown.is_session or not secrets.compare_digest(shown.text.encode(), only.encode()):
                raise RequestRefused(401, "unauthorized", Message("service-of-other-process"))
            return caller
        key_store = self._key_store()
        key = await find_key(key_store, shown)
        if key is not None:
            return Admitted(key.project, key.scope, key)
        if not is_key(shown) and not await key_store.any():
            self._require_near(request)
            return Admitted("default", "admin")
        detail = Message("key-missing")
        if is_key(shown):
            detail = Message("key-unknown")
        raise RequestRefused(401, "unauthorized", detail, {"WWW-Authenticate": 'Bearer realm="saiten"'})

    async def holds(self, shown: Credential | None) -> bool:
        """Whether the credential is still valid: not if its key was revoked or its session closed, or if it is None and
        keys exist by now. True while the store is unavailable, so that an outage does not end long streams."""
        try:
            key_store = self._key_store()
            if await find_key(key_store, shown) is not None:
                return True
            return not is_key(shown) and not await key_store.any()
        except StoreError:
            return True

    def _require_near(self, request: Request) -> None:
        """Refuses callers from other machines, unless they are admitted, and pages of other sites. Such a page is in
        the browser of somebody who reaches the service: it shows in its Origin, or it has a host name that resolves to
        the service's address (DNS rebinding)."""
        host = request.client.host if request.client else ""
        if host not in LOOPBACK and not self._allow_anonymous:
            detail = Message("key-needed-beyond-loopback")
            raise RequestRefused(403, "loopback-only", detail)
        named = request.headers.get("host", "").lower()
        name = PORT.sub("", named)
        if not (is_unregistered(name) or name in self._host_names):
            detail = Message("key-needed-for-host")
            raise RequestRefused(403, "loopback-only", detail)
        origin = request.headers.get("origin", "")
        if origin and not (is_local(origin) or origin.lower().partition("://")[2] == named):
            detail = Message("key-needed-for-origin")
            raise RequestRefused(403, "loopback-only", detail)


PORT = re.compile(r":[0-9]*$")


def is_unregistered(name: str) -> bool:
    """Whether no one can register the host name: it is an address, a single label, or below localhost."""
    return "." not in name or name.endswith(".localhost") or ADDRESS.fullmatch(name) is not None


def is_local(origin: str) -> bool:
    """Whether an `Origin` header names this machine. A page with an opaque origin sends `null`."""
    try:
        return urlsplit(origin).hostname in LOCAL
    except ValueError:  # no browser sends this
        return False


async def find_key(key_store: APIKeyStore, shown: Credential | None) -> APIKey | None:
    """The valid key that is presented, or that the session belongs to. A session's token is not accepted as a key."""
    if shown is None:
        return None
    return await (key_store.find_session(shown.text) if shown.is_session else key_store.find(shown.text))


def bearer_of(request: Request) -> Credential | None:
    """The key in the Authorization header."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    key = token.strip()
    return Credential(key) if scheme.lower() == "bearer" and key else None


def is_key(shown: Credential | None) -> bool:
    """Whether a key is presented, valid or not: a wrong one is refused even while there are no keys, since its owner
    believes to be in the key's project. A session outlives the keys that were removed, as when a database is replaced.
    """
    return shown is not None and not shown.is_session


def credential_of(request: Request) -> Credential | None:
    """What the request was admitted with, if anything."""
    return bearer_of(request) or cookie_of(request)


def cookie_of(request: Request) -> Credential | None:
    """The session in the dashboard's cookie."""
    token = request.cookies.get(SESSION_COOKIE)
    return Credential(token, is_session=True) if token else None
