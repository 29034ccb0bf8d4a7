"""Builds every part of the service from the settings. No other module does."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from prometheus_client import CollectorRegistry
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten.core.messages import Message
from saiten.core.plain_text import printable
from saiten_server.comparison.judge_checks.service import AnchorCheck, AnchorStore
from saiten_server.comparison.links.service import LinkService
from saiten_server.comparison.links.store import LinkStore
from saiten_server.comparison.runs import RunReader
from saiten_server.comparison.sequences import SequenceService, SequenceStore
from saiten_server.comparison.service import ComparisonService
from saiten_server.comparison.store import BaselineStore, GateArchive, GateStore
from saiten_server.core.evaluation import JudgeOptions
from saiten_server.erasure.service import Retention
from saiten_server.erasure.store import TextStore
from saiten_server.explorer.cases import CaseExplorer
from saiten_server.explorer.overview import Overviews
from saiten_server.governance.keys import APIKeyStore
from saiten_server.governance.policies import RecentPolicies
from saiten_server.governance.store import AuditLog, PolicyStore, SpendingStore
from saiten_server.monitors.service import MonitorService
from saiten_server.monitors.sinks.sending import Sender, open_client
from saiten_server.monitors.sinks.store import OutboxStore
from saiten_server.monitors.sinks.values import SinkKeys, read_sinks
from saiten_server.monitors.store.monitors import MonitorStore
from saiten_server.monitors.traces.service import TraceIntake, TraceUpkeep
from saiten_server.monitors.traces.store import LiveStore
from saiten_server.monitors.work import MonitorWork
from saiten_server.offline.service import AdoptionService
from saiten_server.platform.capability import CAPABILITIES, Ground, find_parts
from saiten_server.platform.charts.render import ChartRenderer
from saiten_server.platform.computations import Computations
from saiten_server.platform.flow_state import FlowState
from saiten_server.platform.helpers import open_process
from saiten_server.platform.memory import set_aside
from saiten_server.platform.memory_cache import CallCache, NoCallCache
from saiten_server.platform.request_limits import MemoryRequestLimiter, RequestLimiter
from saiten_server.platform.settings import Settings
from saiten_server.platform.sql.engine import keep_ending_frozen, keep_measuring_clock
from saiten_server.platform.tasks import WARM_SECONDS, end_tasks
from saiten_server.platform.telemetry import Telemetry, open_no_span
from saiten_server.preferences.human.service import HumanPreferences
from saiten_server.preferences.human.store import HumanPreferenceStore
from saiten_server.preferences.runs.rounds import Rounds
from saiten_server.preferences.runs.service import PreferenceRunService
from saiten_server.preferences.runs.store import SourceStore
from saiten_server.preferences.store import PreferenceStore
from saiten_server.providers import registry
from saiten_server.providers.call_cache import CachedCalls
from saiten_server.providers.flow_control import FlowControl
from saiten_server.ratings.reliability import BadgeRenewal, Reliabilities, Revalidation
from saiten_server.ratings.rounds.pairs import PairRounds
from saiten_server.ratings.rounds.service import InvitationStore, RoundService
from saiten_server.ratings.rounds.store import RoundStore
from saiten_server.ratings.service import RatingService
from saiten_server.ratings.store import RatingStore
from saiten_server.runs.quota import StorageQuota
from saiten_server.runs.service import BatchService, QueueLimits
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.store.browsing import ResultBrowser
from saiten_server.runs.store.frames import FrameStore
from saiten_server.runs.store.search import TextSearch
from saiten_server.runs.work import AsyncioJobQueue, JobQueue
from saiten_server.runs.worker import BatchWorker, Chore, window_of
from saiten_server.scoring.evaluate import ScoringContext
from saiten_server.scoring.instruments import new_id, open_cache, open_flow, open_instruments, open_pauses, open_redis
from saiten_server.scoring.store import EvaluationStore
from saiten_server.text.injection import prepare_inspection

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from saiten_server.offline.texts import AdoptedTexts
    from saiten_server.platform.tracing import Tracing
    from saiten_server.runs.provider_run import ProviderRun

logger = logging.getLogger("saiten")

RESTART_SECONDS = 1.0  # between a failure of the embedded worker and its next start

READINGS = 4  # uploaded files of one project that are read or wait to be

Service = TypeVar("Service")


@dataclass(frozen=True)
class Scoring:
    """What one evaluation needs, and where evaluations are stored. `encoder_settings` are the configured encoders by
    language; `*` stands for all other languages."""

    context: ScoringContext
    evaluations: EvaluationStore
    encoder_settings: dict[str, str] | None


@dataclass(frozen=True)
class RatingServices:
    """Human ratings, rating rounds with their invitations, and the reliability of judges."""

    service: RatingService
    rounds: RoundService
    pairs: PairRounds
    invitations: InvitationStore
    reliabilities: Reliabilities


@dataclass(frozen=True)
class Governance:
    """Keys, limits, policies and the audit log."""

    keys: APIKeyStore
    audit: AuditLog
    policies: RecentPolicies
    limiter: RequestLimiter
    spending: SpendingStore
    quota: StorageQuota


@dataclass(frozen=True)
class Dashboard:
    """What only pages need: charts, sorted tables, and comparisons computed in the background.
    Files are read beside those (`readings`): a hostile one takes two minutes, for which no other page is to wait."""

    browser: ResultBrowser
    charts: ChartRenderer
    computations: Computations
    readings: Computations
    overviews: Overviews
    explorer: CaseExplorer


@dataclass(frozen=True)
class Container:
    """Every service of a running Saiten, for the web, the command line and workers. `worker` is run by the process and
    not by handlers: by the service itself if the queue is embedded, otherwise by `saiten worker`. `flow` is that of the
    judge's calls, and `pauses` what the translator asks for. `services` are those of single capabilities, by class."""

    settings: Settings
    scoring: Scoring
    batches: BatchService
    ratings: RatingServices
    comparison: ComparisonService
    governance: Governance
    dashboard: Dashboard
    telemetry: Telemetry
    worker: BatchWorker
    flow: FlowControl
    pauses: FlowState
    services: Mapping[type, Any]

    def find(self, kind: type[Service]) -> Service:
        """The service that a capability opened by its `open_service`."""
        found: Service = self.services[kind]
        return found

    @property
    def texts(self) -> AdoptedTexts:
        """The texts of adopted runs, which stand in files."""
        return self.find(AdoptionService).texts


@asynccontextmanager
async def open_container(
    settings: Settings, tracing: Tracing | None = None, *, own: set[str] | None = None
) -> AsyncIterator[Container]:
    """Builds everything from `settings` and closes it in reverse order, `tracing` last. With `own`, the worker works
    only on the batches with these ids; batches that are created here are added to it. Raises SettingsInvalid,
    RubricInvalid or StoreUnavailable, each with one sentence for the operator."""
    async with AsyncExitStack() as stack:
        if tracing is not None:
            stack.push_async_callback(tracing.close)
        engine = await open_database(settings, stack)
        if tracing is not None:
            tracing.watch(engine)
        redis = open_redis(settings, stack)
        store, spending = EvaluationStore(engine), SpendingStore(engine)
        stack.push_async_callback(spending.close)
        stack.push_async_callback(store.close)
        telemetry = Telemetry(CollectorRegistry(), tracing.span if tracing else open_no_span)
        quota = StorageQuota(engine, settings.project_bytes, refused=partial(telemetry.limited, "bytes"))
        cache = open_cache(settings, engine, redis)
        stack.push_async_callback(cache.close)
        flow = open_flow(settings, redis)
        stack.push_async_callback(flow.close)
        telemetry.flow(flow.figures)
        pauses = open_pauses(settings, redis)
        stack.push_async_callback(pauses.close)
        limiter = open_limiter(redis)
        stack.push_async_callback(limiter.close)
        instruments = open_instruments(
            settings, stack, flow=flow, pauses=pauses, store=store, cache=cache, telemetry=telemetry
        )
        batches, pairs, worker = open_batches(
            settings, stack, engine=engine, cache=cache, instruments=instruments, quota=quota, own=own
        )
        preferences = open_preferences(engine, batches, pairs, worker)
        encoder = registry.find_encoder(settings)
        ratings, comparison = open_meta(settings, stack, engine=engine, flow=flow, instruments=instruments, quota=quota)
        yield Container(
            settings=settings,
            scoring=Scoring(instruments, store, encoder.describe(settings) if encoder else None),
            batches=batches,
            ratings=ratings,
            comparison=comparison,
            governance=open_governance(engine, limiter, spending, quota),
            dashboard=open_dashboard(
                settings, engine, stack, comparison=comparison, instruments=instruments, quota=quota
            ),
            telemetry=telemetry,
            worker=worker,
            flow=flow,
            pauses=pauses,
            services={
                **open_all(settings, Ground(settings, engine, cache, quota, instruments.now, new_id), instruments),
                PreferenceRunService: preferences,
            },
        )


def open_governance(
    engine: AsyncEngine, limiter: RequestLimiter, spending: SpendingStore, quota: StorageQuota
) -> Governance:
    """What bounds callers, and what is noted of them."""
    return Governance(
        keys=APIKeyStore(engine),
        audit=AuditLog(engine),
        policies=RecentPolicies(PolicyStore(engine)),
        limiter=limiter,
        spending=spending,
        quota=quota,
    )


def open_services(ground: Ground) -> dict[type, Any]:
    """The services that capabilities open by themselves, by class."""
    modules = (module for capability in CAPABILITIES for module in find_parts(capability, "service"))
    opened = [module.open_service(ground) for module in modules if hasattr(module, "open_service")]
    return {type(service): service for service in opened}


async def open_database(settings: Settings, stack: AsyncExitStack) -> AsyncEngine:
    """The engine, with its schema up to date."""
    from saiten_server.platform.sql.engine import close_engine, open_engine
    from saiten_server.platform.sql.schema import migrate

    engine = open_engine(settings.sqlalchemy_url)
    stack.push_async_callback(close_engine, engine)
    await migrate(engine)
    return engine


def open_limiter(redis: Redis | None) -> RequestLimiter:
    """The limiter of requests per key, for all processes that share Redis, otherwise for this process."""
    if redis is None:
        return MemoryRequestLimiter()
    from saiten_server.platform.redis.request_limits import RedisRequestLimiter

    return RedisRequestLimiter(redis)


def new_batch_id(prefix: str, own: set[str] | None) -> str:
    """The id of a batch that is made here, which a worker of some batches alone then works on too."""
    batch_id = new_id(prefix)
    if own is not None:
        own.add(batch_id)
    return batch_id


def open_batches(
    settings: Settings,
    stack: AsyncExitStack,
    *,
    engine: AsyncEngine,
    cache: CallCache,
    instruments: ScoringContext,
    quota: StorageQuota,
    own: set[str] | None,
) -> tuple[BatchService, BatchService, BatchWorker]:
    """Opens the service that accepts batches, that of batches of pairs, and the worker of both."""

    window = window_of(settings.judge_concurrency)
    open_store = partial(BatchStore, engine, window=window, usd_per_day=settings.key_usd_per_day)
    every = open_store(unit="any")
    queue = open_queue(settings, stack)
    unhurried = replace(instruments, lane="batch")
    provider = open_provider(settings, engine, stack, store=every, queue=queue, cache=cache, instruments=unhurried)
    batches = BatchService(
        store=open_store(),
        queue=queue,
        instruments=instruments,
        cache=cache,
        limits=settings.limits,
        new_id=partial(new_batch_id, "ba_", own),
        window=window,
        provider=provider,
        queue_limits=QueueLimits(all_projects=settings.most_queued, project=settings.project_queued),
        quota=quota,
    )
    owner = f"{socket.gethostname()[:40]}/{secrets.token_hex(8)}"
    worker = BatchWorker(
        store=every,
        queue=queue,
        cache=cache,
        instruments=unhurried,
        telemetry=instruments.telemetry,
        owner=owner,
        concurrency=settings.judge_concurrency,
        lease_seconds=settings.lease_seconds,
        own=own,
        provider=provider,
        chores=[
            *list_chores(settings, engine, instruments),
            # A worker of some batches alone leaves live conversations to others.
            *(list_live_chores(settings, engine, batches, unhurried, owner) if own is None else []),
        ],
    )
    pairs = replace(
        batches,
        store=open_store(unit="pair"),
        new_id=partial(new_batch_id, "pf_", own),
        absent=Message("preference-run-not-found"),
    )
    return batches, pairs, worker


def open_preferences(
    engine: AsyncEngine, batches: BatchService, pairs: BatchService, worker: BatchWorker
) -> PreferenceRunService:
    """The service of preference runs, whose rounds the worker goes on with."""
    preferences = PreferenceRunService(pairs, batches.store, SourceStore(engine), PreferenceStore(engine))
    rounds = Rounds(
        worker.store,
        preferences.looks,
        preferences.sources,
        preferences.open_source,
        limit=pairs.limits.batch_items,
        quota=pairs.quota,
    )
    worker.grow = rounds.advance
    return preferences


def list_chores(settings: Settings, engine: AsyncEngine, instruments: ScoringContext) -> list[Chore]:
    """What a worker does from time to time: it removes what is kept no longer, and frees what others hold."""
    policies, live = PolicyStore(engine), LiveStore(engine)
    return [
        partial(keep_ending_frozen, engine),
        partial(keep_measuring_clock, engine, instruments.telemetry.clock),
        Retention(policies=policies, texts=TextStore(engine), now=instruments.now).run,
        TraceUpkeep(
            store=live,
            policies=policies,
            days=settings.trace_days,
            now=instruments.now,
            tell=instruments.telemetry.conversations,
        ).run,
    ]


def list_live_chores(
    settings: Settings, engine: AsyncEngine, batches: BatchService, instruments: ScoringContext, owner: str
) -> list[Chore]:
    """What a worker does for live conversations: it hands them over to be scored, and sends their scores."""
    monitors = MonitorWork(
        store=MonitorStore(engine),
        conversations=LiveStore(engine),
        batches=batches.store,
        queue=batches.queue,
        instruments=instruments,
        policies=PolicyStore(engine),
        limits=settings.limits,
        new_id=new_id,
        owner=owner,
        window=batches.window,
    )
    sender = Sender(
        outbox=OutboxStore(engine),
        keys=find_sinks(settings),
        open_client=open_client,
        now=instruments.now,
        telemetry=instruments.telemetry,
    )
    return [monitors.run, sender.run]


def open_all(settings: Settings, ground: Ground, instruments: ScoringContext) -> dict[type, Any]:
    """The services of single capabilities, by class; that of monitors sets what the intake of traces goes by."""
    services = open_services(ground)

    def has_price(rubric: str, judge: JudgeOptions) -> bool:
        from saiten_server.scoring import limits  # no start of the service is to wait for it

        return limits.has_price(rubric, judge, instruments)

    monitors = MonitorService(
        store=MonitorStore(ground.engine),
        intake=services[TraceIntake],
        rubrics=instruments.rubrics,
        sinks=find_sinks(settings),
        outbox=OutboxStore(ground.engine),
        now=ground.now,
        new_id=ground.new_id,
        has_price=has_price,
    )
    return {**services, MonitorService: monitors}


def find_sinks(settings: Settings) -> SinkKeys:
    """The services that monitors may send to."""
    return read_sinks(settings.sinks.get_secret_value() if settings.sinks else None)


def open_queue(settings: Settings, stack: AsyncExitStack) -> JobQueue:
    """SAQ over Redis, or a queue in this process."""
    if settings.redis_url is None:
        return AsyncioJobQueue()
    from saiten_server.runs.redis_queue import SAQJobQueue

    queue = SAQJobQueue(settings.redis_url)
    stack.push_async_callback(queue.close)
    return queue


def open_provider(
    settings: Settings,
    engine: AsyncEngine,
    stack: AsyncExitStack,
    *,
    store: BatchStore,
    queue: JobQueue,
    cache: CallCache,
    instruments: ScoringContext,
) -> ProviderRun | None:
    """The provider's own batch mode; None if the judge has none."""
    provider = registry.find_judge(settings).open_batches(settings)
    if provider is None:
        return None
    stack.push_async_callback(provider.close)
    from saiten_server.providers.ports import DeferringJudge
    from saiten_server.runs.provider_run import ProviderRun
    from saiten_server.runs.store.provider_batches import ProviderBatchStore

    if not isinstance(instruments.judge, DeferringJudge):
        return None
    return ProviderRun(
        store=store,
        queue=queue,
        provider_batches=ProviderBatchStore(engine),
        provider=provider,
        judge=instruments.judge,
        cache=cache,
        instruments=instruments,
        owner=secrets.token_hex(8),
        poll_seconds=settings.provider_poll_seconds,
        longest_pause_seconds=settings.longest_pause_seconds,
    )


def open_meta(
    settings: Settings,
    stack: AsyncExitStack,
    *,
    engine: AsyncEngine,
    flow: FlowControl,
    instruments: ScoringContext,
    quota: StorageQuota,
) -> tuple[RatingServices, ComparisonService]:
    """Opens the services for human ratings and for comparisons."""
    store, batches = RatingStore(engine), BatchStore(engine)
    revalidation = Revalidation()
    reliabilities = Reliabilities(store, renew=lambda project: revalidation.ask(project, [None], removed=True))
    # Anchors bypass the call cache, which would repeat what the judge answered earlier.
    judge = registry.open_judge(settings, CachedCalls(NoCallCache(), instruments.telemetry), flow)
    stack.push_async_callback(judge.close)
    stack.push_async_callback(revalidation.close)
    runs = RunReader(batches, FrameStore(engine))
    comparison = ComparisonService(
        batches=batches,
        runs=runs,
        ratings=store,
        rubrics=instruments.rubrics,
        reliabilities=reliabilities,
        anchors=AnchorCheck(
            replace(instruments, judge=judge, lane="batch"),
            AnchorStore(engine),
            AuditLog(engine),
            now=instruments.now,
        ),
        now=instruments.now,
        links=LinkService(
            batches=batches,
            runs=runs,
            links=LinkStore(engine),
            rubrics=instruments.rubrics,
            now=instruments.now,
            new_id=lambda: new_id("ln_"),
        ),
        baselines=BaselineStore(engine),
        sequences=SequenceService(batches=batches, store=SequenceStore(engine), now=instruments.now),
        gates=GateArchive(
            batches=batches,
            store=GateStore(engine),
            quota=quota,
            now=instruments.now,
            new_id=lambda: new_id("ga_"),
        ),
        telemetry=instruments.telemetry,
    )
    ratings = open_ratings(settings, comparison, revalidation, engine=engine, instruments=instruments, quota=quota)
    return ratings, comparison


def open_ratings(
    settings: Settings,
    comparison: ComparisonService,
    revalidation: Revalidation,
    *,
    engine: AsyncEngine,
    instruments: ScoringContext,
    quota: StorageQuota,
) -> RatingServices:
    """Opens the services for human ratings, after which badges are renewed by `comparison`."""
    store, batches = RatingStore(engine), BatchStore(engine)
    revalidation.begin(
        BadgeRenewal(
            analyse=comparison.analyse,
            batches=batches,
            ratings=store,
            reliabilities=comparison.reliabilities,
            now=instruments.now,
        )
    )
    service = RatingService(
        batches=batches,
        ratings=store,
        rubrics=instruments.rubrics,
        now=instruments.now,
        revalidation=revalidation,
        quota=quota,
    )
    rounds = RoundService(
        batches=batches,
        rounds=RoundStore(engine),
        ratings=service,
        rubrics=instruments.rubrics,
        now=instruments.now,
        new_id=lambda: new_id("rr_"),
        limits=settings.limits,
        quota=quota,
    )
    people = HumanPreferences(store=HumanPreferenceStore(engine), batches=batches, quota=quota, now=instruments.now)
    pairs = PairRounds(rounds=rounds, preferences=people, new_id=rounds.new_id, limits=settings.limits)
    return RatingServices(service, rounds, pairs, InvitationStore(engine), comparison.reliabilities)


def open_dashboard(
    settings: Settings,
    engine: AsyncEngine,
    stack: AsyncExitStack,
    *,
    comparison: ComparisonService,
    instruments: ScoringContext,
    quota: StorageQuota,
) -> Dashboard:
    """Opens what only the dashboard's pages need."""
    computations, readings = Computations(now=instruments.now), Computations(now=instruments.now, of_one=READINGS)
    stack.push_async_callback(computations.close)
    stack.push_async_callback(readings.close)
    charts = ChartRenderer(open_executor=open_process)
    stack.callback(charts.close)
    ratings, rubrics = RatingStore(engine), instruments.rubrics
    explorer = CaseExplorer(
        frames=comparison.runs.frames, search=TextSearch(engine), ratings=ratings, now=instruments.now
    )
    stack.push_async_callback(explorer.close)
    return Dashboard(
        browser=ResultBrowser(engine),
        charts=charts,
        computations=computations,
        readings=readings,
        overviews=Overviews(runs=comparison.runs, ratings=ratings, rubrics=rubrics, compute=comparison.compute),
        explorer=explorer,
    )


@asynccontextmanager
async def working(container: Container, stopping: asyncio.Event) -> AsyncIterator[None]:
    """Runs the worker in this process if the queue is embedded, until `stopping` or the end of the context. With Redis,
    other processes work, and this one only measures the queue."""
    if container.settings.redis_url is not None:
        watch = asyncio.create_task(container.worker.watch())
        try:
            yield
        finally:
            await end_tasks([watch])
        return
    work = asyncio.create_task(keep_working(container.worker))

    async def cancel_on_stop() -> None:
        await stopping.wait()
        work.cancel()  # it then finishes what it has begun

    watch = asyncio.create_task(cancel_on_stop())
    try:
        yield
    finally:
        await end_tasks([watch])
        # Cancel once only: a second cancellation would interrupt the orderly stop that `stopping` has begun.
        if not work.cancelling():
            work.cancel()
        await asyncio.wait([work])


async def keep_working(worker: BatchWorker, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Runs the worker until cancelled. After an unexpected error the worker is started again: otherwise the service
    would accept batches that are never scored."""
    while True:
        try:
            await worker.run()
        except Exception:
            logger.exception("the worker failed and starts again")
            # Cancelled while it released its leases: the failure has replaced the cancellation.
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise asyncio.CancelledError from None
        await sleep(RESTART_SECONDS)


@asynccontextmanager
async def warming(settings: Settings) -> AsyncIterator[None]:
    """Loads what the first evaluation needs soon after the start, so that it need not wait. Only for processes that
    serve: others load it when they first need it."""
    task = asyncio.create_task(warm_up(settings))
    try:
        yield
    finally:
        await end_tasks([task])


async def warm_up(settings: Settings, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Loads in a thread what inspects texts and the clients of the judge and the translator, and warns of configured
    encoders that cannot be loaded. A client that cannot be loaded is logged; its first call fails with the same error.
    """
    await sleep(WARM_SECONDS)
    await asyncio.to_thread(prepare_inspection)
    try:
        await asyncio.to_thread(registry.load_clients, settings)
    except ImportError:
        logger.exception("the client of the judge or the translator cannot be loaded")
    set_aside()
    if settings.encoder or settings.encoders:
        for fault in await asyncio.to_thread(registry.find_encoder_faults, settings):
            logger.warning("%s", printable(str(fault)))


def announce(container: Container) -> None:
    """Logs which judge is used, and why."""
    settings, judge = container.settings, container.scoring.context.judge
    if judge.kind == "lexical":
        why = "as SAITEN_JUDGE says" if settings.judge else "because neither OPENAI_API_KEY nor OPENAI_BASE_URL is set"
        logger.warning("judge: %s, %s; it is a baseline and a smoke test, not an LLM judge", judge.kind, why)
    else:
        logger.info("judge: %s, model %s", judge.kind, judge.default_model)
