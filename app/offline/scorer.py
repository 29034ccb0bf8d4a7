"""Scores Arrow tables without a service: `Scorer` is what an engine calls, or a loop of ten lines.

scorer = Scorer(rubric="ja-conversation", judge={"model": "gpt-6-luna"})
for group in range(source.num_row_groups):
    table = scorer(source.read_row_group(group))
"""

from __future__ import annotations

import asyncio
import copy
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from saiten.core.messages import Message
from saiten_server.core.batch import BatchOptions
from saiten_server.core.errors import SettingsInvalid
from saiten_server.core.evaluation import JudgeOptions, RelevanceOptions
from saiten_server.core.rubric import Rubric
from saiten_server.core.validation import validate

if TYPE_CHECKING:
    import pyarrow as pa

    from saiten_server.core.errors import SaitenError
    from saiten_server.offline.frame_files import ScoredRow
    from saiten_server.offline.judging import Budget, Judging, Silence
    from saiten_server.offline.rows import Row, RowReading
    from saiten_server.platform.flow_state import FlowState
    from saiten_server.platform.settings import Settings
    from saiten_server.scoring.evaluate import ScoringContext

SECRETS = frozenset({"openai_api_key", "deepl_api_key", "api_key", "redis_url", "database_url"})
"""Settings that hold keys or passwords: they come from the environment of the process that scores, and from nowhere
else, because what is pickled for a cluster is stored and logged there."""


@dataclass(frozen=True)
class SharedParts:
    """What the processes of a run share, opened in each of them: the state of flow control, and the budget; and after
    how many seconds without an answer of the judge each gives up, None for never."""

    open_flow: Callable[[Settings], FlowState] | None = None
    open_budget: Callable[[], Budget] | None = None
    give_up_seconds: float | None = None


class Scorer:
    """Scores rows of Arrow tables: a callable for `map_batches` of Ray Data, `mapInArrow` of Spark and the like.

    `rubric` is an id or `id@version`, `judge` the object of that name in a request of the service (`{"model": …,
    "samples": 3}`), and `path`, `relevance` and `integrity` are as there. `settings` are settings of the service by
    their fields' names (`{"judge_concurrency": 64}`), before those of the environment. With `texts`, results hold
    what was said and the judge's reasons.

    A pickled scorer holds these arguments and no key: keys are read from the environment of the process that scores,
    where clients are opened at the first table. Raises InvalidRequest for arguments that no batch could have, and
    SettingsInvalid for a key among the settings.
    """

    def __init__(
        self,
        rubric: str,
        judge: Mapping[str, Any] | JudgeOptions | None = None,
        *,
        path: str = "source",
        relevance: Mapping[str, Any] | RelevanceOptions | None = RelevanceOptions(),  # noqa: B008 - it is frozen
        integrity: str | None = None,
        settings: Mapping[str, Any] | None = None,
        texts: bool = False,
        shared: SharedParts | None = None,
    ) -> None:
        if found := SECRETS & {*(settings or {})}:
            raise SettingsInvalid(Message("offline-secret", name=min(found)))
        given = {"judge": judge or {}, "relevance": relevance}
        parts = {name: dump(part) for name, part in given.items()}
        self.options = validate_options({"rubric": rubric, "path": path, "integrity": integrity, **parts})
        self.settings = dict(settings or {})
        self.texts = texts
        self._shared = shared or SharedParts()
        self._lock = threading.Lock()
        self._opened: Runtime | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None, "_opened": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def __call__(self, table: pa.Table) -> pa.Table:
        """The results of the table's rows in their order, as a table of `frame_files.make_schema`: one a row, or one a
        response where a row has several. A row that cannot be read or judged is a failed result with its reason.

        Raises InvalidRequest if the table lacks columns, and the error that every further row would meet, such as
        JudgeUnauthorized."""
        found: dict[int, ScoredRow] = dict(self.stream(self.read(table)))
        return self.make_table([found[number] for number in sorted(found)])

    @property
    def rubric(self) -> Rubric:
        """The rubric. Raises UnknownRubric."""
        return self._open().rubric

    @property
    def signature(self) -> str:
        """The digest of everything that can change a score, 12 hexadecimal digits: of another one are other results."""
        return self._open().signature

    @property
    def schema(self) -> pa.Schema:
        """The schema of the tables that this returns."""
        from saiten_server.offline.frame_files import make_schema

        return make_schema(self.rubric, texts=self.texts)

    @property
    def described(self) -> Mapping[str, Any]:
        """What `signature` is the digest of."""
        return self._open().described

    @property
    def context(self) -> ScoringContext:
        """The services of this process."""
        return self._open().context

    @property
    def exact_options(self) -> BatchOptions:
        """The options that rows are scored with: the rubric by its version, and no relevance of conversations."""
        return self._open().options

    def read(self, table: pa.Table, where: str = "table") -> Iterator[Row]:
        """The table's rows. Raises InvalidRequest, which names `where`, if it lacks columns."""
        from saiten_server.offline.rows import read_rows

        return read_rows(table, self.open_reading(), where)

    def open_reading(self) -> RowReading:
        """Reads rows one by one."""
        from saiten_server.offline.rows import RowReading

        opened = self._open()
        return RowReading(opened.rubric, opened.signature, opened.context.limits)

    def make_table(self, scored: Iterable[ScoredRow]) -> pa.Table:
        """The results as a table."""
        from saiten_server.offline.frame_files import make_table

        return make_table(scored, self.rubric, texts=self.texts)

    def stream(
        self, rows: Iterable[Row], *, watch: Callable[[Silence], None] = lambda _: None
    ) -> Iterator[tuple[int, ScoredRow]]:
        """Results with the numbers of their rows, in the order in which they are known. Rows are taken as there is
        place for them, so that they may be any number. Raises the error that stops the run, after the results of the
        rows that were under way; where the caller stops, or the judge is silent for too long, what is under way is
        cancelled. `watch` is told how long the judge is silent: once a second, and whenever something is finished."""
        opened = self._open()
        done: queue.SimpleQueue[RowOutcome] = queue.SimpleQueue()
        left, running = iter(rows), 0
        error: BaseException | None = None
        tasks: RowTasks = set()
        given_up = False
        try:
            while True:
                wanted = 0 if error else opened.places - running
                if wanted and (fresh := list(islice(left, wanted))):
                    running += len(fresh)
                    opened.begin(fresh, tasks, done)
                if not running:
                    break
                found, silence = take_all(done), opened.silence
                watch(silence)
                if not found and error is None and is_over(silence, self._shared.give_up_seconds):
                    error, given_up = give_up(silence), True
                if given_up:
                    # Again and again: what ends at the same moment may take a task's cancellation with it.
                    opened.cancel(tasks)
                for row, result, failure in found:
                    running -= 1
                    error = error or failure
                    if result is not None:
                        yield row.number, result
        finally:
            opened.cancel(tasks)
        if error is not None:
            raise error

    def sharing(self, shared: SharedParts, *, settings: Mapping[str, Any] | None = None) -> Scorer:
        """The same scorer as one of several that share these, with further settings."""
        made = copy.copy(self)
        made._shared = shared
        made.settings = {**(settings or {}), **self.settings}
        return made

    def close(self) -> None:
        """Closes what this process has opened. The next table opens it again."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _open(self) -> Runtime:
        with self._lock:
            if self._opened is None:
                self._opened = Runtime(self.options, self.settings, self._shared)
            return self._opened


RowOutcome = tuple["Row", "ScoredRow | None", "BaseException | None"]
"""Of a row that is done: its result, or the error that stops the run, or neither if it was given up."""

RowTasks = set[asyncio.Task["ScoredRow | None"]]


WATCH_SECONDS = 1.0


def take_all(done: queue.SimpleQueue[RowOutcome]) -> list[RowOutcome]:
    """What is in the queue, or comes into it within a second."""
    found = []
    with suppress(queue.Empty):
        found.append(done.get(timeout=WATCH_SECONDS))
        while True:
            found.append(done.get_nowait())
    return found


def is_over(silence: Silence, most_seconds: float | None) -> bool:
    """Whether the judge was silent for so long."""
    return most_seconds is not None and silence.seconds >= most_seconds


def give_up(silence: Silence) -> SaitenError:
    """The error of a run whose judge was silent for too long."""
    from saiten_server.core.errors import JudgeUnavailable

    seconds = round(silence.seconds)
    if silence.fault is None:
        return JudgeUnavailable(Message("offline-gave-up", seconds=seconds))
    return JudgeUnavailable(
        Message("offline-gave-up-failing", seconds=seconds, failures=silence.failures, fault=silence.fault)
    )


def dump(value: Any) -> Any:
    """A model as JSON; anything else as it is."""
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def validate_options(given: Mapping[str, Any]) -> BatchOptions:
    """The options. Raises InvalidRequest with a pointer to what is wrong."""
    from saiten_server.core.dialogue import UNBOUNDED

    return validate(BatchOptions, dict(given), UNBOUNDED)


class Runtime:
    """What one process opens to score: an event loop in a thread of its own, and the clients in it."""

    def __init__(self, options: BatchOptions, settings: Mapping[str, Any], shared: SharedParts) -> None:
        from saiten_server.offline.signing import describe_settings, digest_settings
        from saiten_server.platform.settings import read_settings
        from saiten_server.runs.worker import places_of
        from saiten_server.scoring.rubrics.files import open_rubrics

        self._settings = read_settings(**settings)
        self.rubric = open_rubrics(self._settings.rubrics).get(options.rubric)
        if self.rubric.unit == "conversation":
            options = options.model_copy(update={"relevance": None})
        # By its exact version, so that a newer one does not become part of the same run.
        self.options = options.model_copy(update={"rubric": self.rubric.name})
        self.described = describe_settings(self.options, self.rubric, self._settings)
        self.signature = digest_settings(self.described)
        self.places = places_of(self._settings.judge_concurrency)
        self._stack = AsyncExitStack()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="saiten-offline", daemon=True)
        self._thread.start()
        try:
            self._judging: Judging = self._wait(self._begin(shared))
        except BaseException:
            self.close()
            raise

    @property
    def context(self) -> ScoringContext:
        """The services of this process."""
        return self._judging.context

    @property
    def silence(self) -> Silence:
        """How long the judge has given no answer."""
        return self._judging.silence

    def begin(self, rows: Sequence[Row], tasks: RowTasks, done: queue.SimpleQueue[RowOutcome]) -> None:
        """Starts rows; each is put into `done` with what came of it. `tasks` holds those under way, for `cancel`."""

        def finish(row: Row, task: asyncio.Task[ScoredRow | None]) -> None:
            tasks.discard(task)
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            done.put((row, None if error else task.result(), error))

        def start() -> None:
            for row in rows:
                task = self._loop.create_task(self._judging.score(row))
                tasks.add(task)
                # Not at the end of the task's own code, none of which runs if it is cancelled before it has begun.
                task.add_done_callback(partial(finish, row))

        self._loop.call_soon_threadsafe(start)

    def cancel(self, tasks: RowTasks) -> None:
        """Cancels what is under way."""

        def cancel() -> None:
            for task in [*tasks]:
                task.cancel()

        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(cancel)

    def close(self) -> None:
        """Closes the clients, and ends the thread."""
        try:
            self._wait(self._stack.aclose())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _wait(self, work: Any) -> Any:
        found: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return found.result()

    async def _begin(self, shared: SharedParts) -> Judging:
        from saiten_server.offline.judging import Judging

        context = await open_context(self._settings, self._stack, shared)
        budget = shared.open_budget() if shared.open_budget else None
        judging = Judging(self.options, self.rubric, context, budget=budget)
        self._stack.push_async_callback(judging.close)
        return judging


class MemoryBaselines:
    """Baselines of this process: computed once in each."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], float] = {}

    async def find_baseline(self, encoder: str, language: str, calibration: str) -> float | None:
        return self._found.get((encoder, language, calibration))

    async def save_baseline(self, encoder: str, language: str, calibration: str, value: float) -> None:
        self._found[encoder, language, calibration] = value


CACHED_REPLIES = 2_000
"""Replies that a process keeps, so that equal texts under several ids are judged once. With Redis all share them."""


async def open_context(settings: Settings, stack: AsyncExitStack, shared: SharedParts) -> ScoringContext:
    """The services of a process that has no database. Raises SettingsInvalid."""
    from prometheus_client import CollectorRegistry

    from saiten_server.platform.telemetry import Telemetry, open_no_span
    from saiten_server.providers.flow_control import FlowControl
    from saiten_server.scoring.conversation import MOST_HELPED
    from saiten_server.scoring.instruments import open_cache, open_flow, open_instruments, open_pauses, open_redis

    if settings.cache_kind == "sql":
        settings = settings.model_copy(update={"cache": "memory", "cache_entries": CACHED_REPLIES})
    telemetry = Telemetry(CollectorRegistry(), open_no_span)
    redis = open_redis(settings, stack)
    cache = open_cache(settings, None, redis)
    stack.push_async_callback(cache.close)
    if redis is None and shared.open_flow is not None:
        flow = FlowControl(shared.open_flow(settings), longest_pause_seconds=settings.longest_pause_seconds)
    else:
        flow = open_flow(settings, redis)
    stack.push_async_callback(flow.close)
    pauses = open_pauses(settings, redis)
    stack.push_async_callback(pauses.close)
    context = open_instruments(
        settings, stack, flow=flow, pauses=pauses, store=MemoryBaselines(), cache=cache, telemetry=telemetry
    )
    # Helper processes take longer to start than they save: who has more cores runs more processes. Nor do threads help:
    # no one else waits for the event loop, and to hand a conversation over took a sixth of its CPU.
    return replace(context, lane="batch", helpers=None, rules_at_once=MOST_HELPED)
