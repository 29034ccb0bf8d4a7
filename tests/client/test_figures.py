"""One rounding for everything that people read."""

import math
from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from saiten.commands.output import bounds, figure
from saiten.core.figures import find_digits, round_figure, write_figure
from saiten.core.wording import describe_rule, tell_p
from saiten_server.comparison.values import GateRule
from saiten_server.platform.charts.canvas import write_number
from saiten_server.platform.web.language import LocaleFormats

MIDDLES = (0.005, 0.015, 0.025, 0.035, 0.125, 1.005, 2.675, 3.865, 3.875)


@pytest.mark.parametrize("middle", MIDDLES)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_figure_in_the_middle_reads_the_same_in_terminal_page_and_chart(middle: float, sign: int) -> None:
    value = sign * middle
    expected = Decimal(str(value)).quantize(Decimal("0.01"), ROUND_HALF_UP)
    # Sums of the same values in another order differ in the last bits.
    for same in (value, math.nextafter(value, 9), math.nextafter(value, -9), value + 4e-13):
        assert write_figure(same, 2) == figure(same, ".2f") == str(expected)
        assert write_number(same).replace("−", "-") == str(expected)
        for language in ("en", "ja", "ko"):
            assert LocaleFormats(language).number(same).replace("−", "-") == str(expected)


def test_what_rounds_to_zero_is_never_below_it() -> None:
    assert {write_figure(value, 2, signed=True) for value in (0.0, -0.0, 0.004, -0.004)} == {"+0.00"}
    assert {write_number(value, signed=True) for value in (0.0, -0.0, 0.004, -0.004)} == {"0.00"}
    assert (figure(0.125, "+.2f"), figure(-0.125, "+.2f"), figure(None)) == ("+0.13", "-0.13", "–")
    assert (bounds((-0.025, 0.025), "+.2f"), bounds(None)) == ("[-0.03, +0.03]", "–")


@given(st.floats(-1e6, 1e6), st.integers(0, 6))
@example(1e300, 2)
@example(math.inf, 2)
def test_a_figure_is_rounded_to_the_nearest(value: float, digits: int) -> None:
    found = round_figure(value, digits)
    assert float(found) == value or abs(float(found) - value) <= 0.5 * 10**-digits + 1e-9


def test_a_p_below_a_level_is_not_shown_as_that_level() -> None:
    assert [tell_p(p) for p in (0.04996, 0.0496, 0.05, 0.0504, 0.00998, 0.2)] == [
        "p = 0.04996",
        "p = 0.0496",
        "p = 0.05",
        "p = 0.0504",
        "p = 0.00998",
        "p = 0.2",
    ]


def test_digits_tell_two_figures_apart() -> None:
    assert (find_digits(3.1, 3.2, 2), find_digits(3.1002, 3.0998, 3), find_digits(3.0, 3.0 + 1e-9, 3)) == (2, 4, 3)


def test_minus_zero_is_read_as_zero() -> None:
    assert describe_rule(GateRule(aspect="overall", max_drop=-0.0)) == "max_drop 0"
