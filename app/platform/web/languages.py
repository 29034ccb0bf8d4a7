"""Which of the languages of Saiten a request prefers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from saiten.core.messages import DEFAULT_LANGUAGE

LANGUAGES: Mapping[str, str] = {"en": "English", "ja": "日本語", "ko": "한국어"}
"""Each by its own name."""

MOST_HEADER_LANGUAGES = 32
"""Languages of a header that are looked at. A browser sends a handful."""

PREFERENCE = re.compile(
    r"\s*([A-Za-z]{1,8})(-[A-Za-z0-9-]{1,64})?\s*(;\s*[qQ]=(?P<quality>0(\.[0-9]{0,3})?|1(\.0{0,3})?)\s*)?"
)


def negotiate(header: str) -> str:
    """The language of `Accept-Language` (RFC 9110) with the highest weight, the earlier of equal ones. What is not
    written as the RFC says is passed over."""
    best, weight = DEFAULT_LANGUAGE, 0.0
    for part in header.split(",", MOST_HEADER_LANGUAGES)[:MOST_HEADER_LANGUAGES]:
        found = PREFERENCE.fullmatch(part)
        if found is None:
            continue
        name, quality = found[1].lower(), float(found["quality"] or 1.0)
        if name in LANGUAGES and quality > weight:
            best, weight = name, quality
    return best
