"""What can be suspected of a text, and how each suspicion is put into words."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """The kinds of attack on a judge that are told apart. The values are stable."""

    FORGED_VERDICT = "forged-verdict"
    BOUNDARY_BREAKOUT = "boundary-breakout"
    ROLE_MARKUP = "role-markup"
    INSTRUCTION_TO_JUDGE = "instruction-to-judge"
    SCALE_REDEFINITION = "scale-redefinition"
    SCORE_PACT = "score-pact"
    REFUSAL_DEMAND = "refusal-demand"
    PROMPT_LEAK = "prompt-leak"
    TRANSLATOR_INSTRUCTION = "translator-instruction"
    ENCODED_PAYLOAD = "encoded-payload"
    HIDDEN_TEXT = "hidden-text"
    REVERSED_TEXT = "reversed-text"


DETAILS: dict[Kind, str] = {
    Kind.FORGED_VERDICT: "looks like a verdict of its own: scores laid out the way a judge would write them",
    Kind.BOUNDARY_BREAKOUT: "closes the part of a prompt that would hold it and goes on as if it stood outside",
    Kind.ROLE_MARKUP: "imitates the markup by which a chat model tells system, user and assistant turns apart",
    Kind.INSTRUCTION_TO_JUDGE: "tells whoever scores it which score to give, or to drop the instructions for scoring",
    Kind.SCALE_REDEFINITION: "claims that the rating scale means something else than the rubric says",
    Kind.SCORE_PACT: "agrees in advance on the score that a later utterance is to get",
    Kind.REFUSAL_DEMAND: "tells whoever scores it to give no score",
    Kind.PROMPT_LEAK: "asks for the instructions of the judge to be written out",
    Kind.TRANSLATOR_INSTRUCTION: "tells the translator to put words about a score into the translation",
    Kind.ENCODED_PAYLOAD: "carries an encoded text that is, or is said to be, an instruction",
    Kind.HIDDEN_TEXT: "carries text that a reader would not see, or would see in another order than it is stored",
    Kind.REVERSED_TEXT: "reads backwards as an instruction or verdict",
}


class Finding(NamedTuple):
    """One suspicion. `detail` has at most 200 characters, all of them Saiten's: it never holds any of the text."""

    kind: Kind
    detail: str


def finding(kind: Kind, seen: Sequence[str] = ()) -> Finding:
    """The finding of a kind: its sentence, and what the text speaks of."""
    return Finding(kind, f"{DETAILS[kind]} (seen: {', '.join(seen)})" if seen else DETAILS[kind])
