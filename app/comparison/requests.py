"""What a comparison and a gate may be asked for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from saiten.core.messages import Message
from saiten_server.analyses.requests import Seed
from saiten_server.comparison.given_runs import GivenRun, RunSource
from saiten_server.comparison.judge_checks.values import JudgeCheck
from saiten_server.comparison.links.values import LinkId
from saiten_server.comparison.values import ChosenTest, EstimateKind, GateRule
from saiten_server.core.batch import BatchName
from saiten_server.core.evaluation import JudgeOptions, Metadata, PathChoice
from saiten_server.core.model import Finite, RubricName, Value, listed, refuse
from saiten_server.core.reports import Alpha, Looks


def refuse_batches_only(request: ComparisonRequest | GateRequest) -> None:
    """Raises ValidationError where a run is given as results, and the request asks for what only batches have."""
    given = any(isinstance(run, GivenRun) for run in (request.candidate, request.baseline))
    asked = {"estimate": request.estimate == "corrected", "link": request.link is not None}
    if isinstance(request, GateRequest):
        asked |= {"sequence": request.sequence is not None}
        asked |= {"check_judge": request.check_judge and request.judge_check is None}
    text = Message("goes-with-batches")
    refuse(type(request).__name__, [((name,), text) for name, one in asked.items() if given and one])


class ComparisonRequest(Value):
    """Two runs to compare, each the id of a batch or results. `seed` is the seed of the resampling. With the estimate
    `corrected` the measures stand on people's scale too, by their stored ratings of either batch. With a `link` a run
    of its old judge is compared on the new judge's scale."""

    baseline: RunSource
    candidate: RunSource
    alpha: Alpha = 0.05
    test: ChosenTest = "auto"
    allow_signature_mismatch: bool = False
    estimate: EstimateKind = "judge"
    looks: Looks = "once"
    link: LinkId | None = Field(default=None, description="a link whose old judge scored a run, `ln_…`")
    seed: Seed = 0

    @model_validator(mode="after")
    def _check_given(self) -> ComparisonRequest:
        refuse_batches_only(self)
        return self


class GateTerms(Value):
    """The terms of a gate, over HTTP and in `saiten.toml`. Without rules but with a baseline run, no aspect may drop.

    `min_coverage` is the required share of verdicts. `check_judge` first scores the anchors, which costs a few dozen
    judge calls. `estimate` says what decides: the judge's ratings, or the judge's corrected by people's; `looks` at
    `any` lets these be looked at as often as anyone likes while people go on rating.
    """

    rules: Annotated[tuple[GateRule, ...], listed(maximum=64)] = ()
    min_coverage: Annotated[Finite, Field(ge=0, le=1)] = 0.98
    alpha: Alpha = 0.05
    test: ChosenTest = "auto"
    allow_signature_mismatch: bool = False
    estimate: EstimateKind = "judge"
    looks: Looks = "once"
    check_judge: bool = False


class GateRequest(GateTerms):
    """A run, the id of a batch or results, and the terms that it must meet. `judge_check` is the result of an earlier
    check of the judge.

    With a `link` the baseline is shown on the scale of the candidate's judge.

    With `coverage_only` nothing is compared and no rule is judged: the verdict is whether every aspect has enough
    verdicts, as in a run that is to be a baseline.
    """

    candidate: RunSource
    baseline: RunSource | None = None
    judge_check: JudgeCheck | None = None
    link: LinkId | None = Field(default=None, description="a link whose old judge scored a run, `ln_…`")
    sequence: BatchName | None = Field(
        default=None,
        description="the name of a sequence of builds that this one is the next of, all judged against one baseline "
        "with one `alpha` for the whole sequence; it begins with its first build",
    )
    coverage_only: bool = False
    keep: bool = Field(
        default=False,
        description="whether the verdict is stored, for `GET /v1/gates/{id}` and for the explorer; needs a key that "
        "can write",
    )
    metadata: Metadata = Field(
        default_factory=dict,
        description="what is kept with the verdict, such as the commit; without it, the candidate batch's own",
    )
    seed: Seed = 0

    @model_validator(mode="after")
    def _check_given(self) -> GateRequest:
        refuse_batches_only(self)
        return self


class GatePlan(GateTerms):
    """A gate before anything is scored: its terms, and the options of the batch that a file of items would become.

    The rules are checked against `candidate_rubric`, and `baseline_rubric` where there is a baseline.
    """

    name: BatchName | None = None
    rubric: RubricName = "ja-dialogue"
    path: PathChoice = "source"
    judge: JudgeOptions = Field(default_factory=JudgeOptions)
    metadata: Metadata = Field(default_factory=dict)
    budget_usd: Annotated[Finite, Field(ge=0)] | None = None
    candidate_rubric: RubricName | None = None
    baseline_rubric: RubricName | None = None
