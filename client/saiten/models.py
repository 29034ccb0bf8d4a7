"""What a service answers, and the parts of requests that have a shape of their own.

Answers are immutable and keep fields that this version does not know, so that a newer service can be asked: those are
attributes too, and `model_dump` returns them. The service's OpenAPI document (`/docs`) describes every field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field

BatchStatus = Literal["queued", "running", "paused", "completed", "cancelled"]
GateVerdict = Literal["pass", "fail", "inconclusive"]
Interval = tuple[float, float] | None
"""The lower and the upper end; None where the data show none."""

Figures = dict[str, float | None]
"""By name; None where the data do not define the figure."""

Matrix = dict[str, Figures]


class Answer(BaseModel):
    """The base class of everything that a service answers."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from saiten.notebook import render

        return render(self)


# Requests


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


@dataclass(frozen=True)
class Rule:
    """What a gate requires of an aspect, a composite or `NAME.blended`: a least mean, or a largest drop in scale
    points. Of the code of a `finding` in conversations, `kind:KIND` among them, or of the `measure` `faulty_turns`: a
    largest rise, in system turns per 100. `must_detect` is the
    drop or rise that the data must be able to show with 80 % power."""

    aspect: str | None = None
    _: KW_ONLY
    min_mean: float | None = None
    max_drop: float | None = None
    finding: str | None = None
    measure: str | None = None
    max_rise: float | None = None
    must_detect: float | None = None


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


# Evaluations


class Unrated(Answer):
    """Why an aspect has no rating."""

    reason: str
    detail: str


class AspectResult(Answer):
    """One aspect's verdict. `rating` is None where `unrated` says why; `mean` and `sd` are over the valid samples."""

    rating: int | None
    scale: tuple[int, int]
    label: str | None = None
    samples: tuple[int | None, ...] = ()
    mean: float | None
    sd: float | None = None
    expected: float | None = None
    off_scale_mass: float | None = None
    blended: float | None = None
    reason: str | None = None
    unrated: Unrated | None = None


class RelevanceResult(Answer):
    """The BERTScore relevance of the response; `unavailable` says why `score` is None."""

    score: float | None
    baseline: float | None
    baseline_source: str
    weight: float
    encoder: str | None
    truncated: bool = False
    unknown_token_share: float | None = None
    unavailable: str | None = None


class Translation(Answer):
    """The dialogue in English, with the characters that were billed. Of a conversation, `response` is the last turn,
    and `context` holds the turns before it."""

    context: tuple[str, ...]
    response: str
    source_language: str
    target_language: str
    engine: str
    characters: int
    persona: dict[str, Any] | None = None
    goal: str | None = None


class JudgeProvenance(Answer):
    """Which judge rated, with the parameters in force and those that its endpoint refused."""

    kind: str
    model: str
    fingerprint: str | None = None
    endpoint: str | None = None
    prompt: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    screen: bool = False
    lenient: bool = False


class Usage(Answer):
    """Calls, tokens and cost in USD. A cached call costs nothing; `cost_usd` is None if the price is not known."""

    judge_calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    translated_characters: int = 0
    cost_usd: float | None = 0.0


class BatchUsage(Usage):
    """What a batch spent. `estimated_calls` of the judge calls were lost with their worker, and are estimated."""

    estimated_calls: int = 0


class MaskedSpan(Answer):
    """A suspicious part of a text, which a second judgement masks: code points `start` to `end` of the text at
    `where`."""

    where: str
    start: int
    end: int


class Warned(Answer):
    """Something the reader of a score should know. `code` is stable, `where` a JSON pointer or a part's name."""

    code: str
    where: str
    detail: str
    spans: tuple[MaskedSpan, ...] = ()


class IntegrityReport(Answer):
    """The second judgement of a dialogue that looks like an attack, without the suspicious spans."""

    spans: tuple[MaskedSpan, ...]
    masked: Figures
    lift: Figures


class Finding(Answer):
    """A fault of one system turn; `turn` counts from 0 over all turns. The judge's findings have no `code`."""

    turn: int
    aspect: str | None = None
    code: str | None = None
    by: Literal["judge", "rule"]
    detail: str
    kind: str | None = None


class PathResult(Answer):
    """The result of one language path."""

    aspects: dict[str, AspectResult]
    composites: Figures
    relevance: RelevanceResult | None = None
    signature: str
    findings: tuple[Finding, ...] | None = None
    windows: tuple[tuple[int, int], ...] | None = None


class Paths(Answer):
    """Both language paths, and English minus source per aspect."""

    source: PathResult
    english: PathResult
    difference: Figures
    translation_sensitive: bool


class CallTrace(Answer):
    """One judge call and its raw reply."""

    prompt_digest: str
    sample: int
    attempt: int
    aspects: tuple[str, ...]
    reply: str | None
    finish_reason: str | None
    refusal: str | None = None
    model: str | None = None
    cached: bool = False


class RubricReference(Answer):
    """The rubric that rated. `version` and `digest` are None in results of earlier releases that do not tell."""

    id: str
    version: int | None = None
    digest: str | None = None


class ValidationSource(Answer):
    """The ratings that an aspect's state is based on."""

    batch: str | None
    items: int
    raters: int
    at: datetime


class AspectValidation(Answer):
    """How one aspect's ratings correlate with people's. `state` is validated, follows, not-shown or
    unknown."""

    n: int
    raters: int
    spearman: float | None
    pearson: float | None
    spearman_interval: Interval = None
    ceiling_spearman: float | None = None
    validated: bool = False
    state: str = "unknown"
    source: ValidationSource | None = None


class Reliability(Answer):
    """Whether the judge's ratings were compared with people's, and with what result."""

    validated: bool
    detail: str
    n: int | None = None
    at: datetime | None = None
    aspects: dict[str, AspectValidation] = Field(default_factory=dict)


class TurnScore(Answer):
    """The ratings of one system turn as a response; `evaluation` is the id under which they are stored."""

    turn: int
    evaluation: str
    aspects: dict[str, AspectResult]


class ExplainedRating(Answer):
    """An aspect as the judge rated it when it was asked again, with its reason."""

    rating: int | None
    reason: str | None = None


class Explanation(Answer):
    """What the judge said when it was asked again, for its reasons; the evaluation's own ratings stay."""

    aspects: dict[str, ExplainedRating]
    usage: Usage
    signature: str
    created_at: datetime


class Evaluation(Answer):
    """One scored response, or one conversation with its `findings`.

    `trace` and `request` are there where they were asked for.
    """

    id: str
    status: Literal["scored", "partial", "failed"]
    rubric: RubricReference
    path: str
    aspects: dict[str, AspectResult]
    composites: Figures
    relevance: RelevanceResult | None = None
    translation: Translation | None = None
    paths: Paths | None = None
    judge: JudgeProvenance
    usage: Usage
    warnings: tuple[Warned, ...] = ()
    signature: str
    signature_pieces: dict[str, str] = Field(default_factory=dict)
    cached: bool = False
    created_at: datetime
    metadata: dict[str, str] = Field(default_factory=dict)
    dialogue: str | None = None
    integrity: IntegrityReport | None = None
    reliability: Reliability | None = None
    findings: tuple[Finding, ...] | None = None
    windows: tuple[tuple[int, int], ...] | None = None
    turn_scores: tuple[TurnScore, ...] | None = None
    explained: Explanation | None = None
    trace: tuple[CallTrace, ...] | None = None
    request: dict[str, Any] | None = None


# Batches


class Failure(Answer):
    """Why a candidate has no evaluation: a stable `code` and one sentence."""

    code: str
    detail: str


class ResultRow(Answer):
    """A candidate's place in its batch, and its evaluation, or the `error` in place of one.

    `position` counts candidates from 0; `candidate` counts the responses of one item and is None where it has one.
    """

    position: int | None = None
    item: str | None = None
    candidate: int | None = None
    cluster: str | None = None
    dialogue: str | None = None
    ids_given: bool | None = None
    status: Literal["scored", "partial", "failed"]
    error: Failure | None = None
    id: str | None = None
    rubric: RubricReference | None = None
    path: str | None = None
    aspects: dict[str, AspectResult] = Field(default_factory=dict)
    composites: Figures = Field(default_factory=dict)
    relevance: RelevanceResult | None = None
    translation: Translation | None = None
    paths: Paths | None = None
    judge: JudgeProvenance | None = None
    usage: Usage | None = None
    warnings: tuple[Warned, ...] = ()
    findings: tuple[Finding, ...] | None = None
    windows: tuple[tuple[int, int], ...] | None = None
    signature: str | None = None
    signature_pieces: dict[str, str] = Field(default_factory=dict)
    explained: Explanation | None = None
    cached: bool = False
    created_at: datetime | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    integrity: IntegrityReport | None = None
    reliability: Reliability | None = None
    batch_metadata: dict[str, str] = Field(default_factory=dict)
    # With `texts`, where the service still has them.
    context: list[dict[str, str]] | None = None
    response: str | None = None
    turns: list[dict[str, str]] | None = None
    persona: dict[str, Any] | None = None
    goal: str | None = None


class Counts(Answer):
    """Candidates by state, which add up to `total`."""

    total: int
    queued: int
    scored: int
    partial: int
    failed: int
    expired: int = 0

    @property
    def done(self) -> int:
        """Candidates that have a result."""
        return self.total - self.queued


class JudgeOptions(Answer):
    """How the judge is called."""

    model: str | None = None
    samples: int = 1
    expected: bool = False
    explain: bool = False
    screen: bool | None = None
    lenient: bool | None = None
    temperature: float = 0.0
    max_tokens: int | None = None
    composites: str = "runs"
    extra: dict[str, Any] = Field(default_factory=dict)


class RelevanceOptions(Answer):
    """How relevance is blended in."""

    weight: float = 10.0
    baseline: str | float = "calibration"
    aspects: tuple[str, ...] | None = None


class Batch(Answer):
    """The current state of a batch. `progress` is the finished share, in [0, 1]."""

    id: str
    name: str | None = None
    status: BatchStatus
    pause_reason: str | None = None
    pause_detail: str | None = None
    waiting_reason: str | None = None
    mode: str = "live"
    rubric: str
    rubric_version: int | None = None
    path: str = "source"
    relevance: RelevanceOptions | None = None
    judge: JudgeOptions = JudgeOptions()
    budget_usd: float | None = None
    deadline_hours: float | None = None
    counts: Counts
    progress: float = 0.0
    rate_per_second: float | None = None
    estimated_end: datetime | None = None
    usage: BatchUsage = BatchUsage()
    signature: str | None = None
    signatures: dict[str, int] = Field(default_factory=dict)
    metadata: dict[str, str] = Field(default_factory=dict)
    texts: str = "keep"
    ids_given: bool | None = None
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def rubric_name(self) -> str:
        """The rubric, with its version if known: `id@version`."""
        return self.rubric if self.rubric_version is None else f"{self.rubric}@{self.rubric_version}"


class Spread(Answer):
    """`n` values: mean, sample standard deviation and the 95 % interval of the mean, or the `reason` for none."""

    n: int
    mean: float | None
    sd: float | None
    interval: Interval = None
    clusters: int = 0
    reason: str | None = None


class AspectSummary(Spread):
    """One aspect over all evaluations. `histogram` counts ratings by level."""

    unrated: int
    unrated_reasons: dict[str, int] = Field(default_factory=dict)
    histogram: dict[str, int]
    blended: Spread | None = None


class FindingRate(Answer):
    """System turns with a finding of one code, `rate` of them per 100, and in each third of the conversations."""

    conversations: int
    system_turns: int
    turns: int
    rate: float | None
    interval: Interval = None
    clusters: int = 0
    reason: str | None = None
    thirds: tuple[float | None, ...] = ()


class FindingSummary(Answer):
    """Findings of a batch of conversations: of `any` code, and by code, with `judge` for the judge's."""

    any: FindingRate
    codes: dict[str, FindingRate] = Field(default_factory=dict)


class FixFirst(Answer):
    """A kind of fault with its `weight`: the share of conversations with it times `effect`, by which `overall` is lower
    there; `interval` is the weight's."""

    kind: str
    conversations: int
    of: int
    rate: float
    effect: float | None
    weight: float | None
    interval: Interval = None
    reason: str | None = None


class BuildFixes(Answer):
    """What to fix first in one build of a system; either is None where the metadata do not name it."""

    system: str | None
    build: str | None
    fix_first: tuple[FixFirst, ...] = ()


class Coverage(Answer):
    """`rated` of `expected` verdicts; `share` is None if nothing is expected."""

    rated: int
    expected: int
    share: float | None


class Summary(Answer):
    """A batch's results in figures."""

    batch: str
    name: str | None = None
    status: BatchStatus
    rubric: str
    rubric_version: int | None = None
    counts: Counts
    coverage: Coverage
    aspects: dict[str, AspectSummary]
    composites: dict[str, Spread] = Field(default_factory=dict)
    warnings: dict[str, int] = Field(default_factory=dict)
    failures: dict[str, int] = Field(default_factory=dict)
    usage: Usage = Usage()
    signature: str | None = None
    signatures: dict[str, int] = Field(default_factory=dict)
    findings: FindingSummary | None = None
    faulty_turns: FindingRate | None = None
    kinds: dict[str, FindingRate] | None = None
    fix_first: tuple[FixFirst, ...] | None = None
    fix_first_by_system: dict[str, tuple[FixFirst, ...]] = Field(default_factory=dict)
    fix_first_by_build: tuple[BuildFixes, ...] = ()
    reliability: Reliability | None = None
    clusters: int | None = None


class EstimateReport(Answer):
    """Calls, tokens, characters and cost in USD of a batch if nothing is cached; None without a known price."""

    candidates: int
    distinct_candidates: int
    calls: int
    prompt_tokens: int
    prefix_tokens: int
    completion_tokens: int
    translated_characters: int
    cost_usd: float | None
    cost_usd_prefix_cached: float | None = None
    cost_usd_provider_batch: float | None = None
    unit_cost_usd: float | None = None
    assumptions: tuple[str, ...] = ()
    second_look_calls: int = 0
    second_look_cost_usd: float | None = 0.0


# Comparisons and gates


class Undefinable(Answer):
    """Figures of which some may be None; `undefined` has the reason under the figure's name."""

    undefined: dict[str, str] = Field(default_factory=dict)


class WinShare(Answer):
    """Contexts won of all, ties included in the denominator; None without contexts."""

    wins: int
    share: float | None
    interval: Interval = None


class PairedWins(Undefinable):
    """Two systems on the contexts that both answered with a value."""

    a: str
    b: str
    contexts: int
    a_wins: WinShare
    b_wins: WinShare
    ties: WinShare
    preference: float | None
    preference_interval: Interval = None
    left_out: int = 0


class Pairing(Answer):
    """Which items of the two runs belong together."""

    test: str
    pairs: int
    only_baseline: int
    only_candidate: int
    contexts_differ: int = 0
    baseline_items: int
    baseline_responses: int
    candidate_items: int
    candidate_responses: int
    reason: str
    unit: str = "item"
    clusters: int = 0


class Measure(Undefinable):
    """One aspect, composite or blended aspect in both runs. Differences are candidate minus baseline in scale points.

    `p_adjusted` is p by Holm over the measures of the same kind; `smallest_detectable` is the difference that these
    data show with 80 % power. `doubt` says why a difference is not shown that sign flips alone would show. Where `best`
    is the best value, minus the distance from it is compared.
    """

    kind: str
    test: str
    n: int
    n_baseline: int
    n_candidate: int
    clusters: int = 0
    clusters_baseline: int = 0
    clusters_candidate: int = 0
    baseline_mean: float | None
    candidate_mean: float | None
    difference: float | None
    interval: Interval = None
    standard_error: float | None = None
    freedom: float | None = None
    p: float | None
    p_adjusted: float | None
    cliffs_delta: float | None = None
    smallest_detectable: float | None = None
    verdict: Literal["better", "worse", "inconclusive"]
    wins: PairedWins | None = None
    best: float | None = None
    baseline_rating_mean: float | None = None
    candidate_rating_mean: float | None = None
    ranks_favour: str = "neither"
    differing: int = 0
    doubt: str = ""


class RunCoverage(Coverage):
    """How many of the expected verdicts a run of so many candidates has."""

    candidates: int


class MeanFigure(Answer):
    """A mean with its interval."""

    mean: float
    interval: Interval = None


class CorrectedFigure(MeanFigure):
    """A mean on people's scale. `weight`, in JSON `lambda`, is the judge's, from 0 (people alone) to 1."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    weight: float = Field(alias="lambda")
    standard_error: float
    severity: bool = False
    interval_by_these_raters: Interval = None


class SharedRaters(Answer):
    """The people who rated both sides of a difference, and how many responses of each. `needed` says how many they must
    have rated of each where there is no difference."""

    raters: int
    baseline: int
    candidate: int
    needed: int | None = None


class CorrectedMeasure(Answer):
    """One aspect or composite of both runs on people's scale."""

    rated_baseline: int
    rated_candidate: int
    baseline: CorrectedFigure | None
    candidate: CorrectedFigure | None
    difference: float | None
    interval: Interval = None
    standard_error: float | None = None
    p: float | None = None
    p_adjusted: float | None = None
    smallest_detectable: float | None = None
    verdict: str
    refused: str | None = None
    ratings_needed: int | None = None
    shared: SharedRaters | None = None
    notes: tuple[str, ...] = ()


class LinkMark(Answer):
    """That a comparison rests on a link: its `runs` are on another judge's scale, without the aspects in `refused`."""

    id: str
    old_signature: str
    new_signature: str
    runs: tuple[str, ...]
    refused: dict[str, str] = Field(default_factory=dict)


class LinkedLevel(Answer):
    """A level of the old judge on the new judge's scale."""

    value: float
    interval: tuple[float, float] | None = None


class AspectLink(Answer):
    """One aspect of both judges: linked, or refused with the reason."""

    state: Literal["linked", "refused"]
    reason: str | None = None
    method: str | None = None
    n: int
    clusters: int = 0
    correlation: float | None = None
    corrected_correlation: float | None = None
    table: dict[str, LinkedLevel] = Field(default_factory=dict)
    margin: float | None = None
    pairs_needed: int | None = None


class Link(Answer):
    """How the ratings of the old batch's judge read on the scale of the new one's."""

    id: str
    created_at: datetime
    old: str
    new: str
    old_signature: str
    new_signature: str
    unpaired: int = 0
    aspects: dict[str, AspectLink]


class Links(Answer):
    """All links of a project, newest first."""

    items: tuple[Link, ...]


class Baseline(Answer):
    """The run that the runs of a name are compared with."""

    name: str
    batch: str
    pinned_at: datetime


class JudgePause(Answer):
    """For how long the judge's endpoint is not called, because it asked for a pause: 0 if it may be called; and for how
    long the translator's."""

    seconds: float
    until: datetime | None
    translator_seconds: float = 0.0


class Baselines(Answer):
    """All pinned baselines of a project, in the order of their names."""

    items: tuple[Baseline, ...]


class Comparison(Answer):
    """Two runs, measure by measure; `signature_differences` holds (baseline, candidate) by piece of the signature."""

    baseline: str
    candidate: str
    alpha: float
    pairing: Pairing
    aspects: dict[str, Measure]
    composites: dict[str, Measure] = Field(default_factory=dict)
    blended: dict[str, Measure] = Field(default_factory=dict)
    findings: dict[str, Measure] = Field(default_factory=dict)
    kinds: dict[str, Measure] = Field(default_factory=dict)
    faulty_turns: Measure | None = None
    coverage: dict[str, RunCoverage]
    signature_differences: dict[str, tuple[str, str]] = Field(default_factory=dict)
    link: LinkMark | None = None
    estimate: str = "judge"
    looks: str = "once"
    corrected: dict[str, CorrectedMeasure] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reliability: dict[str, str] = Field(default_factory=dict)


class GateReason(Answer):
    """One finding of the gate: a stable `code`, and a sentence with the figures."""

    code: str
    aspect: str | None = None
    finding: str | None = None
    measure: str | None = None
    verdict: GateVerdict
    detail: str
    about: str = "rule"
    rule: int | None = None
    assertion: str | None = None
    """What the command itself checked of every response, as `contains '円'`."""
    detectable: float | None = None


class SequenceDrop(Answer):
    """A drop that is not mended: the build that failed by it first, the first it was found in, and its size."""

    night: int
    first: int
    size: float


class SequenceBuild(Answer):
    """A build of a sequence, by its place from 1; `batch` is None once it was erased."""

    night: int
    batch: str | None
    judged_at: datetime
    verdict: GateVerdict
    drops: dict[str, SequenceDrop] | None = None


class GateSequence(Answer):
    """Builds that gates judge against one baseline, with one `alpha` for all of them together."""

    name: str
    baseline: str
    alpha: float
    started_at: datetime
    builds: tuple[SequenceBuild, ...] = ()


class GateSequences(Answer):
    """All sequences of a project in the order of their names, without their builds."""

    items: tuple[GateSequence, ...]


class SequenceMark(Answer):
    """A gate's place in a sequence, what it may spend of `alpha`, and by measure the noise and what is not
    mended."""

    name: str
    night: int
    alpha: float
    level: float
    builds: int
    noise: dict[str, float] = Field(default_factory=dict)
    drops: dict[str, SequenceDrop] = Field(default_factory=dict)


class CaseSide(Answer):
    """One run's response to a case. `rating` is of the case's aspect; `reasons` are the judge's, with `asked` those
    that it gave when it was asked again, with the ratings that went with them."""

    evaluation: str | None = None
    response: str | None = None
    rating: float | None = None
    reasons: dict[str, str] = Field(default_factory=dict)
    asked: dict[str, int | None] = Field(default_factory=dict)


class GateCase(Answer):
    """One of the items that speak most against the candidate; `said` is what was answered."""

    item: str
    aspect: str
    said: str | None = None
    candidate: CaseSide
    baseline: CaseSide | None = None


class GateReport(Answer):
    """The verdict for a CI job, with its reasons: those that decided first. A kept one has an `id`, the moment `at`
    which it was kept, the ids of both `runs` (None for results), and `metadata`.

    `saiten gate` adds what a reader wants beside the service's answer: what to call the runs (`names`, by what the
    report calls them), the worst `cases`, why not all of them have `unexplained` reasons, and the explorer's `address`.
    """

    id: str | None = None
    at: datetime | None = None
    runs: dict[str, str | None] | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    verdict: GateVerdict
    reasons: tuple[GateReason, ...]
    alpha: float
    min_coverage: float
    coverage: RunCoverage
    rules: tuple[Rule, ...] = ()
    comparison: Comparison | None = None
    estimate: str = "judge"
    looks: str = "once"
    corrected: dict[str, CorrectedMeasure] = Field(default_factory=dict)
    sequence: SequenceMark | None = None
    candidate: str = ""
    signatures: dict[str, int] = Field(default_factory=dict)
    reliability: dict[str, str] = Field(default_factory=dict)
    names: dict[str, str] = Field(default_factory=dict)
    cases: tuple[GateCase, ...] = ()
    unexplained: str | None = None
    address: str | None = None

    def call(self, run: str) -> str:
        """What a reader calls a run of this report."""
        return self.names.get(run, run)


class AspectDrift(Undefinable):
    """The drift of one aspect over `n` anchors; `shift` is the mean now minus the mean then."""

    n: int
    shift: float | None
    p: float | None
    p_adjusted: float | None = None
    changed: int
    lost: int = 0
    noise: float
    p_changed: float | None = None
    detectable: float | None = None
    intended: float | None = None
    moved: bool


class PooledDrift(Answer):
    """All aspects together."""

    p_shift: float | None = None
    p_changed: float | None = None
    moved: bool = False


class AnchorRatings(Answer):
    """A judge's ratings of the anchors, by anchor and aspect, one per run. A caller may keep them as a reference."""

    rubric: str
    anchors: str
    asked: str
    judge: str
    signature: str
    at: datetime
    ratings: dict[str, dict[str, tuple[int | None, ...]]]


class JudgeCheck(Answer):
    """Whether the judge still rates the anchors as it did. `recorded`: there was nothing to compare with yet."""

    verdict: Literal["steady", "moved", "recorded"]
    detail: str
    rubric: str
    judge: str
    anchors: int
    unrated: int
    alpha: float
    aspects: dict[str, AspectDrift]
    pooled: PooledDrift | None = None
    signature_differences: dict[str, tuple[str, str]] = Field(default_factory=dict)
    reference_at: datetime | None = None
    ratings: AnchorRatings


# Validations


class ValidEvaluations(Answer):
    """Valid requests: for each the digest of the dialogue that it is a turn of; None stands alone."""

    clusters: tuple[str | None, ...]


class ValidRatings(Answer):
    """Valid ratings, and how many."""

    ratings: int


class ValidGate(Answer):
    """A gate that can be judged, and by how many rules."""

    rules: int


# Human ratings


class EarlierRating(Answer):
    """What a rating said before its rater corrected it."""

    ratings: dict[str, float]
    faulty_turns: tuple[int, ...] | None = None
    created_at: datetime


class Rating(Answer):
    """One rater's ratings of one response, as the service keeps them."""

    item: str | None = None
    evaluation: str | None = None
    batch: str | None = None
    candidate: int | None = None
    system: str | None = None
    rater: str
    ratings: dict[str, float]
    comment: str | None = None
    simulated: bool = False
    faulty_turns: tuple[int, ...] | None = None
    starred: bool = False
    created_at: datetime | None = None
    earlier: tuple[EarlierRating, ...] | None = None


class RatingsAdded(Answer):
    """How many ratings are new, and how many replaced an earlier one of the same rater."""

    added: int
    replaced: int


class RoundOptions(TypedDict, total=False):
    """What a rating round draws, and for how many raters."""

    items: int
    raters_per_item: int
    items_per_rater: int | None
    seed: int
    choose: Literal["random", "informative", "stratified", "chosen"]
    positions: Sequence[int]
    aspect: str | None
    judges: Sequence[str]
    shared_with: str | None


class RoundProgress(Answer):
    """How far a round is: `ratings` of those `wanted`, responses that are `complete`, and how many each rater rated."""

    ratings: int
    wanted: int
    complete: int
    raters: dict[str, int]


class SharedProgress(Answer):
    """How many people rated in a round and in the one that it shares items with, how many responses of each they rated,
    and how many are needed."""

    round: str
    raters: int
    here: int
    there: int
    needed: int


class Round(Answer):
    """A rating round. `signals` are those by which an informative choice was made; `note` says where there were none.
    `address` is its page's, below the service's."""

    id: str
    batch: str
    options: dict[str, Any]
    drawn: int
    signals: tuple[str, ...] = ()
    note: str | None = None
    created_at: datetime
    closed_at: datetime | None = None
    progress: RoundProgress
    address: str
    shared: SharedProgress | None = None


class DrawnItem(Answer):
    """A response of a round, with the probability with which it was drawn; None in rounds that kept none."""

    position: int
    item: str
    candidate: int | None = None
    probability: float | None = None


class Exclusion(Answer):
    """A rater, or a rating round, whose ratings do not count."""

    rater: str | None = None
    round: str | None = None
    created_at: datetime | None = None


# Rubrics, the service and its governance


class RubricAspect(Answer):
    """An aspect of a rubric. A list of rubrics has `scale`; a rubric that is read by itself has its `levels`."""

    id: str
    name: dict[str, str]
    scale: tuple[int, int] | None = None
    blended: bool = False
    question: dict[str, str] = Field(default_factory=dict)
    levels: tuple[dict[str, Any], ...] = ()
    best: int | None = None


class Rubric(Answer):
    """A rubric. A list of rubrics has `versions`, and ids in place of the composites."""

    id: str
    version: int
    versions: tuple[int, ...] = ()
    digest: str
    title: dict[str, str]
    source_language: str
    languages: tuple[str, ...] = ()
    calls: str = "joint"
    task: dict[str, str] = Field(default_factory=dict)
    aspects: tuple[RubricAspect, ...]
    composites: tuple[str | dict[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """`id@version`."""
        return f"{self.id}@{self.version}"


class JudgeInfo(Answer):
    """The judge of a service; `baseline`: it is the embedded one."""

    kind: str
    model: str | None = None
    baseline: bool = False


class Info(Answer):
    """A service: its version, judge, rubrics and limits, the bytes that the caller's project stores, and the caller's
    key with its limits and today's cost. A limit that is None does not bound."""

    version: str
    judge: JudgeInfo
    translator: str | None = None
    encoder: dict[str, Any] | str | None = None
    rubrics: tuple[str, ...] = ()
    rubric_versions: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    limits: dict[str, int | None] = Field(default_factory=dict)
    key: dict[str, Any] | None = None
    stored_bytes: int = 0


class AuditEvent(Answer):
    """Who did what to what."""

    at: datetime
    project: str
    actor: str
    action: str
    target: str
    detail: dict[str, Any] = Field(default_factory=dict)
    number: int = 0


class ProjectPolicy(Answer):
    """How suspected attacks are handled, and how long texts are kept."""

    integrity: str = "flag"
    texts: str = "keep"
    after_days: float = 30.0


class ErasureReport(Answer):
    """What was erased: whole batches, candidates of other batches, single evaluations, and datasets' items."""

    batches: int
    candidates: int
    evaluations: int
    dataset_items: int = 0


# Analyses


class RatingsUsed(Answer):
    """The human ratings of a batch that an analysis uses."""

    counted: int
    simulated: bool
    simulated_left_out: int
    excluded: int


class Report(Answer):
    """The base class of an analysis's report; `ratings_used` is None where the data were sent along."""

    ratings_used: RatingsUsed | None = None


class Confusion(Answer):
    """How often each value of `judge` (a column) stands beside each median of `people` (a row)."""

    people: tuple[float, ...]
    judge: tuple[float, ...]
    counts: tuple[tuple[int, ...], ...]


class AspectAgreement(Undefinable):
    """How far raters agree on one aspect."""

    n: int
    left_out: int
    raters: int
    mean: float | None
    sd: float | None
    spearman: float | None
    pearson: float | None
    krippendorff_alpha: float | None
    pairwise_spearman: float | None = None
    pairwise_pearson: float | None = None
    cohen_kappa: float | None = None
    fleiss_kappa: float | None = None
    icc: float | None = None
    confusion: Confusion | None = None
    compared: int = 0
    by_rater: Figures = Field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Correlations(Answer):
    """Between aspects, over the items' rater means."""

    spearman: Matrix
    pearson: Matrix
    n: dict[str, dict[str, int]] = Field(default_factory=dict)
    undefined: dict[str, dict[str, str]] = Field(default_factory=dict)


class AgreementReport(Report):
    """How far raters agree."""

    systems: int
    items: int
    raters: int
    ratings: int
    aspects: dict[str, AspectAgreement]
    correlations: Correlations


class Ceiling(Undefinable):
    """The correlation of a rater with the others: a reference for a metric's correlation."""

    raters: int
    spearman: float | None
    pearson: float | None


class SystemLevel(Undefinable):
    """The correlation of the means of `n` systems."""

    n: int
    spearman: float | None
    pearson: float | None
    kendall: float | None


class WithinSystems(Undefinable):
    """Spearman's ρ within systems, of the `n` items that two named raters or more rated: what a judge's badge rests on.
    The interval holds for all aspects at once, however often it is looked at."""

    n: int
    systems: int
    raters: int
    spearman: float | None
    interval: Interval = None
    agreement: float | None


class AspectCorrelation(Undefinable):
    """Scores compared with the rater means of the same items. `bias` is the mean score minus the mean rating."""

    n: int
    left_out: int
    spearman: float | None
    pearson: float | None
    kendall: float | None
    spearman_interval: Interval = None
    pearson_interval: Interval = None
    kendall_interval: Interval = None
    score_mean: float | None
    rating_mean: float | None
    bias: float | None
    bias_interval: Interval = None
    contexts: int = 0
    clusters: int = 0
    resamples: int = 0
    ceiling: Ceiling | None = None
    system_level: SystemLevel | None = None
    within_systems: WithinSystems | None = None
    notes: tuple[str, ...] = ()


class CorrelationReport(Report):
    """Scores against ratings, by aspect."""

    systems: int
    items: int
    raters: int
    clusters: int | None = None
    resamples: int
    seed: int
    aspects: dict[str, AspectCorrelation]
    unmatched: dict[str, str] = Field(default_factory=dict)


class ScorerCorrelation(Undefinable):
    """One scorer's values compared with the rater means, on the items that all scorers of the aspect have."""

    spearman: float | None
    spearman_interval: Interval = None
    pearson: float | None
    pearson_interval: Interval = None
    kendall: float | None
    kendall_interval: Interval = None
    confusion: Confusion | None = None


class ScorerDifference(Answer):
    """How far two scorers' Spearman correlations lie apart; `p` is two-sided, after Holm's correction."""

    better: str
    worse: str
    difference: float
    interval: Interval = None
    p: float | None = None


class AspectScorers(Answer):
    """The scorers of one aspect, beside what raters reach."""

    n: int
    left_out: int = 0
    clusters: int = 0
    resamples: int = 0
    ceiling: Ceiling | None = None
    scorers: dict[str, ScorerCorrelation]
    differences: tuple[ScorerDifference, ...] = ()
    missing: dict[str, int] = Field(default_factory=dict)


class JudgesReport(Report):
    """Scorers side by side against the same ratings."""

    systems: int
    items: int
    raters: int
    clusters: int | None = None
    resamples: int
    seed: int
    aspects: dict[str, AspectScorers]
    unmatched: dict[str, str] = Field(default_factory=dict)
    records: list[dict[str, Any]] | None = None


class SignificantPair(Answer):
    """System `better` is better than system `worse`."""

    better: str
    worse: str
    p: float


class AspectPairs(Undefinable):
    """The pairs of systems that the aspect tells apart."""

    pairs: int
    tested: int = 0
    n: int
    left_out: int
    significant: tuple[SignificantPair, ...]


class Decorrelated(Undefinable):
    """The pairs of the higher aspect after the lower one is removed from it."""

    method: str
    n: int
    left_out: int
    common_change: int | None
    higher_only_change: int | None
    new: int | None


class Dependency(Answer):
    """`higher` depends on `lower`."""

    lower: str
    higher: str
    common: int
    higher_only: int
    decorrelated: Decorrelated


class HierarchyReport(Report, Undefinable):
    """Which aspect merely follows another."""

    alpha: float
    systems: int
    items: int
    aspects: dict[str, AspectPairs]
    dependencies: tuple[Dependency, ...]
    best: dict[str, float] = Field(default_factory=dict)


class CompositeFit(Report, Undefinable):
    """The weights of a linear composite by least squares, beside those that the rubric declares."""

    composite: str
    target: str
    n: int
    clusters: int = 0
    left_out: int
    train: int
    test: int
    seed: int
    weights: Figures
    intervals: dict[str, Interval]
    declared: dict[str, float]
    pearson: float | None
    declared_pearson: float | None


class BlendFit(Report, Undefinable):
    """The weight of the blend of a rating with the relevance."""

    aspect: str
    n: int
    clusters: int = 0
    left_out: int
    folds: int
    seed: int
    statistic: str
    weight: float | None
    interval: Interval = None
    correlation: float | None
    unblended: float | None
    default: float | None
    tried: tuple[float, float] = (0.0, 50.0)
    resamples: int = 0
    notes: tuple[str, ...] = ()


class AspectWins(Undefinable):
    """A context is won by the one system with the highest value, tied where several have it."""

    contexts: int
    left_out: int
    systems: dict[str, WinShare]
    ties: WinShare
    pairs: tuple[PairedWins, ...]


class WinReport(Report, Undefinable):
    """How often each system responds best, by aspect."""

    systems: tuple[str, ...]
    contexts: int
    clusters: int | None = None
    aspects: dict[str, AspectWins]
    best: dict[str, float] = Field(default_factory=dict)


class LevelShare(Answer):
    """The share of items at one level of the scale."""

    judge: float
    human: float | None
    corrected: CorrectedFigure | None
    refused: str | None = None


class CorrectedAspect(Answer):
    """One system's means of one aspect. `corrected` is None where `refused` says why."""

    judged: int
    rated: int
    clusters: int
    rated_clusters: int
    judge: MeanFigure
    human: MeanFigure | None
    corrected: CorrectedFigure | None
    refused: str | None = None
    ratings_needed: int | None = None
    ratings_for_margin: int | None = None
    ratings_for_half_width: int | None = None
    raters: int = 0
    raters_for_half_width: int | None = None
    levels: dict[str, LevelShare] = Field(default_factory=dict)
    left_out: int = 0
    notes: tuple[str, ...] = ()


class CorrectedSystem(Answer):
    """One system's means by aspect."""

    aspects: dict[str, CorrectedAspect]


class CorrectedDifference(Answer):
    """Candidate minus baseline."""

    difference: float
    interval: Interval = None
    p: float | None
    standard_error: float | None = None
    freedom: float | None = None


class AspectDifference(Answer):
    """The difference of two systems in one aspect, on the judge's scale and on people's."""

    judge: CorrectedDifference
    corrected: CorrectedDifference | None
    refused: str | None = None
    shared: SharedRaters | None = None


class SystemsDifference(Answer):
    """Two systems, aspect by aspect."""

    baseline: str
    candidate: str
    aspects: dict[str, AspectDifference]


class CorrectedReport(Report):
    """A judge's means corrected by people's ratings."""

    alpha: float
    systems: dict[str, CorrectedSystem]
    differences: tuple[SystemsDifference, ...]
    unmatched: dict[str, str] = Field(default_factory=dict)
    looks: str = "once"
    margin: float | None = None


REPORTS: Mapping[str, type[Report]] = {
    "agreement": AgreementReport,
    "correlation": CorrelationReport,
    "judges": JudgesReport,
    "hierarchy": HierarchyReport,
    "composite-fit": CompositeFit,
    "blend-fit": BlendFit,
    "win-rates": WinReport,
    "corrected": CorrectedReport,
}
"""The report of each analysis. One that is not listed has a `Report` with what the service answers."""
