"""DeepL's synchronous SDK with one try per call and no logging of texts. It loads the SDK's package, which takes long:
the first thread that calls DeepL imports it.
"""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urljoin

import deepl

from saiten.core.messages import Message
from saiten_server import __version__
from saiten_server.providers.deepl.requests import TARGET_LANGUAGE, DeepLFailure, fail, fail_by_status, quote_message
from saiten_server.providers.flow_control import read_retry_after


class OneTryClient(deepl.DeepLClient):
    """The SDK's client without three things that do not fit a service: its retries are counted by a module-wide
    variable, its time limit is a constant, and it hands every text to its logger. All three are in `_api_call`, which
    is replaced here. Not for use by two threads at once."""

    def __init__(self, auth_key: str, server_url: str | None, timeout_seconds: float) -> None:
        super().__init__(auth_key, server_url=server_url, send_platform_info=False)
        self.set_app_info("saiten", __version__)
        self._auth_key = auth_key
        self.timeout_seconds = timeout_seconds
        self.retry_after: str | None = None

    def translate_once(self, texts: Sequence[str], context: str | None, source_language: str) -> list[str]:
        """One request, one try. Raises DeepLFailure."""
        try:
            results = self.translate_text(
                list(texts), source_lang=source_language, target_lang=TARGET_LANGUAGE, context=context
            )
        except deepl.DeepLException as error:
            # `from None`: the SDK's words may hold the key or a text, and a traceback would show them.
            raise read_deepl_error(error, self._auth_key, self.retry_after) from None
        except (AttributeError, TypeError, ValueError):
            raise fail(Message("deepl-reply-not-read")) from None
        return check_translated([result.text for result in results] if isinstance(results, list) else [], texts)

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


def check_translated(translated: list[Any], texts: Sequence[str]) -> list[str]:
    """Raises DeepLFailure where a text is missing, empty or not storable; only whole replies are used."""
    if len(translated) != len(texts):
        raise fail(Message("deepl-translations-missing", translations=len(translated), texts=len(texts)))
    for text in translated:
        if not isinstance(text, str) or not text.strip():
            raise fail(Message("deepl-translation-empty"))
        if any(character == "\x00" or "\ud800" <= character <= "\udfff" for character in text):
            raise fail(Message("deepl-translation-not-kept"))
    return translated


def read_deepl_error(error: deepl.DeepLException, auth_key: str, retry_after: str | None) -> DeepLFailure:
    """The failure that an error of the SDK means; `retry_after` is DeepL's header, as it came."""
    if error.http_status_code is not None:
        message = quote_message(str(error), auth_key)
        return fail_by_status(error.http_status_code, message, read_retry_after(retry_after, datetime.now(UTC)))
    if isinstance(error, deepl.ConnectionException):
        reason = type(error.__cause__).__name__
        return fail(Message("deepl-unreachable", reason=reason), transient=True)
    return fail(Message("deepl-request-not-built"))
