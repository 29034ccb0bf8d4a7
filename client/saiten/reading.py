"""Answers as models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from saiten.core.errors import AnswerInvalid
from saiten.core.faults import describe_fault
from saiten.core.language import say, tell

M = TypeVar("M", bound=BaseModel)


def read(model: type[M], answer: Any) -> M:
    """The answer as a model. Raises AnswerInvalid, as for that of a service of another version."""
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        raise misfit(error) from None


def read_line(model: type[M], line: str | bytes) -> M:
    """A line of NDJSON as a model. Raises AnswerInvalid."""
    try:
        return model.model_validate_json(line)
    except ValidationError as error:
        raise misfit(error) from None


def read_all(model: type[M], answers: Any) -> Sequence[M]:
    """Each answer of a list as a model. Raises AnswerInvalid."""
    if not isinstance(answers, list):
        raise AnswerInvalid(tell("the service's answer holds no list; is it of this client's version?"))
    return [read(model, answer) for answer in answers]


def misfit(error: ValidationError) -> AnswerInvalid:
    """The error of an answer that does not fit: it names the first place, and never quotes what stands there."""
    fault = error.errors(include_url=False, include_input=False)[0]
    place = "/".join(map(str, fault["loc"])) or tell("the answer")
    return AnswerInvalid(
        tell(
            "the service's answer is not understood ({place}: {fault}); is it of this client's version?",
            place=place,
            fault=say(describe_fault(fault)),
        )
    )
