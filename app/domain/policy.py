"""What holds for all of a project's evaluations: how suspected attacks are dealt with, and how long texts are kept."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.domain.model import Finite, Value

Integrity = Literal["flag", "refuse", "judge-twice"]
"""What becomes of a dialogue that looks like an attack on the judge: it is judged and flagged; it is refused before
anybody is asked; or it is judged as it is and once more without the suspicious spans, and both are told."""

TextKeeping = Literal["keep", "hash", "drop"]
"""What becomes of texts in time: nothing; a keyed digest takes their place, so that equal ones are still known as such;
or nothing of them is left."""


class ProjectPolicy(Value):
    """`after_days` is how long texts are kept where they are not kept for good: from a single evaluation's making, or
    from the end of a batch."""

    integrity: Integrity = "flag"
    texts: TextKeeping = "keep"
    after_days: Annotated[Finite, Field(ge=0, le=36_500)] = 30.0


DEFAULT_POLICY = ProjectPolicy()
