"""MeCab with unidic-lite, as whatever reads Japanese has it."""

from __future__ import annotations

from typing import Any


def open_tagger() -> Any:
    """A new tagger (some 10 ms), which one thread at a time may ask."""
    import fugashi
    import unidic_lite

    # The folder is named, because fugashi would otherwise prefer a full UniDic that happens to be installed.
    return fugashi.Tagger(f'-r "{unidic_lite.DICDIR}/mecabrc" -d "{unidic_lite.DICDIR}"')
