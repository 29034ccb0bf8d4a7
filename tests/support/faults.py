"""Faults with their messages in English, as tests compare them."""

from collections.abc import Sequence
from typing import TypeVar

from saiten.core.messages import Message

Where = TypeVar("Where")


def said(faults: Sequence[tuple[Where, Message]]) -> list[tuple[Where, str]]:
    """Each fault's place with what is wrong there."""
    return [(where, str(what)) for where, what in faults]


def words(text: str) -> Message:
    """A message that says these words in every language."""
    return Message("verbatim", text=text)
