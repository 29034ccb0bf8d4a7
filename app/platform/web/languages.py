"""The languages of answers: which of them a request prefers, and what results, comparisons and gates say in it.

Errors are messages (`saiten.core.messages`) and need none of this. What is stored with results, and what comparisons
and gates say, is English until it is translated where it leaves the service. The catalogues in `locales/` hold each
sentence as a template, such as `the encoder gave no answer within {seconds} s`. A sentence is recognized by the fixed
parts of its template, and what stands between them is put into the translation as it is. What no template fits stays
English.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import NamedTuple

from saiten.core.messages import Message

LANGUAGES: Mapping[str, str] = {"en": "English", "ja": "日本語", "ko": "한국어"}
"""Each by its own name."""

DEFAULT = "en"

MOST_PREFERENCES = 32
"""Languages of a header that are looked at. A browser sends a handful."""

PREFERENCE = re.compile(
    r"\s*([A-Za-z]{1,8})(-[A-Za-z0-9-]{1,64})?\s*(;\s*[qQ]=(?P<quality>0(\.[0-9]{0,3})?|1(\.0{0,3})?)\s*)?"
)


def negotiate(header: str) -> str:
    """The language of `Accept-Language` (RFC 9110) with the highest weight, the earlier of equal ones. What is not
    written as the RFC says is passed over."""
    best, weight = DEFAULT, 0.0
    for part in header.split(",", MOST_PREFERENCES)[:MOST_PREFERENCES]:
        found = PREFERENCE.fullmatch(part)
        if found is None:
            continue
        name, quality = found[1].lower(), float(found["quality"] or 1.0)
        if name in LANGUAGES and quality > weight:
            best, weight = name, quality
    return best


PLACEHOLDER = re.compile(r"\{([a-z]+)\}")
SPEAKING = frozenset(
    {"what", "reason", "figures", "size", "other", "seen", "enough", "why", "check", "shared", "clauses"}
)
"""Placeholders of a value that is a sentence of Saiten's itself, or has one in it; `clauses` are several of them."""

FORMS: Mapping[str, re.Pattern[str]] = {
    "setting": re.compile("[A-Z][A-Z0-9_]{2,63}"),
    **dict.fromkeys(("number", "many", "few", "whole"), re.compile("[0-9,]+")),
    **dict.fromkeys(
        ("amount", "former", "latter", "lower", "upper", "percent", "ideal", "least"),
        re.compile("[-+]?[0-9][-+.0-9e]*"),
    ),
}
"""Placeholders whose values have a form, without which a text is another sentence."""

DEEPEST = 4
"""Sentences within sentences: a check of the judge in a reason of a gate, with the drift of an aspect in it."""

MOST_SENTENCE_CHARACTERS = 2_000
"""Characters of a sentence that is translated; an answer shows 400."""


class Template(NamedTuple):
    """A sentence's fixed parts, with the names of the values between them, and its translation."""

    parts: Sequence[str]
    names: Sequence[str]
    translation: str

    def match(self, text: str) -> dict[str, str] | None:
        """The values of a text that is this sentence, none of them empty, else None. Takes time in proportion to the
        text, whatever stands in it."""
        first, *between, last = self.parts
        at, end = len(first), len(text) - len(last)
        if not (text.startswith(first) and text.endswith(last)):
            return None
        values: list[str] = []
        for part in between:
            next_at = text.find(part, at + 1, end)
            if next_at < 0:
                return None
            values.append(text[at:next_at])
            at = next_at + len(part)
        found = dict(zip(self.names, [*values, text[at:end]], strict=True))
        fits = at < end and all(FORMS[name].fullmatch(found[name]) for name in FORMS.keys() & found.keys())
        return found if fits else None


def read_template(text: str, translation: str) -> Template:
    """The template that a catalogue writes as `text`."""
    pieces = PLACEHOLDER.split(text)
    return Template(pieces[::2], pieces[1::2], translation)


class Wording:
    """What is said in one language."""

    def __init__(self, messages: Mapping[str, str]) -> None:
        self._plain = {text: said for text, said in messages.items() if not PLACEHOLDER.search(text)}
        templates = [read_template(text, said) for text, said in messages.items() if text not in self._plain]
        # Those that say most come first: one may hold another.
        self._templates = sorted(templates, key=lambda one: -sum(map(len, one.parts)))

    def say(self, text: str, depth: int = DEEPEST) -> str:
        """The sentence in this language, or as it is if it is not known."""
        if text in self._plain:
            return self._plain[text]
        if depth == 0 or len(text) > MOST_SENTENCE_CHARACTERS:
            return text
        for template in self._templates:
            values = template.match(text)
            if values is not None:
                values |= {name: self._say_value(name, values[name], depth - 1) for name in SPEAKING & values.keys()}
                # What is put in is not looked at again: braces in it stay as they are.
                pieces = PLACEHOLDER.split(template.translation)
                return "".join(values[piece] if at % 2 else piece for at, piece in enumerate(pieces))
        return text

    def _say_value(self, name: str, value: str, depth: int) -> str:
        return self.say_clauses(value, depth) if name == "clauses" else self.say(value, depth)

    def say_clauses(self, text: str, depth: int = DEEPEST) -> str:
        """The same of clauses that semicolons part, as they stand in what a gate found."""
        return "; ".join(self.say(clause, depth) for clause in split_clauses(text))


def split_clauses(text: str) -> list[str]:
    """The clauses between semicolons, except those in parentheses."""
    found, level = [""], 0
    for part in re.split("(; |[()])", text):
        level += {"(": 1, ")": -1}.get(part, 0)
        if part == "; " and level <= 0:
            found.append("")
        else:
            found[-1] += part
    return found


def tell_sentence(language: str, text: Message | str) -> str:
    """A message in the language; or what a result says: what no catalogue knows stays English."""
    if isinstance(text, Message):
        return say_message(text, language)
    found = wording_in(language).say(text)
    return found if found != text else wording_in(language).say_clauses(text)


def say_message(message: Message, language: str) -> str:
    """The message in the language, also where it holds what a result says."""
    said = message.say(language)
    return tell_sentence(language, said) if message.id == "verbatim" else said


@cache
def wording_in(language: str) -> Wording:
    """The wording of what results say; English stays as it is."""
    return Wording({} if language == DEFAULT else read_messages(language))


def read_messages(language: str) -> dict[str, str]:
    """The catalogue of a language: template → translation."""
    from babel.messages.pofile import read_po

    file = files(__package__) / "locales" / f"{language}.po"
    catalog = read_po(BytesIO(file.read_bytes()), locale=language)
    return {str(message.id): str(message.string) for message in catalog if message.id}
