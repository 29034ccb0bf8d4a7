"""MeCab with unidic-lite, for everything that reads Japanese."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, NamedTuple

READ = 8  # Fields of a node that are read, from the first; UniDic has 26
MOST_WORDS = 4096  # Tokens that are remembered, in about 3 MB


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
        return fugashi.Tagger(f'-r "{unidic_lite.DICDIR}/mecabrc" -d "{unidic_lite.DICDIR}"')

    def split(self, text: str) -> list[JapaneseToken]:
        """The tokens of `text`, punctuation included."""
        return [read_node(node) for node in self._tagger(text)]

    def split_surfaces(self, text: str) -> list[str]:
        """The tokens as they are written, without white space."""
        return [node.surface for node in self._tagger(text) if not node.surface.isspace()]


def read_node(node: Any) -> JapaneseToken:
    """The token of a fugashi node."""
    # Not `node.feature`, which parses all fields for several times as long.
    raw = node.feature_raw
    if '"' in raw:
        return make_token(node.surface, list(node.feature)[:READ], unknown=bool(node.is_unk))
    return read_features(node.surface, raw, bool(node.is_unk))


@lru_cache(maxsize=MOST_WORDS)
def read_features(surface: str, raw: str, unknown: bool) -> JapaneseToken:
    """The token with these fields as the dictionary writes them. Few words make up most of any text."""
    return make_token(surface, raw.split(",", READ)[:READ], unknown=unknown)


def make_token(surface: str, fields: list[str], *, unknown: bool) -> JapaneseToken:
    """The token with the first `READ` fields of a node."""
    pos1, pos2, pos3, _, _, form, *rest = fields
    lemma = (rest[-1] if rest else None) or surface
    return JapaneseToken(surface, pos1, pos2 or "*", pos3, form or "*", lemma.split("-")[0], unknown)
