"""The way to one endpoint's chat completions: bytes out, an answer or one of the SDK's errors back."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx2
import openai

from app import __version__
from app.adapters.openai.reply import FILTER_CODES
from app.adapters.openai.transfer import IDLE_SECONDS, read_body

PATH = "/chat/completions"

ERRORS: dict[int, type[openai.APIStatusError]] = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    409: openai.ConflictError,
    422: openai.UnprocessableEntityError,
    429: openai.RateLimitError,
}

NAMED: dict[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    **dict.fromkeys(FILTER_CODES, 400),
}
"""The status of an error that came with a successful one, by its code or type."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A successful answer: its body, decoded, and its headers as they came."""

    content: bytes
    headers: tuple[tuple[bytes, bytes], ...]


class ChatLine:
    """Posts to the endpoint at `url` with the SDK's errors, over the HTTP client that the SDK itself is set to here.

    The SDK and its own client build address, headers, options and an answer object of each call anew, which takes a
    fifth of all CPU of a worker; here what is fixed is made once. It follows no redirect and keeps no cookie.
    `largest_reply_bytes` bounds every body, an error's too, as decoded. Retries and time limits are the caller's. For
    one event loop.
    """

    def __init__(self, url: str, api_key: str, *, largest_reply_bytes: int) -> None:
        self._address = url + PATH
        self._largest_reply_bytes = largest_reply_bytes
        self._headers = {
            "Accept": "application/json",
            **({"Authorization": f"Bearer {api_key}"} if api_key else {}),
            "Content-Type": "application/json",
            "User-Agent": f"saiten/{__version__}",
        }
        self._proxy = find_proxy(url)
        self._session: aiohttp.ClientSession | None = None

    async def post(self, content: bytes, largest_reply_bytes: int | None = None) -> Answered:
        """The endpoint's answer to a JSON body, which may have so many bytes. Raises an `openai.APIStatusError` for any
        but a success, APIConnectionError where there is none, and ReplyTooLarge, having read no further."""
        session = self._session or self._open()
        try:
            async with session.post(self._address, data=content, allow_redirects=False, proxy=self._proxy) as answer:
                body = await read_body(answer, largest_reply_bytes or self._largest_reply_bytes)
        except (aiohttp.ClientError, httpx2.HTTPError) as error:
            raise openai.APIConnectionError(request=self._request()) from error
        if not 200 <= answer.status < 300:
            raise self._read_error(answer, body)
        return Answered(body, answer.raw_headers)

    def make_error(self, told: dict[str, Any]) -> openai.APIStatusError:
        """The error that an endpoint told of with a successful status, as if it had come with its own."""
        words = [str(told.get(name)) for name in ("code", "type")]
        number = next((NAMED[word] for word in words if word in NAMED), 500)
        if re.fullmatch("[45][0-9]{2}", words[0]):
            number = int(words[0])
        return make_status_error(number, httpx2.Response(number, request=self._request()), told)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        """The session, made where the loop runs that it is for."""
        secure = self._address.lower().startswith("https:")
        # No limit: flow control bounds the calls.
        connector = aiohttp.TCPConnector(
            limit=0, keepalive_timeout=IDLE_SECONDS, ssl=httpx2.create_ssl_context() if secure else True
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            auto_decompress=False,
        )
        return self._session

    def _request(self) -> httpx2.Request:
        """What an error of the SDK wants to know of its request; nothing of the dialogue."""
        return httpx2.Request("POST", self._address)

    def _read_error(self, answer: aiohttp.ClientResponse, body: bytes) -> openai.APIStatusError:
        """The SDK's error for an answer that is no success, with what the endpoint said."""
        headers = [(name, value) for name, value in answer.raw_headers if name.lower() != b"content-encoding"]
        response = httpx2.Response(answer.status, headers=headers, content=body, request=self._request())
        said = parse(response.text.strip())
        if isinstance(said, list) and said:
            # Gemini puts the one error that there is into a list.
            said = said[0]
        said = said.get("error", said) if isinstance(said, dict) else said
        return make_status_error(answer.status, response, said)


def make_status_error(status: int, response: httpx2.Response, said: object) -> openai.APIStatusError:
    """The SDK's error for a status."""
    kind = openai.InternalServerError if status >= 500 else ERRORS.get(status, openai.APIStatusError)
    return kind(f"Error code: {status}", response=response, body=said)


def parse(text: str) -> object:
    """The text as JSON, else as it is."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def find_proxy(url: str) -> str | None:
    """The proxy that the environment names for an address (HTTPS_PROXY, ALL_PROXY, NO_PROXY); None for none."""
    try:
        address = urlsplit(url)
    except ValueError:
        # No address at all, as the first call will tell.
        return None
    proxies = getproxies()
    proxy = proxies.get(address.scheme) or proxies.get("all")
    if not proxy or (address.hostname and proxy_bypass(address.hostname)):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"
