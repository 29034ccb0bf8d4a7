"""The complete record of one evaluation: what was asked, and what came of it.

A record as JSON, and the evaluation in it as its caller is told it: written once for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from app.domain.dialogue import (
    DEFAULT_LIMITS,
    Context,
    Dialogue,
    MetadataKey,
    MetadataValue,
    Text,
    Utterance,
    check_line,
    lengths,
    limits_of,
)
from app.domain.errors import RubricRequired
from app.domain.governance import Integrity
from app.domain.model import Finite, Id, RubricName, Value, canonical_json, listed
from app.domain.plain_text import is_korean
from app.domain.reliability import Reliability

Path = Literal["source", "english"]
PathChoice = Literal["source", "english", "both"]
SCREENED_FROM = 2
"""The version of a rubric from which on the judge is asked whether a text addresses it, unless a request says."""

CompositeReading = Literal["runs", "means"]
ExtraName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
MOST_EXTRA = 16
MOST_EXTRA_CHARACTERS = 4_000
UnratedReason = Literal["missing", "out-of-scale", "unparseable", "refused", "truncated", "content-filter"]


def check_samples(samples: int, info: ValidationInfo) -> int:
    """Raises ValueError where more samples are asked for than allowed."""
    maximum = limits_of(info).samples
    if samples > maximum:
        raise ValueError(f"at most {maximum} samples may be asked for")
    return samples


def is_unset(value: object) -> bool:
    """Whether an option is at its default, as it is where nobody sets it."""
    return not value


def check_extra(extra: dict[str, Any]) -> dict[str, Any]:
    """Raises ValueError where it holds more than a request to a judge ever needs."""
    if len(extra) > MOST_EXTRA:
        raise ValueError(f"may have at most {MOST_EXTRA} members; this has {len(extra)}")
    try:
        length = len(canonical_json(extra))
    except (TypeError, ValueError, RecursionError):
        raise ValueError("must hold JSON values only") from None
    if length > MOST_EXTRA_CHARACTERS:
        raise ValueError(f"may have at most {MOST_EXTRA_CHARACTERS} characters as JSON")
    return extra


def check_metadata(metadata: dict[str, str], info: ValidationInfo) -> dict[str, str]:
    """Raises ValueError where there are more entries than allowed."""
    maximum = limits_of(info).metadata_entries
    if len(metadata) > maximum:
        raise ValueError(f"metadata may have at most {maximum} entries; this has {len(metadata)}")
    return metadata


def check_references(references: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    """Raises ValueError where there are more references than allowed."""
    maximum = limits_of(info).references
    if len(references) > maximum:
        raise ValueError(f"at most {maximum} references may be given; this has {len(references)}")
    return references


def wrap_reference(reference: object) -> object:
    """One reference may come as a bare text."""
    return [reference] if isinstance(reference, str) else reference


DialogueId = Annotated[
    str,
    lengths(DEFAULT_LIMITS.item_id_characters),
    AfterValidator(partial(check_line, limit="item_id_characters", what="a dialogue's id", blank=False)),
]
Metadata = Annotated[dict[MetadataKey, MetadataValue], AfterValidator(check_metadata)]
References = Annotated[
    tuple[Text, ...],
    listed(minimum=1),
    AfterValidator(check_references),
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
    """What is asked of the judge beside the rubric."""

    model: Annotated[str, Field(pattern=r"^[A-Za-z0-9./~][A-Za-z0-9._:/@+~\\-]{0,254}$")] | None = Field(
        default=None, description="the model to ask; null takes the service's default"
    )
    samples: Annotated[int, Field(ge=1), AfterValidator(check_samples)] = 1
    expected: bool = False
    explain: bool = False
    # Left out at their defaults: a Saiten that does not know them, as during an upgrade, refuses options with them.
    screen: bool | None = Field(
        default=None,
        exclude_if=lambda screen: screen is None,
        description="whether the verdict also says if a text addresses its evaluator; null: from version 2 of a rubric",
    )
    temperature: Annotated[Finite, Field(ge=0, le=2)] = Field(
        default=0.0, exclude_if=is_unset, description="how much the judge's replies vary; 0 varies least"
    )
    max_tokens: Annotated[int, Field(ge=1, le=65_536)] | None = Field(
        default=None,
        exclude_if=is_unset,
        description="longest reply of the judge, with what it thinks before; null takes the service's 2,048",
    )
    composites: CompositeReading = Field(
        default="runs",
        exclude_if=lambda reading: reading == "runs",
        description="composites of several samples: computed per sample and averaged (runs), or of the means (means)",
    )
    extra: Annotated[dict[ExtraName, Any], AfterValidator(check_extra)] = Field(
        default_factory=dict,
        exclude_if=is_unset,
        description="further members of the request to the judge's endpoint, of those that SAITEN_JUDGE_EXTRA allows",
    )

    def screens(self, version: int) -> bool:
        """Whether the judge is asked that by a rubric of this version: what version 1 asks stays as it was."""
        return version >= SCREENED_FROM if self.screen is None else self.screen

    def __hash__(self) -> int:
        extra = canonical_json(self.extra) if self.extra else ""
        simple = (self.model, self.samples, self.expected, self.explain, self.screen, self.temperature, self.max_tokens)
        return hash((*simple, extra))


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
    """Raises RubricRequired where the request names no rubric and is evidently not in the default one's language."""
    if "rubric" not in request.model_fields_set and is_korean(texts_of(request.context, (request.response,))):
        raise RubricRequired(["/rubric"])


def texts_of(context: tuple[Utterance, ...], responses: Iterable[str]) -> Iterator[str]:
    """What was said: each utterance of the context, and the responses."""
    yield from (utterance.text for utterance in context)
    yield from responses


class Unrated(Value):
    """A verdict that is missing. It is a value of its own: a zero in its place would bias every mean."""

    reason: UnratedReason
    detail: str


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


class RelevanceResult(Value):
    """b, b̄ and w, and by which encoder. `unavailable` says why `score` is null."""

    score: float | None
    baseline: float | None
    baseline_source: Literal["calibration", "batch", "number"]
    weight: float
    encoder: str | None
    truncated: bool = False
    unknown_token_share: float | None = None
    unavailable: str | None = None


class Translation(Value):
    """The dialogue in English, and what that cost in characters."""

    context: Annotated[tuple[str, ...], listed()]
    response: str
    source_language: str
    target_language: str
    engine: str
    characters: int


class JudgeProvenance(Value):
    """Which judge it was, with the parameters that were in force and those that the endpoint refused."""

    kind: str
    model: str
    fingerprint: str | None = None
    endpoint: str | None = None
    prompt: str | None = Field(default=None, description="digest of the prompt's fixed part")
    parameters: dict[str, Any] = Field(default_factory=dict)
    dropped: Annotated[tuple[str, ...], listed()] = ()
    screen: bool = Field(default=False, description="whether the verdict was to say if a text addresses its evaluator")


class Usage(Value):
    """What was spent. A cached call spends nothing. `cost_usd` is null where the model's price is not known."""

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


class Warned(Value):
    """Something the reader of a score should know. `code` is stable, `where` a JSON pointer or a part's name."""

    code: str
    where: str
    detail: str


class MaskedSpan(Value):
    """A part of a text that the second judgement was not shown: code points `start` to `end` of the text at `where`,
    which is as in `Warned`."""

    where: str
    start: int
    end: int


class IntegrityReport(Value):
    """A dialogue that looks like an attack, judged as it is and without the suspicious spans.

    `masked` are each aspect's mean rating without them and `lift` what they gained it, both null where either is
    unrated. The evaluation's own aspects are those of the dialogue as it is.
    """

    spans: Annotated[tuple[MaskedSpan, ...], listed()]
    masked: dict[str, float | None]
    lift: dict[str, float | None]


class PathResult(Value):
    """What one language path gave."""

    aspects: dict[str, AspectResult]
    composites: dict[str, float | None]
    relevance: RelevanceResult | None
    signature: str


class Paths(Value):
    """Both paths, and English minus source per aspect; null where either is unrated."""

    source: PathResult
    english: PathResult
    difference: dict[str, float | None]
    translation_sensitive: bool


class CallTrace(Value):
    """One judge call as it was made: kept so that a rating can be traced to the words it came from."""

    prompt_digest: str
    sample: int
    attempt: int
    aspects: Annotated[tuple[str, ...], listed()]
    reply: str | None
    finish_reason: str | None
    refusal: str | None = None
    model: str | None = None
    cached: bool = False


class RubricReference(Value):
    id: str
    version: int
    digest: str


class Evaluation(Value):
    """The record that the API answers with and that the store keeps."""

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
    dialogue: str | None = Field(default=None, description="as it was asked for")
    integrity: IntegrityReport | None = Field(
        default=None, description="with the policy `judge-twice`, where a text looks like an attack on the judge"
    )
    reliability: Reliability | None = Field(
        default=None, description="how the judge's ratings correlated with people's; told when a result is read"
    )


class Record(Value):
    """An evaluation with what it was made from: the request and every judge call."""

    evaluation: Evaluation
    request: EvaluationRequest
    trace: Annotated[tuple[CallTrace, ...], listed()] = ()


UNMARKED = '"reliability":null}'
"""How an evaluation ends that was not read yet: the badge is its last field."""


@dataclass(frozen=True)
class WrittenRecord:
    """`record` is what `Record.model_dump_json` gives, `evaluation` the part of it that is its evaluation."""

    record: str
    evaluation: str

    def mark(self, badge: Reliability) -> str:
        """The evaluation with its judge's badge."""
        return f"{self.evaluation.removesuffix('null}')}{badge.model_dump_json()}}}"


def write_json(record: Record) -> WrittenRecord:
    """The record's JSON. Raises ValueError where its evaluation has a badge already."""
    evaluation = record.evaluation.model_dump_json()
    if not evaluation.endswith(UNMARKED):
        raise ValueError("a record is written without its judge's badge")
    trace = ",".join(call.model_dump_json() for call in record.trace)
    written = f'{{"evaluation":{evaluation},"request":{record.request.model_dump_json()},"trace":[{trace}]}}'
    return WrittenRecord(written, evaluation)
