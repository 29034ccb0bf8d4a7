"""What Saiten needs from outside, as roles. Adapters fill them; `bootstrap` decides which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from app.domain.dialogue import Dialogue
from app.domain.evaluation import (
    CallTrace,
    JudgeOptions,
    JudgeProvenance,
    Record,
    Translation,
    Unrated,
    Usage,
    Warned,
)
from app.domain.rubric import Rubric


@dataclass(frozen=True)
class JudgingTask:
    """One dialogue to be rated in one language by one rubric."""

    rubric: Rubric
    language: str
    dialogue: Dialogue
    options: JudgeOptions
    references: tuple[str, ...] = ()


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


@dataclass(frozen=True)
class Similarity:
    """BERTScore of one pair. `f1` is in [-1, 1] (beyond it, as in bert-score, only where precision and recall have
    opposite signs, which no trained encoder comes near; a rounding above 1 occurs); `truncated` where either text
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


class CallCache(Protocol):
    """Replies of outside calls by the digest of everything that was sent. May forget at any time."""

    async def get(self, key: str) -> bytes | None: ...

    async def put(self, key: str, value: bytes) -> None: ...


class RubricSource(Protocol):
    """Where rubrics come from. `get` raises UnknownRubric."""

    def get(self, rubric_id: str) -> Rubric: ...

    def list(self) -> list[Rubric]: ...


@dataclass(frozen=True)
class StoredAnswer:
    """What an Idempotency-Key's first request was answered with."""

    body_digest: str
    status: int | None
    body: bytes | None


class Store(Protocol):
    """The truth. Raises the `Store…` errors of `app.domain.errors`."""

    async def save(self, project: str, record: Record) -> None: ...

    async def find(self, project: str, evaluation_id: str) -> Record | None: ...

    async def ping(self) -> None: ...

    async def find_baseline(self, encoder: str, language: str, calibration: str) -> float | None: ...

    async def save_baseline(self, encoder: str, language: str, calibration: str, value: float) -> None: ...

    async def claim_key(self, project: str, key: str, body_digest: str) -> StoredAnswer | None:
        """Reserves the key and returns None, or returns what holds it (`status` None: still running)."""
        ...

    async def answer_key(self, project: str, key: str, status: int, body: bytes) -> None: ...

    async def release_key(self, project: str, key: str) -> None: ...


Scope = Literal["read", "write", "admin"]


@dataclass(frozen=True)
class APIKey:
    """A key as it may be shown: never the key itself. `revoked_at` is None while it is good."""

    id: str
    name: str
    project: str
    scope: Scope
    created_at: datetime
    revoked_at: datetime | None


class Keyring(Protocol):
    """Who may call. Raises the `Store…` errors of `app.domain.errors`."""

    async def create(self, name: str, project: str, scope: Scope) -> tuple[APIKey, str]:
        """Makes a key and returns it with its text, which is not kept and cannot be shown again."""
        ...

    async def list(self) -> list[APIKey]: ...

    async def revoke(self, key_id: str) -> bool:
        """Whether there was such a key and it was good until now."""
        ...

    async def find(self, key: str) -> APIKey | None: ...

    async def any(self) -> bool:
        """Whether a key was ever made: only without one may anonymous callers be answered."""
        ...


Outcome = Literal["hit", "miss"]


class Telemetry(Protocol):
    """Counts and durations for the operator. Never given a text."""

    def cache(self, call: str, outcome: Outcome) -> None: ...

    def judged(self, kind: str, usage: Usage, seconds: float) -> None: ...

    def evaluated(self, rubric: str, status: str, seconds: float) -> None: ...

    def warned(self, code: str) -> None: ...
