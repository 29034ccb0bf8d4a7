"""What reference metrics need from outside, as roles. Adapters fill them. BERTScore's is `app.ports.Encoder`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


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
