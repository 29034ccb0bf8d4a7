"""The judge `openai`: asks a chat model on any OpenAI-compatible endpoint, and believes only a whole, valid verdict."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from pydantic import ValidationError

from app.adapters.openai.answers import Answer, Poll, summarize
from app.adapters.openai.endpoint import OpenAIEndpoint
from app.adapters.openai.parameters import Question, bound_reply
from app.adapters.openai.prefixes import Prefixes
from app.adapters.openai.prices import Prices
from app.adapters.openai.reply import Reply
from app.call_cache import CachedCalls
from app.concurrency import run_together
from app.domain.prompt import enclose
from app.domain.rubric import Aspect
from app.domain.verdict import Reading, rate_nothing, read_verdict
from app.ports import Judgement, JudgingTask

DEFAULT_MODEL = "gpt-6-luna"
KIND = "openai"
NO_COMPLETION = "the endpoint's answer is no chat completion; check OPENAI_BASE_URL"


class OpenAIJudge:
    """Fills the port `Judge`. Every call goes through `calls`; only replies that rate all they were asked are kept.

    `base_url` None is OpenAI's own. `concurrency` bounds the calls in flight, `max_attempts` and `deadline_seconds` the
    tries of one call, `timeout_seconds` one try.
    """

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str | None,
        calls: CachedCalls,
        prices: Prices,
        model: str = DEFAULT_MODEL,
        timeout_seconds: float = 60.0,
        deadline_seconds: float = 180.0,
        max_attempts: int = 5,
        backoff_seconds: float = 0.5,
        concurrency: int = 8,
        max_output_tokens: int = 2048,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint = OpenAIEndpoint(
            api_key=api_key,
            base_url=base_url,
            timeout_seconds=timeout_seconds,
            deadline_seconds=deadline_seconds,
            max_attempts=max_attempts,
            backoff_seconds=backoff_seconds,
            concurrency=concurrency,
            largest_reply_bytes=bound_reply(max_output_tokens),
            sleep=sleep,
            clock=clock,
        )
        self._calls = calls
        self._prices = prices
        self._model = model
        self._max_output_tokens = max_output_tokens
        self._prefixes = Prefixes()

    @property
    def kind(self) -> str:
        return KIND

    @property
    def default_model(self) -> str:
        return self._model

    async def judge(self, task: JudgingTask) -> Judgement:
        """Every aspect's verdict. Raises the `Judge…` errors; an aspect that no reply validly rates is unrated."""
        polls: list[Poll] = await run_together(
            *(
                self._poll(replace(question, sample=sample))
                for question in self._prepare(task)
                for sample in range(task.options.samples)
            )
        )
        return summarize(polls, task, kind=KIND, endpoint=self._endpoint.kind, prices=self._prices)

    async def close(self) -> None:
        await self._endpoint.close()

    def _prepare(self, task: JudgingTask) -> list[Question]:
        """One question about all aspects, or one about each where the rubric asks independently."""
        rubric = task.rubric
        groups = [rubric.aspects] if rubric.calls == "joint" else [(aspect,) for aspect in rubric.aspects]
        user = enclose(task.dialogue, task.references, task.language)
        return [self._prepare_question(task, aspects, user) for aspects in groups]

    def _prepare_question(self, task: JudgingTask, aspects: tuple[Aspect, ...], user: str) -> Question:
        prefixes = self._prefixes.find(task, aspects)
        return Question(
            model=task.options.model or self._model,
            aspects=aspects,
            language=task.language,
            options=task.options,
            structured=prefixes.structured.before(user),
            text=prefixes.text.before(user),
            max_output_tokens=self._max_output_tokens,
        )

    async def _poll(self, question: Question) -> Poll:
        """Asks once, and once more where the reply does not rate every aspect."""
        first = await self._ask(question)
        if first.reading.complete:
            return Poll((first,))
        return Poll((first, await self._ask(replace(question, attempt=1))))

    async def _ask(self, question: Question) -> Answer:
        key = question.key(self._endpoint.url)

        async def call() -> bytes:
            return (await self._endpoint.ask(question, key)).model_dump_json().encode()

        def accept(entry: bytes) -> bool:
            reply = parse_entry(entry, key)
            return reply is not None and read_reply(reply, question).complete

        entry, hit = await self._calls.fetch("judge", key, call, accept)
        reply = Reply.model_validate_json(entry)
        return Answer(question, reply, read_reply(reply, question), hit)


def read_reply(reply: Reply, question: Question) -> Reading:
    """What a reply says of the aspects it was asked about."""
    if not reply.completion:
        return rate_nothing(question.aspects, "unparseable", NO_COMPLETION)
    return read_verdict(
        reply.content,
        aspects=question.aspects,
        language=question.language,
        structured=reply.structured,
        explain=question.options.explain,
        finish_reason=reply.finish_reason,
        refusal=reply.refusal,
    )


def parse_entry(entry: bytes, key: str) -> Reply | None:
    """The reply in a cache entry; None where the entry is damaged or belongs to another question."""
    try:
        reply = Reply.model_validate_json(entry)
    except ValidationError:
        return None
    return reply if reply.key == key else None
