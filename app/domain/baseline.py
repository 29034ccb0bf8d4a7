"""The run that a project compares the runs of one name with."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.domain.model import Value


class BaselineRequest(Value):
    """The run to be the baseline of a name."""

    batch: Annotated[str, Field(min_length=1, max_length=64)] = Field(description="a completed batch of this name")


class Baseline(Value):
    """The pinned baseline of a name. It goes with its batch."""

    name: str = Field(description="the name of the runs that are compared with it")
    batch: str
    pinned_at: Annotated[datetime, Field(strict=False, description="when it was pinned")]
