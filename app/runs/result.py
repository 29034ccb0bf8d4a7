"""The result of one candidate, as it is stored and read back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from saiten_server.core.batch import Candidate, Entry, Failure
from saiten_server.core.evaluation import CallTrace, Evaluation
from saiten_server.core.redaction import read_texts
from saiten_server.runs.summary import SYSTEM


@dataclass(frozen=True)
class Result:
    """A candidate's evaluation, or the `failure` in its place, which has an id of its own too. `asked` is what was
    evaluated, and `trace` the calls to the judge: where many results are read, both are left out."""

    id: str
    entry: Entry
    evaluation: Evaluation | None = None
    failure: Failure | None = None
    asked: Candidate | None = None
    trace: tuple[CallTrace, ...] = ()

    @property
    def candidate(self) -> Candidate:
        """What was evaluated. Raises ValueError where it was left out."""
        if self.asked is None:
            raise ValueError("this result was read without its candidate")
        return self.asked

    @property
    def system(self) -> str | None:
        """What produced the response, as its evaluation says; None for a failure."""
        return self.evaluation.metadata.get(SYSTEM) if self.evaluation else None

    @property
    def status(self) -> str:
        """`scored`, `partial` or `failed`."""
        return self.evaluation.status if self.evaluation else "failed"

    def line(self) -> dict[str, Any]:
        """The result as one line of NDJSON: the place in the batch first, then the evaluation's fields, and the texts
        where they were read and are still there."""
        place, texts = self.entry.model_dump(), read_texts(self.asked)
        if self.evaluation is not None:
            return {**place, **self.evaluation.model_dump(mode="json"), **texts}  # which has `dialogue` too
        error = self.failure.model_dump() if self.failure else None
        return {**place, "status": "failed", "error": error, **texts}
