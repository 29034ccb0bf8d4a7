"""The translator `deepl`: DeepL's SDK with time limits, retries and caching."""

from __future__ import annotations

from typing import TYPE_CHECKING

from saiten_server.providers.registry import translator

if TYPE_CHECKING:
    from saiten_server.platform.flow_state import FlowState
    from saiten_server.platform.memory_cache import CallCache
    from saiten_server.platform.settings import Settings
    from saiten_server.platform.telemetry import Telemetry
    from saiten_server.providers.ports import Translator


@translator("deepl", wanted=lambda settings: settings.deepl_api_key is not None, preload=(f"{__name__}.client",))
def open_translator(settings: Settings, cache: CallCache, telemetry: Telemetry, pauses: FlowState) -> Translator:
    """DeepL, with the key in DEEPL_API_KEY."""
    from saiten_server.providers.deepl.translator import DeepLTranslator

    key = settings.deepl_api_key
    return DeepLTranslator(
        auth_key=key.get_secret_value() if key else "",
        server_url=settings.deepl_server_url,
        cache=cache,
        telemetry=telemetry,
        timeout_seconds=settings.translator_timeout_seconds,
        max_attempts=settings.translator_attempts,
        pauses=pauses,
    )
