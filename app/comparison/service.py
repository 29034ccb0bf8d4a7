"""What scores mean: analyses, comparisons, gates and checks of the judge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from io import BytesIO
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar, cast

from saiten.core.messages import Message
from saiten_server.analyses.requests import (
    AnalysisRequest,
    CompositeFitRequest,
    CorrectedRequest,
    CorrelationRequest,
    HierarchyRequest,
    JudgesRequest,
    WinRatesRequest,
)
from saiten_server.comparison.disagreements import Disagreements, find_disagreements
from saiten_server.comparison.given_runs import ROLES, GivenResults, RunSource, batch_of
from saiten_server.comparison.judge_checks.service import AnchorCheck
from saiten_server.comparison.judge_checks.values import JudgeCheck, JudgeCheckRequest
from saiten_server.comparison.links.service import LinkService, use_link
from saiten_server.comparison.links.values import RunRole, StoredLink
from saiten_server.comparison.requests import ComparisonRequest, GateRequest
from saiten_server.comparison.runs import RunReader, best_of, find_batch
from saiten_server.comparison.sequences import SequenceService
from saiten_server.comparison.store import BaselineStore, GateArchive
from saiten_server.comparison.values import (
    ComparedRun,
    Comparison,
    CorrectedMeasure,
    GateReport,
    asked_of,
    attach_states,
    measures_of,
)
from saiten_server.core.batch import Baseline, Batch
from saiten_server.core.conversation import FAULTY_TURNS
from saiten_server.core.errors import InvalidRequest, NotFound, UnknownAspect
from saiten_server.core.giving_up import GIVEN_UP
from saiten_server.core.reports import AnalysisReport, CorrelationReport
from saiten_server.core.rubric import Rubric
from saiten_server.core.validation import clip
from saiten_server.platform.telemetry import Telemetry
from saiten_server.providers.ports import RequestScope
from saiten_server.ratings.reliability import CountedRatings, Reliabilities, fetch_ratings, key_in, validation_of
from saiten_server.ratings.store import RatingStore
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.summaries import bounds_of
from saiten_server.runs.summary import SYSTEM
from saiten_server.scoring.rubrics.files import RubricSource

if TYPE_CHECKING:
    from saiten_server.comparison.links.rules import LinkUse
    from saiten_server.comparison.ranking import RunPlaces
    from saiten_server.comparison.verdicts import LinkApplication
    from saiten_server.ratings.table import Answers, Opinions

T = TypeVar("T")

NONE_GIVEN: Mapping[RunRole, GivenResults] = {}

MOST_RANKED = 20
MOST_RANKED_RESULTS = 50_000
"""Batches of a leaderboard, and their results together: each is compared with each."""

COMPARISONS_AT_ONCE = 2
"""Analyses that this process computes at a time, each in a thread: more would only slow each other and the service."""


@dataclass(frozen=True)
class Examination:
    """What a page shows of two batches: comparison and gate. The gate has the default rules: no aspect may drop.
    `corrected` are the measures on people's scale, empty where people rated nothing."""

    comparison: Comparison
    gate: GateReport
    corrected: Mapping[str, CorrectedMeasure] = field(default_factory=dict)


@dataclass(kw_only=True, eq=False)
class ComparisonService:
    """Analyses, comparisons, gates and judge checks, within the caller's project. Methods raise NotFound for a batch
    that is not in the project, InvalidRequest, UnknownRubric, SignatureMismatch, and StoreError."""

    batches: BatchStore
    runs: RunReader
    ratings: RatingStore
    rubrics: RubricSource
    reliabilities: Reliabilities
    anchors: AnchorCheck
    links: LinkService
    baselines: BaselineStore
    sequences: SequenceService
    gates: GateArchive
    now: Callable[[], datetime]
    telemetry: Telemetry | None = None

    def __post_init__(self) -> None:
        self._gate = asyncio.Semaphore(COMPARISONS_AT_ONCE)

    async def analyse(self, project: str, request: AnalysisRequest, *, remember: bool = True) -> AnalysisReport:
        """The analysis of the request's data, or of its batches. `remember`: a correlation of batches with humans
        becomes the badge of the judge that rated them, unless it is of chosen aspects: the intervals of a badge hold
        for all that could be compared."""
        if request.batch_ids:
            report = await self._analyse_batches(project, request)
            chosen = request.aspects is not None or (isinstance(request, CorrelationRequest) and bool(request.match))
            if remember and isinstance(report, CorrelationReport) and not chosen:
                await self._remember(project, request.batch_ids, report)
            return report
        if request.data is None:
            raise InvalidRequest(Message("data-or-batch"), pointer="")
        records = request.data

        def work() -> AnalysisReport:
            # numpy is loaded here, in a thread, so that the service starts quickly.
            from saiten_server.analyses.reports import analyse, make_reader

            reader = make_reader(request, self.rubrics, noun="record")
            for number, record in enumerate(records, start=1):
                reader.add(record, number)
            return analyse(request, reader.finish(), self.rubrics)

        return await self.compute(work)

    async def compute(self, work: Callable[[], T]) -> T:
        """The work's result; in a thread, and few at a time. Where the caller is cancelled the work ends at its next
        `checkpoint`. Until then it keeps its place, or those who come and go would take all threads of the process."""
        given_up = Event()

        def begin() -> T:
            GIVEN_UP.set(given_up)  # in the context of this thread alone
            return work()

        await self._gate.acquire()
        working = asyncio.create_task(asyncio.to_thread(begin))
        working.add_done_callback(lambda _: self._gate.release())
        try:
            return await asyncio.shield(working)
        finally:
            given_up.set()

    async def analyse_text(self, request: AnalysisRequest, body: bytes, *, csv: bool) -> AnalysisReport:
        """The analysis of records that come as CSV or as NDJSON."""

        def work() -> AnalysisReport:
            from saiten_server.analyses.reports import analyse, make_reader
            from saiten_server.stats.reading import read_csv, read_ndjson

            form = read_csv if csv else read_ndjson
            # Lines one at a time: as a list, the shortest would take twenty times the body.
            observations = form(BytesIO(body), make_reader(request, self.rubrics))
            return analyse(request, observations, self.rubrics)

        return await self.compute(work)

    async def _analyse_batches(self, project: str, request: AnalysisRequest) -> AnalysisReport:
        batches = [await find_batch(self.batches, project, batch_id) for batch_id in dict.fromkeys(request.batch_ids)]
        wanted = adapt(request, batches)
        best: dict[str, float] = {}
        for batch in batches:
            best |= best_of(self.rubrics.nearest(batch.rubric_name))
        if isinstance(wanted, JudgesRequest):
            return await self._compare_scorers(project, wanted, batches)
        # Which system is better: so the best level of each scale matters.
        compared = wanted if isinstance(wanted, WinRatesRequest | HierarchyRequest) else None
        found = None
        if compared is None or compared.values != "scores":
            found = await fetch_ratings(self.ratings, project, [batch.id for batch in batches])
        table = await self.runs.read_answers(project, batches, found, marks=isinstance(wanted, CorrectedRequest))

        if isinstance(wanted, CorrectedRequest):
            wanted = wanted.model_copy(update={"ranges": self._find_ranges(batches, wanted.ranges)})
            if found is not None and found.used.simulated:
                raise InvalidRequest(Message("ratings-simulated"))

        def work() -> AnalysisReport:
            from saiten_server.analyses.reports import analyse, orient

            corrected = isinstance(wanted, CorrectedRequest)
            opinions = collect_opinions(table, found, everything=corrected)
            known = opinions.names
            for number, name in enumerate(wanted.aspects or ()):
                if name not in known:
                    raise UnknownAspect(
                        Message("aspect-unrated-here", name=repr(clip(name))), pointer=f"/aspects/{number}"
                    )
            observations = opinions.observe(None if corrected else wanted.aspects)
            if compared is not None:
                observations = orient(observations, best)
            report = analyse(wanted, observations, self.rubrics)
            return report if found is None else report.model_copy(update={"ratings_used": found.used})

        return await self.compute(work)

    def _find_ranges(
        self, batches: Sequence[Batch], asked: Mapping[str, tuple[float, float]]
    ) -> dict[str, tuple[float, float]]:
        """The scales of what the batches' rubrics measure; raises InvalidRequest where two rubrics, or what was asked
        for, differ in one."""
        ranges: dict[str, tuple[float, float]] = {}
        for batch in batches:
            rubric = self.rubrics.nearest(batch.rubric_name)
            marked = {FAULTY_TURNS: (0.0, 100.0)} if rubric.unit == "conversation" else {}
            for name, scale in {**marked, **bounds_of(rubric)}.items():
                if ranges.setdefault(name, scale) != scale:
                    detail = Message("scales-differ", name=repr(clip(name)))
                    raise InvalidRequest(detail, pointer="/batches")
        for name, scale in asked.items():
            if ranges.get(name) != scale:
                detail = Message("scale-of-rubric-differs", name=repr(clip(name)))
                raise InvalidRequest(detail, pointer="/ranges")
        return ranges

    async def _compare_scorers(self, project: str, request: JudgesRequest, batches: Sequence[Batch]) -> AnalysisReport:
        """The batches as scorers of the same answers, each by its name, or its id where another has that name."""
        names = [batch.name or batch.id for batch in batches]
        found = await fetch_ratings(self.ratings, project, [batch.id for batch in batches])
        scorers = {}
        for batch, name in zip(batches, names, strict=True):
            answers = await self.runs.read_answers(project, [batch], found, texts=True)
            scorers[batch.id if names.count(name) > 1 else name] = answers

        def work() -> AnalysisReport:
            from saiten_server.analyses.reports import analyse
            from saiten_server.ratings.table import observe_scorers

            observations = observe_scorers(scorers, found.ratings)
            report = analyse(request, observations, self.rubrics)
            return report.model_copy(update={"ratings_used": found.used})

        return await self.compute(work)

    async def _remember(self, project: str, ids: Sequence[str], report: CorrelationReport) -> None:
        """Keeps the correlation as the badge of the judge, where it was one judge."""
        batches = [await find_batch(self.batches, project, batch_id) for batch_id in dict.fromkeys(ids)]
        keys = {key_in(line) for batch in batches for line in batch.signature_lines}
        found = validation_of(report, batches[0].id if len(batches) == 1 else None, self.now())
        if found is not None and len(keys) == 1:
            await self.reliabilities.keep(project, keys.pop(), found)

    async def compare(
        self, project: str, request: ComparisonRequest, given: Mapping[RunRole, GivenResults] = NONE_GIVEN
    ) -> Comparison:
        """The candidate run against the baseline run; `given` are the results of those that are no batches."""
        people = request.estimate == "corrected"
        apply = await self._find_link(project, request)
        baseline = await self._read_run(project, request.baseline, given.get("baseline"), people=people)
        candidate = await self._read_run(project, request.candidate, given.get("candidate"), people=people)

        def work() -> Comparison:
            from saiten_server.comparison.corrected_runs import compare_corrected, tell_notes
            from saiten_server.comparison.differences import compare

            before, after, link = apply(baseline, candidate)
            compared = compare(
                before,
                after,
                alpha=request.alpha,
                test=request.test,
                allow_signature_mismatch=request.allow_signature_mismatch,
                seed=request.seed,
                link=link,
            )
            if not people:
                return compared
            paired = compared.pairing.test == "paired"
            corrected = compare_corrected(baseline, candidate, alpha=request.alpha, paired=paired, looks=request.looks)
            notes = (*compared.notes, *tell_notes(corrected))
            update = {"estimate": request.estimate, "looks": request.looks, "corrected": corrected, "notes": notes}
            return compared.model_copy(update=update)

        found = await self.compute(work)
        signatures = {*baseline.signatures, *candidate.signatures}
        states = await self.reliabilities.states(project, signatures, measures_of(found))
        return found.model_copy(update={"reliability": states})

    async def examine(
        self,
        project: str,
        ids: tuple[str, str],
        *,
        alpha: float = 0.05,
        allow_signature_mismatch: bool = False,
        link: StoredLink | None = None,
    ) -> Examination:
        """Examines a baseline and a candidate batch; the results of each are read once. With a `link`, a run of its old
        judge is on the new judge's scale, and nothing is corrected."""
        rubrics: dict[str, Rubric] = {}
        runs: dict[str, ComparedRun] = {}
        for batch_id in dict.fromkeys(ids):
            batch = await find_batch(self.batches, project, batch_id)
            rubrics[batch_id] = self.rubrics.nearest(batch.rubric_name)
        for batch_id in rubrics:
            runs[batch_id] = await self._run(project, batch_id, people=True)

        def work() -> Examination:
            from saiten_server.comparison.corrected_runs import compare_corrected
            from saiten_server.comparison.gate import judge_gate

            baseline, candidate = (runs[one] for one in ids)
            use = None
            if link is not None:
                shown, use = use_link(
                    link,
                    {"baseline": baseline, "candidate": candidate},
                    {role: rubrics[one] for role, one in zip(ROLES, ids, strict=True)},
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

        return await self.compute(work)

    async def _find_link(self, project: str, request: ComparisonRequest | GateRequest) -> LinkApplication:
        """What puts the runs of the link's old judge on the new judge's scale; nothing happens where no link is asked
        for."""
        if request.link is None:
            return lambda baseline, candidate: (baseline, candidate, None)
        if request.estimate == "corrected":
            detail = Message("corrected-and-link")
            raise InvalidRequest(detail, pointer="/link")
        ids = [one for one in (request.baseline, request.candidate) if isinstance(one, str)]
        if len(ids) < len(ROLES):
            raise InvalidRequest(Message("link-without-baseline"), pointer="/link")
        stored = await self.links.find_stored(project, request.link, pointer="/link")
        batches = [await find_batch(self.batches, project, one) for one in ids]
        rubrics = [self.rubrics.nearest(batch.rubric_name) for batch in batches]

        def apply(baseline: ComparedRun, candidate: ComparedRun) -> tuple[ComparedRun, ComparedRun, LinkUse]:
            runs, use = use_link(
                stored,
                {"baseline": baseline, "candidate": candidate},
                {"baseline": rubrics[0], "candidate": rubrics[1]},
            )
            return runs["baseline"], runs["candidate"], use

        return apply

    async def rank(self, project: str, ids: Sequence[str]) -> RunPlaces:
        """The places of these batches, which were scored alike; raises InvalidRequest for too many."""
        batches = [await find_batch(self.batches, project, one) for one in ids]
        if len(batches) > MOST_RANKED or sum(batch.counts.total for batch in batches) > MOST_RANKED_RESULTS:
            raise InvalidRequest(Message("ranking-batches-most", most=MOST_RANKED, results=MOST_RANKED_RESULTS))
        runs = [await self._run(project, batch.id, people=True) for batch in batches]

        def work() -> RunPlaces:
            from saiten_server.comparison.ranking import rank_runs

            return rank_runs(runs)

        return await self.compute(work)

    async def disagree(self, project: str, batch_id: str) -> Disagreements:
        """Where people rated the batch's responses unlike the judge, by aspect of its rubric."""
        batch = await find_batch(self.batches, project, batch_id)
        aspects = [aspect.id for aspect in self.rubrics.nearest(batch.rubric_name).aspects]
        found = await fetch_ratings(self.ratings, project, [batch.id])
        if not found.ratings:
            return Disagreements({})
        table = await self.runs.read_answers(project, [batch], found)
        return await self.compute(lambda: find_disagreements(table, found, aspects))

    async def pin(self, project: str, name: str, batch_id: str) -> Baseline:
        """Makes a completed batch of this name its baseline."""
        batch = await find_batch(self.batches, project, batch_id)
        if batch.name != name:
            raise InvalidRequest(Message("not-a-batch-of-name"), pointer="/batch")
        if batch.status != "completed":
            raise InvalidRequest(Message("baseline-not-completed", status=batch.status), pointer="/batch")
        baseline = Baseline(name=name, batch=batch.id, pinned_at=self.now())
        await self.baselines.keep(project, baseline)
        return baseline

    async def unpin(self, project: str, name: str) -> str:
        """The batch that is no longer the name's baseline."""
        known = await self.baselines.list(project, [name])
        if not known or not await self.baselines.remove(project, name):
            raise NotFound(Message("baseline-not-pinned"))
        return known[0].batch

    async def pinned(self, project: str, batches: Collection[Batch]) -> dict[str, Batch]:
        """By id the baseline that is pinned for each of these batches: of its name, system and rubric, not itself."""
        names = {batch.name for batch in batches if batch.name is not None}
        pins = await self.baselines.list(project, names) if names else []
        found = {batch.id: batch for batch in await self.batches.find_all(project, [one.batch for one in pins])}
        by_name = {one.name: found[one.batch] for one in pins if one.batch in found}
        return {
            batch.id: baseline
            for batch in batches
            if (baseline := by_name.get(batch.name or "")) is not None
            and (baseline.rubric_name, baseline.metadata.get(SYSTEM)) == (batch.rubric_name, batch.metadata.get(SYSTEM))
            and baseline.id != batch.id
        }

    async def _settle_baseline(self, project: str, request: GateRequest) -> GateRequest:
        """The request with the baseline that is pinned for the candidate's name, where it needs one and names none."""
        compares = not request.rules or any(rule.most is not None for rule in request.rules)
        named = batch_of(request.candidate)
        if named is None or request.baseline is not None or request.coverage_only or not compares:
            return request
        candidate = await find_batch(self.batches, project, named)
        baseline = (await self.pinned(project, [candidate])).get(candidate.id)
        return request if baseline is None else request.model_copy(update={"baseline": baseline.id})

    async def gate(
        self,
        project: str,
        request: GateRequest,
        scope: RequestScope | None = None,
        given: Mapping[RunRole, GivenResults] = NONE_GIVEN,
    ) -> GateReport:
        """The verdict on the candidate run; `given` are the results of runs that are no batches. With `check_judge` the
        judge that rated it is asked for the anchors, but not before all else is known to be in order: a refused gate
        costs no call. Only this is counted as a gate; a page that shows a verdict is drawn again and again."""
        request = await self._settle_baseline(project, await self.sequences.settle(project, request))
        report = await self._judge_gate(project, request, scope or RequestScope(), given)
        if request.keep:
            report = await self.gates.keep(project, request, report)
        if self.telemetry is not None:
            self.telemetry.gated(report.verdict)
        return report

    async def _judge_gate(
        self, project: str, request: GateRequest, scope: RequestScope, given: Mapping[RunRole, GivenResults]
    ) -> GateReport:
        people = request.estimate == "corrected"
        apply = await self._find_link(project, request)
        if any(rule.code is not None for rule in request.rules):
            for results in given.values():
                results.require_turns()
        candidate = await self._read_run(project, request.candidate, given.get("candidate"), people=people)
        baseline = None
        if request.baseline is not None:
            baseline = await self._read_run(project, request.baseline, given.get("baseline"), people=people)

        def work() -> GateReport:
            from saiten_server.comparison.verdicts import judge_runs

            return judge_runs(request, candidate, baseline, apply)

        report = await self.sequences.judge(
            project,
            request,
            await self.compute(work),
            runs=(candidate, baseline),
            read=lambda batch_id: self._run(project, batch_id),
            compute=self.compute,
        )
        signatures = {*candidate.signatures, *(baseline.signatures if baseline else ())}
        report = attach_states(report, await self.reliabilities.states(project, signatures, asked_of(report)))
        return await self._check_judge_of(project, request, report, scope)

    async def _check_judge_of(
        self, project: str, request: GateRequest, report: GateReport, scope: RequestScope
    ) -> GateReport:
        """The report with a check of the candidate's judge, where the gate asks for one and has none."""
        named = batch_of(request.candidate)
        if request.judge_check is not None or not request.check_judge or named is None:
            return report
        from saiten_server.comparison.gate import judge_again

        batch = await find_batch(self.batches, project, named)
        path = "source" if batch.path == "both" else batch.path
        asked = JudgeCheckRequest(rubric=batch.rubric_name, path=path, judge=batch.judge)
        try:
            return judge_again(report, await self.anchors.check(project, asked, scope))
        except InvalidRequest as error:
            # The pointer of the error is into the request made here, not the caller's.
            raise InvalidRequest(error.message, pointer="/check_judge") from None

    async def check_judge(
        self, project: str, request: JudgeCheckRequest, scope: RequestScope | None = None
    ) -> JudgeCheck:
        """Whether the judge moved. `scope` names the caller and collects the cost."""
        return await self.anchors.check(project, request, scope or RequestScope())

    async def _read_run(
        self, project: str, source: RunSource, results: GivenResults | None, *, people: bool
    ) -> ComparedRun:
        """The batch of that id, or the results that were sent."""
        if isinstance(source, str):
            return await self._run(project, source, people=people)
        if results is None:
            raise InvalidRequest(Message("run-results-missing"))
        return await self.compute(lambda: results.assemble(source, self.rubrics))

    async def _run(self, project: str, batch_id: str, *, people: bool = False) -> ComparedRun:
        """The batch as a run; with `people`, its items hold their ratings: simulated ones, and those of excluded raters
        and rounds, never count."""
        batch = await find_batch(self.batches, project, batch_id)
        rubric = self.rubrics.nearest(batch.rubric_name)
        found = await fetch_ratings(self.ratings, project, [batch.id]) if people else None
        return await self.runs.read(project, batch, rubric, found)


def collect_opinions(table: Answers, found: CountedRatings | None, *, everything: bool) -> Opinions:
    """The judge's opinions, or people's where some were read; with `everything` beside what no one rated."""
    from saiten_server.ratings.table import all_opinions, judge_opinions, rater_opinions

    if found is None:
        return judge_opinions(table)
    return all_opinions(table, found.ratings, found.draws) if everything else rater_opinions(table, found.ratings)


def adapt(request: AnalysisRequest, batches: Sequence[Batch]) -> AnalysisRequest:
    """The request with the defaults that hold for batches: the results' values are in `scores`, win rates use the
    judge's values unless the request asks for human ratings, and the rubric is that of the batches. Only a composite
    fit keeps its own rubric. Raises InvalidRequest if any other request names a different rubric."""
    changes: dict[str, Any] = {"scores_field": "scores"}
    if isinstance(request, WinRatesRequest) and request.values is None:
        changes["values"] = "scores"
    if not isinstance(request, CompositeFitRequest):
        for batch in batches:
            if request.rubric not in {None, batch.rubric, batch.rubric_name}:
                detail = Message("rubric-of-batch-differs", batch=batch.id, rubric=batch.rubric_name)
                raise InvalidRequest(detail, pointer="/rubric")
        changes["rubric"] = None
    return request.model_copy(update=changes)
