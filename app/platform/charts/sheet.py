"""Charts on one sheet, as a file: SVG, PNG or PDF, with the theme's light colours and fonts of the machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from saiten.core.figures import DASH
from saiten.core.messages import Message
from saiten.core.plain_text import printable
from saiten_server.core.errors import InvalidRequest
from saiten_server.platform.charts.canvas import (
    INK,
    INK_SOFT,
    LIGHT,
    SMALL,
    TEXT,
    Spec,
    fit_ends,
    measure_width,
    sanitize,
)
from saiten_server.platform.charts.render import draw_svg, sanitize_spec

SUFFIXES = (".png", ".svg", ".pdf")
FAMILIES = (
    *("Noto Sans CJK JP", "Noto Sans CJK KR", "Noto Sans JP", "Noto Sans KR", "Source Han Sans", "Hiragino Sans"),
    *("Apple SD Gothic Neo", "Yu Gothic", "Meiryo", "Malgun Gothic", "IPAexGothic", "NanumGothic", "sans-serif"),
)
"""Families with Japanese and Korean first: where one lacks a character, another is used."""

SCALE = 2.0
"""Pixels of a PNG per pixel of the sheet."""

SHEET_MARGIN, BETWEEN, LEAST, WIDEST = 24, 28, 260, 1240
TITLE = 17
LINE_HEIGHT = 1.4
"""Times the size of the text."""

LONGEST_NAME = 190
MISSING_GLYPH = "\U0010ffff"
"""A noncharacter, for which no font has a glyph."""

BOX = "□"
MOST_TESTED, MOST_NAMED_CHARACTERS = 1_000, 8


@dataclass(frozen=True)
class ChartSection:
    """Charts side by side, as many in a row as fit, each below its `title` and `description`; and notes below them."""

    heading: str
    charts: Sequence[Spec]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class ChartSheet:
    title: str
    sections: Sequence[ChartSection]


@dataclass(frozen=True)
class PlacedChart:
    """SVG with its width and height in pixels."""

    svg: str
    width: float
    height: float


def require_drawing(path: Path | str) -> None:
    """Raises InvalidRequest where the type of the file is not supported."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise InvalidRequest(Message("drawing-name", path=str(path), names=", ".join(SUFFIXES)))


def write_sheet(sheet: ChartSheet, path: Path | str) -> None:
    """Draws it into the file. The same sheet gives the same file on the same machine.

    Raises InvalidRequest where the suffix is none of SUFFIXES, or the file cannot be written.
    """
    require_drawing(path)
    import vl_convert

    svg = compose(sheet)
    match Path(path).suffix.lower():
        case ".svg":
            content = svg.encode()
        case ".png":
            content = vl_convert.svg_to_png(svg, scale=SCALE)
        case _:
            content = vl_convert.svg_to_pdf(svg)
    try:
        Path(path).write_bytes(content)
    except OSError as error:
        raise InvalidRequest(Message("drawing-not-written", path=str(path), reason=error.strerror)) from None


def compose(sheet: ChartSheet) -> str:
    """The sheet as one self-contained SVG document."""
    blocks = [draw_text_lines(break_lines(sheet.title, WIDEST, TITLE), TITLE, INK, bold=True)]
    for section in sheet.sections:
        heading = [draw_text_lines(break_lines(section.heading, WIDEST, TEXT + 2), TEXT + 2, INK, bold=True)]
        charts = [draw_chart(spec) for spec in section.charts]
        notes = [line for note in section.notes for line in break_lines(note, WIDEST, SMALL)]
        parts = [*(heading if section.heading else ()), *([flow_boxes(charts)] if charts else ())]
        blocks.append(stack([*parts, *([draw_text_lines(notes, SMALL, INK_SOFT)] if notes else ())], gap=10))
    whole = stack(blocks, gap=BETWEEN)
    width, height = whole.width + 2 * SHEET_MARGIN, whole.height + 2 * SHEET_MARGIN
    document = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label={quoteattr(sanitize(sheet.title))} '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'font-family="{", ".join(FAMILIES)}"><rect width="100%" height="100%" fill="var(--surface)"/>'
        f'<g transform="translate({SHEET_MARGIN},{SHEET_MARGIN})">{whole.svg}</g></svg>\n'
    )
    for name, colour in LIGHT.items():
        document = document.replace(f'"var({name})"', f'"{colour}"')
    return document


def draw_chart(spec: Spec) -> PlacedChart:
    """A chart below its title and description."""
    drawn = draw_svg(sanitize_spec({**spec, "usermeta": {}, "description": ""}))
    padding = spec["padding"]
    width = spec["width"] + padding["left"] + padding["right"]
    height = spec["height"] + padding["top"] + padding["bottom"]
    chart = PlacedChart(drawn.replace("<svg ", f'<svg height="{height:.2f}" ', 1), width, height)
    room = max(width, LEAST)
    title = break_lines(spec["usermeta"]["title"], room, TEXT) if spec["usermeta"]["title"] else []
    above = [draw_text_lines(title, TEXT, INK, bold=True)] if title else []
    lines = [line for text in spec["description"].splitlines() for line in break_lines(text, room, SMALL)]
    return stack([*above, *([draw_text_lines(lines, SMALL, INK_SOFT)] if lines else ()), chart], gap=4)


def flow_boxes(boxes: Sequence[PlacedChart]) -> PlacedChart:
    """Boxes in rows no wider than WIDEST, unless a single box is wider."""
    rows: list[list[PlacedChart]] = []
    room = 0.0
    for box in boxes:
        if not rows or room + box.width > WIDEST:
            rows.append([])
            room = 0.0
        rows[-1].append(box)
        room += box.width + BETWEEN
    return stack([stack(row, gap=BETWEEN, beside=True) for row in rows], gap=BETWEEN)


def stack(boxes: Sequence[PlacedChart], *, gap: float, beside: bool = False) -> PlacedChart:
    """One above the other with their left sides level, or one `beside` the other with their tops level."""
    end, parts = 0.0, []
    for box in boxes:
        at = f"{end:.2f},0" if beside else f"0,{end:.2f}"
        parts.append(f'<g transform="translate({at})">{box.svg}</g>')
        end += (box.width if beside else box.height) + gap
    width, height = max(box.width for box in boxes), max(box.height for box in boxes)
    svg = "".join(parts)
    return PlacedChart(svg, end - gap, height) if beside else PlacedChart(svg, width, end - gap)


def draw_text_lines(lines: Sequence[str], size: float, colour: str, *, bold: bool = False) -> PlacedChart:
    """Texts one below the other."""
    weight = ' font-weight="bold"' if bold else ""
    step = LINE_HEIGHT * size
    texts = [
        f'<text y="{step * number + size:.2f}" font-size="{size}" fill="{colour}"{weight}>{escape(line)}</text>'
        for number, line in enumerate(lines)
    ]
    return PlacedChart(
        "".join(texts), max((measure_width(line, size) for line in lines), default=0.0), step * len(lines)
    )


def break_lines(text: str, room: float, size: float) -> list[str]:
    """The text in lines of at most `room` pixels, broken at spaces, and within words where one is longer."""
    lines, line = [], ""
    for word in sanitize(text).split(" "):
        joined = f"{line} {word}" if line else word
        if line and measure_width(joined, size) > room:
            lines.append(line)
            joined = word
        while measure_width(joined, size) > room and len(joined) > 1:
            cut = next(
                end for end in range(len(joined), 0, -1) if end == 1 or measure_width(joined[:end], size) <= room
            )
            lines.append(joined[:cut])
            joined = joined[cut:]
        line = joined
    return [*lines, line]


def label_names(names: Iterable[str], path: Path | str) -> tuple[dict[str, str], list[str]]:
    """How a sheet in that file shows each name, and notes for the reader.

    A name is one line, cut in the middle where it is long. In a PNG or PDF file, characters that no font of this
    machine has are boxes, and names with such characters are numbered and listed in a note; an SVG file leaves fonts
    to its reader.
    """
    found = list(dict.fromkeys(names))
    missing = frozenset[str]()
    if Path(path).suffix.lower() != ".svg":
        missing = find_missing(dict.fromkeys(character for name in found for character in printable(name)))
    lost = {
        name: number for number, name in enumerate([one for one in found if missing & set(printable(one))], start=1)
    }
    labels = {}
    for name in found:
        text = "".join(BOX if character in missing else character for character in sanitize(name))
        text = fit_ends(text, LONGEST_NAME) or DASH
        labels[name] = f"#{lost[name]} {text}" if name in lost else text
    if not lost:
        return labels, []
    some = " ".join(sorted(missing)[:MOST_NAMED_CHARACTERS]) + (" …" if len(missing) > MOST_NAMED_CHARACTERS else "")
    listed = ", ".join(f"#{number} {printable(name)}" for name, number in lost.items())
    return labels, [f"no font here has {some}: install one such as Noto Sans CJK. Drawn as {BOX} are {listed}"]


def find_missing(characters: Iterable[str]) -> frozenset[str]:
    """The characters without a glyph in any font of this machine, which are drawn like a noncharacter."""
    tested = [one for one in characters if not one.isascii() and one != BOX][:MOST_TESTED]
    unknown = draw_character(MISSING_GLYPH) if tested else b""
    return frozenset(one for one in tested if draw_character(one) == unknown)


def draw_character(character: str) -> bytes:
    """A PNG of the character alone."""
    import vl_convert

    families = ", ".join(FAMILIES)
    text = f'<text x="2" y="18" font-size="16" font-family="{families}">{escape(character)}</text>'
    drawn: bytes = vl_convert.svg_to_png(f'<svg xmlns="http://www.w3.org/2000/svg" width="24" height="24">{text}</svg>')
    return drawn
