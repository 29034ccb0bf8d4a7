"""How figures are rounded where people read them: in one way, by the service and by the command, in texts, tables,
pages and charts."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

NOISE_DIGITS = 9
"""Digits behind the point from which on a figure may hold the noise of adding: sums of 3.875 differ in the last bit."""

WHOLE_FROM = 1e15
"""From here on a figure has no digits behind the point."""

DASH = "–"
"""What stands in place of a figure that there is none of."""

MOST_DIGITS = 6
"""Digits behind the point that are written at most to tell two figures apart."""


def round_figure(value: float, digits: int) -> Decimal:
    """The figure with so many digits behind the point, as it is rounded by hand: what lies in the middle goes away from
    zero. `round` and formats go by binary fractions, of which 0.025 lies above the middle and 0.035 below it. What
    rounds to zero is never below it."""
    if not abs(value) < WHOLE_FROM:
        return Decimal(float(value))
    rounded = Decimal(repr(round(float(value), NOISE_DIGITS))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return rounded if rounded else abs(rounded)


def write_figure(value: float, digits: int = 3, *, signed: bool = False) -> str:
    """`3.875`, `-0.250`; `signed` as `+0.250` and `+0.000`."""
    return format(round_figure(value, digits), f"{'+' if signed else ''}.{digits}f")


def find_digits(value: float, other: float, least: int) -> int:
    """How many digits behind the point show that two figures differ: `least`, unless it takes more. Where six do not
    show it, `least`."""
    for digits in range(least, MOST_DIGITS + 1):
        if round_figure(value, digits) != round_figure(other, digits):
            return digits
    return least
