"""敬体 or 常体: the register of Japanese by the predicates that end its sentences, from fugashi with unidic-lite."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from app.domain.plain_text import cut_mark_runs
from app.domain.speech import Misuse, Register, Sign, settle
from app.text.honorifics import JA_SUSPICIOUS, find_japanese_misuse
from app.text.japanese_endings import InflectedWord, read_closed, read_end, split_clauses
from app.text.passages import Sentence, open_passage, split_sentences
from app.text.tagger import open_tagger

REACH = 240  # Code points of a sentence in which its last letter is looked for, before marks and laughs
TAIL = 48  # Code points of a sentence that are tagged: its end tells, and the tagger's time grows with the length
STAND_IN = "物"  # Takes a quotation's place: a noun, as a quotation is
LAUGHS = re.compile(r"(?:(?<![A-Za-z])w{1,99}|笑|泣|汗|草|藁)$")
LENGTHENED = re.compile(r"(?<=[ぁ-ゖ])[ーっッぁぃぅぇぉァィゥェォ]{1,99}$")
SPACES = re.compile(r"(?<![!-~])\s+(?![!-~])")  # Spaces between Japanese words part phrases as commas do
WITHIN_TITLE = re.compile(r"[!?]{1,4}(?=の(?![んどみり])|を|という|って|とか|とは)")
"""Marks before a particle: they belong to a title (ホントだった!?のコーナー) and end no sentence."""

IN_KATAKANA = re.compile(
    r"(?:(?<![ァ-ヺー])デス|デス(?=[カネヨ])|デシタ|デショウ|(?<=[ぁ-ゖ])マス|ゴザイマス|マシタ|マセン|マショウ|クダサイ)[カネヨナー]*$"
)
"""Polite ends in katakana (了解デス), which the dictionary takes for names; クリスマス is none."""

TO_HIRAGANA = {code: code - 0x60 for code in range(ord("ァ"), ord("ヶ") + 1)}

STRONG = frozenset({Sign.POLITE, Sign.PLAIN})


class JapaneseRegister:
    """Builds the tagger at the first text, in about 10 ms. Thread-safe: the tagger is locked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @cached_property
    def _tagger(self) -> Any:
        return open_tagger()

    def _split(self, text: str) -> list[InflectedWord]:
        with self._lock:
            return [word_of(node) for node in self._tagger(text)]

    def read(self, text: str) -> Register:
        """The register of the beginning of a text (`open_passage`)."""
        normal = unicodedata.normalize("NFKC", cut_mark_runs(open_passage(text)))
        signs = (
            sign
            for sentence in split_sentences(WITHIN_TITLE.sub("", normal), STAND_IN)
            for sign in self._signs(sentence)
        )
        return settle(signs)

    def find_misuse(self, text: str) -> Misuse | None:
        """The first clear misuse of an honorific or humble verb at the beginning of a text."""
        normal = unicodedata.normalize("NFKC", cut_mark_runs(open_passage(text)))
        for sentence in split_sentences(normal, STAND_IN):
            for clause in re.split("[、,]", sentence.text[-REACH:]):
                if JA_SUSPICIOUS.search(clause) and (found := find_japanese_misuse(self._split(clause + "。")[:-1])):
                    return found
        return None

    def _signs(self, sentence: Sentence) -> Iterator[Sign]:
        """The signs of a sentence: from its last clause, and from any clause before a comma that could stand alone."""
        text = SPACES.sub("、", trim(sentence.text[-REACH:]))[-TAIL:]
        text = IN_KATAKANA.sub(lambda match: match[0].translate(TO_HIRAGANA), text)
        if not text:
            return
        # The tagger reads か and な at an end otherwise than before a full stop, and knows the latter better.
        *earlier, last = split_clauses(self._split(text + "。"))
        sign = read_end(last, trails_off=sentence.trails_off, asks=sentence.asks)
        if sign is not None:
            yield sign
        for clause in reversed(earlier):
            closed = read_closed(clause, instead=sign not in STRONG)
            if closed is not None:
                yield closed
                sign = closed if sign not in STRONG else sign


def trim(text: str) -> str:
    """`text` without marks, laughs and drawn-out vowels at its end."""
    before = ""
    while text != before:
        before = text
        while text and not text[-1].isalnum():
            text = text[:-1]
        text = LENGTHENED.sub("", LAUGHS.sub("", text))
    return text


def word_of(node: Any) -> InflectedWord:
    """The token of a fugashi node."""
    feature = node.feature
    lemma = (feature.lemma or node.surface).split("-")[0]
    return InflectedWord(node.surface, feature.pos1, feature.pos2 or "*", feature.cForm or "*", lemma)
