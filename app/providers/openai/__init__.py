"""The judge `openai`: OpenAI-compatible endpoints with retries, negotiated parameters, prices and batch mode; and the
judges `relay` and `local`, which ask the same questions by files and of a model in this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from saiten.core.messages import Message
from saiten_server.core.errors import SettingsInvalid
from saiten_server.providers.registry import judge

if TYPE_CHECKING:
    from saiten_server.platform.settings import Settings
    from saiten_server.providers.call_cache import CachedCalls
    from saiten_server.providers.chat_model import ChatModelChoice
    from saiten_server.providers.flow_control import FlowControl
    from saiten_server.providers.ports import BatchProvider, Judge


def check_secrets(settings: Settings) -> None:
    """Raises SettingsInvalid where a secret seems to be lost, which must not choose another judge."""
    if settings.openai_api_key is not None and not settings.judge_key:
        raise SettingsInvalid(Message("openai-key-empty"))
    if settings.openai_api_key is None and settings.openai_base_url is None:
        named = "SAITEN_JUDGE=openai" if settings.judge else "SAITEN_MODEL"
        raise SettingsInvalid(Message("openai-key-missing", setting=named))


def open_batches(settings: Settings) -> BatchProvider | None:
    """OpenAI's Batch API; None without a key."""
    if not settings.judge_key:
        return None
    from saiten_server.providers.openai.batches import OpenAIProviderBatches

    return OpenAIProviderBatches(
        api_key=settings.judge_key,
        base_url=settings.openai_base_url,
        timeout_seconds=settings.judge_timeout_seconds,
    )


def locate_endpoint(settings: Settings) -> str | None:
    """The host of OPENAI_BASE_URL with its port, without user and password: a URL can carry a key."""
    import httpx

    return httpx.URL(settings.openai_base_url).netloc.decode() if settings.openai_base_url else None


@judge(
    "openai",
    # A model by itself counts too: then `check_secrets` says what is missing, and no baseline rates in its place.
    wanted=lambda given: (given.openai_api_key, given.openai_base_url, given.model) != (None, None, None),
    check=check_secrets,
    preload=("saiten_server.providers.openai.endpoint",),
    open_batches=open_batches,
    locate=locate_endpoint,
)
def open_judge(settings: Settings, calls: CachedCalls, flow: FlowControl) -> Judge:
    """A chat model at OPENAI_BASE_URL, OpenAI's own without it."""
    from saiten_server.providers.openai.judge import OpenAIJudge
    from saiten_server.providers.openai.parameters import read_extra
    from saiten_server.providers.openai.prices import read_prices

    return OpenAIJudge(
        api_key=settings.judge_key,
        base_url=settings.openai_base_url,
        model=settings.judge_model,
        calls=calls,
        prices=read_prices(Path(settings.prices) if settings.prices else None),
        timeout_seconds=settings.judge_timeout_seconds,
        deadline_seconds=settings.judge_deadline_seconds,
        max_attempts=settings.judge_attempts,
        malformed_retries=settings.judge_malformed_retries,
        extra=read_extra(settings.judge_extra),
        lenient=settings.judge_lenient,
        flow=flow,
    )


RELAYED = "relay"
"""The model that judges by files, where the settings name none."""


def check_relay(settings: Settings) -> None:
    """Raises SettingsInvalid without a folder."""
    if settings.relay_folder is None:
        raise SettingsInvalid(Message("relay-folder-missing"))


@judge("relay", check=check_relay)
def open_relay(settings: Settings, calls: CachedCalls, flow: FlowControl) -> Judge:
    """The people or the program that answer the files in SAITEN_RELAY_FOLDER."""
    from saiten_server.providers.openai.prices import read_prices
    from saiten_server.providers.openai.relay import RelayFolder, RelayJudge

    opened = RelayJudge(
        api_key="",
        base_url="http://relay.invalid/v1",
        model=settings.model or RELAYED,
        calls=calls,
        prices=read_prices(Path(settings.prices) if settings.prices else None),
        flow=flow,
    )
    return opened.relay(RelayFolder(Path(settings.relay_folder or "")))


def choose_model(settings: Settings) -> ChatModelChoice:
    """The model in SAITEN_JUDGE_FOLDER. Raises SettingsInvalid without a folder."""
    from saiten_server.providers.chat_model import ChatModelChoice

    if settings.judge_folder is None:
        raise SettingsInvalid(Message("local-judge-folder-missing"))
    return ChatModelChoice(name=settings.judge_folder, device=settings.judge_device, precision=settings.judge_precision)


def check_local(settings: Settings) -> None:
    """Raises SettingsInvalid where the model or what it needs is missing. Loads nothing."""
    from saiten_server.providers.chat_model import CHAT_MODEL, check_folder

    choice = choose_model(settings)
    CHAT_MODEL.require_installed()
    check_folder(choice.name)


@judge("local", check=check_local, in_process=True, identify=lambda settings: choose_model(settings).identify())
def open_local(settings: Settings, calls: CachedCalls, _: FlowControl) -> Judge:
    """The model in SAITEN_JUDGE_FOLDER, in this process."""
    from saiten_server.providers.openai.local import LocalEndpoint, LocalJudge, free_prices

    choice = choose_model(settings)
    name = Path(choice.name).expanduser().resolve().name
    endpoint = LocalEndpoint(choice, most=settings.judge_concurrency)
    return LocalJudge(
        model=name,
        local=endpoint,
        calls=calls,
        prices=free_prices(name),
        lenient=settings.judge_lenient,
        deadline_seconds=settings.judge_deadline_seconds,
    )
