"""What a preference run is asked for, and what it says."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from saiten_server.core.access import Integrity
from saiten_server.core.batch import (
    MOST_DEADLINE_HOURS,
    Batch,
    BatchId,
    BatchName,
    Counts,
    Entry,
    Failure,
    Mode,
    PairChoice,
    PairPlan,
    ProviderBatchOptions,
)
from saiten_server.core.evaluation import OVERALL, JudgeOptions, Metadata, Orders, Path, Usage
from saiten_server.core.model import Finite, Id, RubricName, Value, listed
from saiten_server.core.reports import Alpha
from saiten_server.core.sentences import Sentence, Telling
from saiten_server.preferences.values import Preference

MOST_RUNS = 20


class PreferenceRunRequest(Value):
    """Which runs to compare, and how."""

    name: BatchName | None = None
    runs: Annotated[tuple[BatchId, ...], listed(minimum=2, maximum=MOST_RUNS)] = Field(
        description="ended batches by one rubric; the items that two of them share are compared"
    )
    pairs: PairChoice = Field(
        default="all",
        description="`all` compares every two runs, `baseline` each run with the baseline; `active` chooses, "
        "round by round, those that tell most about the order of the runs",
    )
    baseline: BatchId | None = Field(default=None, description="one of the runs; with `pairs: baseline`")
    rubric: RubricName | None = Field(default=None, description="null takes that of the runs")
    aspects: Annotated[tuple[Id, ...], listed(minimum=1, maximum=32)] = Field(
        default=(OVERALL,), description="`overall`, or aspects of the rubric, which are asked about in one call"
    )
    path: Path = Field(
        default="source", description="the language that is judged: the texts' own, or their translation into English"
    )
    orders: Orders = Field(default="both", description="both orders of each pair, or one, which costs half")
    stop: Literal["all", "resolved"] = Field(
        default="all",
        description="with `active` a run stops once the order of every two runs is known, or a budget ends; `resolved` "
        "says so, and goes with it alone",
    )
    alpha: Alpha = Field(
        default=0.05, description="with `active`: the chance that any order is called known and is wrong"
    )
    budget_calls: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="the most first calls that are planned: of more items those are chosen by their digests. A reply "
        "that is no verdict is asked for once more, which comes on top",
    )
    budget_usd: Annotated[Finite, Field(ge=0)] | None = Field(
        default=None, description="the run pauses before the judge's bill would pass it"
    )
    judge: JudgeOptions = Field(default_factory=JudgeOptions)
    mode: Mode = "live"
    provider_batch: ProviderBatchOptions = Field(default_factory=ProviderBatchOptions)
    integrity: Integrity | None = Field(
        default=None,
        description="what to do where a text looks like an attack on the judge; null: the project's policy",
    )
    deadline_hours: Annotated[Finite, Field(gt=0, le=MOST_DEADLINE_HOURS)] | None = Field(
        default=None, description="hours of running time after which the run ends; null: 24, or 48 in batch mode"
    )
    metadata: Metadata = Field(default_factory=dict)
    allow_signature_mismatch: bool = Field(
        default=False, description="also compare runs that were not rated in the same way"
    )


class PreferenceRun(Batch):
    """The current state of a preference run: a batch whose candidates are pairs, and what it compares."""

    id: str = Field(description="the preference run's id, `pf_…`")
    pairs: PairPlan


class ChoiceCounts(Value):
    """Verdicts on one aspect of the pairs of two runs. `missing` has those without a preference; `position_dependent`
    of the ties are those whose two orders gave opposite answers."""

    first: int = Field(default=0, description="pairs of which the first is better")
    second: int = Field(default=0, description="pairs of which the second is better")
    tie: int = Field(default=0, description="pairs of which neither is better")
    missing: int = Field(default=0, description="pairs without a preference")
    position_dependent: int = Field(default=0, description="ties whose two orders gave opposite answers")


class RunPlace(Value):
    """A run, and what it is a run of."""

    run: str = Field(description="the batch's id")
    system: str


class ComparedRuns(Value):
    """Two runs with the verdicts on their pairs, by aspect."""

    first: RunPlace = Field(description="the run that comes first in the plan")
    second: RunPlace = Field(description="the other run")
    aspects: dict[str, ChoiceCounts]
    failed: int = Field(default=0, description="pairs without a result, which no aspect counts")


class PositionReport(Telling):
    """How far the order decides, over pairs with a verdict in both orders. `consistency` is the rate of equal answers,
    with its 95% interval over `clusters`, null with the reason where there is none. `first_shown` and `second_shown`
    count verdicts for what was shown so, `tie` those for neither, over all orders."""

    pairs: int
    clusters: int = Field(description="independent units")
    consistency: float | None = Field(description="the rate of equal answers; null without such pairs")
    interval: Annotated[tuple[float, float], Field(strict=False)] | None
    reason: Sentence | None
    first_shown: int = Field(description="verdicts for what was shown first")
    second_shown: int = Field(description="verdicts for what was shown second")
    tie: int = Field(description="verdicts for neither")


class PreferenceSummary(Telling):
    """The results of a preference run so far. `pairs` has every two runs that were compared."""

    id: str = Field(description="the preference run's id, `pf_…`")
    status: str
    counts: Counts
    items: int = Field(description="distinct items that were compared")
    clusters: int = Field(description="independent units: dialogues, or items where none is known")
    aspects: dict[str, ChoiceCounts] = Field(description="all pairs together")
    pairs: Annotated[tuple[ComparedRuns, ...], listed()]
    position: dict[str, PositionReport]
    usage: Usage


class PairTexts(Value):
    """Both texts of a pair: `context` and `response` of each, of conversations `turns`, `persona` and `goal`; null
    where their run does not have them any more."""

    first: dict[str, Any] | None = Field(description="of the first run")
    second: dict[str, Any] | None = Field(description="of the second run")


class PairPlace(Entry):
    """What every line of results has; texts with `texts=true`."""

    batch_metadata: Metadata | None = Field(default=None, description="the run's; absent where it has none")
    texts: PairTexts | None = Field(default=None, description="with `texts=true`")


class PreferenceLine(PairPlace, Preference):
    """A line of results: the pair's place, and what a comparison says."""

    status: Literal["scored", "partial", "failed"] = Field(
        description="`partial` if some aspect has no preference, `failed` if none has"
    )


class FailedPair(PairPlace):
    """A line of results: the pair's place, and why it was not compared."""

    status: Literal["failed"]
    error: Failure = Field(description="why there is no comparison")
