"""One OpenAI-compatible endpoint: asks it a question, with retries, negotiation and flow control in one place."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from typing import Any

import openai

from app.adapters.openai.bodies import Bodies
from app.adapters.openai.chat_line import ChatLine
from app.adapters.openai.errors import (
    concerns_account,
    is_filtered,
    may_retry,
    retry_after,
    translate_error,
    upstream_message,
)
from app.adapters.openai.limits import read_limits
from app.adapters.openai.parameters import (
    BROKEN_FORMAT,
    LARGEST_PLAIN_REPLY_BYTES,
    Question,
    bound_reply,
    concede,
    find_refused,
    name_dropped,
)
from app.adapters.openai.reply import Reply, find_error, read_completion
from app.concurrency import within
from app.domain.errors import JudgeUnavailable
from app.flow.call import Call
from app.flow.control import FlowControl
from app.ports import Lane

LONGEST_BACKOFF_SECONDS = 30.0
PATIENCE_SHARE = 0.9
"""Of the time that is left, to wait for a place: a call begun still later would be cut off, and billed."""

REFUSALS = (openai.BadRequestError, openai.UnprocessableEntityError)
"""HTTP 400, and the 422 that servers built on FastAPI answer in its place."""


class OpenAIEndpoint:
    """Asks the chat endpoint at `url`. Remembers per model which parameters it refuses.

    `timeout_seconds` bounds one try; `deadline_seconds` all of one request that is no batch's: every try, with or
    without a parameter that was refused, and every wait before and between them. `largest_reply_bytes` bounds a reply
    with token probabilities; others have 1 MiB. Every try passes through `flow`, which is told how it went.
    """

    def __init__(
        self,
        *,
        api_key: str,
        url: str,
        timeout_seconds: float,
        deadline_seconds: float,
        max_attempts: int,
        backoff_seconds: float,
        flow: FlowControl,
        largest_reply_bytes: int = LARGEST_PLAIN_REPLY_BYTES,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api_key = api_key
        self._line = ChatLine(url, api_key, largest_reply_bytes=largest_reply_bytes)
        self._timeout_seconds = timeout_seconds
        self._deadline_seconds = deadline_seconds
        self._max_attempts = max_attempts
        self._backoff_seconds = backoff_seconds
        self._flow = flow
        self._sleep = sleep
        self._bodies = Bodies()
        self._conceded: dict[str, tuple[str, ...]] = {}

    async def ask(self, question: Question, key: str, lane: Lane = "interactive") -> Reply:
        """The endpoint's reply, marked with the question's key. Raises the `Judge…` errors.

        A refused parameter is given up and the rest is asked again. What was given up is remembered once a request has
        succeeded without it, so that a refusal which only looked like one changes nothing for others.
        """
        # A batch's call waits for its turn as long as it takes: minutes behind a low rate limit, which is no trouble.
        seconds = math.inf if lane == "batch" else self._deadline_seconds
        ends_at = asyncio.get_running_loop().time() + seconds
        try:
            async with within(seconds):
                return await self._negotiate(question, key, lane, ends_at)
        except TimeoutError:
            raise JudgeUnavailable(
                f"the judge gave no reply within {self._deadline_seconds:.3g} s, all tries and waits included"
            ) from None

    async def _negotiate(self, question: Question, key: str, lane: Lane, ends_at: float) -> Reply:
        conceded = self._conceded.get(question.model, ())
        while True:
            try:
                answer = await self._send(question, conceded, lane, ends_at)
                break
            except openai.APIStatusError as error:
                if is_filtered(error):
                    answer = {"content": None, "finish_reason": "content_filter"}
                    break
                refused = self._read_refusal(error, question.body(conceded))
                if refused is None:
                    raise translate_error(error, api_key=self._api_key) from error
                conceded = concede(conceded, refused)
            except (openai.OpenAIError, TimeoutError) as error:
                raise translate_error(error, api_key=self._api_key) from error
        if conceded:
            self._remember(question.model, conceded)
        return Reply(
            key=key,
            structured="response_format" not in conceded,
            parameters=question.parameters(conceded),
            dropped=name_dropped(conceded),
            **answer,
        )

    async def close(self) -> None:
        await self._line.close()

    def _read_refusal(self, error: openai.APIStatusError, body: dict[str, Any]) -> str | None:
        if isinstance(error, openai.InternalServerError):
            broken = "response_format" in body and BROKEN_FORMAT.search(upstream_message(error))
            return "response_format" if broken else None
        if not isinstance(error, REFUSALS):
            return None
        return find_refused(
            body, upstream_message(error), error.param if isinstance(error.param, str) else None, error.code
        )

    def _remember(self, model: str, conceded: tuple[str, ...]) -> None:
        known = self._conceded.get(model, ())
        self._conceded[model] = (*known, *(name for name in conceded if name not in known))

    async def _send(self, question: Question, conceded: tuple[str, ...], lane: Lane, ends_at: float) -> dict[str, Any]:
        """What the answer says, after as many tries as are allowed. Raises the vendor's errors, or JudgeUnavailable."""
        content = self._bodies.write(question, conceded)
        prompt = question.prompt(structured="response_format" not in conceded)
        # Characters stand for tokens; flow control learns the ratio.
        tokens = len(prompt.system) + len(prompt.user)
        with_probabilities = question.options.expected and "logprobs" not in conceded
        largest_bytes = bound_reply(question.max_output_tokens) if with_probabilities else LARGEST_PLAIN_REPLY_BYTES
        attempt = 0
        while True:
            attempt += 1
            try:
                patience_seconds = PATIENCE_SHARE * seconds_until(ends_at)
                async with self._flow.passage(tokens=tokens, lane=lane, patience_seconds=patience_seconds) as call:
                    return await self._send_once(content, largest_bytes, call)
            except (openai.OpenAIError, TimeoutError) as error:
                if attempt >= self._max_attempts or not may_retry(error) or self._is_refusal(error, question, conceded):
                    raise
                if lane == "batch" and isinstance(error, TimeoutError):
                    # A batch tells by its other candidates what is at fault, and that before minutes have passed.
                    raise
                asked = retry_after(error)
                wait = self._back_off(attempt) if asked is None else asked
                if wait >= seconds_until(ends_at):
                    raise
            if asked is None:
                await self._sleep(wait)

    def _is_refusal(self, error: Exception, question: Question, conceded: tuple[str, ...]) -> bool:
        """Whether the same request fails again, though the status (HTTP 500) promises that it may not."""
        if not isinstance(error, openai.InternalServerError):
            return False
        return self._read_refusal(error, question.body(conceded)) is not None

    async def _send_once(self, content: bytes, largest_bytes: int, call: Call) -> dict[str, Any]:
        async with asyncio.timeout(self._timeout_seconds):
            try:
                response = await self._line.post(content, largest_bytes)
                answer = read_completion(response.content)
                told = None if answer["completion"] else find_error(response.content)
                if told is not None:
                    raise self._line.make_error(told)
            except openai.APIStatusError as error:
                self._tell_flow(call, error)
                raise
        call.succeeded(read_limits(response.headers), answer["prompt_tokens"] + answer["completion_tokens"])
        return answer

    def _tell_flow(self, call: Call, error: openai.APIStatusError) -> None:
        if concerns_account(error):
            self._flow.turn_away(translate_error(error, api_key=self._api_key))
        elif may_retry(error):
            asked, limits = retry_after(error), read_limits(error.response.headers.raw)
            if isinstance(error, openai.RateLimitError):
                call.throttled(asked, limits)
            elif asked is not None:
                call.put_off(asked, limits)

    def _back_off(self, attempt: int) -> float:
        """Seconds until the next try where the endpoint asked for no wait: exponential, with full jitter."""
        longest = min(LONGEST_BACKOFF_SECONDS, self._backoff_seconds * 2 ** (attempt - 1))
        return random.uniform(0, longest)  # noqa: S311 - spreads load, keeps no secret


def seconds_until(moment: float) -> float:
    """Until a moment of the running loop's clock; 0 where it is past."""
    return max(0.0, moment - asyncio.get_running_loop().time())
