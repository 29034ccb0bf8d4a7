"""The judge `openai`: asks a chat model on an OpenAI-compatible endpoint, and accepts only complete verdicts."""

from __future__ import annotations

import asyncio
import copy
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from pydantic import ValidationError

from saiten.core.messages import Message
from saiten_server.core.errors import JudgeUnavailable, ProviderBatchUnanswered, SettingsInvalid
from saiten_server.core.rubric import Aspect
from saiten_server.judging.conversation_prompt import enclose_conversation
from saiten_server.judging.pair_prompt import enclose_pair
from saiten_server.judging.prompt import enclose, group_aspects
from saiten_server.judging.verdict import VerdictReading
from saiten_server.platform.flow_state import FlowLimits
from saiten_server.platform.helpers import work_through
from saiten_server.platform.tasks import run_few, within
from saiten_server.providers.call_cache import Accept, CachedCalls, Make
from saiten_server.providers.flow_control import FlowControl, open_local_flow
from saiten_server.providers.openai.parameters import NO_EXTRA, Extra, Question, bound_reply, is_openais, takes_marks
from saiten_server.providers.openai.prices import Forecast, Prefixes, Prices
from saiten_server.providers.openai.reply import Readings, Reply, SampleAnswer, price_reply, read_reply, summarize
from saiten_server.providers.ports import (
    PROVIDER_BATCH_SHARE,
    DeferredCall,
    Judgement,
    JudgingEstimate,
    JudgingTask,
    KeptReplies,
    Unanswered,
)


class Closable(Protocol):
    def close(self) -> Awaitable[None]: ...


class AskedEndpoint(Closable, Protocol):
    """What a judge asks. Raises the `Judge…` errors."""

    async def ask(self, question: Question, key: str, task: JudgingTask) -> Reply: ...


T = TypeVar("T", bound=Closable)


class FirstUse(Generic[T]):
    """Creates a shared object at its first use. `made` is None before. `make` imports and builds the object in a
    thread, so that the event loop continues meanwhile."""

    def __init__(self, make: Callable[[], T]) -> None:
        self.made: T | None = None
        self._make = make
        self._making = asyncio.Lock()

    async def get(self) -> T:
        """The object; concurrent callers wait for the same one. Raises what `make` raises; the next caller tries
        again."""
        async with self._making:
            if self.made is None:
                self.made = await asyncio.to_thread(self._make)
            return self.made

    async def close(self) -> None:
        """Closes the object, if it was created."""
        if self.made is not None:
            await self.made.close()


OFFICIAL_URL = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """An endpoint. `url` has no trailing slash. `kind` is `openai` for OpenAI's own service, else `compatible`.
    `openais` is True for OpenAI's service in any region."""

    url: str
    kind: str
    openais: bool


def find_address(base_url: str | None) -> EndpointAddress:
    """The endpoint at `base_url`; None is OpenAI's own."""
    url = (base_url or OFFICIAL_URL).rstrip("/")
    kind = "openai" if urlsplit(url).hostname == "api.openai.com" else "compatible"
    return EndpointAddress(url, kind, is_openais(url))


def check_address(address: EndpointAddress) -> EndpointAddress:
    """The address. Raises SettingsInvalid if paths cannot be appended to it."""
    parts = urlsplit(address.url)
    mark = next((mark for mark in "?#" if mark in address.url), None)
    if mark is not None:
        if (parts.hostname or "").endswith(".azure.com") or "api-version" in parts.query:
            raise SettingsInvalid(Message("openai-url-end-of-azure", mark=repr(mark)))
        raise SettingsInvalid(Message("openai-url-end", mark=repr(mark)))
    return address


def is_printable(api_key: str) -> bool:
    """Whether an HTTP header can carry the key."""
    return api_key.isascii() and api_key.isprintable()


CALLS_AT_ONCE = 16
"""Calls of one task that are in hand at once: a rubric whose ten aspects are asked for one by one has 160 with as many
samples."""

CHARACTERS_AT_ONCE = 500_000
"""Characters of the prompts of one task that are in hand at once, each of which is there in several forms."""

PAIR_RETRIES = 1
"""How often the judge is asked again which of two is better, after a reply that is no verdict."""

DEFAULT_MODEL = "gpt-6-luna"
GRACE_SECONDS = 1.0


@dataclass(eq=False, repr=False, kw_only=True)
class OpenAIJudge:
    """Implements `Judge`. Every call goes through the cache in `calls`, which keeps only complete verdicts.

    `base_url` None is OpenAI's own. `flow` admits the calls, and is not closed with the judge; without one,
    `concurrency` limits the calls in flight. `max_attempts` and `deadline_seconds` limit the tries of one call,
    `timeout_seconds` one try. If a reply does not rate every aspect, the judge is asked again, at most
    `malformed_retries` times. `extra` holds further parameters to send. `lenient` is how replies are read where the
    options do not say. The client is imported at the first call. Raises SettingsInvalid if an HTTP header cannot carry
    the key."""

    api_key: str
    base_url: str | None
    calls: CachedCalls
    prices: Prices
    model: str = DEFAULT_MODEL
    timeout_seconds: float = 60.0
    deadline_seconds: float = 180.0
    max_attempts: int = 5
    backoff_seconds: float = 0.5
    concurrency: int = 8
    flow: FlowControl | None = None
    max_output_tokens: int = 2048
    malformed_retries: int = 2
    extra: Extra = NO_EXTRA
    lenient: bool = False
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    kind = "openai"

    def __post_init__(self) -> None:
        if not is_printable(self.api_key):
            raise SettingsInvalid(Message("judge-key-form"))
        self._address = check_address(find_address(self.base_url))
        self._endpoint: FirstUse[AskedEndpoint] = FirstUse(self.open_endpoint)
        self._replies: KeptReplies | None = None
        self._unanswered: Unanswered = "live"
        self._prefixes = Prefixes()
        self._readings = Readings()
        self._forecast = Forecast(self._prefixes, self.prices, max_output_tokens=self.max_output_tokens)

    @property
    def default_model(self) -> str:
        return self.model

    def open_endpoint(self) -> AskedEndpoint:
        """The endpoint, at its first use. Imports the client, which takes most of a second."""
        from saiten_server.providers.openai.endpoint import OpenAIEndpoint

        return OpenAIEndpoint(
            api_key=self.api_key,
            url=self._address.url,
            timeout_seconds=self.timeout_seconds,
            deadline_seconds=self.deadline_seconds,
            max_attempts=self.max_attempts,
            backoff_seconds=self.backoff_seconds,
            flow=self.flow or open_local_flow(FlowLimits(self.concurrency), clock=self.clock, sleep=self.sleep),
            largest_reply_bytes=bound_reply(self.max_output_tokens),
            sleep=self.sleep,
        )

    async def judge(self, task: JudgingTask) -> Judgement:
        """The verdicts on all aspects. An aspect without a valid rating in any reply is unrated. Raises the `Judge…`
        errors."""
        questions = await work_through(task.characters, partial(self._prepare, task))
        expected_usd = 0.0
        if task.scope.purse is not None and questions:
            expected_usd = (self.estimate(task).cost_usd or 0.0) / len(questions)
        longest = max((len(question.structured.user) for question in questions[:1]), default=1)
        at_once = min(len(questions), CALLS_AT_ONCE, 1 + CHARACTERS_AT_ONCE // (longest + 1))
        work = (partial(self._sample, one, task, expected_usd) for one in questions)
        samples: list[list[SampleAnswer]] = await run_few(work, at_once)
        return summarize(samples, task, kind=self.kind, endpoint=self._address.kind, prices=self.prices)

    def estimate(self, task: JudgingTask) -> JudgingEstimate:
        """What `judge` would take if every first reply is valid. Raises InvalidRequest."""
        self.extra.settle(task.options.extra)
        return self._forecast.estimate(task, group_asked(task), task.options.model or self.model)

    def defer(self, task: JudgingTask, conceded: tuple[str, ...] = ()) -> list[DeferredCall]:
        """The calls that `judge` would make first, without the parameters in `conceded`. Raises InvalidRequest."""
        questions, estimate = self._prepare(task), self.estimate(task)
        cost_usd = None if estimate.cost_usd is None else estimate.cost_usd / len(questions)
        keys = [question.key(self._address.url) for question in questions]
        return [
            DeferredCall(
                key=key,
                # Unmarked: how the provider's batch mode handles marks is not documented.
                body=replace(question, marked=False).body(conceded),
                parameters=question.parameters(conceded),
                accept=partial(is_sound, question, key),
                cost_usd=cost_usd,
            )
            for question, key in zip(questions, keys, strict=True)
        ]

    def answered_by(self, replies: KeptReplies, unanswered: Unanswered) -> OpenAIJudge:
        """A copy of this judge that takes replies from `replies` before it makes calls. Close only the original. Such a
        reply counts as a call at half the price. With `fail` no calls are made: without a reply the copy raises
        ProviderBatchUnanswered, and a malformed reply is final."""
        judge = copy.copy(self)
        judge._replies, judge._unanswered = replies, unanswered
        return judge

    async def close(self) -> None:
        await self._endpoint.close()

    def _prepare(self, task: JudgingTask) -> list[Question]:
        """One question about all aspects, or one per aspect if the rubric asks independently; repeated per sample.
        Their options hold all further parameters. Raises InvalidRequest if the operator does not allow one."""
        extra = self.extra.settle(task.options.extra)
        if extra != task.options.extra:
            task = replace(task, options=task.options.model_copy(update={"extra": extra}))
        if task.shown:
            user = enclose_pair(task.shown, task.language)
        elif task.window:
            user = enclose_conversation(task.window, task.language)
        else:
            user = enclose(task.dialogue, task.references, task.language)
        questions = [self._prepare_question(task, aspects, user) for aspects in group_asked(task)]
        for question in questions:
            _ = question.structured.digest  # which the trace needs, and which takes long of a long message
        if task.options.samples == 1:
            return questions
        return [replace(question, sample=sample) for question in questions for sample in range(task.options.samples)]

    def _prepare_question(self, task: JudgingTask, aspects: tuple[Aspect, ...], user: str) -> Question:
        prefixes = self._prefixes.find(task, aspects)
        model = task.options.model or self.model
        return Question(
            model=model,
            aspects=aspects,
            language=task.language,
            options=task.options,
            structured=prefixes.structured.before(user),
            text=prefixes.text.before(user),
            max_output_tokens=task.options.max_tokens or self.max_output_tokens,
            # Other endpoints' prompt caches do not honour marks.
            marked=self._address.openais and takes_marks(model),
            turns=task.window.system_turns if task.window is not None else None,
            kinds=task.rubric.kind_ids,
            lenient=self.lenient if task.options.lenient is None else task.options.lenient,
            words=task.shown.values if task.shown is not None else None,
        )

    async def _sample(self, question: Question, task: JudgingTask, expected_usd: float) -> list[SampleAnswer]:
        """Asks until a reply rates every aspect, as often as the settings allow, but not again about a dialogue that a
        filter stops. A call is expected to cost as much."""
        answers = [await self._ask(question, task, expected_usd)]
        retries = self.malformed_retries if task.shown is None else min(self.malformed_retries, PAIR_RETRIES)
        while not answers[-1].final and len(answers) <= retries:
            try:
                answers.append(await self._ask(replace(question, attempt=len(answers)), task, expected_usd))
            except ProviderBatchUnanswered:
                break
        return answers

    async def _ask(self, question: Question, task: JudgingTask, expected_usd: float) -> SampleAnswer:
        key = await work_through(len(question.structured.user), partial(question.key, self._address.url))
        kept = await self._replies.find(key) if self._replies else None
        read: dict[bytes, tuple[Reply, VerdictReading]] = {}
        fresh: dict[bytes, Reply] = {}

        async def call() -> bytes:
            if kept:
                # It goes through the cache like a live reply, so that later callers get it for free.
                return kept.entry
            if self._replies and self._unanswered == "fail":
                detail = Message("provider-batch-left-out")
                raise ProviderBatchUnanswered(detail)
            endpoint = self._endpoint.made or await self._endpoint.get()
            async with task.scope.paying(expected_usd) as payment:
                reply = await endpoint.ask(question, key, task)
                payment.cost_usd = price_reply(reply, question.model, self.prices).cost_usd or 0.0
            entry = reply.model_dump_json().encode()
            fresh[entry] = reply
            return entry

        def accept(entry: bytes) -> bool:
            reply = fresh.get(entry) or parse_entry(entry, key)
            if reply is None:
                return False
            read[entry] = reply, self._readings.read(reply, question)
            return read[entry][1].complete

        hit = True
        entry = self.calls.recall("judge", key, accept, task.scope)
        if entry is None:
            entry, hit = await self._obtain(key, call, accept, task)
        if entry not in read:
            # The reply of another caller's call, which that caller accepted.
            reply = Reply.model_validate_json(entry)
            read[entry] = reply, self._readings.read(reply, question)
        if kept is None:
            return SampleAnswer(question, *read[entry], hit)
        # A reply that was cached when the batch was sent was not bought, even if the cache has lost it since.
        return SampleAnswer(question, *read[entry], hit or not kept.bought, PROVIDER_BATCH_SHARE)

    async def _obtain(self, key: str, call: Make, accept: Accept, task: JudgingTask) -> tuple[bytes, bool]:
        """The entry from the cache or from a call, and whether it came without a call."""
        try:
            # A batch may be making the call, and a batch waits longer than an interactive caller.
            async with within(math.inf if task.lane == "batch" else self.deadline_seconds + GRACE_SECONDS):
                return await self.calls.obtain("judge", key, call, accept, task.scope)
        except TimeoutError:
            raise JudgeUnavailable(Message("judge-asked-for-batch")) from None


def group_asked(task: JudgingTask) -> list[tuple[Aspect, ...]]:
    """The aspects that each call asks about: of two that are compared all of them, else as the rubric says."""
    return [task.aspects] if task.shown is not None else group_aspects(task.rubric, task.aspects)


def is_sound(question: Question, key: str, entry: bytes) -> bool:
    """Whether a cache entry answers the question and rates all its aspects."""
    reply = parse_entry(entry, key)
    return reply is not None and read_reply(reply, question).complete


def parse_entry(entry: bytes, key: str) -> Reply | None:
    """The reply in a cache entry; None if the entry is damaged or belongs to another question."""
    try:
        reply = Reply.model_validate_json(entry)
    except ValidationError:
        return None
    return reply if reply.key == key else None
