"""Values that several pages show of runs: system, judge, previous run, charts, and the comparison of two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from markupsafe import Markup

from app.batches.service import BatchService
from app.comparison.computations import WAIT_SECONDS, PendingComputation
from app.comparison.service import Examination
from app.container import Container
from app.domain.batch import Batch, BatchFilter
from app.domain.conversation import FAULTY_TURNS
from app.domain.errors import UnknownRubric
from app.domain.evaluation import EXPECTED
from app.domain.link import StoredLink
from app.domain.rubric import Rubric
from app.domain.signature import read_signature
from app.domain.summary import SYSTEM, Summary
from app.providers.registry import is_baseline
from app.web.dashboard.language import Speech, mark

BLENDED = ".blended"
BUILD = "build"
"""The metadata entry that names a system's build."""

ENDED = ("completed", "cancelled")

SPARE = 20
"""Extra runs to read if no system is named: no filter excludes those that name one."""

RunSequence = tuple[str, str | None, str]
"""Name, system and rubric of runs that follow each other, so that each can be compared with the one before it."""


class JudgeName(NamedTuple):
    kind: str
    model: str

    @property
    def is_baseline(self) -> bool:
        return is_baseline(self.kind)


def system_of(batch: Batch) -> str | None:
    """What the run's metadata name as the system."""
    return batch.metadata.get(SYSTEM)


def build_of(batch: Batch) -> str | None:
    """The build that the run's metadata name."""
    return batch.metadata.get(BUILD)


def line_of(batch: Batch) -> RunSequence | None:
    """Which runs it follows; None for a run without a name."""
    return None if batch.name is None else (batch.name, system_of(batch), batch.rubric_name)


def signatures_of(batch: Batch) -> tuple[str, ...]:
    """The signatures of its results, the most frequent first; none before the first result."""
    ranked = sorted(batch.signatures, key=lambda signature: (-batch.signatures[signature], signature))
    return tuple(ranked) or ((batch.signature,) if batch.signature else ())


def judges_of(container: Container, batch: Batch) -> tuple[JudgeName, ...]:
    """The judges according to the signatures; before the first result, the judge that will be used."""
    signed = [read_signature(signature) for signature in signatures_of(batch)]
    found = [JudgeName(part.get("judge", "").partition("/")[0], part.get("model", "")) for part in signed]
    if not found:
        judge = container.scoring.context.judge
        found = [JudgeName(judge.kind, batch.judge.model or judge.default_model)]
    return tuple(dict.fromkeys(found))


def find_rubric(container: Container, name: str) -> Rubric | None:
    """The rubric in that version, else its newest version; None if it is no longer installed."""
    try:
        return container.scoring.context.rubrics.nearest(name)
    except UnknownRubric:
        return None


def name_measures(rubric: Rubric, speech: Speech, *, marked: bool = False) -> dict[str, str]:
    """What the visitor calls each measure that the rubric can have; `marked`: faulty turns of conversations too."""
    aspects = {aspect.id: speech.pick(cast(Mapping[str, str], aspect.name)) for aspect in rubric.aspects}
    _ = speech.say
    blended = {f"{name}{BLENDED}": _("%(aspect)s, blended", aspect=shown) for name, shown in aspects.items()}
    faulty = {FAULTY_TURNS: name_faulty(speech)} if marked and rubric.unit == "conversation" else {}
    return {**faulty, **aspects, **{composite.id: composite.id for composite in rubric.composites}, **blended}


def has_only_rules(summary: Summary) -> bool:
    """Whether the run is of conversations, which its judge cannot rate, so that only rules found something."""
    aspects = summary.aspects.values()
    return summary.findings is not None and all(
        not one.n and one.unrated_reasons and EXPECTED.issuperset(one.unrated_reasons) for one in aspects
    )


def name_faulty(speech: Speech) -> str:
    """What the visitor calls the rate of faulty turns."""
    return speech.say(mark("Faulty turns per 100 system turns"))


async def find_predecessors(service: BatchService, project: str, batches: Sequence[Batch]) -> dict[str, Batch]:
    """By id the completed run before each of these (newest first), of the same name, system and rubric version."""
    lines: dict[RunSequence, list[Batch]] = {}
    for batch in batches:
        line = line_of(batch)
        if line is not None:
            lines.setdefault(line, []).append(batch)
    found: dict[str, Batch] = {}
    for line, members in lines.items():
        limit = len(members) + (SPARE if line[1] is None else 0)
        earlier = await list_before(service, project, members[0], limit)
        for batch in members:
            place = batch.created_at, batch.id
            before = next((other for other in earlier if (other.created_at, other.id) < place), None)
            if before is None and batch is not members[0]:
                before = next(iter(await list_before(service, project, batch, limit)), None)
            if before is not None:
                found[batch.id] = before
    return found


async def list_before(service: BatchService, project: str, batch: Batch, limit: int) -> list[Batch]:
    """Completed runs of the batch's line that were made before it, newest first."""
    system = system_of(batch)
    metadata = {} if system is None else {SYSTEM: system}
    wanted = BatchFilter(name=batch.name, rubric=batch.rubric_name, status="completed", metadata=metadata)
    listed = await service.list(project, wanted, after=(batch.created_at, batch.id), limit=limit)
    return [other for other in listed if line_of(other) == line_of(batch)]


Both = tuple[Batch, Batch]
"""Baseline and candidate."""


def find_obstacle(both: Both) -> dict[str, Any] | None:
    """Why there is no comparison of two runs by one rubric, as an outcome of the page; None if there may be one."""
    open_ones = [batch for batch in both if batch.status not in ENDED]
    if open_ones:
        return {"outcome": "open", "waiting": open_ones}
    empty = [batch for batch in both if not batch.counts.scored + batch.counts.partial]
    return {"outcome": "nothing", "empty": empty} if empty else None


async def examine(
    container: Container,
    project: str,
    both: Both,
    rubric: Rubric,
    *,
    mismatch: bool = False,
    link: StoredLink | None = None,
    wait_seconds: float = WAIT_SECONDS,
) -> Examination | PendingComputation:
    """The comparison, once it is computed. Raises SignatureMismatch, and InvalidRequest for a link of other judges."""
    service = container.ratings.service
    excluded = tuple((one.rater, one.round, one.created_at) for one in await service.exclusions(project))
    rated = await service.mark_ratings(project), excluded
    key = ("examination", *map(state_of, both), rubric.digest, mismatch, link and link.link.id, rated)
    return await container.dashboard.computations.get(
        project,
        key,
        lambda: container.comparison.examine(
            project, (both[0].id, both[1].id), allow_signature_mismatch=mismatch, link=link
        ),
        wait_seconds=wait_seconds,
    )


def state_of(batch: Batch) -> tuple[object, ...]:
    """A value that changes whenever the run's results do."""
    counts = batch.counts
    results = (counts.total, counts.scored, counts.partial, counts.failed, counts.expired)
    return (batch.id, batch.status, batch.finished_at, *results)


CHART_WAIT_SECONDS = 0.15
"""How long a page waits for its charts. The engine takes longer to start, so no page waits for the first chart."""

PLACE = Markup('<p class="computing soft"><span class="lead">{}</span></p>')


async def paint(container: Container, speech: Speech, spec: Mapping[str, Any]) -> Markup:
    """The chart, or a placeholder; a page with placeholders reloads itself."""
    drawn = await container.dashboard.charts.draw_soon(spec, CHART_WAIT_SECONDS)
    if drawn is None:
        return PLACE.format(speech.say(mark("The chart is being drawn")))
    return Markup(drawn)  # noqa: S704 (the renderer keeps nothing but shapes and texts)


def is_missing(chart: Markup) -> bool:
    """Whether it is only a placeholder."""
    return "<svg" not in chart
