"""The way to one endpoint's chat completions: bytes out, a response or one of the SDK's errors back."""

from __future__ import annotations

import json

import httpx2
import openai

from app import __version__
from app.adapters.openai.transfer import BoundedClient

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


class ChatLine:
    """Posts to the endpoint at `url` over the SDK's own kind of HTTP client, with the SDK's errors.

    The SDK builds address, headers and options of each request anew, which takes a seventh of all CPU of a worker; here
    they are made once. Retries are the caller's.
    """

    def __init__(self, url: str, api_key: str, *, timeout_seconds: float, largest_reply_bytes: int) -> None:
        self._http = BoundedClient(largest_reply_bytes=largest_reply_bytes, timeout=timeout_seconds)
        self._url = httpx2.URL(url + PATH)
        self._headers = httpx2.Headers(
            {
                "Accept": "application/json",
                "Authorization": f"Bearer {api_key}",
                "Content-Type": "application/json",
                "User-Agent": f"saiten/{__version__}",
            }
        )
        self._extensions = {"timeout": httpx2.Timeout(timeout_seconds).as_dict()}

    async def post(self, content: bytes) -> httpx2.Response:
        """The endpoint's answer to a JSON body. Raises an `openai.APIStatusError` for any but a success, and
        APIConnectionError or APITimeoutError where there is none."""
        request = httpx2.Request("POST", self._url, headers=self._headers, content=content, extensions=self._extensions)
        try:
            response = await self._http.send(request)
        except httpx2.TimeoutException as error:
            raise openai.APITimeoutError(request=request) from error
        except httpx2.HTTPError as error:
            raise openai.APIConnectionError(request=request) from error
        if not response.is_success:
            raise read_error(response)
        return response

    async def close(self) -> None:
        await self._http.aclose()


def read_error(response: httpx2.Response) -> openai.APIStatusError:
    """The SDK's error for an answer that is no success, with what the endpoint said."""
    status, body = response.status_code, read_body(response)
    kind = openai.InternalServerError if status >= 500 else ERRORS.get(status, openai.APIStatusError)
    said = body.get("error", body) if isinstance(body, dict) else body
    return kind(f"Error code: {status}", response=response, body=said)


def read_body(response: httpx2.Response) -> object:
    """The body as JSON, else as text."""
    text = response.text.strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
