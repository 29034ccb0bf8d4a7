"""Reads drawn charts: what stands in the SVG, and where."""

import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from saiten_server.platform.charts.render import draw_svg, sanitize_spec

SVG = "{http://www.w3.org/2000/svg}"
NUMBER = r"-?\d+(?:\.\d+)?"


class Drawing:
    def __init__(self, text: str) -> None:
        self.text = text
        self.root = ElementTree.fromstring(text)

    def marks(self, name: str) -> list[ElementTree.Element]:
        return [mark for group in self.root.iter() if group.get("class") == f"chart-{name}" for mark in group]

    def texts(self, name: str) -> list[str]:
        return [mark.text or "" for mark in self.marks(name)]

    def all_texts(self) -> list[str]:
        return [text.text or "" for text in self.root.iter(f"{SVG}text")]

    @property
    def size(self) -> tuple[float, float]:
        _, _, width, height = map(float, self.root.attrib["viewBox"].split())
        return width, height


def draw(spec: Mapping[str, Any]) -> Drawing:
    return Drawing(draw_svg(sanitize_spec(spec)))


def place(mark: ElementTree.Element) -> tuple[float, float]:
    """Where a mark stands in the plot."""
    found = re.match(rf"translate\(({NUMBER}),({NUMBER})\)", mark.get("transform", "translate(0,0)"))
    assert found, mark.attrib
    return float(found[1]), float(found[2])


def bar_width(mark: ElementTree.Element) -> float:
    """How long a rectangle is."""
    found = re.search(rf"h({NUMBER})", mark.attrib["d"])
    assert found, mark.attrib
    return float(found[1])


def span(mark: ElementTree.Element) -> tuple[float, float]:
    """How far a rule goes to the right and down."""
    return float(mark.get("x2", 0)), float(mark.get("y2", 0))
