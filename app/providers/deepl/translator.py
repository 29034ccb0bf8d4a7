"""DeepL as a translator: each text is translated once, in threads with their own clients, behind a shared gate."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from app.domain.dialogue import Dialogue
from app.domain.errors import LanguageNotSupported, SettingsInvalid, TranslatorUnavailable
from app.domain.evaluation import Translation
from app.providers.deepl.requests import (
    TARGET_LANGUAGE,
    DeepLFailure,
    TranslationPassage,
    fail,
    pack_passages,
    plan_passages,
)
from app.providers.ports import RequestScope, Translated
from app.runtime.ports import CallCache, Telemetry

if TYPE_CHECKING:
    from app.providers.deepl.client import OneTryClient


class DeepLThreads:
    """A bounded pool of threads, each with its own client, because an HTTP session is not thread-safe."""

    def __init__(self, auth_key: str, server_url: str | None, *, timeout_seconds: float, threads: int) -> None:
        self._auth_key = auth_key
        self._server_url = server_url
        self._timeout_seconds = timeout_seconds
        self._local = threading.local()
        self._clients: list[OneTryClient] = []
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="deepl")

    async def translate(self, texts: Sequence[str], context: str | None, source_language: str) -> list[str]:
        """One request, one try, with its time limit. Raises DeepLFailure."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._executor, self._ask, texts, context, source_language)
        except TimeoutError:
            raise fail(f"did not answer within {self._timeout_seconds:g} s", transient=True) from None

    def close(self) -> None:
        """Takes no further request and lets go of idle connections. A thread in a request ends with its time limit."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        for client in self._clients:
            client.close()  # type: ignore[no-untyped-call]

    def _ask(self, texts: Sequence[str], context: str | None, source_language: str) -> list[str]:
        return self._own_client().translate_once(texts, context, source_language)

    def _own_client(self) -> OneTryClient:
        if not hasattr(self._local, "client"):
            # Here and not above: it imports DeepL's package, which takes long.
            from app.providers.deepl.client import OneTryClient

            self._local.client = OneTryClient(self._auth_key, self._server_url, self._timeout_seconds)
            self._clients.append(self._local.client)
        client: OneTryClient = self._local.client
        return client


def check_auth_key(auth_key: str) -> str:
    """The key without surrounding spaces; raises SettingsInvalid where no HTTP header could carry it."""
    key = auth_key.strip()
    if not key or not key.isascii() or not key.isprintable():
        raise SettingsInvalid("DEEPL_API_KEY must be a key of printable ASCII characters.")
    return key


def check_server_url(server_url: str | None) -> str | None:
    """The URL with a slash at its end, without which the SDK drops its last path segment; None stays None."""
    if server_url is None or not server_url.strip():
        return None
    url = server_url.strip()
    if not url.startswith(("http://", "https://")):
        raise SettingsInvalid("DEEPL_SERVER_URL must begin with http:// or https://.")
    return url if url.endswith("/") else url + "/"


ENGINE = "deepl"
SOURCE_LANGUAGES = {"ja": "JA", "ko": "KO"}
CALL = "translate"
KEY_LAYOUT = 1  # Increase it when the same key would stand for another request
Flight = asyncio.Future[str]


class DeepLTranslator:
    """Implements `Translator`: Japanese and Korean into English (US).

    Each text is cached by a digest of server, languages, context and text. Concurrent callers of the same text share
    one request. A caller that is cancelled does not cancel its request: the characters are paid for, so the translation
    is cached.

    `server_url` replaces DeepL's server; None takes the one that fits the key. `timeout_seconds` limits one try,
    `max_wait_seconds` the pause before the next; if DeepL asks for a longer pause, the call fails at once. Raises
    SettingsInvalid if key or URL are unusable. `sleep` and `clock` (seconds) are for tests.
    """

    def __init__(
        self,
        auth_key: str,
        *,
        cache: CallCache,
        server_url: str | None = None,
        timeout_seconds: float = 15.0,
        max_attempts: int = 4,
        max_wait_seconds: float = 20.0,
        max_concurrent_requests: int = 4,
        telemetry: Telemetry | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache = cache
        self._server = check_server_url(server_url)
        self._threads = DeepLThreads(
            check_auth_key(auth_key), self._server, timeout_seconds=timeout_seconds, threads=max_concurrent_requests
        )
        self._max_attempts = max_attempts
        self._max_wait_seconds = max_wait_seconds
        self._telemetry = telemetry
        self._sleep = sleep
        self._clock = clock
        self._backoff = wait_random_exponential(multiplier=0.5, max=max_wait_seconds)
        self._flights: dict[str, Flight] = {}
        self._fetches: set[asyncio.Task[int]] = set()
        self._slots = asyncio.Semaphore(max_concurrent_requests)
        self._closed_until = -math.inf

    @property
    def engine(self) -> str:
        return ENGINE

    async def translate(self, dialogue: Dialogue, source_language: str, scope: RequestScope) -> Translated:
        source = SOURCE_LANGUAGES.get(source_language)
        if source is None:
            raise LanguageNotSupported(
                f"DeepL is asked for Japanese (ja) and Korean (ko), not {source_language[:20]!r}."
            )
        passages = plan_passages(dialogue, source)
        keys = [self._digest(source, passage) for passage in passages]
        for key in keys:
            scope.note_key(key)
        fetch = self._start_fetch(source, dict(zip(keys, passages, strict=True)))
        texts = await asyncio.gather(*[asyncio.shield(self._flights[key]) for key in keys])
        billed = await asyncio.shield(fetch) if fetch else 0
        translation = Translation(
            context=tuple(texts[:-1]),
            response=texts[-1],
            source_language=source,
            target_language=TARGET_LANGUAGE,
            engine=ENGINE,
            characters=sum(len(passage.text) for passage in passages),
        )
        return Translated(translation=translation, billed_characters=billed, cached=billed == 0)

    async def close(self) -> None:
        fetches = list(self._fetches)
        for fetch in fetches:
            fetch.cancel()
        await asyncio.gather(*fetches, return_exceptions=True)
        self._threads.close()

    def _digest(self, source: str, passage: TranslationPassage) -> str:
        sent = [CALL, ENGINE, KEY_LAYOUT, self._server, source, TARGET_LANGUAGE, passage.context, passage.text]
        return hashlib.sha256(json.dumps(sent).encode()).hexdigest()

    def _start_fetch(self, source: str, wanted: Mapping[str, TranslationPassage]) -> asyncio.Task[int] | None:
        """Fetches what is not being fetched yet. Claimed before the first await, so that nothing is fetched twice."""
        claimed = {key: passage for key, passage in wanted.items() if key not in self._flights}
        if not claimed:
            return None
        loop = asyncio.get_running_loop()
        self._flights |= {key: loop.create_future() for key in claimed}
        fetch = asyncio.create_task(self._fetch(source, claimed))
        self._fetches.add(fetch)
        fetch.add_done_callback(partial(self._end_fetch, claimed))
        return fetch

    def _end_fetch(self, claimed: Mapping[str, TranslationPassage], fetch: asyncio.Task[int]) -> None:
        """Passes the error, if any, to callers that still wait for one of the texts."""
        self._fetches.discard(fetch)
        error = TranslatorUnavailable("The translator is shutting down.") if fetch.cancelled() else fetch.exception()
        for key in claimed:
            flight = self._flights.pop(key)
            if error is not None and not flight.done():
                flight.set_exception(error)
                flight.exception()  # seen: perhaps no caller waits any more

    async def _fetch(self, source: str, claimed: Mapping[str, TranslationPassage]) -> int:
        """Answers every flight of `claimed` and returns the characters that were sent for it.

        One request after another: after a refusal for good nothing more is sent, and what came before it is kept.
        """
        missing = await self._recall(claimed)
        keys = {passage: key for key, passage in missing.items()}
        for request in pack_passages(list(keys), source):
            texts = await self._ask(source, request)
            came = {keys[passage]: text for passage, text in zip(request, texts, strict=True)}
            await asyncio.gather(*(self._cache.put(key, text.encode()) for key, text in came.items()))
            for key, text in came.items():
                self._flights[key].set_result(text)
        return sum(len(passage.text) for passage in missing.values())

    async def _recall(self, claimed: Mapping[str, TranslationPassage]) -> dict[str, TranslationPassage]:
        """Answers what the cache holds, returns what it does not."""
        found = await asyncio.gather(*map(self._cache.get, claimed))
        missing: dict[str, TranslationPassage] = {}
        for (key, passage), value in zip(claimed.items(), found, strict=True):
            text = read_cached(value)
            if text is None:
                missing[key] = passage
            else:
                self._flights[key].set_result(text)
            if self._telemetry is not None:
                self._telemetry.cache(CALL, "miss" if text is None else "hit")
        return missing

    async def _ask(self, source: str, request: list[TranslationPassage]) -> list[str]:
        """Sends one request with retries. Raises the `Translator…` error of the last try."""
        retrying = AsyncRetrying(
            retry=retry_if_exception(self._is_worth_a_retry),
            stop=stop_after_attempt(self._max_attempts),
            wait=self._backoff,
            sleep=self._sleep,
            reraise=True,
        )
        try:
            return await retrying(self._try, source, request)
        except DeepLFailure as failure:
            raise failure.error from None

    async def _try(self, source: str, request: list[TranslationPassage]) -> list[str]:
        # The slot is taken before the time limit starts: waiting for a thread does not count against DeepL.
        async with self._slots:
            await self._wait_for_gate()
            try:
                # The SDK's HTTP client is in a thread, where no trace is: the step is noted here.
                with self._telemetry.span("translate", texts=len(request)) if self._telemetry else nullcontext():
                    texts = [passage.text for passage in request]
                    return await self._threads.translate(texts, request[0].context, source)
            except DeepLFailure as failure:
                if (pause := failure.error.retry_after_seconds) is not None:
                    self._closed_until = max(self._closed_until, self._clock() + pause)
                raise

    async def _wait_for_gate(self) -> None:
        """Waits until DeepL's last `Retry-After` has passed; all callers share this gate."""
        while (pause := self._closed_until - self._clock()) > 0:
            if pause > self._max_wait_seconds:
                detail = f"DeepL asked not to be called for another {pause:.0f} s."
                raise DeepLFailure(TranslatorUnavailable(detail, retry_after_seconds=pause))
            await self._sleep(pause)

    def _is_worth_a_retry(self, error: BaseException) -> bool:
        return (
            isinstance(error, DeepLFailure)
            and error.transient
            and (error.error.retry_after_seconds or 0.0) <= self._max_wait_seconds
        )


def read_cached(value: bytes | None) -> str | None:
    """The translation in a cache entry; None if it holds none, as in a damaged cache."""
    try:
        return (value.decode() or None) if value is not None else None
    except UnicodeDecodeError:
        return None
