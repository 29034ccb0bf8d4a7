"""DeepL as a translator: each text is translated once, in threads with their own clients, behind a shared gate.

| status | error | tried again |
|---|---|---|
| 401, 403 | TranslatorUnauthorized | no |
| 456 | TranslatorQuotaExhausted | no |
| 429, 5xx, no answer | TranslatorUnavailable | yes, after `Retry-After` |
| anything else | TranslatorRefusedRequest, with what DeepL said | no |

DeepL takes one `context` per request, shared by all texts of its list, and looks at nothing else: a text's neighbours
in the list do not count (DeepL's documentation, "Translation context"). Japanese and Korean leave out subject and
object, so a text alone ("好きです。") cannot be translated well. Therefore:

- A dialogue context is cut from its start into blocks of `BLOCK_UTTERANCES`. A block is one list whose `context` is
  every utterance up to the block's end, newest kept. It holds later utterances of the block too, but never the
  response, so that nothing of the response can leak into what it is judged against.
- The response comes with the whole dialogue context, as the last block does, so both are in one request. A dialogue of
  up to `BLOCK_UTTERANCES` utterances is one request.
- A text's context depends only on the dialogue up to its block's end. So several responses to one dialogue context
  share its translation, and a dialogue that grows pays again for its open block at most.

Characters in `context` are not billed. All sizes are those of the JSON body as the SDK sends it: ASCII with escapes, so
a Japanese or Korean character is six bytes, one beyond the Basic Multilingual Plane twelve.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from saiten.core.messages import Message
from saiten_server.core import errors
from saiten_server.core.dialogue import Dialogue
from saiten_server.core.evaluation import Translation
from saiten_server.platform.flow_state import Demand, FlowLimits, FlowReport, FlowState, LocalFlowState, find_pause
from saiten_server.platform.memory_cache import CallCache
from saiten_server.platform.telemetry import Telemetry
from saiten_server.providers.deepl.requests import (
    TARGET_LANGUAGE,
    DeepLFailure,
    TranslationPassage,
    fail,
    pack_passages,
    plan_passages,
)
from saiten_server.providers.ports import RequestScope, Translated

if TYPE_CHECKING:
    from saiten_server.providers.deepl.client import OneTryClient

SOURCE_LANGUAGES = {"ja": "JA", "ko": "KO"}
CALL = "translate"
KEY_LAYOUT = 1  # Increase it when the same key would stand for another request


@dataclass(eq=False, repr=False)
class DeepLTranslator:
    """Implements `Translator`: Japanese and Korean into English (US).

    Each text is cached by a digest of server, languages, context and text. Concurrent callers of the same text share
    one request. A caller that is cancelled does not cancel its request, because the characters are paid for.

    `server_url` None takes the server that fits the key. `timeout_seconds` limits one try, `max_wait_seconds` the pause
    before the next; if DeepL asks for a longer pause, the call fails at once. `pauses` keeps what DeepL asks for, by
    default in this process alone, and bounds it. Raises SettingsInvalid if key or URL are unusable."""

    auth_key: str
    _: KW_ONLY
    cache: CallCache
    server_url: str | None = None
    timeout_seconds: float = 15.0
    max_attempts: int = 4
    max_wait_seconds: float = 20.0
    pauses: FlowState | None = None
    max_concurrent_requests: int = 4
    telemetry: Telemetry | None = None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    engine = "deepl"

    def __post_init__(self) -> None:
        self._key = self.auth_key.strip()
        if not self._key or not self._key.isascii() or not self._key.isprintable():
            raise errors.SettingsInvalid(Message("deepl-key-form"))
        url = (self.server_url or "").strip()
        if url and not url.startswith(("http://", "https://")):
            raise errors.SettingsInvalid(Message("deepl-url-form"))
        # Without a slash at its end, the SDK drops its last path segment.
        self._server = url.removesuffix("/") + "/" if url else None
        # A client per thread, because an HTTP session is not thread-safe.
        self._local = threading.local()
        self._clients: list[OneTryClient] = []
        self._executor = ThreadPoolExecutor(self.max_concurrent_requests, thread_name_prefix="deepl")
        self._backoff = wait_random_exponential(multiplier=0.5, max=self.max_wait_seconds)
        self._flights: dict[str, asyncio.Future[str]] = {}
        self._fetches: set[asyncio.Task[int]] = set()
        self._slots = asyncio.Semaphore(self.max_concurrent_requests)
        bounds = FlowLimits(self.max_concurrent_requests)
        self._pauses = self.pauses or LocalFlowState(bounds, clock=self.clock)

    async def translate(self, dialogue: Dialogue, source_language: str, scope: RequestScope) -> Translated:
        source = SOURCE_LANGUAGES.get(source_language)
        if source is None:
            raise errors.LanguageNotSupported(Message("deepl-language", language=repr(source_language[:20])))
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
            engine=self.engine,
            characters=sum(len(passage.text) for passage in passages),
        )
        return Translated(translation=translation, billed_characters=billed, cached=billed == 0)

    async def close(self) -> None:
        fetches = list(self._fetches)
        for fetch in fetches:
            fetch.cancel()
        await asyncio.gather(*fetches, return_exceptions=True)
        # A thread in a request ends with its time limit.
        self._executor.shutdown(wait=False, cancel_futures=True)
        for client in self._clients:
            client.close()  # type: ignore[no-untyped-call]

    def _digest(self, source: str, passage: TranslationPassage) -> str:
        sent = [CALL, self.engine, KEY_LAYOUT, self._server, source, TARGET_LANGUAGE, passage.context, passage.text]
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
        error = errors.TranslatorUnavailable(Message("translator-closing")) if fetch.cancelled() else fetch.exception()
        for key in claimed:
            flight = self._flights.pop(key)
            if error is not None and not flight.done():
                flight.set_exception(error)
                flight.exception()  # seen: perhaps no caller waits any more

    async def _fetch(self, source: str, claimed: Mapping[str, TranslationPassage]) -> int:
        """Answers every flight of `claimed`, one request after another, and returns the characters that were sent for
        it. After a final refusal nothing more is sent, and what came before it is kept."""
        missing = await self._recall(claimed)
        keys = {passage: key for key, passage in missing.items()}
        for request in pack_passages(list(keys), source):
            texts = await self._ask(source, request)
            came = {keys[passage]: text for passage, text in zip(request, texts, strict=True)}
            await asyncio.gather(*(self.cache.put(key, text.encode()) for key, text in came.items()))
            for key, text in came.items():
                self._flights[key].set_result(text)
        return sum(len(passage.text) for passage in missing.values())

    async def _recall(self, claimed: Mapping[str, TranslationPassage]) -> dict[str, TranslationPassage]:
        """Answers what the cache holds, returns what it does not."""
        found = await asyncio.gather(*map(self.cache.get, claimed))
        missing: dict[str, TranslationPassage] = {}
        for (key, passage), value in zip(claimed.items(), found, strict=True):
            text = read_cached(value)
            if text is None:
                missing[key] = passage
            else:
                self._flights[key].set_result(text)
            if self.telemetry is not None:
                self.telemetry.cache(CALL, "miss" if text is None else "hit")
        return missing

    async def _ask(self, source: str, request: list[TranslationPassage]) -> list[str]:
        """Sends one request with retries. Raises the `Translator…` error of the last try."""
        retrying = AsyncRetrying(
            retry=retry_if_exception(self._is_worth_a_retry),
            stop=stop_after_attempt(self.max_attempts),
            wait=self._backoff,
            sleep=self.sleep,
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
                with self.telemetry.span("translate", texts=len(request)) if self.telemetry else nullcontext():
                    texts = [passage.text for passage in request]
                    return await self._translate_in_time(texts, request[0].context, source)
            except DeepLFailure as failure:
                if (asked := failure.error.retry_after_seconds) is not None:
                    found = await self._pauses.exchange(FlowReport(closed_seconds=asked), Demand())
                    failure.error.retry_after_seconds = min(asked, found.closed_seconds)
                raise

    async def _translate_in_time(self, *request: Any) -> list[str]:
        try:
            async with asyncio.timeout(self.timeout_seconds):
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._executor, self._translate_here, *request)
        except TimeoutError:
            raise fail(Message("deepl-too-slow", seconds=self.timeout_seconds), transient=True) from None

    def _translate_here(self, texts: Sequence[str], context: str | None, source: str) -> list[str]:
        """One request, one try, in this thread."""
        client: OneTryClient | None = getattr(self._local, "client", None)
        if client is None:
            # Here and not above: it imports DeepL's package, which takes long.
            from saiten_server.providers.deepl.client import OneTryClient

            client = self._local.client = OneTryClient(self._key, self._server, self.timeout_seconds)
            self._clients.append(client)
        return client.translate_once(texts, context, source)

    async def _wait_for_gate(self) -> None:
        """Waits until DeepL's last `Retry-After` has passed; all callers share this gate."""
        while (pause := await find_pause(self._pauses)) > 0:
            if pause > self.max_wait_seconds:
                detail = Message("deepl-resting", seconds=pause)
                raise DeepLFailure(errors.TranslatorUnavailable(detail, retry_after_seconds=pause))
            await self.sleep(pause)

    def _is_worth_a_retry(self, error: BaseException) -> bool:
        if not isinstance(error, DeepLFailure) or not error.transient:
            return False
        return (error.error.retry_after_seconds or 0.0) <= self.max_wait_seconds


def read_cached(value: bytes | None) -> str | None:
    """The translation in a cache entry; None if it holds none, as in a damaged cache."""
    try:
        return (value.decode() or None) if value is not None else None
    except UnicodeDecodeError:
        return None
