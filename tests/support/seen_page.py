"""A page of the dashboard as a browser reads it."""

from html.parser import HTMLParser

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
Tag = tuple[str, dict[str, str | None]]


class Page(HTMLParser):
    """A page's tags with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[Tag] = []
        self.said = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.said += data

    def links(self) -> list[str]:
        return [attributes["href"] or "" for tag, attributes in self.tags if tag == "a"]

    def named(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for _, attributes in self.tags if attributes.get("name") == name]

    def find_inline(self) -> list[str]:
        """Whatever the policy forbids: styles, scripts and handlers in the page itself."""
        inline = [
            name for _, attributes in self.tags for name in attributes if name == "style" or name.startswith("on")
        ]
        scripts = [
            tag for tag, attributes in self.tags if tag == "style" or (tag == "script" and not attributes.get("src"))
        ]
        return inline + scripts
