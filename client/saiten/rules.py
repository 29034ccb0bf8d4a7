"""The rules of a gate."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass


@dataclass(frozen=True)
class Rule:
    """What a gate requires of an aspect, a composite or `NAME.blended`: a least mean, or a largest drop in scale
    points. Of the code of a `finding` in conversations, `kind:KIND` among them, or of the `measure` `faulty_turns`: a
    largest rise, in system turns per 100. `must_detect` is the
    drop or rise that the data must be able to show with 80% power."""

    aspect: str | None = None
    _: KW_ONLY
    min_mean: float | None = None
    max_drop: float | None = None
    finding: str | None = None
    measure: str | None = None
    max_rise: float | None = None
    must_detect: float | None = None
