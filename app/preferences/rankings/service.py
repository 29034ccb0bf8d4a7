"""Rankings of what is stored: preference runs, and runs whose ratings of an item make a preference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import combinations
from typing import TYPE_CHECKING

from saiten.core.messages import Message
from saiten_server.core.batch import Batch
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.platform.capability import Ground
from saiten_server.preferences.rankings.values import Ranking, RankingRequest
from saiten_server.preferences.runs.service import name_systems
from saiten_server.preferences.store import PreferenceStore
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.store.frames import FrameStore

if TYPE_CHECKING:
    from saiten_server.runs.frame import RunFrame
    from saiten_server.stats.shown_pairs import ShownPairs

OVERALL = "overall"
MOST_RUN_RESULTS = 200_000
"""Results of all runs together; of twenty runs each makes up to 19 preferences."""

RankingWork = Callable[[], Ranking]
"""The rest of a ranking, which takes seconds: for `Compute`."""


@dataclass(frozen=True)
class RankingService:
    """Reads what is to be ranked, within the caller's project, and hands back the work that is left. Methods raise
    NotFound, InvalidRequest and the `Store…` errors."""

    batches: BatchStore
    frames: FrameStore
    preferences: PreferenceStore

    async def prepare(self, project: str, request: RankingRequest) -> RankingWork:
        """The ranking of what the request names."""
        if request.preference_run is not None:
            return await self.prepare_preference_run(project, request)
        if request.runs is not None:
            return await self.prepare_runs(project, [await self.find(project, one) for one in request.runs], request)
        if request.data is None:
            raise InvalidRequest(Message("ranking-source-missing"), pointer="")
        records = request.data

        def work() -> Ranking:
            # numpy is loaded here, in a thread, so that the service starts quickly.
            from saiten_server.preferences.rankings.reading import PreferenceReader
            from saiten_server.preferences.rankings.report import rank_preferences

            reader = PreferenceReader(noun="record", clusters=request.clusters)
            for number, record in enumerate(records, start=1):
                reader.add(record, number)
            pairs, notes = reader.finish()
            return rank_preferences(pairs, request, notes)

        return work

    async def prepare_preference_run(self, project: str, request: RankingRequest) -> RankingWork:
        """The ranking of the systems of a preference run, by what was judged until now."""
        run = request.preference_run or ""
        plan = await self.preferences.find_plan(project, run)
        aspect = request.aspect or plan.aspects[0]
        if aspect not in plan.aspects:
            raise InvalidRequest(Message("ranking-aspect-missing", aspect=repr(aspect)), pointer="/aspect")
        shown = await self.preferences.read_looks(project, run, aspect)
        if not shown:
            raise InvalidRequest(Message("ranking-no-preferences"), pointer="/preference_run")

        def work() -> Ranking:
            from saiten_server.preferences.rankings.columns import list_columns
            from saiten_server.preferences.rankings.report import rank_preferences, take_apart

            return rank_preferences(take_apart(list_columns(shown, plan.systems), request.clusters), request)

        return work

    async def prepare_runs(self, project: str, runs: Sequence[Batch], request: RankingRequest) -> RankingWork:
        """The ranking of runs by their ratings of an aspect, item by item."""
        for run in runs[1:]:
            if run.rubric_name != runs[0].rubric_name:
                named = Message("ranking-rubrics-differ", first=runs[0].rubric_name, second=run.rubric_name)
                raise InvalidRequest(named, pointer="/runs")
        if sum(run.counts.total for run in runs) > MOST_RUN_RESULTS:
            raise InvalidRequest(
                Message("ranking-batches-most", most=len(runs), results=MOST_RUN_RESULTS), pointer="/runs"
            )
        frames = [await self.frames.read_frame(project, run.id) for run in runs]

        def work() -> Ranking:
            from saiten_server.preferences.rankings.report import rank_preferences, take_apart

            pairs = compare_ratings(name_systems(runs), frames, request.aspect)
            return rank_preferences(take_apart(pairs, request.clusters), request)

        return work

    async def find(self, project: str, batch_id: str) -> Batch:
        """The batch; raises NotFound."""
        found = await self.batches.find(project, batch_id)
        if found is None:
            raise NotFound(Message("batch-named-not-found", batch=batch_id[:64]))
        return found


def rank_text(request: RankingRequest, body: bytes, *, csv: bool) -> Ranking:
    """The ranking of records that come as CSV or as NDJSON."""
    from saiten_server.preferences.rankings.reading import PreferenceReader, read_csv
    from saiten_server.preferences.rankings.report import rank_preferences
    from saiten_server.stats.reading import read_ndjson

    reader = PreferenceReader(clusters=request.clusters)
    # Lines one at a time: as a list, the shortest would take twenty times the body.
    pairs, notes = read_csv(BytesIO(body), reader) if csv else read_ndjson(BytesIO(body), reader)
    return rank_preferences(pairs, request, notes)


def compare_ratings(systems: Sequence[str], frames: Sequence[RunFrame], aspect: str | None) -> ShownPairs:
    """A preference for each two runs and each item that both have a rating of: the higher one wins, equal ones tie.
    Raises InvalidRequest where no two have. Which is called the first says nothing of an order."""
    import numpy as np

    from saiten_server.stats.observations import NO_RATER, number_keys
    from saiten_server.stats.shown_pairs import FIRST, SECOND, TIE, ShownPairs

    name = choose_aspect(frames, aspect)
    values = [frame.read(("aspect", name)) for frame in frames]
    keys = [frame.items * 64 + frame.candidates + 1 for frame in frames]
    parts = []
    for one, other in combinations(range(len(frames)), 2):
        rows = [np.flatnonzero(~np.isnan(values[number])) for number in (one, other)]
        first, second = keys[one][rows[0]], keys[other][rows[1]]
        common, mine, theirs = np.intersect1d(first, second, return_indices=True)
        before, after = values[one][rows[0][mine]], values[other][rows[1][theirs]]
        choice = np.where(before > after, FIRST, np.where(before < after, SECOND, TIE))
        cluster = frames[one].clusters[rows[0][mine]]
        item = frames[one].items[rows[0][mine]]
        places = np.full(len(common), one), np.full(len(common), other)
        parts.append((*places, choice, common, np.where(cluster == 0, item, cluster)))
    first, second, choice, item, cluster = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not len(first):
        raise InvalidRequest(Message("ranking-nothing-in-common"), pointer="/runs")
    return ShownPairs(
        systems=tuple(systems),
        first=first,
        second=second,
        choice=choice,
        item=np.unique(item, return_inverse=True)[1],
        cluster=number_keys(np.unique(cluster, return_inverse=True)[1]),
        rater=np.full(len(first), NO_RATER),
    )


def choose_aspect(frames: Sequence[RunFrame], aspect: str | None) -> str:
    """The aspect that all runs have ratings of; raises InvalidRequest where there is none."""
    import numpy as np

    held = [
        [name for (kind, name), column in frame.values.items() if kind == "aspect" and not np.isnan(column).all()]
        for frame in frames
    ]
    shared = [name for name in held[0] if all(name in own for own in held[1:])]
    if aspect is None and shared:
        return OVERALL if OVERALL in shared else shared[0]
    if aspect is None or aspect not in shared:
        raise InvalidRequest(Message("ranking-aspect-missing", aspect=repr(aspect or OVERALL)), pointer="/aspect")
    return aspect


def open_service(ground: Ground) -> RankingService:
    """The service on what all capabilities stand on."""
    engine = ground.engine
    return RankingService(BatchStore(engine), FrameStore(engine), PreferenceStore(engine))
