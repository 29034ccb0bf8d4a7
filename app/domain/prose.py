"""The texts that a rubric is made of, each in several languages."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from app.domain.dialogue import is_invisible, refuse_controls

Language = Annotated[str, Field(pattern=r"^[a-z]{2}$")]
"""ISO 639-1: `ja`, `ko`, `en`."""


def check_prose(text: str) -> str:
    """A text that a reader can see; raises ValueError where it is blank or holds control characters."""
    refuse_controls(text)
    if all(map(is_invisible, text)):
        raise ValueError("is blank or holds only invisible characters")
    return text


def check_phrase(text: str) -> str:
    """A prose of one line without white space around it, so that it can be found again in a judge's reply."""
    refuse_controls(check_prose(text), one_line=True)
    if text != text.strip():
        raise ValueError("begins or ends with white space")
    return text


Prose = Annotated[str, Field(min_length=1, max_length=4000), AfterValidator(check_prose)]
Phrase = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(check_phrase)]
LocalizedProse = Annotated[dict[Language, Prose], Field(min_length=1)]
LocalizedPhrase = Annotated[dict[Language, Phrase], Field(min_length=1)]
"""The same text in each of the rubric's languages."""
