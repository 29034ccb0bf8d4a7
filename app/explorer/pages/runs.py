"""`/`: the project's runs, newest first, two of which can be picked for a comparison.

Above them stand the best system of each name, and what to fix first.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from starlette.background import BackgroundTasks

from saiten_server.core.batch import Batch, BatchFilter, BatchStatus
from saiten_server.core.errors import InvalidRequest, SaitenError, SignatureMismatch
from saiten_server.core.reliability import AspectValidation
from saiten_server.core.rubric import Rubric
from saiten_server.explorer.pages import run_values
from saiten_server.explorer.pages.leaderboard import choose_ranked, pick_first, rank_runs
from saiten_server.explorer.pages.run_values import examine
from saiten_server.explorer.pages.verdict import MOST_NAMED_ASPECTS, make_tables
from saiten_server.platform.computations import PendingComputation
from saiten_server.platform.web.dependencies import Serving, read_cursor, write_cursor
from saiten_server.platform.web.language import Speech, query, speech_of
from saiten_server.platform.web.page import PageRoute, Project, render
from saiten_server.runs import names as run_names
from saiten_server.runs.names import build_of, has_only_rules, name_measures, signatures_of, system_of
from saiten_server.runs.summary import SYSTEM, Spread, Summary
from saiten_server.scoring.rubrics.files import find_rubric

if TYPE_CHECKING:
    from saiten_server.container import Container

router = APIRouter(include_in_schema=False, route_class=PageRoute)

RUNS_PAGE = 25
RUN_STATUSES: tuple[BatchStatus, ...] = get_args(BatchStatus)
MOST_FILTER_CHARACTERS = 200
"""Most characters of a filter."""


@dataclass(frozen=True)
class RunsQuery:
    """The page's valid parameters. `baseline` and `candidate` are runs that were picked before."""

    text: str = ""
    rubric: str = ""
    status: str = ""
    system: str = ""
    baseline: str = ""
    candidate: str = ""

    def filter(self) -> BatchFilter:
        """What to list."""
        return BatchFilter(
            text=self.text or None,
            rubric=self.rubric or None,
            status=next((status for status in RUN_STATUSES if status == self.status), None),
            metadata={SYSTEM: self.system} if self.system else {},
        )

    def is_filter(self) -> bool:
        return bool(self.text or self.rubric or self.status or self.system)

    def address(self, cursor: str | None = None) -> str:
        """This list, or the page of it that begins at the cursor."""
        return query("/", **vars(self), cursor=cursor)


@router.get("/")
async def show_runs(request: Request, container: Serving, project: Project) -> Response:
    """A page of the runs that match the filter."""
    asked, speech = read_asked(request), speech_of(request)
    after = None
    with suppress(InvalidRequest):  # the first page for an invalid cursor
        after = read_cursor(request.query_params.get("cursor") or None)
    found = await container.batches.list(project, asked.filter(), after=after, limit=RUNS_PAGE + 1)
    batches = found[:RUNS_PAGE]
    # By rubric and version, that of the newest run first: within a group all have the same aspects.
    groups: dict[str, list[Batch]] = {}
    for batch in batches:
        groups.setdefault(batch.rubric_name, []).append(batch)
    completed = [batch for batch in batches if batch.status == "completed"]
    pairs: Sequence[run_values.Both] = ()
    if after is None:
        pairs = await container.batches.newest_pairs(project, asked.filter(), limit=MOST_LINES)
    read = [*batches, *chain(*pairs)]
    pinned = await container.comparison.pinned(project, [*completed, *(batch for batch, _ in pairs)])
    pairs = [(pinned.get(batch.id, before), batch) for batch, before in pairs]
    summed = {batch.id: batch for batch in (*batches, *(chain(*pairs) if len(pairs) > MOST else ()))}
    summaries = await container.batches.summaries(project, [*summed.values()], intervals=False)
    rated = await run_values.mark_ratings(container, project)
    ranked = batches if after is None and not asked.is_filter() else ()
    gather = partial(
        look_above, container, project, speech, choose_fallen(container, pairs, summaries), ranked, rated=rated
    )
    above = await gather(wait_seconds=None)
    worse = [(one.before, one.batch, aspect) for one in above.glances for aspect, _ in one.worse]
    ids = {"baseline": asked.baseline, "candidate": asked.candidate}
    picked = {name: await container.batches.look(project, one) if one else None for name, one in ids.items()}
    response = render(
        request,
        "runs.html",
        asked=asked,
        groups=[await describe_group(container, project, name, members, summaries) for name, members in groups.items()],
        summaries=summaries,
        befores={**await run_values.find_predecessors(container.batches, project, completed, read), **pinned},
        pinned=pinned,
        count=len(batches),
        **above._asdict(),
        fixes=find_fixes(worse, newest_of(batches), summaries) if after is None else None,
        picked=picked,
        shown={batch.id for batch in batches},
        systems=sorted({system for batch in batches if (system := system_of(batch))}),
        rubrics=container.scoring.context.rubrics.list(),
        statuses=RUN_STATUSES,
        system_of=system_of,
        build_of=build_of,
        judges_of=partial(run_names.judges_of, container),
        watch=watch(asked, batches) if after is None else None,
        first=None if after is None else asked.address(),
        following=address_following(asked, found),
        cleared=query("/", baseline=asked.baseline, candidate=asked.candidate),
        origin=str(request.base_url).rstrip("/"),
    )
    # After the page, with which computations and imports of numpy and scipy would take turns.
    response.background = BackgroundTasks()
    response.background.add_task(container.dashboard.charts.warm)  # a run's page, with charts, is usually opened next
    if above.is_pending:
        response.background.add_task(gather, wait_seconds=0.0)
    return response


def address_following(asked: RunsQuery, found: Sequence[Batch]) -> str | None:
    """The address of the page after these runs; None on the last one."""
    if len(found) <= RUNS_PAGE:
        return None
    last = found[RUNS_PAGE - 1]
    return asked.address(write_cursor(last.created_at, last.id))


def watch(asked: RunsQuery, batches: Sequence[Batch]) -> str:
    """The query by which the page asks for what is new in its list."""
    newest = write_cursor(batches[0].created_at, batches[0].id) if batches else ""
    filters = {name: value for name, value in vars(asked).items() if value and name not in ("baseline", "candidate")}
    return urlencode({"since": newest, **filters})


class RunGroup(NamedTuple):
    """Runs of one rubric and version, with what is known of their judges by aspect."""

    name: str
    rubric: Rubric | None
    batches: Sequence[Batch]
    trust: Mapping[str, AspectValidation]
    only_rules: bool
    """Whether these are conversations that no judge rated: what there is to see is what the rules found."""

    @property
    def is_checked(self) -> bool:
        """Whether people have rated enough for a word on any aspect."""
        return any(found.state != "unknown" for found in self.trust.values())


async def describe_group(
    container: Container, project: str, name: str, batches: Sequence[Batch], summaries: Mapping[str, Summary]
) -> RunGroup:
    """The runs under their rubric, which is None if it is no longer installed."""
    rubric = find_rubric(container, name)
    lines = {line for batch in batches for line in signatures_of(batch)}
    aspects = [aspect.id for aspect in rubric.aspects] if rubric else []
    trust = await container.ratings.reliabilities.weakest(project, lines, aspects)
    known = [summaries[batch.id] for batch in batches if batch.id in summaries]
    only_rules = bool(known) and all(map(has_only_rules, known))
    return RunGroup(name, rubric, batches, trust, only_rules)


def read_asked(request: Request) -> RunsQuery:
    """The parameters; invalid values are ignored."""
    given = {name: request.query_params.get(name, "").strip()[:MOST_FILTER_CHARACTERS] for name in vars(RunsQuery())}
    if given["status"] not in RUN_STATUSES:
        given["status"] = ""
    return RunsQuery(**given)


MOST = 6
"""Comparisons that are computed automatically."""

MOST_LINES = 50
"""Names and systems among which the largest falls are looked for: those with the newest runs."""

MOST_COMPARED_CANDIDATES = 20_000
"""Most candidates of a run that is compared automatically; more take seconds."""

ComparisonState = Literal["known", "computing", "mismatch", "unknown"]


class Glance(NamedTuple):
    """A run and the one it is compared with. `worse` and `better` hold at most `MOST_NAMED_ASPECTS` aspects each, by
    name, with what is known of the judge; `more_…` counts the others. The explorer explains `unknown`."""

    batch: Batch
    before: Batch
    state: ComparisonState
    worse: Sequence[tuple[str, AspectValidation]] = ()
    better: Sequence[tuple[str, AspectValidation]] = ()
    more_worse: int = 0
    more_better: int = 0


class Above(NamedTuple):
    """What stands above the list: comparisons, the best systems, and whether some of these are still to be computed."""

    glances: Sequence[Glance]
    best: Sequence[BestSystem]
    ranking: bool

    @property
    def is_pending(self) -> bool:
        return self.ranking or any(one.state == "computing" for one in self.glances)


async def look_above(
    container: Container,
    project: str,
    speech: Speech,
    pairs: Sequence[run_values.Both],
    ranked: Sequence[Batch],
    *,
    rated: Hashable,
    wait_seconds: float | None,
) -> Above:
    """The comparisons of these pairs, worse ones first, and the best systems of the runs that are ranked; the last two
    as of `examine`."""
    glances = [
        await look_at_newest(container, project, speech, both, rated=rated, wait_seconds=wait_seconds) for both in pairs
    ]
    best, ranking = await find_best_systems(container, project, speech, ranked, rated=rated, wait_seconds=wait_seconds)
    return Above(sorted(glances, key=lambda one: not one.worse), best, ranking)


def choose_fallen(
    container: Container, pairs: Sequence[run_values.Both], summaries: Mapping[str, Summary]
) -> Sequence[run_values.Both]:
    """At most `MOST` of the pairs: those whose means fell most clearly among all names and systems."""
    if len(pairs) <= MOST:
        return pairs
    return sorted(pairs, key=lambda both: fall_of(container, both, summaries), reverse=True)[:MOST]


def fall_of(container: Container, both: run_values.Both, summaries: Mapping[str, Summary]) -> float:
    """The largest fall of an aspect's mean, in standard errors, from summaries alone. Negative if every mean rose."""
    before, batch = both
    rubric, now, then = find_rubric(container, batch.rubric), summaries.get(batch.id), summaries.get(before.id)
    if rubric is None or now is None or then is None:
        return -math.inf
    falls = [
        fall_between(then.aspects[aspect.id], now.aspects[aspect.id], aspect.best)
        for aspect in rubric.aspects
        if aspect.id in now.aspects and aspect.id in then.aspects
    ]
    return max(falls, default=-math.inf)


def fall_between(then: Spread, now: Spread, best: int | None) -> float:
    """How far the mean fell, or moved away from the best level, in standard errors of the difference."""
    if then.mean is None or now.mean is None:
        return -math.inf
    fall = then.mean - now.mean if best is None else abs(now.mean - best) - abs(then.mean - best)
    error = math.sqrt(sum((one.sd or 0.0) ** 2 / one.n for one in (then, now)))
    return fall / error if error else math.copysign(math.inf, fall) if fall else 0.0


async def look_at_newest(
    container: Container,
    project: str,
    speech: Speech,
    both: run_values.Both,
    *,
    rated: Hashable,
    wait_seconds: float | None,
) -> Glance:
    """The comparison of one run with its pinned baseline, else with its predecessor; the last two as of `examine`."""
    before, batch = both
    rubric = find_rubric(container, batch.rubric_name)
    large = max(batch.counts.total, before.counts.total) > MOST_COMPARED_CANDIDATES
    if rubric is None or large or run_values.find_obstacle(both) is not None:
        return Glance(batch, before, "unknown")
    try:
        found = await examine(container, project, both, rubric, rated=rated, wait_seconds=wait_seconds)
    except SignatureMismatch:
        return Glance(batch, before, "mismatch")
    except SaitenError:
        return Glance(batch, before, "unknown")  # the comparison's own page says what is wrong
    if isinstance(found, PendingComputation):
        return Glance(batch, before, "computing")
    rows = make_tables(found.comparison, rubric, speech)["aspects"]
    lines = {*signatures_of(before), *signatures_of(batch)}
    trust = await container.ratings.reliabilities.weakest(project, lines, [row.id for row in rows])
    worse, better = (
        [(row.name, trust[row.id]) for row in rows if row.measure.verdict == verdict] for verdict in ("worse", "better")
    )
    more = (max(0, len(found) - MOST_NAMED_ASPECTS) for found in (worse, better))
    return Glance(batch, before, "known", worse[:MOST_NAMED_ASPECTS], better[:MOST_NAMED_ASPECTS], *more)


MOST_RANKED_NAMES = 3
"""Names whose systems are ranked."""

MOST_FIXES = 3
"""Lines of each kind: drops, kinds of faults, warnings."""

NOT_OF_THE_BOT = frozenset({"baseline-judge"})
"""Warnings that say nothing of the system."""


class BestSystem(NamedTuple):
    """The systems of a name that no other is shown to be better than, on one measure by its name."""

    name: str
    rubric: str
    measure: str
    systems: Sequence[str]


class FallenAspect(NamedTuple):
    """An aspect, and the pairs of runs (before, now) between which it became worse."""

    aspect: str
    pairs: Sequence[tuple[Batch, Batch]]


class FrequentKind(NamedTuple):
    """A kind of fault in a run, per 100 system turns."""

    kind: str
    rate: float
    run: Batch


class FrequentWarning(NamedTuple):
    """A warning by its code, and the run that has it most, with the number of its results."""

    code: str
    results: int
    run: Batch


class Fixes(NamedTuple):
    """What to fix first."""

    drops: Sequence[FallenAspect]
    faults: Sequence[FrequentKind]
    warnings: Sequence[FrequentWarning]

    def __bool__(self) -> bool:
        return bool(self.drops or self.faults or self.warnings)


def newest_of(batches: Sequence[Batch]) -> list[Batch]:
    """The newest completed run of each name, system and rubric; `batches` are newest first."""
    found: dict[tuple[str | None, str | None, str], Batch] = {}
    for batch in batches:
        if batch.status == "completed":
            found.setdefault((batch.name, system_of(batch), batch.rubric), batch)
    return [*found.values()]


def find_fixes(
    worse: Sequence[tuple[Batch, Batch, str]], newest: Sequence[Batch], summaries: Mapping[str, Summary]
) -> Fixes:
    """`worse` holds the runs before and now with the name of each aspect that became worse."""
    drops: dict[str, list[tuple[Batch, Batch]]] = {}
    for before, now, aspect in worse:
        drops.setdefault(aspect, []).append((before, now))
    known = [(batch, summaries[batch.id]) for batch in newest if batch.id in summaries]
    faults = [FrequentKind(kind, rate, batch) for batch, summary in known for kind, rate in rank_kinds(summary)[:1]]
    warned: dict[str, FrequentWarning] = {}
    for batch, summary in known:
        for code, count in summary.warnings.items():
            if code not in NOT_OF_THE_BOT and (code not in warned or count > warned[code].results):
                warned[code] = FrequentWarning(code, count, batch)
    return Fixes(
        [FallenAspect(*one) for one in sorted(drops.items(), key=lambda one: -len(one[1]))[:MOST_FIXES]],
        sorted(faults, key=lambda one: -one.rate)[:MOST_FIXES],
        sorted(warned.values(), key=lambda one: -one.results)[:MOST_FIXES],
    )


def rank_kinds(summary: Summary) -> list[tuple[str, float]]:
    """Kinds of faults with their rates: what lowers `overall` most first, else what is most frequent."""
    if summary.fix_first:
        return [(one.kind, one.rate) for one in summary.fix_first]
    rates = [(kind, one.rate) for kind, one in (summary.kinds or {}).items() if one.rate]
    return sorted(rates, key=lambda one: -one[1])


async def find_best_systems(
    container: Container,
    project: str,
    speech: Speech,
    batches: Sequence[Batch],
    *,
    rated: Hashable,
    wait_seconds: float | None,
) -> tuple[list[BestSystem], bool]:
    """The best systems of the newest names that have two, and whether some are still to be computed; the last two as
    of `rank_runs`."""
    completed = [batch for batch in batches if batch.status == "completed" and batch.name is not None]
    names = [*dict.fromkeys(batch.name for batch in completed if batch.name is not None)][: 2 * MOST_RANKED_NAMES]
    found = []
    for name in names:
        named = [one for one in completed if one.name == name]
        found.append(await rank_name(container, project, speech, name, named, rated=rated, wait_seconds=wait_seconds))
    best = [one for one in found if isinstance(one, BestSystem)]
    return best[:MOST_RANKED_NAMES], any(isinstance(one, PendingComputation) for one in found)


async def rank_name(
    container: Container,
    project: str,
    speech: Speech,
    name: str,
    batches: Sequence[Batch],
    *,
    rated: Hashable,
    wait_seconds: float | None,
) -> BestSystem | PendingComputation | None:
    """None where there are not two systems, or they are not told apart at all."""
    runs = choose_ranked(batches, set()).runs
    rubric = find_rubric(container, runs[0].rubric_name) if len(runs) > 1 else None
    if rubric is None:
        return None
    try:
        ranked = await rank_runs(container, project, runs, rubric, rated=rated, wait_seconds=wait_seconds)
    except SaitenError:
        return None  # the leaderboard says why
    if isinstance(ranked, PendingComputation):
        return ranked
    measure = pick_first([aspect.id for aspect in rubric.aspects if aspect.id in ranked.judged])
    if not measure:
        return None
    places = ranked.judged[measure]
    systems = [system_of(run) or "" for run, (first, _) in zip(runs, places, strict=True) if first == 1]
    if not 0 < len(systems) < len(runs):
        return None
    return BestSystem(name, rubric.id, name_measures(rubric, speech)[measure], systems)
