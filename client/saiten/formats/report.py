"""What became of every field of the input: kept, renamed, left out, or skipped with its row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from saiten.formats.errors import show

MOST_NAMES = 300
"""Fields that are counted by name. A file may have more: keys that are data, say."""

MOST_SKIPPED = 1000
"""Skipped rows that are kept by name."""

MOST_SHOWN = 20
OTHERS = "(other fields)"


@dataclass
class Report:
    """Counts per field, in the input's own names; `[]` stands for every element of a list."""

    reads: str = ""
    """How the file was read: its format, its encoding and whether that was detected, its sheet."""
    source: str = ""
    """The tool whose format it is; `table` where only the headings told."""
    rows: int = 0
    """Rows, records or samples that were read."""
    items: int = 0
    skips: int = 0
    """How many rows gave no item."""
    moved: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(field, where it went in the item) → rows."""
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(field, why; empty where Saiten has no such field) → rows."""
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """(place, why) of the first rows that gave no item."""

    @property
    def kept(self) -> list[str]:
        """Fields that have the same name in an item."""
        return sorted({name for name, target in self.moved if name == target})

    @property
    def renamed(self) -> dict[str, list[str]]:
        """Fields by what they are called in the items."""
        found: dict[str, list[str]] = {}
        for name, target in sorted(self.moved):
            if name != target:
                found.setdefault(name, []).append(target)
        return found

    def move(self, name: str, target: str) -> None:
        """Counts a field that went into an item as `target`."""
        count(self.moved, (name, target))

    def leave(self, name: str, why: str = "") -> None:
        """Counts a field that did not."""
        count(self.left_out, (name, why))

    def skip(self, where: str, why: str) -> None:
        """Names a row that gave no item."""
        self.skips += 1
        if len(self.skipped) < MOST_SKIPPED:
            self.skipped.append((where, why))

    def lines(self) -> Iterator[str]:
        """The report for a reader, line by line."""
        yield from map(show, self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.reads}; {tell_source(self.source)}"
        yield f"{number(self.items, 'item')} from {number(self.rows, 'row')}"
        if self.kept:
            yield f"kept: {listed(self.kept)}"
        if self.renamed:
            yield "renamed: " + listed([f"{name} → {' and '.join(to)}" for name, to in self.renamed.items()])
        if self.left_out:
            yield "left out: " + listed(
                [f"{name} ({why + ', ' if why else ''}{number(n, 'row')})" for (name, why), n in self.left_out.items()]
            )
        if self.skips:
            yield f"skipped: {number(self.skips, 'row')}"
            yield from (f"  {where}: {why}" for where, why in self.skipped[:MOST_SHOWN])
            if self.skips > MOST_SHOWN:
                yield f"  … and {self.skips - MOST_SHOWN:,} more"


def tell_source(source: str) -> str:
    """How the fields were understood, in words."""
    return "fields by their names" if source == "table" else f"items of {source}"


def count(counts: Counter[tuple[str, str]], key: tuple[str, str]) -> None:
    """Counts the key, or its second part alone where there are too many different ones."""
    counts[key if key in counts or len(counts) < MOST_NAMES else (OTHERS, key[1])] += 1


def listed(names: list[str]) -> str:
    """The names in a line, cut where there are very many."""
    more = f", … and {len(names) - MOST_SHOWN:,} more" if len(names) > MOST_SHOWN else ""
    return ", ".join(names[:MOST_SHOWN]) + more


def number(count: int, what: str) -> str:
    """`3 rows`, `1 row`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
