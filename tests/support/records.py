"""Records and requests as tests need them."""

from datetime import UTC, datetime
from typing import Any

from saiten_server.core.evaluation import (
    AspectResult,
    CallTrace,
    Evaluation,
    EvaluationRequest,
    JudgeProvenance,
    Record,
    RubricReference,
    Usage,
    Warned,
)

BODY: dict[str, Any] = {
    "rubric": "ja-dialogue",
    "context": [{"speaker": "ユーザー", "text": "おはよう"}],
    "response": "おはよう、よく眠れた？",
}
"""The smallest request that scores."""


def make_request(**changes: Any) -> EvaluationRequest:
    return EvaluationRequest.model_validate({**BODY, **changes})


def make_record(evaluation_id: str = "ev_1", **changes: Any) -> Record:
    aspect = AspectResult(rating=3, scale=(1, 3), label="自然", samples=(3, None), mean=3.0, sd=0.0, blended=3.41)
    evaluation = Evaluation(
        id=evaluation_id,
        status="scored",
        rubric=RubricReference(id="ja-dialogue", version=1, digest="d" * 64),
        path="source",
        aspects={"naturalness": aspect},
        composites={"ssa": None},
        relevance=None,
        translation=None,
        paths=None,
        judge=JudgeProvenance(kind="lexical", model="lexical-1", parameters={"weights": "abc"}),
        usage=Usage(judge_calls=1, cost_usd=0.1),
        warnings=(Warned(code="baseline-judge", where="judge", detail="…"),),
        signature="saiten:0|rubric:ja-dialogue@1",
        signature_pieces={"saiten": "0"},
        cached=False,
        created_at=datetime(2026, 11, 21, 1, 2, 3, 456789, UTC),
        metadata={"system": "甲"},
    )
    trace = CallTrace(
        prompt_digest="p" * 64,
        sample=0,
        attempt=0,
        aspects=("naturalness",),
        reply='{"naturalness": 3}',
        finish_reason="stop",
    )
    return Record(evaluation=evaluation.model_copy(update=changes), request=make_request(), trace=(trace,))
