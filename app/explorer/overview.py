"""What batches of one rubric say of its aspects and of their systems: every analysis, of one reading."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from saiten.core.messages import Message
from saiten_server.comparison.runs import RunReader, best_of, find_batch
from saiten_server.comparison.values import ComparedRun, ComparisonVerdict, SystemCell, SystemMatrix, SystemOutcome
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.reports import AgreementReport, CorrelationReport, HierarchyReport, RatingsUsed
from saiten_server.core.rubric import Rubric
from saiten_server.platform.computations import Compute
from saiten_server.ratings.reliability import CountedRatings, fetch_ratings
from saiten_server.ratings.store import RatingStore
from saiten_server.runs.summary import BLENDED, key_measure
from saiten_server.scoring.rubrics.files import RubricSource

if TYPE_CHECKING:
    from saiten_server.ratings.table import Answers, Opinions
    from saiten_server.stats.observations import Observations

Part_ = TypeVar("Part_")
Absence = Literal["no-values", "no-ratings", "few-systems", "many-systems", "too-much", "uneven"]
Matrices = Mapping[str, SystemMatrix]

MOST_OVERVIEW_BATCHES = 20
MOST_RESULTS = 200_000  # of all batches together: their scores are in memory at a time
MOST_MATRIX_SYSTEMS = 40  # systems of a matrix that is still readable
MOST_PAIRED_VALUES = 500_000  # pairs of values, over all pairs of systems: half a minute
ALPHA = 0.01
"""Of the hierarchy, as in the paper."""

ALPHA_OF_RUNS = 0.05
"""As the explorer compares two runs."""


@dataclass(frozen=True)
class ReportPart(Generic[Part_]):
    """A report, or why there is none: a stable `code`, and the same in a sentence."""

    report: Part_ | None = None
    code: Absence | None = None
    reason: str | None = None


@dataclass(frozen=True)
class SystemDifferences:
    """Which systems differ, by one source of values: the hierarchy rests on Mann and Whitney's tests at its own alpha,
    the matrices are comparisons as of two runs. In both, aspects with a best level inside count by their distance from
    it; what is blended stands as `NAME.blended`."""

    hierarchy: ReportPart[HierarchyReport]
    matrices: ReportPart[Matrices]


@dataclass(frozen=True)
class Overview:
    """`judged` is by the judge's values, `rated` by human ratings. `systems` are those with a value of the judge's.
    `ambiguous` counts ratings that fit several results, and so none. `ratings_used` are the human ratings that
    count."""

    batches: tuple[str, ...]
    systems: tuple[str, ...]
    judged: SystemDifferences
    rated: SystemDifferences
    agreement: ReportPart[AgreementReport]
    correlation: ReportPart[CorrelationReport]
    ambiguous: int
    ratings_used: RatingsUsed


class Overviews:
    """Looks at a few batches from all sides. `compute` runs the work in a thread."""

    def __init__(self, *, runs: RunReader, ratings: RatingStore, rubrics: RubricSource, compute: Compute) -> None:
        self._runs = runs
        self._ratings = ratings
        self._rubrics = rubrics
        self._compute = compute

    async def look(
        self, project: str, batch_ids: Sequence[str], *, aspects: Sequence[str] | None = None, alpha: float = ALPHA
    ) -> Overview:
        """Everything about these batches, of which results and ratings are read once. `aspects` takes only these of
        what there is: aspects, composites, `NAME.blended`. No judge gets a badge by it.

        Raises NotFound for a batch that is not in the project, InvalidRequest for none or more than
        `MOST_OVERVIEW_BATCHES` batches, for several rubrics, for an invalid alpha and for more than `MOST_RESULTS`
        results; UnknownRubric and StoreError.
        """
        if not 0 < alpha < 1:
            raise InvalidRequest(Message("alpha-range"), pointer="/alpha")
        ids = list(dict.fromkeys(batch_ids))
        if not 1 <= len(ids) <= MOST_OVERVIEW_BATCHES:
            raise InvalidRequest(Message("batches-named-most", maximum=MOST_OVERVIEW_BATCHES), pointer="/batches")
        batches = [await find_batch(self._runs.batches, project, batch_id) for batch_id in ids]
        rubrics = list(dict.fromkeys(batch.rubric_name for batch in batches))
        if len(rubrics) > 1:
            raise InvalidRequest(Message("rubrics-differ", names=", ".join(rubrics)), pointer="/batches")
        total = sum(batch.counts.total for batch in batches)
        if total > MOST_RESULTS:
            detail = Message("batches-results-most", total=total, most=MOST_RESULTS)
            raise InvalidRequest(detail, pointer="/batches")
        rubric = self._rubrics.nearest(rubrics[0])
        found = await fetch_ratings(self._ratings, project, ids)
        table = await self._runs.read_answers(project, batches, found)
        return await self._compute(lambda: oversee(ids, table, found, rubric, aspects=aspects, alpha=alpha))


def oversee(
    ids: Sequence[str],
    table: Answers,
    found: CountedRatings,
    rubric: Rubric,
    *,
    aspects: Sequence[str] | None,
    alpha: float,
) -> Overview:
    """All parts, of the batches of these ids in a table. It takes seconds at worst: not for an event loop. scipy is
    loaded here."""
    from saiten_server.ratings.table import judge_opinions, rater_opinions
    from saiten_server.stats.agreement import measure_agreement
    from saiten_server.stats.correlation import correlate_scores

    judged = attempt("no-values", lambda: observe(judge_opinions(table), aspects))
    rated = attempt("no-ratings", lambda: observe(rater_opinions(table, found.ratings), aspects))
    best, own = best_of(rubric), [aspect.id for aspect in rubric.aspects]
    return Overview(
        batches=tuple(ids),
        systems=judged.report.systems if judged.report else (),
        judged=order_systems(judged, best, alpha, own),
        rated=order_systems(rated, best, alpha, own),
        agreement=map_part(rated, measure_agreement),
        correlation=map_part(rated, correlate_scores),
        ambiguous=table.ambiguous,
        ratings_used=found.used,
    )


def attempt(code: Absence, work: Callable[[], Part_]) -> ReportPart[Part_]:
    """What the work gives, or what it refuses with."""
    try:
        return ReportPart(work())
    except InvalidRequest as error:
        uneven = error.message.id == "analysis-of-uneven-sample"
        return ReportPart(code="uneven" if uneven else code, reason=error.detail)


Next = TypeVar("Next")


def map_part(part: ReportPart[Part_], work: Callable[[Part_], Next]) -> ReportPart[Next]:
    """What the work makes of the part; where there is none, there is none of this for the same reason."""
    report = part.report
    if report is None:
        return ReportPart(code=part.code, reason=part.reason)
    return attempt("too-much", lambda: work(report))


def observe(opinions: Opinions, aspects: Sequence[str] | None) -> Observations:
    """The opinions as columns, of those aspects that they have; raises InvalidRequest where they have none of them."""
    if aspects is None:
        return opinions.observe()
    known = opinions.names
    chosen = [name for name in aspects if name in known]
    if not chosen:
        raise InvalidRequest(Message("aspects-without-values"))
    return opinions.observe(chosen)


def order_systems(
    part: ReportPart[Observations], best: Mapping[str, float], alpha: float, aspects: Collection[str]
) -> SystemDifferences:
    """Hierarchy and matrices of the values that stand as ratings; `aspects` are the rubric's."""
    from saiten_server.analyses.reports import orient
    from saiten_server.stats.hierarchy import find_hierarchy

    if part.report is not None and len(part.report.systems) < 2:
        reason = "these results are of one system: there is no other to tell it from"
        part = ReportPart(code="few-systems", reason=reason)
    oriented = map_part(part, lambda observations: orient(observations, best))
    hierarchy = map_part(oriented, lambda observations: find_hierarchy(observations, alpha=alpha))
    if oriented.report is not None and (systems := len(oriented.report.systems)) > MOST_MATRIX_SYSTEMS:
        reason = f"{systems:,} systems are too many for a table, which shows at most {MOST_MATRIX_SYSTEMS}"
        return SystemDifferences(hierarchy, ReportPart(code="many-systems", reason=reason))
    return SystemDifferences(hierarchy, map_part(oriented, lambda observations: compare_systems(observations, aspects)))


def compare_systems(observations: Observations, aspects: Collection[str]) -> Matrices:
    """By measure each system against each other, with the test and at the level of a comparison of two runs. Raises
    InvalidRequest for more than a page can wait for."""
    import numpy as np

    from saiten_server.comparison.differences import compare
    from saiten_server.stats.statistics import refuse_wide

    refuse_wide(len(observations.ratings), observations.units)
    systems, pairs = observations.systems, [*combinations(range(len(observations.systems)), 2)]
    if len(pairs) * observations.units / max(1, len(systems)) > MOST_PAIRED_VALUES:
        raise InvalidRequest(Message("pairs-values-most", many=len(pairs)))
    runs = split_systems(observations, aspects)
    cells: dict[str, dict[tuple[int, int], SystemCell]] = {name: {} for name in observations.ratings}
    for first, second in pairs:
        found = compare(runs[first], runs[second], alpha=ALPHA_OF_RUNS, allow_signature_mismatch=True)
        blended = {name + BLENDED: one for name, one in found.blended.items()}
        for name, one in {**found.aspects, **found.composites, **blended}.items():
            ours, theirs = SYSTEM_OUTCOMES[one.verdict]
            cells[name][first, second] = SystemCell(outcome=theirs, p=one.p_adjusted)
            cells[name][second, first] = SystemCell(outcome=ours, p=one.p_adjusted)
    held = {
        name: [int(np.sum(~np.isnan(run.frame.values[key_measure(name, aspects)]))) for run in runs] for name in cells
    }
    return {
        name: SystemMatrix(
            systems=systems,
            alpha=ALPHA_OF_RUNS,
            n=tuple(held[name]),
            rows=tuple(tuple(own.get((row, column)) for column in range(len(systems))) for row in range(len(systems))),
        )
        for name, own in cells.items()
    }


SYSTEM_OUTCOMES: Mapping[ComparisonVerdict, tuple[SystemOutcome, SystemOutcome]] = {
    "better": ("better", "worse"),
    "worse": ("worse", "better"),
    "inconclusive": ("none", "none"),
}
"""What the candidate of a comparison is to the baseline, and the baseline to the candidate."""


def split_systems(observations: Observations, aspects: Collection[str]) -> list[ComparedRun]:
    """Each system as a run that can be compared: the means of its items, which know their dialogues."""
    import numpy as np

    from saiten_server.runs.frame import make_frame
    from saiten_server.stats.statistics import settled_means

    means = {key_measure(name, aspects): settled_means(observations, one) for name, one in observations.ratings.items()}
    dialogues = np.zeros(observations.units, dtype=np.int64)
    if observations.dialogue is not None:
        # The number of none is −1, and the key of none 0.
        dialogues[observations.unit] = observations.dialogue + 1
    drawn = observations.sampled
    sampled = np.ones(observations.units) if drawn is None else observations.means(drawn)
    runs = []
    for number, name in enumerate(observations.systems):
        own = np.flatnonzero(observations.unit_system == number)
        values = {key: column[own] for key, column in means.items()}
        items = observations.unit_item[own] + 1
        frame = make_frame(len(own), values, items=items, clusters=dialogues[own], probability=sampled[own])
        runs.append(ComparedRun(name, frame, len(own), {}, {}, tuple(aspects)))
    return runs
