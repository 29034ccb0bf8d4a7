"""The word lists and the gazetteer of the rules over conversations, from conversation_words.json."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

LONGEST_QUOTE = 60
WORD_SPACE = re.compile(r"\s+")


@cache
def load() -> Any:
    """The file: lists are texts with a comma between the words, in which a space of Korean may be written or not."""
    return json.loads((files("saiten_server") / "text/conversation_words.json").read_text(encoding="utf-8"))


@cache
def words_in(listed: str) -> tuple[str, ...]:
    """The words of a list, longest first."""
    return tuple(sorted(filter(None, map(str.strip, listed.split(","))), key=lambda word: (-len(word), word)))


def any_of(listed: str) -> str:
    """A pattern without groups for any word of a list."""
    return "(?:" + "|".join(re.escape(word).replace(r"\ ", r"\s?") for word in words_in(listed)) + ")"


def begins_one(listed: str) -> str:
    """A look-ahead for the beginning of any word of a list. Before `any_of` in a pattern it saves trying word after
    word in places where none begins."""
    return "(?=[" + "".join(sorted({re.escape(word[0]) for word in words_in(listed)})) + "])"


@dataclass(frozen=True)
class Words:
    """The patterns of one language that decide when a rule does not apply."""

    formulas: re.Pattern[str]
    about_register: re.Pattern[str]
    about_language: re.Pattern[str]
    ask_again: re.Pattern[str]
    composition: re.Pattern[str]

    def is_formula(self, sentence: str) -> bool:
        """Whether nothing but greetings, thanks and the like is said."""
        letters = "".join(filter(str.isalnum, sentence))
        return len(self.formulas.sub("", letters)) <= 2


@cache
def words_for(language: str) -> Words:
    """The patterns of ja or ko."""
    lists = load()[language]
    return Words(**{name: re.compile(any_of(lists[name])) for name in Words.__dataclass_fields__})


def quote(text: str) -> str:
    """The beginning of a text on one line, in quotation marks."""
    line = WORD_SPACE.sub(" ", text.strip())
    return f"「{line}」" if len(line) <= LONGEST_QUOTE else f"「{line[:LONGEST_QUOTE]}…」"
