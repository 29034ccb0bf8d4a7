"""Builds each part of the service from the settings. The container decides on the order, and closes the parts."""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from app import __version__
from app.domain.errors import SettingsInvalid
from app.providers import registry
from app.providers.call_cache import CachedCalls, CallCache
from app.providers.flow_control import FlowControl
from app.providers.flow_state import FlowLimits, LocalFlowState
from app.providers.ports import Encoder, Judge, Translator
from app.runtime.settings import Settings
from app.runtime.telemetry import Telemetry
from app.storage.memory import MemoryCallCache, NearCallCache, NoCallCache
from app.storage.queue import AsyncioJobQueue, JobQueue
from app.storage.request_windows import RequestLimiter
from app.storage.rubric_files import RubricFiles, RubricSource, default_folder

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from sqlalchemy.ext.asyncio import AsyncEngine

    from app.batches.provider_run import ProviderRun
    from app.runtime.tracing import Tracing
    from app.scoring.evaluate import ScoringContext
    from app.storage.sql.batches.store import BatchStore


def open_tracing(settings: Settings) -> Tracing | None:
    """The recorder of traces; None if they are off, in which case OpenTelemetry is not imported. Raises SettingsInvalid
    if OpenTelemetry is not installed or one of its variables is invalid."""
    if settings.tracing == "off":
        return None
    try:
        from app.runtime.tracing import Tracing
    except ModuleNotFoundError as error:
        raise SettingsInvalid(f"SAITEN_TRACING=otlp needs {error.name}; install saiten-server[tracing]") from error
    return Tracing(__version__)


async def open_database(settings: Settings, stack: AsyncExitStack) -> AsyncEngine:
    """The engine, with its schema up to date."""
    from app.storage.sql.engine import close_engine, open_engine
    from app.storage.sql.schema import migrate

    engine = open_engine(settings.sqlalchemy_url)
    stack.push_async_callback(close_engine, engine)
    await migrate(engine)
    return engine


def open_redis(settings: Settings, stack: AsyncExitStack) -> Redis | None:
    """A client for cache and flow control; None without REDIS_URL. It connects at the first use, because Redis may be
    unreachable."""
    if settings.redis_url is None:
        return None
    from redis.asyncio import Redis

    seconds = settings.redis_timeout_seconds
    client = Redis.from_url(
        settings.redis_url, socket_timeout=seconds, socket_connect_timeout=seconds, health_check_interval=15
    )
    stack.push_async_callback(client.aclose)
    return client


def open_queue(settings: Settings, stack: AsyncExitStack) -> JobQueue:
    """SAQ over Redis, or a queue in this process."""
    if settings.redis_url is None:
        return AsyncioJobQueue()
    from app.storage.redis.queue import SAQJobQueue

    queue = SAQJobQueue(settings.redis_url)
    stack.push_async_callback(queue.close)
    return queue


def open_rubrics(settings: Settings) -> RubricSource:
    """The shipped rubrics, and the operator's own."""
    own = [Path(settings.rubrics)] if settings.rubrics else []
    return RubricFiles([default_folder(), *own])


def open_cache(settings: Settings, engine: AsyncEngine, redis: Redis | None) -> CallCache:
    """The cache for replies of outside calls. A small cache in this process goes before one outside it."""
    if settings.cache_kind == "redis" and redis is not None:
        from app.storage.redis.cache import RedisCallCache

        shared = RedisCallCache(
            redis,
            seconds=settings.cache_seconds,
            value_bytes=settings.cache_value_bytes,
            timeout_seconds=settings.redis_timeout_seconds,
        )
        return NearCallCache(shared)
    if settings.cache_kind == "sql":
        from app.storage.sql.cache import SQLCallCache

        kept = SQLCallCache(engine, entries=settings.cache_entries, value_bytes=settings.cache_value_bytes)
        return NearCallCache(kept)
    return MemoryCallCache(entries=settings.cache_entries) if settings.cache_kind == "memory" else NoCallCache()


def open_flow(settings: Settings, redis: Redis | None) -> FlowControl:
    """Flow control of the judge's calls, for all processes that share Redis, otherwise for this process."""
    bounds = FlowLimits(
        settings.judge_concurrency, settings.judge_requests_per_minute, settings.judge_tokens_per_minute
    )
    if redis is None:
        return FlowControl(LocalFlowState(bounds))
    from app.storage.redis.flow import RedisFlowState, scope_of

    return FlowControl(RedisFlowState(redis, scope_of(settings.openai_base_url or "", settings.judge_key), bounds))


def open_limiter(redis: Redis | None) -> RequestLimiter:
    """The limiter of requests per key, for all processes that share Redis, otherwise for this process."""
    if redis is None:
        from app.storage.request_windows import MemoryRequestLimiter

        return MemoryRequestLimiter()
    from app.storage.redis.request_limits import RedisRequestLimiter

    return RedisRequestLimiter(redis)


def open_judge(settings: Settings, calls: CachedCalls, flow: FlowControl) -> Judge:
    """The judge that the settings name or imply. A baseline never replaces another judge. Raises SettingsInvalid."""
    provider = registry.find_judge(settings)
    provider.check(settings)
    return provider.open(settings, calls, flow)


def load_clients(settings: Settings) -> None:
    """Imports the modules for calls to judge and translator, which takes most of a second. Run it in a thread once the
    service is ready; an earlier call imports them itself."""
    translator = registry.find_translator(settings)
    for module in (*registry.find_judge(settings).preload, *(translator.preload if translator else ())):
        import_module(module)


def open_translator(settings: Settings, cache: CallCache, telemetry: Telemetry) -> Translator | None:
    """The translator, if one is configured."""
    provider = registry.find_translator(settings)
    return provider.open(settings, cache, telemetry) if provider else None


def open_encoder(settings: Settings) -> Encoder | None:
    """The encoder, unless it is off."""
    provider = registry.find_encoder(settings)
    return provider.open(settings) if provider else None


def find_encoder_faults(settings: Settings) -> list[str]:
    """One sentence per configured encoder that is unavailable, with what was tried. It may query a hub, so run it in a
    thread."""
    provider = registry.find_encoder(settings)
    return provider.find_faults(settings) if provider else []


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
    from app.batches.provider_run import ProviderRun
    from app.providers.ports import DeferringJudge
    from app.storage.sql.provider_batches import ProviderBatchStore

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
    )
