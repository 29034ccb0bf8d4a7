"""The only place that builds adapters, and the only one that reads settings to do so."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import CollectorRegistry
from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.rubric_files import RubricFiles, default_folder
from app.adapters.sql.cache import MemoryCallCache, NoCallCache, SQLCallCache
from app.adapters.sql.engine import migrate, open_engine
from app.adapters.sql.keys import SQLKeyring
from app.adapters.sql.store import SQLStore
from app.adapters.telemetry import PrometheusTelemetry
from app.call_cache import CachedCalls
from app.pipeline import Instruments
from app.ports import CallCache, Encoder, Judge, Keyring, RubricSource, Store, Telemetry, Translator
from app.relevance import Relevance
from app.settings import Settings

logger = logging.getLogger("saiten")


@dataclass(frozen=True)
class Service:
    """A running Saiten: what the web, the command line and workers stand on."""

    settings: Settings
    instruments: Instruments
    store: Store
    keyring: Keyring
    telemetry: PrometheusTelemetry
    encoder_settings: dict[str, str] | None


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[Service]:
    """Builds everything that `settings` ask for, and closes it in reverse order.

    Raises SettingsInvalid, RubricInvalid or StoreUnavailable, each with one sentence for the operator.
    """
    async with AsyncExitStack() as stack:
        rubrics = open_rubrics(settings)
        engine = await open_database(settings, stack)
        store = SQLStore(engine)
        telemetry = PrometheusTelemetry(CollectorRegistry())
        cache = open_cache(settings, engine)
        calls = CachedCalls(cache, telemetry)
        judge = open_judge(settings, calls)
        stack.push_async_callback(judge.close)
        translator = open_translator(settings, cache, telemetry)
        if translator is not None:
            stack.push_async_callback(translator.close)
        relevance = Relevance(open_encoder(settings), store, calls, timeout_seconds=settings.encoder_timeout_seconds)
        stack.push_async_callback(relevance.close)
        instruments = Instruments(
            rubrics=rubrics,
            judge=judge,
            translator=translator,
            relevance=relevance,
            telemetry=telemetry,
            now=lambda: datetime.now(UTC),
            new_id=lambda: "ev_" + secrets.token_hex(12),
        )
        yield Service(settings, instruments, store, SQLKeyring(engine), telemetry, describe_encoder(settings))


def announce(service: Service) -> None:
    """Says once which judge rates, and why."""
    settings, judge = service.settings, service.instruments.judge
    if judge.kind == "lexical":
        why = "as SAITEN_JUDGE says" if settings.judge else "because OPENAI_API_KEY is not set"
        logger.warning("judge: lexical, %s; it is a baseline and a smoke test, not an LLM judge", why)
    else:
        logger.info("judge: %s, model %s", judge.kind, judge.default_model)


async def open_database(settings: Settings, stack: AsyncExitStack) -> AsyncEngine:
    """The engine, with its schema up to date."""
    engine = open_engine(settings.sqlalchemy_url)
    stack.push_async_callback(engine.dispose)
    await migrate(engine)
    return engine


def open_rubrics(settings: Settings) -> RubricSource:
    """The shipped rubrics, and the operator's own."""
    own = [Path(settings.rubrics)] if settings.rubrics else []
    return RubricFiles([default_folder(), *own])


def open_cache(settings: Settings, engine: AsyncEngine) -> CallCache:
    """Where replies of outside calls are kept."""
    if settings.cache == "memory":
        return MemoryCallCache(entries=settings.cache_entries)
    return SQLCallCache(engine, entries=settings.cache_entries) if settings.cache == "sql" else NoCallCache()


def open_judge(settings: Settings, calls: CachedCalls) -> Judge:
    """The judge that the settings name; `lexical` is never a fallback for another."""
    if settings.judge_kind == "lexical":
        from app.adapters.lexical_judge import LexicalJudge

        return LexicalJudge()
    from app.adapters.openai.prices import read_prices
    from app.adapters.openai_judge import OpenAIJudge

    return OpenAIJudge(
        api_key=settings.openai_api_key.get_secret_value() if settings.openai_api_key else "",
        base_url=settings.openai_base_url,
        model=settings.model,
        calls=calls,
        prices=read_prices(Path(settings.prices) if settings.prices else None),
        timeout_seconds=settings.judge_timeout_seconds,
        deadline_seconds=settings.judge_deadline_seconds,
        max_attempts=settings.judge_attempts,
        concurrency=settings.judge_concurrency,
    )


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
        threads=settings.encoder_threads,
        timeout_seconds=None,
    )


def describe_encoder(settings: Settings) -> dict[str, str] | None:
    """Which encoder is configured for which language; `*` stands for every other."""
    if settings.encoder == "off":
        return None
    return {"*": settings.encoder or "bert-score's default for the language", **settings.encoders}
