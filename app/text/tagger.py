"""MeCab with unidic-lite, for everything that reads Japanese."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True, slots=True)
class JapaneseToken:
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
        return fugashi.Tagger(f'-r "{unidic_lite.DICDIR}/mecabrc" -d "{unidic_lite.DICDIR}"')

    def split(self, text: str) -> list[JapaneseToken]:
        """The tokens of `text`, punctuation included."""
        return [read_node(node) for node in self._tagger(text)]

    def split_surfaces(self, text: str) -> list[str]:
        """The tokens as they are written, without white space."""
        return [node.surface for node in self._tagger(text) if not node.surface.isspace()]


def read_node(node: Any) -> JapaneseToken:
    """The token of a fugashi node."""
    feature, surface = node.feature, node.surface
    lemma = (feature.lemma or surface).split("-")[0]
    pos2, form = feature.pos2 or "*", feature.cForm or "*"
    return JapaneseToken(surface, feature.pos1, pos2, feature.pos3, form, lemma, bool(node.is_unk))
