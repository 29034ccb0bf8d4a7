"""Maps each exception to its status, in one table, and to an RFC 9457 problem document."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from saiten.core.messages import DEFAULT_LANGUAGE, Message
from saiten_server.core import errors
from saiten_server.core.errors import MOST_FAULTS, InvalidLines, InvalidRequest, SaitenError, UpstreamError, at_place
from saiten_server.core.model import pointer
from saiten_server.core.validation import InvalidDocument, describe_fault
from saiten_server.platform.web.language import preferred_language
from saiten_server.platform.web.otlp import answer_status, is_export

logger = logging.getLogger("saiten.web")

HTTP_STATUSES: Mapping[type[SaitenError], int] = {
    errors.InvalidRequest: 422,
    InvalidDocument: 422,
    InvalidLines: 422,
    errors.UnknownRubric: 422,
    errors.RubricRequired: 422,
    errors.UnknownAspect: 422,
    errors.RubricNotSupported: 422,
    errors.RubricUnitMismatch: 422,
    errors.LanguageNotSupported: 422,
    errors.BaselineNotSupported: 422,
    errors.PriceUnknown: 422,
    errors.SuspectedInjection: 422,
    errors.TooMuchWork: 422,
    errors.TextsErased: 409,
    errors.RunsUnfit: 409,
    errors.NotFound: 404,
    errors.IdempotencyKeyReused: 422,
    errors.IdempotencyKeyInUse: 409,
    errors.BatchFinished: 409,
    errors.LimitReached: 429,
    errors.RequestLimitReached: 429,
    errors.CostLimitReached: 429,
    errors.QueueLimitReached: 429,
    errors.StreamLimitReached: 429,
    errors.Overloaded: 503,
    errors.SignatureMismatch: 409,
    errors.RubricInvalid: 500,
    errors.SettingsInvalid: 500,
    errors.UpstreamError: 502,
    errors.JudgeUnavailable: 503,
    errors.JudgeQuotaExhausted: 503,
    errors.JudgeUnauthorized: 503,
    errors.JudgeRefusedRequest: 502,
    errors.JudgeReplyInvalid: 502,
    errors.ProviderBatchUnanswered: 502,
    errors.TranslatorUnavailable: 503,
    errors.TranslatorQuotaExhausted: 503,
    errors.TranslatorUnauthorized: 503,
    errors.TranslatorRefusedRequest: 502,
    # Trying again does not help: this service does not offer the English path.
    errors.TranslatorNotConfigured: 422,
    errors.StoreError: 500,
    errors.StoreUnavailable: 503,
    errors.StoreFull: 507,
    errors.ProjectFull: 507,
    errors.SaitenError: 500,
}
"""A test checks that every class that can be raised has an entry of its own or of a base below SaitenError."""

REFUSAL_CODES = frozenset(
    {
        "ambiguous-framing",
        "body-timeout",
        "body-too-large",
        "cross-site-form",
        "headers-too-large",
        "insufficient-scope",
        "invalid-body",
        "invalid-http",
        "invalid-idempotency-key",
        "invalid-json",
        "loopback-only",
        "stopping",
        "unauthorized",
        "unsupported-media-type",
    }
)
"""The codes of requests that are refused before any service is called."""

PROBLEM_CODES = frozenset({kind.code for kind in HTTP_STATUSES} | REFUSAL_CODES | {"method-not-allowed"})
"""Every code; `title_messages.toml` has the title of each, under `title-CODE`."""

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
MOST_INSTANCE_CHARACTERS = 200
USUAL_RETRY_SECONDS = 10.0
"""`Retry-After` of a 503 whose cause names no time."""

ExtraHeaders = Mapping[str, str] | None


class RequestRefused(InvalidRequest):
    """A request that is refused before any service is called, with its own status (400, 401, 413, 415 …) and a code of
    `REFUSAL_CODES`."""

    def __init__(self, status: int, code: str, message: Message, headers: ExtraHeaders = None) -> None:
        super().__init__(message)
        self.status, self.code = status, code
        self.headers = dict(headers or {})


def problem(
    status: int,
    code: str,
    message: Message,
    *,
    instance: str,
    language: str = DEFAULT_LANGUAGE,
    headers: ExtraHeaders = None,
    **more: Any,
) -> Response:
    """A problem document with title and detail in the language. Texts are truncated, so that a caller's text is never
    echoed at length."""
    body = {
        "type": f"urn:saiten:problem:{code}",
        "title": title_of(code).say(language),
        "status": status,
        "detail": clip(message.say(language), 2 * MOST_INSTANCE_CHARACTERS),
        "instance": clip(instance, MOST_INSTANCE_CHARACTERS),
        "code": code,
        "message": message.id,
        "values": clip_values(message.as_json()),
        **more,
    }
    headers = {**(headers or {}), "Content-Language": language, "Vary": "Accept-Language"}
    return Response(json.dumps(body, ensure_ascii=False), status, headers, "application/problem+json")


def refuse(
    request: Request, status: int, code: str, message: Message, headers: ExtraHeaders = None, **more: Any
) -> Response:
    """What a request is refused with: a problem document, or to an exporter what OTLP says."""
    language = language_of(request)
    if is_export(request):
        text = f"{code}: {clip(message.say(language), 2 * MOST_INSTANCE_CHARACTERS)}"
        return answer_status(request, status, text, headers or {})
    path = request.scope["path"]
    return problem(status, code, message, instance=path, language=language, headers=headers, **more)


def title_of(code: str) -> Message:
    """The title of a problem's code."""
    return (
        Message(f"title-{code}")
        if code in PROBLEM_CODES
        else Message("verbatim", text=code.replace("-", " ").capitalize())
    )


def clip_values(value: Any) -> Any:
    """A message's values as JSON, with each text truncated."""
    if isinstance(value, dict):
        return {name: clip_values(part) for name, part in value.items()}
    if isinstance(value, list):
        return [clip_values(part) for part in value]
    return clip(value) if isinstance(value, str) else value


def language_of(request: Request) -> str:
    """The language that the caller prefers among those of Saiten."""
    return preferred_language(request)


def clip(text: str, maximum: int = MOST_INSTANCE_CHARACTERS) -> str:
    """At most `maximum` characters, with control characters and lone surrogates escaped."""
    shown = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text[: maximum + 1])
    return shown if len(shown) <= maximum else shown[: maximum - 1] + "…"


def answer_error(request: Request, error: Exception) -> Response:
    """The problem document of any error in the tree."""
    if not isinstance(error, SaitenError):
        raise error
    status, language = find_status(error), language_of(request)
    more: dict[str, Any] = {}
    if faults := faults_of(error):
        more["errors"] = [show_fault(where, what, language) for where, what in faults[:MOST_FAULTS]]
    if isinstance(error, InvalidDocument | InvalidLines) and error.total > len(faults):
        more["total"] = error.total
    if isinstance(error, errors.SignatureMismatch):
        more = {"pieces": {name: [clip(value) for value in pair] for name, pair in error.pieces.items()}}
    return refuse(request, status, error.code, error.message, headers_of(error, status), **more)


def show_fault(where: str, what: Message, language: str) -> dict[str, Any]:
    """One of a problem's `errors`."""
    return {
        "pointer": clip(where),
        "detail": clip(what.say(language)),
        "code": what.id,
        "values": clip_values(what.as_json()),
    }


def find_status(error: SaitenError) -> int:
    """The status of an error; one that is the service's fault is logged."""
    status = error.status if isinstance(error, RequestRefused) else status_of(type(error))
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        logger.warning("%s: %s", error.code, error.loggable, extra={"code": error.code, "status": status})
    return status


def status_of(kind: type[Exception]) -> int:
    """The status of an error class, or of its nearest base class."""
    return next(HTTP_STATUSES[each] for each in kind.__mro__ if each in HTTP_STATUSES)


def faults_of(error: SaitenError) -> Sequence[tuple[str, Message]]:
    """The faults that an error names, each with its pointer."""
    if isinstance(error, InvalidDocument):
        return error.faults
    if isinstance(error, errors.SuspectedInjection | errors.RubricRequired) and error.faults:
        return error.faults
    if isinstance(error, InvalidLines):
        # Records are in the field `data` of a document; lines are the body itself.
        root = "/data" if error.noun == "record" else ""
        return [(f"{root}/{number - 1}", at_place(error.noun, number, what)) for number, what in error.faults]
    return [(error.pointer, error.message)] if error.pointer is not None else []


def headers_of(error: SaitenError, status: int) -> dict[str, str]:
    """`Retry-After` for errors that may be temporary, and the headers of a refusal."""
    if isinstance(error, RequestRefused):
        return error.headers
    if isinstance(error, errors.LimitReached):
        return {"Retry-After": str(max(1, math.ceil(error.retry_after_seconds)))}
    if isinstance(error, errors.IdempotencyKeyInUse):
        return {"Retry-After": str(math.ceil(USUAL_RETRY_SECONDS))}
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        seconds = error.retry_after_seconds if isinstance(error, UpstreamError) else None
        return {"Retry-After": str(math.ceil(seconds if seconds is not None else USUAL_RETRY_SECONDS))}
    return {}


MESSAGES = {
    HTTPStatus.NOT_FOUND: Message("no-such-path"),
    HTTPStatus.METHOD_NOT_ALLOWED: Message("no-such-method"),
}
"""What Starlette refuses."""


def answer_http_error(request: Request, error: Exception) -> Response:
    """The answer to what Starlette refuses: an unknown path or a wrong method."""
    if not isinstance(error, HTTPException):
        raise error
    status = HTTPStatus(error.status_code)
    code = status.phrase.lower().replace(" ", "-")
    message = MESSAGES.get(status) or Message("verbatim", text=status.description or status.phrase)
    headers = dict(error.headers or {})
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        # Starlette names only the methods of the first matching route.
        scopes = ({**request.scope, "method": method} for method in METHODS)
        matching = [
            scope["method"]
            for scope in scopes
            if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)
        ]
        # HEAD is answered like GET (`saiten_server.platform.web.middleware`).
        allowed = ["HEAD", *matching] if "GET" in matching else matching
        headers |= {"Allow": ", ".join(allowed)} if allowed else {}
    return refuse(request, status, code, message, headers)


def answer_query_error(request: Request, error: Exception) -> Response:
    """The answer to an invalid query or path parameter."""
    if not isinstance(error, RequestValidationError):
        raise error
    faults = [(pointer(fault["loc"]), describe_fault(fault)) for fault in error.errors()]
    return answer_error(request, InvalidDocument(faults))


def answer_defect(request: Request) -> Response:
    """500, for an unexpected error."""
    return refuse(request, 500, "internal-error", Message("log-has-a-record", request=request.state.request_id))


def install(application: FastAPI) -> None:
    """Installs the handlers that answer every error with a problem document."""
    application.add_exception_handler(SaitenError, answer_error)
    application.add_exception_handler(RequestValidationError, answer_query_error)
    application.add_exception_handler(HTTPException, answer_http_error)
