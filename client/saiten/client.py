"""The clients: every resource under `/v1`, with answers as models.

`AsyncClient` does the work; `Client` has the same methods, each of which runs the asynchronous one in a background
thread and waits for it. So there is one implementation, and the types of the one follow from those of the other.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, Unpack
from urllib.parse import quote

from pydantic import BaseModel

from saiten.answer import Report
from saiten.answers import (
    AgreementReport,
    Alarms,
    AuditEvent,
    Baseline,
    Baselines,
    Batch,
    BlendFit,
    Comparison,
    CompositeFit,
    CorrectedReport,
    CorrelationReport,
    DatasetGrowth,
    DrawnItem,
    ErasureReport,
    EstimateReport,
    Evaluation,
    Exclusion,
    GateReport,
    GateSequence,
    GateSequences,
    HierarchyReport,
    Info,
    JudgeCheck,
    JudgePause,
    JudgesReport,
    Leaderboard,
    Link,
    Links,
    LiveResult,
    Monitor,
    MonitorRound,
    Monitors,
    PairAgreement,
    PairItem,
    Preference,
    PreferenceRound,
    PreferenceRow,
    PreferenceRun,
    PreferencesAdded,
    PreferenceSummary,
    ProjectPolicy,
    Ranking,
    Rating,
    RatingsAdded,
    ResultRow,
    Round,
    Rubric,
    StoredPreference,
    Summary,
    TracedConversation,
    TracedHead,
    TraceReport,
    ValidEvaluations,
    ValidGate,
    ValidRatings,
    Window,
    WinReport,
)
from saiten.connection import (
    EXCLUSIONS,
    HUMAN,
    JSON,
    NDJSON,
    PAIR_ROUNDS,
    READ_SECONDS,
    ROUNDS,
    Connection,
    Object,
    once,
    see_through,
)
from saiten.core.errors import AnswerInvalid, BatchStopped, InputUnusable, SaitenError, ServiceUnreachable
from saiten.following import Follower
from saiten.items import LinesBody, prepare, write_json
from saiten.loop import BackgroundLoop, Blocking, blocking, iterating
from saiten.reading import read, read_all, read_line
from saiten.requests import (
    AnalysisOptions,
    BatchOptions,
    BatchStatus,
    ComparisonOptions,
    Context,
    ConversationOptions,
    EvaluationOptions,
    GateTerms,
    Item,
    JudgeCheckOptions,
    MonitorTerms,
    PreferenceOptions,
    PreferenceRunOptions,
    RankingOptions,
    RoundOptions,
    RoundSize,
)
from saiten.rules import Rule
from saiten.run import AsyncRun, HasId, Progress, id_of, open_progress, stream_results
from saiten.waiting import read_object

REPORTS: Mapping[str, type[Report]] = {
    "agreement": AgreementReport,
    "correlation": CorrelationReport,
    "judges": JudgesReport,
    "hierarchy": HierarchyReport,
    "composite-fit": CompositeFit,
    "blend-fit": BlendFit,
    "win-rates": WinReport,
    "corrected": CorrectedReport,
}
"""The report of each analysis. One that is not listed has a `Report` with what the service answers."""

M = TypeVar("M", bound=BaseModel)
P = ParamSpec("P")

Reference = str | Sequence[str]
Items = Iterable[Item | Mapping[str, Any]]

ADOPT, PARQUET = "/v1/runs/adopt", "application/vnd.apache.parquet"
MONITORS, TRACES, LIVE = "/v1/monitors", "/v1/traces", "/v1/traces/conversations"
BATCH_PAGE = 200
EVALUATION_PAGE = 100
AUDIT_PAGE = 1000
RATING_PAGE = 1000


Results = os.PathLike[str] | Iterable[Mapping[str, Any] | ResultRow]
RunSource = str | HasId | Results | Mapping[str, Any]
"""A batch, by itself or by its id; or results, as mappings, as rows, as the path of a file of NDJSON, or as the API
takes them: `{"results": [RESULT, …], "name": NAME}`."""


class AsyncClient:
    """A client of the service at `url`, or at SAITEN_URL, with `api_key` or SAITEN_API_KEY.

    Use it as an asynchronous context manager, or call `aclose`. Methods raise the errors of `saiten`:
    ServiceRefused with the problem's `code`, ServiceUnreachable and AnswerInvalid. A request is sent again only where
    that does no harm. An answer may take `read_seconds`.

    What creates something is created once, however often the client sends it. A job that may be started again says
    which work it is by an `idempotency_key`: within 48 hours the same request with the same key gets what the first
    one created, and other work with that key is refused.
    """

    def __init__(
        self, url: str | None = None, *, api_key: str | None = None, read_seconds: float | None = READ_SECONDS
    ) -> None:
        chosen = url or os.environ.get("SAITEN_URL")
        if not chosen:
            raise ServiceUnreachable("no service is named; pass its URL, or set SAITEN_URL")
        key = api_key or os.environ.get("SAITEN_API_KEY")
        self._connection = Connection(chosen, api_key=key, read_seconds=read_seconds)

    @property
    def url(self) -> str:
        """The service's address, without a user's name and password."""
        return self._connection.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._connection.__aexit__(None, None, None)

    # The service and its rubrics

    async def info(self) -> Info:
        """The service's version, judge, rubrics and limits, and the key's own limits."""
        return await self._get(Info, "/v1/info")

    async def rubrics(self) -> Sequence[Rubric]:
        """Every rubric in its newest version, without its texts."""
        return read_all(Rubric, await self._connection.rubrics())

    async def rubric(self, name: str) -> Rubric:
        """The rubric `id` or `id@version`, with its texts."""
        return read(Rubric, await self._connection.rubric(name))

    # Evaluations

    async def evaluate(
        self,
        *,
        context: Context,
        response: str,
        reference: Reference | None = None,
        dialogue: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[EvaluationOptions],
    ) -> Evaluation:
        """Scores one response. Strings in `context` alternate between two speakers; the last is who is answered."""
        item = {"context": context, "response": response, "reference": reference, "dialogue": dialogue}
        asked = {name: value for name, value in item.items() if value is not None}
        body = {**prepare(asked), **options}
        return await self._create(Evaluation, "/v1/evaluations", body, idempotency_key)

    async def evaluation(self, evaluation_id: str, *, trace: bool = False, request: bool = False) -> Evaluation:
        """A stored evaluation; with `trace` it has the judge's raw replies, with `request` what was asked."""
        include = [name for name, wanted in (("trace", trace), ("request", request)) if wanted]
        return await self._get(Evaluation, f"/v1/evaluations/{part(evaluation_id)}", include=include)

    async def explain(self, evaluation_id: str, *, budget_usd: float | None = None) -> Evaluation:
        """The evaluation with the judge's reasons. Where there are none yet the judge is asked again, for
        `budget_usd` at most, and what it says is in `explained`; no rating changes."""
        query = "" if budget_usd is None else f"?budget_usd={budget_usd:.12f}"
        return await self._post(Evaluation, f"/v1/evaluations/{part(evaluation_id)}/reasons{query}")

    def evaluations(
        self,
        *,
        rubric: str | None = None,
        status: Literal["scored", "partial"] | None = None,
        batch: str | HasId | None = None,
        dialogue: str | None = None,
        created_from: datetime | None = None,
        created_before: datetime | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[Evaluation, None]:
        """The evaluations that have all of these properties, results of batches among them, newest first. A moment
        without a time zone is one of this machine's."""
        query: dict[str, Any] = {"rubric": rubric, "status": status, "dialogue": dialogue, "limit": EVALUATION_PAGE}
        query["batch"] = None if batch is None else id_of(batch)
        moments = {"created_from": created_from, "created_before": created_before}
        query |= {name: moment.astimezone(UTC).isoformat() for name, moment in moments.items() if moment is not None}
        query |= entries_of(metadata)
        return self._list(Evaluation, "/v1/evaluations", query)

    # Conversations

    async def evaluate_conversation(
        self,
        turns: Sequence[Mapping[str, str]],
        *,
        persona: Mapping[str, str | int | float | bool] | None = None,
        goal: str | None = None,
        dialogue: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[ConversationOptions],
    ) -> Evaluation:
        """Rates a whole conversation. A turn has `speaker`, `text`, and `role`: "user" or "system". The result's
        `findings` name the system turns that went wrong."""
        asked = {"turns": list(turns), "persona": persona, "goal": goal, "dialogue": dialogue}
        body = {name: value for name, value in asked.items() if value is not None}
        return await self._create(Evaluation, "/v1/conversations", {**body, **options}, idempotency_key)

    async def conversation(self, conversation_id: str, *, trace: bool = False, request: bool = False) -> Evaluation:
        """A stored result of a conversation; `trace` and `request` as for an evaluation."""
        include = [name for name, wanted in (("trace", trace), ("request", request)) if wanted]
        return await self._get(Evaluation, f"/v1/conversations/{part(conversation_id)}", include=include)

    # Batches

    def run(
        self,
        items: Items,
        *,
        progress: bool | Progress = False,
        idempotency_key: str | None = None,
        **options: Unpack[BatchOptions],
    ) -> Coroutine[Any, Any, AsyncRun]:
        """Scores the items as a batch, and waits for it. `items` may be a generator: it is read once, into a file.

        A lost connection is taken up again. Where the caller is interrupted, the batch is paused; the same call with
        the same `idempotency_key` goes on with it, as after the process died. `progress` is True for a bar on standard
        error, or is called with each state. Raises BatchStopped where the batch pauses, as at its
        budget, or is cancelled.
        """
        # Not a coroutine function: the items are read here, in the thread of the caller.
        return self._run(write_batch(items, options), progress, idempotency_key)

    async def wait(self, batch: str | HasId, *, progress: bool | Progress = False) -> AsyncRun:
        """The run of a batch that was posted before, once it is completed. Raises BatchStopped."""
        batch_id = id_of(batch)
        with open_progress(progress) as tell:
            async with aclosing(self.follow(batch_id)) as states:
                async for state in states:
                    tell(state)
                    refuse_stopped(state)
                    done = state
        return AsyncRun(self._connection, done, await self.summary(batch_id))

    def create_batch(
        self, items: Items, *, idempotency_key: str | None = None, **options: Unpack[BatchOptions]
    ) -> Coroutine[Any, Any, Batch]:
        """Posts a batch, and does not wait for it."""
        return self._send_lines(Batch, "/v1/batches", write_batch(items, options), key=idempotency_key)

    def estimate(self, items: Items, **options: Unpack[BatchOptions]) -> Coroutine[Any, Any, EstimateReport]:
        """What such a batch would cost. Nothing is stored, and no judge is called."""
        return self._send_lines(EstimateReport, "/v1/estimates", write_batch(items, options), creates=False)

    async def batch(self, batch: str | HasId) -> Batch:
        """The batch as it is now."""
        return await self._get(Batch, batch_path(batch))

    def batches(
        self,
        *,
        name: str | None = None,
        rubric: str | None = None,
        status: BatchStatus | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[Batch, None]:
        """The batches that have all of these properties, newest first."""
        query = {"name": name, "rubric": rubric, "status": status, "limit": BATCH_PAGE, **entries_of(metadata)}
        return self._list(Batch, "/v1/batches", query)

    async def follow(self, batch: str | HasId) -> AsyncGenerator[Batch, None]:
        """Each state of the batch, until it is completed or cancelled."""
        async with aclosing(Follower(self._connection, part(id_of(batch))).states()) as states:
            async for state in states:
                yield read(Batch, state)

    async def pause_batch(self, batch: str | HasId) -> Batch:
        """Starts no more judge calls until the batch is resumed."""
        return await self._post(Batch, f"{batch_path(batch)}/pause")

    async def resume_batch(self, batch: str | HasId) -> Batch:
        """Continues a paused batch."""
        return await self._post(Batch, f"{batch_path(batch)}/resume")

    async def cancel_batch(self, batch: str | HasId) -> Batch:
        """Ends the batch; its results so far are kept."""
        return await self._post(Batch, f"{batch_path(batch)}/cancel")

    async def erase_batch(self, batch: str | HasId) -> None:
        """Removes the batch with its texts and results. This cannot be undone."""
        await self._connection.request("DELETE", batch_path(batch), again=False)

    async def results(
        self, batch: str | HasId, *, after: int = -1, limit: int | None = None, texts: bool = False
    ) -> AsyncGenerator[ResultRow, None]:
        """The results so far behind position `after`, in the order of the items; with `texts` each has its texts, as
        far as the service still has them."""
        found = stream_results(self._connection, part(id_of(batch)), after=after, limit=limit, texts=texts)
        async with aclosing(found) as rows:
            async for row in rows:
                yield row

    async def results_csv(self, batch: str | HasId, *, texts: bool = False) -> AsyncGenerator[str, None]:
        """The results so far as the lines of a CSV file, the header first; `texts` as for `results`."""
        query = {"format": "csv", **({"texts": "true"} if texts else {})}
        async with aclosing(self._connection.results(part(id_of(batch)), **query)) as lines:
            async for line in lines:
                yield line

    async def summary(self, batch: str | HasId) -> Summary:
        """The batch's statistics by aspect, over the results so far."""
        return await self._get(Summary, f"{batch_path(batch)}/summary")

    # Preferences

    async def prefer(
        self,
        first: str | Mapping[str, Any],
        second: str | Mapping[str, Any],
        *,
        context: Context | None = None,
        persona: Mapping[str, str | int | float | bool] | None = None,
        goal: str | None = None,
        dialogue: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[PreferenceOptions],
    ) -> Preference:
        """Which of two responses to the context is better, or of two conversations (`{"turns": […]}`), asked in both
        orders."""
        sides = {"first": first, "second": second}
        asked: dict[str, Any] = {
            name: {"response": one} if isinstance(one, str) else one for name, one in sides.items()
        }
        more = {"context": context, "persona": persona, "goal": goal, "dialogue": dialogue}
        asked |= {name: value for name, value in more.items() if value is not None}
        body = {**(prepare(asked) if context is not None else asked), **options}
        return await self._create(Preference, "/v1/preferences", body, idempotency_key)

    async def preference(self, preference_id: str) -> Preference:
        """A stored comparison of two."""
        return await self._get(Preference, f"/v1/preferences/{part(preference_id)}")

    async def compare_runs(
        self,
        runs: Sequence[str | HasId],
        *,
        progress: bool | Progress = False,
        idempotency_key: str | None = None,
        **options: Unpack[PreferenceRunOptions],
    ) -> PreferenceSummary:
        """Compares runs in pairs on the items that they share, waits for it, and sums it up. Raises BatchStopped where
        the run pauses, as at its budget, or is cancelled."""
        run = await self.create_preference_run(runs, idempotency_key=idempotency_key, **options)
        with open_progress(progress) as tell:
            async with aclosing(self.follow_preference_run(run)) as states:
                async for state in states:
                    tell(state)
                    refuse_stopped(state)
        return await self.preference_summary(run)

    async def create_preference_run(
        self,
        runs: Sequence[str | HasId],
        *,
        idempotency_key: str | None = None,
        **options: Unpack[PreferenceRunOptions],
    ) -> PreferenceRun:
        """Compares runs in pairs, and does not wait for it."""
        body = {"runs": list(map(id_of, runs)), **options}
        return await self._create(PreferenceRun, PREFERENCE_RUNS, body, idempotency_key)

    async def estimate_preference_run(
        self, runs: Sequence[str | HasId], **options: Unpack[PreferenceRunOptions]
    ) -> EstimateReport:
        """What such a run would cost. Nothing is stored, and no judge is called."""
        body = {"runs": list(map(id_of, runs)), **options}
        return await self._post(EstimateReport, f"{PREFERENCE_RUNS}/estimates", body)

    async def preference_run(self, run: str | HasId) -> PreferenceRun:
        """The preference run as it is now."""
        return await self._get(PreferenceRun, preference_run_path(run))

    def preference_runs(
        self,
        *,
        name: str | None = None,
        rubric: str | None = None,
        status: BatchStatus | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[PreferenceRun, None]:
        """The preference runs that have all of these properties, newest first."""
        query = {"name": name, "rubric": rubric, "status": status, "limit": BATCH_PAGE, **entries_of(metadata)}
        return self._list(PreferenceRun, PREFERENCE_RUNS, query)

    async def follow_preference_run(self, run: str | HasId) -> AsyncGenerator[Batch, None]:
        """Each state of the run as a batch, until it is completed or cancelled."""
        follower = Follower(self._connection, part(id_of(run)), path=PREFERENCE_RUNS)
        async with aclosing(follower.states()) as states:
            async for state in states:
                yield read(Batch, state)

    async def pause_preference_run(self, run: str | HasId) -> PreferenceRun:
        """Starts no more judge calls until the run is resumed."""
        return await self._post(PreferenceRun, f"{preference_run_path(run)}/pause")

    async def resume_preference_run(self, run: str | HasId) -> PreferenceRun:
        """Continues a paused run."""
        return await self._post(PreferenceRun, f"{preference_run_path(run)}/resume")

    async def cancel_preference_run(self, run: str | HasId) -> PreferenceRun:
        """Ends the run; its results so far are kept."""
        return await self._post(PreferenceRun, f"{preference_run_path(run)}/cancel")

    async def erase_preference_run(self, run: str | HasId) -> None:
        """Removes the run with its results; the runs that it compares stay. This cannot be undone."""
        await self._connection.request("DELETE", preference_run_path(run), again=False)

    async def preference_results(
        self, run: str | HasId, *, after: int = -1, texts: bool = False
    ) -> AsyncGenerator[PreferenceRow, None]:
        """The results so far behind position `after`, in order; one without a comparison has an `error`."""
        query = {"after": str(after), **({"texts": "true"} if texts else {})}
        found = self._connection.lines(f"{preference_run_path(run)}/results", params=query)
        async with aclosing(found) as lines:
            async for line in lines:
                yield read_line(PreferenceRow, line)

    async def preference_summary(self, run: str | HasId) -> PreferenceSummary:
        """How often which run was better, and how far the order decided, over the results so far."""
        return await self._get(PreferenceSummary, f"{preference_run_path(run)}/summary")

    async def rank(
        self,
        *,
        data: Sequence[Mapping[str, Any]] | None = None,
        runs: Sequence[str | HasId] | None = None,
        preference_run: str | HasId | None = None,
        **options: Unpack[RankingOptions],
    ) -> Ranking:
        """Systems ranked by preferences: `data`, one look each; the ratings of `runs`; or a preference run."""
        asked: dict[str, Any] = {**options}
        if data is not None:
            asked["data"] = list(data)
        if runs is not None:
            asked["runs"] = [id_of(one) for one in runs]
        if preference_run is not None:
            asked["preference_run"] = id_of(preference_run)
        return await self._post(Ranking, "/v1/analyses/ranking", asked)

    async def leaderboard(
        self, *, name: str | None = None, preference_run: str | HasId | None = None, aspect: str | None = None
    ) -> Leaderboard:
        """The systems of a preference run, or of the newest runs of a name, by the judge, by people and by ratings."""
        run = None if preference_run is None else id_of(preference_run)
        asked = {"name": name, "preference_run": run, "aspect": aspect}
        known = {key: value for key, value in asked.items() if value is not None}
        return await self._get(Leaderboard, "/v1/leaderboards", **known)

    # Comparisons, gates and analyses

    def compare(
        self, baseline: RunSource, candidate: RunSource, **options: Unpack[ComparisonOptions]
    ) -> Coroutine[Any, Any, Comparison]:
        """The difference of two runs, measure by measure. Raises SignatureMismatch."""
        return self._ask_runs(Comparison, "/v1/comparisons", {**options}, baseline=baseline, candidate=candidate)

    def gate(
        self,
        *,
        candidate: RunSource,
        baseline: RunSource | None = None,
        rules: Sequence[Rule | Mapping[str, Any]] = (),
        **terms: Unpack[GateTerms],
    ) -> Coroutine[Any, Any, GateReport]:
        """Whether the candidate may go out. Without rules no aspect may drop. Each run is a batch, results, or the path
        of a file of results, of which the service stores nothing. Raises SignatureMismatch, InputUnusable."""
        asked = {"rules": list(rules), **terms}
        again = not terms.get("check_judge")
        runs = {"candidate": candidate, "baseline": baseline}
        return self._ask_runs(GateReport, "/v1/gates", asked, creates=bool(terms.get("keep")), again=again, **runs)

    async def get_gate(self, gate: str | HasId) -> GateReport:
        """A kept verdict."""
        return await self._get(GateReport, f"/v1/gates/{part(id_of(gate))}")

    def gates(
        self, *, candidate: str | HasId | None = None, baseline: str | HasId | None = None
    ) -> AsyncGenerator[GateReport, None]:
        """The kept verdicts on these batches, newest first, without their comparisons."""
        query = {
            name: None if run is None else id_of(run)
            for name, run in (("candidate", candidate), ("baseline", baseline))
        }
        return self._list(GateReport, "/v1/gates", query)

    async def baselines(self) -> Sequence[Baseline]:
        """The project's pinned baselines, in the order of their names."""
        return (await self._get(Baselines, "/v1/baselines")).items

    async def pin_baseline(self, name: str, batch: str | HasId) -> Baseline:
        """Makes a completed batch the baseline of its name, in the place of an earlier one."""
        content, address = write_json({"batch": id_of(batch)}), f"/v1/baselines/{part(name)}"
        answer = await self._connection.request("PUT", address, content=content, headers=CONTENT)
        return read(Baseline, read_object(answer))

    async def unpin_baseline(self, name: str) -> None:
        """The name has no pinned baseline any more."""
        await self._connection.request("DELETE", f"/v1/baselines/{part(name)}", again=False)

    async def sequences(self) -> Sequence[GateSequence]:
        """The project's sequences of builds in the order of their names, without their builds."""
        return (await self._get(GateSequences, "/v1/sequences")).items

    async def sequence(self, name: str) -> GateSequence:
        """The sequence with its builds."""
        return await self._get(GateSequence, f"/v1/sequences/{part(name)}")

    async def delete_sequence(self, name: str) -> None:
        """Forgets the sequence; the next gate of its name begins another."""
        await self._connection.request("DELETE", f"/v1/sequences/{part(name)}", again=False)

    async def link(
        self,
        old: str | HasId,
        new: str | HasId,
        *,
        method: Literal["equipercentile", "linear"] | None = None,
        idempotency_key: str | None = None,
    ) -> Link:
        """Links the judges of two batches of the same responses, and stores the link."""
        asked = {"old": id_of(old), "new": id_of(new), **chosen(method=method)}
        return await self._create(Link, "/v1/links", asked, idempotency_key)

    async def adopt(
        self,
        source: str | os.PathLike[str],
        *,
        name: str | None = None,
        rubric: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Batch:
        """Makes a run of the service of results that `saiten offline` wrote: one Parquet file, which is sent, or a URL
        that the service may read. A folder is sent by the command, `saiten adopt FOLDER`. The same results under the
        same name are one run. Raises InputUnusable."""
        asked = chosen(name=name, rubric=rubric)
        written = os.fspath(source)
        if "://" in written:
            return await self._create(Batch, ADOPT, {"url": written, "metadata": metadata or {}, **asked}, None)
        body = await asyncio.to_thread(read_results, written)
        query = {**asked, **{f"metadata.{key}": value for key, value in (metadata or {}).items()}}
        answer = await self._connection.request("POST", ADOPT, content=body, params=query, headers=once(PARQUET))
        return read(Batch, read_object(answer))

    async def links(self) -> Sequence[Link]:
        """The project's links, newest first."""
        return (await self._get(Links, "/v1/links")).items

    async def read_link(self, link: str | HasId) -> Link:
        """One link."""
        return await self._get(Link, f"/v1/links/{part(id_of(link))}")

    async def delete_link(self, link: str | HasId) -> None:
        """Removes the link."""
        await self._connection.request("DELETE", f"/v1/links/{part(id_of(link))}", again=False)

    async def check_judge(
        self, *, idempotency_key: str | None = None, **options: Unpack[JudgeCheckOptions]
    ) -> JudgeCheck:
        """Whether the judge still rates the anchors as it did. Each check costs judge calls."""
        return await self._create(JudgeCheck, "/v1/judge-checks", options, idempotency_key)

    async def analyse(
        self,
        name: str,
        *,
        batch: str | HasId | None = None,
        batches: Sequence[str | HasId] | None = None,
        **options: Unpack[AnalysisOptions],
    ) -> Report:
        """The analysis `name`, such as `agreement`, of one or more batches or of `data`, a list of records. The report
        is the one of that name in `REPORTS`."""
        asked: dict[str, Any] = {**options}
        if batch is not None:
            asked["batch"] = id_of(batch)
        if batches is not None:
            asked["batches"] = [id_of(one) for one in batches]
        return await self._post(REPORTS.get(name, Report), f"/v1/analyses/{part(name)}", asked)

    # Human ratings

    def add_ratings(
        self, ratings: Iterable[Rating | Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> Coroutine[Any, Any, RatingsAdded]:
        """Keeps all ratings or none. A rater has one rating of each response; a later one replaces it."""
        return self._send_lines(RatingsAdded, "/v1/ratings", LinesBody(ratings), key=idempotency_key)

    def validate_evaluations(self, requests: Iterable[Mapping[str, Any]]) -> Coroutine[Any, Any, ValidEvaluations]:
        """Whether all requests are valid, each with its `id` if it has one. Raises ServiceRefused with every fault."""
        body = LinesBody(map(prepare, requests))
        return self._send_lines(ValidEvaluations, "/v1/validations/evaluations", body, creates=False)

    def validate_ratings(
        self, ratings: Iterable[Mapping[str, Any]], *, rubric: str | None = None
    ) -> Coroutine[Any, Any, ValidRatings]:
        """Whether all ratings are valid, but for what they rate; with `rubric` by its aspects and scales. Raises
        ServiceRefused."""
        path = "/v1/validations/ratings" + ("" if rubric is None else f"?rubric={part(rubric)}")
        return self._send_lines(ValidRatings, path, LinesBody(ratings), creates=False)

    async def validate_gate(
        self,
        *,
        candidate_rubric: str | None = None,
        baseline_rubric: str | None = None,
        rules: Sequence[Rule | Mapping[str, Any]] = (),
        **terms: Unpack[GateTerms],
    ) -> ValidGate:
        """Whether runs by these rubrics could be gated by the rules. Raises ServiceRefused."""
        asked = {
            "candidate_rubric": candidate_rubric,
            "baseline_rubric": baseline_rubric,
            "rules": list(rules),
            **terms,
        }
        return await self._post(ValidGate, "/v1/validations/gates", asked)

    async def ratings(
        self,
        *,
        item: str | None = None,
        evaluation: str | None = None,
        batch: str | HasId | None = None,
        rater: str | None = None,
    ) -> AsyncGenerator[Rating, None]:
        """The ratings of these, in the order in which they came in."""
        async with aclosing(
            self._connection.ratings(page=RATING_PAGE, **rating_filter(item, evaluation, batch, rater))
        ) as pages:
            async for page in pages:
                for rating in read_all(Rating, page):
                    yield rating

    async def remove_ratings(
        self,
        *,
        item: str | None = None,
        evaluation: str | None = None,
        batch: str | HasId | None = None,
        rater: str | None = None,
    ) -> int:
        """Removes the ratings of these, of which one must be named, and returns their number."""
        params = rating_filter(item, evaluation, batch, rater)
        answer = read_object(await self._connection.request("DELETE", "/v1/ratings", params=params, again=False))
        return number_of(answer, "removed")

    async def exclude(self, *, rater: str | None = None, round: str | None = None) -> bool:  # noqa: A002 - its name in the API
        """Leaves a rater's or a round's ratings out of analyses; False where they were left out already."""
        answer = await self._connection.exclude_ratings(chosen(rater=rater, round=round))
        return number_of(answer, "added") > 0

    async def include(self, *, rater: str | None = None, round: str | None = None) -> bool:  # noqa: A002 - its name in the API
        """Takes an exclusion back; False where there was none."""
        answer = await self._connection.include_ratings(chosen(rater=rater, round=round))
        return number_of(answer, "removed") > 0

    def open_round(
        self, batch: str | HasId, name: str, *, idempotency_key: str | None = None, **options: Unpack[RoundOptions]
    ) -> Coroutine[Any, Any, Round]:
        """Opens a rating round of the batch: `items` of its responses, drawn as `choose` says."""
        return self._create(Round, ROUNDS, {"batch": id_of(batch), "name": name, **options}, idempotency_key)

    async def rounds(self, batch: str | HasId | None = None) -> Sequence[Round]:
        """The newest rating rounds, of one batch or of all."""
        params = chosen(batch=None if batch is None else id_of(batch))
        answer = read_object(await self._connection.request("GET", ROUNDS, params=params))
        return read_all(Round, answer.get("items"))

    async def round(self, round_id: str) -> Round:
        """A rating round as it is now."""
        return read(Round, read_object(await self._connection.request("GET", f"{ROUNDS}/{part(round_id)}")))

    async def round_items(self, round_id: str) -> Sequence[DrawnItem]:
        """What the round drew, with the probability of each."""
        answer = read_object(await self._connection.request("GET", f"{ROUNDS}/{part(round_id)}/items"))
        return read_all(DrawnItem, answer.get("items"))

    async def round_figures(
        self, round_id: str, *, margin: float | None = None, alpha: float = 0.05, looks: Literal["once", "any"] = "once"
    ) -> CorrectedReport:
        """What people would say of the round's batch, and how many more ratings would bring it to ± `margin`."""
        params = {**chosen(margin=None if margin is None else str(margin)), "alpha": str(alpha), "looks": looks}
        answer = await self._connection.request("GET", f"{ROUNDS}/{part(round_id)}/corrected", params=params)
        return read(CorrectedReport, read_object(answer))

    def close_round(self, round_id: str) -> Coroutine[Any, Any, Round]:
        """Gives nothing more out."""
        return self._post(Round, f"{ROUNDS}/{part(round_id)}/close", {})

    # What people prefer

    def add_preferences(
        self, preferences: Iterable[Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> Coroutine[Any, Any, PreferencesAdded]:
        """Keeps all preferences of people or none. A rater has one of each pair; a later one replaces it."""
        return self._send_lines(PreferencesAdded, HUMAN, LinesBody(preferences), key=idempotency_key)

    async def human_preferences(
        self,
        *,
        pair: str | None = None,
        round: str | None = None,  # noqa: A002 - its name in the API
        run: str | HasId | None = None,
        rater: str | None = None,
    ) -> AsyncGenerator[StoredPreference, None]:
        """The preferences of people about these, in the order in which they came in."""
        wanted = preference_filter(pair, round, run, rater)
        async with aclosing(self._connection.human_preferences(page=RATING_PAGE, **wanted)) as pages:
            async for page in pages:
                for one in read_all(StoredPreference, page):
                    yield one

    async def remove_preferences(
        self,
        *,
        pair: str | None = None,
        round: str | None = None,  # noqa: A002 - its name in the API
        run: str | HasId | None = None,
        rater: str | None = None,
    ) -> int:
        """Removes the preferences of people about these, of which one must be named, and returns their number."""
        params = preference_filter(pair, round, run, rater)
        answer = read_object(await self._connection.request("DELETE", HUMAN, params=params, again=False))
        return number_of(answer, "removed")

    def open_preference_round(
        self,
        runs: Iterable[str | HasId],
        name: str,
        *,
        idempotency_key: str | None = None,
        **options: Unpack[RoundSize],
    ) -> Coroutine[Any, Any, PreferenceRound]:
        """Opens a round in which people see two of the runs' responses to an item side by side: `items` pairs."""
        asked = {"kind": "preference", "runs": [id_of(run) for run in runs], "name": name, **options}
        return self._create(PreferenceRound, PAIR_ROUNDS, asked, idempotency_key)

    async def preference_rounds(self) -> Sequence[PreferenceRound]:
        """The newest rounds of preferences."""
        answer = read_object(await self._connection.request("GET", PAIR_ROUNDS))
        return read_all(PreferenceRound, answer.get("items"))

    async def preference_round(self, round_id: str) -> PreferenceRound:
        """A round of preferences as it is now."""
        return await self._get(PreferenceRound, f"{PAIR_ROUNDS}/{part(round_id)}")

    async def preference_round_items(self, round_id: str) -> Sequence[PairItem]:
        """The pairs that the round drew, with their names and the probability of each."""
        answer = read_object(await self._connection.request("GET", f"{PAIR_ROUNDS}/{part(round_id)}/items"))
        return read_all(PairItem, answer.get("items"))

    async def preference_round_agreement(self, round_id: str) -> PairAgreement:
        """How far the round's raters agree."""
        return await self._get(PairAgreement, f"{PAIR_ROUNDS}/{part(round_id)}/agreement")

    def close_preference_round(self, round_id: str) -> Coroutine[Any, Any, PreferenceRound]:
        """Gives nothing more out."""
        return self._post(PreferenceRound, f"{PAIR_ROUNDS}/{part(round_id)}/close", {})

    async def exclusions(self) -> Sequence[Exclusion]:
        """The raters and rounds that are left out, oldest first."""
        answer = read_object(await self._connection.request("GET", EXCLUSIONS))
        return read_all(Exclusion, answer.get("items"))

    # Governance

    async def policy(self) -> ProjectPolicy:
        """How suspected attacks are handled, and how long texts are kept."""
        return await self._get(ProjectPolicy, "/v1/policy")

    async def set_policy(
        self,
        *,
        integrity: Literal["flag", "refuse", "judge-twice"] = "flag",
        texts: Literal["keep", "hash", "drop"] = "keep",
        after_days: float = 30.0,
    ) -> ProjectPolicy:
        """Sets the whole policy. Needs the scope `admin`."""
        content = write_json({"integrity": integrity, "texts": texts, "after_days": after_days})
        answer = await self._connection.request("PUT", "/v1/policy", content=content, headers=CONTENT)
        return read(ProjectPolicy, read_object(answer))

    # Live conversations

    async def create_monitor(self, *, idempotency_key: str | None = None, **options: Unpack[MonitorTerms]) -> Monitor:
        """A monitor, which samples and scores the project's live conversations from now on."""
        return await self._create(Monitor, MONITORS, options, idempotency_key)

    async def monitors(self) -> Sequence[Monitor]:
        """The project's monitors, newest first."""
        return (await self._get(Monitors, MONITORS)).items

    async def monitor(self, monitor: str | HasId) -> Monitor:
        """The monitor as it is now."""
        return await self._get(Monitor, monitor_path(monitor))

    async def change_monitor(self, monitor: str | HasId, **options: Unpack[MonitorTerms]) -> Monitor:
        """Changes what is given, as a new version of the monitor."""
        content = write_json(options)
        answer = await self._connection.request("PATCH", monitor_path(monitor), content=content, headers=CONTENT)
        return read(Monitor, read_object(answer))

    async def delete_monitor(self, monitor: str | HasId) -> None:
        """Removes the monitor; its runs stay."""
        await self._connection.request("DELETE", monitor_path(monitor), again=False)

    def monitor_windows(self, monitor: str | HasId) -> AsyncGenerator[Window, None]:
        """The hours or days of each system and build, newest first."""
        return self._list(Window, f"{monitor_path(monitor)}/windows", {})

    async def monitor_alarms(self, monitor: str | HasId) -> Alarms:
        """How the measures stand against the reference, and the newest alarms."""
        return await self._get(Alarms, f"{monitor_path(monitor)}/alarms")

    def monitor_conversations(self, monitor: str | HasId) -> AsyncGenerator[LiveResult, None]:
        """What the monitor saw of conversations, sampled or not, newest first."""
        return self._list(LiveResult, f"{monitor_path(monitor)}/conversations", {})

    async def add_to_dataset(
        self,
        monitor: str | HasId,
        dataset: str,
        *,
        conversations: Sequence[str] | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - its name in the API
        limit: int | None = None,
        idempotency_key: str | None = None,
    ) -> DatasetGrowth:
        """Adds conversations of the monitor to the dataset's next version: those of these names, or the newest of the
        sample that fit the filter. What is there already is not added again."""
        given = {"conversations": conversations, "filter": filter, "limit": limit}
        asked = {"dataset": dataset, **{name: value for name, value in given.items() if value is not None}}
        return await self._create(DatasetGrowth, f"{monitor_path(monitor)}/dataset", asked, idempotency_key)

    def open_monitor_round(
        self,
        monitor: str | HasId,
        name: str,
        *,
        run: str | HasId | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[RoundOptions],
    ) -> Coroutine[Any, Any, MonitorRound]:
        """Opens a rating round of the monitor's last complete window, or of the window with this run."""
        asked = {"name": name, **chosen(run=None if run is None else id_of(run)), **options}
        return self._create(MonitorRound, f"{monitor_path(monitor)}/rounds", asked, idempotency_key)

    async def pin_window(self, monitor: str | HasId, run: str | HasId | None = None) -> Baseline:
        """Makes the monitor's last complete window, or the one with this run, the baseline of the monitor's name."""
        asked = chosen(run=None if run is None else id_of(run))
        return await self._post(Baseline, f"{monitor_path(monitor)}/baseline", asked)

    async def traces(self) -> TraceReport:
        """What the project's bots sent, and what became of it."""
        return await self._get(TraceReport, TRACES)

    def live_conversations(
        self, *, state: Literal["open", "closed", "done"] | None = None
    ) -> AsyncGenerator[TracedHead, None]:
        """Live conversations without their turns, newest first."""
        return self._list(TracedHead, LIVE, {"state": state})

    async def live_conversation(self, conversation: str | HasId) -> TracedConversation:
        """The conversation as its spans tell it so far."""
        return await self._get(TracedConversation, f"{LIVE}/{part(id_of(conversation))}")

    async def erase_live_conversation(self, conversation: str | HasId) -> None:
        """Removes the conversation with its spans and texts."""
        await self._connection.request("DELETE", f"{LIVE}/{part(id_of(conversation))}", again=False)

    async def judge_pause(self) -> JudgePause:
        """Whether judge or translator asked for a pause, and how long it still lasts. Needs the scope `admin`."""
        return await self._get(JudgePause, "/v1/judge/pause")

    async def reopen_judge(self) -> None:
        """Ends both pauses: judge and translator may be called again at once. Needs the scope `admin`."""
        await self._connection.request("DELETE", "/v1/judge/pause", again=False)

    async def erase(self, metadata: Mapping[str, str]) -> ErasureReport:
        """Erases whatever has all these entries in its own metadata. Needs the scope `admin`; cannot be undone."""
        return await self._post(ErasureReport, "/v1/erasures", {"metadata": dict(metadata)}, again=False)

    def audit(self) -> AsyncGenerator[AuditEvent, None]:
        """What administrators did in the project, newest first. Needs the scope `admin`."""
        return self._list(AuditEvent, "/v1/audit", {"limit": AUDIT_PAGE}, cursor="before")

    # Requests

    async def _get(self, model: type[M], path: str, **params: Any) -> M:
        return read(model, read_object(await self._connection.request("GET", path, params=params)))

    async def _post(self, model: type[M], path: str, body: Any = None, *, again: bool = True) -> M:
        content = b"" if body is None else write_json(body)
        headers = CONTENT if content else {}
        answer = await self._connection.request("POST", path, again=again, content=content, headers=headers)
        return read(model, read_object(answer))

    async def _create(self, model: type[M], path: str, body: Any, key: str | None) -> M:
        """The answer to a request that is done once, however often it is sent."""
        answer = await self._connection.request("POST", path, content=write_json(body), headers=once(JSON, key))
        return read(model, read_object(answer))

    async def _send_lines(
        self, model: type[M], path: str, body: LinesBody, *, creates: bool = True, key: str | None = None
    ) -> M:
        """The answer to NDJSON. `creates`: it is taken once, however often it is sent."""
        try:
            headers = once(NDJSON, key) if creates else {"Content-Type": NDJSON}
            headers["Content-Length"] = str(body.length)
            answer = await self._connection.request("POST", path, content=body, headers=headers)
        finally:
            body.close()
        return read(model, read_object(answer))

    def _ask_runs(
        self,
        model: type[M],
        path: str,
        asked: Mapping[str, Any],
        *,
        creates: bool = False,
        again: bool = True,
        **runs: RunSource | None,
    ) -> Coroutine[Any, Any, M]:
        """The answer on these runs: as JSON where all are batches, else as NDJSON with a line for each result. Results
        are read at once, in the caller's thread: a blocking client may bring them."""
        given: dict[str, Results] = {}
        named: dict[str, Any] = {}
        for role, run in runs.items():
            if run is None or isinstance(run, str | HasId):
                named[role] = None if run is None else id_of(run)
            elif isinstance(run, Mapping):
                named[role], given[role] = split_results(role, run)
            else:
                given[role] = run
                named[role] = {"name": os.path.basename(run)} if isinstance(run, os.PathLike) else {}
        if not given:
            if creates:
                return self._create(model, path, {**asked, **named}, None)
            return self._post(model, path, {**asked, **named}, again=again)
        lines = ({**line, "run": role} for role, run in given.items() for line in map(as_mapping, list_results(run)))
        return self._send_lines(model, path, LinesBody(chain([{**asked, **named}], lines)), creates=creates)

    async def _run(self, body: LinesBody, progress: bool | Progress, key: str | None) -> AsyncRun:
        posted = await see_through(self._send_lines(Batch, "/v1/batches", body, key=key), undo=self.pause_batch)
        try:
            if key is not None:
                await self._go_on(posted)
            return await self.wait(posted, progress=progress)
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            with suppress(SaitenError):  # it may be completed by now
                await self.pause_batch(posted)
            raise

    async def _go_on(self, posted: Batch) -> None:
        """Resumes a batch that an interrupted caller paused."""
        batch = await self.batch(posted)
        if batch.status == "paused" and batch.pause_reason == "requested":
            await self.resume_batch(batch)

    async def _list(
        self, model: type[M], path: str, query: Mapping[str, Any], *, cursor: str = "cursor"
    ) -> AsyncGenerator[M, None]:
        """The `items` of all pages; `next` of a page is the value of `cursor` for the one after it."""
        asked = {name: value for name, value in query.items() if value is not None}
        while True:
            page = read_object(await self._connection.request("GET", path, params=asked))
            for item in read_all(model, page.get("items")):
                yield item
            if page.get("next") is None:
                return
            asked[cursor] = page["next"]


CONTENT = {"Content-Type": JSON}


def part(text: str) -> str:
    """The text as one part of a path."""
    return quote(text, safe="")


PREFERENCE_RUNS = "/v1/preference-runs"


def preference_run_path(run: str | HasId) -> str:
    """The path of a preference run."""
    return f"{PREFERENCE_RUNS}/{part(id_of(run))}"


def monitor_path(monitor: str | HasId) -> str:
    """The path of a monitor."""
    return f"{MONITORS}/{part(id_of(monitor))}"


def batch_path(batch: str | HasId) -> str:
    """The path of a batch."""
    return f"/v1/batches/{part(id_of(batch))}"


def entries_of(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """The query that asks for these entries of metadata."""
    return {f"metadata.{key}": value for key, value in (metadata or {}).items()}


def chosen(**values: str | None) -> dict[str, str]:
    """The values that are given."""
    return {name: value for name, value in values.items() if value is not None}


def number_of(answer: Object, name: str) -> int:
    """The number `name` of an answer. Raises AnswerInvalid."""
    found = answer.get(name)
    if not isinstance(found, int):
        raise AnswerInvalid(f"the service's answer has no {name}; is it of this client's version?")
    return found


def rating_filter(
    item: str | None, evaluation: str | None, batch: str | HasId | None, rater: str | None
) -> dict[str, str]:
    """The query that names these ratings."""
    return chosen(item=item, evaluation=evaluation, batch=None if batch is None else id_of(batch), rater=rater)


def preference_filter(
    pair: str | None, round_id: str | None, run: str | HasId | None, rater: str | None
) -> dict[str, str]:
    """The query that names these preferences."""
    return chosen(pair=pair, round=round_id, run=None if run is None else id_of(run), rater=rater)


def read_results(path: str) -> bytes:
    """The bytes of a file of results. Raises InputUnusable."""
    try:
        return Path(path).read_bytes()
    except IsADirectoryError:
        raise InputUnusable(
            f"{path}: is a folder; adopt() takes one Parquet file or a URL, and `saiten adopt` sends folders"
        ) from None
    except OSError as error:
        raise InputUnusable(f"{path}: {error.strerror}") from None


def list_results(run: Results) -> Iterable[Any]:
    """The results, or those of a file of NDJSON. Raises InputUnusable."""
    if not isinstance(run, os.PathLike):
        yield from run
        return
    try:
        with open(run, encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    value = json.loads(line)
                    if not isinstance(value, dict):
                        raise InputUnusable(f"{os.fspath(run)}:{number}: must be an object")
                    yield value
    except OSError as error:
        raise InputUnusable(f"{os.fspath(run)}: {error.strerror}") from None
    except ValueError as error:
        raise InputUnusable(f"{os.fspath(run)}: {error}") from None


def split_results(role: str, run: Mapping[str, Any]) -> tuple[dict[str, Any], Results]:
    """What the API's form of a run says beside its results, and these. Raises InputUnusable."""
    results = run.get("results")
    if isinstance(results, str | bytes | Mapping) or not isinstance(results, Iterable):
        raise InputUnusable(f'{role}: must be a batch, results, or {{"results": [RESULT, …]}}')
    return {name: value for name, value in run.items() if name != "results"}, results


def as_mapping(result: Mapping[str, Any] | BaseModel) -> Mapping[str, Any]:
    """The result as JSON values."""
    return result.model_dump(mode="json", exclude_unset=True) if isinstance(result, BaseModel) else result


def write_batch(items: Items, options: BatchOptions) -> LinesBody:
    """The body of a batch: the options first, then a line for each item."""

    def list_lines() -> Iterable[Mapping[str, Any]]:
        yield {**options}
        yield from map(prepare, items)

    return LinesBody(list_lines())


def refuse_stopped(batch: Batch) -> None:
    """Raises BatchStopped where no more results will come although some are missing."""
    if batch.status not in {"paused", "cancelled"}:
        return
    done = f"{batch.counts.done} of {batch.counts.total} candidates"
    if batch.status == "cancelled":
        raise BatchStopped(f"the batch {batch.id} was cancelled after {done}", batch.id)
    why = batch.pause_detail or batch.pause_reason or "the reason is unknown"
    raise BatchStopped(f"the batch {batch.id} paused after {done}: {why}", batch.id)


class Run(Blocking):
    """AsyncRun, with methods that wait."""

    _asked: AsyncRun

    def __init__(self, asked: AsyncRun, loop: BackgroundLoop, client: Client) -> None:
        super().__init__(asked, loop)
        self.client = client
        self.batch = asked.batch
        self.summary = asked.summary

    def __repr__(self) -> str:
        return repr(self._asked).replace(AsyncRun.__name__, Run.__name__)

    def _repr_html_(self) -> str:
        return self._asked._repr_html_()

    @property
    def id(self) -> str:
        """The batch's id."""
        return self.batch.id

    results = iterating(AsyncRun.results)
    to_table = blocking(AsyncRun.to_table)
    to_pandas = blocking(AsyncRun.to_pandas)
    to_polars = blocking(AsyncRun.to_polars)


def running(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, AsyncRun]]) -> Callable[Concatenate[Any, P], Run]:
    """The method of a Client that waits for a run."""

    @functools.wraps(method)
    def call(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Run:
        return Run(self._loop.run(method(self._asked, *args, **kwargs)), self._loop, self)

    return call


def let_go(client: AsyncClient, loop: BackgroundLoop) -> None:
    """Closes the connections and ends the thread, soon."""
    loop.end(client.aclose())


class Client(Blocking):
    """AsyncClient, with methods that wait. It may be used from several threads, and closes itself once nothing refers
    to it.

    Calls are made in a thread of its own, and so is that of a `progress` function, which cannot call the client.
    """

    _asked: AsyncClient

    def __init__(
        self, url: str | None = None, *, api_key: str | None = None, read_seconds: float | None = READ_SECONDS
    ) -> None:
        asked = AsyncClient(url, api_key=api_key, read_seconds=read_seconds)
        super().__init__(asked, BackgroundLoop())
        # At the end of the process nothing needs to be closed.
        weakref.finalize(self, let_go, asked, self._loop).atexit = False

    @property
    def url(self) -> str:
        """The service's address, without a user's name and password."""
        return self._asked.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._loop.close(self._asked.aclose())

    info = blocking(AsyncClient.info)
    rubrics = blocking(AsyncClient.rubrics)
    rubric = blocking(AsyncClient.rubric)
    evaluate = blocking(AsyncClient.evaluate)
    evaluate_conversation = blocking(AsyncClient.evaluate_conversation)
    conversation = blocking(AsyncClient.conversation)
    evaluation = blocking(AsyncClient.evaluation)
    explain = blocking(AsyncClient.explain)
    evaluations = iterating(AsyncClient.evaluations)
    run = running(AsyncClient.run)
    wait = running(AsyncClient.wait)
    create_batch = blocking(AsyncClient.create_batch)
    estimate = blocking(AsyncClient.estimate)
    batch = blocking(AsyncClient.batch)
    batches = iterating(AsyncClient.batches)
    follow = iterating(AsyncClient.follow, at_once=1)
    pause_batch = blocking(AsyncClient.pause_batch)
    resume_batch = blocking(AsyncClient.resume_batch)
    cancel_batch = blocking(AsyncClient.cancel_batch)
    erase_batch = blocking(AsyncClient.erase_batch)
    results = iterating(AsyncClient.results)
    results_csv = iterating(AsyncClient.results_csv)
    summary = blocking(AsyncClient.summary)
    prefer = blocking(AsyncClient.prefer)
    preference = blocking(AsyncClient.preference)
    compare_runs = blocking(AsyncClient.compare_runs)
    create_preference_run = blocking(AsyncClient.create_preference_run)
    estimate_preference_run = blocking(AsyncClient.estimate_preference_run)
    preference_run = blocking(AsyncClient.preference_run)
    preference_runs = iterating(AsyncClient.preference_runs)
    follow_preference_run = iterating(AsyncClient.follow_preference_run, at_once=1)
    pause_preference_run = blocking(AsyncClient.pause_preference_run)
    resume_preference_run = blocking(AsyncClient.resume_preference_run)
    cancel_preference_run = blocking(AsyncClient.cancel_preference_run)
    erase_preference_run = blocking(AsyncClient.erase_preference_run)
    preference_results = iterating(AsyncClient.preference_results)
    preference_summary = blocking(AsyncClient.preference_summary)
    rank = blocking(AsyncClient.rank)
    leaderboard = blocking(AsyncClient.leaderboard)
    compare = blocking(AsyncClient.compare)
    gate = blocking(AsyncClient.gate)
    get_gate = blocking(AsyncClient.get_gate)
    gates = iterating(AsyncClient.gates)
    baselines = blocking(AsyncClient.baselines)
    sequences = blocking(AsyncClient.sequences)
    sequence = blocking(AsyncClient.sequence)
    delete_sequence = blocking(AsyncClient.delete_sequence)
    pin_baseline = blocking(AsyncClient.pin_baseline)
    unpin_baseline = blocking(AsyncClient.unpin_baseline)
    link = blocking(AsyncClient.link)
    adopt = blocking(AsyncClient.adopt)
    links = blocking(AsyncClient.links)
    read_link = blocking(AsyncClient.read_link)
    delete_link = blocking(AsyncClient.delete_link)
    check_judge = blocking(AsyncClient.check_judge)
    analyse = blocking(AsyncClient.analyse)
    add_ratings = blocking(AsyncClient.add_ratings)
    validate_evaluations = blocking(AsyncClient.validate_evaluations)
    validate_ratings = blocking(AsyncClient.validate_ratings)
    validate_gate = blocking(AsyncClient.validate_gate)
    ratings = iterating(AsyncClient.ratings)
    remove_ratings = blocking(AsyncClient.remove_ratings)
    open_round = blocking(AsyncClient.open_round)
    rounds = blocking(AsyncClient.rounds)
    round = blocking(AsyncClient.round)
    round_items = blocking(AsyncClient.round_items)
    round_figures = blocking(AsyncClient.round_figures)
    close_round = blocking(AsyncClient.close_round)
    add_preferences = blocking(AsyncClient.add_preferences)
    human_preferences = iterating(AsyncClient.human_preferences)
    remove_preferences = blocking(AsyncClient.remove_preferences)
    open_preference_round = blocking(AsyncClient.open_preference_round)
    preference_rounds = blocking(AsyncClient.preference_rounds)
    preference_round = blocking(AsyncClient.preference_round)
    preference_round_items = blocking(AsyncClient.preference_round_items)
    preference_round_agreement = blocking(AsyncClient.preference_round_agreement)
    close_preference_round = blocking(AsyncClient.close_preference_round)
    exclude = blocking(AsyncClient.exclude)
    include = blocking(AsyncClient.include)
    exclusions = blocking(AsyncClient.exclusions)
    policy = blocking(AsyncClient.policy)
    set_policy = blocking(AsyncClient.set_policy)
    judge_pause = blocking(AsyncClient.judge_pause)
    reopen_judge = blocking(AsyncClient.reopen_judge)
    create_monitor = blocking(AsyncClient.create_monitor)
    monitors = blocking(AsyncClient.monitors)
    monitor = blocking(AsyncClient.monitor)
    change_monitor = blocking(AsyncClient.change_monitor)
    delete_monitor = blocking(AsyncClient.delete_monitor)
    monitor_windows = iterating(AsyncClient.monitor_windows)
    monitor_alarms = blocking(AsyncClient.monitor_alarms)
    monitor_conversations = iterating(AsyncClient.monitor_conversations)
    add_to_dataset = blocking(AsyncClient.add_to_dataset)
    open_monitor_round = blocking(AsyncClient.open_monitor_round)
    pin_window = blocking(AsyncClient.pin_window)
    traces = blocking(AsyncClient.traces)
    live_conversations = iterating(AsyncClient.live_conversations)
    live_conversation = blocking(AsyncClient.live_conversation)
    erase_live_conversation = blocking(AsyncClient.erase_live_conversation)
    erase = blocking(AsyncClient.erase)
    audit = iterating(AsyncClient.audit)
