"""How the ideas of the lexicon are found in a text: compiled once, for the scripts that the text is written in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from app.domain.untrusted.clauses import CLAUSES
from app.domain.untrusted.lexicon import IDEAS
from app.domain.untrusted.wordings import WORDINGS

SCRIPTS = {"latin": "[a-z]", "han": "[\u3040-\u30ff\u3400-\u9fff]", "hangul": "[\uac00-\ud7a3]"}
"""A character of each script; the Han script goes with kana."""


def alternatives(pattern: str) -> Iterator[str]:
    """The parts of a regular expression between the `|` that stand outside every group and class."""
    depth, start = 0, 0
    for match in re.finditer(r"\\.|\[(?:\\.|[^\]\\])+\]|[()|]", pattern):
        mark = match[0]
        depth += (mark == "(") - (mark == ")")
        if mark == "|" and depth == 0:
            yield pattern[start : match.start()]
            start = match.end()
    yield pattern[start:]


def scripts_of(text: str) -> frozenset[str]:
    """The scripts of which `text` holds a character."""
    return frozenset(name for name, character in SCRIPTS.items() if re.search(character, text))


def speaks(alternative: str, scripts: frozenset[str]) -> bool:
    """Whether an alternative can match a text of `scripts`: one with Han or Hangul in it needs such text.

    One with both serves several languages, English among them."""
    own = scripts_of(alternative) - {"latin"} or {"latin"}
    return len(own) > 1 or bool(own & scripts)


@cache
def idea(name: str, scripts: frozenset[str] = frozenset(SCRIPTS)) -> re.Pattern[str]:
    """The pattern of an idea in texts of `scripts`, compiled when it is first needed. The texts are folded.

    Alternatives of other scripts are left out, and those that start a word are tried only where a word starts:
    without that, matching takes several times as long.
    """
    patterns = CLAUSES[name] if name in CLAUSES else IDEAS[name] + WORDINGS.get(name, ())
    parts = [part for pattern in patterns for part in alternatives(pattern) if speaks(part, scripts)]
    inside = [part for part in parts if not part.startswith(r"\b")]
    initial = [part.removeprefix(r"\b") for part in parts if part.startswith(r"\b")]
    if initial:
        inside.append(rf"\b(?:{'|'.join(initial)})")
    return re.compile("|".join(inside) or r"(?!)", re.MULTILINE)
