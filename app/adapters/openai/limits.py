"""What a reply's `x-ratelimit-*` headers say."""

from __future__ import annotations

import re
from collections.abc import Iterable

from app.domain.retry_after import LONGEST_SECONDS
from app.flow.call import SAID_NOTHING, RateLimits

PREFIX = b"x-ratelimit-"
COUNT = re.compile(r"[0-9]{1,12}")
DURATION = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ms|[dhms]))+")
PART = re.compile(r"([0-9.]+)(ms|[dhms])")
SECONDS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
BARE_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


def read_limits(headers: Iterable[tuple[bytes, bytes]]) -> RateLimits:
    """The limits in raw headers. Whatever is not written as OpenAI or Azure writes it counts as not said."""
    told = {
        name[len(PREFIX) :].lower(): value.decode("latin-1").strip()
        for name, value in headers
        if name[: len(PREFIX)].lower() == PREFIX
    }
    if not told:
        return SAID_NOTHING
    resets = (read_duration(told.get(b"reset-" + what)) for what in (b"requests", b"tokens") if is_spent(told, what))
    return RateLimits(
        requests_per_minute=read_count(told.get(b"limit-requests")),
        tokens_per_minute=read_count(told.get(b"limit-tokens")),
        closed_seconds=max(resets, default=0.0),
    )


def is_spent(told: dict[bytes, str], what: bytes) -> bool:
    """Whether nothing is left of requests or tokens."""
    return told.get(b"remaining-" + what) == "0"


def read_count(written: str | None) -> float | None:
    """A count above 0, else None."""
    return float(written) or None if written and COUNT.fullmatch(written) else None


def read_duration(written: str | None) -> float:
    """Seconds of `1s`, `6m0s`, `120ms` or a bare number of seconds: from 0 to one day. 0 where it is none of them."""
    if written and BARE_SECONDS.fullmatch(written):
        seconds = float(written)
    elif written and DURATION.fullmatch(written):
        seconds = sum(float(number) * SECONDS[unit] for number, unit in PART.findall(written))
    else:
        seconds = 0.0
    return min(LONGEST_SECONDS, seconds)
