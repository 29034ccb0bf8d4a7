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

from prometheus_client import CollectorRegistry
from sqlalchemy.ext.asyncio import AsyncEngine

from app import openers
from app.adapters.memory_cache import NoCallCache
from app.adapters.speech_check import SpeechChecks
from app.adapters.sql.batches.store import SQLBatchStore
from app.adapters.sql.browsing import SQLResultBrowser
from app.adapters.sql.keys import SQLKeyring
from app.adapters.sql.meta.store import SQLMetaStore
from app.adapters.sql.rounds import SQLRoundStore
from app.adapters.sql.store import SQLStore
from app.adapters.telemetry import PrometheusTelemetry
from app.batches.desk import BatchDesk
from app.batches.worker import BatchWorker, window_of
from app.browse_ports import ResultBrowser
from app.call_cache import CachedCalls
from app.cancellation import end_tasks
from app.charts.engine import open_process
from app.charts.render import ChartRenderer
from app.flow.control import FlowControl
from app.meta.anchors import AnchorCheck
from app.meta.computations import Computations
from app.meta.desk import MetaDesk
from app.meta.examination import Examiner
from app.meta.overview import Overviews
from app.meta.reliabilities import Reliabilities
from app.meta.revalidation import BadgeRenewal, Revalidation
from app.meta.rounds import RoundDesk
from app.pipeline import Instruments
from app.ports import CallCache, Keyring, Store, Telemetry
from app.relevance import Relevance
from app.settings import Settings

logger = logging.getLogger("saiten")

RESTART_SECONDS = 1.0
"""Between the failure of this process's own worker and its next start."""


@dataclass(frozen=True)
class Service:
    """A running Saiten: what the web, the command line and workers stand on.

    `worker` works on batches once somebody runs it: the service itself where the queue is embedded, else
    `saiten worker`.
    """

    settings: Settings
    instruments: Instruments
    store: Store
    desk: BatchDesk
    meta: MetaDesk
    reliabilities: Reliabilities
    browser: ResultBrowser
    rounds: RoundDesk
    examiner: Examiner
    overview: Overviews
    computations: Computations
    charts: ChartRenderer
    worker: BatchWorker
    keyring: Keyring
    telemetry: PrometheusTelemetry
    encoder_settings: dict[str, str] | None


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[Service]:
    """Builds everything that `settings` ask for, and closes it in reverse order.

    Raises SettingsInvalid, RubricInvalid or StoreUnavailable, each with one sentence for the operator.
    """
    async with AsyncExitStack() as stack:
        engine = await openers.open_database(settings, stack)
        redis = openers.open_redis(settings, stack)
        store, telemetry = SQLStore(engine), PrometheusTelemetry(CollectorRegistry())
        cache = openers.open_cache(settings, engine, redis)
        stack.push_async_callback(cache.close)
        flow = openers.open_flow(settings, redis)
        stack.push_async_callback(flow.close)
        telemetry.flow(flow.figures)
        instruments = open_instruments(settings, stack, flow=flow, store=store, cache=cache, telemetry=telemetry)
        desk, worker = open_batches(settings, stack, engine=engine, cache=cache, instruments=instruments)
        meta, reliabilities = open_meta(settings, stack, engine=engine, flow=flow, instruments=instruments)
        batches, ratings, rubrics = SQLBatchStore(engine), SQLMetaStore(engine), instruments.rubrics
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
            browser=SQLResultBrowser(engine),
            rounds=RoundDesk(
                batches=batches,
                rounds=SQLRoundStore(engine),
                ratings=meta,
                rubrics=rubrics,
                now=instruments.now,
                new_id=lambda: new_id("rr_"),
                limits=settings.limits,
            ),
            examiner=Examiner(batches=batches, rubrics=rubrics, compute=meta.compute),
            overview=Overviews(batches=batches, ratings=ratings, rubrics=rubrics, compute=meta.compute),
            computations=computations,
            charts=charts,
            worker=worker,
            keyring=SQLKeyring(engine),
            telemetry=telemetry,
            encoder_settings=openers.describe_encoder(settings),
        )


def open_instruments(
    settings: Settings,
    stack: AsyncExitStack,
    *,
    flow: FlowControl,
    store: Store,
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
    relevance = Relevance(encoder, store, calls, timeout_seconds=settings.encoder_timeout_seconds)
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
    )


def open_batches(
    settings: Settings, stack: AsyncExitStack, *, engine: AsyncEngine, cache: CallCache, instruments: Instruments
) -> tuple[BatchDesk, BatchWorker]:
    """Where batches are handed in, and who works on them."""
    window = window_of(settings.judge_concurrency)
    store, queue = SQLBatchStore(engine, window=window), openers.open_queue(settings, stack)
    unhurried = replace(instruments, lane="batch")
    provider = openers.open_provider(
        settings, engine, stack, store=store, queue=queue, cache=cache, instruments=unhurried
    )
    desk = BatchDesk(
        store=store,
        queue=queue,
        instruments=instruments,
        cache=cache,
        limits=settings.limits,
        new_id=lambda: new_id("ba_"),
        window=window,
        provider=provider,
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
        provider=provider,
    )
    return desk, worker


def open_meta(
    settings: Settings, stack: AsyncExitStack, *, engine: AsyncEngine, flow: FlowControl, instruments: Instruments
) -> tuple[MetaDesk, Reliabilities]:
    """Where callers ask what scores mean."""
    store = SQLMetaStore(engine)
    reliabilities = Reliabilities(store)
    # Anchors are asked past the cache, which would answer as the judge did when it was filled.
    judge = openers.open_judge(settings, CachedCalls(NoCallCache(), instruments.telemetry), flow)
    stack.push_async_callback(judge.close)
    batches, revalidation = SQLBatchStore(engine), Revalidation()
    stack.push_async_callback(revalidation.close)
    desk = MetaDesk(
        batches=batches,
        ratings=store,
        rubrics=instruments.rubrics,
        reliabilities=reliabilities,
        anchors=AnchorCheck(replace(instruments, judge=judge, lane="batch"), store, now=instruments.now),
        now=instruments.now,
        revalidation=revalidation,
    )
    revalidation.begin(
        BadgeRenewal(
            analyse=desk.analyse, batches=batches, ratings=store, reliabilities=reliabilities, now=instruments.now
        )
    )
    return desk, reliabilities


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
        await sleep(RESTART_SECONDS)


async def stop_on(stopping: asyncio.Event, work: asyncio.Task[None]) -> None:
    """Cancels the work when it is time: it then finishes what is in hand."""
    await stopping.wait()
    work.cancel()


def announce(service: Service) -> None:
    """Says once which judge rates, and why."""
    settings, judge = service.settings, service.instruments.judge
    if judge.kind == "lexical":
        why = "as SAITEN_JUDGE says" if settings.judge else "because OPENAI_API_KEY is not set"
        logger.warning("judge: lexical, %s; it is a baseline and a smoke test, not an LLM judge", why)
    else:
        logger.info("judge: %s, model %s", judge.kind, judge.default_model)
