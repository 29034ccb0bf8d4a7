"""Structured facts that a system says of itself, and the names and numbers that its user gave.

Facts are read by patterns over one sentence at a time, with the word lists of conversation_words.json. A fact counts
only where the system speaks of itself in the present; precision comes first.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from saiten.core.messages import Message
from saiten_server.core.conversation import KIND_OF_RULE, Finding, PersonaValue
from saiten_server.core.sentences import in_english
from saiten_server.text.fact_patterns import (
    ASKED_FAMILY,
    ECHO,
    NEGATED,
    NO_TOPIC,
    OPENS,
    PART_TIME,
    STILL,
    TOGETHER,
    TOPIC,
    UNIT_NAMES,
    UNITS,
    VISITED,
    Lists,
    is_script,
    lists_for,
    load,
    quote,
    read_written_number,
    words_in,
)
from saiten_server.text.japanese import JapaneseToken
from saiten_server.text.passages import Sentence, as_seen, split_sentences

LONGEST_SENTENCE = 160
LONGEST_MEMORY = 20_000  # Code points of the user's turns, and of all, in which names are looked for
MOST_CLAIMS = 16  # Of one slot that are remembered
YOUNG, GROWN = 12, 16  # An age of at most 12 is not that of somebody of 16: a pet's or a child's is meant


@dataclass(frozen=True)
class Claim:
    """A fact: `value` of the slot, and the words that say so. `turn` is None for the persona's."""

    slot: str
    value: Any
    span: str
    turn: int | None = None


@dataclass(frozen=True)
class SystemSentence:
    """A sentence of the system with what is needed to read it."""

    text: str
    asks: bool
    before: str  # What the user said since the last system turn


def number_in(match: re.Match[str]) -> int | None:
    """The number of a match's first group that is there."""
    return read_written_number(next(filter(None, match.groups()), ""))


OURS = re.compile("うちの|我が家の|우리")
WISHED = re.compile("てみたい|いつか|夢な|たらいいな|たい(?:です|なあ?|と思)|고 ?싶|면 좋겠|언젠가")
SUBJECT = {"ja": re.compile("[がはも]"), "ko": re.compile("(?:께서|이|가|은|는|도)$")}
"""What follows the subject of a sentence in Japanese; what its word ends in, in Korean."""


class FactBook:
    """What the persona, the system and the user have said so far."""

    def __init__(
        self, language: str, persona: Mapping[str, PersonaValue] | None, split: Callable[[str], Sequence[JapaneseToken]]
    ) -> None:
        self.lists = lists_for(language)
        self.language = language
        self.split = split
        self.claims: dict[str, list[Claim]] = {}
        self.persona: dict[str, list[Claim]] = {}
        self.before: list[str] = []  # The user's turns since the last system turn
        self.heard = ""  # All that the user said, bounded
        self.names: dict[str, int] = {}  # Names that the user goes by, with the turn that said so
        self.numbers: dict[str, set[int | str]] = {}  # By unit, everything that was named
        self.given: dict[str, int] = {}  # By unit, the turn in which the user gave a number
        self.all_text = ""
        self.turn = 0
        for claim in self.read_persona(persona or {}):
            self.persona.setdefault(claim.slot, []).append(claim)
        self.persona_text = " ".join(as_seen(str(value)) for value in (persona or {}).values())

    # The persona

    def read_persona(self, persona: Mapping[str, PersonaValue]) -> Iterator[Claim]:
        """Claims of the fields whose keys are known."""
        slots = load()["persona_keys"].items()
        for key, value in sorted(persona.items()):
            text = unicodedata.normalize("NFKC", as_seen(str(value)))[:200]
            for slot in (slot for slot, listed in slots if as_seen(key).strip().lower() in words_in(listed)):
                name = "like" if slot == "dislike" else slot
                yield from (Claim(name, found, f"{key}: {value}") for found in self.read_field(slot, text))
                if slot == "pet" and text.strip().lower() in words_in(load()["no_pet"]):
                    yield Claim("pet", "none", f"{key}: {value}")

    def read_field(self, slot: str, text: str) -> Iterator[Any]:
        """The values that a field's text names."""
        lists = self.lists
        if slot == "name":
            yield text
        elif slot in {"home", "residence"}:
            places = dict.fromkeys(lists.places[found] for found in re.findall(lists.place, text))
            yield from (place for place in places if not any(place < other for other in places))  # 札幌 of 北海道札幌
        elif slot == "age":
            digits = re.search(r"[0-9]{1,3}|[〇一二三四五六七八九十百]+", text)
            if digits and (number := read_written_number(digits[0])):
                yield (number, number)
        elif slot == "job":
            groups = frozenset(group for group, pattern in lists.job_words.items() if pattern.search(text))
            if groups:
                yield groups
        elif slot == "pet":
            found = [
                lists.species[word]
                for word in words_in(", ".join(lists.species))
                if len(word) > 1 or is_script(word, "ja")
                if word in text
            ]
            yield from dict.fromkeys(found)
        elif slot in {"sibling", "spouse"}:
            yield from self.read_family_field(slot, text)
        else:
            yield from ((slot, topic) for topic in re.split(r"[、,・/と ]", text) if len(topic) > 1)

    def read_family_field(self, slot: str, text: str) -> Iterator[bool]:
        """Whether a field's text says that there are siblings, or a husband or wife."""
        lists = self.lists
        none, some = ("only_child", lists.siblings) if slot == "sibling" else ("unmarried", lists.spouse)
        if lists.words[none].search(text):
            yield False
        elif re.search(some, text) or (slot == "spouse" and lists.words["married"].search(text)):
            yield True

    # What the user says

    def hear(self, text: str) -> None:
        """Takes in a turn of the user."""
        text = normal(text)
        self.before.append(text)
        self.heard = (self.heard + " " + ASKED_FAMILY.sub("", text))[-LONGEST_MEMORY:]
        for match in self.lists.patterns["gives_name"].finditer(text):
            name = next(filter(None, match.groups()))
            if not self.is_generic(name):
                self.names[name] = self.turn
        self.note(text, given=True)
        self.turn += 1

    def note(self, text: str, *, given: bool) -> None:
        """Remembers the numbers of a turn."""
        self.all_text = (self.all_text + " " + text)[-LONGEST_MEMORY:]
        for unit in UNITS if UNIT_NAMES.search(text) else ():
            for match in self.lists.patterns[unit].finditer(text):
                value = self.unit_value(unit, match)
                if value is not None:
                    self.numbers.setdefault(unit, set()).add(value)
                    if given:
                        self.given[unit] = self.turn

    def unit_value(self, unit: str, match: re.Match[str]) -> int | str | None:
        """The value of a number or a day of the week; a time on a clock of twelve hours."""
        text: str = next(filter(None, match.groups()))
        if unit in {"weekday", "reference"}:
            return text
        number = read_written_number(text)
        return number % 12 if number is not None and unit == "time" else number

    def is_generic(self, name: str) -> bool:
        """Whether the word is no name: お客, 선생."""
        return any(
            word in name if len(word) > 1 else word == name or (name.startswith(word) and word in "お御ご")
            for word in self.lists.generic_names
        )

    # What the system says

    def check(self, number: int, text: str) -> Iterator[Finding]:
        """The contradictions of a system turn, one at most per code, and takes the turn in."""
        text = normal(text)
        corrects = self.lists.words["corrections"].search(text) is not None
        told: set[str] = set()
        for claim in self.read_claims(number, text):
            against = None if corrects else self.conflict(claim)
            if against is None:
                kept = self.claims.setdefault(claim.slot, [])
                if corrects:
                    kept.clear()
                if len(kept) < MOST_CLAIMS:
                    kept.append(claim)
                continue
            code = "persona-contradiction" if against.turn is None else "self-contradiction"
            if code not in told:
                told.add(code)
                aspect = "persona" if against.turn is None else "consistency"
                detail = Message("turn-contradicts-persona", said=quote(claim.span), quoted=quote(against.span))
                if against.turn is not None:
                    detail = Message("turn-contradicts-turn", **detail.values, number=against.turn)
                yield fault(number, aspect, code, detail)
        if not corrects and "self-contradiction" not in told:
            yield from self.check_given(number, text)
        self.note(text, given=False)
        self.before = []
        self.turn = number + 1

    def conflict(self, claim: Claim) -> Claim | None:
        """The persona's or an earlier claim that this one contradicts."""
        own = [other for other in self.persona.get(claim.slot, []) if clash(self.lists, claim, other)]
        fits = any(not clash(self.lists, claim, other) for other in self.persona.get(claim.slot, []))
        if own and (not fits or claim.slot == "like" or str(claim.value).startswith("no ")):
            return own[0]
        earlier = (
            other for other in self.claims.get(claim.slot, []) if (other.turn, other.span) != (claim.turn, claim.span)
        )
        return next((other for other in earlier if clash(self.lists, claim, other)), None)

    def read_claims(self, number: int, text: str) -> Iterator[Claim]:
        """The facts that a system turn says of the system."""
        before = " ".join(self.before)
        if self.lists.words["fiction"].search(f"{before} {text}"):
            return
        theirs = False
        for sentence in sentences_of(text):
            said = SystemSentence(sentence.text[:LONGEST_SENTENCE], sentence.asks, before)
            # Who was spoken of goes on being the subject until the speaker is named: 弟がいます。大阪に住んでいます。
            continues = theirs and not self.lists.own.search(said.text)
            theirs = continues or (not said.asks and self.is_about_others(said.text))
            if continues or ECHO[self.language].search(said.text):
                continue
            if said.asks:
                if OURS.search(said.text):
                    yield from (Claim(slot, value, said.text, number) for slot, value in self.read_pet(said))
                continue
            if not self.lists.may_claim(said.text):
                continue
            for read in (
                self.read_places,
                self.read_age,
                self.read_job,
                self.read_pet,
                self.read_family,
                self.read_likes,
                self.read_hours,
                self.read_name,
            ):
                yield from (Claim(slot, value, said.text, number) for slot, value in read(said))

    def is_about_others(self, text: str) -> bool:
        """Whether somebody else is the sentence's subject: the last that is named, if so."""
        last = max(self.lists.persons.finditer(text), key=lambda match: match.end(), default=None)
        if last is None or self.lists.own.search(text[last.end() :]):
            return False
        particle = SUBJECT[self.language]
        return (particle.search(last[0]) if self.language == "ko" else particle.match(text, last.end())) is not None

    def of_others(self, text: str, start: int) -> bool:
        """Whether the words before `start` speak of somebody else."""
        found = (
            match for match in self.lists.persons.finditer(text[:start]) if not TOGETHER.match(text[match.end() - 1 :])
        )
        last = max(found, key=lambda match: match.end(), default=None)
        return last is not None and not self.lists.own.search(text[last.end() : start])

    def is_theirs(self, text: str, start: int) -> bool:
        """Whether what begins at `start` is said of somebody or something else, also of a noun that is its topic."""
        topic = TOPIC[self.language].search(text[:start])
        named = topic is not None and not self.lists.own.search(topic[0]) and not NO_TOPIC.search(topic[1])
        return named or self.of_others(text, start)

    def is_unreal(self, text: str, *, past: bool = False) -> bool:
        """Whether the sentence is conditional, a wish, about a role or, with `past`, about former days."""
        words = self.lists.words
        text = STILL.sub("", text)
        return bool(words["unreal"].search(text) or WISHED.search(text) or (past and words["past"].search(text)))

    def read_places(self, said: SystemSentence) -> Iterator[tuple[str, Any]]:
        """Where the system comes from, lives, has been and never was."""
        lists, text = self.lists, said.text
        somewhere = re.search(lists.place, text) is not None
        negated = NEGATED[self.language].search(text)
        for slot in ("home", "residence") if somewhere and not WISHED.search(text) else ():
            for match in lists.patterns[slot].finditer(text):
                place = next(filter(None, match.groups()))
                told = place in said.before and not re.search("[?？か]", said.before) and not lists.own.search(text)
                described = self.lists.persons.search(text[match.end() : match.end() + 8])
                if not negated and not told and not described and not self.is_theirs(text, match.start()):
                    yield slot, lists.places[place]
        denied = lists.patterns["never"].search(text)
        if denied and not self.of_others(text, denied.start()):
            place = next(filter(None, denied.groups()), None)
            yield "visit", ("never", lists.places[place] if place else frozenset())
            return
        if not somewhere:
            yield from self.read_answered_visit(said)
            return
        for match in lists.patterns["been"].finditer(text):
            if not self.of_others(text, match.start()) and not self.is_unreal(text):
                yield "visit", ("been", lists.places[next(filter(None, match.groups()))])

    def read_answered_visit(self, said: SystemSentence) -> Iterator[tuple[str, Any]]:
        """Whether the system has been to the one place that the user asked about."""
        match = VISITED[self.language].search(said.text)
        if match is None or not re.search("[?？か]", said.before) or self.of_others(said.text, match.start()):
            return
        asked = set(re.findall(self.lists.place, said.before))
        if len(asked) == 1:
            yield "visit", ("never" if match[1] else "been", self.lists.places[asked.pop()])

    def read_age(self, said: SystemSentence) -> Iterator[tuple[str, Any]]:
        """How old the system says it is, as the lowest and highest age."""
        text, patterns = said.text, self.lists.patterns
        asked = patterns["asks_age"].search(said.before)
        for slot, width in (("age", 0), ("decade", 9)):
            for match in patterns[slot].finditer(text):
                number = number_in(match)
                topic = re.search(
                    r"([^、。\s]{1,12}?)[はも은는](?=[、\s]|[^、。]{0,12}$)"
                    if self.language == "ja"
                    else r"([가-힣]{1,8})[은는도]\s",
                    text[: match.start()],
                )
                other = topic is not None and not self.lists.own.search(topic[0])
                own = asked or self.lists.own.search(text[: match.start()]) or match.start() <= 4
                if (
                    number
                    and own
                    and not other
                    and not self.of_others(text, match.start())
                    and not self.is_unreal(text, past=True)
                ):
                    yield "age", (number, number + width)

    def read_job(self, said: SystemSentence) -> Iterator[tuple[str, Any]]:
        """What the system works as."""
        text = said.text
        if not self.lists.job.search(text):
            return
        if PART_TIME.search(text) or NEGATED[self.language].search(text) or self.is_unreal(text, past=True):
            return
        for group, pattern in self.lists.jobs.items():
            match = pattern.search(text)
            if match and not self.of_others(text, match.start()):
                yield "job", frozenset({group})

    def read_pet(self, said: SystemSentence) -> Iterator[tuple[str, Any]]:
        """The animal that lives with the system."""
        text, patterns = said.text, self.lists.patterns
        match = patterns["no_pet"].search(text)
        denied = patterns["not_kept"].search(text)
        if not (match or denied or patterns["pet"].search(text)) or self.is_unreal(text, past=True):
            return
        if denied and not self.of_others(text, denied.start()):
            yield "pet", f"no {self.lists.species[denied[1]]}"
        if match:
            if not self.of_others(text, match.start()):
                yield "pet", "none"
            return
        for match in patterns["pet"].finditer(text):
            word = next(filter(None, match.groups()))
            if not self.of_others(text, match.start()):
                yield "pet", self.lists.species[word]

    def read_family(self, said: SystemSentence) -> Iterator[tuple[str, Any]]:
        """Siblings and marriage."""
        text, lists = said.text, self.lists
        if WISHED.search(text):
            return
        for slot, none in (("sibling", "only_child"), ("spouse", "unmarried")):
            if match := lists.words[none].search(text):
                if not self.of_others(text, match.start()) and not NEGATED[self.language].search(text):
                    yield slot, False
                continue
            match = lists.patterns[slot].search(text)
            if match is None or re.search(r"いません|いない|없", text[match.end() : match.end() + 8]):
                continue
            word = re.search(lists.siblings if slot == "sibling" else lists.spouse, match[0])
            theirs = word is not None and word[0] in self.heard
            if not theirs or lists.own.search(text[max(0, match.start() - 8) : match.end()]):
                yield slot, True

    def read_likes(self, said: SystemSentence) -> Iterator[tuple[str, Any]]:
        """What the system likes and dislikes."""
        text, lists = said.text, self.lists
        if not lists.liked.search(text) or self.is_unreal(text, past=True):
            return
        for polarity, listed in (("dislike", lists.dislikes), ("like", lists.likes)):
            for match in re.finditer(listed, text):
                rest = text[match.end() : match.end() + 8]
                if re.match(
                    r"な?(?:人|方|お客|子)(?:は|が|も|に|と|[一-龠])|(?:では|じゃ)あ?り?な?い?|です?か|지\s?않|하지\s?않|세요|시",
                    rest,
                ) or self.of_others(text, match.start()):
                    continue
                topics = self.japanese_topics(text, match) if self.language == "ja" else self.korean_topics(text, match)
                yield from (
                    ("like", (polarity, topic))
                    for topic in topics
                    if (len(topic) > 1 or topic in lists.short) and topic not in lists.generic
                )
            if self.language == "ja":
                text = re.sub(listed, "　", text)

    def japanese_topics(self, text: str, match: re.Match[str]) -> Iterator[str]:
        """The nouns before は, が or も in front of the predicate, and the one that it describes."""
        begin = max(0, match.start() - 40)
        words = self.split(text[begin : match.start()])
        run = ""
        for word in words:
            if word.pos1 in {"名詞", "接頭辞", "接尾辞"} and word.pos3 != "副詞可能":
                run += word.surface
            else:
                if run and word.pos1 == "助詞" and word.surface in {"は", "が", "も", "って", "だけ", "なんて", "なら"}:
                    yield run
                run = ""
        if run:
            yield run  # コーヒー飲めない
        described = re.match(r"な(?:の|もの)?は?", text[match.end() :])
        if described:
            run = ""
            for word in self.split(text[match.end() + described.end() : match.end() + described.end() + 16]):
                if word.pos1 not in {"名詞", "接尾辞", "接頭辞"}:
                    break
                run += word.surface
            if run:
                yield run

    def korean_topics(self, text: str, match: re.Match[str]) -> Iterator[str]:
        """The words with a particle before the predicate, alone and with the word before, and those it describes."""
        words = re.split(r"[\s,]+", text[max(0, match.start() - 30) : match.start()].strip())
        while words and words[-1] in self.lists.generic:
            words.pop()
        if words and not re.search(r"[을를은는이가도만고서게면지니까]$", words[-1]):
            words[-1] += "을"  # 액션 영화 진짜 좋아해
        elif words and words[-1].endswith(("이", "가", "도")):
            yield words[-1]  # 오이 싫어해
        for place, word in enumerate(words):
            noun = re.fullmatch(r"([가-힣A-Za-z]+?)(?:을|를|은|는|이|가|도|만)", word)
            if noun:
                yield noun[1]
                if (
                    place
                    and words[place - 1] not in self.lists.generic
                    and not re.search(r"[은는을를이가도한]$|요$", words[place - 1])
                ):
                    yield words[place - 1] + noun[1]
        if match[0].endswith("하") and text.startswith("는 ", match.end()):
            after = re.split(r"\s", text[match.end() + 2 : match.end() + 22])[:2]
            nouns = [
                re.sub(r"(?:을|를|은|는|도|만|으로|로|이랑|랑|하고|이에요|예요|입니다|인데)$", "", word)
                for word in after
            ]
            yield nouns[0]
            if len(nouns) > 1:
                yield "".join(nouns)

    def read_hours(self, said: SystemSentence) -> Iterator[tuple[str, Any]]:
        """Until when something is open, and what something costs."""
        text, lists = said.text, self.lists
        end = 0
        for match in lists.patterns["until"].finditer(text):
            part, end = text[end : match.start()], match.end()
            half, number = match[3], read_written_number(match[2])
            if number is None or number > 24:
                continue
            named = lists.words["facilities"].findall(part) or self.topics_of_hours(part)
            named = named or lists.words["facilities"].findall(said.before)
            if not named and not lists.words["open"].search(text):
                continue
            late = bool(match[1]) and match[1] in {"午後", "夕方", "夜", "오후", "저녁", "밤", "낮"} and number < 12
            hour = number + (12 if late else 0) + (0.5 if half else 0)
            days = frozenset(lists.words["days"].findall(part))
            yield "until", (named[-1] if named else "", days, hour, bool(match[1]) or number > 12)
        for match in lists.patterns["price"].finditer(text):
            number = read_written_number(match[2].replace(",", ""))
            if number is not None:
                yield "price", (match[1], frozenset(lists.words["qualifiers"].findall(text)), number)

    def topics_of_hours(self, part: str) -> list[str]:
        """The nouns of which an hour is said, without days and words for the speaker."""
        words = self.lists.words
        found = OPENS[self.language].findall(part)
        return [
            noun
            for noun in found
            if not any(words[name].search(noun) for name in ("days", "open")) and not self.lists.own.search(noun)
        ]

    def read_name(self, said: SystemSentence) -> Iterator[tuple[str, Any]]:
        """What the system says that it is called."""
        match = self.lists.patterns["own_name"].search(said.text)
        if match and not self.of_others(said.text, match.start()):
            name = next(filter(None, match.groups()))
            if not self.is_generic(name):
                yield "name", name

    # Names and numbers that the user gave

    def check_given(self, number: int, text: str) -> Iterator[Finding]:
        """A wrong name for the user, or the confirmation of a number that was never said."""
        detail = self.wrong_name(text) or self.wrong_number(text)
        if detail:
            yield fault(number, "memory", "self-contradiction", detail)

    def wrong_name(self, text: str) -> Message | None:
        """What is wrong with how the user is called."""
        for match in self.lists.patterns["calls"].finditer(text):
            name = match[1]
            if self.is_generic(name) or name in self.persona_text:
                continue
            if name in self.heard:
                self.names.setdefault(name, self.turn - 1)
            elif (
                self.names
                and name not in self.all_text
                and not any(other in name or name in other for other in self.names)
            ):
                known, turn = next(iter(self.names.items()))
                return Message("user-named-wrongly", said=quote(match[0]), number=turn, quoted=quote(known))
        return None

    def wrong_number(self, text: str) -> Message | None:
        """What is wrong with a number that is confirmed."""
        for unit in UNITS:
            if unit not in self.given or (unit != "reference" and not self.lists.words["confirm"].search(text)):
                continue
            matches = list(self.lists.patterns[unit].finditer(text))
            values = [self.unit_value(unit, match) for match in matches]
            known = self.numbers[unit]
            for match, value in zip(matches, values, strict=True):
                comparable = unit != "reference" or any(len(str(other)) == len(str(value)) for other in known)
                if (
                    value is not None
                    and value not in known
                    and comparable
                    and not any(other in known for other in values)
                ):
                    return Message("number-never-said", said=quote(match[0]), number=self.given[unit])
        return None


def fault(turn: int, aspect: str, code: str, detail: Message) -> Finding:
    """A finding of a rule."""
    return Finding(turn=turn, aspect=aspect, code=code, by="rule", kind=KIND_OF_RULE[code], **in_english(detail))


def normal(text: str) -> str:
    """A text in one form of its characters: NFKC where that keeps Korean letters."""
    return unicodedata.normalize("NFC" if re.search("[ㄱ-ㅣ]", text) else "NFKC", text)


def sentences_of(text: str) -> Sequence[Sentence]:
    """The system's own sentences; what it would say of itself (私なら「…」) is its own as well."""
    if re.search(r"私なら|저라면", text):
        text = re.sub('[「」『』"“”]', "", text)
    return split_sentences(text, "物")


def clash(lists: Lists, claim: Claim, other: Claim) -> bool:
    """Whether two claims of one slot cannot both hold."""
    return CLASHES[claim.slot](lists, claim.value, other.value, other.turn is None)


def clash_places(lists: Lists, value: frozenset[str], other: frozenset[str], persona: bool) -> bool:
    """Whether two places are apart: neither lies in the other."""
    return not (value <= other or other <= value)


def clash_ages(lists: Lists, value: tuple[int, int], other: tuple[int, int], persona: bool) -> bool:
    """Whether ages are more than a year apart, unless one is a child's or a pet's."""
    if min(value[0], other[0]) <= YOUNG and max(value[0], other[0]) >= GROWN:
        return False
    return value[0] > other[1] + 1 or other[0] > value[1] + 1


def clash_jobs(lists: Lists, value: frozenset[str], other: frozenset[str], persona: bool) -> bool:
    """Whether no group of the one goes with a group of the other."""
    return not value & other and not any(frozenset({a, b}) in lists.compatible for a in value for b in other)


def clash_pets(lists: Lists, value: str, other: str, persona: bool) -> bool:
    """Whether the animals differ; somebody may keep two, unless the persona says otherwise."""
    if value.startswith("no ") or other.startswith("no "):
        return value == f"no {other}" or other == f"no {value}"
    return value != other and (persona or "none" in {value, other})


def clash_values(lists: Lists, value: object, other: object, persona: bool) -> bool:
    """Whether the values differ."""
    return value != other


def clash_names(lists: Lists, value: str, other: str, persona: bool) -> bool:
    """Whether a name is not part of the persona's, where both are written in Han characters or neither."""
    same_script = bool(re.search("[一-龠]", value)) == bool(re.search("[一-龠]", other))
    return persona and same_script and value not in other and other not in value


def clash_likes(lists: Lists, value: tuple[str, str], other: tuple[str, str], persona: bool) -> bool:
    """Whether a topic is liked and disliked."""
    if value[0] == other[0]:
        return False
    if min(len(value[1]), len(other[1])) == 1:
        return value[1] == other[1]
    return value[1] in other[1] or other[1] in value[1]


def clash_visits(lists: Lists, value: tuple[str, Any], other: tuple[str, Any], persona: bool) -> bool:
    """Whether the place that was never visited holds the one that was; no place stands for all abroad."""
    if value[0] == other[0]:
        return False
    never, been = (value[1], other[1]) if value[0] == "never" else (other[1], value[1])
    home = "日本" if lists.language == "ja" else "한국"
    return bool(home not in been) if not never or never == {home} else bool(never <= been)


def clash_hours(lists: Lists, value: Any, other: Any, persona: bool) -> bool:
    """Whether the hour of the same place on the same day differs; or by the clock's face."""
    (key, days, hour, sure), (key2, days2, hour2, sure2) = value, other
    if key != key2 or days != days2:
        return False
    return bool(hour != hour2 if sure and sure2 else hour % 12 != hour2 % 12)


def clash_prices(lists: Lists, value: Any, other: Any, persona: bool) -> bool:
    """Whether the same costs another price."""
    return bool(value[:2] == other[:2] and value[2] != other[2])


CLASHES: Mapping[str, Callable[[Lists, Any, Any, bool], bool]] = {
    "home": clash_places,
    "residence": clash_places,
    "age": clash_ages,
    "job": clash_jobs,
    "pet": clash_pets,
    "sibling": clash_values,
    "spouse": clash_values,
    "like": clash_likes,
    "visit": clash_visits,
    "until": clash_hours,
    "price": clash_prices,
    "name": clash_names,
}
