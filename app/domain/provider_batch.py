"""The course of a batch in the provider's own batch mode: its parts, replies, and what is left at the provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

PartState = Literal["planning", "planned", "uploading", "uploaded", "submitted", "ended", "done"]
"""planning: its questions are being listed, from the first candidate on. planned: they are all listed. uploading: a
file with them may stand at the provider. uploaded: it does, and a provider's batch may have been made of it. submitted:
it was. ended: its answers are to be fetched. done: all that was answered is kept here, and nothing is left there."""

LeftoverKind = Literal["file", "batch", "name", "tags"]


@dataclass(frozen=True)
class ProviderPart:
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
class KeptReply:
    """A reply as the call cache would keep it. `bought` is False where it came out of the call cache."""

    entry: bytes
    bought: bool


@dataclass(frozen=True)
class Leftover:
    """Something that is still to be removed from the provider.

    `target` is a file's id, the id of a provider's batch whose files go with it, a name that files may have, or the
    tags (JSON) that a provider's batch may have.
    """

    kind: LeftoverKind
    target: str
