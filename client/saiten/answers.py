"""What the service answers. Generated from its OpenAPI document: change the service, and run `make pages`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from saiten.answer import Answer, CandidateCounts, RatedBatch, Report, Sequence, VersionedRubric
from saiten.rules import Rule


class AlarmOptions(Answer):
    """What raises an alarm, and how often one may be false."""

    aspects: Sequence[str] | None = None
    """aspects of the rubric that are watched; null: all"""
    reference_days: int = 14
    """days from the first conversation on that later ones are compared with"""
    alpha: float = 0.05
    """the most probable number of false alarms over the monitor's whole life"""


class AnchorRatings(Answer):
    """
    A judge's ratings of the anchors: by anchor and aspect, one value per run, null if it gave none.

    `anchors` is the digest of the anchor set and `asked` that of model, options, language path and rubric. Drift can
    only be measured if both are equal. `signature` describes the endpoint's answer, which may change on its own.
    """

    rubric: str
    """the rubric's id, or `id@version`; without a version it is the newest"""
    anchors: str
    """digest of the set of anchors"""
    asked: str
    """digest of model, options, language path and rubric"""
    judge: str
    """the judge's kind and model"""
    signature: str
    """how the scores were made, in one line; null where the results do not share one"""
    at: datetime
    """when"""
    ratings: Mapping[str, Mapping[str, Sequence[int | None]]] = {}
    """by anchor and aspect, a rating for each run, null where there was none"""


class AspectDrift(Answer):
    """
    The drift of one aspect over `n` anchors that were asked both then and now.

    `shift` is the mean now minus the mean then, over anchors rated both times; `p` is the two-sided probability of so
    large a shift if the runs of then and now are exchangeable. `changed` counts anchors whose usual rating differs
    from that of the stored runs; `lost` of them had a rating then and have none now. `noise` is the share that differs
    between the stored runs themselves. `p_adjusted` is `p`, and `p_changed` the probability of so many changes, both
    adjusted for all tests of the check. `detectable` is the smallest shift found with 80% power, given the noise of
    the stored runs; null if each anchor has a single stored run. `intended` is the share of anchors whose usual rating
    now equals the intended one.
    """

    n: int
    """how many values the figures are of"""
    shift: float | None = None
    """mean now minus mean then, over anchors rated both times"""
    p: float | None = None
    """two-sided probability of so large a shift by chance"""
    p_adjusted: float | None = None
    """p, adjusted for all tests of the check"""
    changed: int
    """anchors whose usual rating differs from that of the stored runs"""
    lost: int = 0
    """of those, anchors that had a rating then and have none now"""
    noise: float
    """share of the anchors that differ between the stored runs themselves"""
    p_changed: float | None = None
    """probability of so many changes by chance, adjusted for all tests of the check"""
    detectable: float | None = None
    """the smallest shift found with 80% power; null if each anchor has a single stored run"""
    intended: float | None = None
    """share of the anchors whose usual rating is the intended one"""
    moved: bool
    """whether it moved beyond chance"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class AuditEvent(Answer):
    """
    Who (`actor`: a key's id, `cli:` and the user's name, or `anonymous`) did what to what in which project.

    `detail` holds Saiten's own words and numbers, never a dialogue's text or a key. `number` increases, and is 0 before
    the event is stored.
    """

    at: datetime
    """when"""
    project: str
    """the project"""
    actor: str
    """who did it: a key's id, `cli:` and a user's name, or `anonymous`"""
    action: str
    """what was done, such as `key.created`"""
    target: str
    """what it was done to"""
    detail: Mapping[str, Any] = {}
    """Saiten's own words and numbers; never a dialogue's text or a key"""
    number: int = 0
    """increases with each event"""


class AuditPage(Answer):
    """Events, newest first. `next` is the value of `before` for the next page; null on the last."""

    items: Sequence[AuditEvent] = ()
    """the events, newest first"""
    next: int | None = None
    """leads to the next page; null on the last"""


class Baseline(Answer):
    """The run that a project compares the runs of one name with. It is unpinned when its batch is erased."""

    name: str
    """the name of the runs that are compared with it"""
    batch: str
    """the batch whose results and ratings are analysed"""
    pinned_at: datetime
    """when it was pinned"""


class Baselines(Answer):
    """All pinned baselines of the project."""

    items: Sequence[Baseline] = ()
    """in the order of their names"""


class BatchUsage(Answer):
    """
    What a batch spent. `estimated_calls` are those of `judge_calls` that dead workers had begun or may have begun.

    Their tokens and cost are the average of the batch's other candidates, or the estimate.
    """

    judge_calls: int = 0
    """calls of the judge"""
    prompt_tokens: int = 0
    """tokens of the prompts"""
    cached_tokens: int = 0
    """of the prompt tokens, those that the provider had cached"""
    completion_tokens: int = 0
    """tokens of the judge's replies"""
    translated_characters: int = 0
    """characters that the translator billed"""
    cost_usd: float | None = 0.0
    """what it cost in USD; null if the model's price is not known"""
    estimated_calls: int = 0
    """of the judge calls, those that workers which died may have made"""


class CallTrace(Answer):
    """One judge call, stored so that a rating can be traced to the reply that it came from."""

    prompt_digest: str
    """SHA-256 of the prompt"""
    sample: int
    """number of the sample, from 0"""
    attempt: int
    """which attempt at the sample this was, from 0"""
    aspects: Sequence[str] = ()
    """the aspects that the call asked for"""
    reply: str | None = None
    """the judge's raw reply"""
    finish_reason: str | None = None
    """why the judge stopped writing"""
    refusal: str | None = None
    """the judge's words where it refused"""
    model: str | None = None
    """the model that answered"""
    cached: bool = False
    """whether the reply came from the cache"""


class Ceiling(Answer):
    """
    The correlation of a rater with the others: a reference for a metric's correlation.

    It is a conservative one: a rater is compared with the other raters, the metric with all of them.
    """

    raters: int
    """named raters on the items that have a score"""
    spearman: float | None = None
    """Spearman's ρ; null where it is undefined"""
    pearson: float | None = None
    """Pearson's r; null where it is undefined"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class ChoiceCounts(Answer):
    """
    Verdicts on one aspect of the pairs of two runs. `missing` has those without a preference; `position_dependent`
    of the ties are those whose two orders gave opposite answers.
    """

    first: int = 0
    """pairs of which the first is better"""
    second: int = 0
    """pairs of which the second is better"""
    tie: int = 0
    """pairs of which neither is better"""
    missing: int = 0
    """pairs without a preference"""
    position_dependent: int = 0
    """ties whose two orders gave opposite answers"""


class Confusion(Answer):
    """
    How often each value of a judge stands beside each median of people's ratings: a row for each of `people`, a
    column for each of `judge`.
    """

    people: Sequence[float] = ()
    """medians of the items' ratings, ascending"""
    judge: Sequence[float] = ()
    """the judge's values, ascending"""
    counts: Sequence[Sequence[int]] = ()
    """items: a row for each median, in it a count for each value of the judge"""


class CorrectedDifference(Answer):
    """Candidate minus baseline. What both share, items and dialogues, is taken out of the error."""

    difference: float
    """English minus source by aspect, null where either is unrated"""
    interval: tuple[float, float] | None = None
    """at 1 - alpha; null where the values show no spread"""
    p: float | None = None
    """two-sided, by t; not corrected for the number of differences"""
    standard_error: float | None = None
    """of the difference; null where the values show no spread"""
    freedom: float | None = None
    """degrees of freedom of t"""


class CorrectedFigure(Answer):
    """A mean on people's scale."""

    mean: float
    """the mean"""
    interval: tuple[float, float] | None = None
    """at 1 - alpha; null where the values show no spread"""
    weight: float = Field(..., alias="lambda")
    """of the judge, from 0 (people alone) to 1"""
    standard_error: float
    """of the mean, robust to clusters"""
    severity: bool = False
    interval_by_these_raters: tuple[float, float] | None = None
    """of what these raters would say of all items; null unless `severity`"""


class Correlations(Answer):
    """
    Between aspects, over the items' rater means, on the items that have both.

    `undefined` has a pair's reason under the aspect that comes first, and in it under the other.
    """

    spearman: Mapping[str, Mapping[str, float | None]] = {}
    """Spearman's ρ by pair of aspects"""
    pearson: Mapping[str, Mapping[str, float | None]] = {}
    """Pearson's r by pair of aspects"""
    n: Mapping[str, Mapping[str, int]] = {}
    """items that have both, by pair of aspects"""
    undefined: Mapping[str, Mapping[str, str]] = {}
    """pairs of aspects whose figures are null, each with the reason"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class Counts(CandidateCounts):
    """
    Candidates by state, which add up to `total`. `failed` ones have no rating at all.

    `expired` ones had no result at the batch's deadline; in the results they are failed with that code.
    """

    total: int
    """all of them"""
    queued: int
    """candidates without a result"""
    scored: int
    """candidates with every aspect rated"""
    partial: int
    """candidates with some aspect unrated"""
    failed: int
    """candidates that have no rating at all"""
    expired: int = 0
    """candidates without a result at the batch's deadline"""


class Coverage(Answer):
    """
    `rated` of `expected` verdicts, one per candidate and aspect that applies to it.

    Failed candidates and those without a result yet are expected too; `share` is null if nothing is expected.
    """

    rated: int
    """ratings that there are"""
    expected: int
    """ratings that there should be"""
    share: float | None = None
    """the share, 0 to 1; null without a denominator"""


class DatasetGrowth(Answer):
    """The dataset after conversations were added."""

    id: str
    """ds_…: of the newest version, which has them"""
    name: str
    """your name for the batch; runs of one name are compared in time"""
    version: int
    """counts on with every change, from 1"""
    items: int
    """of the version"""
    added: int
    """conversations that were not there"""
    known: int
    """chosen conversations that were there already"""
    unavailable: int
    """chosen conversations whose texts are gone"""


class Decorrelated(Answer):
    """
    The pairs of the higher aspect after the lower one is removed from it.

    The changes are null if the points have no such axis; `undefined` says why.
    """

    method: str
    """how the lower aspect is removed from the higher one"""
    n: int
    """items that the figures are of; one system's item counts as one"""
    left_out: int
    """items without the values that the figures need"""
    common_change: int | None = None
    """lost of the pairs that both aspects had; never positive"""
    higher_only_change: int | None = None
    """lost of the pairs that only the higher had; never positive"""
    new: int | None = None
    """pairs that only now are there"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class Dependency(Answer):
    """`higher` depends on `lower`: D(lower) is not empty and a strict subset of D(higher)."""

    lower: str
    """the aspect that the higher one depends on"""
    higher: str
    """the aspect that depends on the lower one"""
    common: int
    """pairs of systems that both aspects tell apart, the same way"""
    higher_only: int
    """pairs that the lower does not tell apart"""
    decorrelated: Decorrelated
    """the higher aspect after the lower one is removed from it"""


class DrawnItem(Answer):
    """
    A response of a round: its place in the batch, and the probability with which the round drew it, null in rounds
    of before Saiten kept it: they drew all alike.
    """

    position: int
    """place in the batch, counting candidates from 0"""
    item: str
    """your name for the item, or its number"""
    candidate: int | None = None
    """the run that is judged: a batch's id"""
    probability: float | None = None
    """with which the round drew it; null in rounds that kept none, which drew all alike"""
    inclusion: float | None = None


class DrawnItems(Answer):
    """What a round drew, in its order."""

    items: Sequence[DrawnItem] = ()
    """different items"""


class EarlierRating(Answer):
    """What a rating said before its rater corrected it: values by aspect and marked turns, without the comment."""

    ratings: Mapping[str, float] = {}
    """the rating by aspect"""
    faulty_turns: Sequence[int] | None = None
    """the numbers of the system turns that were marked"""
    created_at: datetime
    """when it was created, in UTC"""


class ErasureReport(Answer):
    """
    What was erased: whole batches, candidates of other batches, single evaluations, datasets' items, and live
    conversations.
    """

    batches: int
    """whole batches that were erased"""
    candidates: int
    """candidates of other batches that were erased"""
    evaluations: int
    """single evaluations that were erased"""
    dataset_items: int
    """items of datasets that were erased"""
    live_conversations: int
    """live conversations that were erased"""


class EstimateReport(Answer):
    """Calls, tokens, characters and cost of a batch if nothing is cached. Costs are in USD, null without a price."""

    candidates: int
    """responses to be scored"""
    distinct_candidates: int
    """candidates that differ in what the judge is shown"""
    calls: int
    """judge calls"""
    prompt_tokens: int
    """tokens of the prompts"""
    prefix_tokens: int
    """of the prompt tokens, those of the prompts' fixed beginnings"""
    completion_tokens: int
    """tokens of the judge's replies"""
    translated_characters: int
    """characters that the translator billed"""
    cost_usd: float | None = None
    """every call live, and no prompt cache at the provider"""
    cost_usd_prefix_cached: float | None = None
    """every call live, and all but the first finding their beginning in the provider's prompt cache"""
    cost_usd_provider_batch: float | None = None
    """every call through the provider's batch, at half price"""
    unit_cost_usd: float | None = None
    """of the most expensive candidate; a budget reserves this for each"""
    assumptions: Sequence[str] = ()
    """what the estimate takes for granted, a sentence each"""
    second_look_calls: int = 0
    """at most, beside `calls`: under the policy `judge-twice` what looks like an attack is judged again"""
    second_look_cost_usd: float | None = 0.0
    """what those calls cost live, without a prompt cache, in no other figure here"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class ExclusionAdded(Answer):
    """1, or 0 if it was excluded already."""

    added: int
    """1, or 0 if it was excluded already"""


class ExplainedRating(Answer):
    """An aspect as the judge rated it when it was asked again, with its reason."""

    rating: int | None = None
    """may differ from the evaluation's, which stays"""
    reason: str | None = None
    """the judge's reason, where it was asked for one"""


class Failure(Answer):
    """
    Why a candidate has no evaluation: a stable `code` and one sentence in English; the id and the values of its
    message too, except in results of older versions.
    """

    code: str
    """stable name of what this is"""
    detail: str
    """one sentence"""
    message: str | None = None
    """the id of what `detail` says; results of older versions have none"""
    values: Mapping[str, Any] | None = None
    """what stands in `detail`, by name"""


class Finding(Answer):
    """A fault of one system turn. `turn` counts from 0 over all turns. The judge's findings have no code."""

    turn: int
    """the number of the system turn, counted from 0 over all turns"""
    aspect: str | None = None
    """the aspect that the fault concerns; null if the rubric has none for it"""
    code: str | None = None
    """what a rule found; null for a finding of the judge"""
    by: str
    """whether the judge or a rule found it"""
    detail: str
    """what is wrong, in a sentence"""
    kind: str | None = None
    """the kind of fault, one of seventeen; null for the judge's findings by a rubric without kinds"""
    message: str | None = None
    """the id of what `detail` says; results of older versions have none"""
    values: Mapping[str, Any] | None = None
    """what stands in `detail`, by name"""


class FindingRate(Answer):
    """
    How often system turns have a finding of one code, over the conversations of which that is known.

    `rate` counts turns with at least one, per 100 system turns; it is null without conversations. The interval treats
    conversations, not their turns, as independent; if there is none, `reason` says why.
    """

    conversations: int
    """those of which it is known"""
    system_turns: int
    """the system's turns in these"""
    turns: int
    """system turns with at least one such finding"""
    rate: float | None = None
    """such turns per 100 system turns"""
    interval: tuple[float, float] | None = None
    """95% interval of the rate"""
    clusters: int = 0
    """independent units: conversations, or dialogues that several share"""
    reason: str | None = None
    """why there is no interval"""
    thirds: Sequence[float | None] = ()
    """the rate in the first, the second and the last third of each conversation's system turns"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class FindingSummary(Answer):
    """
    Findings of a batch of conversations. A finding of the judge is known where the judge rated every aspect that
    applies and named usable turns.
    """

    any: FindingRate
    """findings of any code, where the judge's are known"""
    codes: Mapping[str, FindingRate] = {}
    """by code, with `judge` for the judge's"""


class FixFirst(Answer):
    """
    How much a kind of fault matters in a run of conversations.

    `weight` is the share of conversations with such a fault times `effect`: how far they lower the mean `overall` of
    all. It does not show that the fault is the cause.
    """

    kind: str
    """the kind of fault"""
    conversations: int
    """those with such a fault, among those whose `overall` and kinds are known"""
    of: int
    """conversations whose `overall` and kinds are known"""
    rate: float
    """system turns with such a fault per 100 in these"""
    effect: float | None = None
    weight: float | None = None
    """`conversations` / `of` times `effect`, in scale points"""
    interval: tuple[float, float] | None = None
    """95% interval of the weight, over dialogues"""
    reason: str | None = None
    """why there is no interval"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class GateReason(Answer):
    """One finding of the gate."""

    code: str
    """stable; what held has the code `held`, whatever it is about"""
    aspect: str | None = None
    """what the rule names; null where no rule is meant, or one of findings"""
    finding: str | None = None
    """the code of findings, where the rule names one"""
    measure: str | None = None
    """`faulty_turns`, where the rule names that"""
    verdict: Literal["pass", "fail", "inconclusive"]
    """what this alone would make of the run"""
    detail: str
    """a sentence with the figures"""
    about: str = "rule"
    """what the reason is about"""
    rule: int | None = None
    """number of the rule, from 0; null where none is meant"""
    detectable: float | None = None
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""
    values: Mapping[str, Any] = {}
    """what stands in `detail`; a sentence in it has its own `code` and `values`"""


class JudgeInfo(Answer):
    """The judge of a service; `baseline`: it is the embedded one."""

    kind: str
    """the judge's kind, such as `openai` or `lexical`"""
    model: str | None = None
    """the model that is asked where a request names none"""
    baseline: bool = False
    """whether it is the embedded lexical judge, a baseline"""


class JudgeOptions(Answer):
    """How the judge is called, beside the rubric."""

    model: str | None = None
    """the model to ask; null takes the service's default"""
    samples: int = 1
    """how often the judge is asked; the mean is the rating"""
    expected: bool = False
    """also compute the mean of the scale's values by their token probabilities"""
    explain: bool = False
    """also ask the judge for its reasons"""
    screen: bool | None = None
    """whether the verdict also says if a text addresses its evaluator; null: from version 2 of a rubric"""
    lenient: bool | None = None
    temperature: float = 0.0
    """how much the judge's replies vary; 0 varies least"""
    max_tokens: int | None = None
    """longest reply of the judge, with what it thinks before; null takes the service's 2,048"""
    composites: str = "runs"
    """composites of several samples: computed per sample and averaged (runs), or of the means (means)"""
    extra: Mapping[str, Any] = {}
    """further members of the request to the judge's endpoint, of those that SAITEN_JUDGE_EXTRA allows"""


class JudgePause(Answer):
    """
    For how long the judge's endpoint is not called, because it asked for a pause: 0 if it may be called. `until` is
    when the pause ends, in UTC. `translator_seconds` is the same of the translator.
    """

    seconds: float
    """for how long the judge is not called; 0 if it may be called"""
    until: datetime | None = None
    """when the pause ends; null if there is none"""
    translator_seconds: float
    """for how long the translator is not called; 0 if it may be called"""


class JudgeProvenance(Answer):
    """The judge, with the parameters in force and those that the endpoint refused."""

    kind: str
    """which kind it is"""
    model: str
    """the model that answered"""
    fingerprint: str | None = None
    """the provider's name for the configuration that answered"""
    endpoint: str | None = None
    """the endpoint's host, where it is not the provider's own"""
    prompt: str | None = None
    """digest of the prompt's fixed part"""
    parameters: Mapping[str, Any] = {}
    """the parameters in force"""
    dropped: Sequence[str] = ()
    """parameters that the endpoint refused, and that were left out"""
    screen: bool = False
    """whether the verdict was to say if a text addresses its evaluator"""
    lenient: bool = False
    """whether a verdict was also read in a code fence and behind thinking"""


class JudgeRepeats(Answer):
    """How well each judge repeats itself: the share of its variance that is not noise between samples."""

    old: float
    """the old judge's, at most 1"""
    new: float
    """likewise, of the new judge"""


class LevelShare(Answer):
    """The share of items at one level of the scale. A score counts for the level nearest to it."""

    judge: float
    """as the judge rates all items"""
    human: float | None = None
    """as people rated some; null where no one did"""
    corrected: CorrectedFigure | None = None
    """as people would rate all items; null where it is refused"""
    refused: str | None = None
    """why `corrected` is null"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class LinkMark(Answer):
    """That a report rests on a link, and which of its runs are shown on another judge's scale."""

    id: str
    """the link's, `ln_…`"""
    old_signature: str
    """how linked runs were scored"""
    new_signature: str
    """how they count as scored"""
    runs: Sequence[str] = ()
    """those that are linked"""
    refused: Mapping[str, str] = {}
    """aspects that have no link, with the reason: linked runs have no values of them"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class LinkedLevel(Answer):
    """What a level of the old judge is on the new judge's scale."""

    value: float
    """on the new judge's scale, never beyond it"""
    interval: tuple[float, float] | None = None
    """95%: the lower and the upper end"""


class LiveResult(Answer):
    """One conversation as the monitor saw it."""

    conversation: str
    """the caller's name of the conversation"""
    closed_at: datetime
    """when it ended"""
    system: str | None = None
    """one of several systems that answered the item"""
    build: str | None = None
    """of most of the system's turns"""
    outcome: str
    """whether it is in the sample, and why not: not drawn, left out for the budget, or nothing to judge"""
    probability: float
    """with which it was sampled"""
    run: str | None = None
    """the batch that it is in"""
    position: int | None = None
    """its place there"""
    status: str | None = None
    """of the result; null while it waits"""
    turns: int
    """of both speakers"""
    answers: int
    """turns of the system"""
    errors: int
    """each fault, at most 20 of them"""
    latency_seconds: float | None = None
    """mean of the system's answers"""
    findings: Mapping[str, int] = {}
    """system turns by the code of a rule"""
    aspects: Mapping[str, float] = {}
    """ratings by the judge"""
    faulty_turns: int | None = None
    """system turns with a finding; null where that is not known"""


class LiveResults(Answer):
    """What a monitor saw of conversations."""

    items: Sequence[LiveResult] = ()
    """newest first"""
    next: str | None = None
    """`cursor` of the next page; null on the last"""


class MaskedSpan(Answer):
    """
    A suspicious part of a text, which a second judgement masks: code points `start` to `end` of the text at
    `where`.
    """

    where: str
    """the place: a JSON pointer, or the name of a part"""
    start: int
    """its first code point, from 0"""
    end: int
    """the code point after its last"""


class MeanFigure(Answer):
    """A mean with its interval."""

    mean: float
    """the mean"""
    interval: tuple[float, float] | None = None
    """at 1 - alpha; null where the values show no spread"""


class MeasureState(Answer):
    """How a measure stands against the reference."""

    measure: str
    """an aspect, `faulty_turns` or `finding:CODE`"""
    state: str
    """`not-enough` data, `ok`, or `alarm`: worse"""
    difference: float | None = None
    """from the reference: of the mean rating, or of system turns per 100"""
    interval: tuple[float, float] | None = None
    """95%: the lower and the upper end"""
    since: datetime | None = None
    """the beginning of the day from which on the difference is taken"""
    n: int = 0
    """conversations since then"""
    looked_at: datetime | None = None
    """when it was last looked at"""


class MeasureValue(Answer):
    """
    A mean over a window's conversations, each weighted by the inverse of the probability with which it was
    sampled.
    """

    value: float | None = None
    """the weighted mean; null without a conversation"""
    interval: tuple[float, float] | None = None
    """at 95%; null for fewer than six conversations, and of ratings that are all alike"""
    n: int
    """conversations"""


class MonitorRound(Answer):
    """The rating round that was opened."""

    round: str
    """rr_…"""
    run: str
    """the run of the window that it is of"""
    drawn: int
    """conversations that people are to rate"""
    address: str
    """path of the page on which people rate"""


class PairItem(Answer):
    """
    A pair of a round of preferences: both responses by their batches and places, and the probability with which the
    round drew it. `pair` is its name for `POST /v1/preferences/human`.
    """

    pair: str
    """the pair's name, `rr_….N`"""
    item: str
    """your name for the item, or its number"""
    first: str
    """the batch of the first response"""
    first_position: int
    """the first response's place in its batch, counting candidates from 0"""
    second: str
    """the batch of the second response"""
    second_position: int
    """the second response's place in its batch, counting candidates from 0"""
    probability: float
    """with which the round drew it"""


class PairItems(Answer):
    """What a round drew, in its order."""

    items: Sequence[PairItem] = ()
    """different items"""


class PairOptions(Answer):
    """
    The options of a round of preferences: pairs of responses of different runs to the same item.

    Each pair of runs gets the same share of `items`, drawn from the items that both have by `seed`.
    """

    name: str
    """your name for the batch; runs of one name are compared in time"""
    items: int = 100
    """pairs to be compared, at most"""
    raters_per_item: int = 3
    """raters that a pair gets"""
    items_per_rater: int | None = None
    """pairs that one rater gets at most; null: as many as there are"""
    seed: int = 0
    """the same seed draws the same responses from the same results"""
    kind: str
    """people say which of two responses is better"""
    runs: Sequence[str] = ()
    """the batches whose responses are compared, of one rubric"""


class PairRound(Answer):
    """
    One round of an active preference run: `pairs` counts what it judges, by the places of two runs, and `resolved`
    are those whose order is known after it, the better one first; null until it is judged.
    """

    pairs: Sequence[tuple[int, int, int]] = ()
    """the places of two runs, and how many items of theirs the round judges"""
    resolved: Sequence[tuple[int, int]] | None = None
    """the places of two runs whose order is known, the better one first"""


class PairSide(Answer):
    """One of the two that were compared."""

    id: str | None = None
    """what the caller calls it"""
    length: int
    """characters; of a conversation those of the system's turns"""
    run: str | None = None
    """in a preference run: the run it is of"""
    system: str | None = None
    """in a preference run: what the run is of"""


class PairTexts(Answer):
    """
    Both texts of a pair: `context` and `response` of each, of conversations `turns`, `persona` and `goal`; null
    where their run does not have them any more.
    """

    first: Mapping[str, Any] | None = None
    """of the first run"""
    second: Mapping[str, Any] | None = None
    """of the second run"""


class Pairing(Answer):
    """
    Which items of the two runs belong together.

    An item is all responses to one dialogue context and counts once, with their mean. It is identified by its id, and
    by its context too if one id has several contexts within a run.
    """

    test: str
    """whether pairs are compared, or all items of one run with all of the other"""
    pairs: int
    """items that are in both runs, whether or not `test` uses them"""
    only_baseline: int
    """items of the baseline run without a partner"""
    only_candidate: int
    """items of the candidate run without a partner"""
    contexts_differ: int
    """pairs whose dialogue contexts differ; they still are pairs, unless items are only numbered"""
    baseline_items: int
    """items of the baseline run"""
    baseline_responses: int
    """responses, repeats among them, that these are the means of"""
    candidate_items: int
    """items of the candidate run"""
    candidate_responses: int
    """responses, repeats among them, that these are the means of"""
    reason: str
    """why this test was chosen and what its units are, in one sentence"""
    unit: str = "item"
    clusters: int = 0
    """number of units of the pairs; unpaired, of the run with fewer"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class PlainRank(Answer):
    """A system's place where covariates are left out."""

    strength: float | None = None
    """natural-log odds with mean 0"""
    interval: tuple[float, float] | None = None
    """at 1 - alpha"""
    rank: int
    """by the estimate, from 1"""
    rank_interval: tuple[int, int]
    """the ranks that cannot be excluded, from 1"""


class PooledDrift(Answer):
    """All aspects together: the adjusted probabilities of a common shift and of their changes."""

    p_shift: float | None = None
    """probability of a common shift by chance, adjusted for all tests of the check"""
    p_changed: float | None = None
    """probability of so many changes by chance, adjusted for all tests of the check"""
    moved: bool = False
    """whether it moved beyond chance"""


class PositionReport(Answer):
    """
    How far the order decides, over pairs with a verdict in both orders. `consistency` is the rate of equal answers,
    with its 95% interval over `clusters`, null with the reason where there is none. `first_shown` and `second_shown`
    count verdicts for what was shown so, `tie` those for neither, over all orders.
    """

    pairs: int
    """each pair of systems"""
    clusters: int
    """independent units"""
    consistency: float | None = None
    """the rate of equal answers; null without such pairs"""
    interval: tuple[float, float] | None = None
    """95% interval of the mean"""
    reason: str | None = None
    """the judge's reason, where it was asked for one"""
    first_shown: int
    """verdicts for what was shown first"""
    second_shown: int
    """verdicts for what was shown second"""
    tie: int
    """verdicts for neither"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class PreferencesAdded(Answer):
    """How many preferences are new, and how many replaced an earlier one."""

    added: int
    """how many are new"""
    replaced: int
    """how many replaced an earlier one by the same rater"""


class ProjectPolicy(Answer):
    """
    The policy of a project. `after_days` is how long texts are kept unless `texts` is `keep`, counted from the
    creation of a single evaluation or the end of a batch.
    """

    integrity: str = "flag"
    """what to do where a text looks like an attack on the judge"""
    texts: str = "keep"
    """what happens to texts after a while"""
    after_days: float = 30.0
    """days that texts are kept, from an evaluation's creation or a batch's end, unless `texts` is `keep`"""


class RankedSystem(Answer):
    """One system among others."""

    strength: float | None = None
    """natural-log odds, with mean 0; null where no finite value can be given, for the reason in `undefined`"""
    interval: tuple[float, float] | None = None
    """at 1 - alpha"""
    rank: int
    """by the estimate, from 1, among the systems that somebody connects with it"""
    rank_interval: tuple[int, int]
    """the ranks that cannot be excluded, from 1"""
    wins: int
    """looks that it won"""
    losses: int
    """looks that it lost"""
    ties: int
    """looks that ended in a tie"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class RatingsAdded(Answer):
    """How many ratings are new, and how many replaced an earlier one."""

    added: int
    """how many are new"""
    replaced: int
    """how many replaced an earlier one by the same rater"""


class RatingsUsed(Answer):
    """The human ratings of a batch that an analysis uses, each by one rater of one response."""

    counted: int
    """ratings that the figures use"""
    simulated: bool
    """whether these are simulated ratings, which are used only if no ratings by people are left"""
    simulated_left_out: int
    """simulated ratings that are left out, since there are ratings by people"""
    excluded: int
    """ratings that are left out since their rater or round is excluded"""


class RelevanceOptions(Answer):
    """How BERTScore relevance is blended in: c + weight · (b − baseline)."""

    weight: float = 10.0
    """w, the weight of the relevance"""
    baseline: str | float = "calibration"
    """b̄: the calibrated one, the mean of the batch (in batches only), or a number"""
    aspects: Sequence[str] | None = None
    """aspects to blend; null takes those that the rubric blends"""


class RelevanceResult(Answer):
    """b, b̄ and w, with the encoder. `unavailable` says why `score` is null."""

    score: float | None = None
    """b, the similarity; null if it is not available"""
    baseline: float | None = None
    """b̄, the similarity that counts as neutral"""
    baseline_source: str
    """where b̄ is from"""
    weight: float
    """w, the weight of the relevance"""
    encoder: str | None = None
    """the encoder that computed the similarity"""
    truncated: bool = False
    """whether a text was too long for the encoder"""
    unknown_token_share: float | None = None
    """share of the tokens that the encoder does not know"""
    unavailable: str | None = None
    """why there is no score; null if there is one"""
    message: str | None = None
    """the id of what `detail` says; results of older versions have none"""
    values: Mapping[str, Any] | None = None
    """what stands in `detail`, by name"""


class ResolvedPair(Answer):
    """Two systems of which one is surely better."""

    better: str
    """the better system"""
    worse: str
    """the other one"""
    p: float
    """two-sided, adjusted for all pairs of systems by Holm's method"""


class RisenKind(Answer):
    """A kind of fault that is more frequent than in the reference."""

    kind: str
    """which kind it is"""
    before: float
    """system turns per 100"""
    after: float
    """system turns per 100"""


class RoundOptions(Answer):
    """
    The options of a round. The responses are drawn from the batch's scored results by `seed`.

    `choose` is how: `random` gives each the same probability; `informative` more to those in which the judge is
    unsteady, which needs fewer ratings for a corrected figure; `stratified` more to rare levels of the judge's ratings.
    `worst` takes those that the judge rated lowest, and `chosen` those of `positions`. They draw nothing: their ratings
    say nothing of the others, and are left out of figures.
    """

    name: str
    """your name for the batch; runs of one name are compared in time"""
    items: int = 100
    """responses to be rated, at most"""
    raters_per_item: int = 3
    """raters that a response gets"""
    items_per_rater: int | None = None
    """responses that one rater gets at most; null: as many as there are"""
    seed: int = 0
    """the same seed draws the same responses from the same results"""
    choose: str = "random"
    """how responses are drawn"""
    aspect: str | None = None
    """the aspect whose spread, level or rating counts; null: the mean over all aspects"""
    judges: Sequence[str] = ()
    """batches in which other judges scored the same responses: where they disagree counts"""
    positions: Sequence[int] = ()
    """with `chosen`, the responses to be rated, by their places in the batch"""
    shared_with: str | None = None


class RoundProgress(Answer):
    """
    How far a round is: `ratings` of `wanted` (drawn × raters_per_item), and `complete` responses with all raters.

    `raters` counts the rated responses by rater, 0 for one who rated none of those given. A late rating beyond
    `raters_per_item` counts only there.
    """

    ratings: int
    """ratings that there are, of those wanted"""
    wanted: int
    """responses by raters for each"""
    complete: int
    """responses that all their raters have rated"""
    raters: Mapping[str, int] = {}
    """by rater the responses that he or she has rated"""


class RubricAspect(Answer):
    """An aspect of a rubric. A list of rubrics has `scale`; a rubric that is read by itself has its `levels`."""

    id: str
    """the aspect's id"""
    name: Mapping[str, str] = {}
    """its name by language"""
    scale: tuple[int, int] | None = None
    """the lowest and the highest rating"""
    blended: bool = False
    """whether relevance is blended into it"""
    question: Mapping[str, str] = {}
    """what the judge is asked, by language"""
    levels: Sequence[Mapping[str, Any]] = ()
    """the ratings with their descriptions, the lowest first"""
    best: int | None = None
    """the best value, where it is not the highest"""


class RubricReference(Answer):
    id: str
    """the rubric's id"""
    version: int | None = None
    """the rubric's version"""
    digest: str | None = None
    """SHA-256 of the rubric"""


class RunCoverage(Answer):
    """How many of the expected verdicts there are."""

    candidates: int
    """responses of the run, including failed ones"""
    rated: int
    """verdicts, one per candidate and measure"""
    expected: int
    """candidates times measures, less what does not apply to a conversation"""
    share: float | None = None
    """rated / expected; null where nothing is expected"""


class RunPlace(Answer):
    """A run, and what it is a run of."""

    run: str
    """the batch's id"""
    system: str
    """one of several systems that answered the item"""


class RunTally(Answer):
    """How often the responses of one run were preferred to those of another."""

    first: str
    """the batch of the first response"""
    second: str
    """the batch of the second response"""
    first_preferred: int
    """how often the first was preferred"""
    second_preferred: int
    """how often the second was preferred"""
    ties: int
    """how often neither was"""


class ScorerCorrelation(Answer):
    """One scorer's values compared with the rater means, on the items that all scorers of the aspect have."""

    spearman: float | None = None
    """Spearman's ρ; null where it is undefined"""
    spearman_interval: tuple[float, float] | None = None
    """95%: the lower and the upper end"""
    pearson: float | None = None
    """Pearson's r; null where it is undefined"""
    pearson_interval: tuple[float, float] | None = None
    """95%: the lower and the upper end"""
    kendall: float | None = None
    """τ-b"""
    kendall_interval: tuple[float, float] | None = None
    """95%: the lower and the upper end"""
    confusion: Confusion | None = None
    """of the judge and people's median; absent without scores, or with too many different values"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class ScorerDifference(Answer):
    """
    How far two scorers' Spearman correlations with the same ratings lie apart. The interval combines those of both,
    which depend on each other (Zou 2007); `p` is that of the interval, by Holm over the aspect's pairs.
    """

    better: str
    """the better system"""
    worse: str
    """the worse system"""
    difference: float
    """Spearman of `better` minus that of `worse`"""
    interval: tuple[float, float] | None = None
    """95%: the lower and the upper end"""
    p: float | None = None
    """two-sided, after Holm's correction; null where there is no interval"""


class SequenceDrop(Answer):
    """A drop, or a rise of findings, that a sequence found and that is not mended. Builds fail until it is."""

    night: int
    """the place of the build that failed by it first"""
    first: int
    """the place of the earliest of the newest builds that it was found in"""
    size: float
    """by how much these lay on the bad side of the baseline, in points"""


class SequenceMark(Answer):
    """The place of a gate in a sequence of builds."""

    name: str
    """your name for the batch; runs of one name are compared in time"""
    night: int
    """the candidate's place, from 1"""
    alpha: float
    """how often, at most, any build of the whole sequence fails if nothing changed"""
    level: float
    """what this place may spend of it"""
    builds: int
    """earlier builds that this one is looked at with"""
    noise: Mapping[str, float] = {}
    """by what rules name, the standard deviation between builds that their items do not explain"""
    drops: Mapping[str, SequenceDrop] = {}
    """by what rules name, what is not mended"""


class SharedProgress(Answer):
    """
    How far people have rated in two rounds that share items. Severity cancels only among the same people, so that
    others' ratings tell nothing of the difference of the runs.
    """

    round: str
    """the other round"""
    raters: int
    """people who rated in both rounds"""
    here: int
    """responses of this round that they rated"""
    there: int
    """responses of the other round that they rated"""
    needed: int = 15


class SharedRaters(Answer):
    """
    The people who rated responses of both sides of a difference. Raters differ in how severe they are, which cancels
    where the same ones rated both.
    """

    raters: int
    """people who rated the aspect"""
    baseline: int
    """items of the baseline that they rated"""
    candidate: int
    """items of the candidate that they rated"""
    needed: int | None = None
    """items of each side that people who rate both must have rated for a difference; null where there is one"""


class SignificantPair(Answer):
    """System `better` is better than system `worse`, with the two-sided p of Mann and Whitney's U."""

    better: str
    """the better system"""
    worse: str
    """the worse system"""
    p: float
    """two-sided, not corrected for the number of pairs"""


class Sink(Answer):
    """Where results are sent. The key comes from the operator's settings."""

    kind: str
    """how they are written"""
    url: str
    """of one of the services that SAITEN_SINKS lists"""


class SinkState(Answer):
    """What became of what a sink was to get."""

    kind: str
    """which kind it is"""
    url: str
    """as it was given"""
    waiting: int
    """what is to be sent"""
    sent: int
    """what the service took"""
    dropped: int
    """given up because the backlog was full, or refused by the sink for good"""
    last_error: str | None = None
    """a code: `status-…`, `timeout`, `unreachable`, `not-listed`, `backlog-full`"""


class SourcesAgreement(Answer):
    """How far two sources rank the same systems alike."""

    first: str
    """one source"""
    second: str
    """the other source"""
    systems: int
    """systems that both give a strength"""
    kendall: float | None = None
    """tau-b of the strengths; null with fewer than three systems"""
    opposed: int
    """pairs of systems that both resolve, in opposite ways"""


class Spread(Answer):
    """
    `n` values: their mean, sample standard deviation (n − 1) and the 95% interval of the mean.

    `mean` is null without values, `sd` with fewer than two. The interval treats dialogues, not their turns, as
    independent, and never leaves the scale; if there is none, `reason` says why.
    """

    n: int
    """how many values the figures are of"""
    mean: float | None = None
    """the mean"""
    sd: float | None = None
    """standard deviation"""
    interval: tuple[float, float] | None = None
    """95% interval of the mean"""
    clusters: int = 0
    """independent units among the values: dialogues, and responses that stand alone"""
    reason: str | None = None
    """why there is no interval"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class Exclusion(Answer):
    """An exclusion with the time from which it applies."""

    rater: str | None = None
    """the rater's name"""
    round: str | None = None
    """the id of the rating round"""
    created_at: datetime
    """when it was created, in UTC"""


class StoredPreference(Answer):
    """A preference as it is kept. Texts that the project no longer keeps are null."""

    pair: str | None = None
    """the pair's name; null where it came with its texts"""
    round: str | None = None
    """the round that drew the pair"""
    context: Any = None
    first: Any = None
    """one of the two, as it came"""
    second: Any = None
    """the other"""
    rater: str
    """the rater's name"""
    preference: str
    """of the two as the pair names them"""
    shown: Sequence[str] = ()
    """the order in which the rater saw them"""
    reason: str | None = None
    """the judge's reason, where it was asked for one"""
    simulated: bool = False
    """no person gave this rating; it validates no judge"""
    created_at: datetime
    """when it was created, in UTC"""


class Rating(Answer):
    """A rating with the time at which it was received, and what it said before."""

    item: str | None = None
    """your name for the item, or its number"""
    evaluation: str | None = None
    """the id of the evaluation that is rated"""
    batch: str | None = None
    """the batch that the item is of"""
    candidate: int | None = None
    """number among the item's responses, from 0, where it has several"""
    system: str | None = None
    """one of several systems that answered the item"""
    rater: str
    """the rater's name"""
    ratings: Mapping[str, Any] = {}
    """the rating by aspect"""
    comment: str | None = None
    """what the rater wrote"""
    simulated: bool = False
    """no person gave this rating; it validates no judge"""
    faulty_turns: Sequence[int] | None = None
    """of a conversation: the numbers of the system turns that the rater marked"""
    starred: bool = False
    """whether the rater marked the response as interesting"""
    created_at: datetime
    """when it was created, in UTC"""
    earlier: Sequence[EarlierRating] | None = None
    """what the rater corrected, oldest first: at most the last 20 values"""


class Stratum(Answer):
    """Conversations that are sampled at a rate of their own."""

    filter: Mapping[str, Any] = {}
    """attributes that a conversation of the stratum has"""
    rate: float
    """the probability with which it is sampled, from 0 to 1"""


class SystemLevel(Answer):
    """The correlation of the systems' means."""

    n: int
    """systems"""
    spearman: float | None = None
    """Spearman's ρ; null where it is undefined"""
    pearson: float | None = None
    """Pearson's r; null where it is undefined"""
    kendall: float | None = None
    """τ-b"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class SystemsMet(Answer):
    """Two systems that were compared directly."""

    a: str
    """the first system"""
    b: str
    """the second system"""
    a_wins: int
    """looks that the first won"""
    b_wins: int
    """looks that the second won"""
    ties: int
    """looks that ended in a tie"""
    share: float
    """how often the first was preferred, a tie counting half, and each order half where there are both"""
    share_interval: tuple[float, float] | None = None
    """at 1 - alpha"""
    both_orders: bool
    """whether each was shown first in some looks; else the order is in the share"""
    win_probability: float | None = None
    """of the first by the strengths, a tie counting half, order and covariates being equal"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class TermFigure(Answer):
    """What something adds to the log odds."""

    value: float
    """in natural-log odds"""
    interval: tuple[float, float] | None = None
    """at 1 - alpha"""


class TraceConvention(Answer):
    """Spans that no convention reads."""

    library: str
    """the instrumentation library and its version"""
    attributes: Sequence[str] = ()
    """names of attributes that may hold what was said; never values"""
    spans: int
    """how many came"""
    last_at: datetime
    """when the last one came"""


class TraceReport(Answer):
    """What the project's bots sent, and what became of it."""

    conversations: Mapping[str, int] = {}
    """how many there are now, by state"""
    counts: Mapping[str, int] = {}
    unread: Sequence[TraceConvention] = ()
    """conventions that are not known, the most frequent first"""


class TracedHead(Answer):
    """A live conversation without its turns."""

    id: str
    """begins with `lc_`"""
    name: str
    """the id that its spans name; that of the trace where they name none"""
    state: str
    """`open` while it goes on, `closed` when it ended, `done` when monitors have seen it"""
    first_at: datetime
    """when its first span arrived"""
    last_at: datetime
    """when its last span arrived"""
    closed_at: datetime | None = None
    """when it ended"""
    attributes: Mapping[str, str] = {}
    """those that monitors name"""
    late_spans: int
    """spans that came too late to be part of it"""
    refused_spans: int
    """spans beyond what a conversation may hold"""


class TracedTurn(Answer):
    """One turn of a live conversation."""

    speaker: str
    """`user` or `assistant`"""
    role: str
    """`system` for the bot"""
    text: str
    """verbatim"""
    at: datetime
    """by the sender's clock; when it arrived, where that is not to be believed"""
    trace_id: str
    """of the span that tells it"""
    span_id: str
    """of the span that tells it"""
    system: str | None = None
    """`service.name`"""
    build: str | None = None
    """`service.version`"""
    latency_seconds: float | None = None
    """how long the answer took"""


class Translation(Answer):
    """
    The dialogue in English, with the characters that were sent. Of a conversation, `response` is the last turn, and
    `context` holds the turns before it.
    """

    context: Sequence[str] = ()
    """the context in English; of a conversation, the turns before the last"""
    response: str
    """the response in English; of a conversation, its last turn"""
    source_language: str
    """the language that was translated"""
    target_language: str
    """the language that it was translated to"""
    engine: str
    """the translator"""
    characters: int
    """characters that were billed"""
    persona: Mapping[str, Any] | None = None
    """of a conversation with a persona"""
    goal: str | None = None
    """of a conversation with a goal"""


class Unrated(Answer):
    """A missing verdict, and why. It is a value of its own: a zero in its place would bias every mean."""

    reason: str
    """why there is no rating, by a stable name"""
    detail: str
    """one sentence"""
    message: str | None = None
    """the id of what `detail` says; results of older versions have none"""
    values: Mapping[str, Any] | None = None
    """what stands in `detail`, by name"""


class Usage(Answer):
    """Calls, tokens and cost. A cached call costs nothing. `cost_usd` is null if the model's price is not known."""

    judge_calls: int = 0
    """calls of the judge"""
    prompt_tokens: int = 0
    """tokens of the prompts"""
    cached_tokens: int = 0
    """of the prompt tokens, those that the provider had cached"""
    completion_tokens: int = 0
    """tokens of the judge's replies"""
    translated_characters: int = 0
    """characters that the translator billed"""
    cost_usd: float | None = 0.0
    """what it cost in USD; null if the model's price is not known"""


class ValidEvaluations(Answer):
    """The evaluation requests are valid."""

    clusters: Sequence[str | None] = ()
    """for each request, in order, the digest of the dialogue that it is a turn of; null stands alone"""


class ValidGate(Answer):
    """The gate can be judged."""

    rules: int
    """how many rules will be judged, the default ones among them"""


class ValidRatings(Answer):
    """The ratings are valid."""

    ratings: int
    """how many there are"""


class ValidationSource(Answer):
    """The ratings that an aspect's state is based on."""

    batch: str | None = None
    """the batch whose ratings these are; null where they are of several batches"""
    items: int
    """items that the judge and two people or more rated"""
    raters: int
    """people who rated the aspect"""
    at: datetime
    """when the correlation was computed"""


class Warned(Answer):
    """Something the reader of a score should know. `code` is stable, `where` a JSON pointer or a part's name."""

    code: str
    """stable name of what this is"""
    where: str
    """the place: a JSON pointer, or the name of a part"""
    detail: str
    """one sentence"""
    message: str | None = None
    """the id of what `detail` says; results of older versions have none"""
    values: Mapping[str, Any] | None = None
    """what stands in `detail`, by name"""
    spans: Sequence[MaskedSpan] = ()
    """of a text that looks like an attack: its suspicious parts"""


class WinShare(Answer):
    """Contexts won of all, ties included in the denominator; null without contexts."""

    wins: int
    """contexts won"""
    share: float | None = None
    """the share, 0 to 1; null without a denominator"""
    interval: tuple[float, float] | None = None
    """of the share: Wilson's, 95%, with dialogues as units where there are any"""


class Window(Answer):
    """The conversations of one hour or day, system and build."""

    starts_at: datetime
    """the first moment of the hour or day, in UTC"""
    ends_at: datetime
    """the moment after it"""
    system: str | None = None
    """one of several systems that answered the item"""
    build: str | None = None
    """of the system"""
    run: str | None = None
    """the batch of those that were sampled; null where none was"""
    open: bool
    """whether more may join"""
    conversations: int
    """that ended in it"""
    sampled: int
    """of these"""
    thinned: int
    """not sampled because of the budget alone"""
    answers: int
    """turns of the system"""
    turns_mean: float | None = None
    """turns of a conversation"""
    errors: int
    """failed calls of the system"""
    latency_seconds_mean: float | None = None
    """of the system's answers"""
    findings: Mapping[str, float] = {}
    """system turns with a finding, per 100, by the rule's code"""
    aspects: Mapping[str, MeasureValue] = {}
    """mean ratings of those sampled"""
    faulty_turns: MeasureValue
    """system turns with any finding, per 100, of those sampled"""


class Windows(Answer):
    """Windows of a monitor."""

    items: Sequence[Window] = ()
    """newest first"""
    next: str | None = None
    """`cursor` of the next page; null on the last"""


class WithinSystems(Answer):
    """
    Spearman's ρ of scores and rater means within systems, on the items that two named raters or more rated: what a
    judge's badge rests on.

    Items are ranked within their systems, so that no difference between systems counts. The interval holds with 95%
    for all aspects of the report at once, and at every number of items, so that it may be looked at again and again.
    """

    n: int
    """items with a score that two named raters or more rated"""
    systems: int
    """different systems"""
    raters: int
    """named raters of these items"""
    spearman: float | None = None
    """Spearman's ρ; null where it is undefined"""
    interval: tuple[float, float] | None = None
    """95%: the lower and the upper end"""
    agreement: float | None = None
    """the same correlation of a rater with the others, averaged over raters"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class WorseConversation(Answer):
    """A conversation that speaks for an alarm."""

    conversation: str
    """the caller's name of it"""
    run: str | None = None
    """the batch that it is in; null where it was not sampled"""
    position: int | None = None
    """place in the batch, counting candidates from 0"""
    value: float
    """its rating, or its system turns with a finding per 100"""


class Alarm(Answer):
    """A measure that became worse than in the reference, until it was resolved."""

    id: str
    """al_…"""
    measure: str
    """an aspect, `faulty_turns` or `finding:CODE`"""
    raised_at: datetime
    """when it was raised"""
    resolved_at: datetime | None = None
    """when it was over; null while it is on"""
    since: datetime
    """the beginning of the day from which on the difference is taken"""
    difference: float
    """of the mean rating, or of system turns per 100"""
    interval: tuple[float, float] | None = None
    """95%: the lower and the upper end"""
    conversations_compared: int
    """since then"""
    conversations: Sequence[WorseConversation] = ()
    """the worst new ones"""
    kinds: Sequence[RisenKind] = ()
    """kinds of faults that rose most"""


class Alarms(Answer):
    """How a monitor's measures stand, and its alarms."""

    measures: Sequence[MeasureState] = ()
    """each measure against the reference, by name"""
    items: Sequence[Alarm] = ()
    """newest first"""
    next: str | None = None
    """`cursor` of the next page; null on the last"""


class AspectAgreement(Answer):
    """
    How far raters agree on one aspect.

    `spearman` and `pearson` are each rater's against the mean of the others on the items that both rated, averaged over
    the raters that have one: three such items, on which neither side is constant.
    """

    n: int
    """items that the figures are of; one system's item counts as one"""
    left_out: int
    """items without the values that the figures need"""
    raters: int
    """named raters who rated the aspect"""
    mean: float | None = None
    """of the items' rater means"""
    sd: float | None = None
    """of the items' rater means, with n − 1"""
    spearman: float | None = None
    """Spearman's ρ; null where it is undefined"""
    pearson: float | None = None
    """Pearson's r; null where it is undefined"""
    krippendorff_alpha: float | None = None
    """ordinal; of named raters"""
    pairwise_spearman: float | None = None
    """mean over all pairs of raters"""
    pairwise_pearson: float | None = None
    """mean over all pairs of raters"""
    cohen_kappa: float | None = None
    """mean over all pairs of raters; values are labels"""
    fleiss_kappa: float | None = None
    """of items with two named raters or more"""
    icc: float | None = None
    """ICC(2,1), on the items that every named rater rated"""
    confusion: Confusion | None = None
    """of the judge and people's median; absent without scores, or with too many different values"""
    compared: int = 0
    """raters that the averages `spearman` and `pearson` are over"""
    by_rater: Mapping[str, float | None] = {}
    notes: Sequence[str] = ()
    """what to know before using the figures"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class AspectCorrelation(Answer):
    """
    Scores compared with the rater means of the same items.

    The coefficients' intervals invert a test that knows how few values ratings take, over clusters (a dialogue with all
    responses to its items). The interval of the bias is over clusters, as that of a difference of paired runs.
    """

    n: int
    """items that the figures are of; one system's item counts as one"""
    left_out: int
    """items without the values that the figures need"""
    spearman: float | None = None
    """Spearman's ρ; null where it is undefined"""
    pearson: float | None = None
    """Pearson's r; null where it is undefined"""
    kendall: float | None = None
    """τ-b"""
    spearman_interval: tuple[float, float] | None = None
    """95%: the lower and the upper end"""
    pearson_interval: tuple[float, float] | None = None
    """95%: the lower and the upper end"""
    kendall_interval: tuple[float, float] | None = None
    """95%: the lower and the upper end"""
    score_mean: float | None = None
    """mean of the scores"""
    rating_mean: float | None = None
    """of the items' rater means"""
    bias: float | None = None
    """mean score minus mean rating"""
    bias_interval: tuple[float, float] | None = None
    """95%: the lower and the upper end"""
    contexts: int = 0
    """different items, whatever systems answered them"""
    clusters: int = 0
    """what intervals take as independent: dialogues, and items that belong to none; without dialogues the items"""
    resamples: int = 0
    """0: no interval is by bootstrap any more"""
    ceiling: Ceiling | None = None
    """the correlation of one rater with the others; null without two raters"""
    system_level: SystemLevel | None = None
    """the correlation of the systems' means"""
    within_systems: WithinSystems | None = None
    """what the judge's badge rests on; null in reports of earlier releases"""
    notes: Sequence[str] = ()
    """what to know before using the figures"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class AspectDifference(Answer):
    """The difference of two systems in one aspect, on the judge's scale and on people's."""

    judge: CorrectedDifference
    """on the judge's scale"""
    corrected: CorrectedDifference | None = None
    """on people's scale; null where it is refused"""
    refused: str | None = None
    """why `corrected` is null"""
    shared: SharedRaters | None = None
    """who rated both, by whose ratings alone `corrected` is; null where no rater is named"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class AspectLink(Answer):
    """One aspect of both judges."""

    state: str
    """whether there is a table"""
    reason: str | None = None
    """why it is refused; else null"""
    method: str | None = None
    """null where the judges' scales cannot be compared"""
    n: int
    """responses that both judges rated"""
    clusters: int = 0
    """dialogues of these, and responses that stand alone"""
    correlation: float | None = None
    """Pearson's, of both judges' ratings as they are"""
    correlation_interval: tuple[float, float] | None = None
    """of the correlation that decides, at 95%"""
    corrected_correlation: float | None = None
    """corrected for attenuation by `repeatability`; it decides where it is not null"""
    repeatability: JudgeRepeats | None = None
    """null unless both judges gave several samples"""
    table: Mapping[str, LinkedLevel] = {}
    """by level of the old judge"""
    margin: float | None = None
    """half the 95% interval of the mean of a run that the old judge rated as it did here, as a share of the scale"""
    pairs_needed: int | None = None
    """pairs with which `margin` would be 0.05"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class AspectPairs(Answer):
    """
    D(X), the pairs of systems that the aspect tells apart.

    If the data cannot show a difference, D(X) is empty too; `undefined` then has the reason under `pairs`.
    """

    pairs: int
    """how many `significant` there are"""
    tested: int = 0
    """pairs of systems that both have values"""
    n: int
    """items that the figures are of; one system's item counts as one"""
    left_out: int
    """items without the values that the figures need"""
    significant: Sequence[SignificantPair] = ()
    """the pairs of systems that the aspect tells apart"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class AspectResult(Answer):
    """One aspect's verdict. `sd` is the population standard deviation of the valid samples."""

    rating: int | None = None
    """the rating on the aspect's scale; null if it is unrated"""
    scale: tuple[int, int]
    """the lowest and the highest rating"""
    label: str | None = None
    """the rubric's word for the rating"""
    samples: Sequence[int | None] = ()
    """the rating of each sample, null where one has none"""
    mean: float | None = None
    """mean of the valid samples"""
    sd: float | None = None
    """population standard deviation of the valid samples"""
    expected: float | None = None
    """the mean of the scale's values by their token probabilities; null where it was not asked for"""
    off_scale_mass: float | None = None
    """with `expected`: the probability mass that fell on no legal value"""
    blended: float | None = None
    """c + w · (b − b̄): the rating with the relevance blended in"""
    reason: str | None = None
    """the judge's reason, where it was asked for one"""
    unrated: Unrated | None = None
    """why there is no rating; null if there is one"""


class AspectScorers(Answer):
    """The scorers of one aspect, beside what raters reach."""

    n: int
    """items that the figures are of; one system's item counts as one"""
    left_out: int
    """rated items that some scorer has no value of"""
    clusters: int
    """dialogues, and items that belong to none: what intervals take as independent"""
    resamples: int = 0
    """0: no interval is by bootstrap any more"""
    ceiling: Ceiling | None = None
    """the correlation of one rater with the others; null without two raters"""
    scorers: Mapping[str, ScorerCorrelation] = {}
    """by scorer, the best Spearman first"""
    differences: Sequence[ScorerDifference] = ()
    """of every two scorers that both have a figure"""
    missing: Mapping[str, int] = {}
    """by scorer, how many of the rated items it has no value of"""


class AspectSummary(Answer):
    """
    One aspect over all evaluations: each counts with the mean of its samples.

    `histogram` counts ratings by level, every level of the scale present: of conversations that a monitor sampled with
    different probabilities each by its weight, all together as many as there are;
    `blended` is null where nothing is blended.
    """

    n: int
    """how many values the figures are of"""
    mean: float | None = None
    """the mean"""
    sd: float | None = None
    """standard deviation"""
    interval: tuple[float, float] | None = None
    """95% interval of the mean"""
    clusters: int = 0
    """independent units among the values: dialogues, and responses that stand alone"""
    reason: str | None = None
    """why there is no interval"""
    unrated: int
    """evaluations without a rating of this aspect"""
    unrated_reasons: Mapping[str, int] = {}
    """how many are unrated, by the reason"""
    histogram: Mapping[str, int | float] = {}
    """how many candidates got each rating"""
    blended: Spread | None = None
    """the figures of the blended values"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class AspectValidation(Answer):
    """
    One aspect's correlation within systems with the rater means of `n` items that two people or more rated each.

    `spearman_interval` holds with 95% for all aspects that were compared, and however often it is looked at;
    `ceiling_spearman` is the correlation of a rater with the others. Without such items `spearman` is that of all.
    """

    n: int
    """items that the judge and two people or more rated"""
    raters: int
    """people who rated the aspect"""
    spearman: float | None = None
    """Spearman's ρ; null where it is undefined"""
    pearson: float | None = None
    """Pearson's r; null where it is undefined"""
    spearman_interval: tuple[float, float] | None = None
    """95%: the lower and the upper end"""
    ceiling_spearman: float | None = None
    """the correlation of one rater with the others"""
    validated: bool = False
    """whether `state` is `validated`"""
    state: str = "unknown"
    source: ValidationSource | None = None
    """what the state is based on; null if unknown"""


class Batch(RatedBatch):
    """
    The current state of a batch.

    `progress` is the finished share, in [0, 1]; `rate_per_second` the finished candidates per second since it last
    started, null before. `signature` is the one that all results share; it is null without results or if they differ,
    and then `signatures` counts the results of each.
    """

    id: str
    """the batch's id, `ba_…`"""
    name: str | None = None
    """your name for the batch; runs of one name are compared in time"""
    status: Literal["queued", "running", "paused", "completed", "cancelled"]
    """the state"""
    pause_reason: str | None = None
    """why it is paused, by a stable name"""
    pause_detail: str | None = None
    """the reason in a sentence"""
    waiting_reason: str | None = None
    """why workers do not take it: `rubric-differs` if they have another file of the rubric; else null"""
    mode: str = "live"
    """`live` calls, or the provider's batch at half price"""
    rubric: str
    """the rubric's id, or `id@version`; without a version it is the newest"""
    rubric_version: int | None = None
    """null where a batch of an earlier release has no result that tells it"""
    path: str
    """the language that is judged: the source, its English translation, or both"""
    relevance: RelevanceOptions | None = None
    """how BERTScore relevance is blended in; null switches it off"""
    judge: JudgeOptions
    """how the judge is called"""
    budget_usd: float | None = None
    """the batch pauses before the judge's bill would pass it"""
    deadline_hours: float = 24.0
    """hours of running time after which the batch ends"""
    counts: Counts
    """candidates by state"""
    progress: float
    """share of the candidates that are finished, 0 to 1"""
    rate_per_second: float | None = None
    """finished candidates a second since it last started; null before"""
    estimated_end: datetime | None = None
    """when the batch will be complete at its present rate"""
    usage: BatchUsage
    """what it cost"""
    signature: str | None = None
    """how the scores were made, in one line; null where the results do not share one"""
    signatures: Mapping[str, int] = {}
    """how many results have each signature, where they do not share one"""
    metadata: Mapping[str, str] = {}
    """your own entries, such as `system` and `build`"""
    texts: str = "keep"
    """whether texts are still there, or were hashed or dropped as the policy says"""
    ids_given: bool | None = None
    created_at: datetime
    """when it was created, in UTC"""
    started_at: datetime | None = None
    """when it first started"""
    finished_at: datetime | None = None
    """when it was completed or cancelled"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class BatchPage(Answer):
    """A page of batches, newest first; `next` is the cursor of the next page, null on the last."""

    items: Sequence[Batch] = ()
    """the batches, newest first"""
    next: str | None = None
    """leads to the next page; null on the last"""


class BlendFit(Report):
    """
    The weight w of c + w(b − b̄) that correlates best with humans, by cross-validation over clusters: dialogues, and
    items that belong to none.
    """

    aspect: str
    """the aspect"""
    n: int
    """items that the figures are of; one system's item counts as one"""
    clusters: int = 0
    """what folds keep together and resamples draw"""
    left_out: int
    """items without the values that the figures need"""
    folds: int
    """parts of the cross-validation"""
    seed: int
    """of the random draws: the same seed and data give the same figures"""
    statistic: str
    """the correlation that is maximized"""
    weight: float | None = None
    """has the highest mean, over folds, of the correlation on the fold"""
    interval: tuple[float, float] | None = None
    """of the weight: 95%, by bootstrap over clusters within folds"""
    correlation: float | None = None
    """nested: each fold's with the weight that the others chose, averaged over folds"""
    unblended: float | None = None
    """the correlation of w = 0 on the same folds"""
    default: float | None = None
    """the correlation of w = 10 on the same folds"""
    tried: tuple[float, float] = (0.0, 50.0)
    """the least and the greatest weight that were tried"""
    resamples: int = 0
    """bootstrap samples; of very many items fewer"""
    notes: Sequence[str] = ()
    """what to know before using the figures"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    ratings_used: RatingsUsed | None = None
    """for a batch, the human ratings that the figures use; else null"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class BuildFixes(Answer):
    """What to fix first in one build of a system."""

    system: str | None = None
    """what the metadata name as the system; null where they name none"""
    build: str | None = None
    """what the metadata name as its build; null where they name none"""
    fix_first: Sequence[FixFirst] = ()
    """kinds of faults that occur, the largest `weight` first"""


class ComparedRuns(Answer):
    """Two runs with the verdicts on their pairs, by aspect."""

    first: RunPlace
    """the run that comes first in the plan"""
    second: RunPlace
    """the other run"""
    aspects: Mapping[str, ChoiceCounts] = {}
    """the aspects that count; null takes all"""
    failed: int = 0
    """pairs without a result, which no aspect counts"""


class CompositeFit(Report):
    """
    Least squares, without intercept, of target − intercept on the composite's transformed aspects.

    Each transformed aspect has the sign that the rubric's weight gives it, so that weights are positive where they
    agree with the rubric's direction.
    """

    composite: str
    """the composite"""
    target: str
    """the rating that the composite is fitted to"""
    n: int
    """items that the figures are of; one system's item counts as one"""
    clusters: int = 0
    """what is held out together: dialogues, and items that belong to none"""
    left_out: int
    """items without the values that the figures need"""
    train: int
    """items that the weights are fitted on"""
    test: int
    """items held out"""
    seed: int
    """of the random draws: the same seed and data give the same figures"""
    weights: Mapping[str, float | None] = {}
    """by aspect"""
    intervals: Mapping[str, tuple[float, float] | None] = {}
    """of the weights: by t where all items are independent, else by bootstrap over clusters"""
    declared: Mapping[str, float] = {}
    """the rubric's own weights, in the same sense"""
    pearson: float | None = None
    """of the fitted composite with the target, on the items held out"""
    declared_pearson: float | None = None
    """what the rubric's own weights reach on them"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    ratings_used: RatingsUsed | None = None
    """for a batch, the human ratings that the figures use; else null"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class CorrectedAspect(Answer):
    """
    One system's means of one aspect: what the judge says, what people said of some items, and what people would say
    of all.
    """

    judged: int
    """items with a score"""
    rated: int
    """of these, items that people rated"""
    clusters: int
    """what is independent: dialogues, and items that belong to none"""
    rated_clusters: int
    """of these, those with items that people rated"""
    raters: int = 0
    """people known by name who rated; 0 where none is"""
    judge: MeanFigure
    """the mean of all items, as the judge rates them"""
    human: MeanFigure | None = None
    """the mean of the items that people rated; null where no one did"""
    corrected: CorrectedFigure | None = None
    """the mean of all items, as people would rate them; null where it is refused"""
    refused: str | None = None
    """why `corrected` is null, with the number of ratings that it needs"""
    ratings_needed: int | None = None
    """ratings, in all, that a corrected figure needs; else null"""
    ratings_for_half_width: int | None = None
    """how many more ratings by these raters would halve the interval; null where not even ratings of all items would"""
    raters_for_half_width: int | None = None
    ratings_for_margin: int | None = None
    levels: Mapping[str, LevelShare] = {}
    """shares by level, of at most 11 whole numbers; empty for others, and in very large reports"""
    left_out: int = 0
    """rated items without a score"""
    notes: Sequence[str] = ()
    """what to know before using the figures"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class CorrectedMeasure(Answer):
    """
    One aspect or composite of both runs on people's scale: the judge's scores corrected by people's ratings.

    The difference has a λ of its own, so that it need not be the difference of the two means.
    """

    rated_baseline: int
    """responses of the baseline run that people rated; 0 without such a run"""
    rated_candidate: int
    """likewise, of the candidate run"""
    baseline: CorrectedFigure | None = None
    """the run that the candidate is compared with: a batch's id"""
    candidate: CorrectedFigure | None = None
    """the run that is judged: a batch's id"""
    difference: float | None = None
    """candidate minus baseline"""
    interval: tuple[float, float] | None = None
    """of the difference, at 1 - alpha"""
    standard_error: float | None = None
    """of the difference, robust to clusters"""
    p: float | None = None
    """of t, two-sided"""
    p_adjusted: float | None = None
    """p by Holm over the measures that have one"""
    smallest_detectable: float | None = None
    """the difference that is shown with 80% power"""
    verdict: Literal["better", "worse", "inconclusive"]
    """`steady`, `moved`, or `recorded` where there was nothing to compare with"""
    refused: str | None = None
    """why there is no difference"""
    ratings_needed: int | None = None
    """ratings that a refused figure needs; else null"""
    shared: SharedRaters | None = None
    """who rated both runs, by whose ratings alone the difference is; null without two runs"""
    notes: Sequence[str] = ()
    """what a reader of the figures should know, a sentence each"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class CorrectedSystem(Answer):
    """One system's means by aspect."""

    aspects: Mapping[str, CorrectedAspect] = {}
    """by aspect"""


class CorrelationReport(Report):
    """Scores against ratings, by aspect."""

    systems: int
    """different systems"""
    items: int
    """different items"""
    raters: int
    """raters that are named"""
    clusters: int | None = None
    resamples: int
    """as asked for; no interval is by bootstrap any more"""
    seed: int
    """of the random draws: the same seed and data give the same figures"""
    aspects: Mapping[str, AspectCorrelation] = {}
    """by aspect"""
    unmatched: Mapping[str, str] = {}
    """aspects that only the ratings, or only the scores, have, and which"""
    ratings_used: RatingsUsed | None = None
    """for a batch, the human ratings that the figures use; else null"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class Explanation(Answer):
    """What the judge said when it was asked again, for its reasons. It changes no rating of the evaluation."""

    aspects: Mapping[str, ExplainedRating] = {}
    """the aspects that count; null takes all"""
    usage: Usage
    """what it cost"""
    signature: str
    """how the scores were made, in one line; null where the results do not share one"""
    created_at: datetime
    """when it was created, in UTC"""


class HierarchyReport(Report):
    """Dependencies in the aspects' order, the lower first."""

    alpha: float
    """a pair is significant with a p below it"""
    systems: int
    """different systems"""
    items: int
    """different items"""
    aspects: Mapping[str, AspectPairs] = {}
    """by aspect, the pairs of systems that it tells apart"""
    dependencies: Sequence[Dependency] = ()
    """which aspect merely follows another"""
    best: Mapping[str, float] = {}
    """aspects that count by their distance from this level, the best; of all others more is better"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    ratings_used: RatingsUsed | None = None
    """for a batch, the human ratings that the figures use; else null"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class Info(Answer):
    """
    A service: its version, judge, rubrics and limits, the bytes that the caller's project stores, and the caller's
    key with its limits and today's cost. A limit that is None does not bound.
    """

    version: str
    """Saiten's version"""
    judge: JudgeInfo
    """the service's judge"""
    translator: str | None = None
    """the translator; null where there is none"""
    encoder: Mapping[str, Any] | str | None = None
    """the encoder's settings; null where there is none"""
    rubrics: Sequence[str] = ()
    """the rubrics' ids"""
    rubric_versions: Mapping[str, Sequence[int]] = {}
    """every version of each rubric"""
    limits: Mapping[str, int | None] = {}
    """the limits of requests and of the project's storage, by name; null for none"""
    key: Mapping[str, Any] | None = None
    """the caller's key with its limits and what it has cost today; null without one"""
    stored_bytes: int = 0
    """what the caller's project stores, in bytes"""


class IntegrityReport(Answer):
    """
    The second judgement of a dialogue that looks like an attack, without the suspicious spans.

    `masked` is each aspect's mean rating without them, `lift` the gain by them; both are null if either is unrated. The
    aspects of the evaluation itself are those of the unmasked dialogue.
    """

    spans: Sequence[MaskedSpan] = ()
    """the parts that were masked"""
    masked: Mapping[str, float | None] = {}
    """by aspect, the mean rating without the masked parts; null where it is unrated"""
    lift: Mapping[str, float | None] = {}
    """by aspect, the mean rating with the masked parts minus that without them; null where either is unrated"""


class JudgeCheck(Answer):
    """
    The result of a check; `ratings` are the current ones.

    `recorded`: there were no stored ratings of these anchors, so the current ones are the reference for the next check.
    """

    verdict: Literal["steady", "moved", "recorded"]
    """`steady`, `moved`, or `recorded` where there was nothing to compare with"""
    detail: str
    """one sentence"""
    rubric: str
    """the rubric's id, or `id@version`; without a version it is the newest"""
    judge: str
    """the judge's kind and model"""
    anchors: int
    """how many anchors were asked"""
    unrated: int
    """anchors without a rating now"""
    alpha: float
    """significance level"""
    aspects: Mapping[str, AspectDrift] = {}
    """the drift of each aspect"""
    pooled: PooledDrift | None = None
    """all aspects together"""
    signature_differences: Mapping[str, tuple[str, str]] = {}
    """by piece of the signature both values, the earlier one first, where they differ"""
    reference_at: datetime | None = None
    """when the ratings that these are compared with were given"""
    ratings: AnchorRatings
    """the judge's present ratings of the anchors"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class JudgesReport(Report):
    """Scorers side by side against the same ratings. A scorer's value of another name is `SCORER (NAME)`."""

    systems: int
    """different systems"""
    items: int
    """different items"""
    raters: int
    """raters that are named"""
    clusters: int | None = None
    """dialogues, and items that belong to none; null where no record names a dialogue"""
    resamples: int
    """as asked for; no interval is by bootstrap any more"""
    seed: int
    """of the random draws: the same seed and data give the same figures"""
    aspects: Mapping[str, AspectScorers] = {}
    """by aspect, the scorers"""
    unmatched: Mapping[str, str] = {}
    """ratings and scores that nothing was compared with, and why"""
    ratings_used: RatingsUsed | None = None
    """for a batch, the human ratings that the figures use; else null"""
    records: Sequence[Mapping[str, Any]] | None = None
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class Link(Answer):
    """A stored link. It goes with either of its batches."""

    id: str
    """`ln_…`"""
    created_at: datetime
    """when it was created, in UTC"""
    old: str
    """the old judge's batch"""
    new: str
    """the new judge's batch"""
    old_signature: str
    """how the old batch was scored: runs scored so can be linked"""
    new_signature: str
    """how linked runs count as scored"""
    unpaired: int = 0
    """responses that only one of the batches has a result of"""
    aspects: Mapping[str, AspectLink] = {}
    """all that either judge's rubric has"""


class Links(Answer):
    """All links of the project, newest first."""

    items: Sequence[Link] = ()
    """newest first"""


class MonitorOptions(Answer):
    """What a monitor samples, by what it scores it, and what it does with the results."""

    name: str
    """the name of its runs"""
    rubric: str
    """a rubric of conversations, `id` or `id@version`"""
    filter: Mapping[str, Any] = {}
    """attributes that a conversation has to have; `service.name` is the system"""
    rate: float = 0.05
    """the probability with which a conversation is sampled, from 0 to 1"""
    strata: Sequence[Stratum] = ()
    """conversations with other rates; the first stratum that a conversation is of counts"""
    idle_seconds: float = 300
    """a conversation has ended after so long without a turn"""
    max_turns: int = 400
    """or with so many turns"""
    window: str = "day"
    """conversations of one hour or day (UTC) are a run"""
    judge: JudgeOptions | None = None
    """how the judge is called"""
    budget_usd_per_day: float | None = None
    """what the judge may cost a day (UTC); the sample is thinned before that is passed"""
    alarm: AlarmOptions | None = None
    """null: no alarms"""
    redact: Sequence[str] = ("email", "phone", "number")
    """what is covered before a text is stored"""
    send_to: Sequence[Sink] = ()
    """where results are sent"""


class OrderVerdict(Answer):
    """What the judge said in one order. `verdict` is of the two as the request names them, not as they were shown."""

    shown: tuple[str, str]
    """which was shown first"""
    verdict: str | None = None
    """`steady`, `moved`, or `recorded` where there was nothing to compare with"""
    missing: Unrated | None = None
    """why there is no verdict"""


class PairAgreement(Answer):
    """
    How far the raters of a round agree about its pairs. Chance-corrected figures are over pairs with two raters or
    more; `undefined` says why there is none.
    """

    pairs: int
    """pairs with a preference"""
    raters: int
    """people with a preference"""
    preferences: int
    """preferences that the figures are of"""
    repeated: int
    """pairs with the preferences of two raters or more"""
    unanimous: int
    """of these, pairs whose raters all agree"""
    agreed: float | None = None
    """of two raters of one pair, how many agree, as a share"""
    krippendorff_alpha: float | None = None
    """ordinal: a tie stands between the two"""
    cohen_kappa: float | None = None
    """mean over all pairs of raters; values are labels"""
    fleiss_kappa: float | None = None
    """of all raters at once; values are labels"""
    shown_first: float | None = None
    runs: Sequence[RunTally] = ()
    """by two runs, in the round's order"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class PairPlan(Answer):
    """
    What a preference run compares: the responses of `runs`, which are batches, to the items that they share.
    `systems` are what people call the runs, in the same order. `items` have a pair in the plan, which `calls` judge if
    every first reply is a verdict. `left_out` says how many responses have no pair: `alone` ones, to whose item no
    other run has a response, and `failed` ones, which have no result; and how many pairs are none: those whose
    `contexts` differ, and those beyond `budget_calls`.
    """

    runs: Sequence[str] = ()
    """the batches' ids"""
    systems: Sequence[str] = ()
    """different systems"""
    pairs: str = "all"
    """each pair of systems"""
    baseline: str | None = None
    """the run that the candidate is compared with: a batch's id"""
    aspects: Sequence[str] = ("overall",)
    """the aspects that count; null takes all"""
    orders: str = "both"
    """both orders of each pair, or one"""
    budget_calls: int | None = None
    """the most first calls that were planned"""
    stop: str = "all"
    """when the run ends"""
    alpha: float = 0.05
    """significance level"""
    items: int = 0
    """different items"""
    calls: int = 0
    """judge calls"""
    responses: Sequence[int] = ()
    """how many each run has, `failed` ones too"""
    rounds: Sequence[PairRound] = ()
    """with `active`: what was chosen, round by round"""
    left_out: Mapping[str, int] = {}
    """responses without a pair: `alone`, `failed`; and pairs that are none: `contexts` that differ, `budget_calls`"""


class PairedWins(Answer):
    """Two systems on the contexts that both answered with a value."""

    a: str
    """the first system"""
    b: str
    """the second system"""
    contexts: int
    """contexts that both systems answered with a value"""
    a_wins: WinShare
    """contexts that the first system won"""
    b_wins: WinShare
    """contexts that the second system won"""
    ties: WinShare
    """contexts that several systems won together"""
    preference: float | None = None
    """a's share of the contexts that one of the two won"""
    preference_interval: tuple[float, float] | None = None
    """of the preference: Wilson's, 95%"""
    left_out: int = 0
    """contexts that one of them, or both, did not answer with a value"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class PathResult(Answer):
    """The result of one language path."""

    aspects: Mapping[str, AspectResult] = {}
    """the verdict on each aspect"""
    composites: Mapping[str, float | None] = {}
    """the rubric's composites, null where an aspect that one needs is unrated"""
    relevance: RelevanceResult | None = None
    """the similarity of response and context; null where it was switched off"""
    signature: str
    """how the scores were made, in one line; null where the results do not share one"""
    findings: Sequence[Finding] | None = None
    """of a conversation: faults of system turns"""
    windows: Sequence[tuple[int, int]] | None = None
    """of a conversation longer than one call to the judge: the first and the last turn of each window"""


class Paths(Answer):
    """Both paths, and English minus source per aspect, null if either is unrated."""

    source: PathResult
    """the result on the source path"""
    english: PathResult
    """the result on the English path"""
    difference: Mapping[str, float | None] = {}
    """English minus source by aspect, null where either is unrated"""
    translation_sensitive: bool
    """whether an aspect was rated differently on the two paths"""


class PreferenceRound(Answer):
    """A round of preferences as it is now."""

    id: str
    """the round's id, `rr_…`"""
    options: PairOptions
    """as asked for"""
    drawn: int
    """pairs that were drawn, without those erased since"""
    created_at: datetime
    """when it was created, in UTC"""
    closed_at: datetime | None = None
    """null while pairs are handed out"""
    progress: RoundProgress
    """how far it is, in pairs"""
    address: str
    """path of the page on which people compare"""


class PreferenceRounds(Answer):
    """Rounds of preferences, newest first."""

    items: Sequence[PreferenceRound] = ()
    """different items"""


class PreferenceRun(RatedBatch):
    """The current state of a preference run: a batch whose candidates are pairs, and what it compares."""

    id: str
    """the preference run's id, `pf_…`"""
    name: str | None = None
    """your name for the batch; runs of one name are compared in time"""
    status: Literal["queued", "running", "paused", "completed", "cancelled"]
    """the state"""
    pause_reason: str | None = None
    """why it is paused, by a stable name"""
    pause_detail: str | None = None
    """the reason in a sentence"""
    waiting_reason: str | None = None
    """why workers do not take it: `rubric-differs` if they have another file of the rubric; else null"""
    mode: str = "live"
    """`live` calls, or the provider's batch at half price"""
    rubric: str
    """the rubric's id, or `id@version`; without a version it is the newest"""
    rubric_version: int | None = None
    """null where a batch of an earlier release has no result that tells it"""
    path: str
    """the language that is judged: the source, its English translation, or both"""
    relevance: RelevanceOptions | None = None
    """how BERTScore relevance is blended in; null switches it off"""
    judge: JudgeOptions
    """how the judge is called"""
    budget_usd: float | None = None
    """the batch pauses before the judge's bill would pass it"""
    deadline_hours: float = 24.0
    """hours of running time after which the batch ends"""
    counts: Counts
    """candidates by state"""
    progress: float
    """share of the candidates that are finished, 0 to 1"""
    rate_per_second: float | None = None
    """finished candidates a second since it last started; null before"""
    estimated_end: datetime | None = None
    """when the batch will be complete at its present rate"""
    usage: BatchUsage
    """what it cost"""
    signature: str | None = None
    """how the scores were made, in one line; null where the results do not share one"""
    signatures: Mapping[str, int] = {}
    """how many results have each signature, where they do not share one"""
    metadata: Mapping[str, str] = {}
    """your own entries, such as `system` and `build`"""
    texts: str = "keep"
    """whether texts are still there, or were hashed or dropped as the policy says"""
    ids_given: bool | None = None
    created_at: datetime
    """when it was created, in UTC"""
    started_at: datetime | None = None
    """when it first started"""
    finished_at: datetime | None = None
    """when it was completed or cancelled"""
    pairs: PairPlan
    """each pair of systems"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class PreferenceRunPage(Answer):
    """A page of preference runs, newest first; `next` is the cursor of the next page, null on the last."""

    items: Sequence[PreferenceRun] = ()
    """different items"""
    next: str | None = None
    """leads to the next page; null on the last"""


class PreferenceSummary(Answer):
    """The results of a preference run so far. `pairs` has every two runs that were compared."""

    id: str
    """the preference run's id, `pf_…`"""
    status: str
    """the state"""
    counts: Counts
    """candidates by state"""
    items: int
    """distinct items that were compared"""
    clusters: int
    """independent units: dialogues, or items where none is known"""
    aspects: Mapping[str, ChoiceCounts] = {}
    """all pairs together"""
    pairs: Sequence[ComparedRuns] = ()
    """each pair of systems"""
    position: Mapping[str, PositionReport] = {}
    """place in the batch, counting candidates from 0"""
    usage: Usage
    """what it cost"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class Ranking(Report):
    """Systems ranked by preferences. Figures that the data do not define are null, with the reason in `undefined`."""

    alpha: float
    """intervals, rank sets and resolved pairs are at 1 - alpha"""
    by: str
    """whose preferences these are"""
    looks: int
    """answers to one pair in one order"""
    items: int
    """items that were looked at"""
    clusters: int
    """what is independent: dialogues, and items that belong to none"""
    raters: int
    """people; 0 where the judge looked"""
    systems: Mapping[str, RankedSystem] = {}
    """by name; with lengths or covariates at a difference of zero in all of them"""
    tied_with_best: Sequence[str] = ()
    """the systems that none is surely better than: the best is among them at 1 - alpha"""
    resolved: Sequence[ResolvedPair] = ()
    """the surest first"""
    components: Sequence[Sequence[str]] = ()
    """systems that comparisons connect, directly or through others; each is ranked by itself"""
    scales: Sequence[Sequence[str]] = ()
    pairs: Sequence[SystemsMet] = ()
    """systems that met, in the order of the ranks"""
    tie_rate: float
    """share of the looks that ended in a tie"""
    tie_parameter: float | None = None
    """Davidson's nu: two equal systems tie with nu / (2 + nu); of the ordinal model its threshold"""
    tie_parameter_interval: tuple[float, float] | None = None
    """at 1 - alpha"""
    position_effect: TermFigure | None = None
    """what being shown first adds"""
    position_consistency: float | None = None
    """of the pairs that were seen in both orders, the share with the same answer"""
    position_consistency_interval: tuple[float, float] | None = None
    """at 1 - alpha"""
    both_orders: int
    """pairs of responses that were seen in both orders"""
    position_dependent: int
    """of these, those in which each order was answered for another system"""
    length_effect: float | None = None
    """what a difference in length adds, at its bounded standard deviation as AlpacaEval 2 has it"""
    length_effect_interval: tuple[float, float] | None = None
    """at 1 - alpha"""
    covariates: Mapping[str, TermFigure] = {}
    """what one unit more than the other adds, by name"""
    without_covariates: Mapping[str, PlainRank] | None = None
    """the same systems with lengths and covariates left out; null where there are none"""
    corrected: Ranking | None = None
    """what people would say of all that the judge saw; null where no one did"""
    weight: float | None = None
    """of a corrected ranking, the judge's weight, from 0 (people alone) to 1"""
    refused: str | None = None
    """why `corrected` is null although people answered"""
    notes: Sequence[str] = ()
    """what to know before using the figures"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class Reliability(Answer):
    """The badge of a judge: how far its ratings can be trusted, in figures and in words (`detail`)."""

    validated: bool
    """whether every aspect that was compared with human ratings is validated, and one was at least"""
    detail: str
    """the same in words"""
    n: int | None = None
    """items that judge and humans both rated"""
    at: datetime | None = None
    """when the correlation was computed"""
    aspects: Mapping[str, AspectValidation] = {}
    """every aspect of the rubric, and what else of it people rated"""


class Round(Answer):
    """A rating round as it is now."""

    id: str
    """the round's id, `rr_…`"""
    batch: str
    """the batch whose responses people rate"""
    options: RoundOptions
    """as asked for"""
    drawn: int
    """responses that were drawn, without those erased since"""
    signals: Sequence[str] = ()
    """what told where the judge is unsteady; empty where that did not count"""
    note: str | None = None
    """why an informative choice was made at random, or why ratings are left out of figures; else null"""
    created_at: datetime
    """when it was created, in UTC"""
    closed_at: datetime | None = None
    """null while responses are handed out"""
    progress: RoundProgress
    """how far it is"""
    address: str
    """path of the page on which people rate"""
    shared: SharedProgress | None = None
    """how far people rated both rounds that share items; null without one, and in lists"""


class RoundList(Answer):
    """Rounds, newest first."""

    items: Sequence[Round] = ()
    """different items"""


class Rubric(VersionedRubric):
    """A rubric. A list of rubrics has `versions`, and ids in place of the composites."""

    id: str
    """the rubric's id"""
    version: int
    """the rubric's version"""
    versions: Sequence[int] = ()
    """all versions that there are"""
    digest: str
    """SHA-256 of the rubric"""
    title: Mapping[str, str] = {}
    """its title by language"""
    source_language: str
    """the language of the dialogues that it rates"""
    languages: Sequence[str] = ()
    """the languages that it can judge in"""
    calls: str = "joint"
    """whether one judge call rates all aspects, or one call each"""
    task: Mapping[str, str] = {}
    """what the judge is told, by language"""
    aspects: Sequence[RubricAspect] = ()
    """its aspects"""
    composites: Sequence[str | Mapping[str, Any]] = ()
    """its composites; in a list their ids"""


class RubricList(Answer):
    """Every rubric in its newest version."""

    rubrics: Sequence[Rubric] = ()
    """every rubric in its newest version"""


class SequenceBuild(Answer):
    """A build of a sequence."""

    night: int
    """its place, from 1; what a place may spend of alpha stays spent"""
    batch: str | None = None
    """null once it was erased"""
    judged_at: datetime
    """when it was judged first"""
    verdict: Literal["pass", "fail", "inconclusive"]
    """what its gate said last"""
    drops: Mapping[str, SequenceDrop] | None = None
    """by what rules name, what was not mended with it; null where that was not kept"""


class Summary(Answer):
    """
    A batch's results in figures. `failures` counts candidates without a single rating by the failure's code,
    `warnings` results by warning code, `signatures` results by signature where they differ.
    """

    batch: str
    """the batch's id"""
    name: str | None = None
    """your name for the batch; runs of one name are compared in time"""
    status: Literal["queued", "running", "paused", "completed", "cancelled"]
    """the state"""
    rubric: str
    """the rubric's id, or `id@version`; without a version it is the newest"""
    rubric_version: int | None = None
    """the rubric's version, where it is known"""
    counts: Counts
    """candidates by state"""
    coverage: Coverage
    """how many of the expected ratings there are"""
    aspects: Mapping[str, AspectSummary] = {}
    """the figures of each aspect"""
    composites: Mapping[str, Spread] = {}
    """the figures of each composite"""
    warnings: Mapping[str, int] = {}
    """how many results have each warning, by its code"""
    failures: Mapping[str, int] = {}
    """failed candidates by the failure's code"""
    usage: Usage
    """what it cost"""
    signature: str | None = None
    """how the scores were made, in one line; null where the results do not share one"""
    signatures: Mapping[str, int] = {}
    """how many results have each signature, where they do not share one"""
    findings: FindingSummary | None = None
    """of conversations; null for a batch of items"""
    faulty_turns: FindingRate | None = None
    """of conversations: system turns with any finding, of the judge or of a rule; as `findings.any`"""
    kinds: Mapping[str, FindingRate] | None = None
    """findings by kind of fault, found by the judge or a rule; null where the rubric has no kinds"""
    fix_first: Sequence[FixFirst] | None = None
    fix_first_by_system: Mapping[str, Sequence[FixFirst]] = {}
    """likewise by `system` in the metadata, where there are several"""
    fix_first_by_build: Sequence[BuildFixes] = ()
    """likewise by `system` and `build` in the metadata, where there are several builds"""
    reliability: Reliability | None = None
    """how the judge's ratings correlated with people's"""
    clusters: int | None = None


class SystemsDifference(Answer):
    """Two systems, aspect by aspect."""

    baseline: str
    """the run that the candidate is compared with: a batch's id"""
    candidate: str
    """the run that is judged: a batch's id"""
    aspects: Mapping[str, AspectDifference] = {}
    """by aspect"""


class TracedConversation(Answer):
    """A live conversation as its spans tell it, each turn once."""

    id: str
    """begins with `lc_`"""
    name: str
    """the id that its spans name; that of the trace where they name none"""
    state: str
    """`open` while it goes on, `closed` when it ended, `done` when monitors have seen it"""
    first_at: datetime
    """when its first span arrived"""
    last_at: datetime
    """when its last span arrived"""
    closed_at: datetime | None = None
    """when it ended"""
    attributes: Mapping[str, str] = {}
    """those that monitors name"""
    late_spans: int
    """spans that came too late to be part of it"""
    refused_spans: int
    """spans beyond what a conversation may hold"""
    turns: Sequence[TracedTurn] = ()
    """in the order of time"""
    system: str | None = None
    """`service.name` of most of the bot's turns"""
    build: str | None = None
    """`service.version` of most of the bot's turns"""
    errors: int
    """calls that failed"""
    tool_calls: int
    """calls of tools, which are no turns"""
    repeats: int
    """answers that another span repeats or replaces"""


class TracedConversations(Answer):
    """Live conversations, the newest first."""

    items: Sequence[TracedHead] = ()
    """the newest first"""
    next: str | None = None
    """`cursor` of the next page; null on the last"""


class TurnScore(Answer):
    """The evaluation of one system turn as a response, stored under its own id."""

    turn: int
    """the number of the system turn, counted from 0 over all turns"""
    evaluation: str
    """the evaluation's id"""
    aspects: Mapping[str, AspectResult] = {}
    """the aspects that count; null takes all"""


class AgreementReport(Report):
    """`items` counts one system's item as one."""

    systems: int
    """different systems"""
    items: int
    """different items"""
    raters: int
    """raters that are named"""
    ratings: int
    """values of all aspects"""
    aspects: Mapping[str, AspectAgreement] = {}
    """by aspect"""
    correlations: Correlations
    """between aspects"""
    ratings_used: RatingsUsed | None = None
    """for a batch, the human ratings that the figures use; else null"""


class AspectPreference(Answer):
    """
    Which of the two is better in one aspect. Opposite answers of the two orders are a tie that is
    `position_dependent`; without the verdict of an order that was asked there is no preference.
    """

    preference: str | None = None
    """the better one, or `tie`; null where an order has no verdict"""
    strength: float | None = None
    orders: Sequence[OrderVerdict] = ()
    """what the judge said in each order"""
    position_dependent: bool
    """whether the two orders gave opposite answers"""


class AspectWins(Answer):
    """A context is won by the one system with the highest value, tied where several have it."""

    contexts: int
    """those that every system answered with a value"""
    left_out: int
    """contexts that some system did not answer with a value"""
    systems: Mapping[str, WinShare] = {}
    """the contexts that each system won"""
    ties: WinShare
    """contexts that several systems won together"""
    pairs: Sequence[PairedWins] = ()
    """each pair of systems"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class CorrectedReport(Report):
    """A judge's means corrected by people's ratings."""

    alpha: float
    """intervals are at 1 - alpha"""
    looks: str = "once"
    """as asked for: with `any`, figures hold however often they are looked at"""
    margin: float | None = None
    """as asked for"""
    systems: Mapping[str, CorrectedSystem] = {}
    """by system"""
    differences: Sequence[SystemsDifference] = ()
    """of each two systems"""
    unmatched: Mapping[str, str] = {}
    """aspects that people rated and the judge did not score"""
    ratings_used: RatingsUsed | None = None
    """for a batch, the human ratings that the figures use; else null"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class Evaluation(Answer):
    """An evaluation with the extra fields that `include` selects."""

    id: str
    """the evaluation's id, `ev_…`"""
    status: Literal["scored", "partial", "failed"]
    """`scored`, or `partial` if some aspect is unrated; `failed` in batches only"""
    rubric: RubricReference
    """the rubric that rated"""
    path: str
    """the language that is judged: the source, its English translation, or both"""
    aspects: Mapping[str, AspectResult] = {}
    """the verdict on each aspect; with both paths, that of the source path"""
    composites: Mapping[str, float | None] = {}
    """the rubric's composites, null where an aspect that one needs is unrated"""
    relevance: RelevanceResult | None = None
    """the similarity of response and context; null where it was switched off"""
    translation: Translation | None = None
    """the dialogue in English; null where it was not translated"""
    paths: Paths | None = None
    """both results where the path is `both`; else null"""
    judge: JudgeProvenance
    """which judge it was"""
    usage: Usage
    """what it cost"""
    warnings: Sequence[Warned] = ()
    """what the reader of the score should know"""
    signature: str
    """how the scores were made, in one line"""
    signature_pieces: Mapping[str, str] = {}
    """the pieces of the signature by name"""
    cached: bool
    """whether every reply came from the cache"""
    created_at: datetime
    """when it was created, in UTC"""
    metadata: Mapping[str, str] = {}
    """your own entries, such as `system` and `build`"""
    dialogue: str | None = None
    """as in the request"""
    integrity: IntegrityReport | None = None
    """with the policy `judge-twice`, where a text looks like an attack on the judge"""
    findings: Sequence[Finding] | None = None
    """of a conversation: faults of system turns"""
    kinds: Mapping[str, int] | None = None
    """of a conversation whose findings all have kinds: faulty system turns by kind of fault"""
    windows: Sequence[tuple[int, int]] | None = None
    """of a conversation longer than one call to the judge: the first and the last turn of each window"""
    turn_scores: Sequence[TurnScore] | None = None
    """with `score_turns`: the evaluation of each system turn that has a context"""
    explained: Explanation | None = None
    """the judge's reasons, where it was asked for them after it had rated"""
    reliability: Reliability | None = None
    """how the judge's ratings correlated with human ratings; added when a result is read"""
    texts_missing: str | None = None
    """with `include=request`: why the texts of an adopted result could not be read from its files"""
    trace: Sequence[CallTrace] | None = None
    """the judge's calls, with `include=trace`"""
    request: Mapping[str, Any] | None = None
    """what was asked, with `include=request`"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class EvaluationPage(Answer):
    """A page of evaluations, newest first; `next` is the cursor of the next page, null on the last."""

    items: Sequence[Evaluation] = ()
    """the evaluations, newest first"""
    next: str | None = None
    """leads to the next page; null on the last"""


class GateSequence(Answer):
    """A sequence of builds. It ends when its baseline is erased."""

    name: str
    """your name for the batch; runs of one name are compared in time"""
    baseline: str
    """the batch that all builds are judged against"""
    alpha: float
    """how often, at most, any build of the whole sequence fails if nothing changed"""
    started_at: datetime
    """when its first build was judged"""
    builds: Sequence[SequenceBuild] = ()
    """in their order; empty in the list of all sequences"""


class GateSequences(Answer):
    """All sequences of the project, without their builds."""

    items: Sequence[GateSequence] = ()
    """in the order of their names"""


class Leaderboard(Answer):
    """Systems ranked by all who prefer: the judge's comparisons in pairs, people's, and the judge's ratings."""

    name: str | None = None
    """of the runs, where that was asked for"""
    preference_run: str | None = None
    """the preference run, where that was asked for"""
    runs: Mapping[str, str] = {}
    """by system, its run"""
    judge: Ranking | None = None
    """by comparisons in pairs, corrected by people; null without them"""
    people: Ranking | None = None
    """by what people prefer; null where no one was asked"""
    ratings: Ranking | None = None
    """by the judge's ratings of single responses: the higher one wins; null where there are none"""
    agreement: Sequence[SourcesAgreement] = ()
    """of each two sources"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class Measure(Answer):
    """
    One aspect, composite or blended aspect in both runs.

    Differences are candidate minus baseline in scale points: over pairs with a value on both sides (`test` is
    sign-flip), else over each run's items (permutation). Both tests are tests of the difference of the means, with
    dialogues as units.
    """

    kind: str
    """which kind it is"""
    test: str
    """which test this is"""
    n: int
    """pairs with a value on both sides; unpaired, the smaller side's items with a value"""
    n_baseline: int
    """items of the baseline run that count here"""
    n_candidate: int
    """items of the candidate run that count here"""
    clusters: int = 0
    clusters_baseline: int = 0
    """those of the items of the baseline run that count here"""
    clusters_candidate: int = 0
    """likewise, of the candidate run"""
    baseline_mean: float | None = None
    """mean of these items; of minus the distance where there is a `best`"""
    candidate_mean: float | None = None
    """likewise, of the candidate run"""
    difference: float | None = None
    """candidate mean minus baseline mean"""
    interval: tuple[float, float] | None = None
    """of the difference, at 1 - alpha, never beyond what the scale allows; each measure's by itself"""
    standard_error: float | None = None
    """of the difference, robust to clusters"""
    freedom: float | None = None
    """degrees of freedom of the standard error"""
    link_error: float = 0.0
    """the link's standard error, which is in `standard_error`; 0 without a link"""
    p: float | None = None
    """of the test, two-sided"""
    p_adjusted: float | None = None
    cliffs_delta: float | None = None
    """P(candidate higher) - P(baseline higher) over all pairs of an item of either run, in [-1, 1]"""
    smallest_detectable: float | None = None
    verdict: Literal["better", "worse", "inconclusive"]
    """by `p_adjusted` and alpha, and the sign of the difference"""
    wins: PairedWins | None = None
    """of paired items; `a` is the candidate"""
    best: float | None = None
    """the best value where it is not the highest: compared is minus the distance from it; else null"""
    baseline_rating_mean: float | None = None
    """mean of the ratings themselves; that is `baseline_mean` where there is no `best`"""
    candidate_rating_mean: float | None = None
    """likewise, of the candidate run"""
    ranks_favour: str = "neither"
    """whose values are higher more often, by `cliffs_delta`; the verdict is not by it"""
    differing: int = 0
    doubt: str = ""
    """why a difference is not shown that the test's flips alone would show; else empty"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class Monitor(Answer):
    """A monitor as it is now."""

    id: str
    """mo_…"""
    version: int
    """counts its changes, from 1"""
    created_at: datetime
    """when it was created, in UTC"""
    updated_at: datetime
    """when it was last changed"""
    options: MonitorOptions
    """what it samples and does, as it was given; the rubric with its version"""
    waiting: int = 0
    """sampled conversations without a result"""
    thinning: int = 0
    """how often the rates are halved today, so that the budget lasts; 0: not thinned"""
    spent_usd_today: float | None = 0.0
    """null where the price of a result is not known"""
    sinks: Sequence[SinkState] = ()
    """what became of what was sent; empty in a list of monitors"""


class Monitors(Answer):
    """All monitors of the project."""

    items: Sequence[Monitor] = ()
    """newest first"""


class Preference(Answer):
    """Which of the two is better, by aspect."""

    id: str
    """the comparison's id, `pr_…`"""
    rubric: RubricReference
    """the rubric's id, or `id@version`; without a version it is the newest"""
    aspects: Mapping[str, AspectPreference] = {}
    """the aspects that count; null takes all"""
    first: PairSide
    """the one that the request names first"""
    second: PairSide
    """the other one"""
    path: str = "source"
    """the language that was judged"""
    judge: JudgeProvenance
    """how the judge is called"""
    usage: Usage
    """what it cost"""
    warnings: Sequence[Warned] = ()
    """what the reader of the score should know"""
    signature: str
    """how the scores were made, in one line; null where the results do not share one"""
    cached: bool
    """whether every reply came from the cache"""
    created_at: datetime
    """when it was created, in UTC"""
    metadata: Mapping[str, str] = {}
    """your own entries, such as `system` and `build`"""
    dialogue: str | None = None
    """as in the request"""


class PreferenceRow(Answer):
    """A pair's place in its run with what a comparison says, or with the `error` in place of it."""

    position: int | None = None
    """place in the batch, counting candidates from 0"""
    item: str | None = None
    """your name for the item, or its number"""
    candidate: int | None = None
    """number among the item's responses, from 0; null where it has a single one"""
    dialogue: str | None = None
    """the item's `dialogue`"""
    cluster: str | None = None
    """digest of the dialogue: what has the same one counts as one independent unit; null stands alone"""
    ids_given: bool | None = None
    context_digest: str | None = None
    system_turns: int | None = None
    """of a conversation: how many turns the system has"""
    batch_metadata: Mapping[str, str] | None = None
    """the run's; absent where it has none"""
    texts: PairTexts | None = None
    """with `texts=true`"""
    status: Literal["scored", "partial", "failed"]
    """`partial` if some aspect has no preference, `failed` if none has"""
    error: Failure | None = None
    """why there is no comparison"""
    id: str | None = None
    """the comparison's id, `pr_…`"""
    rubric: RubricReference | None = None
    """the rubric's id, or `id@version`; without a version it is the newest"""
    aspects: Mapping[str, AspectPreference] = {}
    """the aspects that count; null takes all"""
    first: PairSide | None = None
    """the one that the request names first"""
    second: PairSide | None = None
    """the other one"""
    path: str = "source"
    """the language that was judged"""
    judge: JudgeProvenance | None = None
    """how the judge is called"""
    usage: Usage | None = None
    """what it cost"""
    warnings: Sequence[Warned] = ()
    """what the reader of the score should know"""
    signature: str | None = None
    """how the scores were made, in one line; null where the results do not share one"""
    cached: bool | None = None
    """whether every reply came from the cache"""
    created_at: datetime | None = None
    """when it was created, in UTC"""
    metadata: Mapping[str, str] = {}
    """your own entries, such as `system` and `build`"""


class ResultRow(Answer):
    """A candidate's place in its batch with its evaluation, or with the `error` in place of one."""

    position: int | None = None
    """place in the batch, counting candidates from 0"""
    item: str | None = None
    """your name for the item, or its number"""
    candidate: int | None = None
    """number among the item's responses, from 0; null where it has a single one"""
    dialogue: str | None = None
    """as in the request"""
    cluster: str | None = None
    """digest of the dialogue: what has the same one counts as one independent unit; null stands alone"""
    ids_given: bool | None = None
    context_digest: str | None = None
    system_turns: int | None = None
    """of a conversation: how many turns the system has"""
    batch_metadata: Mapping[str, str] | None = None
    """the batch's; absent where it has none"""
    context: Sequence[Mapping[str, str]] | None = None
    """what the response answers"""
    response: str | None = None
    """what was scored"""
    turns: Sequence[Mapping[str, str]] | None = None
    """of a conversation: all that was said"""
    persona: Mapping[str, str | bool | int | float] | None = None
    """of a conversation, if it has one"""
    goal: str | None = None
    """of a conversation, if it has one"""
    status: Literal["scored", "partial", "failed"]
    """`scored`, or `partial` if some aspect is unrated; `failed` in batches only"""
    error: Failure | None = None
    """why there is no evaluation"""
    id: str | None = None
    """the evaluation's id, `ev_…`"""
    rubric: RubricReference | None = None
    """the rubric that rated"""
    path: str | None = None
    """the language that is judged: the source, its English translation, or both"""
    aspects: Mapping[str, AspectResult] = {}
    """the verdict on each aspect; with both paths, that of the source path"""
    composites: Mapping[str, float | None] = {}
    """the rubric's composites, null where an aspect that one needs is unrated"""
    relevance: RelevanceResult | None = None
    """the similarity of response and context; null where it was switched off"""
    translation: Translation | None = None
    """the dialogue in English; null where it was not translated"""
    paths: Paths | None = None
    """both results where the path is `both`; else null"""
    judge: JudgeProvenance | None = None
    """which judge it was"""
    usage: Usage | None = None
    """what it cost"""
    warnings: Sequence[Warned] = ()
    """what the reader of the score should know"""
    signature: str | None = None
    """how the scores were made, in one line"""
    signature_pieces: Mapping[str, str] = {}
    """the pieces of the signature by name"""
    cached: bool | None = None
    """whether every reply came from the cache"""
    created_at: datetime | None = None
    """when it was created, in UTC"""
    metadata: Mapping[str, str] = {}
    """your own entries, such as `system` and `build`"""
    integrity: IntegrityReport | None = None
    """with the policy `judge-twice`, where a text looks like an attack on the judge"""
    findings: Sequence[Finding] | None = None
    """of a conversation: faults of system turns"""
    kinds: Mapping[str, int] | None = None
    """of a conversation whose findings all have kinds: faulty system turns by kind of fault"""
    windows: Sequence[tuple[int, int]] | None = None
    """of a conversation longer than one call to the judge: the first and the last turn of each window"""
    turn_scores: Sequence[TurnScore] | None = None
    """with `score_turns`: the evaluation of each system turn that has a context"""
    explained: Explanation | None = None
    """the judge's reasons, where it was asked for them after it had rated"""
    reliability: Reliability | None = None
    """how the judge's ratings correlated with human ratings; added when a result is read"""


class WinReport(Report):
    """Per aspect; what is blended stands as `NAME.blended`."""

    systems: Sequence[str] = ()
    """the systems, in order"""
    contexts: int
    """all, those that one system alone answered included"""
    clusters: int | None = None
    aspects: Mapping[str, AspectWins] = {}
    """by aspect"""
    best: Mapping[str, float] = {}
    """aspects that count by their distance from this level, the best; of all others more is better"""
    undefined: Mapping[str, str] = {}
    """figures that are null, each with the reason"""
    ratings_used: RatingsUsed | None = None
    """for a batch, the human ratings that the figures use; else null"""
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class Comparison(Answer):
    """Two runs, measure by measure."""

    baseline: str
    """name of the baseline run"""
    candidate: str
    """name of the candidate run"""
    alpha: float
    """significance level of each kind of measures together"""
    pairing: Pairing
    """which items of the two runs belong together"""
    aspects: Mapping[str, Measure] = {}
    """by aspect"""
    composites: Mapping[str, Measure] = {}
    """by composite"""
    blended: Mapping[str, Measure] = {}
    """by the aspect's own name"""
    findings: Mapping[str, Measure] = {}
    kinds: Mapping[str, Measure] = {}
    """likewise by kind of fault, found by the judge or a rule; empty where neither rubric has kinds"""
    faulty_turns: Measure | None = None
    """of conversations: system turns with any finding per 100, as `findings.any`"""
    coverage: Mapping[str, RunCoverage] = {}
    """of each run, over all aspects"""
    signature_differences: Mapping[str, tuple[str, str]] = {}
    """by piece both runs' values, baseline first, where they differ: only where that was allowed"""
    notes: Sequence[str] = ()
    """what a reader of the figures should know, a sentence each"""
    link: LinkMark | None = None
    """where a run of another judge is shown on this judge's scale; null unless asked for"""
    estimate: str = "judge"
    """as asked for; both stand here where it is `corrected`"""
    looks: str = "once"
    """how often corrected figures may be looked at, as asked for"""
    corrected: Mapping[str, CorrectedMeasure] = {}
    """aspects and composites on people's scale; empty unless asked for"""
    reliability: Mapping[str, str] = {}
    messages: Mapping[str, Any] = {}
    """by field, the `code` and the `values` of the sentences in it; those of a list in its order"""


class GateReport(Answer):
    """The verdict for a CI job, with its reasons."""

    verdict: Literal["pass", "fail", "inconclusive"]
    """what a CI job acts on"""
    reasons: Sequence[GateReason] = ()
    """those that decided first, then the rest"""
    alpha: float
    """how often, at most, a run without any difference fails"""
    min_coverage: float
    """share that there must be of each measure that a rule names, in each run that is used and in pairs"""
    coverage: RunCoverage
    """the candidate's, over all measures that the rules name"""
    rules: Sequence[Rule] = ()
    """those applied, the default ones among them"""
    comparison: Comparison | None = None
    """null without a baseline run"""
    estimate: str = "judge"
    """which estimate decided"""
    looks: str = "once"
    """how often corrected figures may be looked at, as asked for"""
    corrected: Mapping[str, CorrectedMeasure] = {}
    """what rules name, on people's scale; empty unless `estimate` is `corrected`"""
    sequence: SequenceMark | None = None
    """the candidate's place where a sequence of builds is judged"""
    id: str | None = None
    """`ga_…` where the verdict is kept; else it is left out"""
    at: datetime | None = None
    """when it was kept"""
    runs: Mapping[str, str | None] | None = None
    """of a kept verdict: the ids of both batches, null for a run that was given as results"""
    metadata: Mapping[str, str] | None = None
    """what was kept with the verdict, such as the commit"""
    candidate: str = ""
    """name of the candidate run"""
    signatures: Mapping[str, int] = {}
    """results of the candidate run by signature"""
    reliability: Mapping[str, str] = {}


class GatePage(Answer):
    """A page of kept verdicts, without their comparisons."""

    items: Sequence[GateReport] = ()
    """newest first; `comparison` is null and `corrected` empty here"""
    next: str | None = None
    """the cursor of the next page; null on the last"""


Ranking.model_rebuild()
