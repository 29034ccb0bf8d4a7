"""A run that a caller sends as its results, in place of the id of a batch.

Results are read one by one, and compared as a batch with the same results is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from saiten.core.messages import Message
from saiten_server.comparison.runs import fit_frame, have_numbers, list_best, rate_findings, scales_of
from saiten_server.comparison.values import ComparedRun
from saiten_server.core.batch import BatchId, BatchName, ItemId
from saiten_server.core.conversation import FaultyTurns, Finding, mark_faulty
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import MOST_FAULTS, InvalidRequest, UnknownRubric
from saiten_server.core.evaluation import Metadata
from saiten_server.core.model import Finite, Id, RubricName, Value, key_of, listed
from saiten_server.core.redaction import CONTEXT_PREFIX
from saiten_server.core.rubric import Rubric, split_name
from saiten_server.core.validation import LARGEST, InvalidDocument, clip, name_line, validate
from saiten_server.runs.clusters import name_dialogue
from saiten_server.runs.summary import FINDINGS_UNRATED, SYSTEM, Kind, MeasureKey, find_probability
from saiten_server.scoring.rubrics.files import RubricSource

if TYPE_CHECKING:
    from saiten_server.runs.frame import FrameRows, Integers, RunFrame

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
    message: Ignored = None
    values: Ignored = None


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
    message: Ignored = None
    values: Ignored = None
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
        left_out = any(one.code == FINDINGS_UNRATED for one in self.warnings)
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


MOST_CELLS = 20_000_000
"""Measures times results of a run, eight bytes each: a hundred thousand results with two hundred measures."""

EPSILON = 1e-6
"""Means and composites are sums of floats."""


class GivenResults:
    """The results of one run. `add` reads one, and `assemble` makes the run of all; both take time in proportion to
    what they are given, so run them in a thread. They raise InvalidDocument with pointers into the request."""

    def __init__(self, role: RunRole, limits: Limits) -> None:
        self.role = role
        self._limits = limits
        self._rows: FrameRows | None = None
        self._hashed = False
        self._signatures = Counter[str]()
        self._rubrics: dict[str, int] = {}
        self._seen: set[tuple[str | int | None, int | None]] = set()
        self._named: set[bool | None] = set()
        self._count = 0
        self._without_turns: int | None = None
        self._faults: list[tuple[str, Message]] = []

    def add(self, value: Any, line: int = 0) -> None:
        """Reads the next result; its `line` from 1 is named in what is wrong with it."""
        number, where = self._count, f"/{self.role}/results/{self._count}"
        self._count += 1
        if number >= self._limits.batch_items:
            what = name_line(Message("run-results-most", maximum=self._limits.batch_items), line)
            raise InvalidDocument([*self._faults, (f"/{self.role}/results", what)])
        try:
            result = validate(GivenResult, value, self._limits)
            self._keep(result, number)
        except InvalidDocument as error:
            self._faults += [(where + inside, name_line(what, line)) for inside, what in error.faults]
        if self._rows is not None and self._rows.cells > MOST_CELLS:
            what = name_line(Message("run-values-most", most=MOST_CELLS), line)
            raise InvalidDocument([*self._faults, (f"{where}/aspects", what)])
        if len(self._faults) >= MOST_FAULTS:
            raise InvalidDocument(self._faults[:MOST_FAULTS])

    def _keep(self, result: GivenResult, number: int) -> None:
        if result.status != "failed" and not (result.aspects and result.rubric):
            raise InvalidDocument([("", Message("result-without-aspects"))])
        place = result.item if result.position is None else result.position
        key = (place, result.candidate if result.position is None else None)
        if place is not None and key in self._seen:
            raise InvalidDocument([("/item" if result.position is None else "/position", Message("result-repeated"))])
        self._seen.add(key)
        if result.rubric is not None:
            self._rubrics.setdefault(result.rubric.name, number)
        if result.signature is not None or result.status != "failed":
            self._signatures[result.signature or ""] += 1
        self._named.add(False if result.item is None else True if result.position is None else result.ids_given)
        if result.findings is not None and result.system_turns is None and self._without_turns is None:
            self._without_turns = number
        digest = result.context_digest
        self._hashed |= digest is not None and digest.startswith(CONTEXT_PREFIX)
        self._rows = add_given(self._rows, result, number)

    def finish(self) -> None:
        """Raises InvalidDocument where anything is wrong, or where there is no result."""
        if self._faults:
            raise InvalidDocument(self._faults)
        if not self._count:
            raise InvalidDocument([(f"/{self.role}/results", Message("must-hold-one"))])

    def find_rubric(self, given: GivenRun, rubrics: RubricSource) -> Rubric:
        """The rubric that rated the results. Raises InvalidDocument for several, or where none is named, and
        UnknownRubric."""
        versioned = {split_name(name)[0] for name in self._rubrics if split_name(name)[1] is not None}
        # A result that failed before it was judged names no version.
        names = [name for name in self._rubrics if name not in versioned]
        if len(names) > 1:
            where = f"/{self.role}/results/{self._rubrics[names[1]]}/rubric"
            detail = Message("run-differs-from-before", rubric=names[0])
            raise InvalidDocument([(where, detail)])
        if not names and given.rubric is None:
            raise InvalidDocument([(f"/{self.role}/rubric", Message("run-names-none"))])
        try:
            return rubrics.nearest(names[0] if names else str(given.rubric))
        except UnknownRubric as error:
            raise UnknownRubric(error.message, pointer=f"/{self.role}/rubric") from None

    def assemble(self, given: GivenRun, rubrics: RubricSource) -> ComparedRun:
        """The run of all results. Raises InvalidDocument for a value off its scale."""
        rubric = self.find_rubric(given, rubrics)
        from saiten_server.runs.frame import FrameRows

        scales, frame = scales_of(rubric), (self._rows or FrameRows()).finish()
        check_scales(frame, scales, f"/{self.role}/results")
        return ComparedRun(
            name=given.name or self.role,
            frame=fit_frame(frame, rubric),
            expected=len(frame),
            signatures=self._list_signatures(),
            scales=scales,
            aspects=tuple(aspect.id for aspect in rubric.aspects),
            numbered=self._are_unnamed(frame.items),
            best=list_best(rubric),
            texts="hash" if self._hashed else "keep",
            rubric=rubric.name,
        )

    def _list_signatures(self) -> dict[str, int]:
        """How many results have each signature. Those without one count as signed otherwise where others have one."""
        return dict(self._signatures) if {*self._signatures} - {""} else {}

    def require_turns(self) -> None:
        """Raises InvalidRequest where rates of findings are asked for, and a conversation does not tell how many turns
        the system had, as in files of earlier releases."""
        if self._without_turns is not None:
            where = f"/{self.role}/results/{self._without_turns}/system_turns"
            raise InvalidRequest(Message("run-lacks-turns"), pointer=where)

    def _are_unnamed(self, items: Integers) -> bool:
        """Whether the results have nothing but numbers for items. Those of earlier releases do not tell whose name an
        item is: it is guessed. Elsewhere a name is the caller's."""
        if True in self._named:
            return False
        return None not in self._named or have_numbers(items)


def add_given(rows: FrameRows | None, result: GivenResult, number: int) -> FrameRows:
    """The rows with one result more; `number` from 0 stands for an item without a name."""
    from saiten_server.runs.frame import FrameRows, Label, kind_of

    rows = FrameRows() if rows is None else rows
    values: dict[MeasureKey, float | None] = {("aspect", name): one.mean for name, one in result.aspects.items()}
    values |= {("composite", name): value for name, value in result.composites.items()}
    values |= {("blended", name): one.blended for name, one in result.aspects.items() if one.blended is not None}
    rates = {} if result.faulty is None else rate_findings(result.faulty)
    values |= {(kind_of(name), name): value for name, value in rates.items()}
    cluster = result.cluster or (name_dialogue(result.dialogue) if result.dialogue else None)
    lost: dict[str, str | None] = {name: None for name, one in result.aspects.items() if one.mean is None}
    reasons = frozenset({**lost, **result.unrated}.items())
    label = Label(result.status, reasons=reasons, system=result.metadata.get(SYSTEM))
    rows.add(
        label,
        values,
        positions=number,
        items=key_of(str(number) if result.item is None else result.item),
        contexts=0 if result.context_digest is None else key_of(result.context_digest),
        clusters=0 if cluster is None else key_of(cluster),
        probability=find_probability(result.metadata) or 1.0,
    )
    return rows


def check_scales(frame: RunFrame, scales: Mapping[str, tuple[float, float]], where: str) -> None:
    """Raises InvalidDocument for the first result with a value that its scale does not have."""
    import numpy as np

    found: list[tuple[int, Kind, str]] = []
    for (kind, name), column in frame.values.items():
        if name in scales:
            # A blend may lie off the scale, but no further than that its squares can be summed.
            low, high = (-LARGEST, LARGEST) if kind == "blended" else scales[name]
            off = np.flatnonzero((column < low - EPSILON) | (column > high + EPSILON))
            found += [(int(row), kind, name) for row in off[:1]]
    if not found:
        return
    number, kind, name = min(found, key=lambda one: one[0])
    if kind == "blended":
        what = Message("number-range", name=repr(clip(name)), limit=LARGEST)
        raise InvalidDocument([(f"{where}/{number}/aspects/{name}/blended", what)])
    low, high = scales[name]
    if kind in {"finding", "kind"}:
        raise InvalidDocument([(f"{where}/{number}/findings", Message("result-turns-too-many"))])
    place = f"aspects/{name}/mean" if kind == "aspect" else f"composites/{name}"
    raise InvalidDocument(
        [(f"{where}/{number}/{place}", Message("result-off-scale", aspect=repr(clip(name)), low=low, high=high))]
    )
