"""The text reply, for endpoints without structured output: `自然さ: 「3」`, one aspect after the other."""

from __future__ import annotations

import re
import unicodedata

from app.domain.plain_text import clean
from app.domain.prompt_frame import frame_of
from app.domain.rubric import Aspect
from app.domain.verdict_parts import INTEGER, Malformed, Part

SPACE = re.compile(r"[ \t\r\n\u3000]*")
GAP = re.compile(r"[ \t\r\n\u3000]+|\Z")
# Possessive: a reply that ends in nothing but spaces is read once, and not once for each of them.
COLON = r"[ \t\u3000]*+[:：][ \t\u3000]*+"
VALUE = r"「[ \t\u3000]*+(?P<value>[-－0-9０-９]*)[ \t\u3000]*+」"


def read_text_verdict(reply: str, aspects: tuple[Aspect, ...], language: str, *, explain: bool) -> dict[str, Part]:
    """The parts of a reply in the text format, less what it leaves out. Raises Malformed.

    The grammar covers the whole message: entries with white space between them and nothing else, each aspect at most
    once, in any order (each is named). With `explain` every entry begins with its aspect's reason, on a line of its
    own. Full-width digits, minus and colons are read as their narrow forms; no other text is folded.
    """
    entry = entry_pattern(aspects, language, explain=explain)
    ids = {aspect.name[language]: aspect.id for aspect in aspects}
    parts: dict[str, Part] = {}
    place = match_end(SPACE, reply, 0)
    while place < len(reply):
        found = entry.match(reply, place)
        if found is None:
            raise Malformed("it is not made of the lines that were asked for and nothing else")
        aspect_id = ids[found["name"]]
        if aspect_id in parts:
            raise Malformed("it names an aspect twice")
        parts[aspect_id] = read_entry(found, explain=explain)
        place = match_end(GAP, reply, found.end())
    return parts


def entry_pattern(aspects: tuple[Aspect, ...], language: str, *, explain: bool) -> re.Pattern[str]:
    """Matches one aspect's entry. With `explain` the value's line may be missing, the reason's line may not."""
    # Longest first: a name may begin with another.
    names = sorted((re.escape(aspect.name[language]) for aspect in aspects), key=len, reverse=True)
    name = f"(?P<name>{'|'.join(names)})"
    if not explain:
        return re.compile(f"{name}{COLON}{VALUE}")
    label = re.escape(frame_of(language).reason_label.format(name="\x00")).replace(re.escape("\x00"), name)
    return re.compile(rf"{label}{COLON}(?P<reason>[^\S\n]*+\S[^\n]*)(?:\n\s*(?P=name){COLON}{VALUE})?")


def read_entry(found: re.Match[str], *, explain: bool) -> Part:
    """What one entry says. Raises Malformed where its value is no integer."""
    reason = clean(found["reason"].strip()) if explain else None
    written = found["value"]
    if not written:
        return Part(None, reason=reason)
    number = unicodedata.normalize("NFKC", written)
    if not INTEGER.fullmatch(number):
        raise Malformed("a value is not an integer")
    return Part(number, found.span("value"), reason)


def match_end(pattern: re.Pattern[str], text: str, place: int) -> int:
    """Where the pattern's match at `place` ends. Raises Malformed where it does not match there."""
    found = pattern.match(text, place)
    if found is None:
        raise Malformed("its entries run together")
    return found.end()
