"""What holds for every request: an id in and out, safe headers, no smuggling, one log record, no stack trace."""

from __future__ import annotations

import logging
import re
import secrets
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.domain.errors import SaitenError
from app.log_context import working_on
from app.ports import APIKey
from app.web.admission import Admission, Admitted, bearer_of, cookie_of
from app.web.dashboard.errors import show_status, wants_page
from app.web.problems import Refused, answer_error, problem

logger = logging.getLogger("saiten.web")

REQUEST_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
ASKING = ("/v1/estimates", "/v1/comparisons", "/v1/gates", "/v1/analyses/")
"""POST that reads: the body holds the question."""

READING = frozenset({"GET", "HEAD"})
MOST_HEADER_BYTES = 32 * 1024
SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}


class RequestFrame:
    """The outermost layer: request id, headers, log record, and a problem document for what nobody expected."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, answered = time.monotonic(), 0
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if REQUEST_ID.fullmatch(given) else secrets.token_hex(12)
        scope.setdefault("state", {})["request_id"] = request_id

        async def frame(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                for name, value in SAFE_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        # RFC 9110: whatever answers GET answers HEAD. Uvicorn leaves the body out by the method that it read itself.
        inner = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        try:
            with working_on(request_id=request_id):
                await self._app(inner, receive, frame)
        except Exception:
            logger.exception("unexpected error", extra={"request_id": request_id})
            if answered:
                raise
            if wants_page(request := Request(inner, receive)):
                await show_status(request, 500, "", [], {})(scope, receive, frame)
                return
            title, detail = "Something went wrong inside Saiten", "the log has a record with this X-Request-Id"
            response = problem(500, "internal-error", title, detail, instance=scope["path"])
            await response(scope, receive, frame)
        finally:
            about = {"request_id": request_id, "method": scope["method"], "path": scope["path"], "status": answered}
            logger.info("request", extra={**about, "seconds": round(time.monotonic() - started, 4)})


class Gatekeeper:
    """Refuses ambiguous framing and callers without a right, before any body is read."""

    def __init__(self, app: ASGIApp, admission: Admission) -> None:
        self._app = app
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            refuse_large(request.headers)
            refuse_smuggling(request.headers)
            # The router's own path: `request.url` is put together from the Host header, which the caller writes.
            if scope["path"] == "/v1" or scope["path"].startswith("/v1/"):
                admitted = await self._admit(request)
                scope.setdefault("state", {}).update(project=admitted.project, scope=admitted.scope)
        except SaitenError as error:
            await answer_error(request, error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _admit(self, request: Request) -> Admitted:
        """The caller, who may do what the request asks for."""
        token = bearer_of(request)
        if token is None and request.method in READING:
            # The dashboard's own downloads and events. No other site can have a browser send the cookie along with
            # anything but a page that is opened, and what writes wants the header.
            token = cookie_of(request)
        admitted = await self._admission.admit(request, token)
        if admitted.key is not None:
            require_scope(admitted.key, request.method, scope_path(request))
        return admitted


def refuse_large(headers: Headers) -> None:
    """Raises Refused (431) where the header block is larger than anybody needs."""
    if sum(len(name) + len(value) for name, value in headers.raw) > MOST_HEADER_BYTES:
        detail = f"the header block may have at most {MOST_HEADER_BYTES} bytes"
        raise Refused(431, "headers-too-large", "The headers are too large", detail, {"Connection": "close"})


def refuse_smuggling(headers: Headers) -> None:
    """Raises Refused (400) where a proxy and this server could disagree about where a request ends (RFC 9112, 6.1)."""
    lengths = headers.getlist("content-length")
    if (lengths and "transfer-encoding" in headers) or len(set(lengths)) > 1:
        detail = "send either Content-Length or Transfer-Encoding, once"
        raise Refused(400, "ambiguous-framing", "The request's length is ambiguous", detail, {"Connection": "close"})


def scope_path(request: Request) -> str:
    """The path as the router sees it."""
    path: str = request.scope["path"]
    return path


def require_scope(key: APIKey, method: str, path: str) -> None:
    """Raises Refused (403) where the key may only read and the request would write."""
    reads = method in {"GET", "HEAD", "OPTIONS"} or (method == "POST" and path.startswith(ASKING))
    if key.scope == "read" and not reads:
        logger.warning("a read-only key tried to write", extra={"code": "insufficient-scope", "method": method})
        detail = "this key may only read; make one with `saiten keys create --scope write`"
        raise Refused(403, "insufficient-scope", "The key's scope does not allow this", detail)
