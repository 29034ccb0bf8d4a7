"""The verdict on two runs that are read, whatever they were read from. It loads numpy and scipy."""

from __future__ import annotations

from collections.abc import Callable

from saiten.core.messages import Message
from saiten_server.comparison.gate import judge_gate, tell_coverage
from saiten_server.comparison.links.rules import LinkUse
from saiten_server.comparison.requests import GateRequest
from saiten_server.comparison.values import ComparedRun, GateReport
from saiten_server.core.errors import InvalidRequest

LinkApplication = Callable[[ComparedRun, ComparedRun], tuple[ComparedRun, ComparedRun, LinkUse | None]]
"""What puts a baseline and a candidate run on one judge's scale."""


def leave_scales(baseline: ComparedRun, candidate: ComparedRun) -> tuple[ComparedRun, ComparedRun, LinkUse | None]:
    """The `LinkApplication` where no link is asked for."""
    return baseline, candidate, None


def judge_runs(
    request: GateRequest,
    candidate: ComparedRun,
    baseline: ComparedRun | None,
    apply: LinkApplication = leave_scales,
) -> GateReport:
    """The verdict on the candidate run, without a look at its sequence or its judge."""
    if request.coverage_only:
        return tell_coverage(candidate, request.judge_check, alpha=request.alpha, min_coverage=request.min_coverage)
    before, after, link = baseline, candidate, None
    if baseline is not None:
        before, after, link = apply(baseline, candidate)
    if link is not None and link.candidate is not None:
        raise InvalidRequest(Message("link-of-candidate"), pointer="/link")
    return judge_gate(
        after,
        before,
        request.rules,
        alpha=request.alpha,
        min_coverage=request.min_coverage,
        test=request.test,
        allow_signature_mismatch=request.allow_signature_mismatch,
        seed=request.seed,
        judge=request.judge_check,
        estimate=request.estimate,
        looks=request.looks,
        link=link,
    )
