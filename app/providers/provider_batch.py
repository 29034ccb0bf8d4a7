"""A batch in the provider's batch mode: its parts, the replies, and what must still be removed at the provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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
