"""A run that a caller sends as its results, in place of the id of a batch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from saiten_server.core.batch import BatchId, BatchName, ItemId
from saiten_server.core.conversation import FaultyTurns, Finding, mark_faulty
from saiten_server.core.evaluation import Metadata
from saiten_server.core.model import Finite, Id, RubricName, Value, listed
from saiten_server.runs.summary import LEFT_OUT

RunRole = Literal["candidate", "baseline"]
ROLES: tuple[RunRole, RunRole] = ("candidate", "baseline")

RUN = "run"
"""The member of a line of NDJSON that says which run the result is of."""

Ignored = Annotated[Any, Field(description="not read here: taken so that a result can be sent as it was received")]


class GivenRubric(Value):
    """The rubric of a result."""

    id: Id = Field(description="the rubric's id")
    version: Annotated[int, Field(ge=1)] | None = None
    digest: Ignored = None

    @property
    def name(self) -> str:
        return self.id if self.version is None else f"{self.id}@{self.version}"


class GivenUnrated(Value):
    """Why an aspect has no rating."""

    reason: Annotated[str, Field(max_length=64)]
    detail: Ignored = None


class GivenAspect(Value):
    """One aspect of a result: what counts is `mean`, and `blended` where there is a blend."""

    mean: Finite | None
    blended: Finite | None = None
    unrated: GivenUnrated | None = None
    rating: Ignored = None
    scale: Ignored = None
    label: Ignored = None
    samples: Ignored = None
    sd: Ignored = None
    expected: Ignored = None
    off_scale_mass: Ignored = None
    reason: Ignored = None


class GivenWarning(Value):
    """A warning of a result."""

    code: Annotated[str, Field(max_length=128)]
    where: Ignored = None
    detail: Ignored = None
    spans: Ignored = None


class GivenResult(Value):
    """A line of `GET /v1/batches/{id}/results`, or one that has of it what is read here: `status`, `rubric` and
    `aspects`, and what tells the item."""

    status: Literal["scored", "partial", "failed"]
    item: ItemId | None = Field(default=None, description="the item's id; without it results are numbered")
    position: Annotated[int, Field(ge=0)] | None = None
    candidate: Annotated[int, Field(ge=0)] | None = None
    dialogue: ItemId | None = Field(default=None, description="the dialogue that the item is a turn of")
    cluster: ItemId | None = Field(
        default=None, description="digest of the dialogue: what has the same one counts as one independent unit"
    )
    ids_given: bool | None = Field(
        default=None, description="whether `item` is an id of the caller's, and not a number that Saiten gave"
    )
    context_digest: Annotated[str, Field(max_length=128)] | None = Field(
        default=None, description="equal where dialogue contexts are; numbered items are paired by it"
    )
    system_turns: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="of a conversation: how many turns the system has; rates of findings need it"
    )
    rubric: GivenRubric | None = None
    aspects: Annotated[dict[Id, GivenAspect], Field(max_length=256)] = Field(default_factory=dict)
    composites: Annotated[dict[Id, Finite | None], Field(max_length=256)] = Field(default_factory=dict)
    warnings: Annotated[tuple[GivenWarning, ...], listed()] = ()
    signature: Annotated[str, Field(min_length=1, max_length=4_000)] | None = None
    metadata: Metadata = Field(default_factory=dict)
    findings: Annotated[tuple[Finding, ...], listed()] | None = Field(
        default=None, description="of a conversation: faults of system turns"
    )
    kinds: dict[str, int] | None = Field(
        default=None, description="of a conversation whose findings all have kinds; null where they have not"
    )
    id: Ignored = None
    error: Ignored = None
    path: Ignored = None
    relevance: Ignored = None
    translation: Ignored = None
    paths: Ignored = None
    judge: Ignored = None
    usage: Ignored = None
    signature_pieces: Ignored = None
    cached: Ignored = None
    created_at: Ignored = None
    integrity: Ignored = None
    explained: Ignored = None
    windows: Ignored = None
    turn_scores: Ignored = None
    reliability: Ignored = None
    context: Ignored = None
    response: Ignored = None
    reference: Ignored = None
    turns: Ignored = None
    persona: Ignored = None
    goal: Ignored = None
    batch_metadata: Ignored = None

    @property
    def unrated(self) -> dict[str, str]:
        """Why aspects have no rating."""
        return {name: one.unrated.reason for name, one in self.aspects.items() if one.unrated is not None}

    @property
    def faulty(self) -> FaultyTurns | None:
        """A conversation's faulty turns, as `find_faulty` finds them; None where it is not told how many there are."""
        if self.system_turns is None:
            return None
        left_out = any(one.code == LEFT_OUT for one in self.warnings)
        judged = {*self.unrated.values()} <= {"not-applicable"} and not left_out
        places = {one.turn: one.turn for one in self.findings or ()}
        kinds = judged and self.kinds is not None
        return FaultyTurns(self.system_turns, mark_faulty(places, self.findings or (), judged=judged, kinds=kinds))


class GivenRun(Value):
    """A run as its results. In NDJSON the results stand in lines of their own, and this holds the rest."""

    results: Annotated[tuple[Any, ...], listed()] = Field(
        default=(),
        description="results in any order, one a candidate, up to as many as a batch may have: lines of "
        "`GET /v1/batches/{id}/results`, or of `saiten gate --record`. Nothing of them is stored",
        json_schema_extra={"items": {"$ref": "#/components/schemas/GivenResult"}},
    )
    name: BatchName | None = Field(default=None, description="what the report calls the run")
    rubric: RubricName | None = Field(
        default=None, description="the rubric that rated it; needed where no result names one, for all failed"
    )


class GivenLine(GivenResult):
    """A line of NDJSON: a result, and which run it is of."""

    run: RunRole = Field(description="the run that the result is of")


def kind_of_run(value: Any) -> str:
    """Which form a run of a request has."""
    return "given-run" if isinstance(value, dict | GivenRun) else "batch-id"


RunSource = Annotated[
    Annotated[BatchId, Tag("batch-id")] | Annotated[GivenRun, Tag("given-run")], Discriminator(kind_of_run)
]
"""A run of a request: the id of a batch, or results. With a discriminator a fault is told once, not by form."""


def batch_of(source: RunSource | None) -> str | None:
    """The id of the batch; None where there is no run, or where it is given as results."""
    return source if isinstance(source, str) else None
