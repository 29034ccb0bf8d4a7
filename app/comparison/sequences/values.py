"""A sequence of builds that gates judge against one baseline, with one error rate for all of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from saiten_server.core.model import Value, listed

SequenceName = Annotated[str, Field(min_length=1, max_length=256, description="the sequence's name in its project")]


class SequenceDrop(Value):
    """A drop, or a rise of findings, that a sequence found and that is not mended. Builds fail until it is."""

    night: int = Field(description="the place of the build that failed by it first")
    first: int = Field(description="the place of the earliest of the newest builds that it was found in")
    size: float = Field(description="by how much these lay on the bad side of the baseline, in points")


class SequenceBuild(Value):
    """A build of a sequence."""

    night: int = Field(description="its place, from 1; what a place may spend of alpha stays spent")
    batch: str | None = Field(description="null once it was erased")
    judged_at: Annotated[datetime, Field(strict=False, description="when it was judged first")]
    verdict: Literal["pass", "fail", "inconclusive"] = Field(description="what its gate said last")
    drops: dict[str, SequenceDrop] | None = Field(
        default=None, description="by what rules name, what was not mended with it; null where that was not kept"
    )


class GateSequence(Value):
    """A sequence of builds. It ends when its baseline is erased."""

    name: str
    baseline: str = Field(description="the batch that all builds are judged against")
    alpha: float = Field(description="how often, at most, any build of the whole sequence fails if nothing changed")
    started_at: Annotated[datetime, Field(strict=False, description="when its first build was judged")]
    builds: Annotated[tuple[SequenceBuild, ...], listed()] = Field(
        default=(), description="in their order; empty in the list of all sequences"
    )


class SequenceMark(Value):
    """The place of a gate in a sequence of builds."""

    name: str
    night: int = Field(description="the candidate's place, from 1")
    alpha: float = Field(description="how often, at most, any build of the whole sequence fails if nothing changed")
    level: float = Field(description="what this place may spend of it")
    builds: int = Field(description="earlier builds that this one is looked at with")
    noise: dict[str, float] = Field(
        description="by what rules name, the standard deviation between builds that their items do not explain"
    )
    drops: dict[str, SequenceDrop] = Field(default={}, description="by what rules name, what is not mended")
