"""Values in columns of text, read without the limits of requests."""

from __future__ import annotations

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from saiten_server.core.batch import BatchOptions, Candidate
from saiten_server.core.dialogue import CHECKED
from saiten_server.core.evaluation import CallTrace, Evaluation

STORED = {"limits": CHECKED}
"""The validation context for stored values, because limits apply only to requests."""
FIRST_VERSIONS = {"ja-dialogue": "ja-dialogue@1"}
"""The rubric of a batch that names no version, from before rubrics had several."""


class EvaluationPart(BaseModel):
    """Of a stored record the evaluation: to pass over the calls takes a third less time."""

    evaluation: Evaluation


class TracePart(BaseModel):
    """Of a stored record the calls to the judge."""

    trace: tuple[CallTrace, ...] = ()


def read_evaluation(record: str) -> Evaluation:
    """The evaluation in a stored record."""
    return EvaluationPart.model_validate_json(record, context=STORED).evaluation


def read_trace(record: str) -> tuple[CallTrace, ...]:
    """The calls to the judge in a stored record."""
    return TracePart.model_validate_json(record, context=STORED).trace


def replace_parts(record: str, **parts: Evaluation | tuple[CallTrace, ...]) -> str:
    """A stored record with another `evaluation`, or another `trace` too."""
    return to_json({**from_json(record), **parts}).decode()


def read_options(text: str) -> BatchOptions:
    """The options in a column of text."""
    options = BatchOptions.model_validate_json(text, context=STORED)
    then = FIRST_VERSIONS.get(options.rubric)
    return options if then is None else options.model_copy(update={"rubric": then})


def read_candidate(text: str) -> Candidate:
    """The candidate in a column of text."""
    return Candidate.model_validate_json(text, context=STORED)
