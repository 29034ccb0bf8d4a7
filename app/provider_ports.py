"""What a batch in the provider's own batch mode needs from outside: the provider, and where its course is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO, Any, Literal, Protocol, runtime_checkable

from app.providers.ports import Judge, JudgingTask

Unanswered = Literal["live", "fail"]

PROVIDER_BATCH_SHARE = 0.5
"""Of the ordinary price, for a call in the provider's batch mode."""

PartState = Literal["planning", "planned", "uploading", "uploaded", "submitted", "ended", "done"]
"""planning: its questions are being listed, from the first candidate on. planned: they are all listed. uploading: a
file with them may stand at the provider. uploaded: it does, and a provider's batch may have been made of it. submitted:
it was. ended: its answers are to be fetched. done: all that was answered is kept here, and nothing is left there."""


@dataclass(frozen=True)
class Part:
    """One file of a batch's questions, and the provider's batch made of it. `number` counts from 0.

    Its questions are those first asked by the candidates after the position `after`, up to `last`. `round` counts how
    often the part was submitted before, in vain. `cost_usd` is what its answers are expected to cost, None where
    unknown. `conceded` are the parameters given up, `parameters` those in force, as the signature names them. `alone`
    is True where the provider took it only without the others.
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
        """What its file is called at the provider: another name each round."""
        return f"saiten-{self.batch}-{self.number}-{self.round}.jsonl"

    @property
    def tags(self) -> dict[str, str]:
        """What marks the provider's batch as this part's, in this round."""
        return {"saiten": self.batch, "part": str(self.number), "round": str(self.round)}


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


@dataclass(frozen=True)
class KeptReply:
    """A reply as the call cache would keep it. `bought` is False where it came out of the call cache."""

    entry: bytes
    bought: bool


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

    def answers(self, file_id: str, part: Part) -> AsyncIterator[ProviderAnswer]:
        """What a file of answers holds, read piece by piece. Lines that cannot be read are left out; of a file that is
        gone, all."""
        ...

    def concede(self, conceded: tuple[str, ...], refused: str) -> tuple[str, ...]: ...

    async def close(self) -> None: ...


LeftoverKind = Literal["file", "batch", "name", "tags"]


@dataclass(frozen=True)
class Leftover:
    """Something that is still to be removed from the provider.

    `target` is a file's id, the id of a provider's batch whose files go with it, a name that files may have, or the
    tags (JSON) that a provider's batch may have.
    """

    kind: LeftoverKind
    target: str


class ProviderStore(Protocol):
    """Where the course of such batches is kept. Raises the `Store…` errors.

    `owner` is one step of one process. What it writes is refused, with False, once its lease is another's or the batch
    is gone.
    """

    async def lease(self, batch_id: str, owner: str, lease_seconds: float) -> datetime | None:
        """When the batch's course began; None where another's lease runs, its time has not come, or it is gone."""
        ...

    async def renew(self, batch_id: str, owner: str, lease_seconds: float) -> bool: ...

    async def release(self, batch_id: str, owner: str, wait_seconds: float) -> None:
        """Ends the lease; the next is not given before that time is over."""
        ...

    async def parts(self, batch_id: str) -> list[Part]:
        """In order."""
        ...

    async def plan(
        self, owner: str, part: Part, keys: Sequence[str], kept: Mapping[str, bytes], calls: Mapping[str, int]
    ) -> bool:
        """Keeps a part as it has grown, with the keys that it asks for the first time, with replies that were in the
        call cache, and with the cache's keys of `calls` made for that and what they were billed: all or nothing."""
        ...

    async def planned(self, batch_id: str, keys: Sequence[str]) -> dict[str, int | None]:
        """Those of the keys that are asked or kept, with the part that asks and has no answer yet, else None."""
        ...

    async def save(self, owner: str, part: Part, leftovers: Sequence[Leftover] = ()) -> bool:
        """Keeps a part's state, and what is to be removed from the provider on that account: all or nothing."""
        ...

    async def keep(self, batch_id: str, replies: Mapping[str, bytes]) -> None:
        """Keeps answers to what was asked; the first to each key stays, and what was not asked is left out."""
        ...

    async def find_reply(self, batch_id: str, key: str) -> KeptReply | None: ...

    async def calls(self, batch_id: str) -> list[str]:
        """The call cache's keys of the calls made while the batch was planned. They stay as long as the batch."""
        ...

    async def take_characters(self, batch_id: str, keys: Collection[str]) -> int:
        """How many characters were billed for these calls while the batch was planned; 0 the next time."""
        ...

    async def forget(self, batch_id: str) -> None:
        """Removes parts and replies; what may stand at the provider becomes leftovers."""
        ...

    async def leave(self, leftovers: Sequence[Leftover]) -> None:
        """Keeps what may be too much at the provider. They rest at first: another step may be about to claim them."""
        ...

    async def leftovers(self, limit: int, rest_seconds: float) -> list[Leftover]:
        """Those that were not tried for so long, and that no part claims as its own."""
        ...

    async def settle(self, leftover: Leftover, *, removed: bool) -> None:
        """It is removed, or was tried and is to be tried again."""
        ...

    async def over(self, limit: int) -> list[str]:
        """Batches that are completed or cancelled and not forgotten yet: their records hold what the replies said."""
        ...
