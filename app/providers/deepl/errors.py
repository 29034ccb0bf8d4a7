"""What DeepL's refusals mean, in one table.

| status | error | tried again |
|---|---|---|
| 401, 403 | TranslatorUnauthorized | no |
| 456 | TranslatorQuotaExhausted | no |
| 429, 5xx, no answer | TranslatorUnavailable | yes, after `Retry-After` |
| anything else | TranslatorRefusedRequest, with what DeepL said | no |
"""

from __future__ import annotations

import re

from app.domain.errors import (
    TranslatorQuotaExhausted,
    TranslatorRefusedRequest,
    TranslatorUnauthorized,
    TranslatorUnavailable,
    UpstreamError,
)

MESSAGE_CHARACTERS = 100
"""Most of DeepL's own words that a detail quotes; a detail has at most 200 characters."""


class DeepLFailure(Exception):
    """One request that failed: `error` for the caller, `transient` where the same request may succeed later."""

    def __init__(self, error: UpstreamError, *, transient: bool = False) -> None:
        super().__init__(error.detail)
        self.error = error
        self.transient = transient


def quote_message(message: str, secret: str) -> str:
    """DeepL's own words on one line, cut, and without the key whatever they are."""
    line = re.sub(r"\s+", " ", message.replace(secret, "…")).strip()
    return line if len(line) <= MESSAGE_CHARACTERS else line[: MESSAGE_CHARACTERS - 1] + "…"


def fail(what: str, *, transient: bool = False) -> DeepLFailure:
    """The failure of a DeepL that gave no usable answer; `what` goes on after its name."""
    return DeepLFailure(TranslatorUnavailable(f"DeepL {what}."), transient=transient)


def fail_by_status(status: int, message: str, retry_after_seconds: float | None) -> DeepLFailure:
    """The failure that an HTTP status means. `message` is quoted, so it must have gone through `quote_message`."""
    if status in (401, 403):
        return DeepLFailure(TranslatorUnauthorized("DeepL refused the key; check DEEPL_API_KEY", said=message))
    if status == 456:
        return DeepLFailure(TranslatorQuotaExhausted("DeepL's quota for this billing period is used up (HTTP 456)."))
    if status == 429 or status >= 500:
        detail = f"DeepL is busy or broken (HTTP {status})"
        return DeepLFailure(
            TranslatorUnavailable(detail, retry_after_seconds=retry_after_seconds, said=message), transient=True
        )
    return DeepLFailure(
        TranslatorRefusedRequest(f"DeepL refused the request, and would again (HTTP {status})", said=message)
    )
