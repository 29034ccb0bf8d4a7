"""Puts untrusted text into a prompt: as JSON whose code points are harmless, between boundaries it cannot contain."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

TEMPLATE_BRACKET = re.compile(r"\[(?=[/|]?[A-Za-z_]{2,32}\|?\])")
"""The bracket of `[INST]`, `[/INST]`, `[SYSTEM_PROMPT]`, `[|user|]`: chat templates that are spelled without `<`."""

PLAIN = re.compile(r"[\n -;=-~\u3001-\u3029\u3030-\u30ff\u3400-\u9fff\uac00-\ud7a3\uff01-\uff9f]*+")
"""What most texts are made of; no character in it is a suspect."""

ZERO_WIDTH_JOINER = "\u200d"
EMOJI_MODIFIERS = frozenset("\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff\u20e3\ufe0f")
HARMFUL_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})


def encode_untrusted(value: Any, *, indent: int | None = 1) -> str:
    r"""`value` as JSON that means the same and holds nothing a tokenizer or a reader could take for structure.

    Written as `\uXXXX`: `<` (every chat-template token begins with it), the bracket of template words, C1 controls,
    and all format, separator and private-use characters (bidi controls, tags, zero widths). Kept: the joiner inside an
    emoji sequence and a single variation selector, which people do type. Everything else stays readable.
    """
    plain = lay_out(value) if indent == 1 else json.dumps(value, ensure_ascii=False, indent=indent)
    text = TEMPLATE_BRACKET.sub(escape_match, plain) if "[" in plain else plain
    if PLAIN.fullmatch(text):
        return text
    suspects = "".join(map(re.escape, sorted(filter(is_suspect, set(text)))))
    return re.sub(f"[{suspects}]", escape_in_place, text) if suspects else text


def lay_out(value: Any, margin: str = "\n") -> str:
    """`json.dumps(value, ensure_ascii=False, indent=1)` of texts, lists and objects, which Python's own encoder takes
    eight times as long to write with an indent. `margin` is the line break before what stands below."""
    inner = margin + " "
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, dict):
        parts, around = [f"{encode_basestring(key)}: {lay_out(part, inner)}" for key, part in value.items()], "{}"
    else:
        parts, around = [lay_out(part, inner) for part in value], "[]"
    return f"{around[0]}{inner}{f',{inner}'.join(parts)}{margin}{around[1]}" if parts else around


@lru_cache(maxsize=8192)
def is_suspect(character: str) -> bool:
    """Whether the character may be harmful, whatever stands beside it."""
    if character < "\x7f":
        return character == "<"
    return is_variation_selector(character) or unicodedata.category(character) in HARMFUL_CATEGORIES


def escape_in_place(match: re.Match[str]) -> str:
    """The escape of a suspect, or the suspect itself where its neighbours make it innocent."""
    character, text, place = match[0], match.string, match.start()
    before, after = text[place - 1], text[place + 1]
    if is_variation_selector(character):
        # Nobody types two in a row; runs of them carry hidden bytes.
        innocent = not is_variation_selector(before)
    elif character == ZERO_WIDTH_JOINER:
        innocent = (before in EMOJI_MODIFIERS or is_symbol(before)) and is_symbol(after)
    else:
        innocent = False
    return character if innocent else escape(character)


def escape_match(match: re.Match[str]) -> str:
    """The escape of what a pattern found."""
    return escape(match[0])


def is_variation_selector(character: str) -> bool:
    """Whether the character only chooses a glyph for the one before it."""
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def is_symbol(character: str) -> bool:
    """Whether Unicode calls the character a symbol of its own, as it does every emoji base."""
    return unicodedata.category(character) == "So"


def escape(character: str) -> str:
    r"""The JSON escape of one code point: `\u003c`, or two surrogates beyond U+FFFF."""
    return f"\\u{ord(character):04x}" if character.isascii() else json.dumps(character)[1:-1]


def derive_boundary(text: str) -> str:
    """32 digits of the text's own SHA-256: no text can contain its digest, and the same text gets the same one."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
