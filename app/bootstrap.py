"""The only place that builds adapters, and the only one that reads settings to do so."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from app import openers
from app.adapters.sql.batches.store import SQLBatchStore
from app.adapters.sql.keys import SQLKeyring
from app.adapters.sql.store import SQLStore
from app.adapters.telemetry import PrometheusTelemetry
from app.batches.desk import BatchDesk
from app.batches.worker import BatchWorker, end_tasks, window_of
from app.call_cache import CachedCalls
from app.pipeline import Instruments
from app.ports import Keyring, Store
from app.relevance import Relevance
from app.settings import Settings

logger = logging.getLogger("saiten")


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
        rubrics = openers.open_rubrics(settings)
        engine = await openers.open_database(settings, stack)
        redis = openers.open_redis(settings, stack)
        store, batches = SQLStore(engine), SQLBatchStore(engine, window=window_of(settings.judge_concurrency))
        telemetry = PrometheusTelemetry(CollectorRegistry())
        cache = openers.open_cache(settings, engine, redis)
        stack.push_async_callback(cache.close)
        calls = CachedCalls(cache, telemetry)
        flow = openers.open_flow(settings, redis)
        stack.push_async_callback(flow.close)
        judge = openers.open_judge(settings, calls, flow)
        stack.push_async_callback(judge.close)
        translator = openers.open_translator(settings, cache, telemetry)
        if translator is not None:
            stack.push_async_callback(translator.close)
        relevance = Relevance(
            openers.open_encoder(settings), store, calls, timeout_seconds=settings.encoder_timeout_seconds
        )
        stack.push_async_callback(relevance.close)
        instruments = Instruments(
            rubrics=rubrics,
            judge=judge,
            translator=translator,
            relevance=relevance,
            telemetry=telemetry,
            now=lambda: datetime.now(UTC),
            new_id=lambda: new_id("ev_"),
        )
        queue = openers.open_queue(settings, stack)
        provider = openers.open_provider(
            settings,
            engine,
            stack,
            store=batches,
            queue=queue,
            cache=cache,
            instruments=replace(instruments, lane="batch"),
        )
        desk = BatchDesk(
            store=batches,
            queue=queue,
            instruments=instruments,
            cache=cache,
            limits=settings.limits,
            new_id=lambda: new_id("ba_"),
            window=window_of(settings.judge_concurrency),
            provider=provider,
        )
        worker = BatchWorker(
            store=batches,
            queue=queue,
            cache=cache,
            instruments=replace(instruments, lane="batch"),
            telemetry=telemetry,
            owner=f"{socket.gethostname()[:40]}/{secrets.token_hex(8)}",
            concurrency=settings.judge_concurrency,
            lease_seconds=settings.lease_seconds,
            provider=provider,
        )
        yield Service(
            settings,
            instruments,
            store,
            desk,
            worker,
            SQLKeyring(engine),
            telemetry,
            openers.describe_encoder(settings),
        )


def new_id(prefix: str) -> str:
    """An id that nobody guesses."""
    return prefix + secrets.token_hex(12)


@asynccontextmanager
async def working(service: Service, stopping: asyncio.Event) -> AsyncIterator[None]:
    """Works on batches in this process where the queue is embedded, until `stopping` or the end of the context."""
    if service.settings.redis_url is not None:
        yield
        return
    work = asyncio.create_task(service.worker.run())
    watch = asyncio.create_task(stop_on(stopping, work))
    try:
        yield
    finally:
        await end_tasks([watch, work])


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
