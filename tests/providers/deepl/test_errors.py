"""DeepL's refusals, told apart."""

import pytest

from saiten_server.core.errors import (
    TranslatorQuotaExhausted,
    TranslatorRefusedRequest,
    TranslatorUnauthorized,
    TranslatorUnavailable,
    UpstreamError,
)
from saiten_server.providers.deepl.requests import fail_by_status, quote_message


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


def test_a_quoted_message_is_one_short_line_without_the_key() -> None:
    assert quote_message("no such\n key: s3cret ", "s3cret") == "no such key: …"
    assert quote_message("x" * 101, "s3cret") == "x" * 99 + "…"
