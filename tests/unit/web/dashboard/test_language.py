from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.web.dashboard.language import Formats, negotiate


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", "en"),
        ("ja", "ja"),
        ("ja-JP,ja;q=0.9,en;q=0.8", "ja"),
        ("fr-FR,ko;q=0.5,en;q=0.4", "ko"),
        ("en;q=0.3, KO-kr;q=0.7", "ko"),
        ("ja;q=0", "en"),
        ("ja;q=nonsense,ko;q=0.1", "ko"),
        ("*", "en"),
        (",;q=,;;", "en"),
    ],
)
def test_negotiation_takes_the_best_that_there_is(header, expected):
    assert negotiate(header) == expected


def test_numbers_are_short_and_honest():
    formats = Formats("ja")
    assert formats.number(3.14159) == "3.14"
    assert formats.number(None) == "–"
    assert formats.signed(-0.25) == "−0.25"
    assert formats.signed(0.001) == "0.00"  # no sign on what rounds to nothing
    assert formats.interval((1.0, 2.5)) == "[1.00, 2.50]"
    assert formats.count(123456) == "123,456"
    assert formats.money(0.0042) == "$0.0042"
    assert formats.money(12.5) == "$12.50"
    assert formats.p(0.0001) == "< 0.001"


def test_percentages_never_claim_all_or_nothing_falsely():
    formats = Formats("en")
    assert formats.percent(0.9999) == "99%"
    assert formats.percent(1.0) == "100%"
    assert formats.percent(0.00001) == "1%"
    assert formats.percent(0.0) == "0%"


@pytest.mark.parametrize(("language", "part"), [("en", "11/21/26"), ("ja", "2026/11/21"), ("ko", "26. 11. 21.")])
def test_moments_are_in_utc_as_the_language_writes_them(language, part):
    shown = Formats(language).moment(datetime(2026, 11, 21, 9, 5, tzinfo=UTC))
    assert part in shown
    assert shown.endswith("UTC")
