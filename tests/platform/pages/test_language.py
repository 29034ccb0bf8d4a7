from datetime import datetime, timedelta, timezone

import pytest

from saiten_server.platform.web.language import LocaleFormats, negotiate, pick
from saiten_server.scoring.rubrics.files import RubricFiles, default_folder


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
    formats = LocaleFormats("ja")
    assert formats.number(3.14159) == "3.14"
    assert formats.number(None) == "–"
    assert formats.signed(-0.25) == "−0.25"
    assert formats.signed(0.001) == "0.00"  # no sign on what rounds to nothing
    assert formats.interval((1.0, 2.5)) == "[1.00, 2.50]"
    assert formats.count(123456) == "123,456"
    assert formats.money(0.0042) == "$0.0042"
    assert formats.money(12.5) == "$12.50"
    assert formats.money(0.99999) == "$1.00"
    assert formats.money(0.00002) == "< $0.0001"  # not nothing
    assert formats.money(0.0) == "$0.00"
    assert formats.number(-0.004) == "0.00"
    assert formats.number(-0.006) == "−0.01"
    assert formats.p(0.0001) == "< 0.001"


def test_percentages_never_claim_all_or_nothing_falsely():
    formats = LocaleFormats("en")
    assert formats.percent(0.9999) == "99%"
    assert formats.percent(1.0) == "100%"
    assert formats.percent(0.00001) == "1%"
    assert formats.percent(0.0) == "0%"


@pytest.mark.parametrize("language", ["en", "ja", "ko"])
def test_moments_are_in_utc_and_mean_the_same_everywhere(language):
    at = datetime(2026, 11, 21, 18, 5, tzinfo=timezone(timedelta(hours=9)))
    assert LocaleFormats(language).moment(at) == "2026-11-21 09:05 UTC"


def test_a_p_below_a_level_is_not_shown_as_the_level():
    formats = LocaleFormats("en")
    assert formats.p(0.04999) == "0.04999"
    assert formats.p(0.05) == "0.050"
    assert formats.p(0.0321) == "0.032"


def test_minus_signs_are_alike():
    formats = LocaleFormats("ko")
    assert formats.number(-0.25) == formats.signed(-0.25) == "−0.25"
    assert formats.interval((-0.5, 0.25)) == "[−0.50, 0.25]"


def test_what_shipped_rubrics_name_is_there_in_three_languages() -> None:
    """On pages only: the rubrics themselves, and so prompts and signatures, have the languages that they had."""
    rubrics = RubricFiles([default_folder()]).list()
    phrases = [rubric.title for rubric in rubrics]
    for aspect in (aspect for rubric in rubrics for aspect in rubric.aspects):
        phrases += [aspect.name, *(level.label for level in aspect.levels)]
    assert [(phrase, own) for phrase in phrases for own in ("ja", "ko", "en") if pick(phrase, own)[1] != own] == []
    assert pick({"ja": "ふさわしい"}, "en") == ("Appropriate", "en")
    assert pick({"ja": "ふさわしい", "en": "Right"}, "ko") == ("알맞음", "ko")
    assert pick({"ja": "適量", "en": "Right"}, "ko") == ("적당함", "ko")
    assert pick({"en": "Of my own"}, "ja") == ("Of my own", "en")
    assert pick({"ja": "自然さ", "en": "My own meaning"}, "ko") == ("My own meaning", "en")
