"""What a chunk may spend of its batch's budget, as it is reserved for it."""

from __future__ import annotations

import math

ROUNDING = 1e-9
"""An allowance that is a whole multiple of the cost must not lose a candidate to binary fractions."""


class Allowance:
    """Lets candidates begin as long as all in hand, at the dearest that any has been, stay within what is reserved.

    `unit_usd` is what one candidate was reckoned with when `count` of them were reserved for; None without a budget.
    """

    def __init__(self, count: int, unit_usd: float | None) -> None:
        self._bounded = unit_usd is not None
        self._dearest_usd = unit_usd or 0.0
        self._left_usd = count * self._dearest_usd
        self._in_hand = 0

    def begin(self) -> bool:
        """Whether one more candidate may begin; it then counts as in hand."""
        if self._bounded and self._dearest_usd * (self._in_hand + 1) > self._left_usd + ROUNDING:
            return False
        self._in_hand += 1
        return True

    def end(self, cost_usd: float | None) -> None:
        """A candidate is done. One whose cost is not known uses up everything."""
        self._in_hand -= 1
        if cost_usd is None:
            self._left_usd = -math.inf
        else:
            self._left_usd -= cost_usd
            self._dearest_usd = max(self._dearest_usd, cost_usd)
