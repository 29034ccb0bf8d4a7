"""The languages of the dashboard: translations, numbers, times, and names of the domain's terms.

A request has the language that its visitor chose, else the one that its header prefers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from io import BytesIO
from typing import Any, NamedTuple
from urllib.parse import urlencode

import yaml
from babel import Locale, dates, numbers
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.support import NullTranslations, Translations
from fastapi import Request

from saiten.core.figures import round_figure
from saiten.core.messages import DEFAULT_LANGUAGE
from saiten.core.wording import LEVELS
from saiten_server.core.conversation import KIND
from saiten_server.platform.bundled import bundled_folder, find_folders

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


LANGUAGE_COOKIE = "saiten_language"


def language_of(request: Request) -> str:
    """What the visitor chose, else what the browser prefers among the dashboard's languages."""
    chosen = request.cookies.get(LANGUAGE_COOKIE, "")
    if chosen in LANGUAGES:
        return chosen
    return preferred_language(request)


def preferred_language(request: Request) -> str:
    """What `Accept-Language` prefers. Several lines of a header are one list."""
    return negotiate(",".join(request.headers.getlist("accept-language")))


@cache
def translations_of(language: str) -> NullTranslations:
    """The catalogs of a language put together: one file an area, each with both sides in plain text."""
    found = NullTranslations()
    if language == DEFAULT_LANGUAGE:
        return found
    whole = Catalog(locale=language)
    for catalog in catalogs_of(language).values():
        for message in catalog:
            if message.id:
                whole[message.id] = message
    compiled = BytesIO()
    write_mo(compiled, whole)
    compiled.seek(0)
    return Translations(compiled)


def catalogs_of(language: str) -> dict[str, Catalog]:
    """The catalogs of a language by area."""
    found = [file for folder in find_folders("locales") for file in sorted((folder / language).glob("*.po"))]
    return {file.stem: read_po(BytesIO(file.read_bytes()), locale=language) for file in found}


LEAST_DOLLARS = 0.0001
"""Smaller amounts are shown as less than this."""


@lru_cache(maxsize=4096)
def write_number(value: float, digits: int, locale: Locale) -> str:
    """`1,234.50`. Pages with a thousand numbers have a few different ones."""
    shape = "#,##0" + ("." + "0" * digits if digits else "")
    return str(numbers.format_decimal(round_figure(value, digits), format=shape, locale=locale))


class LocaleFormats:
    """Numbers and times as the language writes them. None is a dash everywhere."""

    NOTHING = "–"

    def __init__(self, language: str) -> None:
        self._locale = Locale.parse(language)

    def count(self, value: int | None) -> str:
        """`12,345`."""
        return self.NOTHING if value is None else numbers.format_decimal(value, format="#,##0", locale=self._locale)

    def number(self, value: float | None, digits: int = 2, *, plus: str = "") -> str:
        """`3.14`, `−0.25`; what rounds to zero has no sign."""
        if value is None:
            return self.NOTHING
        text = write_number(abs(value), digits, self._locale)
        if not any(character in "123456789" for character in text):
            return text
        return ("−" if value < 0 else plus) + text

    def signed(self, value: float | None, digits: int = 2) -> str:
        """`+0.25`, `−0.25`, `0.00`."""
        return self.number(value, digits, plus="+")

    def interval(self, ends: tuple[float, float] | None, digits: int = 2, *, signed: bool = False) -> str:
        """`[2.58, 3.08]`."""
        if ends is None:
            return self.NOTHING
        write = self.signed if signed else self.number
        return f"[{write(ends[0], digits)}, {write(ends[1], digits)}]"

    def percent(self, share: float | None, digits: int = 0) -> str:
        """`98%` of 0.98, as the language puts it; never 100% of less than all, nor 0% of something."""
        if share is None:
            return self.NOTHING
        step = 10 ** -(digits + 2)
        shown = min(share, 1 - step) if share < 1 else share
        shown = max(shown, step) if share > 0 else shown
        shape = "0." + "0" * digits if digits else "0"
        rounded = round_figure(shown, digits + 2)
        return numbers.format_percent(rounded, format=f"{shape}%", locale=self._locale)

    def money(self, dollars: float | None) -> str:
        """`US$0.0042`: four digits behind the point below a dollar, two above; never nothing of something."""
        if dollars is None:
            return self.NOTHING
        if 0 < dollars < LEAST_DOLLARS:
            return "< " + self.money(LEAST_DOLLARS)
        digits = 2 if round(dollars, 4) >= 1 or dollars == 0 else 4
        shape = "¤#,##0." + "0" * digits
        return numbers.format_currency(dollars, "USD", format=shape, locale=self._locale, currency_digits=False)

    def size(self, size_bytes: int) -> str:
        """`820 B`, `12.5 kB`, `64.0 MB`, `100.0 GB`."""
        for unit, size in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000)):
            if size_bytes >= size:
                return f"{self.number(size_bytes / size, 1)} {unit}"
        return f"{self.count(size_bytes)} B"

    def p(self, value: float | None) -> str:
        """`0.032`, `< 0.001`."""
        if value is None:
            return self.NOTHING
        if value < 0.001:
            return "< 0.001"
        # What is below a usual level must not be shown as that level.
        is_near = float(round_figure(value, 3)) in LEVELS and value not in LEVELS
        return self.number(value, 5 if is_near else 3)

    def moment(self, at: datetime | None) -> str:
        """Day and time in UTC, in a form that means the same everywhere."""
        return self.NOTHING if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"

    def duration(self, seconds: float | None) -> str:
        """`3 minutes`."""
        if seconds is None:
            return self.NOTHING
        passed = timedelta(seconds=seconds)
        return dates.format_timedelta(passed, granularity="second", threshold=1.5, locale=self._locale)


ANY_HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]")
KANA = re.compile("[\u3040-\u30ff\uff66-\uff9f]")
HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
LATIN = re.compile("[A-Za-z]")


def mark(text: str) -> str:
    """Marks a text for translation where it stands; it is translated where it is shown."""
    return text


KIND_NAMES = {
    "uninterpretable": mark("uninterpretable"),
    "grammatical-error": mark("grammatical error"),
    "semantic-error": mark("semantic error"),
    "wrong-information": mark("wrong information"),
    "ignored-question": mark("ignored question"),
    "ignored-request": mark("ignored request"),
    "ignored-proposal": mark("ignored proposal"),
    "ignored-greeting": mark("ignored greeting"),
    "ignored-expectation": mark("ignored expectation"),
    "unclear-intention": mark("unclear intention"),
    "topic-transition": mark("topic transition"),
    "lack-of-information": mark("lack of information"),
    "self-contradiction": mark("self-contradiction"),
    "contradiction": mark("contradiction"),
    "repetition": mark("repetition"),
    "lack-of-sociality": mark("lack of sociality"),
    "lack-of-common-sense": mark("lack of common sense"),
}
"""The kinds of faults."""

TERMS: Mapping[str, Mapping[str, str]] = {
    "kind": KIND_NAMES,
    "kind-description": {
        "uninterpretable": mark("A fragment, garbled or suddenly in another language: it cannot be read."),
        "grammatical-error": mark("Wrong grammar gets in the way of reading."),
        "semantic-error": mark("The words do not go together, so that the sentence makes no sense."),
        "wrong-information": mark("It says what is not true of the world."),
        "ignored-question": mark("It does not answer a question."),
        "ignored-request": mark("It does not respond to a request or an order."),
        "ignored-proposal": mark("It does not respond to a proposal or an invitation."),
        "ignored-greeting": mark("It does not return a greeting."),
        "ignored-expectation": mark(
            "It does not react as the flow calls for, to a correction, news or something confided."
        ),
        "unclear-intention": mark("What it is getting at, or how it follows, cannot be told."),
        "topic-transition": mark("It changes or drops the topic without reason."),
        "lack-of-information": mark("Words that are needed are missing, so that what it is about stays unclear."),
        "self-contradiction": mark("It cannot be true together with its own earlier words or its persona."),
        "contradiction": mark("It forgets, confuses or asks again what the user said, or takes as said what was not."),
        "repetition": mark("It says what it said before."),
        "lack-of-sociality": mark("It is rude or cold, or slips in politeness without reason."),
        "lack-of-common-sense": mark("It goes against common sense, or is dangerous."),
    },
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
        "budget-exhausted": mark("the budget is used up"),
        "cost-limit-reached": mark("the key's limit for today is used up"),
        "judge-quota-exhausted": mark("the judge's quota is used up"),
        "judge-unauthorized": mark("the judge refused the key"),
        "judge-refused-request": mark("the judge refuses the requests"),
        "provider-batch-failed": mark("the provider's batch failed"),
        "internal-error": mark("Saiten failed to finish it"),
        "translator-quota-exhausted": mark("the translator's quota is used up"),
        "translator-unauthorized": mark("the translator refused the key"),
        "translator-not-configured": mark("no translator is set up"),
    },
    "waiting": {"rubric-differs": mark("waits for a worker with its rubric")},
    "unrated": {
        "missing": mark("missing from the reply"),
        "out-of-scale": mark("off the scale"),
        "unparseable": mark("unreadable reply"),
        "refused": mark("the judge refused"),
        "truncated": mark("reply cut off"),
        "content-filter": mark("content filter"),
        "not-applicable": mark("does not apply"),
        "not-supported": mark("this judge cannot rate it"),
    },
    "warning": {
        "baseline-judge": mark("lexical baseline"),
        "suspected-injection": mark("suspected injection"),
        "prompt-leaked": mark("judge's instructions leaked"),
        "translation-sensitive": mark("translation-sensitive"),
        "language-mismatch": mark("in another language"),
        "register-shift": mark("register shift"),
        "register-mixed": mark("mixed register"),
        "register-mix": mark("합쇼체 with 해요체"),
        "honorific-misuse": mark("honorific misused"),
        "similarity-truncated": mark("truncated for the encoder"),
        "similarity-unknown-tokens": mark("words unknown to the encoder"),
        "samples-unrated": mark("some samples unrated"),
        "expected-unavailable": mark("no token probabilities"),
        "findings-unrated": mark("findings not usable"),
        "adopted": mark("scored elsewhere"),
    },
    "finding": {
        "any": mark("any finding"),
        "rules": mark("any rule"),
        "judge": mark("found by the judge"),
        "register-shift": mark("register shift"),
        "register-mix": mark("합쇼체 with 해요체"),
        "wrong-language": mark("wrong language"),
        "repetition": mark("repetition"),
        "self-contradiction": mark("contradicts itself"),
        "persona-contradiction": mark("contradicts the persona"),
        **{KIND + kind: name for kind, name in KIND_NAMES.items()},
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
        "validated": mark("validated"),
        "follows": mark("follows people"),
        "not-shown": mark("not shown"),
        "unknown": mark("unknown"),
    },
    "trust": {
        "validated": mark("The judge's ratings are shown to go well with people's on this aspect."),
        "follows": mark("The judge's ratings are shown to go with people's on this aspect, but perhaps only weakly."),
        "not-shown": mark("People rated this aspect, and the judge's ratings are not shown to go with theirs."),
        "unknown": mark("This judge has not been compared with people on this aspect."),
    },
    "place": {
        "judge": mark("Judge"),
        "verdict": mark("The judge's reply"),
        "response": mark("Response"),
        "context": mark("Utterance"),
        "turns": mark("Utterance"),
        "speaker": mark("Speaker"),
        "persona": mark("Persona"),
        "goal": mark("Goal"),
        "aspects": mark("Aspect"),
        "findings": mark("Findings"),
        "relevance": mark("Similarity"),
        "translation": mark("Translation"),
        "record": mark("Scored elsewhere"),
    },
    "scope": {"read": mark("read"), "write": mark("write"), "admin": mark("admin"), "ingest": mark("send only")},
}
"""By kind the domain's own names, which stay as they are in addresses and data."""


def lang_of(text: str, expected: str) -> str:
    """The `lang` of a text, so that it gets its own glyphs: by its script, and where that says nothing as expected."""
    if ANY_HANGUL.search(text):
        return "ko"
    if KANA.search(text):
        return "ja"
    if HAN.search(text) or not LATIN.search(text):
        return expected
    return "en"


@cache
def shipped_phrases() -> dict[tuple[str, str], list[dict[str, str]]]:
    """What the shipped rubrics call things in all languages, by each language and text."""
    found: dict[tuple[str, str], list[dict[str, str]]] = {}
    rows = yaml.safe_load(bundled_folder("scoring/rubrics/phrases.yaml").read_text(encoding="utf-8"))
    for row in rows:
        phrase = dict(zip(("ja", "ko", "en"), row, strict=True))
        for own in phrase.items():
            found.setdefault(own, []).append(phrase)
    return found


def pick(phrase: Mapping[str, Any], language: str) -> tuple[Any, str]:
    """A rubric's text in the visitor's language, its own or that of the shipped phrases, else in English, else in
    whatever there is; and its language."""
    if language not in phrase:
        texts = [(own, text) for own, text in phrase.items() if isinstance(text, str)]
        for known in (found for text in texts for found in shipped_phrases().get(text, ())):
            if all(known[own] == text for own, text in texts if own in known):
                return known[language], language
    for wanted in (language, "en", *phrase):
        if wanted in phrase:
            return phrase[wanted], wanted
    return "", language


def query(path: str, /, **parameters: Any) -> str:
    """The address with these parameters; None and empty ones left out, several values repeated."""
    given = {name: value for name, value in parameters.items() if value not in (None, "", [], ())}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


class Speech(NamedTuple):
    """The visitor's language: its messages and its numbers."""

    language: str
    translations: NullTranslations
    formats: LocaleFormats

    def say(self, message: str, **values: Any) -> str:
        """The message in the language, with its values; a percent sign in it is doubled."""
        return self.translations.gettext(message) % values

    def ngettext(self, one: str, many: str, number: int, shown: str) -> str:
        """The message for so many, which it names `%(count)s`."""
        return self.translations.ngettext(one, many, number) % {"count": shown}

    def pick(self, phrase: Mapping[str, str]) -> str:
        """A rubric's text in the language."""
        return str(pick(phrase, self.language)[0])

    def term(self, kind: str, name: str) -> str:
        """The domain's name in the language. An unknown name, which a newer worker may write, stays unchanged."""
        known = TERMS[kind].get(name)
        return name if known is None else self.translations.gettext(known)


@cache
def speech_in(language: str) -> Speech:
    """What there is for a language."""
    return Speech(language, translations_of(language), LocaleFormats(language))


def speech_of(request: Request) -> Speech:
    """The visitor's."""
    return speech_in(language_of(request))
