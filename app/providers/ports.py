"""What a provider is to the rest: judges, translators, encoders, measures of texts, and the values they exchange.

The last part is for providers with a batch mode of their own.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import IO, Any, Literal, Protocol, runtime_checkable

from app.domain.dialogue import Dialogue
from app.domain.evaluation import CallTrace, JudgeOptions, JudgeProvenance, Translation, Unrated, Usage, Warned
from app.domain.governance import ANONYMOUS
from app.domain.provider_batch import KeptReply, ProviderPart
from app.domain.rubric import Rubric

Lane = Literal["interactive", "batch"]
"""Somebody waits for an interactive call; batches give way to it."""


@dataclass(eq=False)
class RequestScope:
    """One piece of work, such as a request or a candidate of a batch, and what its outside calls come to.

    It is passed to everything that makes such calls. What it collects is there however the work ends: `keys` are the
    call cache's keys of every call that the work asked for, in order, and an erasure needs them; `cost_usd` is what
    judging has cost, where calls of unknown cost count as nothing.

    `actor` is who acts: a key's id, `cli:` and the user's name, or `anonymous`. `begun_at` is when the work of many
    calls began, in seconds of flow control's clock; a call on its own belongs to no such work (infinity). `announce` is
    awaited before each call of the judge, once the call has its turn. With `bypass_cache` calls of the judge and the
    encoder are made whatever is kept, and neither their replies nor their keys are.
    """

    actor: str = ANONYMOUS
    begun_at: float = math.inf
    announce: Callable[[], Awaitable[None]] | None = None
    bypass_cache: bool = False
    keys: dict[str, None] = field(default_factory=dict)
    cost_usd: float = 0.0

    def note_key(self, key: str) -> None:
        """Collects a key, once."""
        self.keys[key] = None

    @contextmanager
    def part(self) -> Iterator[RequestScope]:
        """A scope for a part of the work. What it collects is added to this one at the end, however it ends."""
        part = replace(self, keys={}, cost_usd=0.0)
        try:
            yield part
        finally:
            self.keys.update(part.keys)
            self.cost_usd += part.cost_usd


@dataclass(frozen=True)
class JudgingTask:
    """One dialogue to be rated in one language by one rubric."""

    rubric: Rubric
    language: str
    dialogue: Dialogue
    options: JudgeOptions
    references: tuple[str, ...] = ()
    lane: Lane = "interactive"
    scope: RequestScope = field(default_factory=RequestScope, compare=False, repr=False)

    @property
    def screen(self) -> bool:
        """Whether the verdict is also to say if a text addresses its evaluator."""
        return self.options.screens(self.rubric.version)


@dataclass(frozen=True)
class JudgingEstimate:
    """What judging would take, were nothing cached: `prefix_tokens` are those of the prompts that every dialogue of the
    same rubric shares. `cost_usd` is None where the model's price is not known; `cost_usd_prefix_cached` is the cost
    where the provider has every prefix in its prompt cache already, None where it keeps none."""

    calls: int
    prompt_tokens: int
    prefix_tokens: int
    completion_tokens: int
    cost_usd: float | None
    cost_usd_prefix_cached: float | None = None


@dataclass(frozen=True)
class Verdict:
    """What the judge said of one aspect: a value a sample (an `Unrated` where that sample has none).

    `expected` is the mean over the legal values by token probability (or a baseline judge's continuous estimate);
    `off_scale_mass` the probability that fell on no legal value, in [0, 1].
    """

    samples: tuple[int | Unrated, ...]
    expected: float | None = None
    off_scale_mass: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Judgement:
    """All aspects' verdicts with how they came about. `cached` is True where no outside call was made."""

    verdicts: Mapping[str, Verdict]
    provenance: JudgeProvenance
    usage: Usage = field(default_factory=Usage)
    cached: bool = False
    trace: tuple[CallTrace, ...] = ()
    warnings: tuple[Warned, ...] = ()


class Judge(Protocol):
    """Rates a dialogue by a rubric. Raises the `Judge…` errors of `app.domain.errors`."""

    @property
    def kind(self) -> str: ...

    @property
    def default_model(self) -> str: ...

    async def judge(self, task: JudgingTask) -> Judgement: ...

    def estimate(self, task: JudgingTask) -> JudgingEstimate:
        """What `judge` would take, without asking anybody. Raises as `judge` does where the task cannot be judged."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Translated:
    """`translation.characters` counts the dialogue's characters; `billed_characters` only those not cached."""

    translation: Translation
    billed_characters: int
    cached: bool


class Translator(Protocol):
    """Puts a dialogue into English (US). Raises the `Translator…` errors of `app.domain.errors`."""

    @property
    def engine(self) -> str: ...

    async def translate(self, dialogue: Dialogue, source_language: str, scope: RequestScope) -> Translated:
        """The translation. `scope` is given the call cache's keys."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Similarity:
    """BERTScore of one pair. `f1` is in [-1, 1] (beyond it, as in bert-score, only where precision and recall have
    opposite signs, which no trained encoder comes near); `truncated` where either text
    passed the encoder's length; `unknown_token_share` is the larger of the two texts' shares of unknown tokens, in
    [0, 1]."""

    f1: float
    truncated: bool
    unknown_token_share: float


class EncoderUnavailable(Exception):
    """No encoder at hand, with the reason in one sentence. The rating stands without it."""


class Encoder(Protocol):
    """Compares texts by their contextual embeddings. Methods raise `EncoderUnavailable`."""

    async def identify(self, language: str) -> str:
        """Encoder, layer, revision and library in one string: equal strings mean equal similarities."""
        ...

    async def compare(self, language: str, pairs: Sequence[tuple[str, str]]) -> list[Similarity]:
        """One similarity a (last utterance, response) pair, in order, whatever else is encoded beside it."""
        ...

    async def close(self) -> None: ...


class MetricUnavailable(Exception):
    """A figure that cannot be had, with the reason in one sentence. The other figures stand without it."""


class Words(Protocol):
    """The words of one language."""

    @property
    def identity(self) -> str:
        """What splits the text, with its versions."""
        ...

    def count(self, text: str) -> int:
        """Len: how many words the text has, at least 0."""
        ...


@dataclass(frozen=True)
class Rouge:
    """F-measures in [0, 1]."""

    rouge1: float
    rouge2: float
    rougeL: float  # noqa: N815 - as rouge-score names it


class Overlap(Protocol):
    """Compares a response with references by the words that they share."""

    @property
    def identity(self) -> str:
        """What compares and what splits the texts, with versions: equal texts mean equal figures."""
        ...

    def compare(self, references: Sequence[str], response: str) -> Rouge:
        """Each figure against the reference that gives its best; `references` holds at least one.

        Raises MetricUnavailable where no reference has a word.
        """
        ...


@dataclass(frozen=True)
class Passage:
    """A response, and the question that it is read after (None: alone)."""

    response: str
    question: str | None = None


@dataclass(frozen=True)
class Likelihood:
    """`nats` is the mean negative log-likelihood (natural logarithm) of the `tokens` tokens of the response that were
    scored, at least 1. `truncated` where question or response passed the model's window."""

    nats: float
    tokens: int
    truncated: bool


class LanguageModel(Protocol):
    """A causal language model. Methods raise MetricUnavailable."""

    async def identify(self) -> str:
        """Model, revision, window and library in one string: equal strings mean equal likelihoods."""
        ...

    async def read(self, passage: Passage) -> Likelihood:
        """How likely the response's tokens are, the question's not counted, whatever else was read before."""
        ...

    async def close(self) -> None: ...


# Batches in the provider's own batch mode

Unanswered = Literal["live", "fail"]

PROVIDER_BATCH_SHARE = 0.5
"""Of the ordinary price, for a call in the provider's batch mode."""


@dataclass(frozen=True)
class DeferredCall:
    """A judge call that need not be answered now. `body` is what is to be sent, `accept` tells a sound cache entry.

    `cost_usd` is what it is expected to cost at the ordinary price, None where unknown.
    """

    key: str
    body: Mapping[str, Any]
    parameters: Mapping[str, Any]
    accept: Callable[[bytes], bool]
    cost_usd: float | None


class KeptReplies(Protocol):
    """The replies of one batch by key."""

    async def find(self, key: str) -> KeptReply | None: ...


@runtime_checkable
class DeferringJudge(Judge, Protocol):
    """A judge whose calls can be made by somebody else, at another time."""

    def defer(self, task: JudgingTask, conceded: tuple[str, ...]) -> list[DeferredCall]:
        """The calls that `judge` would make first. Raises LanguageNotSupported."""
        ...

    def answered_by(self, replies: KeptReplies, unanswered: Unanswered) -> Judge:
        """The same judge, that looks for a reply there before it asks; such a reply costs half.

        With `fail` it asks nobody, and raises ProviderBatchUnanswered where there is no reply.
        """
        ...


@dataclass(frozen=True)
class ProviderBatch:
    """A provider's batch as it stands. `failure` says why it was not begun, None where it was; `over_limit` is True
    where more was waiting there than the account may have waiting."""

    id: str
    ended: bool
    file_id: str
    output_file_id: str | None = None
    error_file_id: str | None = None
    failure: str | None = None
    over_limit: bool = False


@dataclass(frozen=True)
class ProviderAnswer:
    """One line of what came back: a reply as the call cache keeps it, or None.

    `refused` is the parameter that the provider refused in this call, None where it was about something else.
    """

    key: str
    entry: bytes | None
    refused: str | None = None


class BatchProvider(Protocol):
    """A service that answers a file of calls within a day, at half the price. Raises the `Judge…` errors."""

    async def upload(self, content: IO[bytes], name: str) -> str:
        """Sends a file of `line`s, piece by piece; returns its id there."""
        ...

    async def find_uploads(self, name: str) -> list[str]: ...

    async def create(self, file_id: str, tags: Mapping[str, str]) -> str: ...

    async def find(self, tags: Mapping[str, str], since: datetime) -> ProviderBatch | None:
        """The provider's batch with these tags among those made since then."""
        ...

    async def retrieve(self, provider_batch_id: str) -> ProviderBatch | None:
        """None where there is none any more."""
        ...

    async def cancel(self, provider_batch_id: str) -> None: ...

    async def delete_file(self, file_id: str) -> None:
        """Nothing where it is gone already."""
        ...

    def line(self, call: DeferredCall) -> bytes: ...

    def answers(self, file_id: str, part: ProviderPart) -> AsyncIterator[ProviderAnswer]:
        """What a file of answers holds, read piece by piece. Lines that cannot be read are left out; of a file that is
        gone, all."""
        ...

    def concede(self, conceded: tuple[str, ...], refused: str) -> tuple[str, ...]: ...

    async def close(self) -> None: ...
