"""Two batches side by side as a page shows them: comparison, gate and the items that changed most, of one reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from app.adapters.sql.batches.store import BatchStore
from app.domain.comparison import Comparison, GateReport
from app.domain.comparison_view import Changes
from app.memory import release
from app.meta.computations import Compute
from app.meta.runs import assemble_run, find_batch, read_items
from app.ports import RubricSource


@dataclass(frozen=True)
class Examination:
    """`comparison` is the gate's own; the gate has no rules of a caller's: no aspect may drop."""

    comparison: Comparison
    gate: GateReport
    changes: Changes


class Examiner:
    """Examines a candidate batch against a baseline batch. `compute` does the reckoning elsewhere."""

    def __init__(self, *, batches: BatchStore, rubrics: RubricSource, compute: Compute) -> None:
        self._batches = batches
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
        measure: str | None = None,
    ) -> Examination:
        """All that is told of the two, each of whose results are read once. `measure` is what changes are by: an
        aspect, a composite or `NAME.blended`, by default all aspects together.

        Raises NotFound for a batch that is not in the project, UnknownRubric, UnknownAspect where neither batch has
        the measure, SignatureMismatch where they were not scored alike and that is not allowed, and StoreError.
        """
        ids = baseline_id, candidate_id
        batches = {batch_id: await find_batch(self._batches, project, batch_id) for batch_id in dict.fromkeys(ids)}
        rubrics = {batch_id: self._rubrics.nearest(batch.rubric_name) for batch_id, batch in batches.items()}
        items = {batch_id: await read_items(self._batches, project, batch) for batch_id, batch in batches.items()}

        def work() -> Examination:
            from app.analysis.changes import find_changes
            from app.analysis.gate import judge_gate

            runs = (assemble_run(batches[batch_id], items[batch_id], rubrics[batch_id]) for batch_id in ids)
            baseline, candidate = runs
            try:
                gate = judge_gate(candidate, baseline, alpha=alpha, allow_signature_mismatch=allow_signature_mismatch)
                return Examination(cast(Comparison, gate.comparison), gate, find_changes(baseline, candidate, measure))
            finally:
                for read in items.values():
                    release(read)

        return await self._compute(work)
