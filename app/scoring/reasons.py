"""The judge's reasons, asked for after it rated: a second evaluation, which changes no rating of the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Request

from saiten.core.messages import Message
from saiten_server.core.errors import InvalidRequest, NotFound, PriceUnknown, TextsErased
from saiten_server.core.evaluation import ADOPTED, Evaluation, EvaluationRequest, ExplainedRating, Explanation, Record
from saiten_server.core.redaction import is_covered
from saiten_server.core.rubric import name_version
from saiten_server.governance.policies import settle_for
from saiten_server.scoring.admission import CappedPurse, admit
from saiten_server.scoring.evaluate import evaluate
from saiten_server.scoring.limits import evaluating, has_price, require_price

if TYPE_CHECKING:
    from saiten_server.container import Container


def reasons_of(evaluation: Evaluation) -> dict[str, str]:
    """The judge's reasons by aspect, given at once or when it was asked again."""
    given = {name: one.reason for name, one in evaluation.aspects.items()}
    later = {name: one.reason for name, one in evaluation.explained.aspects.items()} if evaluation.explained else {}
    return {name: reason for name in {**later, **given} if (reason := given.get(name) or later.get(name))}


def is_explainable(evaluation: Evaluation, response: str, judge: str) -> bool:
    """Whether a judge of the kind `judge` may be asked for reasons: it rated the response and gave none, was not asked
    again, and the text is stored here, which that of an adopted one is not. Of a conversation it always gives reasons.
    """
    return (
        evaluation.explained is None
        and ADOPTED not in evaluation.codes
        and evaluation.findings is None
        and evaluation.judge.kind == judge
        and not is_covered(response)
        and not reasons_of(evaluation)
        and any(one.unrated is None for one in evaluation.aspects.values())
    )


def plan_explanation(record: Record, judge: str) -> EvaluationRequest:
    """What a judge of the kind `judge` is asked for the reasons: once, by the same version of the rubric, on one path,
    without a blend. Raises TextsErased where the text is gone, and InvalidRequest for what cannot be explained."""
    asked, found = record.request, record.evaluation
    if not isinstance(asked, EvaluationRequest):
        raise InvalidRequest(Message("explanation-of-conversation"))
    if is_covered(asked.response):
        raise TextsErased(Message("explanation-without-response"))
    if found.judge.kind != judge:
        raise InvalidRequest(Message("explanation-other-judge", name=repr(found.judge.kind), judge=repr(judge)))
    options = asked.judge.model_copy(update={"explain": True, "samples": 1, "expected": False})
    return asked.model_copy(
        update={
            "rubric": name_version(found.rubric.id, found.rubric.version),
            "path": "source" if asked.path == "both" else asked.path,
            "relevance": None,
            "judge": options,
        }
    )


def read_explanation(evaluation: Evaluation) -> Explanation:
    """What a second evaluation, with reasons, says of the first."""
    return Explanation(
        aspects={
            name: ExplainedRating(rating=one.rating, reason=one.reason) for name, one in evaluation.aspects.items()
        },
        usage=evaluation.usage,
        signature=evaluation.signature,
        created_at=evaluation.created_at,
    )


EVALUATION_GONE = Message("evaluation-not-found")


async def ask_reasons(
    request: Request, container: Container, evaluation_id: str, *, budget_usd: float | None = None
) -> Evaluation:
    """The evaluation with the judge's reasons. Where there are none yet the judge is asked again, at a cost of at most
    `budget_usd`, as one of the caller's evaluations; no rating changes. Raises NotFound, PriceUnknown, and whatever an
    evaluation raises."""
    project: str = request.state.project
    record = await container.scoring.evaluations.find(project, evaluation_id)
    if record is None:
        raise NotFound(EVALUATION_GONE)
    if record.evaluation.explained is not None or reasons_of(record.evaluation):
        return record.evaluation
    asked = plan_explanation(record, container.scoring.context.judge.kind)
    async with evaluating(request) as scope:
        require_price(request, asked.rubric, asked.judge)
        context = container.scoring.context
        if budget_usd is not None:
            if not has_price(asked.rubric, asked.judge, context):
                detail = Message("budget-price-unknown-here")
                raise PriceUnknown(detail, pointer="/budget_usd")
            scope.purse = CappedPurse(scope.purse, budget_usd)
        asked = await settle_for(project, asked, container.governance.policies)
        await admit([asked], context, scope)
        found = await evaluate(asked, context, scope)
    explained = read_explanation(found.evaluation)
    told = await container.scoring.evaluations.explain(project, evaluation_id, explained, tuple(scope.keys))
    if told is None:
        raise NotFound(EVALUATION_GONE)
    return told
