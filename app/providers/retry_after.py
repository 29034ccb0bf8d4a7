"""Reads `Retry-After` as RFC 9110 (10.2.3) defines it, and as servers write it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_SECONDS = 24 * 3600.0
"""The longest delay that is respected. More than a day is taken for an error of the server's clock."""

LONGEST_CHARACTERS = 64
"""No delay needs more. A header of more is not read."""

NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")


def read_retry_after(written: str | None, now: datetime) -> float | None:
    """The delay in seconds, from 0 to one day, for a number or an HTTP date; None if absent or invalid."""
    if written is None or len(written) > LONGEST_CHARACTERS:
        return None
    if NUMBER.fullmatch(written.strip()):
        return min(LONGEST_SECONDS, float(written))
    try:
        moment = parsedate_to_datetime(written)
    except (ValueError, OverflowError):
        return None
    # An HTTP date is in UTC, whatever its zone is called.
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min(LONGEST_SECONDS, max(0.0, (zoned - now).total_seconds()))
