"""The interfaces of providers: judges, translators, encoders, text measures and batch modes, and their values."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import IO, Any, Literal, Protocol, runtime_checkable

from saiten.core.messages import Message
from saiten_server.core.access import ANONYMOUS
from saiten_server.core.conversation import TurnWindow
from saiten_server.core.dialogue import Dialogue
from saiten_server.core.evaluation import CallTrace, JudgeOptions, JudgeProvenance, Translation, Unrated, Usage, Warned
from saiten_server.core.rubric import Aspect, Rubric
from saiten_server.judging.pair_prompt import PromptedPair
from saiten_server.judging.verdict import FaultyTurnsRead

PartState = Literal["planning", "planned", "uploading", "uploaded", "submitted", "ended", "done"]
"""planning: the calls are being listed. planned: all are listed. uploading: a file with them may exist at the provider.
uploaded: it exists, and a provider's batch may have been created from it. submitted: it was created. ended: its replies
are to be fetched. done: all replies are stored, and nothing is left at the provider."""

LeftoverKind = Literal["file", "batch", "name", "tags"]


@dataclass(frozen=True)
class ProviderPart:
    """One file of a batch's calls, and the provider's batch created from it. `number` counts from 0.

    Its calls are those first needed by the candidates after the position `after`, up to `last`. `round` counts earlier
    submissions that failed. `cost_usd` is the expected cost of the replies, None if unknown. `conceded` are the
    parameters given up, `parameters` those in force, as in the signature. `alone` is True if the provider accepted the
    part only without the others.
    """

    batch: str
    number: int
    state: PartState
    after: int
    last: int
    round: int = 0
    requests: int = 0
    bytes: int = 0
    cost_usd: float | None = 0.0
    conceded: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    alone: bool = False
    file_id: str | None = None
    provider_batch_id: str | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None

    @property
    def file_name(self) -> str:
        """The name of its file at the provider, a new one in each round."""
        return f"saiten-{self.batch}-{self.number}-{self.round}.jsonl"

    @property
    def tags(self) -> dict[str, str]:
        """Tags that identify the provider's batch as this part's in this round."""
        return {"saiten": self.batch, "part": str(self.number), "round": str(self.round)}


@dataclass(frozen=True)
class KeptReply:
    """A reply as the call cache stores it. `bought` is False if it came from the call cache."""

    entry: bytes
    bought: bool


@dataclass(frozen=True)
class Leftover:
    """Something that is still to be removed from the provider. `target` is a file's id, the id of a provider's batch
    whose files go with it, a name that files may have, or the tags (JSON) that a provider's batch may have."""

    kind: LeftoverKind
    target: str


Lane = Literal["interactive", "batch"]  # A caller waits for an interactive call, so it goes before a batch's calls


class Purse(Protocol):
    """The money of one piece of work. `reserve` takes what the whole work is priced at from the caller's account.
    `hold` sets aside so many dollars for a call that is about to begin, and returns how many it did. Both raise
    CostLimitReached. `settle` gives back what was held, and takes what the call cost."""

    async def reserve(self, usd: float) -> None: ...
    async def hold(self, expected_usd: float) -> float: ...
    def settle(self, expected_usd: float, held_usd: float, cost_usd: float) -> None: ...


@dataclass(eq=False)
class Payment:
    """What a call cost in USD: what was expected until it is known, nothing if it failed."""

    cost_usd: float


@dataclass(eq=False)
class RequestScope:
    """One piece of work, such as a request or a candidate of a batch, with the keys and the cost of its outside calls.

    It is passed to everything that makes such calls, and holds what it collected even if the work fails. `keys` are the
    call cache's keys of all calls, in order, which an erasure needs. `cost_usd` is the cost of judging so far; calls of
    unknown cost count as 0.

    `actor` is a key's id, `cli:` with the user's name, or `anonymous`. Interactive calls of different `project`s take
    turns at the judge. `purse` pays for calls; None if nothing limits their cost. `begun_at` is when the work began, in
    seconds of flow control's clock. `announce` is awaited before each call to the judge, once the call has its turn.
    While the judge asks for a longer pause than `longest_pause_seconds`, calls are refused and do not wait. With
    `bypass_cache`, calls to judge and encoder neither read nor write the call cache, and their keys are not
    collected."""

    actor: str = ANONYMOUS
    project: str = ""
    purse: Purse | None = None
    begun_at: float = field(default_factory=time.monotonic)
    announce: Callable[[], Awaitable[None]] | None = None
    bypass_cache: bool = False
    longest_pause_seconds: float = math.inf
    keys: dict[str, None] = field(default_factory=dict)
    cost_usd: float = 0.0

    def note_key(self, key: str) -> None:
        """Collects a key, once."""
        self.keys[key] = None

    @asynccontextmanager
    async def paying(self, expected_usd: float) -> AsyncIterator[Payment]:
        """Pays for one call, which the block makes; its cost is added to `cost_usd`. A call that is cancelled may be
        billed all the same, and costs what was expected. Raises CostLimitReached before the block."""
        held_usd = 0.0 if self.purse is None else await self.purse.hold(expected_usd)
        payment = Payment(expected_usd)
        try:
            yield payment
        except Exception:
            payment.cost_usd = 0.0
            raise
        finally:
            self.cost_usd += payment.cost_usd
            if self.purse is not None:
                self.purse.settle(expected_usd, held_usd, payment.cost_usd)

    @contextmanager
    def part(self) -> Iterator[RequestScope]:
        """A scope for a part of the work. What it collects is added to this scope at the end, even after an error."""
        part = replace(self, keys={}, cost_usd=0.0)
        try:
            yield part
        finally:
            self.keys.update(part.keys)
            self.cost_usd += part.cost_usd


@dataclass(frozen=True)
class JudgingTask:
    """One dialogue to be rated in one language by one rubric; with `window`, that part of a conversation as a whole,
    by a rubric for conversations; with `shown`, two to be compared, of which `dialogue` is the one that is shown first.
    A verdict on these is 1 for the one that was shown first, −1 for the other, 0 for neither."""

    rubric: Rubric
    language: str
    dialogue: Dialogue
    options: JudgeOptions
    references: tuple[str, ...] = ()
    lane: Lane = "interactive"
    scope: RequestScope = field(default_factory=RequestScope, compare=False, repr=False)
    window: TurnWindow | None = None
    shown: PromptedPair | None = None

    @property
    def screen(self) -> bool:
        """Whether the verdict should also say if a text addresses its evaluator."""
        return self.options.screens(self.rubric.version)

    @property
    def characters(self) -> int:
        """The characters of all texts that the judge is shown."""
        if self.shown is not None:
            return self.shown.characters
        if self.window is not None:
            shown = self.window.conversation
            given = [shown.goal or "", *(f"{name}{value}" for name, value in (shown.persona or {}).items())]
            return sum(len(turn.text) for turn in self.window.turns) + sum(map(len, given))
        texts = [self.dialogue.response, *self.references, *(said.text for said in self.dialogue.context)]
        return sum(map(len, texts))

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """The aspects that apply: all, less those that require a persona or goal that a conversation does not have; of
        two that are compared those that are asked about."""
        if self.shown is not None:
            return self.shown.aspects
        if self.window is None:
            return self.rubric.aspects
        conversation = self.window.conversation
        return tuple(aspect for aspect in self.rubric.aspects if conversation.gives(aspect.requires))


@dataclass(frozen=True)
class JudgingEstimate:
    """What judging would take without cached replies. `prefix_tokens` are those of the prompts' fixed parts, which all
    dialogues of a rubric share. `cost_usd` is None if the model's price is unknown. `cost_usd_prefix_cached` is the
    cost if the provider's prompt cache holds every prefix; None if the provider has no prompt cache."""

    calls: int
    prompt_tokens: int
    prefix_tokens: int
    completion_tokens: int
    cost_usd: float | None
    cost_usd_prefix_cached: float | None = None


@dataclass(frozen=True)
class Verdict:
    """The judge's verdict on one aspect: one value per sample, `Unrated` for a sample without one. `expected` is the
    mean over the legal values by token probability, or a baseline judge's continuous estimate. `off_scale_mass` is the
    probability of all other values, in [0, 1]. `turns` holds, for each sample of a conversation, its faulty turns."""

    samples: tuple[int | Unrated, ...]
    expected: float | None = None
    off_scale_mass: float | None = None
    reason: str | None = None
    turns: tuple[FaultyTurnsRead, ...] = ()


@dataclass(frozen=True)
class Judgement:
    """The verdicts on all aspects, and how they were made. `cached` is True if no outside call was made."""

    verdicts: Mapping[str, Verdict]
    provenance: JudgeProvenance
    usage: Usage = field(default_factory=Usage)
    cached: bool = False
    trace: tuple[CallTrace, ...] = ()
    warnings: tuple[Warned, ...] = ()


class Judge(Protocol):
    """Rates a dialogue by a rubric. Raises the `Judge…` errors. `estimate` gives what `judge`
    would take, without making a call, and raises as `judge` does if the task cannot be judged."""

    @property
    def kind(self) -> str: ...
    @property
    def default_model(self) -> str: ...
    async def judge(self, task: JudgingTask) -> Judgement: ...
    def estimate(self, task: JudgingTask) -> JudgingEstimate: ...
    async def close(self) -> None: ...


@dataclass(frozen=True)
class Translated:
    """`translation.characters` counts the dialogue's characters; `billed_characters` only those not cached."""

    translation: Translation
    billed_characters: int
    cached: bool


class Translator(Protocol):
    """Puts a dialogue into English (US). Raises the `Translator…` errors. `scope` is given the
    call cache's keys."""

    @property
    def engine(self) -> str: ...
    async def translate(self, dialogue: Dialogue, source_language: str, scope: RequestScope) -> Translated: ...
    async def close(self) -> None: ...


@dataclass(frozen=True)
class Similarity:
    """BERTScore of one pair. `f1` is in [-1, 1]; beyond it, as in bert-score, only if precision and recall have
    opposite signs, which does not happen with a trained encoder. `truncated` is True if either text exceeded the
    encoder's length. `unknown_token_share` is the larger share of unknown tokens of the two texts, in [0, 1]."""

    f1: float
    truncated: bool
    unknown_token_share: float


class EncoderUnavailable(Exception):
    """The encoder cannot be used; the message is the reason. The rating is kept without it."""

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self.message = message


class Encoder(Protocol):
    """Compares texts by their contextual embeddings. Methods raise EncoderUnavailable. `identify` gives encoder, layer,
    revision and library as one string; equal strings mean equal similarities. `compare` gives one similarity per (last
    utterance, response) pair, in order, independent of the other pairs."""

    async def identify(self, language: str) -> str: ...
    async def compare(self, language: str, pairs: Sequence[tuple[str, str]]) -> list[Similarity]: ...
    async def close(self) -> None: ...


class MetricUnavailable(Exception):
    """A figure cannot be computed; the message is the reason. Other figures are kept without it."""

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self.message = message


class WordCounter(Protocol):
    """Counts the words of one language. `identity` names the tokenizer with its versions."""

    @property
    def identity(self) -> str: ...
    def count(self, text: str) -> int: ...


@dataclass(frozen=True)
class Rouge:
    """F-measures in [0, 1]."""

    rouge1: float
    rouge2: float
    rougeL: float  # noqa: N815 - as rouge-score names it


class Overlap(Protocol):
    """Compares a response with references, of which there is at least one, by the words that they share. Each figure is
    the best over the references. `identity` names the scorer and the tokenizer with their versions; equal identities
    mean equal figures for equal texts. Raises MetricUnavailable if no reference has a word."""

    @property
    def identity(self) -> str: ...
    def compare(self, references: Sequence[str], response: str) -> Rouge: ...


@dataclass(frozen=True)
class Passage:
    """A response, and the question that precedes it; None if the response is read alone."""

    response: str
    question: str | None = None


@dataclass(frozen=True)
class Likelihood:
    """`nats` is the mean negative log-likelihood (natural logarithm) of the `tokens` tokens of the response that were
    scored, at least 1. `truncated` is True if question or response exceeded the model's window."""

    nats: float
    tokens: int
    truncated: bool


class LanguageModel(Protocol):
    """A causal language model. Methods raise MetricUnavailable. `identify` gives model, revision, window and library as
    one string; equal strings mean equal likelihoods. `read` gives the likelihood of the response's tokens, not of the
    question's, independent of earlier passages."""

    async def identify(self) -> str: ...
    async def read(self, passage: Passage) -> Likelihood: ...
    async def close(self) -> None: ...


# Batches in the provider's own batch mode

Unanswered = Literal["live", "fail"]

PROVIDER_BATCH_SHARE = 0.5  # Share of the ordinary price that a call costs in the provider's batch mode


@dataclass(frozen=True)
class DeferredCall:
    """A call to the judge that can be answered later. `body` is what to send; `accept` recognises a valid cache entry.
    `cost_usd` is the expected cost at the ordinary price, None if unknown."""

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
    """A judge whose calls can be made in the provider's batch mode. `defer` gives the calls that `judge` would make
    first, and raises LanguageNotSupported. `answered_by` gives the same judge, but it takes a reply from `replies` if
    there is one, at half the price; with `fail` it makes no calls, and raises ProviderBatchUnanswered if there is no
    reply."""

    def defer(self, task: JudgingTask, conceded: tuple[str, ...]) -> list[DeferredCall]: ...
    def answered_by(self, replies: KeptReplies, unanswered: Unanswered) -> Judge: ...


@dataclass(frozen=True)
class ProviderBatch:
    """The state of a provider's batch. `failure` says why it did not begin, None if it did. `over_limit` is True if the
    account has more work queued than it may."""

    id: str
    ended: bool
    file_id: str
    output_file_id: str | None = None
    error_file_id: str | None = None
    failure: str | None = None
    over_limit: bool = False


@dataclass(frozen=True)
class ProviderAnswer:
    """One line of a file of answers: a reply as the call cache keeps it, or None if the call failed.
    `refused` is the parameter that the provider refused, None if the call failed for another reason."""

    key: str
    entry: bytes | None
    refused: str | None = None


class BatchProvider(Protocol):
    """A service that answers a file of calls within a day at half the price. Methods raise the `Judge…` errors.
    `upload` streams a file of `line`s and returns its id. `find` gives the batch with these tags among those created
    since then. `retrieve` gives None if the batch no longer exists, and `delete_file` does nothing if the file is gone
    already. `answers` streams the answers in a file: unreadable lines are skipped, and a file that is gone has none."""

    async def upload(self, content: IO[bytes], name: str) -> str: ...
    async def find_uploads(self, name: str) -> list[str]: ...
    async def create(self, file_id: str, tags: Mapping[str, str]) -> str: ...
    async def find(self, tags: Mapping[str, str], since: datetime) -> ProviderBatch | None: ...
    async def retrieve(self, provider_batch_id: str) -> ProviderBatch | None: ...
    async def cancel(self, provider_batch_id: str) -> None: ...
    async def delete_file(self, file_id: str) -> None: ...
    def line(self, call: DeferredCall) -> bytes: ...
    def answers(self, file_id: str, part: ProviderPart) -> AsyncIterator[ProviderAnswer]: ...
    def concede(self, conceded: tuple[str, ...], refused: str) -> tuple[str, ...]: ...
    async def close(self) -> None: ...
