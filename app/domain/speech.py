"""How a speaker speaks: the register of an utterance, and what a response's register means beside earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from app.domain.dialogue import Dialogue

LEAST_TOLD = 2
"""Earlier utterances that must keep one level before a departure from it counts: polite Korean often mixes the two."""


class Register(Enum):
    """`NONE` where nothing tells: a noun, an interjection, another language."""

    POLITE = "polite"
    PLAIN = "plain"
    MIXED = "mixed"
    NONE = "none"


class PolitenessLevel(Enum):
    """Level of polite Korean; `NONE` where nothing tells, or where what is said goes with both."""

    FORMAL = "합쇼체"
    INFORMAL = "해요체"
    MIXED = "mixed"
    NONE = "none"


class Misuse(Enum):
    """What is clearly wrong with an honorific or humble verb."""

    OWN = "an honorific verb is used for what the speaker does"
    OTHER = "a humble verb is used for what the addressee does"


class Sign(Enum):
    """What the end of one sentence tells. A weak sign counts only where no strong one is about: an exclamation
    (すごい, 그렇구나) within polite speech is said to oneself, and はい or 응 goes with anything."""

    POLITE = "polite"
    PLAIN = "plain"
    WEAKLY_POLITE = "weakly polite"
    WEAKLY_PLAIN = "weakly plain"


def settle(signs: Iterable[Sign]) -> Register:
    """The register of an utterance by the signs of its sentences. Two weak signs that disagree tell nothing."""
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
    """The one register of earlier utterances; NONE where none of them tells, or where they disagree."""
    told = frozenset(earlier) - {Register.NONE}
    if told == {Register.POLITE}:
        return Register.POLITE
    return Register.PLAIN if told == {Register.PLAIN} else Register.NONE


def established_level(earlier: Iterable[PolitenessLevel]) -> PolitenessLevel:
    """The one level that at least `LEAST_TOLD` earlier utterances keep; NONE where fewer tell, or one differs."""
    told = [level for level in earlier if level is not PolitenessLevel.NONE]
    return (
        told[0]
        if len(told) >= LEAST_TOLD and len(set(told)) == 1 and told[0] is not PolitenessLevel.MIXED
        else PolitenessLevel.NONE
    )


def own_utterances(dialogue: Dialogue, most: int) -> Sequence[str]:
    """The latest utterances, `most` at most, of the speaker whose response is looked at: of two speakers the one who
    did not speak last. Empty for one speaker (a diary) and for three or more, where nobody can say whose turn it is."""
    speakers = {said.speaker for said in dialogue.context}
    if len(speakers) != 2:
        return ()
    addressee = dialogue.context[-1].speaker
    return [said.text for said in dialogue.context if said.speaker != addressee][-most:]
