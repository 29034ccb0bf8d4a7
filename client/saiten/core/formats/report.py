"""What became of every field of the input: kept, renamed, left out, or skipped with its row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from saiten.core.formats.errors import show_line
from saiten.core.language import mark, tell, tell_items

MOST_COUNTED_FIELDS = 300
"""Fields that are counted by name. A file may have more: keys that are data, say."""

MOST_SKIPPED = 1000
"""Skipped rows that are kept by name."""

MOST_PLACES_NAMED = 100
MOST_FIELDS_NAMED = 12
"""Fields that one line names."""

MOST_LINE_CHARACTERS = 20_000
OTHER_FIELDS = "(other fields)"
ROW, ROWS = mark("{count:,} row"), mark("{count:,} rows")
COMPARISON, COMPARISONS = mark("{count:,} comparison"), mark("{count:,} comparisons")


@dataclass
class Report:
    """Counts per field, in the input's own names; `[]` stands for every element of a list."""

    name: str = ""
    """The file's, as places begin with it."""
    reads: str = ""
    """How the file was read: its format, its encoding and whether that was detected, its sheet."""
    encoding: str = ""
    """The codec of a text."""
    source: str = ""
    """The tool whose format it is; `table` where only the headings told."""
    rows: int = 0
    """Rows, samples or spans that gave an item or should have."""
    items: int = 0
    comparisons: int = 0
    """Looks at two systems that were taken."""
    ratings: int = 0
    """Ratings by people that were taken: one rater's of one response."""
    unwanted: int = 0
    """Rows that were left out because a column says something else than what is wanted."""
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
        count_key(self.moved, (name, target))

    def leave(self, name: str, why: str = "") -> None:
        """Counts a field that did not."""
        count_key(self.left_out, (name, why))

    def skip(self, where: str, why: str) -> None:
        """Names a row that gave no item."""
        self.skips += 1
        if len(self.skipped) < MOST_SKIPPED:
            self.skipped.append((where, why))

    def lines(self) -> Iterator[str]:
        """The report for a reader, line by line."""
        yield from (show_line(line, MOST_LINE_CHARACTERS) for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.reads}; {tell_source(self.source)}"
        if self.comparisons:
            compared = tell(COMPARISON if self.comparisons == 1 else COMPARISONS, count=self.comparisons)
            yield tell("{items} from {rows}", items=compared, rows=tell_rows(self.rows))
        else:
            yield tell("{items} from {rows}", items=tell_items(self.items), rows=tell_rows(self.rows))
        if self.unwanted:
            yield tell("left out by --where: {rows}", rows=tell_rows(self.unwanted))
        if self.ratings:
            yield tell("{count:,} ratings by people", count=self.ratings)
        if self.kept:
            yield tell("kept: {names}", names=", ".join(self.kept))
        if self.renamed:
            yield tell("renamed: {names}", names=", ".join(self._tell_renamed()))
        if self.left_out:
            yield tell("left out:")
            yield from (f"  {line}" for line in tell_left_out(self.left_out))
        if self.skips:
            yield tell("skipped: {rows}", rows=tell_rows(self.skips))
            yield from (f"  {line}" for line in self._tell_skipped())

    def decisions(self) -> str:
        """One line for a reader who asked for no report: how the file was read, and what went where."""
        parts = [self.reads, tell_source(self.source)]
        if self.renamed:
            parts.append(
                ", ".join(f"{name} → {' and '.join(to)}" for name, to in list(self.renamed.items())[:MOST_FIELDS_NAMED])
            )
        if self.unwanted:
            parts.append(tell("left out by --where: {rows}", rows=tell_rows(self.unwanted)))
        if left := list(dict.fromkeys(name for name, _ in self.left_out)):
            more = (
                tell(" and {count:,} more", count=len(left) - MOST_FIELDS_NAMED)
                if len(left) > MOST_FIELDS_NAMED
                else ""
            )
            parts.append(tell("left out: {names}", names=", ".join(left[:MOST_FIELDS_NAMED]) + more))
        return show_line("; ".join(parts), MOST_LINE_CHARACTERS)

    def _tell_renamed(self) -> list[str]:
        return [f"{name} → {', '.join(to)}" for name, to in self.renamed.items()]

    def _tell_skipped(self) -> Iterator[str]:
        """The skipped rows by the reason."""
        reasons: dict[str, list[str]] = {}
        for where, why in self.skipped:
            place = where.removeprefix(self.name).lstrip(": ")
            reasons.setdefault(why, []).append(tell("line {line}", line=place) if place.isdecimal() else place)
        for why, places in reasons.items():
            more = (
                tell(" and {count:,} more", count=len(places) - MOST_PLACES_NAMED)
                if len(places) > MOST_PLACES_NAMED
                else ""
            )
            yield f"{why}: {', '.join(places[:MOST_PLACES_NAMED])}{more}"
        if self.skips > len(self.skipped):
            yield tell(" and {count:,} more", count=self.skips - len(self.skipped)).strip()


def tell_left_out(left_out: Counter[tuple[str, str]]) -> Iterator[str]:
    """The fields that were left out, a line for those of one object with one reason."""
    groups: dict[tuple[str, str, int], list[str]] = {}
    for (name, why), rows in left_out.items():
        parent, dot, leaf = name.rpartition(".")
        groups.setdefault((parent + dot, why, rows), []).append(leaf)
    for (parent, why, rows), names in groups.items():
        yield f"{parent}{', '.join(names)} ({tell(why) + ', ' if why else ''}{tell_rows(rows)})"


def tell_source(source: str) -> str:
    """How the fields were understood, in words."""
    if source == "table":
        return tell("fields by their names")
    return tell("items of {source}", source=source)


def tell_rows(count: int) -> str:
    """`3 rows`, `1 row`."""
    return tell(ROW if count == 1 else ROWS, count=count)


def count_key(counts: Counter[tuple[str, str]], key: tuple[str, str]) -> None:
    """Counts the key, or its second part alone where there are too many different ones."""
    counts[key if key in counts or len(counts) < MOST_COUNTED_FIELDS else (OTHER_FIELDS, key[1])] += 1
