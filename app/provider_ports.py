"""What a batch in the provider's own batch mode needs from outside: the provider, and where its course is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any, Literal, Protocol

from app.domain.provider_batch import KeptReply, Part
from app.ports import Judge, JudgingTask

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

    def answers(self, file_id: str, part: Part) -> AsyncIterator[ProviderAnswer]:
        """What a file of answers holds, read piece by piece. Lines that cannot be read are left out; of a file that is
        gone, all."""
        ...

    def concede(self, conceded: tuple[str, ...], refused: str) -> tuple[str, ...]: ...

    async def close(self) -> None: ...
