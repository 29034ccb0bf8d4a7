"""Reports of the gate as small as they can be."""

from __future__ import annotations

from typing import Any

from app.domain.comparison import GateReport, GateRule
from app.stats.gate import judge_gate
from tests.support.runs import Column, make_run

BEFORE = [4.0] * 12
FAILED: Column = [3.0] * 10 + [4.0] * 2
INCONCLUSIVE: Column = [*[2.0, 5.0] * 5, 4.0, None]
RULES = (GateRule(aspect="warmth", max_drop=0), GateRule(aspect="clarity", max_drop=0, min_mean=2))


def make_report(warmth: Column, *, baseline: str = "main", candidate: str = "pr-17", **settings: Any) -> GateReport:
    """Twelve items whose warmth was 4 throughout and now is this, while clarity stayed at 3."""
    clarity = [3.0] * 12
    return judge_gate(
        make_run(candidate, {"warmth": warmth, "clarity": clarity}),
        make_run(baseline, {"warmth": BEFORE, "clarity": clarity}),
        RULES,
        **settings,
    )
