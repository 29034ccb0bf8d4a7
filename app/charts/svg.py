"""The renderer's SVG made fit for a page: small, without a name that could collide, one image to a screen reader."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

SVG = "http://www.w3.org/2000/svg"
ELEMENTS = frozenset({"svg", "g", "path", "line", "rect", "text", "tspan"})
ATTRIBUTES = frozenset(
    {
        *("d", "x", "y", "x1", "x2", "y1", "y2", "dx", "dy", "width", "height", "transform"),
        *("fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap"),
        *("stroke-linejoin", "stroke-miterlimit", "opacity", "text-anchor", "font-size", "font-weight", "font-style"),
    }
)
"""All that a chart needs. Ids, links, styles and handlers are not among it, whatever the renderer writes one day."""

DEFAULTS = {("opacity", "1"), ("transform", "translate(0,0)")}
UNSEEN = frozenset({"", "M0,0h0v0h0Z"})
LONG_FRACTION = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")
NAMED = re.compile(r"\b(\w+)_marks\b")
ENDS = (".", "。", "!", "！", "?", "？", ":", "：")


def clean_svg(drawn: str, *, title: str, description: str) -> str:
    """The drawing as one `<svg class="chart" role="img">` for HTML. Its marks have classes `chart-NAME`, no more.

    It has a viewBox and its natural width, so CSS may scale it; only what is in ELEMENTS and ATTRIBUTES is kept.
    """
    # The renderer wrote it a moment ago, of texts that it escapes: there is no document type to attack with.
    root = ElementTree.fromstring(drawn)  # noqa: S314
    content = ElementTree.Element("g", {"aria-hidden": "true"})
    content.extend(part for child in root for part in keep(child))
    image = ElementTree.Element("svg", {"xmlns": SVG, "class": "chart"})
    image.set("viewBox", root.get("viewBox", ""))
    image.set("width", root.get("width", ""))
    if label := join_label(title, description):
        image.attrib |= {"role": "img", "aria-label": label}
    else:
        image.set("aria-hidden", "true")
    image.append(content)
    return ElementTree.tostring(image, encoding="unicode")


def join_label(title: str, description: str) -> str:
    """Both in one text, with something between them that a voice pauses at."""
    title, description = title.strip(), description.strip()
    between = " " if title.endswith(ENDS) else ". "
    return between.join(part for part in (title, description) if part)


def keep(element: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """What is seen of an element: itself, its parts where it is a group that adds nothing, or none."""
    tag = element.tag.removeprefix(f"{{{SVG}}}")
    if tag not in ELEMENTS or element.get("display") == "none" or is_unseen(tag, element):
        return
    kept = ElementTree.Element(tag, dict(keep_attributes(element)))
    kept.text = element.text if tag in {"text", "tspan"} else None
    kept.extend(part for child in element for part in keep(child))
    if tag != "g":
        yield kept
    elif not kept.attrib:
        yield from kept
    elif len(kept):
        yield kept


def is_unseen(tag: str, element: ElementTree.Element) -> bool:
    """True of paths without a line, and of frames around groups that have neither fill nor stroke."""
    if tag != "path":
        return False
    bare = "fill" not in element.keys() and "stroke" not in element.keys()  # noqa: SIM118 - not a mapping
    return element.get("d", "") in UNSEEN or (element.get("class") == "background" and bare)


def keep_attributes(element: ElementTree.Element) -> Iterator[tuple[str, str]]:
    """The attributes that a chart needs, with short numbers, and its name as a class."""
    for name, value in element.items():
        if name == "class" and (found := NAMED.search(value)):
            yield "class", f"chart-{found[1].replace('_', '-')}"
        elif name in ATTRIBUTES and (name, value) not in DEFAULTS:
            yield name, LONG_FRACTION.sub(shorten, value)


def shorten(number: re.Match[str]) -> str:
    """Two digits after the point, a twentieth of what a screen shows."""
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
