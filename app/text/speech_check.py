"""Checks the response's language, register and honorifics by rules, independently of the judge."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TypeVar

from app.domain.dialogue import Dialogue
from app.domain.evaluation import Warned
from app.domain.speech import Misuse, PolitenessLevel, Register, agreed_register, established_level, own_utterances
from app.text.japanese_register import JapaneseRegister
from app.text.korean_register import read_korean, read_korean_level, read_korean_misuse
from app.text.scripts import LanguageReading, read_scripts

MOST_UTTERANCES = 8  # Latest own utterances that the response is compared with
MOST_RECENT = 4096  # Size of each cache: registers and levels of earlier utterances, and warnings per dialogue
WHOLLY = 0.95  # Share of a language from which on it says nothing more
Findings = TypeVar("Findings")

LANGUAGE_NAMES = {"ja": "Japanese", "ko": "Korean", "zh": "Chinese", "en": "text in Latin script"}


class SpeechChecks:
    """Checks dialogues by their scripts, a tagger (Japanese) and the spelling of endings (Korean).

    The tagger is loaded at the first use. Thread-safe. The same dialogues recur, for example when a test set is scored
    with every build, so results are cached by digest, without the text.
    """

    def __init__(self) -> None:
        self._japanese = JapaneseRegister()
        self._known = OrderedDict[bytes, Register]()
        self._levels = OrderedDict[bytes, PolitenessLevel]()
        self._found = OrderedDict[bytes, tuple[Warned, ...]]()

    def check(self, dialogue: Dialogue, language: str) -> tuple[Warned, ...]:
        """The warnings `language-mismatch`, or else `register-shift`, `register-mixed` or `register-mix` (합쇼체 with
        해요체), and `honorific-misuse`. Languages other than ja, ko and en have none."""
        if language not in {"ja", "ko", "en"}:
            return ()
        key = digest_of([language, dialogue.response, *texts_of(dialogue)])
        found = self._found.get(key)
        if found is None:
            found = self._check(dialogue, language)
            remember(self._found, key, found)
        return found

    def _check(self, dialogue: Dialogue, language: str) -> tuple[Warned, ...]:
        reading = read_scripts(dialogue.response)
        if reading.language not in {language, "none"}:
            return (warn_of_language(reading, language),)
        return (*self._check_register(dialogue, language), *self._check_honorifics(dialogue.response, language))

    def _check_honorifics(self, response: str, language: str) -> tuple[Warned, ...]:
        misuse = read_misuse(response, language, self._japanese)
        if misuse is None:
            return ()
        return (Warned(code="honorific-misuse", where="response", detail=f"In the response {misuse.value}."),)

    def _check_register(self, dialogue: Dialogue, language: str) -> tuple[Warned, ...]:
        if language == "en" or not (earlier := own_utterances(dialogue, MOST_UTTERANCES)):
            return ()
        now = read_register(dialogue.response, language, self._japanese)
        if now is Register.NONE:
            return ()
        before = agreed_register(self._recall(text, language) for text in earlier)
        if before not in {Register.NONE, now}:
            return (warn_of_register(before, now),)
        if language == "ko" and before is Register.POLITE:
            return self._check_level(dialogue.response, earlier)
        return ()

    def _check_level(self, response: str, earlier: Sequence[str]) -> tuple[Warned, ...]:
        now = read_korean_level(response)
        if now is PolitenessLevel.NONE:
            return ()
        before = established_level(self._recall_level(text) for text in earlier)
        return () if before in {PolitenessLevel.NONE, now} else (warn_of_level(before, now),)

    def _recall(self, text: str, language: str) -> Register:
        """The register of an earlier utterance, cached by digest because contexts recur."""
        key = digest_of([language, text])
        known = self._known.get(key)
        if known is None:
            known = read_register(text, language, self._japanese)
            remember(self._known, key, known)
        return known

    def _recall_level(self, text: str) -> PolitenessLevel:
        """The level of an earlier polite Korean utterance, cached by digest."""
        key = digest_of([text])
        level = self._levels.get(key)
        if level is None:
            level = read_korean_level(text)
            remember(self._levels, key, level)
        return level


def texts_of(dialogue: Dialogue) -> Iterator[str]:
    """Speakers and texts of the context, in order."""
    for said in dialogue.context:
        yield said.speaker
        yield said.text


def digest_of(texts: Sequence[str]) -> bytes:
    """A digest of 16 bytes. The texts' lengths are part of it, so that equal concatenations differ."""
    lengths = ",".join(map(str, map(len, texts)))
    return blake2b(f"{lengths}\0{''.join(texts)}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def remember(known: OrderedDict[bytes, Findings], key: bytes, found: Findings) -> None:
    """Caches a result, and evicts the oldest. Threads may at worst compute the same result twice."""
    known[key] = found
    while len(known) > MOST_RECENT:
        known.popitem(last=False)


def read_language(text: str) -> str:
    """The language that a text is in by its scripts: ja, ko, zh, en (any text in Latin script), other, or none where
    nothing tells (numbers, symbols, names)."""
    return read_scripts(text).language


def read_register(text: str, language: str, japanese: JapaneseRegister | None = None) -> Register:
    """The register of one utterance; NONE in languages other than ja and ko. `japanese` is a reader to use again:
    without one a tagger is made, in some 10 ms."""
    if language == "ko":
        return read_korean(text)
    if language == "ja":
        return (japanese or JapaneseRegister()).read(text)
    return Register.NONE


def read_misuse(text: str, language: str, japanese: JapaneseRegister) -> Misuse | None:
    """The first clear misuse of an honorific or humble verb; None in languages other than ja and ko."""
    if language == "ko":
        return read_korean_misuse(text)
    return japanese.find_misuse(text) if language == "ja" else None


def warn_of_language(reading: LanguageReading, language: str) -> Warned:
    """Names the language that was found, and its share where others are mixed in; never the text."""
    found = LANGUAGE_NAMES.get(reading.language, "text in another script")
    share = f" (about {100 * reading.share:.0f} % of the text)" if reading.share < WHOLLY else ""
    expected = "English" if language == "en" else LANGUAGE_NAMES[language]
    return Warned(
        code="language-mismatch",
        where="response",
        detail=f"The response looks like {found}{share}, not {expected}.",
    )


def warn_of_register(before: Register, now: Register) -> Warned:
    """A clear change, or both registers in one response after utterances that keep one."""
    if now is Register.MIXED:
        detail = (
            f"The response mixes polite and plain sentence ends; this speaker's earlier utterances are {before.value}."
        )
        return Warned(code="register-mixed", where="response", detail=detail)
    detail = f"The response is {now.value}; this speaker's earlier utterances are {before.value}."
    return Warned(code="register-shift", where="response", detail=detail)


def warn_of_level(before: PolitenessLevel, now: PolitenessLevel) -> Warned:
    """A polite Korean response that leaves the level of earlier utterances, wholly or in part."""
    found = "mixes 합쇼체 and 해요체" if now is PolitenessLevel.MIXED else f"is in {now.value}"
    return Warned(
        code="register-mix",
        where="response",
        detail=f"The response {found}; this speaker's earlier utterances keep {before.value}.",
    )
