"""Which of two responses, or of two conversations, is better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from pydantic import Field

from saiten_server.core.evaluation import (
    AspectPreference,
    Choice,
    JudgeProvenance,
    PairSide,
    Path,
    RubricReference,
    Usage,
    Warned,
)
from saiten_server.core.model import Value, listed


@dataclass(frozen=True)
class ShownPair:
    """One look at two systems' responses to one item: `first` was shown before `second`. A pair that was judged in both
    orders makes two of these.

    `item` names what both answered, and `cluster` the dialogue that it is a turn of (the item itself where none is
    known): pairs of one cluster are not independent. `rater` is a person; None stands for the judge. The lengths are in
    characters, and `covariates` are of the first minus the second. `choice` is of the two as they were shown.
    """

    item: str
    cluster: str
    first: str
    second: str
    choice: Choice
    rater: str | None = None
    first_length: int | None = None
    second_length: int | None = None
    covariates: Mapping[str, float] = field(default_factory=dict)


class Preference(Value):
    """Which of the two is better, by aspect."""

    id: str = Field(description="the comparison's id, `pr_…`")
    rubric: RubricReference
    aspects: dict[str, AspectPreference]
    first: PairSide = Field(description="the one that the request names first")
    second: PairSide = Field(description="the other one")
    path: Path = Field(default="source", description="the language that was judged")
    judge: JudgeProvenance
    usage: Usage
    warnings: Annotated[tuple[Warned, ...], listed()]
    signature: str
    cached: bool
    created_at: Annotated[datetime, Field(strict=False)]
    metadata: dict[str, str]
    dialogue: str | None = Field(default=None, description="as in the request")
