"""A word in a judge's instructions that is never to be in its reply: where it is, the instructions were written out.

It is a rubric's own and depends on no dialogue, so that a prompt's fixed part stays the same bytes and is cached.
It is no secret: who knows a rubric can reckon it. Who then puts it into a text gains nothing: a judge that copies it
has broken its rules, and rates nothing.
"""

from __future__ import annotations

import base64
import hashlib
import re

from app.domain.untrusted.folding import fold

LETTERS = 12
"""Sixty bits: no honest reply holds it by chance, and a tokenizer makes about eight tokens of it."""

ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})")
APART = re.compile(r"[\W_]+")


def derive_canary(rubric: str) -> str:
    """Twelve capital letters and digits from a rubric's digest."""
    # Hashed again: the digest itself is in every signature, and is not to be read off in a reply.
    found = hashlib.sha256(f"canary\0{rubric}".encode()).digest()
    return base64.b32encode(found).decode()[:LETTERS]


def leaks(reply: str, canary: str) -> bool:
    """Whether a reply holds the canary, in whatever case, width or look-alike letters, and however it is spaced out."""
    unescaped = ESCAPE.sub(lambda match: chr(int(match[1], 16)), reply)
    return plain(canary) in plain(unescaped)


def plain(text: str) -> str:
    """The text's letters and digits, folded."""
    return APART.sub("", fold(text))
