"""What a page holds, read as a browser reads it."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "input", "img", "br", "hr"}
INLINE = {"a", "abbr", "b", "bdi", "code", "span", "time"}
"""What does not part words."""


@dataclass
class Element:
    """A tag with its attributes and all text within it, white space made single."""

    tag: str
    attributes: dict[str, str]
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join("".join(self.parts).split())

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]

    def has(self, **wanted: str) -> bool:
        """Whether it has these attributes; `class_` wants one class among others."""
        for name, value in wanted.items():
            found = self.attributes.get(name.rstrip("_").replace("_", "-"))
            if found is None or (value not in found.split() if name == "class_" else value != found):
                return False
        return True


class Page(HTMLParser):
    """The elements of a page in the order in which they begin."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.elements.append(element)
        if tag not in INLINE:
            self.handle_data(" ")
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop().tag != tag:
            pass

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.parts.append(data)

    def all(self, tag: str, **wanted: str) -> list[Element]:
        return [element for element in self.elements if element.tag == tag and element.has(**wanted)]

    def one(self, tag: str, **wanted: str) -> Element:
        found = self.all(tag, **wanted)
        if len(found) != 1:
            raise LookupError(f"{len(found)} of <{tag}> with {wanted}")
        return found[0]

    def inline(self) -> list[Element]:
        """What a strict policy would not run: scripts in the page, styles, handlers."""
        return [
            element
            for element in self.elements
            if element.tag == "style"
            or (element.tag == "script" and "src" not in element.attributes)
            or any(name == "style" or name.startswith("on") for name in element.attributes)
        ]
