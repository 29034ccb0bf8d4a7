"""What the two reply formats have in common."""

from __future__ import annotations

import re
from dataclasses import dataclass

INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
"""An integer as JSON spells it. A leading zero, a plus sign, a fraction and an exponent are none."""


SCREEN = "addressesEvaluator"
"""The verdict's first member where it is asked for. No aspect can be called that: their ids have no capitals."""


class Malformed(Exception):
    """The reply is not a verdict; the message says why and holds none of the reply's text."""


@dataclass(frozen=True)
class Part:
    """What a verdict says of one aspect: the number as written (None where left out), its place, its reason."""

    number: str | None
    span: tuple[int, int] = (0, 0)
    reason: str | None = None
