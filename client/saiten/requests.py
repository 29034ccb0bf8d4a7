"""The parts of requests that have a shape of their own. The service's OpenAPI document (`/docs`) describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from saiten.answers import AnchorRatings, JudgeCheck

BatchStatus = Literal["queued", "running", "paused", "completed", "cancelled"]


class Utterance(TypedDict):
    """One utterance of a context."""

    speaker: str
    text: str


Context = Sequence[str | Utterance]
"""Oldest first. Strings alternate between two speakers; the last is the one who is answered."""


class Item(TypedDict, total=False):
    """One dialogue context with the response to be scored, or with several candidates for it."""

    id: str
    context: Context
    response: str
    responses: Sequence[str]
    reference: str | Sequence[str]
    metadata: Mapping[str, str]
    dialogue: str


class EvaluationOptions(TypedDict, total=False):
    """How responses are scored; what is left out has the service's default. `relevance` None switches the blend off."""

    rubric: str
    path: Literal["source", "english", "both"]
    relevance: Mapping[str, Any] | None
    judge: Mapping[str, Any]
    integrity: Literal["flag", "refuse", "judge-twice"]
    metadata: Mapping[str, str]


class ConversationOptions(TypedDict, total=False):
    """How a conversation is rated; what is left out has the service's default."""

    rubric: str
    path: Literal["source", "english", "both"]
    judge: Mapping[str, Any]
    integrity: Literal["flag", "refuse", "judge-twice"]
    score_turns: Mapping[str, Any]
    infer_roles: bool
    metadata: Mapping[str, str]


class BatchOptions(EvaluationOptions, total=False):
    """What the items of a batch share. It pauses before the judge's bill passes `budget_usd`."""

    name: str
    budget_usd: float
    mode: Literal["live", "provider-batch"]
    provider_batch: Mapping[str, Any]
    deadline_hours: float


class PreferenceOptions(TypedDict, total=False):
    """How two are compared; what is left out has the service's default."""

    rubric: str
    path: Literal["source", "english"]
    aspects: Sequence[str]
    orders: Literal["both", "random"]
    judge: Mapping[str, Any]
    integrity: Literal["flag", "refuse", "judge-twice"]
    metadata: Mapping[str, str]


class PreferenceRunOptions(PreferenceOptions, total=False):
    """How runs are compared in pairs. The run pauses before the judge's bill passes `budget_usd`."""

    name: str
    pairs: Literal["all", "baseline", "active"]
    baseline: str
    stop: Literal["all", "resolved"]
    alpha: float
    budget_calls: int
    budget_usd: float
    mode: Literal["live", "provider-batch"]
    provider_batch: Mapping[str, Any]
    deadline_hours: float
    allow_signature_mismatch: bool


class MonitorTerms(TypedDict, total=False):
    """What a monitor samples and does; what is left out has the service's default."""

    name: str
    rubric: str
    filter: Mapping[str, str]
    rate: float
    strata: Sequence[Mapping[str, Any]]
    idle_seconds: float
    max_turns: int
    window: Literal["hour", "day"]
    judge: Mapping[str, Any]
    budget_usd_per_day: float | None
    alarm: Mapping[str, Any] | None
    redact: Sequence[Literal["email", "phone", "number", "name"]]
    send_to: Sequence[Mapping[str, str]]


class ComparisonOptions(TypedDict, total=False):
    """How two batches are compared."""

    alpha: float
    test: Literal["auto", "paired", "unpaired"]
    allow_signature_mismatch: bool
    estimate: Literal["judge", "corrected"]
    looks: Literal["once", "any"]
    link: str
    seed: int


class GateTerms(ComparisonOptions, total=False):
    """The terms of a gate beside its rules. `judge_check` is the result of an earlier check. `coverage_only` compares
    nothing: does the run have enough verdicts to be a baseline? `sequence` names the sequence of builds that the
    candidate is the next of. `keep` stores the verdict, with `metadata`."""

    min_coverage: float
    check_judge: bool
    judge_check: JudgeCheck
    coverage_only: bool
    sequence: str
    keep: bool
    metadata: Mapping[str, str]


class JudgeCheckOptions(TypedDict, total=False):
    """Which judge is checked. `reference` is the `ratings` of an earlier check; `record` replaces the stored ones."""

    rubric: str
    path: Literal["source", "english"]
    judge: Mapping[str, Any]
    alpha: float
    record: bool
    reference: AnchorRatings


class RankingOptions(TypedDict, total=False):
    """The options of a ranking; docs/rankings.md describes them."""

    alpha: float
    ties: Literal["davidson", "ordinal"]
    clusters: Literal["dialogue", "item", "none"]
    by: Literal["judge", "people", "all"]
    aspect: str
    penalty: float


class AnalysisOptions(TypedDict, total=False):
    """The options of the analyses, which each take some of them; docs/analyses.md says which."""

    data: Sequence[Mapping[str, Any]]
    rubric: str
    aspects: Sequence[str]
    scores_field: str
    labels: Mapping[str, float]
    label_aspect: str
    match: Mapping[str, str]
    alpha: float
    method: Literal["principal-axis", "residual"]
    values: Literal["ratings", "scores"]
    composite: str
    target: str
    aspect: str
    statistic: Literal["spearman", "pearson"]
    folds: int
    resamples: int
    seed: int
    units: Literal["clusters", "independent"]
    quantile: Literal["t", "normal"]
    ranges: Mapping[str, tuple[float, float]]
    records: bool


class RoundSize(TypedDict, total=False):
    """How much a round draws, and for how many raters."""

    items: int
    raters_per_item: int
    items_per_rater: int | None
    seed: int


class RoundOptions(RoundSize, total=False):
    """What a rating round draws, and for how many raters."""

    choose: Literal["random", "informative", "stratified", "worst", "chosen"]
    positions: Sequence[int]
    aspect: str | None
    judges: Sequence[str]
    shared_with: str | None
