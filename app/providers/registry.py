"""The registry of judges, translators and encoders. A provider registers itself; no other module knows its name.

A new provider is one module or package in this folder, with one decorated function that opens it:

    @judge("mine", wanted=lambda settings: settings.judge == "mine")
    def open_mine(settings: Settings, calls: CachedCalls, flow: FlowControl) -> Judge:
        from saiten_server.providers.mine.judge import MyJudge

        return MyJudge(...)

All modules in this folder are imported when a provider is first looked up. They import vendors' packages inside
functions, so that the service starts without them.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from saiten.core.messages import Message
from saiten.core.plain_text import printable
from saiten_server.core.errors import SettingsInvalid

if TYPE_CHECKING:
    from saiten_server.platform.flow_state import FlowState
    from saiten_server.platform.memory_cache import CallCache
    from saiten_server.platform.settings import Settings
    from saiten_server.platform.telemetry import Telemetry
    from saiten_server.providers.call_cache import CachedCalls
    from saiten_server.providers.flow_control import FlowControl
    from saiten_server.providers.ports import BatchProvider, Encoder, Judge, Translator

    OpenJudge = Callable[[Settings, CachedCalls, FlowControl], Judge]
    OpenTranslator = Callable[[Settings, CallCache, Telemetry, FlowState], Translator]
    OpenEncoder = Callable[[Settings], Encoder]


@dataclass(frozen=True)
class JudgeProvider:
    """A judge that can be opened. `wanted` says whether settings that name no judge imply this one.

    A `baseline` rates without a language model, costs nothing, and is used if no other judge is wanted. `check` raises
    SettingsInvalid if the settings do not suffice. `preload` names modules that take long to import and that only calls
    need. `open_batches` opens the provider's own batch mode, or returns None if the settings do not allow it. `locate`
    gives the host that is called; None for a judge that calls none, or only its usual one. One that runs `in_process`
    has a GPU where there is one, and no limit of calls. `identify` names the model with all that its replies depend on;
    None where the settings or the request name it."""

    name: str
    open: OpenJudge
    wanted: Callable[[Settings], bool] = lambda _: False
    baseline: bool = False
    check: Callable[[Settings], None] = lambda _: None
    preload: tuple[str, ...] = ()
    open_batches: Callable[[Settings], BatchProvider | None] = lambda _: None
    locate: Callable[[Settings], str | None] = lambda _: None
    in_process: bool = False
    identify: Callable[[Settings], str | None] = lambda _: None

    def describe(self, settings: Settings) -> str:
        """The judge's name, with its host if there is one to name."""
        host = self.locate(settings)
        return f"{self.name} at {host}" if host else self.name


@dataclass(frozen=True)
class TranslatorProvider:
    """A translator, used if it is `wanted`."""

    name: str
    open: OpenTranslator
    wanted: Callable[[Settings], bool]
    preload: tuple[str, ...] = ()


@dataclass(frozen=True)
class EncoderProvider:
    """An encoder, used if it is `wanted`. `is_installed` says whether its packages are installed. `describe` gives the
    encoder by language, with `*` for all others. `find_faults` gives one sentence per configured encoder that is
    unavailable; it may take seconds, so run it in a thread."""

    name: str
    open: OpenEncoder
    wanted: Callable[[Settings], bool]
    is_installed: Callable[[], bool]
    describe: Callable[[Settings], dict[str, str]]
    find_faults: Callable[[Settings], list[Message]]


JUDGES: dict[str, JudgeProvider] = {}
TRANSLATORS: dict[str, TranslatorProvider] = {}
ENCODERS: dict[str, EncoderProvider] = {}
Opens = TypeVar("Opens", bound=Callable[..., Any])


def judge(name: str, **fields: Any) -> Callable[[Opens], Opens]:
    """Registers the decorated function, which opens the judge of that name (SAITEN_JUDGE), with further `fields` of
    `JudgeProvider`."""

    def register(function: Opens) -> Opens:
        JUDGES[name] = JudgeProvider(name, function, **fields)
        return function

    return register


def translator(name: str, **fields: Any) -> Callable[[Opens], Opens]:
    """The same for a translator, with fields of `TranslatorProvider`."""

    def register(function: Opens) -> Opens:
        TRANSLATORS[name] = TranslatorProvider(name, function, **fields)
        return function

    return register


def encoder(name: str, **fields: Any) -> Callable[[Opens], Opens]:
    """The same for an encoder, with fields of `EncoderProvider`."""

    def register(function: Opens) -> Opens:
        ENCODERS[name] = EncoderProvider(name, function, **fields)
        return function

    return register


def find_judge(settings: Settings) -> JudgeProvider:
    """The judge that the settings name or imply, otherwise the baseline. Raises SettingsInvalid."""
    load_providers()
    if settings.judge is not None:
        return judge_named(settings.judge)
    wanted = (provider for provider in JUDGES.values() if provider.wanted(settings))
    return next(wanted, None) or next(provider for provider in JUDGES.values() if provider.baseline)


def judge_named(name: str) -> JudgeProvider:
    """The judge of that name. Raises SettingsInvalid."""
    names = judge_names()
    if name in JUDGES:
        return JUDGES[name]
    near = get_close_matches(name, names, n=1)
    meant = Message("is-meant", near=near[0]) if near else ""
    raise SettingsInvalid(Message("judge-unknown", name=printable(name[:64]), meant=meant, names=", ".join(names)))


def judge_names() -> list[str]:
    """The names of all judges, in alphabetical order."""
    load_providers()
    return sorted(JUDGES)


def is_baseline(kind: str) -> bool:
    """Whether a judge of that name is a baseline; an unregistered one, as in old results, is none."""
    load_providers()
    return kind in JUDGES and JUDGES[kind].baseline


def find_translator(settings: Settings) -> TranslatorProvider | None:
    """The translator that the settings imply, if any."""
    load_providers()
    return next((provider for provider in TRANSLATORS.values() if provider.wanted(settings)), None)


def find_encoder(settings: Settings) -> EncoderProvider | None:
    """The encoder that the settings imply, if any."""
    load_providers()
    return next((provider for provider in ENCODERS.values() if provider.wanted(settings)), None)


def open_judge(settings: Settings, calls: CachedCalls, flow: FlowControl) -> Judge:
    """The judge that the settings name or imply. A baseline never replaces another judge. Raises SettingsInvalid."""
    provider = find_judge(settings)
    provider.check(settings)
    return provider.open(settings, calls, flow)


def open_encoder(settings: Settings) -> Encoder | None:
    """The encoder, unless it is off."""
    provider = find_encoder(settings)
    return provider.open(settings) if provider else None


def find_encoder_faults(settings: Settings) -> list[Message]:
    """One sentence per configured encoder that is unavailable, with what was tried. It may query a hub, so run it in a
    thread."""
    provider = find_encoder(settings)
    return provider.find_faults(settings) if provider else []


def load_clients(settings: Settings) -> None:
    """Imports the modules for calls to judge and translator, which takes most of a second. Run it in a thread once the
    service is ready; an earlier call imports them itself."""
    translator = find_translator(settings)
    for module in (*find_judge(settings).preload, *(translator.preload if translator else ())):
        import_module(module)


@cache
def load_providers() -> None:
    """Imports the modules in this folder, so that each registers its providers."""
    import saiten_server.providers

    for module in pkgutil.iter_modules(saiten_server.providers.__path__, "saiten_server.providers."):
        import_module(module.name)
