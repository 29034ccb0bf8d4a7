"""`/runs/{id}/trend`: the means of the runs of one name, build after build, with change points and changed judges.

A run's own page shows the same of the newest builds, smaller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, hypot, isclose
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from saiten_server.comparison.links.service import choose_link
from saiten_server.comparison.links.values import StoredLink
from saiten_server.core.batch import Batch, BatchFilter
from saiten_server.core.conversation import FAULTY_TURNS
from saiten_server.core.rubric import Rubric
from saiten_server.core.signature import read_comparable
from saiten_server.explorer.cases import state_of
from saiten_server.explorer.pages import run_values
from saiten_server.explorer.pages.run_values import CHART_WAIT_SECONDS, paint
from saiten_server.explorer.trend_chart import (
    MOST_BUILDS,
    MOST_LANES,
    Axis,
    Direction,
    TrendBuild,
    TrendChange,
    TrendLabels,
    TrendLane,
    TrendPoint,
    build_trend,
)
from saiten_server.platform.computations import PendingComputation
from saiten_server.platform.web.dependencies import Serving
from saiten_server.platform.web.language import Speech, query, speech_of
from saiten_server.platform.web.page import PageRoute, Project, render
from saiten_server.runs import names as run_names
from saiten_server.runs.names import build_of, signatures_of, system_of
from saiten_server.runs.summaries import MOST_READ_AT_ONCE
from saiten_server.runs.summary import Summary
from saiten_server.scoring.rubrics.files import find_rubric

if TYPE_CHECKING:
    from saiten_server.container import Container

router = APIRouter(prefix="/runs", include_in_schema=False, route_class=PageRoute)

CARD_BUILDS = 50
"""On a run's page."""

CARD_WIDTH, PAGE_WIDTH, BUILD_WIDTH = 292, 1160, 12
"""Pixels: what a card leaves on a phone, the page's charts at most, and each build's share of them."""

TREND_WAIT_SECONDS = 1.0

ERRORS_IN_MARGIN = 1.96


class TrendFigure(NamedTuple):
    """A run's mean of an aspect with its 95% interval. `error` is its standard error without that of the link; both
    are None where the run has no interval."""

    mean: float
    interval: tuple[float, float] | None
    error: float | None
    is_linked: bool = False


@dataclass(frozen=True)
class TrendRun:
    """A run among those of its name. `same` is whether its results were made as the shown run's were, `ways` the ways
    in which they were, and `linked` holds its aspects on the shown run's judge's scale."""

    batch: Batch
    summary: Summary
    label: str
    system: str | None
    same: bool
    ways: frozenset[tuple[tuple[str, str], ...]]
    linked: Mapping[str, TrendFigure] = field(default_factory=dict)
    link: str | None = None

    def figure(self, aspect: str) -> TrendFigure | None:
        """The aspect's mean, or the rate of faulty turns, linked where that was asked for and is possible."""
        found, rate = self.summary.aspects.get(aspect), self.summary.faulty_turns
        if aspect in self.linked:
            return self.linked[aspect]
        mean, interval = (None, None) if found is None else (found.mean, found.interval)
        if found is None and aspect == FAULTY_TURNS and rate is not None:
            mean, interval = rate.rate, rate.interval
        if mean is None:
            return None
        return TrendFigure(mean, interval, (interval[1] - interval[0]) / 2 / ERRORS_IN_MARGIN if interval else None)


class TrendAspect(NamedTuple):
    """What is drawn: an aspect with its scale, and its best level where that is not the highest."""

    id: str
    name: Mapping[str, str]
    scale: tuple[float, float]
    best: int | None


class SystemChange(NamedTuple):
    """A change point of a system, with the builds that it names."""

    system: str | None
    change: TrendChange
    interval: tuple[float, float]
    build: str
    earliest: str
    latest: str


class TrendPanel(NamedTuple):
    """An aspect's drawing, the same for phones where that is another, its change points, and by system the standard
    deviation between its builds that their items do not explain."""

    aspect: TrendAspect
    drawing: Markup
    narrow: Markup | None
    changes: Sequence[SystemChange]
    noises: Sequence[tuple[str | None, float]]


class Trend(NamedTuple):
    """Runs of one name and rubric, oldest first, and a panel per aspect. `left_out` counts systems without a lane,
    `linkable` the runs of other judges that a stored link can show on this run's scale."""

    runs: Sequence[TrendRun]
    panels: Sequence[TrendPanel]
    left_out: int
    linkable: int


@dataclass(frozen=True)
class TrendView:
    """How it is asked for: the axis, whether by links, how many builds, and pixels."""

    axis: Axis = "build"
    links: bool = False
    most: int = CARD_BUILDS
    width: int = CARD_WIDTH


@router.get("/{run_id}/trend")
async def show_trend(request: Request, container: Serving, project: Project, run_id: str) -> Response:
    """All builds of the run's name, at most MOST_BUILDS."""
    batch = await container.batches.find(project, run_id)
    rubric = find_rubric(container, batch.rubric_name)
    axis: Axis = "time" if request.query_params.get("axis") == "time" else "build"
    view = TrendView(axis, request.query_params.get("links") == "1", MOST_BUILDS, PAGE_WIDTH)
    speech = speech_of(request)
    trend = (
        await find_trend(container, project, speech, batch=batch, aspects=list_aspects(rubric, speech), view=view)
        if rubric
        else None
    )
    return render(
        request,
        "trend.html",
        batch=batch,
        rubric=rubric,
        view=view,
        trend=None if isinstance(trend, PendingComputation) else trend,
        computing=isinstance(trend, PendingComputation),
        painting=isinstance(trend, Trend)
        and any(run_values.is_missing(one) for panel in trend.panels for one in (panel.drawing, panel.narrow) if one),
        address=lambda **changes: query(
            f"/runs/{batch.id}/trend",
            **{"axis": "time" if axis == "time" else None, "links": "1" if view.links else None, **changes},
        ),
        most=MOST_BUILDS,
    )


def list_aspects(rubric: Rubric, speech: Speech) -> list[TrendAspect]:
    """Those of the rubric, and of conversations the faulty turns."""
    aspects = [
        TrendAspect(one.id, cast(Mapping[str, str], one.name), (float(one.scale[0]), float(one.scale[1])), one.best)
        for one in rubric.aspects
    ]
    return [*aspects, *trend_faulty(rubric, speech)]


def trend_faulty(rubric: Rubric, speech: Speech) -> list[TrendAspect]:
    """The faulty turns as what is drawn, where the rubric is of conversations."""
    if rubric.unit != "conversation" or any(one.id == FAULTY_TURNS for one in rubric.aspects):
        return []
    return [TrendAspect(FAULTY_TURNS, {speech.language: run_names.name_faulty(speech)}, (0.0, 100.0), 0)]


def fit_scale(aspect: TrendAspect, runs: Sequence[TrendRun]) -> TrendAspect:
    """The rate of faulty turns up to the ten above the highest end of an interval: most are far below 100. An aspect as
    it is."""
    if aspect.id != FAULTY_TURNS:
        return aspect
    known = [figure for run in runs if (figure := run.figure(aspect.id)) is not None]
    highest = max((figure.interval[1] if figure.interval else figure.mean for figure in known), default=0.0)
    return aspect._replace(scale=(0.0, min(100.0, max(10.0, 10.0 * ceil(highest / 10)))))


async def find_trend(
    container: Container,
    project: str,
    speech: Speech,
    *,
    batch: Batch,
    aspects: Sequence[TrendAspect],
    view: TrendView = TrendView(),
    wait_seconds: float | None = TREND_WAIT_SECONDS,
) -> Trend | PendingComputation | None:
    """The run among the newest of its name and rubric; None for a run without a name, or alone of its name. To sum many
    runs up for the first time takes seconds, for which no page waits; `wait_seconds` as of `Computations.get`."""
    if batch.name is None:
        return None
    wanted = BatchFilter(name=batch.name, rubric=batch.rubric)
    batches = await container.batches.list(project, wanted, after=None, limit=view.most)
    if len(batches) < 2:
        return None
    key = ("trend", batch.rubric, *map(state_of, batches))
    is_large = sum(one.counts.total for one in batches) > MOST_READ_AT_ONCE
    if is_large and wait_seconds is not None:
        wait_seconds = min(wait_seconds, CHART_WAIT_SECONDS)
    summaries = await container.dashboard.computations.get(
        project, key, lambda: container.batches.summaries(project, batches), wait_seconds=wait_seconds
    )
    if isinstance(summaries, PendingComputation):
        return summaries
    mine = ways_of(batch)
    runs = [
        TrendRun(
            each,
            summaries[each.id],
            label=build_of(each) or f"{each.created_at:%Y-%m-%d}",
            system=system_of(each),
            same=ways_of(each) == mine,
            ways=ways_of(each),
        )
        for each in reversed(batches)
        if each.id in summaries and any(aspect.n for aspect in summaries[each.id].aspects.values())
    ]
    if len(runs) < 2:
        return None
    runs, linkable = await apply_links(container, project, batch, runs, apply=view.links)
    aspects = [fit_scale(aspect, runs) for aspect in aspects]
    systems = list(dict.fromkeys([system_of(batch), *(run.system for run in runs)]))
    lanes = await asyncio.to_thread(
        lambda: [[make_lane(aspect, runs, system) for system in systems[:MOST_LANES]] for aspect in aspects]
    )
    panels = await draw_panels(container, speech, aspects, runs, lanes, batch=batch, view=view)
    return Trend(runs, panels, max(0, len(systems) - MOST_LANES), linkable)


async def draw_panels(
    container: Container,
    speech: Speech,
    aspects: Sequence[TrendAspect],
    runs: Sequence[TrendRun],
    lanes: Sequence[Sequence[SystemLane]],
    *,
    batch: Batch,
    view: TrendView,
) -> list[TrendPanel]:
    """The charts of each aspect's lanes: as wide as the runs need, and as wide as a card."""
    widths = dict.fromkeys([min(view.width, max(CARD_WIDTH, BUILD_WIDTH * len(runs))), CARD_WIDTH])
    drawn = await asyncio.gather(
        *(
            paint(
                container, speech, chart_trend(speech, aspect, runs, own, batch=batch, view=replace(view, width=width))
            )
            for aspect, own in zip(aspects, lanes, strict=True)
            for width in widths
        )
    )
    count = len(widths)
    return [
        TrendPanel(
            aspect,
            drawn[number * count],
            drawn[number * count + 1] if count > 1 else None,
            [change for lane in lanes[number] for change in lane.changes],
            [(lane.system, lane.noise) for lane in lanes[number] if lane.noise is not None],
        )
        for number, aspect in enumerate(aspects)
    ]


def ways_of(batch: Batch) -> frozenset[tuple[tuple[str, str], ...]]:
    """The ways in which the batch's results were made."""
    return frozenset(tuple(sorted(read_comparable(line).items())) for line in signatures_of(batch))


async def apply_links(
    container: Container, project: str, batch: Batch, runs: Sequence[TrendRun], *, apply: bool
) -> tuple[list[TrendRun], int]:
    """The runs, with `apply` those of other judges on the shown run's judge's scale, where one of the project's links
    does that; and how many a link can show."""
    if all(run.same for run in runs):
        return list(runs), 0
    links, service = await container.comparison.links.list(project), container.comparison.links
    chosen = {
        run.batch.id: link
        for run in runs
        if not run.same and (link := choose_link(links, signatures_of(run.batch), signatures_of(batch))) is not None
    }
    if not apply:
        return list(runs), len(chosen)
    ids = dict.fromkeys(link.id for link in chosen.values())
    stored = {link_id: await service.find_stored(project, link_id) for link_id in ids}

    def move() -> list[TrendRun]:
        return [link_run(run, stored[chosen[run.batch.id].id]) if run.batch.id in chosen else run for run in runs]

    return await asyncio.to_thread(move), len(chosen)


def link_run(run: TrendRun, stored: StoredLink) -> TrendRun:
    """The run on the new judge's scale, from how often each level was given; aspects of whose means that does not tell
    stay as they are. The intervals hold the linking error. It loads numpy, so run it in a thread."""
    from saiten_server.comparison.links.rules import link_counts

    linked = {}
    for name, found in run.summary.aspects.items():
        moved = link_counts(found.histogram, stored, name)
        counted = sum(int(level) * count for level, count in found.histogram.items()) / max(1, found.n)
        if moved is None or found.mean is None or not isclose(counted, found.mean, abs_tol=1e-4):
            continue
        margins = [abs(end - found.mean) for end in found.interval] if found.interval else None
        below, above = (hypot(one * moved.stretch, ERRORS_IN_MARGIN * moved.error) for one in margins or (0.0, 0.0))
        error = sum(margins) / 2 / ERRORS_IN_MARGIN * moved.stretch if margins else None
        interval = (moved.mean - below, moved.mean + above) if margins else None
        linked[name] = TrendFigure(moved.mean, interval, error, is_linked=True)
    return TrendRun(
        run.batch, run.summary, run.label, run.system, run.same, run.ways, linked, stored.link.id if linked else None
    )


@dataclass(frozen=True)
class SystemLane:
    """A system's points by run, the runs before which it was scored in another way, its change points, and the noise
    between the newest of its builds that were scored alike."""

    system: str | None
    points: Sequence[TrendPoint | None]
    breaks: Sequence[int]
    changes: Sequence[SystemChange]
    noise: float | None


def make_lane(aspect: TrendAspect, runs: Sequence[TrendRun], system: str | None) -> SystemLane:
    """A system's lane of an aspect. Change points are looked for between changes of the signature only."""
    figures = [run.figure(aspect.id) if run.system == system else None for run in runs]
    points = [None if one is None else TrendPoint(one.mean, one.interval, one.is_linked) for one in figures]
    breaks, changes = list[int](), list[SystemChange]()
    piece: list[int] = []
    for number, run in enumerate(runs):
        if figures[number] is None:
            continue
        if piece and runs[piece[-1]].ways != run.ways:
            breaks.append(number)
            changes += find_changes(aspect, runs, figures, piece)[0]
            piece = []
        piece.append(number)
    newest, noise = find_changes(aspect, runs, figures, piece)
    return SystemLane(system, points, breaks, [*changes, *newest], noise)


def find_changes(
    aspect: TrendAspect, runs: Sequence[TrendRun], figures: Sequence[TrendFigure | None], piece: Sequence[int]
) -> tuple[list[SystemChange], float | None]:
    """The change points among these runs of a system, of those that have an interval or whose ratings are all alike,
    and the noise between them."""
    from saiten_server.stats.change_points import find_levels

    known = [(number, figure) for number in piece if (figure := figures[number]) is not None]
    if not known:
        return [], None
    numbers = [number for number, _ in known]
    found = find_levels([figure.mean for _, figure in known], [figure.error or 0.0 for _, figure in known])
    changes, start = list[SystemChange](), 0
    for one in found.changes:
        level = sum(figure.mean for _, figure in known[start : one.at]) / (one.at - start)
        start = one.at
        first, earliest, latest = numbers[one.at], numbers[one.earliest], numbers[one.latest]
        direction = tell_direction(aspect, level, level + one.difference)
        change = TrendChange(first, earliest, latest, one.difference, direction)
        labels = [runs[number].label for number in (first, earliest, latest)]
        changes.append(SystemChange(runs[first].system, change, one.interval, *labels))
    return changes, found.noise


def tell_direction(aspect: TrendAspect, before: float, after: float) -> Direction:
    """Whether that is better: higher, or nearer to the best level."""
    if aspect.best is None:
        return "better" if after > before else "worse"
    off = abs(before - aspect.best), abs(after - aspect.best)
    return "better" if off[1] < off[0] else "worse"


def chart_trend(
    speech: Speech,
    aspect: TrendAspect,
    runs: Sequence[TrendRun],
    lanes: Sequence[SystemLane],
    *,
    batch: Batch,
    view: TrendView,
) -> dict[str, Any]:
    """One aspect's means over the runs, a lane per system."""
    _ = speech.say
    name = speech.pick(aspect.name)
    changes = sum(len(lane.changes) for lane in lanes)
    described = _("Means with 95%% intervals of %(count)s runs", count=speech.formats.count(len(runs)))
    marked = _("Change points: %(count)s", count=speech.formats.count(changes))
    labels = TrendLabels(
        title=_("%(aspect)s over the runs", aspect=name),
        description=f"{described}. {marked}",
        axis=_("%(aspect)s, %(low)s to %(high)s", aspect=name, low=f"{aspect.scale[0]:g}", high=f"{aspect.scale[1]:g}"),
        current=_("this run"),
        change=_("change of the level, and where it may be"),
        broken=_("scored in another way from here on"),
        linked=_("linked"),
        nothing=_("Nothing is rated yet."),
    )
    drawn = [
        TrendLane(lane.system or _("no system given"), lane.points, lane.breaks, [one.change for one in lane.changes])
        for lane in lanes
    ]
    current = next((number for number, run in enumerate(runs) if run.batch.id == batch.id), None)
    builds = [TrendBuild(run.label, run.batch.created_at) for run in runs]
    return build_trend(builds, drawn, labels, scale=aspect.scale, current=current, axis=view.axis, width=view.width)
