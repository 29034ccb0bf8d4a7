"""The register and politeness of utterances, compared with a speaker's earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from saiten_server.core.dialogue import Dialogue

FEWEST_UTTERANCES = 2
"""Earlier utterances that must share one level before a departure counts: polite Korean often mixes the two."""


class Register(Enum):
    """Speech register; `NONE` if undetermined: a noun, an interjection, another language."""

    POLITE = "polite"
    PLAIN = "plain"
    MIXED = "mixed"
    NONE = "none"


class PolitenessLevel(Enum):
    """Level of polite Korean; `NONE` if undetermined, or if the wording fits both levels."""

    FORMAL = "합쇼체"
    INFORMAL = "해요체"
    MIXED = "mixed"
    NONE = "none"


class Misuse(Enum):
    """A clear misuse of an honorific or humble verb, by the id of its message."""

    OWN = "honorific-for-speaker"
    OTHER = "humble-for-addressee"


class Sign(Enum):
    """The register that the end of a sentence indicates. A weak sign counts only without a strong one. An exclamation
    (すごい, 그렇구나) within polite speech is addressed to oneself, and はい or 응 fits any register."""

    POLITE = "polite"
    PLAIN = "plain"
    WEAKLY_POLITE = "weakly polite"
    WEAKLY_PLAIN = "weakly plain"

    __hash__ = object.__hash__  # Enum's is in Python, and sets of signs are made of each sentence


def combine_signs(signs: Iterable[Sign]) -> Register:
    """The register of an utterance, from the signs of its sentences. Weak signs that disagree give NONE."""
    found = frozenset(signs)
    for polite, plain in ((Sign.POLITE, Sign.PLAIN), (Sign.WEAKLY_POLITE, Sign.WEAKLY_PLAIN)):
        match polite in found, plain in found:
            case True, True:
                return Register.MIXED if polite is Sign.POLITE else Register.NONE
            case True, False:
                return Register.POLITE
            case False, True:
                return Register.PLAIN
    return Register.NONE


def agreed_register(earlier: Iterable[Register]) -> Register:
    """The common register of earlier utterances; NONE if all are undetermined or they disagree."""
    found = frozenset(earlier) - {Register.NONE}
    return next(iter(found)) if found in ({Register.POLITE}, {Register.PLAIN}) else Register.NONE


def established_level(earlier: Iterable[PolitenessLevel]) -> PolitenessLevel:
    """The level that at least `FEWEST_UTTERANCES` earlier utterances share; NONE if there are fewer or one differs."""
    found = [level for level in earlier if level is not PolitenessLevel.NONE]
    established = len(found) >= FEWEST_UTTERANCES and set(found) != {PolitenessLevel.MIXED} and len(set(found)) == 1
    return found[0] if established else PolitenessLevel.NONE


def own_utterances(dialogue: Dialogue, most: int) -> Sequence[str]:
    """The latest utterances, at most `most`, of the speaker of the response: of two speakers the one who did not speak
    last. Empty for one speaker (a diary) and for three or more, since the next speaker is then unknown."""
    speakers = {utterance.speaker for utterance in dialogue.context}
    if len(speakers) != 2:
        return ()
    addressee = dialogue.context[-1].speaker
    return [utterance.text for utterance in dialogue.context if utterance.speaker != addressee][-most:]
