"""What `saiten keys` is told of a key's limits."""

from __future__ import annotations

import math

import click

DEFAULT = math.inf
"""What the word `default` is read as: the key has no limit of its own."""

MOST_REQUESTS = 100_000
"""A minute. Each is an entry in Redis."""


class LimitType(click.ParamType[float]):
    """A number above 0, whole where `whole`, up to `most`; or `default`."""

    name = "number|default"

    def __init__(self, *, whole: bool, most: float) -> None:
        self._whole = whole
        self._most = most

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; `DEFAULT` for the word. Raises BadParameter."""
        if value in {"default", DEFAULT}:
            return DEFAULT
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not 0 < number <= self._most or (self._whole and not number.is_integer()):
            kind = "a whole number" if self._whole else "a number"
            self.fail(f"{value!r} is not {kind} above 0 and up to {self._most:,.0f}, nor `default`", param, ctx)
        return number


requests_option = click.option(
    "--requests-per-minute",
    type=LimitType(whole=True, most=MOST_REQUESTS),
    help="Requests within 60 seconds; `default`: as SAITEN_KEY_REQUESTS_PER_MINUTE says.",
)
usd_option = click.option(
    "--usd-per-day",
    type=LimitType(whole=False, most=1_000_000),
    help="What it may cost a day (UTC); `default`: as SAITEN_KEY_USD_PER_DAY says.",
)


def read_requests(given: float | None) -> int | None:
    """The key's own limit of requests; None where it has none."""
    return None if given is None or given == DEFAULT else int(given)


def read_usd(given: float | None) -> float | None:
    """The key's own limit of USD; None where it has none."""
    return None if given is None or given == DEFAULT else given
