"""A batch: many candidates scored with the same options, its progress, its results, and its estimated cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from operator import not_
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from saiten.core.messages import Message, Misfit
from saiten_server.core.access import Integrity, TextKeeping
from saiten_server.core.conversation import Conversation, GivenConversation, Persona, Role, Turn
from saiten_server.core.dialogue import Context, Speaker, Text, Utterance, at_most, check_line
from saiten_server.core.errors import SaitenError
from saiten_server.core.evaluation import (
    OVERALL,
    ConversationRequest,
    DialogueId,
    EvaluationRequest,
    GivenSide,
    JudgeOptions,
    Metadata,
    Orders,
    PathChoice,
    PreferenceRequest,
    References,
    RelevanceOptions,
    Usage,
)
from saiten_server.core.model import Finite, Id, RubricName, Value, is_none, listed
from saiten_server.core.rubric import name_version
from saiten_server.core.sentences import Detailed, MessageId, MessageValues, Sentence, Telling, in_english

BatchId = Annotated[str, Field(min_length=1, max_length=64)]


BatchStatus = Literal["queued", "running", "paused", "completed", "cancelled"]
ENDED_STATUSES: tuple[BatchStatus, ...] = ("completed", "cancelled")
Mode = Literal["live", "provider-batch"]

DEADLINE_HOURS: Mapping[Mode, float] = {"live": 24.0, "provider-batch": 48.0}
"""The default running time."""

MOST_DEADLINE_HOURS = 720

BatchName = Annotated[
    str, AfterValidator(partial(check_line, limit="name_characters", what=Message("batch-name"), blank=False))
]
ItemId = Annotated[
    str, AfterValidator(partial(check_line, limit="item_id_characters", what=Message("item-id"), blank=False))
]


def check_response(response: str | None, info: ValidationInfo) -> str | None:
    """Raises ValueError unless an item has either `response` or `responses`."""
    if "responses" in info.data and (response is None) == (info.data["responses"] is None):
        raise Misfit(Message("response-or-responses"))
    return response


class ProviderBatchOptions(Value):
    """What happens to a call that expired or failed in the provider's batch."""

    unanswered: Literal["live", "fail"] = Field(
        default="live", description="`live` asks again at once and at full price; `fail` leaves the item failed"
    )


class BatchOptions(Value):
    """The options that all items of a batch share."""

    name: BatchName | None = None
    rubric: RubricName = Field(
        default="ja-dialogue",
        description="the rubric's id, or `id@version`; without a version it is the newest; of conversations the "
        "default is `ja-conversation`",
    )
    path: PathChoice = "source"
    relevance: RelevanceOptions | None = Field(default_factory=RelevanceOptions)
    judge: JudgeOptions = Field(default_factory=JudgeOptions)
    budget_usd: Annotated[Finite, Field(ge=0)] | None = Field(
        default=None, description="the batch pauses before the judge's bill would pass it"
    )
    mode: Mode = "live"
    provider_batch: ProviderBatchOptions = Field(default_factory=ProviderBatchOptions)
    integrity: Integrity | None = Field(
        default=None,
        description="what to do where a text looks like an attack on the judge; null: the project's policy",
    )
    deadline_hours: Annotated[Finite, Field(gt=0, le=MOST_DEADLINE_HOURS)] | None = Field(
        default=None,
        description="hours of running time after which the batch ends, what is missing listed as expired; time in "
        "which it is paused does not count; null: 24, or 48 in the provider's batch mode",
    )
    metadata: Metadata = Field(default_factory=dict)

    @property
    def running_hours(self) -> float:
        """The deadline in hours of running time."""
        return DEADLINE_HOURS[self.mode] if self.deadline_hours is None else self.deadline_hours


BatchUnit = Literal["rating", "pair"]
"""What a batch's candidates are for: to be rated each, or to be compared in pairs."""

PairChoice = Literal["all", "baseline", "active"]


class PairRound(Value):
    """One round of an active preference run: `pairs` counts what it judges, by the places of two runs, and `resolved`
    are those whose order is known after it, the better one first; null until it is judged."""

    pairs: Annotated[
        tuple[Annotated[tuple[int, int, int], Field(strict=False)], ...],
        listed(),
        Field(description="the places of two runs, and how many items of theirs the round judges"),
    ]
    resolved: Annotated[tuple[Annotated[tuple[int, int], Field(strict=False)], ...], listed()] | None = Field(
        default=None, description="the places of two runs whose order is known, the better one first"
    )


class PairPlan(Value):
    """What a preference run compares: the responses of `runs`, which are batches, to the items that they share.
    `systems` are what people call the runs, in the same order. `items` have a pair in the plan, which `calls` judge if
    every first reply is a verdict. `left_out` says how many responses have no pair: `alone` ones, to whose item no
    other run has a response, and `failed` ones, which have no result; and how many pairs are none: those whose
    `contexts` differ, and those beyond `budget_calls`."""

    runs: Annotated[tuple[BatchId, ...], listed(minimum=2, maximum=20), Field(description="the batches' ids")]
    systems: Annotated[tuple[str, ...], listed()]
    pairs: PairChoice = "all"
    baseline: BatchId | None = None
    aspects: Annotated[tuple[Id, ...], listed(minimum=1, maximum=32)] = (OVERALL,)
    orders: Orders = Field(default="both", description="both orders of each pair, or one")
    budget_calls: int | None = Field(default=None, description="the most first calls that were planned")
    stop: Literal["all", "resolved"] = Field(default="all", description="when the run ends")
    alpha: float = 0.05
    items: int = 0
    calls: int = 0
    responses: Annotated[tuple[int, ...], listed(), Field(description="how many each run has, `failed` ones too")] = ()
    rounds: Annotated[tuple[PairRound, ...], listed()] = Field(
        default=(), exclude_if=not_, description="with `active`: what was chosen, round by round"
    )
    left_out: dict[str, int] = Field(
        default_factory=dict,
        description="responses without a pair: `alone`, `failed`; and pairs that are none: `contexts` that differ, "
        "`budget_calls`",
    )


class PairRunOptions(BatchOptions):
    """The options of a batch whose candidates are pairs of other batches' responses."""

    pairs: PairPlan


def plan_of(options: BatchOptions) -> PairPlan | None:
    """What a preference run compares; None of any other batch."""
    return options.pairs if isinstance(options, PairRunOptions) else None


class BatchItem(Value):
    """One dialogue context with the response to be scored, or with several candidates for it."""

    id: ItemId | None = None
    context: Context
    # Before `response`, which is checked against it.
    responses: (
        Annotated[
            tuple[Text, ...],
            listed(minimum=1),
            at_most("responses", lambda most, count: Message("item-responses-most", most=most, count=count)),
        ]
        | None
    ) = None
    response: Annotated[Text | None, AfterValidator(check_response)] = Field(default=None, validate_default=True)
    reference: References | None = None
    metadata: Metadata = Field(default_factory=dict)
    dialogue: DialogueId | None = Field(
        default=None,
        description="the dialogue that the item is a turn of: items of one dialogue are not independent. Without it "
        "dialogues are found by their contexts",
    )


class BatchConversation(GivenConversation):
    """One conversation to be rated as a whole, by a rubric whose unit is `conversation`."""

    id: ItemId | None = None
    metadata: Metadata = Field(default_factory=dict)
    dialogue: DialogueId | None = Field(default=None, description="the conversation's name; its `id` without it")


GivenItem = BatchItem | BatchConversation
"""What a batch may hold, all of one kind."""


class PairPlaces(Value):
    """Where the two stand that a preference run compares: the places of their runs in its plan, and their positions in
    these."""

    runs: Annotated[tuple[int, int], Field(strict=False)]
    positions: Annotated[tuple[int, int], Field(strict=False)]


class Candidate(Value):
    """One response of an item, or one conversation, as it is stored until it is scored.

    Of a conversation the last turn is the `response` and the turns before it are the `context`, which may be empty;
    `roles` are those of all turns, and `speaker` says the last one. A pair has no text of its own: `pair` says where
    the two stand, and `shown` holds them where they were read for it.
    """

    context: Annotated[tuple[Utterance, ...], listed()]
    response: Text
    reference: References | None = None
    metadata: Metadata = Field(default_factory=dict)
    dialogue: DialogueId | None = None
    # Excluded where null: items do not have them.
    roles: Annotated[tuple[Role, ...], listed()] | None = Field(default=None, exclude_if=is_none)
    speaker: Speaker | None = Field(default=None, exclude_if=is_none)
    persona: Persona | None = Field(default=None, exclude_if=is_none)
    goal: Text | None = Field(default=None, exclude_if=is_none)
    pair: PairPlaces | None = Field(default=None, exclude_if=is_none)
    shown: tuple[Candidate, Candidate] | None = Field(default=None, exclude=True)

    @property
    def conversation(self) -> Conversation | None:
        """The conversation that this is; None for a response."""
        if self.roles is None or self.speaker is None:
            return None
        said = (*self.context, Utterance.model_construct(speaker=self.speaker, text=self.response))
        turns = tuple(
            Turn.model_construct(speaker=one.speaker, text=one.text, role=role)
            for one, role in zip(said, self.roles, strict=True)
        )
        return Conversation.model_construct(turns=turns, persona=self.persona, goal=self.goal)


def parts_of(conversation: Conversation) -> dict[str, Any]:
    """The fields of `Candidate` that hold the conversation."""
    *before, last = conversation.turns
    return {
        "context": tuple(Utterance.model_construct(speaker=turn.speaker, text=turn.text) for turn in before),
        "response": last.text,
        "speaker": last.speaker,
        "roles": tuple(turn.role for turn in conversation.turns),
        "persona": conversation.persona,
        "goal": conversation.goal,
    }


def candidate_of(asked: EvaluationRequest | ConversationRequest) -> Candidate:
    """What a single request is about, as a batch would keep it."""
    if isinstance(asked, ConversationRequest):
        return Candidate.model_construct(**parts_of(asked), metadata=asked.metadata)
    return Candidate.model_construct(
        context=asked.context, response=asked.response, reference=asked.reference, metadata=asked.metadata
    )


class Entry(Value):
    """A candidate's place in its batch.

    `position` counts candidates from 0. `item` is the caller's id, else the item's number from 0. `candidate` counts
    the item's responses from 0 and is null if it has a single `response`. Candidates with the same `cluster` are turns
    of one dialogue, named by the caller or detected at intake; null is a candidate of its own.
    """

    position: int
    item: str
    candidate: int | None = Field(
        description="number among the item's responses, from 0; null where it has a single one"
    )
    dialogue: str | None = Field(default=None, description="the item's `dialogue`")
    cluster: str | None = Field(
        default=None,
        description="digest of the dialogue: what has the same one counts as one independent unit; null stands alone",
    )
    ids_given: bool | None = Field(
        default=None,
        exclude_if=is_none,
        description="whether the caller gave any item of the batch an id; without, `item` is a number. Absent where "
        "that is not known, as in batches of earlier releases",
    )
    context_digest: str | None = Field(
        default=None,
        exclude_if=is_none,
        description="digest of a response's dialogue context, equal for equal contexts: with it a file of results "
        "pairs items as batches do",
    )
    system_turns: int | None = Field(
        default=None, exclude_if=is_none, description="of a conversation: how many turns the system has"
    )


def dialogue_of(item: GivenItem) -> str | None:
    """The dialogue that the item names; a conversation without one is its own, if it has an id."""
    return item.id if item.dialogue is None and isinstance(item, BatchConversation) else item.dialogue


def count_candidates(item: GivenItem) -> int:
    """How many candidates the item has."""
    return 1 if isinstance(item, BatchConversation) else len(item.responses or ("",))


def list_candidates(
    item: GivenItem, number: int, position: int, cluster: str | None = None
) -> Iterator[tuple[Entry, Candidate]]:
    """Every candidate of the batch's item `number`; the first one is at `position`."""
    if isinstance(item, BatchConversation):
        place, dialogue = str(number) if item.id is None else item.id, dialogue_of(item)
        whole = {**parts_of(item), "metadata": item.metadata, "dialogue": dialogue}
        yield (
            Entry.model_construct(position=position, item=place, candidate=None, dialogue=dialogue, cluster=cluster),
            Candidate.model_construct(**whole),
        )
        return
    several = item.responses is not None
    for offset, response in enumerate(item.responses or (item.response or "",)):
        entry = Entry.model_construct(
            position=position + offset,
            item=item.id if item.id is not None else str(number),
            candidate=offset if several else None,
            dialogue=item.dialogue,
            cluster=cluster,
        )
        yield (
            entry,
            Candidate.model_construct(
                context=item.context,
                response=response,
                reference=item.reference,
                metadata=item.metadata,
                dialogue=item.dialogue,
            ),
        )


AnyRequest = EvaluationRequest | ConversationRequest | PreferenceRequest


def request_of(options: BatchOptions, candidate: Candidate) -> EvaluationRequest:
    """The request for a single evaluation of a response; not validated again, since both parts were."""
    return EvaluationRequest.model_construct(
        rubric=options.rubric,
        context=candidate.context,
        response=candidate.response,
        path=options.path,
        relevance=options.relevance,
        judge=options.judge,
        reference=candidate.reference,
        integrity=options.integrity,
        metadata=candidate.metadata,
        dialogue=candidate.dialogue,
    )


def pair_request_of(options: PairRunOptions, shown: tuple[Candidate, Candidate], candidate: Candidate) -> AnyRequest:
    """The request for a comparison of two candidates; not validated again either."""
    first, second = shown
    said = first.conversation
    return PreferenceRequest.model_construct(
        rubric=options.rubric,
        context=None if said else first.context,
        first=side_of(first),
        second=side_of(second),
        persona=said.persona if said else None,
        goal=said.goal if said else None,
        path="source" if options.path == "source" else "english",
        aspects=options.pairs.aspects,
        orders=options.pairs.orders,
        judge=options.judge,
        integrity=options.integrity,
        metadata=candidate.metadata,
        dialogue=candidate.dialogue,
    )


def have_one_goal(shown: tuple[Candidate, Candidate] | None) -> bool:
    """Whether two conversations have one persona and goal; of responses, and of what is gone, it is not asked."""
    if shown is None or None in {one.roles for one in shown}:
        return True
    first, second = shown
    return (first.persona, first.goal) == (second.persona, second.goal)


def side_of(candidate: Candidate) -> GivenSide:
    """A candidate as one of two."""
    said = candidate.conversation
    if said is not None:
        return GivenSide.model_construct(turns=said.turns)
    return GivenSide.model_construct(response=candidate.response)


def any_request_of(options: BatchOptions, candidate: Candidate) -> AnyRequest:
    """The request for a single evaluation of a response, a conversation or a pair; not validated again either."""
    if isinstance(options, PairRunOptions) and candidate.pair is not None:
        return pair_request_of(options, candidate.shown or (candidate, candidate), candidate)
    conversation = candidate.conversation
    if conversation is None:
        return request_of(options, candidate)
    return ConversationRequest.model_construct(
        turns=conversation.turns,
        persona=conversation.persona,
        goal=conversation.goal,
        rubric=options.rubric,
        path=options.path,
        judge=options.judge,
        integrity=options.integrity,
        metadata=candidate.metadata,
        dialogue=candidate.dialogue,
    )


class Counts(Value):
    """Candidates by state, which add up to `total`. `failed` ones have no rating at all.

    `expired` ones had no result at the batch's deadline; in the results they are failed with that code.
    """

    total: int
    queued: int
    scored: int
    partial: int
    failed: int
    expired: int = 0


class BatchUsage(Usage):
    """What a batch spent. `estimated_calls` are those of `judge_calls` that dead workers had begun or may have begun.

    Their tokens and cost are the average of the batch's other candidates, or the estimate.
    """

    estimated_calls: int = 0


class Batch(Telling):
    """The current state of a batch.

    `progress` is the finished share, in [0, 1]; `rate_per_second` the finished candidates per second since it last
    started, null before. `signature` is the one that all results share; it is null without results or if they differ,
    and then `signatures` counts the results of each.
    """

    id: str
    name: str | None
    status: BatchStatus
    pause_reason: str | None = None
    pause_detail: Sentence | None = None
    waiting_reason: str | None = None
    mode: Mode = "live"
    rubric: str
    rubric_version: int | None = Field(
        default=None, description="null where a batch of an earlier release has no result that tells it"
    )
    path: PathChoice
    relevance: RelevanceOptions | None
    judge: JudgeOptions
    budget_usd: float | None
    deadline_hours: float = Field(
        default=DEADLINE_HOURS["live"], description="hours of running time after which the batch ends"
    )
    counts: Counts
    progress: float
    rate_per_second: float | None
    estimated_end: Annotated[datetime | None, Field(strict=False)]
    usage: BatchUsage
    signature: str | None
    signatures: dict[str, int] = Field(default_factory=dict)
    metadata: dict[str, str]
    texts: TextKeeping = Field(
        default="keep", description="whether texts are still there, or were hashed or dropped as the policy says"
    )
    ids_given: bool | None = Field(
        default=None,
        description="whether the caller gave any item an id; items that are only numbered are pairs of another batch's "
        "where their contexts are equal too; null where that is not known, as of batches of earlier releases",
    )
    created_at: Annotated[datetime, Field(strict=False)]
    started_at: Annotated[datetime | None, Field(strict=False)] = None
    finished_at: Annotated[datetime | None, Field(strict=False)] = None

    @property
    def signature_lines(self) -> list[str]:
        """Every signature that results of the batch carry; empty without results."""
        return list(self.signatures) or ([self.signature] if self.signature else [])

    @property
    def rubric_name(self) -> str:
        """The rubric, with its version if known."""
        return name_version(self.rubric, self.rubric_version)


class Failure(Detailed, Value):
    """Why a candidate has no evaluation: a stable `code` and one sentence in English; the id and the values of its
    message too, except in results of older versions."""

    code: str
    detail: str
    message: MessageId = None
    values: MessageValues = None


def describe_failure(error: SaitenError) -> Failure:
    """The failure that the error is for a candidate."""
    return Failure(code=error.code, **in_english(error.message))


APART = Failure(code="contexts-differ", **in_english(Message("candidates-apart")))
"""Of a pair of conversations with other goals or personas."""

EXPIRED = Failure(code="expired", **in_english(Message("candidate-expired")))

INTERNAL = Failure(code="internal-error", **in_english(Message("candidate-internal-error")))


@dataclass(frozen=True)
class KeyedAnswer:
    """The response to store under an Idempotency-Key in the same transaction that accepts the batch."""

    key: str
    status: int
    body: bytes


@dataclass(frozen=True)
class BatchFilter:
    """Which batches to list; None and empty mean any. All `metadata` entries must match. `text` is searched in the id,
    the name and the metadata values; the case of ASCII letters is ignored."""

    name: str | None = None
    text: str | None = None
    rubric: str | None = None
    status: BatchStatus | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


MOST_PAIRED = 10_000
"""Batches that are searched for pairs: a database reads them by an index in about ten milliseconds."""


class EstimateReport(Telling):
    """Calls, tokens, characters and cost of a batch if nothing is cached. Costs are in USD, null without a price."""

    candidates: int
    distinct_candidates: int = Field(description="candidates that differ in what the judge is shown")
    calls: int
    prompt_tokens: int
    prefix_tokens: int = Field(description="of the prompt tokens, those of the prompts' fixed beginnings")
    completion_tokens: int
    translated_characters: int
    cost_usd: float | None = Field(description="every call live, and no prompt cache at the provider")
    cost_usd_prefix_cached: float | None = Field(
        description="every call live, and all but the first finding their beginning in the provider's prompt cache"
    )
    cost_usd_provider_batch: float | None = Field(description="every call through the provider's batch, at half price")
    unit_cost_usd: float | None = Field(description="of the most expensive candidate; a budget reserves this for each")
    assumptions: Annotated[tuple[Sentence, ...], listed()]
    second_look_calls: int = Field(
        default=0,
        description="at most, beside `calls`: under the policy `judge-twice` what looks like an attack is judged again",
    )
    second_look_cost_usd: float | None = Field(
        default=0.0, description="what those calls cost live, without a prompt cache, in no other figure here"
    )


class BaselineRequest(Value):
    """The run to be the baseline of a name."""

    batch: Annotated[str, Field(min_length=1, max_length=64)] = Field(description="a completed batch of this name")


class Baseline(Value):
    """The run that a project compares the runs of one name with. It is unpinned when its batch is erased."""

    name: str = Field(description="the name of the runs that are compared with it")
    batch: str
    pinned_at: Annotated[datetime, Field(strict=False, description="when it was pinned")]
