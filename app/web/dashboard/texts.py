"""What templates say of the domain: names of states and reasons in the visitor's language, and texts' languages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlencode

HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]")
KANA = re.compile("[\u3040-\u30ff\uff66-\uff9f]")
HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
LATIN = re.compile("[A-Za-z]")


def mark(text: str) -> str:
    """Marks a text for translation where it stands; it is translated where it is shown."""
    return text


TERMS: Mapping[str, Mapping[str, str]] = {
    "status": {
        "queued": mark("queued"),
        "running": mark("running"),
        "paused": mark("paused"),
        "completed": mark("completed"),
        "cancelled": mark("cancelled"),
        "scored": mark("scored"),
        "partial": mark("partly rated"),
        "failed": mark("failed"),
    },
    "pause": {
        "requested": mark("paused by a caller"),
        "budget-exhausted": mark("the budget is spent"),
        "cost-limit-reached": mark("the key's money for today is spent"),
        "judge-quota-exhausted": mark("the judge's quota is spent"),
        "judge-unauthorized": mark("the judge refused the key"),
        "judge-refused-request": mark("the judge refuses the requests"),
        "provider-batch-failed": mark("the provider's batch failed"),
        "translator-quota-exhausted": mark("the translator's quota is spent"),
        "translator-unauthorized": mark("the translator refused the key"),
        "translator-not-configured": mark("no translator is set up"),
    },
    "unrated": {
        "missing": mark("missing from the reply"),
        "out-of-scale": mark("off the scale"),
        "unparseable": mark("reply not readable"),
        "refused": mark("the judge refused"),
        "truncated": mark("reply cut off"),
        "content-filter": mark("content filter"),
    },
    "warning": {
        "baseline-judge": mark("lexical baseline"),
        "suspected-injection": mark("suspected injection"),
        "prompt-leaked": mark("judge's instructions leaked"),
        "translation-sensitive": mark("translation-sensitive"),
        "language-mismatch": mark("another language"),
        "register-shift": mark("register shift"),
        "register-mixed": mark("mixed register"),
        "register-mix": mark("합쇼체 with 해요체"),
        "honorific-misuse": mark("honorific misused"),
        "similarity-truncated": mark("truncated for the encoder"),
        "similarity-unknown-tokens": mark("words unknown to the encoder"),
        "samples-unrated": mark("some samples unrated"),
        "expected-unavailable": mark("no token probabilities"),
    },
    "path": {"source": mark("source"), "english": mark("English"), "both": mark("both")},
    "verdict": {
        "better": mark("better"),
        "worse": mark("worse"),
        "inconclusive": mark("no difference shown"),
        "pass": mark("pass"),
        "fail": mark("fail"),
    },
    "reliability": {
        "validated": mark("follows people"),
        "not-shown": mark("not shown to follow people"),
        "unknown": mark("not compared with people"),
    },
    "scope": {"read": mark("read"), "write": mark("write"), "admin": mark("admin")},
}
"""By kind the domain's own names, which stay as they are in addresses and data."""


class Gettext(Protocol):
    def gettext(self, message: str) -> str: ...


class Terms:
    """The domain's names in one language. A name that is not known stands for itself: a newer worker may write it."""

    def __init__(self, translations: Gettext) -> None:
        self._translations = translations

    def __call__(self, kind: str, name: str) -> str:
        known = TERMS[kind].get(name)
        return name if known is None else self._translations.gettext(known)


def lang_of(text: str, expected: str) -> str:
    """The `lang` of a text, so that it gets its own glyphs: by its script, and where that says nothing as expected."""
    if HANGUL.search(text):
        return "ko"
    if KANA.search(text):
        return "ja"
    if HAN.search(text) or not LATIN.search(text):
        return expected
    return "en"


def pick(phrase: Mapping[str, Any], language: str) -> tuple[Any, str]:
    """A rubric's text in the visitor's language, else in English, else in whatever there is; and its language."""
    for wanted in (language, "en", *phrase):
        if wanted in phrase:
            return phrase[wanted], wanted
    return "", language


def query(path: str, /, **parameters: Any) -> str:
    """The address with these parameters; None and empty ones left out, several values repeated."""
    given = {name: value for name, value in parameters.items() if value not in (None, "", [], ())}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path
