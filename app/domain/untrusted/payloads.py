"""Encoded texts inside a text: Base64, hexadecimal, escapes, percent encoding, entities and ROT13."""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Callable, Iterator
from functools import cache
from heapq import nlargest
from urllib.parse import unquote_to_bytes

MAXIMUM_PAYLOADS = 16
MAXIMUM_CHARACTERS = 8192
READABLE_SHARE = 0.9
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
TURNED = ALPHABET[13:] + ALPHABET[:13]
ROT13 = str.maketrans(ALPHABET + ALPHABET.upper(), TURNED + TURNED.upper())


@cache
def pattern(name: str) -> re.Pattern[str]:
    """A pattern of this module, compiled when it is first needed."""
    return re.compile(
        {
            "base64": r"[A-Za-z0-9+/_-]{16,}={0,2}",
            "hexadecimal": r"(?:(?:\\x|0x)?[0-9A-Fa-f]{2}[ ,:]?){8,}",
            "binary": r"(?:[01]{8} ?){8,}",
            "escapes": r"(?:\\u[0-9A-Fa-f]{4}){4,}",
            "percent": r"(?:%[0-9A-Fa-f]{2}|[A-Za-z0-9_.+-]){12,}",
            "entities": r"(?:&#x?[0-9A-Fa-f]{2,6};){4,}",
            # The words of an attack as ROT13 writes them: score, give, ignore, aspect, marks, rating, grader, rubric.
            "rot13": r"(?i)\b(?:fpber|tvir|vtaber|nfcrpg|znexf|engvat|tenqre|ehoevp)",
        }[name]
    )


def decode_base64(token: str) -> bytes:
    """The bytes of standard or URL-safe Base64 with or without padding; raises binascii.Error."""
    body = token.rstrip("=").translate(str.maketrans("-_", "+/"))
    body = body[: len(body) - (len(body) % 4 == 1)]
    return base64.b64decode(body + "=" * (-len(body) % 4))


def decode_hexadecimal(token: str) -> bytes:
    """The bytes of hexadecimal digits with or without separators."""
    digits = re.sub(r"\\x|0x|[ ,:]", "", token)
    return bytes.fromhex(digits[: len(digits) // 2 * 2])


def decode_binary(token: str) -> bytes:
    """The bytes of groups of eight binary digits."""
    digits = token.replace(" ", "")
    return bytes(int(digits[start : start + 8], 2) for start in range(0, len(digits), 8))


def decode_escapes(token: str) -> bytes:
    r"""The text of `\uXXXX` escapes in UTF-8; a lone surrogate becomes a question mark."""
    return "".join(chr(int(unit, 16)) for unit in token.split("\\u") if unit).encode("utf-8", "replace")


DECODERS: dict[str, Callable[[str], bytes]] = {
    "base64": decode_base64,
    "hexadecimal": decode_hexadecimal,
    "binary": decode_binary,
    "escapes": decode_escapes,
    "percent": unquote_to_bytes,
    "entities": lambda token: html.unescape(token).encode("utf-8", "replace"),
}


def readable(data: bytes) -> str | None:
    """`data` as text, or None where it is not UTF-8 or mostly not printable."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    printable = sum(character.isprintable() or character.isspace() for character in text)
    return text if text and printable >= READABLE_SHARE * len(text) else None


def payloads(text: str) -> Iterator[str]:
    """The readable texts that `text` holds in encoded form: the longest few of each encoding, each bounded."""
    for decoded, _ in located_payloads(text):
        yield decoded
    if pattern("rot13").search(text):
        yield text[:MAXIMUM_CHARACTERS].translate(ROT13)


def located_payloads(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """The same but ROT13, which looks like any words, each with where it stands: start and end in code points."""
    for name, decoder in DECODERS.items():
        if name == "percent" and "%" not in text:
            continue
        found = [*pattern(name).finditer(text)]
        for match in nlargest(MAXIMUM_PAYLOADS, found, key=lambda match: len(match[0])) if found else ():
            token = match[0]
            try:
                decoded = readable(decoder(token[:MAXIMUM_CHARACTERS]))
            except (binascii.Error, ValueError):
                continue
            if decoded is not None and decoded != token:
                yield decoded, match.span()
