"""Values that several pages show of runs: system, judge, previous run, charts, and the comparison of two runs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from saiten_server.comparison.links.values import StoredLink
from saiten_server.comparison.service import Examination
from saiten_server.core.batch import ENDED_STATUSES, Batch, BatchFilter
from saiten_server.core.rubric import Rubric
from saiten_server.explorer.cases import state_of
from saiten_server.platform.computations import TURN_WAIT_SECONDS, PendingComputation
from saiten_server.platform.web.language import Speech, mark
from saiten_server.runs.names import line_of, system_of
from saiten_server.runs.service import BatchService
from saiten_server.runs.summary import SYSTEM

if TYPE_CHECKING:
    from saiten_server.container import Container


SPARE = 20
"""Extra runs to read if no system is named: no filter excludes those that name one."""


async def find_predecessors(
    service: BatchService, project: str, batches: Sequence[Batch], read: Iterable[Batch] = ()
) -> dict[str, Batch]:
    """By id the completed run before each of these, of the same name, system and rubric version. `read` are others that
    need not be read again."""
    befores = await service.befores(project, [batch.id for batch in batches])
    known = {batch.id: batch for batch in (*batches, *read)}
    missing = {*befores.values()} - known.keys()
    known |= {batch.id: batch for batch in await service.find_each(project, [*missing])}
    found: dict[str, Batch] = {}
    for batch in batches:
        before = known.get(befores.get(batch.id, ""))
        if before is not None and line_of(before) != line_of(batch):  # of another version
            before = await find_before(service, project, batch)
        if before is not None:
            found[batch.id] = before
    return found


async def find_before(service: BatchService, project: str, batch: Batch) -> Batch | None:
    """The newest completed run of the batch's line that was made before it."""
    system = system_of(batch)
    metadata = {} if system is None else {SYSTEM: system}
    wanted = BatchFilter(name=batch.name, rubric=batch.rubric_name, status="completed", metadata=metadata)
    limit = 1 + (SPARE if system is None else 0)
    listed = await service.list(project, wanted, after=(batch.created_at, batch.id), limit=limit)
    return next((other for other in listed if line_of(other) == line_of(batch)), None)


Both = tuple[Batch, Batch]
"""Baseline and candidate."""


def find_obstacle(both: Both) -> dict[str, Any] | None:
    """Why there is no comparison of two runs by one rubric, as an outcome of the page; None if there may be one."""
    open_ones = [batch for batch in both if batch.status not in ENDED_STATUSES]
    if open_ones:
        return {"outcome": "open", "waiting": open_ones}
    empty = [batch for batch in both if not batch.counts.scored + batch.counts.partial]
    return {"outcome": "nothing", "empty": empty} if empty else None


async def mark_ratings(container: Container, project: str) -> Hashable:
    """What changes whenever the ratings that count do."""
    service = container.ratings.service
    excluded = tuple((one.rater, one.round, one.created_at) for one in await service.exclusions(project))
    return await service.mark_ratings(project), excluded


async def examine(
    container: Container,
    project: str,
    both: Both,
    rubric: Rubric,
    *,
    rated: Hashable,
    mismatch: bool = False,
    link: StoredLink | None = None,
    wait_seconds: float | None = TURN_WAIT_SECONDS,
) -> Examination | PendingComputation:
    """The comparison, once it is computed; `rated` is of `mark_ratings`, `wait_seconds` as of `Computations.get`.
    Raises SignatureMismatch, and InvalidRequest for a link of other judges."""
    key = ("examination", *map(state_of, both), rubric.digest, mismatch, link and link.link.id, rated)
    return await container.dashboard.computations.get(
        project,
        key,
        lambda: container.comparison.examine(
            project, (both[0].id, both[1].id), allow_signature_mismatch=mismatch, link=link
        ),
        wait_seconds=wait_seconds,
    )


CHART_WAIT_SECONDS = 0.15
"""How long a page waits for its charts. The engine takes longer to start, so no page waits for the first chart."""

COMPUTING = Markup('<p class="computing soft"><span class="lead">{}</span></p>')


async def paint(container: Container, speech: Speech, spec: Mapping[str, Any]) -> Markup:
    """The chart, or a placeholder; a page with placeholders reloads itself."""
    drawn = await container.dashboard.charts.draw_soon(spec, CHART_WAIT_SECONDS)
    if drawn is None:
        return COMPUTING.format(speech.say(mark("The chart is being drawn")))
    return Markup(drawn)  # noqa: S704 (the renderer keeps nothing but shapes and texts)


def is_missing(chart: Markup) -> bool:
    """Whether it is only a placeholder."""
    return "<svg" not in chart
