"""Scoring on an engine that exists, without a service: Arrow in and out, and runs as Parquet files.

Needs the extra `offline`. Nothing here is imported before it is used, so that a worker of an engine starts quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saiten_server.offline.scorer import Scorer

__all__ = ["Scorer"]


def __getattr__(name: str) -> Any:
    if name != "Scorer":
        raise AttributeError(name)
    from saiten_server.offline.scorer import Scorer

    return Scorer
