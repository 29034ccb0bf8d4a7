"""What all answers of the service have in common, and what some of them can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict

Part = TypeVar("Part")
Sequence: TypeAlias = tuple[Part, ...]
"""A list in an answer: as little to be changed as the answer."""


class Answer(BaseModel):
    """The base class of everything that a service answers.

    Answers are immutable and keep fields that this version does not know, so that a newer service can be asked: those
    are attributes too, and `model_dump` returns them.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        defer_build=True,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from saiten.notebook import render_answer

        return render_answer(self)


class Report(Answer):
    """The base class of an analysis's report."""


class CandidateCounts(Answer):
    """Candidates by state."""

    if TYPE_CHECKING:
        total: int
        queued: int

    @property
    def done(self) -> int:
        """Candidates that have a result."""
        return self.total - self.queued


class RatedBatch(Answer):
    """A batch, which a rubric rates."""

    if TYPE_CHECKING:
        rubric: str
        rubric_version: int | None

    @property
    def rubric_name(self) -> str:
        """The rubric, with its version if known: `id@version`."""
        return self.rubric if self.rubric_version is None else f"{self.rubric}@{self.rubric_version}"


class VersionedRubric(Answer):
    """A rubric in one version."""

    if TYPE_CHECKING:
        id: str
        version: int

    @property
    def name(self) -> str:
        """`id@version`."""
        return f"{self.id}@{self.version}"
