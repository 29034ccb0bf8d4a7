import pytest
from hypothesis import given
from hypothesis import strategies as st

from saiten_server.platform.charts.canvas import (
    fit_ends,
    fit_text,
    measure_width,
    sanitize,
    write_interval,
    write_number,
)


@given(st.text(), st.floats(20, 400))
def test_what_is_fitted_fits(text: str, room: float) -> None:
    assert measure_width(fit_text(text, room)) <= room
    assert measure_width(fit_ends(text, room)) <= room


@given(st.text())
def test_what_is_tamed_stays_so(text: str) -> None:
    assert sanitize(sanitize(text)) == sanitize(text)
    assert not any(character in "\n\r\t\x00\u202e\u2066" for character in sanitize(text))


def test_cuts_only_what_is_too_long() -> None:
    assert fit_text("relevance", 100) == "relevance"
    cut = fit_text("x" * 300, 100)
    assert cut.endswith("x…")
    assert 8 < len(cut) < 20
    assert len(fit_text("あ" * 300, 100)) < len(cut)


def test_keeps_the_ends_of_what_differs_in_the_end() -> None:
    cut = fit_ends("release-candidate-2026-11-21-build-4711", 92)
    assert cut.startswith("rel")
    assert cut.endswith("4711")
    assert cut.count("…") == 1


def test_leaves_no_joiner_at_a_cut() -> None:
    assert not any("\u200d…" in fit_text("👨\u200d" * 30, room) for room in range(20, 200))


@pytest.mark.parametrize(
    ("value", "signed", "text"),
    [
        (0.324, True, "+0.32"),
        (-0.324, False, "−0.32"),
        (-0.001, True, "0.00"),
        (0.0, True, "0.00"),
        (1234.5, False, "1,234.50"),
    ],
)
def test_writes_numbers(value: float, signed: bool, text: str) -> None:
    assert write_number(value, signed=signed) == text


def test_writes_intervals() -> None:
    assert write_interval(-0.1, 0.25) == "[−0.10, 0.25]"
