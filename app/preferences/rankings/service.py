"""Rankings of what is stored: preference runs, and runs whose ratings of an item make a preference."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO

from saiten.core.messages import Message
from saiten_server.core.batch import Batch, BatchFilter, PairPlan
from saiten_server.core.errors import InvalidRequest, NotFound
from saiten_server.core.signature import read_comparable
from saiten_server.platform.capability import Ground
from saiten_server.preferences.human.store import HumanPreferenceStore
from saiten_server.preferences.rankings.values import Leaderboard, Ranking, RankingRequest
from saiten_server.preferences.runs.service import name_systems, refuse_mismatch
from saiten_server.preferences.store import PreferenceStore
from saiten_server.preferences.values import ShownPair
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.store.frames import FrameStore
from saiten_server.runs.summary import SYSTEM

MOST_READ, MOST_RUNS = 200, 20
"""Runs of a name among which the newest of each system are looked for, and systems of a leaderboard."""

MOST_CASES = 200
"""Items of two systems on a page."""

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
    people: HumanPreferenceStore
    pairs: BatchStore

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
        """The ranking of the systems of a preference run, by what was judged until now, and by what people prefer."""
        run = request.preference_run or ""
        plan = await self.preferences.find_plan(project, run)
        shown = await self.read_judged(project, run, plan, request.aspect)
        shown += await self.read_people(project, dict(zip(plan.systems, plan.runs, strict=True)))
        if not shown:
            raise InvalidRequest(Message("ranking-no-preferences"), pointer="/preference_run")

        def work() -> Ranking:
            from saiten_server.preferences.rankings.columns import list_columns
            from saiten_server.preferences.rankings.report import rank_preferences, take_apart

            return rank_preferences(take_apart(list_columns(shown, plan.systems), request.clusters), request)

        return work

    async def read_judged(self, project: str, run: str, plan: PairPlan, aspect: str | None) -> list[ShownPair]:
        """The looks of a preference run; raises InvalidRequest for an aspect that it does not compare."""
        aspect = aspect or plan.aspects[0]
        if aspect not in plan.aspects:
            raise InvalidRequest(
                Message("ranking-aspect-not-compared", aspect=aspect, names=", ".join(plan.aspects)), pointer="/aspect"
            )
        return await self.preferences.read_looks(project, run, aspect)

    async def read_people(self, project: str, runs: Mapping[str, str]) -> list[ShownPair]:
        """What people prefer among these runs, by system."""
        names = {run: system for system, run in runs.items()}
        shown = await self.people.shown(project, [*names])
        return [replace(one, first=names[one.first], second=names[one.second]) for one in shown]

    async def prepare_leaderboard(
        self, project: str, request: RankingRequest, name: str | None
    ) -> Callable[[], Leaderboard]:
        """The systems of a preference run, or of the newest completed runs of a name, by all who prefer."""
        judged: list[ShownPair] = []
        if request.preference_run is not None:
            plan = await self.preferences.find_plan(project, request.preference_run)
            runs = dict(zip(plan.systems, plan.runs, strict=True))
            judged = await self.read_judged(project, request.preference_run, plan, request.aspect)
        else:
            found = await self.find_newest(project, name or "")
            runs = dict(zip(name_systems(found), [run.id for run in found], strict=True))
        people = await self.read_people(project, runs)
        frames = [await self.frames.read_frame(project, run) for run in runs.values()]

        def work() -> Leaderboard:
            from saiten_server.preferences.rankings.leaderboards import lead, rate_alike

            rated = rate_alike([*runs], frames, request.aspect)
            return lead(runs, judged, people, rated, request=request, name=name)

        return work

    async def mark(self, project: str, run: str, name: str) -> Hashable:
        """A value that changes whenever the leaderboard may."""
        said = await self.people.mark(project)
        if run:
            found = await self.pairs.find(project, run)
            if found is None:
                raise NotFound(Message("preference-run-not-found"))
            return said, found.status, found.counts.model_dump_json()
        return said, tuple(one.id for one in await self.find_newest(project, name))

    async def list_cases(self, project: str, run: str, systems: tuple[str, str]) -> tuple[list[MatrixCase], int]:
        """The first MOST_CASES items of two systems, what the judge decided against the first of them first, and how
        many there are. Raises NotFound for systems that are not in the run."""
        plan = await self.preferences.find_plan(project, run)
        if not {*systems} <= {*plan.systems} or systems[0] == systems[1]:
            raise NotFound(Message("ranking-no-preferences"))
        found: dict[str, list[ShownPair]] = {}
        for one in await self.preferences.read_looks(project, run, plan.aspects[0]):
            if {one.first, one.second} == {*systems}:
                found.setdefault(one.item, []).append(one)
        cases = sorted((judge_case(item, looks, systems) for item, looks in found.items()), key=MatrixCase.sort_key)
        batches = [plan.runs[plan.systems.index(system)] for system in systems]
        places = [{item: at for at, item in (await self.frames.read_items(project, one)).items()} for one in batches]
        shown = cases[:MOST_CASES]
        for case in shown:
            case.links.extend(
                f"/runs/{one}/items/{place[case.item]}"
                for one, place in zip(batches, places, strict=True)
                if case.item in place
            )
        return shown, len(cases)

    async def find_newest(self, project: str, name: str) -> list[Batch]:
        """The newest completed run of each system of the name that was scored as the newest of all. Raises NotFound
        where there are not two."""
        wanted = BatchFilter(status="completed", name=name)
        newest: dict[str | None, Batch] = {}
        for run in await self.batches.list(project, wanted, after=None, limit=MOST_READ):
            if run.counts.scored + run.counts.partial:
                newest.setdefault(run.metadata.get(SYSTEM), run)
        runs = [*newest.values()]
        same = [run for run in runs if run.rubric_name == runs[0].rubric_name and ways_of(run) == ways_of(runs[0])]
        if len(same) < 2:
            raise NotFound(Message("leaderboard-runs-few", runs=len(same)))
        return same[:MOST_RUNS]

    async def prepare_runs(self, project: str, runs: Sequence[Batch], request: RankingRequest) -> RankingWork:
        """The ranking of runs by their ratings of an aspect, item by item. Raises SignatureMismatch."""
        for run in runs[1:]:
            if run.rubric_name != runs[0].rubric_name:
                named = Message("ranking-rubrics-differ", first=runs[0].rubric_name, second=run.rubric_name)
                raise InvalidRequest(named, pointer="/runs")
        if not request.allow_signature_mismatch:
            refuse_mismatch(runs)
        if sum(run.counts.total for run in runs) > MOST_RUN_RESULTS:
            raise InvalidRequest(
                Message("ranking-batches-most", most=len(runs), results=MOST_RUN_RESULTS), pointer="/runs"
            )
        frames = [await self.frames.read_frame(project, run.id) for run in runs]

        def work() -> Ranking:
            from saiten_server.preferences.rankings.ratings import compare_ratings
            from saiten_server.preferences.rankings.report import rank_preferences, take_apart, tell_other_contexts

            pairs, apart = compare_ratings(name_systems(runs), frames, request.aspect)
            return rank_preferences(take_apart(pairs, request.clusters), request, tell_other_contexts(apart))

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


@dataclass(frozen=True)
class MatrixCase:
    """One item of two systems: how the first of them fared in each look (1 won, 0.5 tied, 0 lost), and the pages of
    both responses."""

    item: str
    scores: tuple[float, ...]
    links: list[str]

    @property
    def mean(self) -> float:
        return sum(self.scores) / len(self.scores)

    def sort_key(self) -> tuple[float, str]:
        return self.mean, self.item


def judge_case(item: str, looks: Sequence[ShownPair], systems: tuple[str, str]) -> MatrixCase:
    """What was said of one item."""
    scores = []
    for one in looks:
        ahead = one.first == systems[0]
        scores.append(0.5 if one.choice == "tie" else float((one.choice == "first") == ahead))
    return MatrixCase(item, tuple(scores), [])


def ways_of(run: Batch) -> frozenset[tuple[tuple[str, str], ...]]:
    """In which ways the results of a run were made, as far as these can change a score."""
    return frozenset(tuple(sorted(read_comparable(line).items())) for line in run.signatures)


def open_service(ground: Ground) -> RankingService:
    """The service on what all capabilities stand on."""
    engine = ground.engine
    return RankingService(
        BatchStore(engine),
        FrameStore(engine),
        PreferenceStore(engine),
        HumanPreferenceStore(engine),
        BatchStore(engine, unit="pair"),
    )
