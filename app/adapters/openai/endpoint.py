"""One OpenAI-compatible endpoint: asks it a question, with retries, negotiation and the gate in one place."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast
from urllib.parse import urlsplit

import openai
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
    wait_random_exponential,
)

from app.adapters.openai.errors import (
    ReplyTooLarge,
    concerns_account,
    is_filtered,
    may_retry,
    retry_after,
    translate_error,
    upstream_message,
)
from app.adapters.openai.gate import HERD_SECONDS, Gate
from app.adapters.openai.parameters import LARGEST_PLAIN_REPLY_BYTES, Question, concede, find_refused
from app.adapters.openai.reply import Reply, read_completion
from app.adapters.openai.transfer import BoundedClient
from app.domain.errors import JudgeUnavailable, SettingsInvalid

OFFICIAL_URL = "https://api.openai.com/v1"
LONGEST_BACKOFF_SECONDS = 30.0
PATIENCE_SHARE = 0.9
"""Of the time that is left, to wait for a place: a call begun still later would be cut off, and billed."""

REFUSALS = (openai.BadRequestError, openai.UnprocessableEntityError)
"""HTTP 400, and the 422 that servers built on FastAPI answer in its place."""


class OpenAIEndpoint:
    """Asks the chat endpoint at `base_url`. Remembers per model which parameters it refuses.

    `timeout_seconds` bounds one try; `deadline_seconds` all of one request: every try, with or without a parameter that
    was refused, and every wait before and between them. `largest_reply_bytes` bounds a reply with token probabilities;
    others have 1 MiB.
    """

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str | None,
        timeout_seconds: float,
        deadline_seconds: float,
        max_attempts: int,
        backoff_seconds: float,
        concurrency: int,
        largest_reply_bytes: int = LARGEST_PLAIN_REPLY_BYTES,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not api_key:
            raise SettingsInvalid(
                "the judge needs a key; set OPENAI_API_KEY (any word where the endpoint asks for none)"
            )
        if not (api_key.isascii() and api_key.isprintable()):
            raise SettingsInvalid(
                "the judge's key holds characters that no HTTP header can carry; check OPENAI_API_KEY"
            )
        self.url = (base_url or OFFICIAL_URL).rstrip("/")
        self._api_key = api_key
        self._client = openai.AsyncOpenAI(
            api_key=api_key,
            base_url=self.url,
            max_retries=0,
            timeout=timeout_seconds,
            http_client=BoundedClient(largest_reply_bytes=largest_reply_bytes, timeout=timeout_seconds),
        )
        self._timeout_seconds = timeout_seconds
        self._deadline_seconds = deadline_seconds
        self._max_attempts = max_attempts
        self._backoff = wait_random_exponential(multiplier=backoff_seconds, max=LONGEST_BACKOFF_SECONDS)
        self._gate = Gate(concurrency, clock=clock, sleep=sleep)
        self._sleep = sleep
        self._conceded: dict[str, tuple[str, ...]] = {}

    @property
    def kind(self) -> str:
        """`openai` for OpenAI's own service, else `compatible`."""
        return "openai" if urlsplit(self.url).hostname == "api.openai.com" else "compatible"

    async def ask(self, question: Question, key: str) -> Reply:
        """The endpoint's reply, marked with the question's key. Raises the `Judge…` errors.

        A refused parameter is given up and the rest is asked again. What was given up is remembered once a request has
        succeeded without it, so that a refusal which only looked like one changes nothing for others.
        """
        ends_at = asyncio.get_running_loop().time() + self._deadline_seconds
        try:
            async with asyncio.timeout_at(ends_at):
                return await self._negotiate(question, key, ends_at)
        except TimeoutError:
            raise JudgeUnavailable(
                f"the judge gave no reply within {self._deadline_seconds:.3g} s, all tries and waits included"
            ) from None

    async def _negotiate(self, question: Question, key: str, ends_at: float) -> Reply:
        conceded = self._conceded.get(question.model, ())
        while True:
            body = question.body(conceded)
            try:
                answer = read_completion(await self._send(body, ends_at))
                break
            except openai.APIStatusError as error:
                if is_filtered(error):
                    answer = {"content": None, "finish_reason": "content_filter"}
                    break
                refused = self._read_refusal(error, body)
                if refused is None:
                    raise translate_error(error, api_key=self._api_key) from error
                conceded = concede(conceded, refused)
            except (openai.OpenAIError, TimeoutError) as error:
                raise translate_error(error, api_key=self._api_key) from error
        self._remember(question.model, conceded)
        return Reply(
            key=key,
            structured="response_format" not in conceded,
            parameters=question.parameters(conceded),
            dropped=conceded,
            **answer,
        )

    async def close(self) -> None:
        await self._client.close()

    def _read_refusal(self, error: openai.APIStatusError, body: dict[str, Any]) -> str | None:
        if not isinstance(error, REFUSALS):
            return None
        return find_refused(
            body, upstream_message(error), error.param if isinstance(error.param, str) else None, error.code
        )

    def _remember(self, model: str, conceded: tuple[str, ...]) -> None:
        known = self._conceded.get(model, ())
        self._conceded[model] = (*known, *(name for name in conceded if name not in known))

    async def _send(self, body: dict[str, Any], ends_at: float) -> bytes:
        """The answer's body, after as many tries as are allowed. Raises the vendor's errors, or JudgeUnavailable."""
        tries = AsyncRetrying(
            retry=retry_if_exception(may_retry),
            wait=self._choose_wait,
            stop=stop_after_attempt(self._max_attempts) | stop_before_delay(seconds_until(ends_at)),
            sleep=self._sleep,
            reraise=True,
        )
        return await tries(self._send_once, body, ends_at)

    async def _send_once(self, body: dict[str, Any], ends_at: float) -> bytes:
        patience_seconds = PATIENCE_SHARE * seconds_until(ends_at)
        async with self._gate.passage(patience_seconds=patience_seconds), asyncio.timeout(self._timeout_seconds):
            try:
                answer = await self._client.chat.completions.with_raw_response.create(**cast(Any, body))
            except openai.APIStatusError as error:
                self._tell_gate(error)
                raise
        content = bytes(answer.http_response.content)
        if "logprobs" not in body and len(content) > LARGEST_PLAIN_REPLY_BYTES:
            raise ReplyTooLarge("the reply is too large for one without token probabilities")
        return content

    def _tell_gate(self, error: openai.APIStatusError) -> None:
        if may_retry(error):
            self._gate.close_for(retry_after(error) or 0.0)
        elif concerns_account(error):
            self._gate.turn_away(translate_error(error, api_key=self._api_key))

    def _choose_wait(self, state: RetryCallState) -> float:
        """Seconds until the next try: what the endpoint asked for, else exponential with full jitter."""
        error = state.outcome.exception() if state.outcome else None
        asked = retry_after(error) if error else None
        if asked is None:
            return self._backoff(state)
        return asked + random.uniform(0, HERD_SECONDS)  # noqa: S311 - spreads load, keeps no secret


def seconds_until(moment: float) -> float:
    """Until a moment of the running loop's clock; 0 where it is past."""
    return max(0.0, moment - asyncio.get_running_loop().time())
