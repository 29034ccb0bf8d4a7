"""Calls one OpenAI-compatible endpoint, with retries, parameter negotiation and flow control."""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx2
import openai
from cachetools import FIFOCache

from saiten.core.messages import Message
from saiten_server import __version__
from saiten_server.core.errors import JudgeUnavailable, UpstreamError
from saiten_server.core.model import encode_pieces
from saiten_server.platform.helpers import work_through
from saiten_server.platform.tasks import within
from saiten_server.providers.flow_control import CallInFlight, FlowControl
from saiten_server.providers.openai import errors
from saiten_server.providers.openai.parameters import (
    BROKEN_FORMAT,
    LARGEST_PLAIN_REPLY_BYTES,
    Question,
    bound_reply,
    concede,
    find_refused,
    name_dropped,
)
from saiten_server.providers.openai.reply import FILTER_CODES, Reply, filtered, find_error, oversize, read_completion
from saiten_server.providers.ports import JudgingTask

KEPT_WAYS = 256  # Cached beginnings and ends at most: one per model, rubric, format, sample and attempt
PROMPT_PLACEHOLDER = "\ue000"  # Placeholder for the dialogue: a private-use character, which no prompt contains
Way = tuple[object, ...]
RawHeaders = tuple[tuple[bytes, bytes], ...]


class RequestBodies:
    """Writes questions as request bodies. The parts around the dialogue are cached. Thread-safe."""

    def __init__(self) -> None:
        self._kept: FIFOCache[Way, tuple[bytes, bytes]] = FIFOCache(KEPT_WAYS)
        self._lock = Lock()

    def write(self, question: Question, conceded: tuple[str, ...]) -> bytes:
        """`question.body(conceded)` as JSON in UTF-8."""
        prompt = question.prompt(structured="response_format" not in conceded)
        # Prompts about a conversation share a digest, whichever aspects apply.
        aspects = tuple(aspect.id for aspect in question.aspects)
        which = (aspects, question.sample, question.attempt, question.max_output_tokens, question.marked)
        way = (question.model, question.options, prompt.prefix_digest, conceded, *which)
        with self._lock:
            around = self._kept.get(way)
        if around is None:
            body = question.body(conceded)
            *fixed, asked = body["messages"]
            written = dump_json(body | {"messages": [*fixed, asked | {"content": PROMPT_PLACEHOLDER}]})
            before, _, after = written.partition(dump_json(PROMPT_PLACEHOLDER))
            around = before, after
            with self._lock:
                self._kept[way] = around
        beginning, end = around
        return b"".join((beginning, *encode_pieces(prompt.user), end))


def dump_json(value: Any) -> bytes:
    """Compact JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


# Headers of a response in transit that do not apply to its decoded body
TRANSFER_HEADERS = ("content-encoding", "content-length", "transfer-encoding")
# Many servers close an idle connection after 5 s, and a call on a connection that is being closed is lost
IDLE_SECONDS = 4.0
REPLY_PIECE_BYTES = 16 * 1024  # Bytes read at a time
# 0 means no limit in aiohttp: flow control bounds the calls
LIMITS = httpx2.Limits(max_connections=0, keepalive_expiry=IDLE_SECONDS)


class BoundedClient(openai.DefaultAioHttpClient):
    """The SDK's client over aiohttp. `largest_reply_bytes` limits every decoded body, including those of errors. A
    small compressed body can hold gigabytes, so bytes are counted piece by piece while the body is decoded."""

    def __init__(self, *, largest_reply_bytes: int, **settings: Any) -> None:
        super().__init__(**settings, limits=LIMITS, follow_redirects=False)
        self._largest_reply_bytes = largest_reply_bytes

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """Like the base class, but raises ReplyTooLarge for a body over the limit, and closes the connection."""
        try:
            response = await super().send(request, stream=True, **options)
            if stream:
                return response
            try:
                async with aclosing(response.aiter_bytes()) as pieces:
                    content = await join_pieces(pieces, self._largest_reply_bytes)
            finally:
                await response.aclose()
        except httpx2.TimeoutException as error:
            # The transport reports every broken connection as a timeout.
            if isinstance(error.__cause__, TimeoutError):
                raise
            raise openai.APIConnectionError(request=request) from error
        except aiohttp.ClientError as error:
            raise openai.APIConnectionError(request=request) from error
        headers = response.headers.copy()
        for name in TRANSFER_HEADERS:
            headers.pop(name, None)
        return httpx2.Response(response.status_code, headers=headers, content=content, request=response.request)


async def read_body(answer: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """The decoded body of an answer to a session without `auto_decompress`. Raises ReplyTooLarge without reading on,
    and httpx2.DecodingError."""
    pieces = answer.content.iter_chunked(REPLY_PIECE_BYTES)
    if "Content-Encoding" not in answer.headers:
        return await join_pieces(pieces, most_bytes)
    encoding = [("content-encoding", answer.headers["Content-Encoding"])]
    encoded = httpx2.Response(answer.status, headers=encoding, content=pieces)
    async with aclosing(encoded.aiter_bytes()) as decoded:
        return await join_pieces(decoded, most_bytes)


async def join_pieces(pieces: AsyncIterator[bytes], most_bytes: int) -> bytes:
    """All pieces as one. Raises ReplyTooLarge as soon as there are more bytes."""
    found, length = [], 0
    async for piece in pieces:
        found.append(piece)
        length += len(piece)
        if length > most_bytes:
            raise errors.ReplyTooLarge(f"the reply has more than {most_bytes:,} bytes")
    return found[0] if len(found) == 1 else b"".join(found)


CHAT_PATH = "/chat/completions"

ERRORS: dict[int, type[openai.APIStatusError]] = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    409: openai.ConflictError,
    422: openai.UnprocessableEntityError,
    429: openai.RateLimitError,
}

# The status of an error that was sent with HTTP 200, by its code or type
ERROR_STATUSES: dict[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    **dict.fromkeys(FILTER_CODES, 400),
}


class ChatLine:
    """Posts to the endpoint at `url` over aiohttp, and raises the SDK's errors. The SDK builds address, headers,
    options and an answer object for each call, which takes a fifth of a worker's CPU; here the fixed parts are built
    once. It follows no redirects, keeps no cookies. `largest_reply_bytes` limits every decoded body, including those of
    errors. Retries and timeouts are up to the caller. For one event loop."""

    def __init__(self, url: str, api_key: str, *, largest_reply_bytes: int) -> None:
        self._address = url + CHAT_PATH
        self._largest_reply_bytes = largest_reply_bytes
        self._headers = {
            "Accept": "application/json",
            **({"Authorization": f"Bearer {api_key}"} if api_key else {}),
            "Content-Type": "application/json",
            "User-Agent": f"saiten/{__version__}",
        }
        self._proxy = find_proxy(url)
        self._session: aiohttp.ClientSession | None = None

    async def post(self, content: bytes, largest_reply_bytes: int | None = None) -> tuple[bytes, RawHeaders]:
        """The decoded body and the headers of the endpoint's answer to a JSON body. Raises `openai.APIStatusError` for
        any status but success, APIConnectionError without an answer, and ReplyTooLarge without reading on."""
        session = self._session = self._session or self._open()
        try:
            async with session.post(self._address, data=content, allow_redirects=False, proxy=self._proxy) as answer:
                succeeded = 200 <= answer.status < 300
                try:
                    body = await read_body(answer, largest_reply_bytes or self._largest_reply_bytes)
                except errors.ReplyTooLarge:
                    if succeeded:
                        raise
                    body = b""  # the status alone says what is wrong
        except (aiohttp.ClientError, httpx2.HTTPError) as error:
            raise openai.APIConnectionError(request=self._request()) from error
        if not succeeded:
            raise self._read_error(answer, body)
        return body, answer.raw_headers

    def make_error(self, error: dict[str, Any]) -> openai.APIStatusError:
        """The SDK's error for an error that the endpoint sent with HTTP 200."""
        words = [str(error.get(name)) for name in ("code", "type")]
        number = next((ERROR_STATUSES[word] for word in words if word in ERROR_STATUSES), 500)
        if re.fullmatch("[45][0-9]{2}", words[0]):
            number = int(words[0])
        return make_status_error(number, httpx2.Response(number, request=self._request()), error)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        """Creates the session in the running loop."""
        secure = self._address.lower().startswith("https:")
        connector = aiohttp.TCPConnector(
            limit=0, keepalive_timeout=IDLE_SECONDS, ssl=httpx2.create_ssl_context() if secure else True
        )
        return aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            auto_decompress=False,
        )

    def _request(self) -> httpx2.Request:
        """The request that an SDK error refers to, without the dialogue."""
        return httpx2.Request("POST", self._address)

    def _read_error(self, answer: aiohttp.ClientResponse, body: bytes) -> openai.APIStatusError:
        """The SDK's error for an unsuccessful answer, with the endpoint's message."""
        headers = [(name, value) for name, value in answer.raw_headers if name.lower() != b"content-encoding"]
        response = httpx2.Response(answer.status, headers=headers, content=body, request=self._request())
        content: Any = response.text.strip()
        with suppress(ValueError, RecursionError):
            content = json.loads(content)
        if isinstance(content, list) and content:
            # Gemini wraps its error in a list.
            content = content[0]
        content = content.get("error", content) if isinstance(content, dict) else content
        return make_status_error(answer.status, response, content)


def make_status_error(status: int, response: httpx2.Response, content: object) -> openai.APIStatusError:
    """The SDK's error for a status."""
    kind = openai.InternalServerError if status >= 500 else ERRORS.get(status, openai.APIStatusError)
    return kind(f"Error code: {status}", response=response, body=content)


def find_proxy(url: str) -> str | None:
    """The proxy for an address by HTTPS_PROXY, ALL_PROXY and NO_PROXY, if any."""
    try:
        address = urlsplit(url)
    except ValueError:
        # An invalid address, which the first call will report.
        return None
    proxies = getproxies()
    proxy = proxies.get(address.scheme) or proxies.get("all")
    if not proxy or (address.hostname and proxy_bypass(address.hostname)):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


LONGEST_BACKOFF_SECONDS = 30.0
# Share of the remaining time to wait for a place: a call that begins later would be cut off, and billed
WAIT_SHARE = 0.9
# HTTP 400, and 422, which servers built on FastAPI send instead
REFUSING_ERRORS = (openai.BadRequestError, openai.UnprocessableEntityError)


@dataclass(eq=False, repr=False, kw_only=True)
class OpenAIEndpoint:
    """Asks the chat endpoint at `url`, and remembers per model which parameters it refuses. `timeout_seconds` limits
    one try. `deadline_seconds` limits an interactive request: all tries, with or without refused parameters, and all
    waits. `largest_reply_bytes` limits a reply with token probabilities; other replies may have 1 MiB. Every try passes
    through `flow`, which learns of its outcome."""

    api_key: str
    url: str
    timeout_seconds: float
    deadline_seconds: float
    max_attempts: int
    backoff_seconds: float
    flow: FlowControl
    largest_reply_bytes: int = LARGEST_PLAIN_REPLY_BYTES
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def __post_init__(self) -> None:
        self._line = ChatLine(self.url, self.api_key, largest_reply_bytes=self.largest_reply_bytes)
        self._bodies = RequestBodies()
        self._conceded: dict[str, tuple[str, ...]] = {}

    async def ask(self, question: Question, key: str, task: JudgingTask) -> Reply:
        """The endpoint's reply to a question of the task, marked with the question's key. Raises the `Judge…` errors.
        If a parameter is refused, the question is asked again without it. The concession is remembered once a request
        has succeeded without the parameter, so that an error mistaken for a refusal does not affect other requests."""
        # A batch's call may wait any time for its turn: minutes behind a low rate limit do no harm.
        seconds = math.inf if task.lane == "batch" else self.deadline_seconds
        ends_at = asyncio.get_running_loop().time() + seconds
        try:
            async with within(seconds):
                return await self._negotiate(question, key, task, ends_at)
        except TimeoutError:
            raise JudgeUnavailable(Message("judge-too-slow", seconds=self.deadline_seconds)) from None

    async def _negotiate(self, question: Question, key: str, task: JudgingTask, ends_at: float) -> Reply:
        conceded = self._conceded.get(question.model, ())
        while True:
            try:
                answer = await self._send(question, conceded, task, ends_at)
                break
            except openai.APIStatusError as error:
                if errors.is_filtered(error):
                    answer = filtered(errors.quote_error(error, self.api_key))
                    break
                refused = self._read_refusal(error, question.body(conceded))
                if refused is None:
                    raise self._translate(error) from error
                conceded = concede(conceded, refused)
            except (openai.OpenAIError, TimeoutError) as error:
                raise self._translate(error) from error
        if conceded:
            known = self._conceded.get(question.model, ())
            self._conceded[question.model] = tuple(dict.fromkeys((*known, *conceded)))
        return Reply(
            key=key,
            structured="response_format" not in conceded,
            parameters=question.parameters(conceded),
            dropped=name_dropped(conceded),
            **answer,
        )

    async def close(self) -> None:
        await self._line.close()

    def _translate(self, error: Exception) -> UpstreamError:
        return errors.translate_error(error, api_key=self.api_key, longest_seconds=self.flow.longest_pause_seconds)

    def _read_refusal(self, error: openai.APIStatusError, body: dict[str, Any]) -> str | None:
        if isinstance(error, openai.InternalServerError):
            broken = "response_format" in body and BROKEN_FORMAT.search(errors.upstream_message(error))
            return "response_format" if broken else None
        if not isinstance(error, REFUSING_ERRORS):
            return None
        return find_refused(
            body, errors.upstream_message(error), error.param if isinstance(error.param, str) else None, error.code
        )

    async def _send(
        self, question: Question, conceded: tuple[str, ...], task: JudgingTask, ends_at: float
    ) -> dict[str, Any]:
        """The fields of the answer, after as many tries as allowed. Raises the SDK's errors, or JudgeUnavailable."""
        prompt = question.prompt(structured="response_format" not in conceded)
        content = await work_through(len(prompt.user), partial(self._bodies.write, question, conceded))
        # The number of characters stands for tokens; flow control learns the ratio.
        tokens = len(prompt.system) + len(prompt.user)
        with_probabilities = question.options.expected and "logprobs" not in conceded
        largest_bytes = bound_reply(question.max_output_tokens) if with_probabilities else LARGEST_PLAIN_REPLY_BYTES
        attempt = 0
        while True:
            attempt += 1
            try:
                max_wait_seconds = WAIT_SHARE * seconds_until(ends_at)
                async with self.flow.passage(
                    tokens=tokens, lane=task.lane, max_wait_seconds=max_wait_seconds, scope=task.scope
                ) as call:
                    return await self._send_once(content, largest_bytes, call)
            except (openai.OpenAIError, TimeoutError) as error:
                if attempt >= self.max_attempts or not errors.may_retry(error):
                    raise
                if isinstance(error, openai.InternalServerError) and self._read_refusal(error, question.body(conceded)):
                    raise
                if task.lane == "batch" and isinstance(error, TimeoutError):
                    # The batch's other candidates show what is wrong sooner than retries that each time out.
                    raise
                asked = errors.retry_after(error)
                # Exponential, with full jitter.
                longest = min(LONGEST_BACKOFF_SECONDS, self.backoff_seconds * 2 ** (attempt - 1))
                wait = random.uniform(0, longest) if asked is None else asked  # noqa: S311 - spreads load
                if wait >= seconds_until(ends_at):
                    raise
            if asked is None:
                await self.sleep(wait)

    async def _send_once(self, content: bytes, largest_bytes: int, call: CallInFlight) -> dict[str, Any]:
        async with asyncio.timeout(self.timeout_seconds):
            try:
                try:
                    body, headers = await self._line.post(content, largest_bytes)
                except errors.ReplyTooLarge:
                    # What the model wrote about this dialogue is at fault, not the endpoint, which serves others.
                    call.succeeded()
                    return oversize()
                answer = read_completion(body)
                sent_error = None if answer["completion"] else find_error(body)
                if sent_error is not None:
                    raise self._line.make_error(sent_error)
            except openai.APIStatusError as error:
                self._report_failure(call, error)
                raise
        call.succeeded(errors.read_limits(headers), answer["prompt_tokens"] + answer["completion_tokens"])
        return answer

    def _report_failure(self, call: CallInFlight, error: openai.APIStatusError) -> None:
        if errors.concerns_account(error):
            self.flow.turn_away(self._translate(error))
        elif errors.may_retry(error):
            asked, limits = errors.retry_after(error), errors.read_limits(error.response.headers.raw)
            if isinstance(error, openai.RateLimitError):
                call.throttled(asked, limits)
            elif asked is not None:
                call.put_off(asked, limits)


def seconds_until(moment: float) -> float:
    """Seconds until a moment of the running loop's clock; 0 if it is past."""
    return max(0.0, moment - asyncio.get_running_loop().time())
