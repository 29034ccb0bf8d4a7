"""The examination of two batches.

An examination holds the figures that a page shows of two batches: comparison, gate, and differences by people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from app.comparison.links import use_link
from app.comparison.runs import RunReader, find_batch
from app.domain.comparison import ComparedRun, Comparison, CorrectedMeasure, GateReport
from app.domain.link import StoredLink
from app.domain.reports import Correlations
from app.ratings.reliability import read_ratings
from app.runtime.computations import Compute
from app.storage.rubric_files import RubricSource
from app.storage.sql.ratings import RatingStore


@dataclass(frozen=True)
class Examination:
    """Comparison and gate of two batches. The gate has the default rules: no aspect may drop. `corrected` are
    the measures on people's scale, empty where people rated nothing."""

    comparison: Comparison
    gate: GateReport
    corrected: Mapping[str, CorrectedMeasure] = field(default_factory=dict)


class Examiner:
    """Examines a candidate batch against a baseline batch. `compute` runs the work in a thread."""

    def __init__(
        self,
        *,
        runs: RunReader,
        ratings: RatingStore,
        rubrics: RubricSource,
        compute: Compute,
    ) -> None:
        self._runs = runs
        self._ratings = ratings
        self._rubrics = rubrics
        self._compute = compute

    async def examine(
        self,
        project: str,
        baseline_id: str,
        candidate_id: str,
        *,
        alpha: float = 0.05,
        allow_signature_mismatch: bool = False,
        link: StoredLink | None = None,
    ) -> Examination:
        """Examines the two; the results of each are read once. With a `link`, a run of its old judge is on the new
        judge's scale, and nothing is corrected.

        Raises NotFound for a batch that is not in the project, UnknownRubric, InvalidRequest where the link fits
        neither, SignatureMismatch where they were not scored alike and that is not allowed, and StoreError.
        """
        ids = baseline_id, candidate_id
        batches = {batch_id: await find_batch(self._runs.batches, project, batch_id) for batch_id in dict.fromkeys(ids)}
        rubrics = {batch_id: self._rubrics.nearest(batch.rubric_name) for batch_id, batch in batches.items()}
        runs: dict[str, ComparedRun] = {}
        for batch_id, batch in batches.items():
            found = await read_ratings(self._ratings, project, [batch_id])
            runs[batch_id] = await self._runs.read(project, batch, rubrics[batch_id], found)

        def work() -> Examination:
            from app.stats.corrected_runs import compare_corrected
            from app.stats.gate import judge_gate

            baseline, candidate = runs[baseline_id], runs[candidate_id]
            use = None
            if link is not None:
                shown, use = use_link(
                    link,
                    {"baseline": baseline, "candidate": candidate},
                    {"baseline": rubrics[baseline_id], "candidate": rubrics[candidate_id]},
                )
                baseline, candidate = shown["baseline"], shown["candidate"]
            gate = judge_gate(
                candidate, baseline, alpha=alpha, allow_signature_mismatch=allow_signature_mismatch, link=use
            )
            comparison, corrected = cast(Comparison, gate.comparison), dict[str, CorrectedMeasure]()
            if link is None and (baseline.frame.people or candidate.frame.people):
                paired = comparison.pairing.test == "paired"
                corrected = compare_corrected(baseline, candidate, alpha=alpha, paired=paired)
            return Examination(comparison, gate, corrected)

        return await self._compute(work)


def correlate_results(names: Sequence[str], patterns: Sequence[tuple[tuple[float | None, ...], int]]) -> Correlations:
    """Correlations between aspects, from patterns of ratings with their counts. It loads numpy and scipy,
    which takes a second, so run it in a thread."""
    from app.stats.correlation import correlate_patterns

    return correlate_patterns(names, patterns)
