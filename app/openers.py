"""How each adapter is built from the settings. `bootstrap` decides in which order, and closes them."""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from app import __version__
from app.adapters.asyncio_queue import AsyncioJobQueue
from app.adapters.memory_cache import MemoryCallCache, NoCallCache
from app.adapters.near_cache import NearCallCache
from app.adapters.rubric_files import RubricFiles, default_folder
from app.adapters.sql.batches.store import BatchStore
from app.batches.queue import JobQueue
from app.call_cache import CachedCalls
from app.domain.errors import SettingsInvalid
from app.domain.plain_text import printable
from app.flow.control import FlowControl
from app.flow.local import LocalFlowState
from app.flow.state import Bounds
from app.ports import CallCache, Encoder, EncoderUnavailable, Judge, RequestLimiter, RubricSource, Telemetry, Translator
from app.settings import Settings, variable_of

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from sqlalchemy.ext.asyncio import AsyncEngine

    from app.adapters.tracing import Tracing
    from app.batches.provider_run import ProviderRun
    from app.pipeline import Instruments

HUB_SECONDS = 5.0
REDIS_SECONDS = 1.0
"""Whatever Redis does can be done without it: nobody waits longer."""


def open_tracing(settings: Settings) -> Tracing | None:
    """What records traces; None where they are off, and then nothing of OpenTelemetry is loaded.

    Raises SettingsInvalid where it is not installed, or one of its own variables cannot be read.
    """
    if settings.tracing == "off":
        return None
    try:
        from app.adapters.tracing import Tracing
    except ModuleNotFoundError as error:
        raise SettingsInvalid(f"SAITEN_TRACING=otlp needs {error.name}; install saiten[tracing]") from error
    return Tracing(__version__)


async def open_database(settings: Settings, stack: AsyncExitStack) -> AsyncEngine:
    """The engine, with its schema up to date."""
    from app.adapters.sql.engine import close_engine, open_engine
    from app.adapters.sql.schema import migrate

    engine = open_engine(settings.sqlalchemy_url)
    stack.push_async_callback(close_engine, engine)
    await migrate(engine)
    return engine


def open_redis(settings: Settings, stack: AsyncExitStack) -> Redis | None:
    """A client for cache and flow control; None without REDIS_URL. It connects at first use: Redis may be away."""
    if settings.redis_url is None:
        return None
    from redis.asyncio import Redis

    client = Redis.from_url(
        settings.redis_url, socket_timeout=REDIS_SECONDS, socket_connect_timeout=REDIS_SECONDS, health_check_interval=15
    )
    stack.push_async_callback(client.aclose)
    return client


def open_queue(settings: Settings, stack: AsyncExitStack) -> JobQueue:
    """SAQ over Redis, or a queue in this process."""
    if settings.redis_url is None:
        return AsyncioJobQueue()
    from app.adapters.saq_queue import SAQJobQueue

    queue = SAQJobQueue(settings.redis_url)
    stack.push_async_callback(queue.close)
    return queue


def open_rubrics(settings: Settings) -> RubricSource:
    """The shipped rubrics, and the operator's own."""
    own = [Path(settings.rubrics)] if settings.rubrics else []
    return RubricFiles([default_folder(), *own])


def open_cache(settings: Settings, engine: AsyncEngine, redis: Redis | None) -> CallCache:
    """Where replies of outside calls are kept; behind a short memory in this process where that is outside it."""
    if settings.cache_kind == "redis" and redis is not None:
        from app.adapters.redis.cache import RedisCallCache

        shared = RedisCallCache(redis, seconds=settings.cache_seconds, value_bytes=settings.cache_value_bytes)
        return NearCallCache(shared)
    if settings.cache_kind == "sql":
        from app.adapters.sql.cache import SQLCallCache

        kept = SQLCallCache(engine, entries=settings.cache_entries, value_bytes=settings.cache_value_bytes)
        return NearCallCache(kept)
    return MemoryCallCache(entries=settings.cache_entries) if settings.cache_kind == "memory" else NoCallCache()


def open_flow(settings: Settings, redis: Redis | None) -> FlowControl:
    """Who may call the judge when, for all processes that share Redis, else for this one."""
    bounds = Bounds(settings.judge_concurrency, settings.judge_requests_per_minute, settings.judge_tokens_per_minute)
    if redis is None:
        return FlowControl(LocalFlowState(bounds))
    from app.adapters.redis.flow import RedisFlowState, scope_of

    return FlowControl(RedisFlowState(redis, scope_of(settings.openai_base_url or "", settings.judge_key), bounds))


def open_limiter(redis: Redis | None) -> RequestLimiter:
    """Who counts keys' requests, for all processes that share Redis, else for this one."""
    if redis is None:
        from app.adapters.request_windows import MemoryRequestLimiter

        return MemoryRequestLimiter()
    from app.adapters.redis.request_limits import RedisRequestLimiter

    return RedisRequestLimiter(redis)


def open_judge(settings: Settings, calls: CachedCalls, flow: FlowControl) -> Judge:
    """The judge that the settings name; `lexical` is never a fallback for another. Raises SettingsInvalid."""
    settings.check_judge()
    if settings.judge_kind == "lexical":
        from app.adapters.lexical_judge import LexicalJudge

        return LexicalJudge()
    from app.adapters.openai.extra import read_extra
    from app.adapters.openai.prices import read_prices
    from app.adapters.openai_judge import OpenAIJudge

    return OpenAIJudge(
        api_key=settings.judge_key,
        base_url=settings.openai_base_url,
        model=settings.judge_model,
        calls=calls,
        prices=read_prices(Path(settings.prices) if settings.prices else None),
        timeout_seconds=settings.judge_timeout_seconds,
        deadline_seconds=settings.judge_deadline_seconds,
        max_attempts=settings.judge_attempts,
        malformed_retries=settings.judge_malformed_retries,
        extra=read_extra(settings.judge_extra),
        flow=flow,
    )


def load_clients(settings: Settings) -> None:
    """Loads what calls to the judge and the translator need, which takes most of a second: in a thread, and not before
    somebody is ready to make some. Whoever calls without it loads it then."""
    if settings.judge_kind == "openai":
        import_module("app.adapters.openai.endpoint")
        import_module("app.adapters.openai.provider_client")
    if settings.deepl_api_key is not None:
        import_module("app.adapters.deepl.client")


def open_translator(settings: Settings, cache: CallCache, telemetry: Telemetry) -> Translator | None:
    """DeepL where there is a key for it."""
    if settings.deepl_api_key is None:
        return None
    from app.adapters.deepl_translator import DeepLTranslator

    return DeepLTranslator(
        auth_key=settings.deepl_api_key.get_secret_value(),
        server_url=settings.deepl_server_url,
        cache=cache,
        telemetry=telemetry,
        timeout_seconds=settings.translator_timeout_seconds,
        max_attempts=settings.translator_attempts,
    )


def can_encode() -> bool:
    """Whether the extra is installed that an encoder needs."""
    from app.adapters.bertscore.loading import ENCODER

    return not ENCODER.find_missing()


def open_encoder(settings: Settings) -> Encoder | None:
    """The BERTScore encoder, unless it is switched off. Its weights are loaded at first use."""
    if settings.encoder == "off":
        return None
    from app.adapters.bertscore_encoder import BertScoreEncoder

    chosen = [*settings.encoders.values(), *([settings.encoder] if settings.encoder else [])]
    layers = dict.fromkeys(chosen, settings.encoder_layer) if settings.encoder_layer else {}
    # No time limit of its own: `Relevance` limits what a request waits, and b̄ of a large encoder takes its minutes.
    return BertScoreEncoder(
        encoders=settings.encoders,
        encoder=settings.encoder,
        layers=layers,
        device=settings.encoder_device,
        precision=settings.encoder_precision,
        threads=settings.encoder_threads,
        timeout_seconds=None,
    )


def find_encoder_faults(settings: Settings) -> list[str]:
    """One sentence for each encoder that is named and cannot be had, with what was tried. It may ask the Hugging Face
    hub: in a thread."""
    from app.adapters.bertscore.loading import ENCODER
    from app.adapters.huggingface.sources import locate

    faults = []
    named = {
        "encoder": settings.encoder,
        **{f"encoder_{language}": name for language, name in settings.encoders.items()},
    }
    for field, name in named.items():
        if name is None or settings.encoder == "off":
            continue
        try:
            ENCODER.require_installed()
            locate(ENCODER, name, HUB_SECONDS)
        except EncoderUnavailable as error:
            shown = f"{variable_of(field)}={printable(name[:128])}"
            faults.append(
                f"{shown}: {printable(str(error))}; ratings stand, and blended values are null until it is there"
            )
    return faults


def describe_encoder(settings: Settings) -> dict[str, str] | None:
    """Which encoder is configured for which language; `*` stands for every other."""
    if settings.encoder == "off":
        return None
    return {"*": settings.encoder or "bert-score's default for the language", **settings.encoders}


def open_provider(
    settings: Settings,
    engine: AsyncEngine,
    stack: AsyncExitStack,
    *,
    store: BatchStore,
    queue: JobQueue,
    cache: CallCache,
    instruments: Instruments,
) -> ProviderRun | None:
    """The provider's own batch mode; None where the judge has none."""
    if settings.judge_kind != "openai" or not settings.judge_key:
        return None
    from app.adapters.openai.provider_batch import OpenAIProviderBatches
    from app.adapters.openai_judge import OpenAIJudge
    from app.adapters.sql.provider_batches import ProviderBatchStore
    from app.batches.provider_run import ProviderRun

    if not isinstance(instruments.judge, OpenAIJudge):
        return None
    provider = OpenAIProviderBatches(
        api_key=settings.judge_key,
        base_url=settings.openai_base_url,
        timeout_seconds=settings.judge_timeout_seconds,
    )
    stack.push_async_callback(provider.close)
    return ProviderRun(
        store=store,
        queue=queue,
        course=ProviderBatchStore(engine),
        provider=provider,
        judge=instruments.judge,
        cache=cache,
        instruments=instruments,
        owner=secrets.token_hex(8),
        poll_seconds=settings.provider_poll_seconds,
    )
