"""The profile of each text, and the features of a response in relation to its dialogue context."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from saiten.core.plain_text import cut_mark_runs

SHINGLE_LENGTH = 4
LETTER_CATEGORIES = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd", "Nl", "No"})
VARIATION_SELECTORS = frozenset(map(chr, range(0xFE00, 0xFE10)))


@dataclass(frozen=True, slots=True)
class Profile:
    """One text as the features see it. Shares are in [0, 1].

    `letters` is the text without white space and punctuation, in lower case: equal letters are a verbatim repetition.
    `wanted` holds the kinds of answer that its question asks for, `offered` the kinds of answer that it could give
    (place, time, person, number, reason, thing, manner); `wanted` may also hold `choice`, which a word of the question
    answers. `polite` is None where the text shows neither register. `feelings` holds `glad` and `sad`, whichever the
    text shows."""

    letters: str
    bigrams: frozenset[str]
    tokens: int
    content: tuple[str, ...]
    names: frozenset[str] = frozenset()
    predicates: frozenset[str] = frozenset()
    asks: bool = False
    wanted: frozenset[str] = frozenset()
    offered: frozenset[str] = frozenset()
    affirms: bool = False
    negated: bool = False
    polite: bool | None = None
    greets: bool = False
    generic: bool = False
    agrees: bool = False
    broken: bool = False
    oddities: int = 0
    unknown_share: float = 0.0
    foreign_share: float = 0.0
    redundancy: float = 0.0
    feelings: frozenset[str] = frozenset()
    consoles: bool = False
    describes_itself: bool = False

    @property
    def words(self) -> frozenset[str]:
        """The distinct content words."""
        return frozenset(self.content)


class TextReader(Protocol):
    """Reads texts of one language. Deterministic; not necessarily safe to share between threads."""

    @property
    def dictionary(self) -> str: ...

    def read(self, text: str) -> Profile: ...


def make_profile(letters: str, native: re.Pattern[str], **fields: Any) -> Profile:
    """A profile with what follows from the letters; `native` matches a letter of the language's own scripts."""
    # Digits are of no script.
    spoken = [c for c in letters if not c.isnumeric()]
    return Profile(
        letters=letters,
        bigrams=bigrams_of(letters),
        foreign_share=sum(1 for c in spoken if not native.match(c)) / len(spoken) if spoken else 0.0,
        **{"redundancy": redundancy_of(letters), **fields},
    )


def normalise(text: str, form: str = "NFKC") -> str:
    """The text in Unicode normal form `form` (NFC or NFKC), each run of white space one space, format marks gone."""
    normal = unicodedata.normalize("NFC" if form == "NFC" else "NFKC", cut_mark_runs(text))
    visible = "".join(c for c in normal if unicodedata.category(c) != "Cf")
    return " ".join(visible.split())


def letters_of(text: str) -> str:
    """Letters with their combining marks and digits only, in lower case; of an emoji nothing is left."""
    kept = (c for c in text.casefold() if unicodedata.category(c) in LETTER_CATEGORIES and c not in VARIATION_SELECTORS)
    return "".join(kept)


def bigrams_of(letters: str) -> frozenset[str]:
    """Pairs of neighbouring characters; the text itself where it has one character, none where it is empty."""
    if len(letters) == 1:
        return frozenset(letters)
    return frozenset(letters[i : i + 2] for i in range(len(letters) - 1))


def redundancy_of(letters: str) -> float:
    """1 − distinct / all runs of four characters: 0 without repeats, towards 1 for a looping text."""
    total = len(letters) - SHINGLE_LENGTH + 1
    if total <= 0:
        return 0.0
    return 1 - len({letters[i : i + SHINGLE_LENGTH] for i in range(total)}) / total


def jaccard(left: Collection[str], right: Collection[str]) -> float:
    """|A ∩ B| / |A ∪ B|, and 0 where both are empty."""
    a, b = set(left), set(right)
    return len(a & b) / len(a | b) if a | b else 0.0


def kinds_in(text: str, patterns: dict[str, re.Pattern[str]]) -> frozenset[str]:
    """The names of the patterns that occur in `text`."""
    return frozenset(kind for kind, pattern in patterns.items() if pattern.search(text))


DECAY = 0.7  # How much an utterance's words count with each step back: a topic five utterances old counts 0.17
NEAR_REPEAT = 0.5
OWN_UTTERANCES = 4
LEFT_TOPIC = 0.2
MOST_COUNTED = 20
LONG_TOKENS = 20
VERBATIM_LETTERS = 4

Features = dict[str, float]  # Feature name → value; every value lies in [0, 4], most in [0, 1], whatever the texts


@dataclass(frozen=True, slots=True)
class DialogueProfiles:
    """A dialogue as profiles, oldest first. `own` are the utterances of the system:
    the last speaker is the partner, every other speaker counts as the system."""

    context: Sequence[Profile]
    own: Sequence[Profile]
    response: Profile

    @property
    def last(self) -> Profile:
        return self.context[-1]


def measure_features(exchange: DialogueProfiles) -> Features:
    """All features of one response."""
    return {
        **overlap_features(exchange),
        **novelty_features(exchange),
        **answer_features(exchange),
        **repetition_features(exchange),
        **form_features(exchange),
        **empathy_features(exchange),
    }


def overlap_features(exchange: DialogueProfiles) -> Features:
    """How much of what was said is taken up. Overlap is |A ∩ B| / min(|A|, |B|) over distinct content words."""
    response, last = exchange.response, exchange.last
    own_recent = list(exchange.own)[-OWN_UTTERANCES:]
    own_words = set[str]().union(*(profile.words for profile in exchange.own))
    kept = len(response.words & own_words - last.words) / max(1, len(response.words))
    returning = sum(1 for profile in own_recent if response.words & profile.words) / OWN_UTTERANCES
    shares_last = bool(response.words & last.words)
    return {
        "shares_last": overlap(response.words, last.words),
        "shares_characters": len(response.bigrams & last.bigrams) / max(1, len(response.bigrams)),
        "shares_context": shared_with_context(exchange),
        "shares_nothing": float(bool(response.words) and bool(last.words) and not shares_last),
        "ignores_for_own_topic": 0.0 if shares_last else returning,
        # A short response made of the system's own earlier words dwells; a long one develops.
        "dwells": kept * (1 - fullness(response)),
    }


def novelty_features(exchange: DialogueProfiles) -> Features:
    """Words and names that were not said before."""
    said = set[str]().union(*(profile.words for profile in exchange.context))
    named = set[str]().union(*(profile.names for profile in exchange.context))
    response = exchange.response
    names = log_count(len(response.names - named - said))
    left = shared_with_context(exchange) < LEFT_TOPIC
    return {
        "content_words": log_count(len(response.words)),
        "new_words": log_count(len(response.words - said)),
        "strange_names": names * (1 - overlap(response.words, exchange.last.words)),
        "leaves_topic": fullness(response) if left else 0.0,
    }


def answer_features(exchange: DialogueProfiles) -> Features:
    """Whether a question is left open, and whether a statement is taken in."""
    response, last = exchange.response, exchange.last
    shares = bool(response.words & last.words)
    # Which of the two is answered by naming one of them.
    fits = bool(last.wanted & response.offered) or ("choice" in last.wanted and shares)
    yes_no = last.asks and not last.wanted
    agrees = response.affirms or bool(response.predicates & last.predicates)
    return {
        "answers": float(last.asks and not response.asks and (fits or (yes_no and agrees))),
        "unanswered": float(last.asks and not shares and not fits and not response.affirms),
        "unanswered_kind": float(bool(last.wanted) and not fits),
        "unanswered_yes_no": float(yes_no and not agrees and not shares),
        "question_for_question": float(last.asks and response.asks),
        "invites": float(response.asks and not last.asks),
        "acknowledges": float(not response.words and not last.asks and not response.asks and bool(response.letters)),
        # そうですね agrees; あの町の川は長いですね merely ends alike.
        "agrees_briefly": float(response.agrees and not last.asks) * (1 - fullness(response)),
    }


def repetition_features(exchange: DialogueProfiles) -> Features:
    """What was said before, by the system or by its partner. Greetings and very short texts may be said twice."""
    response = exchange.response
    nearest = max((jaccard(response.bigrams, profile.bigrams) for profile in exchange.own), default=0.0)
    counts = len(response.letters) >= VERBATIM_LETTERS and not response.greets
    echo = jaccard(response.bigrams, exchange.last.bigrams)
    return {
        "repeats_itself": max(0.0, nearest - NEAR_REPEAT) / (1 - NEAR_REPEAT),
        "repeats_verbatim": float(counts and any(response.letters == own.letters for own in exchange.own)),
        "echoes": max(0.0, echo - NEAR_REPEAT) / (1 - NEAR_REPEAT),
        "echoes_verbatim": float(counts and response.letters == exchange.last.letters),
        "reverses": float(any(reverses(response, own) for own in exchange.own)),
    }


def form_features(exchange: DialogueProfiles) -> Features:
    """The text for itself, and its register against the system's own earlier utterances."""
    response = exchange.response
    registers = [profile.polite for profile in exchange.own if profile.polite is not None]
    usual = sum(registers) * 2 >= len(registers) if registers else response.polite
    return {
        "wordless": float(not response.letters),
        "generic": float(response.generic),
        "broken": float(response.broken),
        "oddities": min(response.oddities, 2) / 2,
        "unknown": response.unknown_share,
        "foreign": response.foreign_share,
        "redundant": response.redundancy,
        "long": min(1.0, max(0.0, math.log((1 + response.tokens) / (1 + LONG_TOKENS)) / math.log(10))),
        "switches_politeness": float(response.polite is not None and usual is not None and response.polite != usual),
        "describes_itself": float(response.describes_itself),
    }


def empathy_features(exchange: DialogueProfiles) -> Features:
    """Whether the feeling that the context shows is met. Comfort by formula alone does not meet it."""
    shown = frozenset[str]().union(*(profile.feelings for profile in exchange.context))
    met = shown & exchange.response.feelings
    missed = exchange.response.feelings and shown and not met
    return {
        "meets_feeling": float(bool(met)),
        "misses_feeling": float(bool(missed)),
        "stock_comfort": float(exchange.response.consoles),
    }


def overlap(left: frozenset[str], right: frozenset[str]) -> float:
    """|A ∩ B| / min(|A|, |B|), and 0 where either is empty."""
    return len(left & right) / min(len(left), len(right)) if left and right else 0.0


def shared_with_context(exchange: DialogueProfiles) -> float:
    """The largest overlap with any utterance of the context, each step back counting 0.7 times as much."""
    ages = enumerate(reversed(exchange.context))
    return max(DECAY**age * overlap(exchange.response.words, profile.words) for age, profile in ages)


def fullness(profile: Profile) -> float:
    """How many distinct content words, from 0 (none) to 1 (20 or more), on a logarithmic scale."""
    return log_count(len(profile.words)) / log_count(MOST_COUNTED)


def log_count(count: int) -> float:
    """ln(1 + count), the count capped at 20: from 0 to 3.04."""
    return math.log1p(min(count, MOST_COUNTED))


def reverses(response: Profile, own: Profile) -> bool:
    """Says what the system said before with the negation turned round: most words shared, one of the two negated."""
    enough = len(response.words & own.words) >= 2 and overlap(response.words, own.words) >= NEAR_REPEAT
    return enough and response.negated != own.negated and not response.asks and not own.asks
