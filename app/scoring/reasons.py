"""Asking the judge for the reasons of a stored evaluation, for the API and the pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Request

from saiten.core.messages import Message
from saiten_server.core.errors import NotFound, PriceUnknown
from saiten_server.core.evaluation import Evaluation
from saiten_server.governance.policies import settle_for
from saiten_server.scoring.admission import CappedPurse, admit
from saiten_server.scoring.evaluate import evaluate
from saiten_server.scoring.explanation import plan_explanation, read_explanation, reasons_of
from saiten_server.scoring.limits import evaluating, has_price, require_price

if TYPE_CHECKING:
    from saiten_server.container import Container

GONE = Message("evaluation-not-found")


async def ask_reasons(
    request: Request, container: Container, evaluation_id: str, *, budget_usd: float | None = None
) -> Evaluation:
    """The evaluation with the judge's reasons. Where there are none yet the judge is asked again, at a cost of at most
    `budget_usd`, as one of the caller's evaluations; no rating changes. Raises NotFound, PriceUnknown, and whatever an
    evaluation raises."""
    project: str = request.state.project
    record = await container.scoring.evaluations.find(project, evaluation_id)
    if record is None:
        raise NotFound(GONE)
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
        raise NotFound(GONE)
    return told
