"""DeepL's synchronous SDK, made to serve an event loop: worker threads, one try a call, no logging of texts."""

from __future__ import annotations

import asyncio
import json as json_module
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urljoin

import deepl

from app import __version__
from app.adapters.deepl.errors import DeepLFailure, fail_by_status, quote_message
from app.adapters.deepl.passages import TARGET_LANGUAGE
from app.domain.errors import SettingsInvalid, TranslatorUnavailable
from app.domain.retry_after import read_retry_after


class OneTryClient(deepl.DeepLClient):
    """The SDK's client without three things that do not fit a service.

    Its retries are counted by a module-wide variable, its time limit is a constant, and it hands every text to its
    logger. All three live in `_api_call`, which is replaced here; nothing outside this object is changed. Not for use
    by two threads at once.
    """

    def __init__(self, auth_key: str, server_url: str | None, timeout_seconds: float) -> None:
        super().__init__(auth_key, server_url=server_url, send_platform_info=False)
        self.set_app_info("saiten", __version__)
        self.timeout_seconds = timeout_seconds
        self.retry_after: str | None = None

    def _api_call(
        self,
        url: str,
        *,
        method: str = "POST",
        data: dict[str, Any] | None = None,
        json: dict[str, Any] | None = None,
        stream: bool = False,
        headers: dict[str, str] | None = None,
        **options: Any,
    ) -> tuple[int, Any, Any]:
        self.retry_after = None
        request = self._client._prepare_request(
            method,
            urljoin(self._server_url, url),
            data,
            json,
            {**self.headers, **(headers or {})},
            hooks={"response": self._keep_retry_after},
            **options,
        )
        status, content = self._client._internal_request(request, stream, timeout=self.timeout_seconds)
        try:
            reply = json_module.loads(content) if isinstance(content, str) else None
        except ValueError:
            reply = None
        return status, content, reply

    def _keep_retry_after(self, response: Any, **_: Any) -> None:
        self.retry_after = response.headers.get("Retry-After")


class DeepLThreads:
    """A bounded pool of threads, each with its own client, since an HTTP session must not be shared between threads."""

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
                return await loop.run_in_executor(self._executor, self._call, texts, context, source_language)
        except TimeoutError:
            raise self._fail(f"did not answer within {self._timeout_seconds:g} s", transient=True) from None

    def close(self) -> None:
        """Takes no further request and lets go of idle connections. A thread in a request ends with its time limit."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        for client in self._clients:
            client.close()  # type: ignore[no-untyped-call]

    def _call(self, texts: Sequence[str], context: str | None, source_language: str) -> list[str]:
        client = self._own_client()
        try:
            results = client.translate_text(
                list(texts), source_lang=source_language, target_lang=TARGET_LANGUAGE, context=context
            )
        except deepl.DeepLException as error:
            # `from None`: the SDK's words may hold the key or a text, and a traceback would show them.
            raise self._describe(error, client.retry_after) from None
        except (AttributeError, TypeError, ValueError):
            raise self._fail("sent a reply that the SDK cannot read") from None
        return self._check([result.text for result in results] if isinstance(results, list) else [], texts)

    def _check(self, translated: list[Any], texts: Sequence[str]) -> list[str]:
        """Raises DeepLFailure where a text is missing, empty or not storable; only whole replies are used."""
        if len(translated) != len(texts):
            raise self._fail(f"sent {len(translated)} translations for {len(texts)} texts")
        for text in translated:
            if not isinstance(text, str) or not text.strip():
                raise self._fail("sent an empty translation")
            if any(character == "\x00" or "\ud800" <= character <= "\udfff" for character in text):
                raise self._fail("sent a translation with NUL or a lone surrogate")
        return translated

    def _describe(self, error: deepl.DeepLException, retry_after: str | None) -> DeepLFailure:
        if error.http_status_code is not None:
            message = quote_message(str(error), self._auth_key)
            return fail_by_status(error.http_status_code, message, read_retry_after(retry_after, datetime.now(UTC)))
        if isinstance(error, deepl.ConnectionException):
            reason = type(error.__cause__).__name__
            return self._fail(f"cannot be reached ({reason}); check DEEPL_SERVER_URL and the network", transient=True)
        return self._fail("could not be asked: the request cannot be built; check DEEPL_API_KEY and DEEPL_SERVER_URL")

    def _fail(self, what: str, *, transient: bool = False) -> DeepLFailure:
        return DeepLFailure(TranslatorUnavailable(f"DeepL {what}."), transient=transient)

    def _own_client(self) -> OneTryClient:
        if not hasattr(self._local, "client"):
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
