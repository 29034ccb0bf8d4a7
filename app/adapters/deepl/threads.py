"""Threads that ask DeepL for an event loop, and the checks of what they are given."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from app.adapters.deepl.errors import fail
from app.domain.errors import SettingsInvalid

if TYPE_CHECKING:
    from app.adapters.deepl.client import OneTryClient


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
            # Here and not above: it brings DeepL's package, which nobody waits for but who asks.
            from app.adapters.deepl.client import OneTryClient

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
