"""What modules say to the visitor, where a template cannot: in charts, and in sentences put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from babel.support import NullTranslations
from fastapi import Request

from app.web.dashboard.language import Formats, formats_of, language_of, translations_of
from app.web.dashboard.texts import pick


@dataclass(frozen=True)
class Speech:
    """The visitor's language: its messages and its numbers."""

    language: str
    translations: NullTranslations
    formats: Formats

    def say(self, message: str, **values: Any) -> str:
        """The message in the language, with its values; a percent sign in it is doubled."""
        return self.translations.gettext(message) % values

    def pick(self, phrase: Mapping[str, str]) -> str:
        """A rubric's text in the language."""
        return str(pick(phrase, self.language)[0])


def speech_of(request: Request) -> Speech:
    """The visitor's."""
    language = language_of(request)
    return Speech(language, translations_of(language), formats_of(language))
