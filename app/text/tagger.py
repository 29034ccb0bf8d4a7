"""MeCab with unidic-lite, for everything that reads Japanese."""

from __future__ import annotations

import csv
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

READ = 8  # Fields of a token that are read, from the first; UniDic has 26
MOST_WORDS = 4096  # Tokens that are remembered, in about 3 MB
# One line per token: its surface, its fields and, where the dictionary does not have it, a mark
LINES = r'-O "" -F "%m\\t%H\\n" -U "%m\\t%H\\t?\\n" -E ""'


class JapaneseToken(NamedTuple):
    """A token with the UniDic fields that are used. `lemma` is the surface where the dictionary has none, and lacks the
    gloss of some (リゾート-resort)."""

    surface: str
    pos1: str
    pos2: str
    pos3: str
    form: str
    lemma: str
    unknown: bool

    @property
    def is_ending_particle(self) -> bool:
        return self.pos1 == "助詞" and self.pos2 == "終助詞"


class JapaneseTagger:
    """Built at the first text, in about 10 ms. Not thread-safe."""

    @cached_property
    def _tagger(self) -> Any:
        import fugashi
        import unidic_lite

        # The folder is named, because fugashi would otherwise prefer a full UniDic that happens to be installed.
        return fugashi.Tagger(f'-r "{unidic_lite.DICDIR}/mecabrc" -d "{unidic_lite.DICDIR}" {LINES}')

    def split(self, text: str) -> list[JapaneseToken]:
        """The tokens of `text`, punctuation included."""
        # Not fugashi's nodes: to make an object of each token takes as long as the analysis.
        read = text.partition("\0")[0]  # which ends a text for MeCab
        return [read_token(line) for line in self._tagger.parse(read).split("\n") if line]

    def split_surfaces(self, text: str) -> list[str]:
        """The tokens as they are written, without white space."""
        return [node.surface for node in self._tagger(text) if not node.surface.isspace()]


@lru_cache(maxsize=MOST_WORDS)
def read_token(line: str) -> JapaneseToken:
    """The token of a line. Few words make up most of any text."""
    surface, fields, *unknown = line.split("\t")
    pos1, pos2, pos3, _, _, form, *rest = next(csv.reader([fields]))[:READ]
    lemma = (rest[-1] if rest else None) or surface
    return JapaneseToken(surface, pos1, pos2 or "*", pos3, form or "*", lemma.split("-")[0], bool(unknown))
