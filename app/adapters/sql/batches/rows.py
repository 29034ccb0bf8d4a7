"""A result as a row of `evaluations`."""

from __future__ import annotations

import json
import secrets
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from app.adapters.sql.batches.texts import write_record
from app.batch_ports import Finished, Scores
from app.domain.batch import Failure
from app.domain.dialogue import digest_context
from app.scores import failed_scores, pack, scores_of

UNSAID = Failure(code="internal-error", detail="the candidate has no evaluation, and no reason was given")


def score_result(finished: Finished) -> Scores:
    """The figures of a candidate's result."""
    if finished.record is None:
        return failed_scores(finished.failure or UNSAID)
    return scores_of(finished.record.evaluation, digest_context(finished.record.request.context))


def describe_result(finished: Finished, scores: Scores, batch: Row[Any], now: datetime) -> dict[str, Any]:
    """The row of a candidate's result: its evaluation, or the failure in its place, which has an id of its own.

    `scores` are the result's.
    """
    common = {
        "project": batch.project,
        "batch_id": finished.job.batch,
        "position": finished.entry.position,
        "item": finished.entry.item,
        "candidate": finished.entry.candidate,
        "dialogue": finished.entry.dialogue,
        "cluster": finished.entry.cluster,
        "calls": json.dumps(finished.calls),
        "status": scores.status,
        "scores": pack(scores),
    }
    if finished.record is not None:
        evaluation = finished.record.evaluation
        return {
            **common,
            "id": evaluation.id,
            "created_at": evaluation.created_at,
            "rubric": evaluation.rubric.id,
            "record": write_record(finished.record),
            "signature": evaluation.signature,
            "failure": None,
        }
    failure = finished.failure or UNSAID
    return {
        **common,
        "id": "ev_" + secrets.token_hex(12),
        "created_at": now,
        "rubric": batch.rubric,
        "signature": "",
        "record": "",
        "failure": failure.model_dump_json(),
    }
