"""The complete record of one evaluation: the request, the result, and both as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from operator import not_
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from saiten.core.messages import DEFAULT_LANGUAGE, Message, Misfit
from saiten.core.plain_text import is_korean
from saiten_server.core.access import Integrity
from saiten_server.core.conversation import (
    Conversation,
    Finding,
    GivenConversation,
    Persona,
    Turns,
    find_role_fault,
)
from saiten_server.core.dialogue import (
    DEFAULT_LIMITS,
    Context,
    Dialogue,
    MetadataKey,
    MetadataValue,
    Text,
    Utterance,
    at_most,
    check_line,
    lengths,
)
from saiten_server.core.errors import RubricRequired
from saiten_server.core.model import (
    Finite,
    Id,
    Location,
    RubricName,
    Value,
    canonical_json,
    is_none,
    listed,
    refuse,
)
from saiten_server.core.reliability import Reliability
from saiten_server.core.sentences import LANGUAGE, Detailed, MessageId, MessageValues

PATHS = ("source", "english", "both")


Path = Literal["source", "english"]
PathChoice = Literal["source", "english", "both"]
SCREENED_FROM = 2
"""The rubric version from which the judge is asked by default whether a text addresses it."""

CompositeReading = Literal["runs", "means"]
ExtraName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
MOST_EXTRA = 16
MOST_EXTRA_CHARACTERS = 4_000
UnratedReason = Literal[
    "missing",
    "out-of-scale",
    "unparseable",
    "refused",
    "truncated",
    "content-filter",
    "not-applicable",
    "not-supported",
]
EXPECTED = frozenset({"not-applicable", "not-supported"})
"""Reasons that no reply of a judge gave: they leave nothing to be asked again."""


def check_extra(extra: dict[str, Any]) -> dict[str, Any]:
    """Raises ValueError if it has too many members, is too long, or is not JSON."""
    if len(extra) > MOST_EXTRA:
        raise Misfit(Message("json-members-most", maximum=MOST_EXTRA, count=len(extra)))
    try:
        length = len(canonical_json(extra))
    except (TypeError, ValueError, RecursionError):
        raise Misfit(Message("json-values-only")) from None
    if length > MOST_EXTRA_CHARACTERS:
        raise Misfit(Message("json-characters-most", maximum=MOST_EXTRA_CHARACTERS))
    return extra


def wrap_reference(reference: object) -> object:
    """A single reference may be a bare string."""
    return [reference] if isinstance(reference, str) else reference


DialogueId = Annotated[
    str,
    lengths(DEFAULT_LIMITS.item_id_characters),
    AfterValidator(partial(check_line, limit="item_id_characters", what=Message("dialogue-id"), blank=False)),
]
Metadata = Annotated[
    dict[MetadataKey, MetadataValue],
    at_most("metadata_entries", lambda most, count: Message("metadata-entries-most", most=most, count=count)),
]
References = Annotated[
    tuple[Text, ...],
    listed(minimum=1),
    at_most("references", lambda most, count: Message("references-most", most=most, count=count)),
    BeforeValidator(wrap_reference, json_schema_input_type=str | list[str]),
]


class RelevanceOptions(Value):
    """How BERTScore relevance is blended in: c + weight · (b − baseline)."""

    weight: Annotated[Finite, Field(ge=0, le=1000)] = 10.0
    baseline: Literal["calibration", "batch"] | Annotated[Finite, Field(ge=-1, le=1)] = "calibration"
    aspects: Annotated[tuple[Id, ...], listed(maximum=32)] | None = Field(
        default=None, description="aspects to blend; null takes those that the rubric blends"
    )


class JudgeOptions(Value):
    """How the judge is called, beside the rubric."""

    model: Annotated[str, Field(pattern=r"^[A-Za-z0-9./~][A-Za-z0-9._:/@+~\\-]{0,254}$")] | None = Field(
        default=None, description="the model to ask; null takes the service's default"
    )
    samples: Annotated[int, Field(ge=1), at_most("samples", lambda most, _: Message("samples-most", most=most))] = 1
    expected: bool = False
    explain: bool = False
    # Excluded at their defaults: an older Saiten, as during an upgrade, would refuse options that it does not know.
    screen: bool | None = Field(
        default=None,
        exclude_if=lambda screen: screen is None,
        description="whether the verdict also says if a text addresses its evaluator; null: from version 2 of a rubric",
    )
    lenient: bool | None = Field(
        default=None,
        exclude_if=lambda lenient: lenient is None,
        description="whether a verdict is also read in a code fence, and behind one `<think>` block, for endpoints that"
        " cannot enforce a schema; null takes the service's setting, which is off by default",
    )
    temperature: Annotated[Finite, Field(ge=0, le=2)] = Field(
        default=0.0, exclude_if=not_, description="how much the judge's replies vary; 0 varies least"
    )
    max_tokens: Annotated[int, Field(ge=1, le=65_536)] | None = Field(
        default=None,
        exclude_if=not_,
        description="longest reply of the judge, with what it thinks before; null takes the service's 2,048",
    )
    composites: CompositeReading = Field(
        default="runs",
        exclude_if=lambda reading: reading == "runs",
        description="composites of several samples: computed per sample and averaged (runs), or of the means (means)",
    )
    extra: Annotated[dict[ExtraName, Any], AfterValidator(check_extra)] = Field(
        default_factory=dict,
        exclude_if=not_,
        description="further members of the request to the judge's endpoint, of those that SAITEN_JUDGE_EXTRA allows",
    )

    def screens(self, version: int) -> bool:
        """Whether the judge is asked by a rubric of this version whether a text addresses its evaluator."""
        return version >= SCREENED_FROM if self.screen is None else self.screen

    def __hash__(self) -> int:
        extra = canonical_json(self.extra) if self.extra else ""
        simple = (self.model, self.samples, self.expected, self.explain, self.screen, self.temperature, self.max_tokens)
        return hash((*simple, self.lenient, extra))


class EvaluationRequest(Value):
    """One dialogue context with one response to be scored."""

    rubric: RubricName = Field(
        default="ja-dialogue", description="the rubric's id, or `id@version`; without a version it is the newest"
    )
    context: Context
    response: Text
    path: PathChoice = "source"
    relevance: RelevanceOptions | None = Field(default_factory=RelevanceOptions)
    judge: JudgeOptions = Field(default_factory=JudgeOptions)
    reference: References | None = Field(
        default=None, description="one text or several, for reference metrics and for judges whose rubric shows them"
    )
    integrity: Integrity | None = Field(
        default=None,
        description="what to do where a text looks like an attack on the judge; null: the project's policy",
    )
    metadata: Metadata = Field(default_factory=dict)
    dialogue: DialogueId | None = Field(
        default=None, description="the dialogue that this is a turn of: turns of one dialogue are not independent"
    )

    @property
    def turn(self) -> Dialogue:
        return Dialogue.model_construct(context=self.context, response=self.response)

    @property
    def references(self) -> tuple[str, ...]:
        return self.reference or ()


def require_rubric(request: EvaluationRequest) -> None:
    """Raises RubricRequired if the request names no rubric and is evidently not in the default rubric's language."""
    if "rubric" not in request.model_fields_set and is_korean(texts_of(request.context, (request.response,))):
        raise RubricRequired(["/rubric"])


def texts_of(context: tuple[Utterance, ...], responses: Iterable[str]) -> Iterator[str]:
    """The text of each utterance of the context, then the responses."""
    yield from (utterance.text for utterance in context)
    yield from responses


TURN_RUBRIC = "the rubric by which each system turn is scored as a response, with the turns before it as context"


class TurnScoring(Value):
    """Scores each system turn of a conversation as a response, too."""

    rubric: RubricName = Field(description=TURN_RUBRIC)


class ConversationRequest(GivenConversation):
    """One conversation to be rated as a whole."""

    rubric: RubricName = Field(
        default="ja-conversation", description="the rubric's id, or `id@version`; without a version it is the newest"
    )
    # Excluded at its default: an older Saiten, as during an upgrade, would refuse what it does not know.
    path: PathChoice = Field(
        default="source",
        exclude_if=lambda path: path == "source",
        description="the language that is judged: the conversation's own, its translation into English, or both",
    )
    judge: JudgeOptions = Field(default_factory=JudgeOptions)
    score_turns: TurnScoring | None = Field(
        default=None, description="also score each system turn as a response; the results share the dialogue's id"
    )
    integrity: Integrity | None = Field(
        default=None,
        description="what to do where a text looks like an attack on the judge; null: the project's policy",
    )
    metadata: Metadata = Field(default_factory=dict)
    dialogue: DialogueId | None = Field(default=None, description="the conversation's name")

    @property
    def conversation(self) -> Conversation:
        """The conversation alone."""
        return Conversation.model_construct(turns=self.turns, persona=self.persona, goal=self.goal)


class Unrated(Detailed, Value):
    """A missing verdict, and why. It is a value of its own: a zero in its place would bias every mean."""

    reason: UnratedReason
    detail: str
    message: MessageId = None
    values: MessageValues = None


Side = Literal["first", "second"]
"""Of two responses or conversations, as the request names them."""

Choice = Literal["first", "second", "tie"]
Orders = Literal["both", "random"]
"""Both orders, each in a call of its own, or one that the texts' digests choose."""

OVERALL = "overall"
"""What is compared where nothing else is asked for."""


def check_side(side: GivenSide) -> GivenSide:
    """Raises ValueError unless it is either a response or a conversation."""
    if (side.response is None) == (side.turns is None):
        raise Misfit(Message("pair-response-or-turns"))
    return side


class GivenSide(Value):
    """One of the two that are compared: a response to the request's context, or a whole conversation."""

    id: DialogueId | None = Field(default=None, description="what the caller calls it")
    response: Text | None = Field(default=None, description="a response to the request's `context`")
    turns: Turns | None = Field(default=None, description="a conversation, oldest turn first")

    @property
    def texts(self) -> list[str]:
        """Its texts in order."""
        return [self.response] if self.response is not None else [turn.text for turn in self.turns or ()]

    @property
    def length(self) -> int:
        """Its characters; of a conversation those of the system's turns."""
        if self.turns is not None:
            return sum(len(turn.text) for turn in self.turns if turn.role == "system")
        return len(self.response or "")

    def read_conversation(self, persona: Persona | None, goal: str | None) -> Conversation:
        """The conversation with what both have in common."""
        return Conversation.model_construct(turns=self.turns or (), persona=persona, goal=goal)


class PreferenceRequest(Value):
    """Two responses to one context, or two conversations with one goal or opening."""

    rubric: RubricName = Field(
        default="ja-dialogue",
        description="the rubric's id, or `id@version`; of conversations the default is `ja-conversation`",
    )
    context: Context | None = Field(default=None, description="what both responses answer; not with conversations")
    first: Annotated[GivenSide, AfterValidator(check_side)] = Field(description="one of the two")
    second: Annotated[GivenSide, AfterValidator(check_side)] = Field(description="the other one, of the same kind")
    persona: Persona | None = Field(default=None, description="what the system is to be in both conversations")
    goal: Text | None = Field(default=None, description="what both conversations are to achieve")
    # Excluded at its default: an older Saiten, as during an upgrade, would refuse what it does not know.
    path: Path = Field(
        default="source",
        exclude_if=lambda path: path == "source",
        description="the language that is judged: the texts' own, or their translation into English",
    )
    aspects: Annotated[tuple[Id, ...], listed(minimum=1, maximum=32)] = Field(
        default=(OVERALL,), description="`overall`, or aspects of the rubric, which are asked about in one call"
    )
    orders: Orders = Field(
        default="both", description="both orders, each in a call of its own, or one that the texts' digests choose"
    )
    judge: JudgeOptions = Field(default_factory=JudgeOptions)
    integrity: Integrity | None = Field(
        default=None,
        description="what to do where a text looks like an attack on the judge; null: the project's policy",
    )
    metadata: Metadata = Field(default_factory=dict)
    dialogue: DialogueId | None = Field(
        default=None, description="the dialogue that this is a turn of: pairs of one dialogue are not independent"
    )

    @model_validator(mode="after")
    def _check_kind(self) -> PreferenceRequest:
        refuse("PreferenceRequest", pair_faults(self))
        return self

    @property
    def is_conversation(self) -> bool:
        """Whether two conversations are compared."""
        return self.first.turns is not None

    @property
    def sides(self) -> dict[Side, GivenSide]:
        """Both by their names."""
        return {"first": self.first, "second": self.second}


def pair_faults(asked: PreferenceRequest) -> Iterator[tuple[Location, Message]]:
    """What does not fit together: one id for both, a response with a conversation, or either with the other's
    context."""
    if asked.first.id is not None and asked.first.id == asked.second.id:
        yield ("second", "id"), Message("pair-of-one-id")
    if (asked.first.turns is None) != (asked.second.turns is None):
        yield ("second",), Message("pair-of-two-kinds")
        return
    if asked.first.turns is None:
        if asked.context is None:
            yield ("context",), Message("is-missing")
        for name in ("persona", "goal"):
            if getattr(asked, name) is not None:
                yield (name,), Message("pair-of-responses-without", name=name)
        return
    if asked.context is not None:
        yield ("context",), Message("pair-of-conversations-without-context")
    for side, given in asked.sides.items():
        if fault := find_role_fault(given.turns or ()):
            yield (side, "turns"), fault


class AspectResult(Value):
    """One aspect's verdict. `sd` is the population standard deviation of the valid samples."""

    rating: int | None
    scale: Annotated[tuple[int, int], Field(strict=False)]
    label: str | None
    samples: Annotated[tuple[int | None, ...], listed()]
    mean: float | None
    sd: float | None
    expected: float | None = None
    off_scale_mass: float | None = Field(
        default=None, description="with `expected`: the probability mass that fell on no legal value"
    )
    blended: float | None = None
    reason: str | None = None
    unrated: Unrated | None = None


class RelevanceResult(Detailed, Value):
    """b, b̄ and w, with the encoder. `unavailable` says why `score` is null."""

    score: float | None
    baseline: float | None
    baseline_source: Literal["calibration", "batch", "number"]
    weight: float
    encoder: str | None
    truncated: bool = False
    unknown_token_share: float | None = None
    unavailable: str | None = None
    message: MessageId = None
    values: MessageValues = None

    @property
    def detail(self) -> str:
        """Why there is no score; empty where there is one."""
        return self.unavailable or ""


class Translation(Value):
    """The dialogue in English, with the characters that were sent. Of a conversation, `response` is the last turn, and
    `context` holds the turns before it."""

    context: Annotated[tuple[str, ...], listed()]
    response: str
    source_language: str
    target_language: str
    engine: str
    characters: int
    persona: dict[str, Any] | None = Field(
        default=None, exclude_if=lambda persona: persona is None, description="of a conversation with a persona"
    )
    goal: str | None = Field(
        default=None, exclude_if=lambda goal: goal is None, description="of a conversation with a goal"
    )


class JudgeProvenance(Value):
    """The judge, with the parameters in force and those that the endpoint refused."""

    kind: str
    model: str
    fingerprint: str | None = None
    endpoint: str | None = None
    prompt: str | None = Field(default=None, description="digest of the prompt's fixed part")
    parameters: dict[str, Any] = Field(default_factory=dict)
    dropped: Annotated[tuple[str, ...], listed()] = ()
    screen: bool = Field(default=False, description="whether the verdict was to say if a text addresses its evaluator")
    lenient: bool = Field(
        default=False,
        exclude_if=not_,
        description="whether a verdict was also read in a code fence and behind thinking",
    )


class Usage(Value):
    """Calls, tokens and cost. A cached call costs nothing. `cost_usd` is null if the model's price is not known."""

    judge_calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    translated_characters: int = 0
    cost_usd: float | None = 0.0

    def __add__(self, other: Usage) -> Usage:
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            judge_calls=self.judge_calls + other.judge_calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            translated_characters=self.translated_characters + other.translated_characters,
            cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
        )


class MaskedSpan(Value):
    """A suspicious part of a text, which a second judgement masks: code points `start` to `end` of the text at
    `where`."""

    where: str
    start: int
    end: int


class Warned(Detailed, Value):
    """Something the reader of a score should know. `code` is stable, `where` a JSON pointer or a part's name."""

    code: str
    where: str
    detail: str
    message: MessageId = None
    values: MessageValues = None
    spans: Annotated[tuple[MaskedSpan, ...], listed()] = Field(
        default=(), exclude_if=not_, description="of a text that looks like an attack: its suspicious parts"
    )


class IntegrityReport(Value):
    """The second judgement of a dialogue that looks like an attack, without the suspicious spans.

    `masked` is each aspect's mean rating without them, `lift` the gain by them; both are null if either is unrated. The
    aspects of the evaluation itself are those of the unmasked dialogue.
    """

    spans: Annotated[tuple[MaskedSpan, ...], listed()]
    masked: dict[str, float | None]
    lift: dict[str, float | None]


Windows = Annotated[tuple[Annotated[tuple[int, int], Field(strict=False)], ...], listed()]


class PathResult(Value):
    """The result of one language path."""

    aspects: dict[str, AspectResult]
    composites: dict[str, float | None]
    relevance: RelevanceResult | None
    signature: str
    findings: Annotated[tuple[Finding, ...], listed()] | None = Field(
        default=None, exclude_if=lambda found: found is None, description="of a conversation: faults of system turns"
    )
    windows: Windows | None = Field(
        default=None,
        exclude_if=lambda found: found is None,
        description="of a conversation longer than one call to the judge: the first and the last turn of each window",
    )


class Paths(Value):
    """Both paths, and English minus source per aspect, null if either is unrated."""

    source: PathResult
    english: PathResult
    difference: dict[str, float | None]
    translation_sensitive: bool


ADOPTED = "adopted"
"""The warning that a result has figures only: it was scored elsewhere."""

TRANSLATION_SENSITIVE = "translation-sensitive"
"""The warning that an aspect was rated differently on the two paths."""


class CallTrace(Value):
    """One judge call, stored so that a rating can be traced to the reply that it came from."""

    prompt_digest: str
    sample: int
    attempt: int
    aspects: Annotated[tuple[str, ...], listed()]
    reply: str | None
    finish_reason: str | None
    refusal: str | None = None
    model: str | None = None
    cached: bool = False


class OrderVerdict(Value):
    """What the judge said in one order. `verdict` is of the two as the request names them, not as they were shown."""

    shown: Annotated[tuple[Side, Side], Field(strict=False, description="which was shown first")]
    verdict: Choice | None
    missing: Unrated | None = Field(default=None, description="why there is no verdict")


class AspectPreference(Value):
    """Which of the two is better in one aspect. Opposite answers of the two orders are a tie that is
    `position_dependent`; without the verdict of an order that was asked there is no preference."""

    preference: Choice | None = Field(description="the better one, or `tie`; null where an order has no verdict")
    strength: Annotated[float, Field(ge=-1, le=1)] | None = Field(
        default=None,
        description="with `judge.expected`: the probability of the first minus that of the second, the mean over the "
        "orders; null where an order has none",
    )
    orders: Annotated[tuple[OrderVerdict, ...], listed(), Field(description="what the judge said in each order")]
    position_dependent: bool = Field(description="whether the two orders gave opposite answers")


class PairSide(Value):
    """One of the two that were compared."""

    id: str | None = Field(default=None, description="what the caller calls it")
    length: int = Field(description="characters; of a conversation those of the system's turns")
    run: str | None = Field(default=None, exclude_if=is_none, description="in a preference run: the run it is of")
    system: str | None = Field(default=None, exclude_if=is_none, description="in a preference run: what the run is of")


class Pair(Value):
    """What an evaluation of two says. `runs` are the places of the two runs in a preference run."""

    first: PairSide
    second: PairSide
    aspects: dict[str, AspectPreference]
    runs: Annotated[tuple[int, int], Field(strict=False)] | None = Field(default=None, exclude_if=is_none)


class RubricReference(Value):
    id: str
    version: int
    digest: str


class TurnScore(Value):
    """The evaluation of one system turn as a response, stored under its own id."""

    turn: int = Field(ge=0, description="the number of the system turn, counted from 0 over all turns")
    evaluation: str = Field(description="the evaluation's id")
    aspects: dict[str, AspectResult]


class ExplainedRating(Value):
    """An aspect as the judge rated it when it was asked again, with its reason."""

    rating: int | None = Field(description="may differ from the evaluation's, which stays")
    reason: str | None


class Explanation(Value):
    """What the judge said when it was asked again, for its reasons. It changes no rating of the evaluation."""

    aspects: dict[str, ExplainedRating]
    usage: Usage
    signature: str
    created_at: Annotated[datetime, Field(strict=False)]


class Evaluation(Value):
    """The record that the API returns and the store keeps."""

    id: str
    status: Literal["scored", "partial", "failed"]
    rubric: RubricReference
    path: PathChoice
    aspects: dict[str, AspectResult]
    composites: dict[str, float | None]
    relevance: RelevanceResult | None
    translation: Translation | None
    paths: Paths | None
    judge: JudgeProvenance
    usage: Usage
    warnings: Annotated[tuple[Warned, ...], listed()]
    signature: str
    signature_pieces: dict[str, str]
    cached: bool
    created_at: Annotated[datetime, Field(strict=False)]
    metadata: dict[str, str]
    dialogue: str | None = Field(default=None, description="as in the request")
    integrity: IntegrityReport | None = Field(
        default=None, description="with the policy `judge-twice`, where a text looks like an attack on the judge"
    )
    # Excluded where null: results of items do not have them.
    findings: Annotated[tuple[Finding, ...], listed()] | None = Field(
        default=None, exclude_if=lambda found: found is None, description="of a conversation: faults of system turns"
    )
    kinds: dict[str, int] | None = Field(
        default=None,
        exclude_if=lambda found: found is None,
        description="of a conversation whose findings all have kinds: faulty system turns by kind of fault",
    )
    windows: Windows | None = Field(
        default=None,
        exclude_if=lambda found: found is None,
        description="of a conversation longer than one call to the judge: the first and the last turn of each window",
    )
    turn_scores: Annotated[tuple[TurnScore, ...], listed()] | None = Field(
        default=None,
        exclude_if=lambda found: found is None,
        description="with `score_turns`: the evaluation of each system turn that has a context",
    )
    explained: Explanation | None = Field(
        default=None,
        exclude_if=lambda found: found is None,
        description="the judge's reasons, where it was asked for them after it had rated",
    )
    # Not among the fields of an evaluation that callers are told: of two that were compared they get a preference.
    pair: SkipJsonSchema[Pair | None] = Field(default=None, exclude_if=is_none)
    reliability: Reliability | None = Field(
        default=None, description="how the judge's ratings correlated with human ratings; added when a result is read"
    )

    @property
    def by_path(self) -> dict[Path, PathResult | Evaluation]:
        """The results by language path, the source path first; of one path the evaluation is the result."""
        if self.paths is not None:
            return {"source": self.paths.source, "english": self.paths.english}
        return {"english" if self.path == "english" else "source": self}

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the warnings, each once, and `translation-sensitive` where the two paths disagree."""
        codes = [warned.code for warned in self.warnings]
        sensitive = self.paths is not None and self.paths.translation_sensitive
        return tuple(dict.fromkeys([*codes, TRANSLATION_SENSITIVE] if sensitive else codes))


EvaluationStatus = Literal["scored", "partial"]
"""Of an evaluation that is stored: what failed has none."""

RESULT_STATUSES = ("scored", "partial", "failed")
"""What has become of a candidate of a run."""


@dataclass(frozen=True)
class EvaluationFilter:
    """Which evaluations to list; None and empty mean any. `rubric` is an id or `id@version`, `batch` a batch's id; all
    `metadata` entries must match, those of the evaluation's batch among them; `created_from` is inclusive and
    `created_before` exclusive."""

    rubric: str | None = None
    status: EvaluationStatus | None = None
    batch: str | None = None
    dialogue: str | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


class Record(Value):
    """An evaluation with its request and every judge call."""

    evaluation: Evaluation
    request: EvaluationRequest | ConversationRequest | PreferenceRequest
    trace: Annotated[tuple[CallTrace, ...], listed()] = ()


UNMARKED = '"reliability":null}'
"""The end of a written evaluation that has no badge yet: the badge is its last field."""


def write_json(record: Record, evaluation: str) -> str:
    """The record as JSON, equal to `model_dump_json`; `evaluation` is the JSON of its evaluation."""
    trace = ",".join(call.model_dump_json() for call in record.trace)
    return f'{{"evaluation":{evaluation},"request":{record.request.model_dump_json()},"trace":[{trace}]}}'


def add_badge(evaluation: str, badge: Reliability, language: str = DEFAULT_LANGUAGE) -> str:
    """The JSON of an evaluation with its judge's badge, which is in the language. Raises ValueError if it already has
    one."""
    if not evaluation.endswith(UNMARKED):
        raise ValueError("an evaluation has one badge of its judge")
    return f"{evaluation.removesuffix('null}')}{badge.model_dump_json(context={LANGUAGE: language})}}}"
