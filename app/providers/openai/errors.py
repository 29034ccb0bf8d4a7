"""Maps an endpoint's errors to the domain's, with whether a retry can help, and reads its rate-limit headers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import openai

from saiten.core.messages import Message
from saiten.core.plain_text import clean
from saiten_server.core import errors
from saiten_server.providers.flow_control import (
    LONGEST_CHARACTERS,
    LONGEST_SECONDS,
    NO_LIMITS,
    RateLimits,
    read_retry_after,
)
from saiten_server.providers.openai.reply import FILTER_CODES

LIMIT_HEADER_PREFIX = b"x-ratelimit-"
COUNT = re.compile(r"[0-9]{1,12}")
DURATION = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ms|[dhms]))+")
PART = re.compile(r"([0-9.]+)(ms|[dhms])")
SECONDS_OF_UNIT = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
BARE_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


def read_limits(headers: Iterable[tuple[bytes, bytes]]) -> RateLimits:
    """The limits in raw headers. Values in other formats than OpenAI's and Azure's are ignored."""
    stated = {
        name[len(LIMIT_HEADER_PREFIX) :].lower(): value.decode("latin-1").strip()
        for name, value in headers
        if name[: len(LIMIT_HEADER_PREFIX)].lower() == LIMIT_HEADER_PREFIX
    }
    if not stated:
        return NO_LIMITS
    spent = [unit for unit in (b"requests", b"tokens") if stated.get(b"remaining-" + unit) == "0"]
    return RateLimits(
        requests_per_minute=read_count(stated.get(b"limit-requests")),
        tokens_per_minute=read_count(stated.get(b"limit-tokens")),
        closed_seconds=max((read_duration(stated.get(b"reset-" + unit)) for unit in spent), default=0.0),
    )


def read_count(written: str | None) -> float | None:
    """A count above 0, else None."""
    return float(written) or None if written and COUNT.fullmatch(written) else None


def read_duration(written: str | None) -> float:
    """Seconds of `1s`, `6m0s`, `120ms` or a bare number of seconds: from 0 to one day; 0 for other formats."""
    if written and len(written) > LONGEST_CHARACTERS:
        return 0.0
    if written and BARE_SECONDS.fullmatch(written):
        seconds = float(written)
    elif written and DURATION.fullmatch(written):
        seconds = sum(float(number) * SECONDS_OF_UNIT[unit] for number, unit in PART.findall(written))
    else:
        seconds = 0.0
    return min(LONGEST_SECONDS, seconds)


UPSTREAM_TEXT_CHARACTERS = 200
MOST_ERROR_CHARACTERS = 4_000  # Characters of an error that are looked at
KEY_SHAPE = re.compile(r"\b(?:sk|pk|key)-[\w*.-]{4,}|Bearer\s+\S+", re.IGNORECASE)
QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "quota_exceeded"})


class ReplyTooLarge(openai.OpenAIError):
    """A reply with more bytes than any verdict. It is an SDK error so that the SDK passes it on."""


@dataclass(frozen=True)
class Treatment:
    """What an SDK error becomes. `advice` is one sentence; with `quotes` the endpoint's own message is added."""

    becomes: type[errors.UpstreamError]
    retry: bool
    advice: Message
    quotes: bool = True


UNREACHABLE = Treatment(errors.JudgeUnavailable, True, Message("judge-unreachable"), quotes=False)
SLOW = Treatment(errors.JudgeUnavailable, True, Message("judge-timed-out"), quotes=False)
BUSY = Treatment(errors.JudgeUnavailable, True, Message("judge-over-rate"))
FAILING = Treatment(errors.JudgeUnavailable, True, Message("judge-failed"))
# An endpoint's message about a key may hold the key.
LOCKED = Treatment(errors.JudgeUnauthorized, False, Message("judge-key-refused"), quotes=False)
SPENT = Treatment(errors.JudgeQuotaExhausted, False, Message("judge-quota-spent"))
REQUEST_REFUSED = Treatment(errors.JudgeRefusedRequest, False, Message("judge-request-refused"))
# Redirects are never followed: that would send the dialogue and the key to any address
ELSEWHERE = Treatment(errors.JudgeRefusedRequest, False, Message("judge-redirected"), quotes=False)
OVERSIZE = Treatment(errors.JudgeUnavailable, True, Message("judge-reply-too-large"), quotes=False)
FILTERED = Treatment(errors.JudgeRefusedRequest, False, Message("judge-filtered"))
AWAY = Treatment(errors.JudgeRefusedRequest, False, Message("judge-region"))
MODEL_UNKNOWN = Treatment(errors.JudgeRefusedRequest, False, Message("judge-model-unknown"))

# By class, subclasses first; `treat` also considers the status and the endpoint's code
TREATMENTS: tuple[tuple[type[Exception], Treatment], ...] = (
    (TimeoutError, SLOW),
    (ReplyTooLarge, OVERSIZE),
    (openai.APITimeoutError, SLOW),
    (openai.APIConnectionError, UNREACHABLE),
    (openai.AuthenticationError, LOCKED),
    (openai.PermissionDeniedError, LOCKED),
    (openai.RateLimitError, BUSY),
    (openai.ConflictError, FAILING),
    (openai.InternalServerError, FAILING),
    (openai.NotFoundError, MODEL_UNKNOWN),
    (openai.APIStatusError, REQUEST_REFUSED),
    (openai.APIResponseValidationError, FAILING),
    (openai.OpenAIError, REQUEST_REFUSED),
)
BY_STATUS: dict[int, Treatment] = {
    HTTPStatus.PAYMENT_REQUIRED: SPENT,
    HTTPStatus.REQUEST_TIMEOUT: SLOW,
    HTTPStatus.UNAVAILABLE_FOR_LEGAL_REASONS: AWAY,
}
ABOUT_THE_REQUEST = {HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY}
# What filters say that have no code for it: OpenRouter, DeepSeek, Azure and LiteLLM, DashScope, Gemini
FILTER_WORDS = re.compile(
    r"content exists risk|content (?:management|moderation|policy)|inappropriate content|moderation block"
    r"|\b(?:prompt|input|request|content) (?:was|has been|is) (?:flagged|blocked)|PROHIBITED_CONTENT|\bblock_?reason",
    re.IGNORECASE,
)
# OpenAI's code for it, which OpenRouter passes on inside a text, and the words of Gemini and others
REGION_WORDS = re.compile(
    r"unsupported_country_region|country, region, or territory|location is not supported"
    r"|not (?:available|supported|allowed|offered) in your (?:region|country|location|territory)",
    re.IGNORECASE,
)


def treat(error: BaseException) -> Treatment | None:
    """The error's treatment; None if it is not an SDK error."""
    if isinstance(error, openai.APIStatusError) and (special := treat_status(error)):
        return special
    return next((treatment for kind, treatment in TREATMENTS if isinstance(error, kind)), None)


def treat_status(error: openai.APIStatusError) -> Treatment | None:
    """The treatment of an answer that says more than the error's class; None of the others."""
    away = error.status_code in ABOUT_THE_REQUEST and REGION_WORDS.search(f"{error.code} {find_words(error)}")
    cases = (
        (HTTPStatus.MULTIPLE_CHOICES <= error.status_code < HTTPStatus.BAD_REQUEST, ELSEWHERE),
        # The SDK passes on values of any type that the endpoint sent.
        (QUOTA_CODES & {str(error.code), str(error.type)}, SPENT),
        (is_filtered(error), FILTERED),
        (away, AWAY),
        (error.status_code in BY_STATUS, BY_STATUS.get(error.status_code)),
        # Gemini sends this with HTTP 400.
        ("API_KEY_INVALID" in details_of(error, "reason"), LOCKED),
    )
    return next((treatment for holds, treatment in cases if holds), None)


def may_retry(error: BaseException) -> bool:
    """Whether the same request may succeed later."""
    treatment = treat(error)
    return treatment is not None and treatment.retry


def concerns_account(error: BaseException) -> bool:
    """Whether every request with this key would fail: the key is refused or its quota used up."""
    return treat(error) in (LOCKED, SPENT)


def is_filtered(error: openai.APIStatusError) -> bool:
    """Whether a provider's filter refused the dialogue: Azure says so with HTTP 400, OpenRouter with 403 and the
    reasons in `metadata`."""
    inner, metadata = (dict_member(error.body, name) for name in ("innererror", "metadata"))
    codes = (error.code, error.type, inner.get("code"), metadata.get("error_type"))
    if FILTER_CODES.intersection(code for code in codes if isinstance(code, str)):
        return True
    if error.status_code not in ABOUT_THE_REQUEST:
        return False
    return "flagged_input" in metadata or FILTER_WORDS.search(find_words(error)) is not None


def translate_error(
    error: Exception, *, api_key: str, longest_seconds: float = LONGEST_SECONDS
) -> errors.UpstreamError:
    """The domain's error, with at most 200 characters of the endpoint's message and without the key. A longer pause
    than `longest_seconds` is not passed on."""
    treatment = treat(error) or FAILING
    if not isinstance(error, openai.APIStatusError):
        return treatment.becomes(treatment.advice)
    detail = Message("judge-status", what=treatment.advice, status=error.status_code)
    quoted = quote_error(error, api_key) if treatment.quotes else ""
    asked = retry_after(error)
    seconds = None if asked is None else min(longest_seconds, asked)
    return treatment.becomes(detail, retry_after_seconds=seconds, said=quoted)


def dict_member(body: object, name: str) -> dict[str, Any]:
    """A member of an error's body that is an object; empty where there is none."""
    found = body.get(name) if isinstance(body, dict) else None
    return found if isinstance(found, dict) else {}


def find_words(error: openai.APIStatusError) -> str:
    """The endpoint's message, with the reasons or the words of the provider behind it that OpenRouter adds."""
    metadata = dict_member(error.body, "metadata")
    reasons, behind = metadata.get("reasons"), metadata.get("raw")
    more = ", ".join(map(str, reasons)) if isinstance(reasons, list) else str(behind or "")
    message = upstream_message(error)
    return (f"{message} ({more})" if more else message)[:MOST_ERROR_CHARACTERS]


def quote_error(error: openai.APIStatusError, api_key: str) -> str:
    """What the endpoint says of an error that is not about the key, fit to be shown."""
    return quote_words(find_words(error), api_key)


def details_of(error: openai.APIStatusError, name: str) -> list[str]:
    """The texts of that name among the error's `details`, a format of Google's services."""
    details = error.body.get("details") if isinstance(error.body, dict) else None
    found = [one.get(name) for one in details if isinstance(one, dict)] if isinstance(details, list) else []
    return [text for text in found if isinstance(text, str)]


def upstream_message(error: openai.APIStatusError) -> str:
    """The endpoint's whole message; empty if it sent none."""
    body = error.body
    if isinstance(body, dict):
        message = body.get("message") or body.get("detail")
        return message if isinstance(message, str) else str(message or "")
    return body if isinstance(body, str) else ""


def quote_words(message: str, api_key: str) -> str:
    """An endpoint's message on one line, without keys, cut to 200 characters, and fit for every store."""
    message = message.replace(api_key, "[key]") if api_key else message
    return clean(" ".join(KEY_SHAPE.sub("[key]", message).split())[:UPSTREAM_TEXT_CHARACTERS])


def retry_after(error: BaseException) -> float | None:
    """Seconds that the endpoint asked to wait; None if it did not."""
    if not isinstance(error, openai.APIStatusError):
        return None
    wait = read_wait(error.response.headers, now=datetime.now(UTC))
    delays = [read_duration(delay) for delay in details_of(error, "retryDelay")] if wait is None else []
    return next((delay for delay in delays if delay > 0), wait)


def read_wait(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Seconds of OpenAI's `retry-after-ms`, else of `Retry-After`: from 0 to one day; None if unreadable."""
    written = headers.get("retry-after-ms") or ""
    with suppress(ValueError):
        milliseconds = float(written[:LONGEST_CHARACTERS])
        if math.isfinite(milliseconds) and milliseconds >= 0 and len(written) <= LONGEST_CHARACTERS:
            return min(LONGEST_SECONDS, milliseconds / 1000)
    return read_retry_after(headers.get("retry-after"), now)
