"""Middleware for every request: request id, security headers, log record, authentication and strict framing."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as Sent

from saiten.core.messages import Message
from saiten_server.core.access import APIKey
from saiten_server.core.errors import NotFound, SaitenError
from saiten_server.platform.request_limits import count_request, describe_rate_limit
from saiten_server.platform.telemetry import METHODS, AnswerBrokenOff, Telemetry, working_on
from saiten_server.platform.web.admission import Authenticator, bearer_of, cookie_of
from saiten_server.platform.web.dependencies import note_refusal
from saiten_server.platform.web.otlp import EXPORTS
from saiten_server.platform.web.problems import RequestRefused, answer_error, find_status

logger = logging.getLogger("saiten.web")

REQUEST_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
READING_POSTS = (
    "/v1/estimates",
    "/v1/preference-runs/estimates",
    "/v1/comparisons",
    "/v1/gates",
    "/v1/analyses/",
    "/v1/validations/",
)
"""POST routes that only read: the body holds the question."""

OWN_ID = re.compile(r"[a-z]{2,3}_[0-9a-f]{12,40}|[0-9]{1,12}")
"""Parts of a path that may be logged: ids that Saiten made, and positions."""

READING = frozenset({"GET", "HEAD"})
CONTROL = re.compile(r"[\x00-\x1f\x7f]")

UNMATCHED = "unmatched"
"""The route of a request that reached none: an unknown path, a file, or a request refused earlier (401, 429 …)."""

MOST_HEADER_BYTES = 32 * 1024
SAFE_HEADERS = {"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer"}
RawHeader = tuple[bytes, bytes]
RAW_SAFE_HEADERS: list[RawHeader] = [(name.lower().encode(), value.encode()) for name, value in SAFE_HEADERS.items()]


class RequestFrame:
    """The outermost layer: request id, headers, log record, metrics, and a problem document for unexpected errors."""

    def __init__(
        self, app: ASGIApp, telemetry: Callable[[], Telemetry], answer_defect: Callable[[Request], Response]
    ) -> None:
        self._app = app
        self._telemetry = telemetry
        self._answer_defect = answer_defect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, answered = time.monotonic(), 0
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if REQUEST_ID.fullmatch(given) else secrets.token_hex(12)
        scope.setdefault("state", {})["request_id"] = request_id

        async def frame(message: Sent) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = message["status"]
                message["headers"] = add_headers(message.get("headers", ()), request_id, describe_rate_limit(scope))
            await send(message)

        # RFC 9110: HEAD is answered like GET. Uvicorn omits the body, since it has read the method itself.
        inner = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        try:
            with working_on(request_id=request_id):
                await self._app(inner, receive, frame)
        except Exception as error:
            if answered:
                log_breaking_off(error, request_id)
                raise AnswerBrokenOff from error
            logger.exception("unexpected error", extra={"request_id": request_id})
            await self._answer_defect(Request(inner, receive))(scope, receive, frame)
        finally:
            # A method that HTTP does not define may be a text or a key, and is not logged.
            method = scope["method"] if scope["method"] in METHODS else "OTHER"
            about = {"request_id": request_id, "method": method, "path": path_of(inner), "status": answered}
            seconds = time.monotonic() - started
            logger.info("request", extra={**about, "seconds": round(seconds, 4)})
            self._telemetry().answered(route_of(inner), scope["method"], answered, seconds)


def log_breaking_off(error: Exception, request_id: str) -> None:
    """Says why an answer ends in its middle: in one line where the cause is one of Saiten's own errors, such as a batch
    that is erased while its results are read, which Starlette wraps since it cannot answer it any more."""
    cause = error.__cause__ if isinstance(error.__cause__, SaitenError) else error
    if isinstance(cause, SaitenError):
        find_status(cause)
        logger.info("answer broken off", extra={"request_id": request_id, "code": cause.code})
    else:
        logger.exception("unexpected error", extra={"request_id": request_id})


class Gatekeeper:
    """Refuses ambiguous framing and unauthorized callers before any body is read."""

    def __init__(self, app: ASGIApp, admission: Authenticator) -> None:
        self._app = app
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            refuse_framing(scope, request.headers)
            # The router's path: `request.url` is built from the Host header, which the caller controls.
            if scope["path"] == "/v1" or scope["path"].startswith("/v1/"):
                shown = bearer_of(request)
                if shown is None and request.method in READING:
                    # For the dashboard's downloads and events. Browsers send the cookie for other sites only when a
                    # page is opened, and routes that write require the header.
                    shown = cookie_of(request)
                admitted = await self._admission.admit(request, shown)
                scope.setdefault("state", {}).update(
                    project=admitted.project, scope=admitted.scope, actor=admitted.actor, key=admitted.key
                )
                await count_request(request, admitted.key)
                await require_right(request, admitted.key)
        except SaitenError as error:
            await answer_error(request, error)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def add_headers(given: Iterable[RawHeader], request_id: str, rate_limit: Mapping[str, str]) -> list[RawHeader]:
    """An answer's headers with the request id and the rate limit (replacing any of these names), and the security
    headers unless they are set. As bytes with lower-case names, since it runs for every answer."""
    own = [(name.lower().encode(), value.encode()) for name, value in rate_limit.items()]
    own.append((b"x-request-id", request_id.encode()))
    replaced = {name for name, _ in own}
    kept = [(name, value) for name, value in given if name not in replaced]
    names = {name for name, _ in kept}
    return [*kept, *own, *(header for header in RAW_SAFE_HEADERS if header[0] not in names)]


def route_of(scope: Scope) -> str:
    """The template of the matched route, such as `/v1/batches/{batch_id}`; never the path itself."""
    return str(getattr(scope.get("route"), "path", UNMATCHED))


def path_of(scope: Scope) -> str:
    """The route with Saiten's own ids filled in. Anything else in a path may be a text or a key, and is not logged."""
    path = route_of(scope)
    for name, value in scope.get("path_params", {}).items():
        if OWN_ID.fullmatch(str(value)):
            path = path.replace(f"{{{name}}}", str(value))
    return path


def refuse_framing(scope: Scope, headers: Headers) -> None:
    """Raises RequestRefused for headers that are too large (431), for a request of which a proxy and this server could
    disagree where it ends (RFC 9112, 6.1), and for another major version of HTTP, which uvicorn would read as 1.1
    (400). Raises NotFound for a path with a control character: the router's patterns match up to a trailing newline,
    so such a path could reach a route without being equal to it."""
    close = {"Connection": "close"}
    if sum(len(name) + len(value) for name, value in headers.raw) > MOST_HEADER_BYTES:
        detail = Message("header-bytes-most", maximum=MOST_HEADER_BYTES)
        raise RequestRefused(431, "headers-too-large", detail, close)
    lengths = headers.getlist("content-length")
    if (lengths and "transfer-encoding" in headers) or len(set(lengths)) > 1:
        detail = Message("length-ambiguous")
        raise RequestRefused(400, "ambiguous-framing", detail, close)
    if not scope["http_version"].startswith("1."):
        detail = Message("http-version")
        raise RequestRefused(400, "invalid-http", detail, close)
    if CONTROL.search(scope["path"]):
        raise NotFound(Message("path-control-character"))


async def require_right(request: Request, key: APIKey | None) -> None:
    """Raises RequestRefused (403) if a read-only key would write, or a key that may only send does anything else; the
    audit log records administrative attempts."""
    method, path = request.method, request.scope["path"]
    if key is not None and key.scope == "ingest" and (method != "POST" or path not in EXPORTS):
        logger.warning("a key that may only send tried something else", extra={"code": "insufficient-scope"})
        await note_refusal(request)
        raise RequestRefused(403, "insufficient-scope", Message("ingest-key-sends"))
    reads = method in {"GET", "HEAD", "OPTIONS"} or (method == "POST" and path.startswith(READING_POSTS))
    if key is not None and key.scope == "read" and not reads:
        logger.warning("a read-only key tried to write", extra={"code": "insufficient-scope"})
        await note_refusal(request)
        detail = Message("ingest-key-needed" if path in EXPORTS else "write-key-needed")
        raise RequestRefused(403, "insufficient-scope", detail)
