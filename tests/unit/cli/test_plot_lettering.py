"""Names and fonts in drawings."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("networkx")


from app.analysis.agreement import measure_agreement
from app.cli.plots import plot, plot_agreement
from app.plots.agreement import build_agreement
from app.plots.lettering import PLAIN, Face, letter
from tests.unit.cli.test_plots import LATIN, every_report, observe, texts


def test_names_without_a_glyph_are_numbered_boxes_and_one_note(tmp_path: Path):
    names = ["natural", "odd \U00013000", "\U00013001"]  # hieroglyphs, which no Japanese or Korean font has
    observations = observe(names)
    notes = plot_agreement(measure_agreement(observations), observations, tmp_path / "drawn.png")
    (note,) = notes
    assert note.endswith("Drawn as □ are #1 odd \U00013000, #2 \U00013001")


def test_fonts_are_taken_as_they_are_needed():
    japanese = Face("Japanese", frozenset(map(ord, "自然さ")))
    korean = Face("Korean", frozenset(map(ord, "공감성自")))
    assert letter(["plain"], faces=[LATIN, japanese, korean]).families == (PLAIN,)
    assert letter(["自然さ"], faces=[LATIN, japanese, korean]).families == (PLAIN, "Japanese")
    both = letter(["自然さ", "공감성"], faces=[LATIN, japanese, korean])
    assert both.families == (PLAIN, "Japanese", "Korean")
    assert (both.missing, both.notes) == (frozenset(), [])


def test_what_no_font_has_is_a_numbered_box():
    letters = letter(["plain", "自然さ", "bot 甲"], faces=[LATIN])
    assert [letters.show(name) for name in ("plain", "自然さ", "bot 甲")] == ["plain", "#1 □□□", "#2 bot □"]
    assert letters.notes == [
        "no font here has さ 然 甲 自: install one such as Noto Sans CJK. Drawn as □ are #1 自然さ, #2 bot 甲"
    ]


def test_names_stay_short_and_harmless():
    letters = letter([], faces=[LATIN])
    assert letters.show("$x^2$") == r"\$x^2\$"
    assert letters.show("two\nlines\x07") == "two lines\ufffd"
    assert letters.show("") == "–"
    assert letters.show("a" * 20 + "b" * 20) == "a" * 14 + "…" + "b" * 14


def test_a_name_with_dollars_is_drawn_as_it_is_written(tmp_path: Path):
    observations = observe(["$\\frac{1$", "a$b$c"])
    for report in every_report(observations)[:4]:
        plot(report, observations, tmp_path / "drawn.svg")
        assert (tmp_path / "drawn.svg").read_bytes().startswith(b"<?xml")
        (tmp_path / "drawn.svg").unlink()
    drawn = texts(build_agreement(measure_agreement(observations), observations)[0])
    assert {r"\$\frac{1\$", r"a\$b\$c"} <= set(drawn)
