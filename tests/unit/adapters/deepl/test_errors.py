"""DeepL's refusals, told apart."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.adapters.deepl.errors import fail_by_status, parse_retry_after, quote_message
from app.domain.errors import (
    TranslatorQuotaExhausted,
    TranslatorRefusedRequest,
    TranslatorUnauthorized,
    TranslatorUnavailable,
    UpstreamError,
)


@pytest.mark.parametrize(
    ("status", "kind", "transient"),
    [
        (401, TranslatorUnauthorized, False),
        (403, TranslatorUnauthorized, False),
        (456, TranslatorQuotaExhausted, False),
        (429, TranslatorUnavailable, True),
        (500, TranslatorUnavailable, True),
        (503, TranslatorUnavailable, True),
        (529, TranslatorUnavailable, True),
        (400, TranslatorRefusedRequest, False),
        (404, TranslatorRefusedRequest, False),
        (413, TranslatorRefusedRequest, False),
    ],
)
def test_a_status_means_one_error(status: int, kind: type[UpstreamError], transient: bool) -> None:
    failure = fail_by_status(status, "x" * 100, 7.0)
    assert type(failure.error) is kind
    assert failure.transient is transient
    assert len(failure.error.detail) <= 200


def test_a_pause_that_deepl_asks_for_is_passed_on() -> None:
    assert fail_by_status(429, "", 7.0).error.retry_after_seconds == 7.0


NOW = datetime(2026, 10, 21, 7, 28, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("3", 3.0),
        (" 1.5 ", 1.5),
        ("Wed, 21 Oct 2026 07:28:30 GMT", 30.0),
        ("Wed, 21 Oct 2026 07:27:00 GMT", 0.0),
        ("Wed, 21 Oct 2026 07:28:30 -0000", 30.0),
        ("soon", None),
        ("-1", None),
        ("inf", None),
        ("999999999", 86400.0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", 86400.0),
        ("Wed, 21 Oct 99999999999999999999 07:28:00 GMT", None),
        ("", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, NOW) == seconds


def test_a_quoted_message_is_one_short_line_without_the_key() -> None:
    assert quote_message("no such\n key: s3cret ", "s3cret") == "no such key: …"
    assert quote_message("x" * 101, "s3cret") == "x" * 99 + "…"
