"""Text in lines that fit a terminal: Japanese breaks between characters, Korean and English between words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import click
from rich.cells import cell_len

WIDE = "\u3000-\u30ff\u3400-\u9fff\uff00-\uffef"
"""Kana, kanji and full-width signs: a line may end after each."""

OPENING = "「『（〈《【〔［｛"
CLOSING = "」』）〉》】〕］｝、。，．・：；！？ー々ぁぃぅぇぉっゃゅょァィゥェォッャュョ…"
"""No line begins with these, and none ends with what opens."""

PIECE = re.compile(rf"\s+|[{OPENING}]*(?:[^\s{WIDE}…]+|[ァ-ヺー]{{1,12}}|[^\s])[{CLOSING}]*")


def fold(text: str, width: int) -> list[str]:
    """The text, without its own line breaks, in lines of at most `width` columns; only a longer word exceeds it."""
    lines, line = [], ""
    for piece in PIECE.findall(join(text.splitlines())):
        if line and cell_len(line) + cell_len(piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        line += piece if line or piece.strip() else ""
    return [*lines, line.rstrip()]


def join(lines: Sequence[str]) -> str:
    """The lines as one: without a space between two wide characters, where Japanese has none."""
    return re.sub(rf"(?<=[{WIDE}])\n(?=[{WIDE}])", "", "\n".join(map(str.strip, lines))).replace("\n", " ")


def fold_paragraphs(text: str, width: int) -> Iterator[str]:
    """The lines of paragraphs between blank lines; one that begins with a line `\\b` keeps its own, as click has it."""
    for number, paragraph in enumerate(re.split(r"\n[ \t]*\n", text)):
        if number:
            yield ""
        if paragraph.lstrip().startswith("\b\n"):
            yield from paragraph.lstrip().removeprefix("\b\n").splitlines()
        else:
            yield from fold(paragraph, width)


class Formatter(click.HelpFormatter):
    """Help whose lines are measured in columns: click counts characters, of which Japanese ones take two."""

    def write_text(self, text: str) -> None:
        """Writes paragraphs."""
        self._write_lines(fold_paragraphs(text, max(self.width - self.current_indent, 11)))

    def _write_lines(self, lines: Iterator[str]) -> None:
        self.write("".join(f"{' ' * self.current_indent}{line}".rstrip() + "\n" for line in lines))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Writes names with what they are, in two columns; a long name stands on a line of its own."""
        rows = list(rows)
        start = min(max(cell_len(name) for name, _ in rows), col_max) + col_spacing
        for name, about in rows:
            first, *rest = fold_paragraphs(about, max(self.width - start - self.current_indent, 10))
            gap = start - cell_len(name)
            lines = [f"{name}{' ' * gap}{first}"] if gap >= col_spacing else [name, " " * start + first]
            self._write_lines(iter([*lines, *(" " * start + line for line in rest)]))


class TranslatedContext(click.Context):
    """Of a command whose help is not English."""

    formatter_class = Formatter
