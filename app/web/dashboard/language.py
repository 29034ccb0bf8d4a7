"""In which language a page speaks, and how it writes numbers and times."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from io import BytesIO

from babel import Locale, dates, numbers
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.support import NullTranslations, Translations
from starlette.requests import Request

LANGUAGES: Mapping[str, str] = {"en": "English", "ja": "日本語", "ko": "한국어"}
"""Each by its own name."""

DEFAULT = "en"
LEVELS = (0.01, 0.05)
"""Of significance, as pages offer them."""

COOKIE = "saiten_language"


def language_of(request: Request) -> str:
    """What the visitor chose, else what the browser prefers among the dashboard's languages."""
    chosen = request.cookies.get(COOKIE, "")
    if chosen in LANGUAGES:
        return chosen
    return negotiate(request.headers.get("accept-language", ""))


def negotiate(header: str) -> str:
    """The language of `Accept-Language` (RFC 9110) with the highest weight, the earlier of equal ones."""
    best, weight = DEFAULT, 0.0
    for part in header.split(",")[:32]:
        tag, _, parameter = part.strip().partition(";")
        name = tag.split("-")[0].strip().lower()
        quality = read_quality(parameter.strip())
        if name in LANGUAGES and quality > weight:
            best, weight = name, quality
    return best


def read_quality(parameter: str) -> float:
    """The weight in `q=0.8`; 1 without one, 0 where it cannot be read."""
    if not parameter:
        return 1.0
    try:
        return min(1.0, float(parameter.removeprefix("q=")))
    except ValueError:
        return 0.0


@cache
def translations_of(language: str) -> NullTranslations:
    """The catalogs of a language put together: one file an area, each with both sides in plain text."""
    found = NullTranslations()
    if language == DEFAULT:
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
    folder = files(__package__) / "locales" / language
    found = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".po"):
            found[file.name.removesuffix(".po")] = read_po(BytesIO(file.read_bytes()), locale=language)
    return found


LEAST_DOLLARS = 0.0001
"""Less than this is not told apart."""


def says_something(text: str) -> bool:
    """Whether a number as it is written is not all zeros."""
    return any(character in "123456789" for character in text)


class Formats:
    """Numbers and times as the language writes them. None is a dash everywhere."""

    NOTHING = "–"

    def __init__(self, language: str) -> None:
        self._locale = Locale.parse(language)

    def count(self, value: int | None) -> str:
        """`12,345`."""
        return self.NOTHING if value is None else numbers.format_decimal(value, format="#,##0", locale=self._locale)

    def number(self, value: float | None, digits: int = 2) -> str:
        """`3.14`."""
        if value is None:
            return self.NOTHING
        shape = "#,##0" + ("." + "0" * digits if digits else "")
        text = numbers.format_decimal(value, format=shape, locale=self._locale)
        return text.replace("-", "−") if says_something(text) else text.lstrip("-")

    def signed(self, value: float | None, digits: int = 2) -> str:
        """`+0.25`, `−0.25`, `0.00`."""
        if value is None:
            return self.NOTHING
        shape = "#,##0" + ("." + "0" * digits if digits else "")
        text = numbers.format_decimal(abs(value), format=shape, locale=self._locale)
        if not says_something(text):
            return text
        return ("+" if value > 0 else "−") + text

    def interval(self, ends: tuple[float, float] | None, digits: int = 2, *, signed: bool = False) -> str:
        """`[2.58, 3.08]`."""
        if ends is None:
            return self.NOTHING
        write = self.signed if signed else self.number
        return f"[{write(ends[0], digits)}, {write(ends[1], digits)}]"

    def percent(self, share: float | None, digits: int = 0) -> str:
        """`98 %` of 0.98, as the language puts it; never 100 % of less than all, nor 0 % of something."""
        if share is None:
            return self.NOTHING
        step = 10 ** -(digits + 2)
        shown = min(share, 1 - step) if share < 1 else share
        shown = max(shown, step) if share > 0 else shown
        shape = "0" + ("." + "0" * digits if digits else "") + "%"
        return numbers.format_percent(shown, format=shape, locale=self._locale)

    def money(self, dollars: float | None) -> str:
        """`US$0.0042`: four digits behind the point below a dollar, two above; never nothing of something."""
        if dollars is None:
            return self.NOTHING
        if 0 < dollars < LEAST_DOLLARS:
            return "< " + self.money(LEAST_DOLLARS)
        digits = 2 if round(dollars, 4) >= 1 or dollars == 0 else 4
        shape = "¤#,##0." + "0" * digits
        return numbers.format_currency(dollars, "USD", format=shape, locale=self._locale, currency_digits=False)

    def p(self, value: float | None) -> str:
        """`0.032`, `< 0.001`."""
        if value is None:
            return self.NOTHING
        if value < 0.001:
            return "< 0.001"
        # What is below a usual level must not be shown as that level.
        is_near = round(value, 3) in LEVELS and value not in LEVELS
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


@cache
def formats_of(language: str) -> Formats:
    """One a language."""
    return Formats(language)
