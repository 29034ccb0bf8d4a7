"""What Saiten needs from outside, as roles. Adapters fill them; `bootstrap` decides which."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, Protocol

from app.domain.dialogue import Dialogue
from app.domain.evaluation import (
    CallTrace,
    JudgeOptions,
    JudgeProvenance,
    Translation,
    Unrated,
    Usage,
    Warned,
)
from app.domain.rubric import Rubric

Lane = Literal["interactive", "batch"]
"""Somebody waits for an interactive call; batches give way to it."""


@dataclass(frozen=True)
class JudgingTask:
    """One dialogue to be rated in one language by one rubric."""

    rubric: Rubric
    language: str
    dialogue: Dialogue
    options: JudgeOptions
    references: tuple[str, ...] = ()
    lane: Lane = "interactive"

    @property
    def screen(self) -> bool:
        """Whether the verdict is also to say if a text addresses its evaluator."""
        return self.options.screens(self.rubric.version)


@dataclass(frozen=True)
class Estimate:
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

    def estimate(self, task: JudgingTask) -> Estimate:
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

    async def translate(self, dialogue: Dialogue, source_language: str) -> Translated: ...

    async def close(self) -> None: ...


class SpeechCheck(Protocol):
    """Looks at a response's language and register, beside the judge. Deterministic, and offline."""

    def check(self, dialogue: Dialogue, language: str) -> tuple[Warned, ...]:
        """What a reader of the scores should know: the response is not in `language`, or its register is not that of
        its own speaker's earlier utterances."""
        ...


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


class Turn(Enum):
    """Who makes the call for a key that has no reply."""

    CALL = "call"
    """The one who asked."""
    WAIT = "wait"
    """Another process is making it."""


class CallCache(Protocol):
    """Replies of outside calls by the digest of everything that was sent. May forget at any time."""

    def peek(self, key: str) -> bytes | None:
        """The reply where it can be had without waiting; None where there is none, or that cannot be told."""
        ...

    async def get(self, key: str) -> bytes | None: ...

    async def claim(self, key: str, refused: bytes | None = None) -> bytes | Turn:
        """The reply, else whose turn it is. An entry equal to `refused` counts as none: the caller does not believe it.

        `Turn.CALL` is to be followed by `put` or `leave`. After `Turn.WAIT`, claim again from time to time; the wait
        ends when the other process puts, leaves or dies. Never WAIT where no other process can share this cache.
        """
        ...

    async def put(self, key: str, value: bytes) -> None:
        """Keeps the reply, in place of what is there. It is kept when this returns, unless it is too large."""
        ...

    async def leave(self, key: str) -> None:
        """Whoever was told `Turn.CALL` has no reply to put: the call failed, or was cancelled."""
        ...

    async def forget(self, keys: Sequence[str]) -> None:
        """Removes replies. Unlike the others it raises (StoreError): an erasure that failed must be known."""
        ...

    async def close(self) -> None:
        """Waits for what is being written."""
        ...


class RubricSource(Protocol):
    """Where rubrics come from. `get` and `nearest` raise UnknownRubric."""

    def get(self, name: str) -> Rubric:
        """The rubric of that id in its newest version, or with `id@version` in that one."""
        ...

    def nearest(self, name: str) -> Rubric:
        """The same, or the newest version where that one is gone: for what has been scored already."""
        ...

    def versions(self, rubric_id: str) -> Sequence[int]:
        """The versions of an id, oldest first."""
        ...

    def list(self) -> list[Rubric]:
        """The newest version of each, by id."""
        ...


Outcome = Literal["hit", "miss"]


@dataclass(frozen=True)
class FlowFigures:
    """Flow control of the judge's endpoint as one process sees it now.

    `limit` are the calls that it may make at once, `waiting` those that wait for their turn; `closed_seconds` is for
    how long nobody may call.
    """

    limit: int
    in_flight: int
    waiting: int
    closed_seconds: float


class Span(Protocol):
    """A step of a trace that is under way."""

    def note(self, **ids: str | int | bool) -> None:
        """Adds what is known only now. Ids, figures and Saiten's own words, never a text."""
        ...


class Telemetry(Protocol):
    """Counts and durations for the operator, and the steps of a trace. Never given a text."""

    def cache(self, call: str, outcome: Outcome) -> None: ...

    def judged(self, kind: str, usage: Usage, seconds: float) -> None: ...

    def evaluated(self, rubric: str, status: str, seconds: float) -> None: ...

    def warned(self, code: str) -> None: ...

    def batch_item(self, status: str, code: str) -> None:
        """A candidate of a batch has its result; `code` says why it failed, else it is empty."""
        ...

    def backlog(self, candidates: int, oldest_seconds: float, jobs: int | None) -> None:
        """What waits: candidates without a result, the age of the oldest batch among them, jobs on the queue; None
        where the queue cannot be asked."""
        ...

    def holding(self, chunks: int) -> None:
        """How many chunks this process works on."""
        ...

    def paused(self, batches: Mapping[str, int]) -> None:
        """How many batches are paused now, by `pause_reason`."""
        ...

    def encoder_failed(self) -> None:
        """A similarity could not be had: no encoder, or one that failed or took too long."""
        ...

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request was answered. `route` is the route's template, never the address that was asked for."""
        ...

    def limited(self, limit: str) -> None:
        """A request was turned away: `requests`, `cost`, `evaluations` or `queue`."""
        ...

    def gated(self, verdict: str) -> None:
        """A gate was answered: `pass`, `fail` or `inconclusive`."""
        ...

    def checked(self, verdict: str) -> None:
        """A judge was held against its own earlier ratings of the anchors: `moved`, `steady` and so on."""
        ...

    def dealt_with(self, policy: str) -> None:
        """A dialogue that looks like an attack was dealt with by that policy: `flag`, `refuse` or `judge-twice`."""
        ...

    def span(self, name: str, **ids: str | int | bool) -> AbstractContextManager[Span]:
        """A step of the trace, from here to the end of the block, with those ids; nothing where traces are off."""
        ...

    def flow(self, look: Callable[[], FlowFigures]) -> None:
        """Where to look flow control's figures up whenever they are wanted. To be told once."""
        ...


@dataclass(frozen=True)
class Allowance:
    """Whether a request may go on, and what `RateLimit` headers say of it. `remaining` requests may still come within
    the next `reset_seconds`, of `limit` in `window_seconds`."""

    allowed: bool
    limit: int
    remaining: int
    reset_seconds: float
    window_seconds: int = 60


class RequestLimiter(Protocol):
    """Counts requests by key, in all processes together where they share a Redis, else in this one.

    Never raises: where Redis is away each process counts for itself.
    """

    async def take(self, key_id: str, per_minute: int) -> Allowance: ...

    async def close(self) -> None: ...
