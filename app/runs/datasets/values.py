"""Datasets: items that a person uploaded, kept to be scored again, and the files that they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from saiten_server.core.rubric import Unit

MIXED = "mixed"
"""Why an item is left out that is a conversation among items, or the other way round."""


@dataclass(frozen=True)
class UploadedFile:
    """A file as it was uploaded, until someone keeps what it holds. `name` is the file's."""

    id: str
    name: str
    size_bytes: int
    created_at: datetime


@dataclass(frozen=True)
class Dataset:
    """Items under a name. `digest` is the SHA-256 of them as NDJSON: other content under the name is another version,
    counted from 1. `korean`: some of it is evidently Korean, so that a rubric must be named."""

    id: str
    name: str
    version: int
    digest: str
    items: int
    size_bytes: int
    unit: Unit
    korean: bool
    created_at: datetime


@dataclass(frozen=True)
class FileQuestion:
    """How a file is to be read: `mapping` is target and column; what is empty is detected. `language` is that of the
    report."""

    encoding: str = ""
    source: str = ""
    mapping: tuple[tuple[str, str], ...] = ()
    language: str = "en"


@dataclass(frozen=True)
class FileReport:
    """What a file holds. `trouble` is why it could not be read: `slow`, `damaged`, `too-many`, `too-much`,
    `expands`, `columns`, `encoding`, or a sentence in the language of the question; then the figures are of what was
    read before.

    `renamed` is (column, its fields), `left_out` (column, why, rows), `skipped` and `unusable` (place, why) of the
    first rows. `misfits` counts items that the service does not take, which are left out. `sample` are the first items.
    """

    reads: str = ""
    source: str = ""
    columns: Sequence[str] = ()
    rows: int = 0
    items: int = 0
    kept: Sequence[str] = ()
    renamed: Sequence[tuple[str, Sequence[str]]] = ()
    left_out: Sequence[tuple[str, str, int]] = ()
    skips: int = 0
    skipped: Sequence[tuple[str, str]] = ()
    misfits: int = 0
    unusable: Sequence[tuple[str, str]] = ()
    sample: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    unit: Unit = "item"
    korean: bool = False
    trouble: str | None = None
