"""The one error of reading a file: its input cannot be used, and the message says what to do."""

from __future__ import annotations

from saiten.core.errors import InputUnusable


class UnreadableInput(InputUnusable):
    """`detail` is one line that names the file, the place in it where there is one, and what to do."""

    code = "input-unreadable"

    def __init__(self, detail: str) -> None:
        super().__init__(show_line(detail))


def show_line(text: str, most: int = 600) -> str:
    """A text that may quote the input, on one line and without what a terminal would act on."""
    line = "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text[:most])
    return line if len(text) <= most else f"{line}…"
