"""Characters that no one sees, and those that turn the direction of text, shown by their code points and names."""

from __future__ import annotations

import unicodedata
from itertools import groupby

from markupsafe import Markup

from app.domain.dialogue import is_invisible

PLAIN = frozenset(" \n\r\t")
MARK = Markup('<span class="unseen" title="{name}" dir="ltr">U+{code:04X}{times}</span>')


def is_unseen(character: str) -> bool:
    """Whether nothing of it is seen: controls, format and direction characters, fillers, unusual spaces, selectors."""
    if character in PLAIN or not is_invisible(character):
        return False
    # Combining marks are seen on the letter before them; variation selectors are marks too.
    name = unicodedata.name(character, "")
    return unicodedata.category(character)[0] != "M" or "SELECTOR" in name or "GRAPHEME JOINER" in name


def reveal(text: str) -> Markup:
    """The text with such characters replaced by their code points, each run of one with how often it comes."""
    found = []
    for (unseen, character), run in groupby(text, key=lambda one: (is_unseen(one), one if is_unseen(one) else "")):
        if not unseen:
            found.append(Markup.escape("".join(run)))
            continue
        count = sum(1 for _ in run)
        name = unicodedata.name(character, "")
        found.append(MARK.format(name=name, code=ord(character), times=f" ×{count}" if count > 1 else ""))
    return Markup("").join(found)
