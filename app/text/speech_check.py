"""Checks the response's language, register and honorifics by rules, independently of the judge."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from saiten.core.messages import Message
from saiten_server.core.dialogue import Dialogue
from saiten_server.core.evaluation import Warned
from saiten_server.core.sentences import in_english
from saiten_server.core.speech import (
    Misuse,
    PolitenessLevel,
    Register,
    agreed_register,
    established_level,
    own_utterances,
)
from saiten_server.text.japanese import JapaneseRegister
from saiten_server.text.korean import read_korean, read_korean_level, read_korean_misuse
from saiten_server.text.recent import RecentResults, digest_of
from saiten_server.text.scripts import LanguageReading, name_language, read_scripts

MOST_OWN_UTTERANCES = 8  # Latest own utterances that the response is compared with
WHOLLY = 0.95  # Share of a language from which on it says nothing more


class SpeechChecks:
    """Checks dialogues by their scripts, a tagger (Japanese) and the spelling of endings (Korean). The tagger is loaded
    at the first use. Thread-safe. The same dialogues recur, for example when a test set is scored with every build, so
    results are cached by digest, without the text."""

    def __init__(self) -> None:
        self._japanese = JapaneseRegister()
        self._registers = RecentResults[Register]()
        self._levels = RecentResults[PolitenessLevel]()
        self._found = RecentResults[tuple[Warned, ...]]()

    def check(self, dialogue: Dialogue, language: str) -> tuple[Warned, ...]:
        """The warnings `language-mismatch`, or else `register-shift`, `register-mixed` or `register-mix` (합쇼체 with
        해요체), and `honorific-misuse`. Languages other than ja, ko and en have none."""
        if language not in {"ja", "ko", "en"}:
            return ()
        context = (text for said in dialogue.context for text in (said.speaker, said.text))
        key = digest_of([language, dialogue.response, *context])
        return self._found.recall(key, lambda: self._check(dialogue, language))

    def _check(self, dialogue: Dialogue, language: str) -> tuple[Warned, ...]:
        reading = read_scripts(dialogue.response)
        if reading.language not in {language, "none"}:
            return (warn_of_language(reading, language),)
        misuse = read_misuse(dialogue.response, language, self._japanese)
        misused = (warn("honorific-misuse", Message(misuse.value)),) if misuse else ()
        return (*self._check_register(dialogue, language), *misused)

    def _check_register(self, dialogue: Dialogue, language: str) -> tuple[Warned, ...]:
        if language == "en" or not (earlier := own_utterances(dialogue, MOST_OWN_UTTERANCES)):
            return ()
        now = read_register(dialogue.response, language, self._japanese)
        if now is Register.NONE:
            return ()
        before = agreed_register(
            self._registers.recall(digest_of([language, text]), partial(read_register, text, language, self._japanese))
            for text in earlier
        )
        if before not in {Register.NONE, now}:
            return (warn_of_register(before, now),)
        if language == "ko" and before is Register.POLITE:
            return self._check_level(dialogue.response, earlier)
        return ()

    def _check_level(self, response: str, earlier: Sequence[str]) -> tuple[Warned, ...]:
        """A warning for a polite Korean response that leaves the level of earlier utterances, wholly or in part."""
        now = read_korean_level(response)
        if now is PolitenessLevel.NONE:
            return ()
        before = established_level(
            self._levels.recall(digest_of([text]), partial(read_korean_level, text)) for text in earlier
        )
        if before in {PolitenessLevel.NONE, now}:
            return ()
        found = "levels-mixed" if now is PolitenessLevel.MIXED else now.name.lower()
        return (warn("register-mix", Message(f"response-{found}-after-{before.name.lower()}")),)


def read_register(text: str, language: str, japanese: JapaneseRegister) -> Register:
    """The register of one utterance; `language` is ja or ko."""
    return japanese.read(text) if language == "ja" else read_korean(text)


def read_misuse(text: str, language: str, japanese: JapaneseRegister) -> Misuse | None:
    """The first clear misuse of an honorific or humble verb; None in languages other than ja and ko."""
    if language == "ko":
        return read_korean_misuse(text)
    return japanese.find_misuse(text) if language == "ja" else None


def warn(code: str, detail: Message) -> Warned:
    """A warning about the response."""
    return Warned(code=code, where="response", **in_english(detail))


def warn_of_language(reading: LanguageReading, language: str) -> Warned:
    """Names the language that was found, and its share where others are mixed in; never the text."""
    found = name_language(reading.language)
    expected = Message("language-english") if language == "en" else name_language(language)
    detail = Message("response-in-other-language", what=found, other=expected)
    if reading.share < WHOLLY:
        detail = Message("response-mostly-in-other-language", **detail.values, percent=round(100 * reading.share))
    return warn("language-mismatch", detail)


def warn_of_register(before: Register, now: Register) -> Warned:
    """A clear change, or both registers in one response after utterances that keep one."""
    if now is Register.MIXED:
        return warn("register-mixed", Message(f"response-registers-mixed-after-{before.value}"))
    return warn("register-shift", Message(f"response-{now.value}-after-{before.value}"))
