"""Len and ROUGE: counts words, and compares a response with references, by rouge-score and fugashi."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

from saiten.core.messages import Message
from saiten_server.providers.ports import MetricUnavailable, Overlap, Rouge, WordCounter
from saiten_server.text.japanese import JapaneseTagger

TYPES = ("rouge1", "rouge2", "rougeL")
WORD = re.compile(r"\w+")


class SpacedWords:
    """Words between white space, as in Korean and English; punctuation belongs to its word."""

    identity = "whitespace"

    def count(self, text: str) -> int:
        return len(text.split())


class JapaneseWords:
    """MeCab's tokens (UniDic short units, punctuation included, white space not), in NFC. The tagger is built on the
    first text; one thread at a time may ask."""

    def __init__(self) -> None:
        self._tagger = JapaneseTagger()

    @cached_property
    def identity(self) -> str:
        return f"fugashi-{version('fugashi')}/unidic-lite-{version('unidic-lite')}"

    def split(self, text: str) -> list[str]:
        """The tokens' surfaces: が written as two code points must not differ from が written as one."""
        return self._tagger.split_surfaces(unicodedata.normalize("NFC", text))

    def count(self, text: str) -> int:
        return len(self.split(text))


class RougeOverlap:
    """Implements `Overlap` by rouge-score's RougeScorer, without stemming."""

    def __init__(self, scorer: Any, split: Callable[[str], list[str]], words: str) -> None:
        self._scorer = scorer
        self._split = split
        self.identity = f"rouge-score-{version('rouge-score')}/{words}"

    def compare(self, references: Sequence[str], response: str) -> Rouge:
        if not any(self._split(reference) for reference in references):
            raise MetricUnavailable(Message("rouge-no-word"))
        found = self._scorer.score_multi(list(references), response)
        return Rouge(**{name: float(found[name].fmeasure) for name in TYPES})


def split_korean(text: str) -> list[str]:
    """Runs of Unicode letters, digits and underscores, in NFC and lower case: 어절 without their punctuation."""
    return WORD.findall(unicodedata.normalize("NFC", text).lower())


def open_words(language: str) -> WordCounter:
    """The words of `ja`; of any other language, what stands between white space."""
    return JapaneseWords() if language == "ja" else SpacedWords()


def open_overlap(language: str) -> Overlap:
    """ROUGE for `ja`, `ko` or `en`. Raises MetricUnavailable where rouge-score is not installed."""
    if find_spec("rouge_score") is None:
        raise MetricUnavailable(Message("rouge-not-installed"))
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import DefaultTokenizer

    if language == "en":
        # The package's own, so that figures equal those that others publish.
        tokenizer: Any = DefaultTokenizer(use_stemmer=False)
        words = "default"
    else:
        japanese = JapaneseWords()
        tokenizer = SimpleNamespace(tokenize=japanese.split if language == "ja" else split_korean)
        words = japanese.identity if language == "ja" else "unicode-words"
    return RougeOverlap(RougeScorer(TYPES, use_stemmer=False, tokenizer=tokenizer), tokenizer.tokenize, words)
