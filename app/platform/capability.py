"""How a capability joins the service: where its parts are found, and what its service stands on.

A capability is a folder of the package that `CAPABILITIES` names. What is called `api` or `pages` in it, at whatever
depth, adds its routes, a `service` with `open_service` a service of its own, and a `store` its tables. `templates/`,
`locales/`, `migrations/` and `messages.toml` in it are found by their names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import TYPE_CHECKING

from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.platform.memory_cache import CallCache
from saiten_server.platform.settings import Settings

if TYPE_CHECKING:
    from saiten_server.runs.quota import StorageQuota


CAPABILITIES = (
    *("scoring", "runs", "comparison", "preferences", "analyses", "ratings", "monitors"),
    *("governance", "explorer", "erasure", "offline"),
)
"""The folders that join the service, in the order of their routes in the OpenAPI document."""


@dataclass(frozen=True)
class Ground:
    """What the service of a capability stands on: the argument of its `open_service`. `now` is in UTC, and `new_id`
    makes an id with a prefix that cannot be guessed."""

    settings: Settings
    engine: AsyncEngine
    cache: CallCache
    quota: StorageQuota
    now: Callable[[], datetime]
    new_id: Callable[[str], str]


@cache
def find_parts(capability: str, part: str) -> tuple[ModuleType, ...]:
    """The modules of a capability that are called so, or that stand in a folder that is."""
    package = import_module(f"saiten_server.{capability}")
    found = [one.name for one in walk_packages(package.__path__, f"{package.__name__}.")]
    return tuple(import_module(name) for name in found if part in name.split(".")[2:])
