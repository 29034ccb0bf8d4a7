"""Faults of a conversation's system turns that code can see for certain, beside the judge.

Change of politeness, 합쇼체 mixed with 해요체, another language, a turn said again, and contradictions of structured
facts. One pass over the turns, in which nothing depends on a later turn. What each rule can and
cannot see is in docs/conversation-rules.md.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import add
from typing import Any

from saiten.core.messages import Message
from saiten.core.plain_text import cut_mark_runs
from saiten_server.core.conversation import Conversation, Finding
from saiten_server.core.speech import PolitenessLevel, Register, Sign, combine_signs
from saiten_server.text.fact_patterns import Exemptions, quote, words_for
from saiten_server.text.facts import FactBook, fault
from saiten_server.text.japanese import JapaneseRegister
from saiten_server.text.korean import read_korean_level, read_sentence
from saiten_server.text.passages import SENTENCE_END, Sentence, as_seen, open_passage, split_sentences
from saiten_server.text.scripts import HAN, HANGUL, KANA, LATIN_WORD, name_language, read_scripts

SAME = 0.85  # Dice coefficient of letter pairs from which on a turn repeats another
FEWEST_LETTERS = {"ja": 14, "ko": 11}  # Shorter turns may be said again
LONGEST_TURN = 800  # Code points of a turn that are read: 400 turns end within about a second
MOST_LETTERS = 600  # Letters of a turn that are compared
FEWEST_LATIN_WORDS = {True: 3, False: 5}  # Of a whole turn, of a sentence within one
FEWEST_FOREIGN_LETTERS = 6
FEWEST_REGISTER_LETTERS = 5  # ぱんだ！ in a game of words is no plain speech
RECENT_TURNS = 3  # The user's latest turns in which a language or a text to write may be asked for
CODE = re.compile(r"[{}<>=;\\|$]|\w\(|::|--\w|^\s*[$#>]")
LEFT_OPEN = re.compile(r"(?:て|で|ね|よ|な)$|^う?うん")
SAID_TO_ONESELF = re.compile("(?:[이겠있없았었했렸]|왔|갔|났|졌)다$")  # 적이다!, among polite sentences
WEAK_KOREAN = re.compile(r"^(?:응|어|그래|야)(?![가-힣])")
FACT_VALUES = re.compile(
    r"[0-9]+|[一二三四五六七八九十百千万]+|[月火水木金土日]曜|今日|明日|昨日|午前|午後|[월화수목금토일]요일|오전|오후|오늘|내일|모레"
    r"|첫|[두세네]\s?번째|[한두세네]\s(?=[가-힣])"
)


@cache
def japanese_register() -> JapaneseRegister:
    """The reader of Japanese that all conversations share, because its tagger takes memory. Thread-safe."""
    return JapaneseRegister()


def find_faults(conversation: Conversation, language: str | None = None) -> tuple[Finding, ...]:
    """The faults of the system's turns, in the order of turns, each with the code of a rule. `language` is ja or ko;
    None takes it from the conversation; any other has no rules. The same for any names of the speakers, and cutting
    later turns leaves the findings of earlier ones. Thread-safe. The first `LONGEST_TURN` code points of each turn are
    read."""
    language = language or language_spoken(conversation)
    if language not in FEWEST_LETTERS:
        return ()
    return tuple(FaultSearch(language, conversation).findings())


def language_spoken(conversation: Conversation) -> str | None:
    """The language of most of the first three turns that are in Japanese or Korean; of two, the system's."""
    found: list[tuple[str, str]] = []
    for turn in conversation.turns:
        language = read_scripts(as_seen(turn.text)).language
        if language in FEWEST_LETTERS:
            found.append((language, turn.role))
        if len(found) == 3:
            break
    votes = [language for language, _ in found]
    own = [language for language, role in found if role == "system"]
    return max(own or votes, key=votes.count) if votes else None


@dataclass
class Habit:
    """What a speaker keeps to. A departure is told once: where it lasts, it is the new habit."""

    fewest: int
    usual: Register | PolitenessLevel | None = None
    kept: int = 0
    turn: int = 0
    left: Register | PolitenessLevel | None = None

    def take(self, value: Register | PolitenessLevel, turn: int) -> int | None:
        """The latest turn that `value`, said in `turn`, departs from; None where it keeps the habit or makes one."""
        if self.usual is None or (value != self.usual and self.kept < self.fewest):
            self.fewest += 0 if self.usual is None else 2  # somebody who wavers from the beginning
            self.usual, self.kept, self.turn = value, 1, turn
        elif value in {self.usual, self.left}:
            self.usual, self.kept, self.turn, self.left = value, self.kept + 1, turn, None
        else:
            self.left = value
            return self.turn
        return None


@dataclass
class Habits:
    """A speaker's register and, in Korean, level."""

    register: Habit = field(default_factory=lambda: Habit(fewest=1))
    level: Habit = field(default_factory=lambda: Habit(fewest=2))


@dataclass(frozen=True)
class SystemTurn:
    """A system turn as letters, without formulas, for comparison with later ones."""

    turn: int
    letters: str
    pairs: frozenset[str]
    values: tuple[str, ...]


class FaultSearch:
    """One pass over a conversation."""

    def __init__(self, language: str, conversation: Conversation) -> None:
        self.language = language
        self.turns = conversation.turns
        self.words: Exemptions = words_for(language)
        self.habits: dict[str, Habits] = {}
        self.said: dict[str, list[SystemTurn]] = {}
        self.asked: list[str] = []  # The user's turns
        self.pending: list[str] = []  # Those since the last system turn
        self.written: set[str] = set()  # Languages that the user writes or asked for
        self.foreign_is_right = self.speaks_of_languages(conversation)
        self.facts = FactBook(language, conversation.persona, japanese_register().split)

    def speaks_of_languages(self, conversation: Conversation) -> bool:
        """Whether the persona or the goal is about languages or code."""
        persona: Mapping[str, object] = conversation.persona or {}
        about = " ".join([conversation.goal or "", *(str(value) for value in persona.values())])
        return bool(self.words.about_language.search(about))

    def findings(self) -> Iterator[Finding]:
        """The findings of all turns."""
        for number, turn in enumerate(self.turns):
            text = cut_mark_runs(open_passage(as_seen(turn.text), LONGEST_TURN))
            if turn.role == "user":
                self.hear(text)
                continue
            foreign = self.check_language(number, text)
            if foreign is not None:
                yield foreign
            else:
                yield from self.check_register(number, turn.speaker, text)
            yield from self.check_repetition(number, turn.speaker, text)
            yield from self.facts.check(number, text)
            self.pending = []

    def hear(self, text: str) -> None:
        """Takes in a turn of the user."""
        self.asked.append(text)
        self.pending.append(text)
        if (language := read_scripts(text).language) != self.language:
            self.written.add(language)
        if self.words.about_register.search(text):
            self.habits.clear()
        self.facts.hear(text)

    # Language

    def check_language(self, number: int, text: str) -> Finding | None:
        """A turn or a sentence of it in a language that the user did not ask for."""
        found = self.find_foreign(text)
        if found is None:
            if len(LATIN_WORD.findall(text)) >= FEWEST_LATIN_WORDS[True] and self.is_about_languages(text):
                self.written.add("en")  # a lesson, of which a later turn may be a whole sentence
            return None
        language, span = found
        if self.foreign_is_right or language in self.written or self.is_about_languages(text):
            self.written.add(language)
            return None
        names = {"what": name_language(language), "other": name_language(self.language)}
        detail = Message("turn-in-other-language", said=quote(span), **names)
        return fault(number, "coherence", "wrong-language", detail)

    def is_about_languages(self, text: str) -> bool:
        """Whether the turn or one of the user's latest is about a language or code."""
        return bool(self.words.about_language.search(" ".join([*self.asked[-RECENT_TURNS:], text])))

    def find_foreign(self, text: str) -> tuple[str, str] | None:
        """The language and the passage of a turn that is wholly in another language, or has a sentence that is."""
        language = read_scripts(text).language
        if language not in {self.language, "none"} and self.is_passage(text, language, whole=True):
            return language, text
        for sentence in split_sentences(text, " "):
            language = read_scripts(sentence.text).language
            if language not in {self.language, "none"} and self.is_passage(sentence.text, language, whole=False):
                return language, sentence.text
        return None

    def is_passage(self, text: str, language: str, *, whole: bool) -> bool:
        """Whether the text is long enough to be meant: no name, no code, no single word."""
        if language == "en":
            own = KANA.search(text) or HAN.search(text) if self.language == "ja" else HANGUL.search(text)
            return not own and len(LATIN_WORD.findall(text)) >= FEWEST_LATIN_WORDS[whole] and not CODE.search(text)
        return sum(map(str.isalpha, text)) >= FEWEST_FOREIGN_LETTERS

    # Politeness

    def check_register(self, number: int, speaker: str, whole: str) -> Iterator[Finding]:
        """A departure from the register, or from the level, that the speaker keeps."""
        habits = self.habits.setdefault(speaker, Habits())
        if self.words.about_register.search(whole):
            self.habits.pop(speaker)
            return
        own = self.without_formulas(whole)
        text = join_sentences(own)
        if sum(map(str.isalpha, text)) < FEWEST_REGISTER_LETTERS or self.words.composition.search(
            " ".join(self.asked[-1:])
        ):
            return
        register, span = self.read_register(own, habits.register.usual)
        if register is not Register.NONE:
            before = habits.register.take(register, number)
            if before is not None:
                name = "turn-plain-after-polite" if register is Register.PLAIN else "turn-polite-after-plain"
                detail = Message(name, said=quote(span), **self.name_turn(before))
                yield fault(number, "politeness", "register-shift", detail)
                return
        if self.language == "ko" and register is Register.POLITE:
            yield from self.check_level(number, text, habits.level)

    def check_level(self, number: int, text: str, habit: Habit) -> Iterator[Finding]:
        """A departure from 합쇼체 or 해요체."""
        level = read_korean_level(text)
        if level is PolitenessLevel.NONE:
            # -세요 and -네요 fit both levels, but somebody of 합쇼체 says other things in between.
            habit.kept += habit.usual is PolitenessLevel.INFORMAL
            return
        departs = other_level(habit.usual) if level is PolitenessLevel.MIXED else level
        before, usual = habit.take(departs, number), habit.usual
        if before is not None and usual is not None:
            name = f"turn-{level.name.lower()}-after-{usual.name.lower()}"
            detail = Message(name, said=quote(text), **self.name_turn(before))
            yield fault(number, "politeness", "register-mix", detail)

    def read_register(self, own: list[Sentence], usual: object) -> tuple[Register, str]:
        """The register of a turn's own sentences and the one that shows it. Both registers in a turn are decided by the
        last sentence, and weak signs alone tell only where they address somebody: すごい！ is no departure."""
        sentences = [(sentence.text, frozenset(self.read_signs(sentence))) for sentence in own]
        signs = frozenset(sign for _, found in sentences for sign in found)
        register = combine_signs(signs)
        if register is Register.MIXED:
            last = next(
                (
                    found
                    for found in reversed(sentences)
                    if found[1] & {Sign.POLITE, Sign.PLAIN} and not SAID_TO_ONESELF.search(found[0])
                ),
                None,
            )
            register = combine_signs(last[1]) if last else Register.NONE
            if register is Register.MIXED or (register is Register.POLITE and usual is Register.PLAIN):
                return Register.NONE, ""
        if register is Register.PLAIN and Sign.PLAIN not in signs and not self.addresses(sentences):
            return Register.NONE, ""
        if register is Register.POLITE and Sign.POLITE not in signs:
            return Register.NONE, ""
        shown = {Register.POLITE: {Sign.POLITE}, Register.PLAIN: {Sign.PLAIN, Sign.WEAKLY_PLAIN}}.get(register, set())
        spans = [sentence for sentence, found in sentences if found & shown]
        return register, spans[-1] if spans else ""

    def addresses(self, sentences: list[tuple[str, frozenset[Sign]]]) -> bool:
        """Whether a sentence that is weakly plain is said to somebody: 過ごしてきて, うん."""
        pattern = LEFT_OPEN if self.language == "ja" else WEAK_KOREAN
        return any(pattern.search(text) and len(text) > 2 for text, found in sentences if Sign.WEAKLY_PLAIN in found)

    def read_signs(self, sentence: Sentence) -> Iterable[Sign]:
        """The signs of one sentence."""
        if self.language == "ko":
            return read_sentence(sentence.text)
        own = unicodedata.normalize("NFKC", sentence.text)
        return japanese_register().read_sentence(Sentence(own, sentence.trails_off, sentence.asks))

    def without_formulas(self, text: str) -> list[Sentence]:
        """The turn's own sentences but greetings, thanks and the like, which any register says."""
        return [sentence for sentence in own_sentences(text) if not self.words.is_formula(sentence.text)]

    # Repetition

    def check_repetition(self, number: int, speaker: str, text: str) -> Iterator[Finding]:
        """A turn that says again what the same speaker said in an earlier turn, unless the user asked for it."""
        said = self.read_said(number, text)
        if said is None:
            return
        earlier = self.said.setdefault(speaker, [])
        same = next((other for other in reversed(earlier) if is_same(said, other)), None)
        earlier.append(said)
        if same is None or self.asks_again():
            return
        detail = Message("turn-repeats-turn", said=quote(text), **self.name_turn(same.turn))
        yield fault(number, "coherence", "repetition", detail)

    def read_said(self, number: int, text: str) -> SystemTurn | None:
        """The turn's letters; None if they are too few to tell."""
        parts = SENTENCE_END.split(unicodedata.normalize("NFKC", text))[::2]
        own = " ".join(part for part in parts if not self.words.is_formula(part))
        letters = "".join(filter(str.isalnum, own))
        if len(letters) < FEWEST_LETTERS[self.language]:
            return None
        compared = letters[:MOST_LETTERS]
        return SystemTurn(
            number,
            letters,
            frozenset(map(add, compared, compared[1:])),
            tuple(FACT_VALUES.findall(own)),
        )

    def name_turn(self, number: int) -> dict[str, Any]:
        """The values of a message that name an earlier turn."""
        return {"number": number, "quoted": quote(self.turns[number].text)}

    def asks_again(self) -> bool:
        """Whether the user asked to hear it again, or asked the same again."""
        latest = " ".join([*self.asked[-2:], *self.pending])
        if self.words.ask_again.search(latest):
            return True
        letters = {"".join(filter(str.isalnum, text)) for text in self.pending}
        before = {"".join(filter(str.isalnum, text)) for text in self.asked[: -len(self.pending) or None]}
        return any(len(text) > 3 for text in letters & before)


def other_level(usual: object) -> PolitenessLevel:
    """The level that a speaker of the level `usual` does not keep to."""
    return PolitenessLevel.INFORMAL if usual is PolitenessLevel.FORMAL else PolitenessLevel.FORMAL


def join_sentences(sentences: Iterable[Sentence]) -> str:
    """A text of these sentences."""
    return "".join(s.text + ("？" if s.asks else "……" if s.trails_off else "。") for s in sentences)


def own_sentences(text: str) -> Sequence[Sentence]:
    """The sentences that the speaker says in their own voice."""
    return split_sentences(unicodedata.normalize("NFC", text), "物")


def is_same(said: SystemTurn, other: SystemTurn) -> bool:
    """Whether two turns say the same in nearly the same letters. A number, a day or a time that differs tells them
    apart, for a template that is filled in again is no repetition."""
    if said.letters == other.letters:
        return True
    shorter, longer = sorted([len(said.letters), len(other.letters)])
    if said.values != other.values or shorter < SAME / (2 - SAME) * longer:
        return False
    return 2 * len(said.pairs & other.pairs) >= SAME * (len(said.pairs) + len(other.pairs))
