"""A record as JSON, and the evaluation in it as its caller is told it: written once for both."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.evaluation import Record
from app.domain.reliability import Reliability

UNMARKED = '"reliability":null}'
"""How an evaluation ends that was not read yet: the badge is its last field."""


@dataclass(frozen=True)
class WrittenRecord:
    """`record` is what `Record.model_dump_json` gives, `evaluation` the part of it that is its evaluation."""

    record: str
    evaluation: str

    def mark(self, badge: Reliability) -> str:
        """The evaluation with its judge's badge."""
        return f"{self.evaluation.removesuffix('null}')}{badge.model_dump_json()}}}"


def write_json(record: Record) -> WrittenRecord:
    """The record's JSON. Raises ValueError where its evaluation has a badge already."""
    evaluation = record.evaluation.model_dump_json()
    if not evaluation.endswith(UNMARKED):
        raise ValueError("a record is written without its judge's badge")
    trace = ",".join(call.model_dump_json() for call in record.trace)
    written = f'{{"evaluation":{evaluation},"request":{record.request.model_dump_json()},"trace":[{trace}]}}'
    return WrittenRecord(written, evaluation)
