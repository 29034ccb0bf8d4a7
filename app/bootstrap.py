"""The only place that builds adapters, and the only one that reads settings to do so."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from sqlalchemy.ext.asyncio import AsyncEngine

from app import openers
from app.adapters.memory_cache import NoCallCache
from app.adapters.speech_check import SpeechChecks
from app.adapters.sql.batches.store import BatchStore
from app.adapters.sql.browsing import ResultBrowser
from app.adapters.sql.evaluations import EvaluationStore
from app.adapters.sql.governance import AuditLog, PolicyStore, SpendingStore
from app.adapters.sql.keys import APIKeyStore
from app.adapters.sql.ratings import RatingStore
from app.adapters.sql.rounds import RoundStore
from app.adapters.sql.texts import TextStore
from app.adapters.telemetry import PrometheusTelemetry, open_no_span
from app.batches.queue import QueueLimits
from app.batches.service import BatchService
from app.batches.worker import BatchWorker, window_of
from app.call_cache import CachedCalls
from app.cancellation import end_tasks
from app.charts.render import ChartRenderer, open_process
from app.flow.control import FlowControl
from app.governance.erasures import ErasureDesk
from app.governance.integrity import RecentPolicies
from app.governance.retention import Retention
from app.memory import set_aside
from app.meta.anchors import AnchorCheck
from app.meta.computations import Computations
from app.meta.desk import MetaDesk
from app.meta.examination import Examiner
from app.meta.overview import Overviews
from app.meta.reliabilities import Reliabilities
from app.meta.revalidation import BadgeRenewal, Revalidation
from app.meta.rounds import RoundDesk
from app.pipeline import Instruments
from app.ports import CallCache, RequestLimiter, Telemetry
from app.providers.registry import is_baseline
from app.relevance import Relevance
from app.settings import Settings

if TYPE_CHECKING:
    from app.adapters.tracing import Tracing

logger = logging.getLogger("saiten")

RESTART_SECONDS = 1.0
"""Between the failure of this process's own worker and its next start."""

WARM_SECONDS = 0.25
"""From the start until what only calls need is loaded: whoever waits for readiness is told first."""


@dataclass(frozen=True)
class Service:
    """A running Saiten: what the web, the command line and workers stand on.

    `worker` works on batches once somebody runs it: the service itself where the queue is embedded, else
    `saiten worker`.
    """

    settings: Settings
    instruments: Instruments
    store: EvaluationStore
    desk: BatchService
    meta: MetaDesk
    reliabilities: Reliabilities
    browser: ResultBrowser
    rounds: RoundDesk
    examiner: Examiner
    overview: Overviews
    computations: Computations
    charts: ChartRenderer
    worker: BatchWorker
    keyring: APIKeyStore
    audit: AuditLog
    policies: RecentPolicies
    erasures: ErasureDesk
    limiter: RequestLimiter
    spending: SpendingStore
    telemetry: PrometheusTelemetry
    encoder_settings: dict[str, str] | None


@asynccontextmanager
async def open_service(
    settings: Settings, tracing: Tracing | None = None, *, own: set[str] | None = None
) -> AsyncIterator[Service]:
    """Builds everything that `settings` ask for, and closes it in reverse order; `tracing`, which is told of it, last.

    `own`: the ids of the only batches that the worker works on; those that are handed in here are added.

    Raises SettingsInvalid, RubricInvalid or StoreUnavailable, each with one sentence for the operator.
    """
    async with AsyncExitStack() as stack:
        if tracing is not None:
            stack.push_async_callback(tracing.close)
        engine = await openers.open_database(settings, stack)
        if tracing is not None:
            tracing.watch(engine)
        redis = openers.open_redis(settings, stack)
        store, spending = EvaluationStore(engine), SpendingStore(engine)
        stack.push_async_callback(spending.close)
        stack.push_async_callback(store.close)
        telemetry = PrometheusTelemetry(CollectorRegistry(), tracing.span if tracing else open_no_span)
        cache = openers.open_cache(settings, engine, redis)
        stack.push_async_callback(cache.close)
        flow = openers.open_flow(settings, redis)
        stack.push_async_callback(flow.close)
        telemetry.flow(flow.figures)
        limiter = openers.open_limiter(redis)
        stack.push_async_callback(limiter.close)
        instruments = open_instruments(settings, stack, flow=flow, store=store, cache=cache, telemetry=telemetry)
        desk, worker = open_batches(settings, stack, engine=engine, cache=cache, instruments=instruments, own=own)
        meta, reliabilities = open_meta(settings, stack, engine=engine, flow=flow, instruments=instruments)
        batches, ratings, rubrics = BatchStore(engine), RatingStore(engine), instruments.rubrics
        audit = AuditLog(engine)
        computations = Computations(now=instruments.now)
        stack.push_async_callback(computations.close)
        charts = ChartRenderer(open_executor=open_process)
        stack.callback(charts.close)
        yield Service(
            settings=settings,
            instruments=instruments,
            store=store,
            desk=desk,
            meta=meta,
            reliabilities=reliabilities,
            browser=ResultBrowser(engine),
            rounds=open_rounds(settings, engine=engine, batches=batches, meta=meta, instruments=instruments),
            examiner=Examiner(batches=batches, rubrics=rubrics, compute=meta.compute),
            overview=Overviews(batches=batches, ratings=ratings, rubrics=rubrics, compute=meta.compute),
            computations=computations,
            charts=charts,
            worker=worker,
            keyring=APIKeyStore(engine),
            audit=audit,
            policies=RecentPolicies(PolicyStore(engine)),
            erasures=open_erasures(engine, batches=batches, cache=cache, audit=audit, now=instruments.now),
            limiter=limiter,
            spending=spending,
            telemetry=telemetry,
            encoder_settings=openers.describe_encoder(settings),
        )


def open_instruments(
    settings: Settings,
    stack: AsyncExitStack,
    *,
    flow: FlowControl,
    store: EvaluationStore,
    cache: CallCache,
    telemetry: Telemetry,
) -> Instruments:
    """What an evaluation is made with."""
    rubrics = openers.open_rubrics(settings)
    calls = CachedCalls(cache, telemetry)
    judge = openers.open_judge(settings, calls, flow)
    stack.push_async_callback(judge.close)
    translator = openers.open_translator(settings, cache, telemetry)
    if translator is not None:
        stack.push_async_callback(translator.close)
    encoder = openers.open_encoder(settings)
    # Where the extra is left out there is no encoder by choice: nothing fails, as with SAITEN_ENCODER=off.
    told = telemetry if openers.can_encode(settings) else None
    relevance = Relevance(encoder, store, calls, telemetry=told, timeout_seconds=settings.encoder_timeout_seconds)
    stack.push_async_callback(relevance.close)
    return Instruments(
        rubrics=rubrics,
        judge=judge,
        translator=translator,
        relevance=relevance,
        telemetry=telemetry,
        speech=SpeechChecks(),
        now=lambda: datetime.now(UTC),
        new_id=lambda: new_id("ev_"),
        tries=1 + settings.judge_malformed_retries,
    )


def open_batches(
    settings: Settings,
    stack: AsyncExitStack,
    *,
    engine: AsyncEngine,
    cache: CallCache,
    instruments: Instruments,
    own: set[str] | None,
) -> tuple[BatchService, BatchWorker]:
    """Where batches are handed in, and who works on them."""

    def new_batch_id() -> str:
        batch_id = new_id("ba_")
        if own is not None:
            own.add(batch_id)
        return batch_id

    window = window_of(settings.judge_concurrency)
    store = BatchStore(engine, window=window, usd_per_day=settings.key_usd_per_day)
    queue = openers.open_queue(settings, stack)
    unhurried = replace(instruments, lane="batch")
    provider = openers.open_provider(
        settings, engine, stack, store=store, queue=queue, cache=cache, instruments=unhurried
    )
    desk = BatchService(
        store=store,
        queue=queue,
        instruments=instruments,
        cache=cache,
        limits=settings.limits,
        new_id=new_batch_id,
        window=window,
        provider=provider,
        queue_limits=QueueLimits(everybody=settings.most_queued, project=settings.project_queued),
    )
    worker = BatchWorker(
        store=store,
        queue=queue,
        cache=cache,
        instruments=unhurried,
        telemetry=instruments.telemetry,
        owner=f"{socket.gethostname()[:40]}/{secrets.token_hex(8)}",
        concurrency=settings.judge_concurrency,
        lease_seconds=settings.lease_seconds,
        own=own,
        provider=provider,
        chores=[Retention(policies=PolicyStore(engine), texts=TextStore(engine), now=instruments.now).run],
    )
    return desk, worker


def open_meta(
    settings: Settings, stack: AsyncExitStack, *, engine: AsyncEngine, flow: FlowControl, instruments: Instruments
) -> tuple[MetaDesk, Reliabilities]:
    """Where callers ask what scores mean."""
    store = RatingStore(engine)
    revalidation = Revalidation()
    reliabilities = Reliabilities(store, renew=lambda project: revalidation.ask(project, [None], removed=True))
    # Anchors are asked past the cache, which would answer as the judge did when it was filled.
    judge = openers.open_judge(settings, CachedCalls(NoCallCache(), instruments.telemetry), flow)
    stack.push_async_callback(judge.close)
    batches = BatchStore(engine)
    stack.push_async_callback(revalidation.close)
    desk = MetaDesk(
        batches=batches,
        ratings=store,
        rubrics=instruments.rubrics,
        reliabilities=reliabilities,
        anchors=AnchorCheck(
            replace(instruments, judge=judge, lane="batch"),
            store,
            AuditLog(engine),
            now=instruments.now,
        ),
        now=instruments.now,
        revalidation=revalidation,
        telemetry=instruments.telemetry,
    )
    revalidation.begin(
        BadgeRenewal(
            analyse=desk.analyse, batches=batches, ratings=store, reliabilities=reliabilities, now=instruments.now
        )
    )
    return desk, reliabilities


def open_rounds(
    settings: Settings, *, engine: AsyncEngine, batches: BatchStore, meta: MetaDesk, instruments: Instruments
) -> RoundDesk:
    """Where people are asked for ratings of a batch's responses."""
    return RoundDesk(
        batches=batches,
        rounds=RoundStore(engine),
        ratings=meta,
        rubrics=instruments.rubrics,
        now=instruments.now,
        new_id=lambda: new_id("rr_"),
        limits=settings.limits,
    )


def open_erasures(
    engine: AsyncEngine, *, batches: BatchStore, cache: CallCache, audit: AuditLog, now: Callable[[], datetime]
) -> ErasureDesk:
    """Who erases what bears certain metadata, wherever it is kept."""
    return ErasureDesk(texts=TextStore(engine), batches=batches, cache=cache, audit=audit, now=now)


def new_id(prefix: str) -> str:
    """An id that nobody guesses."""
    return prefix + secrets.token_hex(12)


@asynccontextmanager
async def working(service: Service, stopping: asyncio.Event) -> AsyncIterator[None]:
    """Works on batches in this process where the queue is embedded, until `stopping` or the end of the context. With
    Redis others do, and this process tells what waits for them."""
    if service.settings.redis_url is not None:
        watch = asyncio.create_task(service.worker.watch())
        try:
            yield
        finally:
            await end_tasks([watch])
        return
    work = asyncio.create_task(keep_working(service.worker))
    watch = asyncio.create_task(stop_on(stopping, work))
    try:
        yield
    finally:
        await end_tasks([watch])
        # Once: what finishes what is in hand, since `stopping`, must not be cut short by a second time.
        if not work.cancelling():
            work.cancel()
        await asyncio.wait([work])


async def keep_working(worker: BatchWorker, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Works until cancelled. An error that the worker could not deal with is logged, and the work is begun anew: else
    the service would go on taking batches that nobody scores."""
    while True:
        try:
            await worker.run()
        except Exception:
            logger.exception("the worker failed, and begins anew")
            # Cancelled as it handed back what it held: the failure took the cancellation's place.
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise asyncio.CancelledError from None
        await sleep(RESTART_SECONDS)


async def stop_on(stopping: asyncio.Event, work: asyncio.Task[None]) -> None:
    """Cancels the work when it is time: it then finishes what is in hand."""
    await stopping.wait()
    work.cancel()


@asynccontextmanager
async def warming(settings: Settings) -> AsyncIterator[None]:
    """Loads, soon after the start of the context, what the first outside calls would else wait for. For processes that
    serve: the others load it if they call at all."""
    task = asyncio.create_task(warm_up(settings))
    try:
        yield
    finally:
        await end_tasks([task])


async def warm_up(settings: Settings, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Loads the clients in a thread. Where one cannot be loaded that is logged, and its first call fails likewise. Then
    says which encoders that the settings name are not to be had."""
    await sleep(WARM_SECONDS)
    try:
        await asyncio.to_thread(openers.load_clients, settings)
    except ImportError:
        logger.exception("what calls the judge or the translator cannot be loaded")
    set_aside()
    if settings.encoder or settings.encoders:
        for fault in await asyncio.to_thread(openers.find_encoder_faults, settings):
            logger.warning("%s", fault)


def announce(service: Service) -> None:
    """Says once which judge rates, and why."""
    settings, judge = service.settings, service.instruments.judge
    if is_baseline(judge.kind):
        why = "as SAITEN_JUDGE says" if settings.judge else "because neither OPENAI_API_KEY nor OPENAI_BASE_URL is set"
        logger.warning("judge: %s, %s; it is a baseline and a smoke test, not an LLM judge", judge.kind, why)
    else:
        logger.info("judge: %s, model %s", judge.kind, judge.default_model)
