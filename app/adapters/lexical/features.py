"""From profiles to features: how a response stands to its dialogue context. The same for every language."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from app.adapters.lexical.profile import Profile, jaccard

DECAY = 0.7
"""How much an utterance's words count with each step back: a topic five utterances old counts 0.17."""

NEAR_REPEAT = 0.5
OWN_UTTERANCES = 4
LEFT_TOPIC = 0.2
MOST_COUNTED = 20
LONG_TOKENS = 20
VERBATIM_LETTERS = 4

Features = dict[str, float]
"""Feature name → value; every value lies in [0, 4], most in [0, 1], whatever the texts."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A dialogue as profiles, oldest first. `own` are the utterances of the system:
    whoever spoke last is the partner, every other speaker counts as the system."""

    context: Sequence[Profile]
    own: Sequence[Profile]
    response: Profile

    @property
    def last(self) -> Profile:
        return self.context[-1]


def describe(exchange: Exchange) -> Features:
    """All features of one response."""
    return {
        **overlap_features(exchange),
        **novelty_features(exchange),
        **answer_features(exchange),
        **repetition_features(exchange),
        **form_features(exchange),
        **empathy_features(exchange),
    }


def overlap_features(exchange: Exchange) -> Features:
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


def novelty_features(exchange: Exchange) -> Features:
    """Words and names that nobody has said yet."""
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


def answer_features(exchange: Exchange) -> Features:
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


def repetition_features(exchange: Exchange) -> Features:
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


def form_features(exchange: Exchange) -> Features:
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


def empathy_features(exchange: Exchange) -> Features:
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


def shared_with_context(exchange: Exchange) -> float:
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
