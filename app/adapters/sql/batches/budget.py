"""How many candidates a batch's budget still allows."""

from __future__ import annotations

import math
from dataclasses import dataclass

EXHAUSTED = "budget-exhausted"
ROUNDING = 1e-9
"""A budget that is a whole multiple of the cost must not lose a candidate to binary fractions."""


@dataclass(frozen=True)
class Budget:
    """`spent_usd` is None where the cost of a result is not known: then no more may be spent. `reserved_usd` is what
    other chunks may still spend; `unit_usd` what one candidate has to be reckoned with."""

    total_usd: float | None
    spent_usd: float | None
    reserved_usd: float
    unit_usd: float

    def afford(self, wanted: int) -> int:
        """How many of `wanted` candidates, from 0 to all."""
        if self.total_usd is None:
            return wanted
        if self.spent_usd is None:
            return 0
        left_usd = self.total_usd - self.spent_usd - self.reserved_usd
        if left_usd < -ROUNDING:
            return 0
        if self.unit_usd <= 0:
            return wanted
        # A budget that is huge beside the cost allows infinitely many, which have no floor.
        return max(0, math.floor(min(wanted, left_usd / self.unit_usd + ROUNDING)))

    def reserve(self, count: int) -> float:
        """What `count` candidates are reckoned with, in USD."""
        return 0.0 if self.total_usd is None else count * self.unit_usd

    def explain(self) -> str:
        """One sentence that says why the batch pauses."""
        if self.spent_usd is None:
            return "what a result cost is not known, so the budget cannot be kept; see the price of the model"
        return (
            f"the next candidate may cost {self.unit_usd:.6g} USD, and of {self.total_usd:.6g} USD "
            f"{self.spent_usd:.6g} are spent"
        )
