"""Builds what an evaluation needs from the settings: judge, translator, encoder, call cache and flow control."""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from saiten_server.platform.flow_state import FlowLimits, FlowState, LocalFlowState
from saiten_server.platform.helpers import Helpers, open_process
from saiten_server.platform.memory_cache import CallCache, MemoryCallCache, NearCallCache, NoCallCache
from saiten_server.platform.settings import Settings
from saiten_server.platform.telemetry import Telemetry
from saiten_server.providers import registry
from saiten_server.providers.call_cache import CachedCalls
from saiten_server.providers.flow_control import FlowControl
from saiten_server.scoring.evaluate import ScoringContext
from saiten_server.scoring.relevance import BaselineSource, Relevance
from saiten_server.scoring.rubrics.files import open_rubrics

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from sqlalchemy.ext.asyncio import AsyncEngine


def new_id(prefix: str) -> str:
    """An id that cannot be guessed, of what is stored."""
    return prefix + secrets.token_hex(12)


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


def open_cache(settings: Settings, engine: AsyncEngine | None, redis: Redis | None) -> CallCache:
    """The cache for replies of outside calls. A small cache in this process goes before one outside it."""
    if settings.cache_kind == "redis" and redis is not None:
        from saiten_server.platform.redis.cache import RedisCallCache

        shared = RedisCallCache(
            redis,
            seconds=settings.cache_seconds,
            value_bytes=settings.cache_value_bytes,
            timeout_seconds=settings.redis_timeout_seconds,
        )
        return NearCallCache(shared)
    if settings.cache_kind == "sql" and engine is not None:
        from saiten_server.platform.sql.cache import SQLCallCache

        kept = SQLCallCache(engine, entries=settings.cache_entries, value_bytes=settings.cache_value_bytes)
        return NearCallCache(kept)
    return MemoryCallCache(entries=settings.cache_entries) if settings.cache_kind == "memory" else NoCallCache()


def open_flow(settings: Settings, redis: Redis | None) -> FlowControl:
    """Flow control of the judge's calls, for all processes that share Redis, otherwise for this process."""
    bounds = FlowLimits(
        settings.judge_concurrency,
        settings.judge_requests_per_minute,
        settings.judge_tokens_per_minute,
        settings.longest_pause_seconds,
    )
    state = open_flow_state(bounds, redis, settings.openai_base_url or "", settings.judge_key)
    return FlowControl(state, longest_pause_seconds=settings.longest_pause_seconds)


def open_pauses(settings: Settings, redis: Redis | None) -> FlowState:
    """What the translator asks not to be called for, for all processes that share Redis, otherwise for this process."""
    bounds = FlowLimits(1, longest_pause_seconds=settings.longest_pause_seconds)
    key = settings.deepl_api_key
    where = f"translator {settings.deepl_server_url or ''}"
    return open_flow_state(bounds, redis if key else None, where, key.get_secret_value() if key else "")


def open_flow_state(bounds: FlowLimits, redis: Redis | None, endpoint: str, key: str) -> FlowState:
    """What all processes that share Redis know of an endpoint and key; without Redis, what this process knows."""
    if redis is None:
        return LocalFlowState(bounds)
    from saiten_server.platform.redis.flow import RedisFlowState, scope_of

    return RedisFlowState(redis, scope_of(endpoint, key), bounds)


def open_instruments(
    settings: Settings,
    stack: AsyncExitStack,
    *,
    flow: FlowControl,
    pauses: FlowState,
    store: BaselineSource,
    cache: CallCache,
    telemetry: Telemetry,
) -> ScoringContext:
    """Opens what an evaluation needs."""
    rubrics = open_rubrics(settings.rubrics)
    calls = CachedCalls(cache, telemetry)
    judge = registry.open_judge(settings, calls, flow)
    stack.push_async_callback(judge.close)
    translating = registry.find_translator(settings)
    translator = translating.open(settings, cache, telemetry, pauses) if translating else None
    if translator is not None:
        stack.push_async_callback(translator.close)
    provider = registry.find_encoder(settings)
    relevance = Relevance(
        provider.open(settings) if provider else None,
        store,
        calls,
        # Without the optional packages there is no encoder by choice, so nothing is counted as a failure.
        telemetry=telemetry if provider and provider.is_installed() else None,
        timeout_seconds=settings.encoder_timeout_seconds,
    )
    stack.push_async_callback(relevance.close)
    return ScoringContext(
        rubrics=rubrics,
        judge=judge,
        translator=translator,
        relevance=relevance,
        telemetry=telemetry,
        now=lambda: datetime.now(UTC),
        new_id=lambda: new_id("ev_"),
        tries=1 + settings.judge_malformed_retries,
        window_tokens=settings.judge_window_tokens,
        helpers=open_helpers(settings, stack),
        limits=settings.limits,
    )


HELPERS = 2
"""Processes that look through conversations. On two cores a second one still takes a fifth of the time off a batch: the
judge's replies come in waves, and one of them does not keep up."""


def open_helpers(settings: Settings, stack: AsyncExitStack) -> Helpers | None:
    """Helper processes of a service that scores by itself. With Redis, workers share the cores already: two with
    helpers took a fifth longer on two cores."""
    if settings.redis_url is not None:
        return None
    helpers = Helpers(partial(open_process, HELPERS), HELPERS)
    stack.callback(helpers.close)
    return helpers
