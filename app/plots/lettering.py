"""Names of aspects and systems as a drawing can show them: short, harmless, and in fonts that have their glyphs."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from matplotlib.font_manager import FontProperties, fontManager, get_font
from matplotlib.font_manager import findfont as find_file
from matplotlib.text import Text

from app.domain.plain_text import printable

PLAIN = "DejaVu Sans"
"""Comes with matplotlib, and stands first: Latin text looks alike everywhere."""

WIDE = (
    "Noto Sans CJK JP",
    "Noto Sans CJK KR",
    "Noto Sans JP",
    "Noto Sans KR",
    "Source Han Sans",
    "Source Han Sans JP",
    "Source Han Sans KR",
    "IPAexGothic",
    "IPAGothic",
    "TakaoGothic",
    "VL Gothic",
    "Hiragino Sans",
    "Hiragino Kaku Gothic ProN",
    "YuGothic",
    "Yu Gothic",
    "Meiryo",
    "MS Gothic",
    "NanumGothic",
    "NanumBarunGothic",
    "Apple SD Gothic Neo",
    "AppleGothic",
    "Malgun Gothic",
    "Baekmuk Gulim",
    "UnDotum",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Arial Unicode MS",
    "Droid Sans Fallback",
    "Unifont",
)
"""Families that have Japanese or Korean, those that have both first."""

LONGEST = 30
"""Of a name, in columns of a terminal; a wide character takes two."""

BOX = "□"
MOST_NAMED = 8


@dataclass(frozen=True)
class Face:
    """A font family with the code points that it has."""

    family: str
    points: Set[int]


@dataclass(frozen=True)
class Lettering:
    """`families` draw the names, in this order; `missing` are the characters that none of them has. `numbers` are those
    of the names that cannot be drawn whole."""

    families: tuple[str, ...]
    missing: frozenset[str]
    numbers: Mapping[str, int]

    def show(self, name: str) -> str:
        """The name as a label: one line, cut in the middle where it is long, boxes for what cannot be drawn."""
        label = self.write(shorten(name)) if name else "–"
        return f"#{self.numbers[name]} {label}" if name in self.numbers else label

    def write(self, text: str) -> str:
        """A text of one line, never read as a formula, with boxes for what cannot be drawn."""
        drawn = "".join(BOX if character in self.missing else character for character in printable(text))
        return drawn.replace("$", r"\$")

    def dress(self, figure: Any) -> None:
        """Gives every text of the figure the families."""
        if len(self.families) > 1:
            for text in figure.findobj(Text):
                text.set_fontfamily(list(self.families))
                # Few of them come in bold, and matplotlib would say so of each.
                text.set_fontweight("normal")

    @cached_property
    def notes(self) -> list[str]:
        """One sentence where characters are missing."""
        if not self.missing:
            return []
        some = " ".join(sorted(self.missing)[:MOST_NAMED])
        more = " …" if len(self.missing) > MOST_NAMED else ""
        names = ", ".join(f"#{number} {printable(name)}" for name, number in self.numbers.items())
        lost = f"no font here has {some}{more}: install one such as Noto Sans CJK"
        return [f"{lost}. Drawn as {BOX} are {names}" if names else lost]


def letter(names: Iterable[str], texts: Iterable[str] = (), faces: Iterable[Face] | None = None) -> Lettering:
    """The lettering that names and other texts need, of the installed families, or of `faces`, the plain one first."""
    named = list(dict.fromkeys(names))
    left = {character for text in (*named, *texts) for character in printable(text)}
    chosen: list[str] = []
    for face in find_faces() if faces is None else faces:
        had = {character for character in left if ord(character) in face.points}
        if had or not chosen:
            chosen.append(face.family)
            left -= had
        if not left:
            break
    lost = [name for name in named if left & set(printable(name))]
    return Lettering(tuple(chosen), frozenset(left), {name: number for number, name in enumerate(lost, start=1)})


def find_faces() -> Iterator[Face]:
    """The plain family, then the installed ones of WIDE, each opened only when it is asked for."""
    installed = {font.name for font in fontManager.ttflist}
    for family in (PLAIN, *(name for name in WIDE if name in installed)):
        file = find_file(FontProperties(family=[family]), fallback_to_default=False)
        yield Face(family, get_font(file).get_charmap().keys())


def shorten(name: str) -> str:
    """The name, or its beginning and its end."""
    if columns(name) <= LONGEST:
        return name
    half = (LONGEST - 1) // 2
    return f"{cut(name, half)}…{cut(name[::-1], half)[::-1]}"


def cut(text: Sequence[str] | str, room: int) -> str:
    """The beginning that fits into so many columns."""
    kept = ""
    for character in text:
        room -= columns(character)
        if room < 0:
            break
        kept += character
    return kept


def columns(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
