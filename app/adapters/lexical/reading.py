"""From a dialogue to its features, by the reader of its language."""

from __future__ import annotations

from app.adapters.lexical.features import Exchange, Features, describe
from app.adapters.lexical.profile import Reader
from app.domain.dialogue import Dialogue

MOST_UTTERANCES = 40
MOST_CHARACTERS = 2000


def read_dialogue(dialogue: Dialogue, reader: Reader) -> Features:
    """The features of the response. Of the context the latest 40 utterances count, of each the first 2,000 code points:
    a bound on time that real dialogues do not reach. The response is read whole."""
    recent = dialogue.context[-MOST_UTTERANCES:]
    context = [reader.read(utterance.text[:MOST_CHARACTERS]) for utterance in recent]
    partner = recent[-1].speaker
    own = [profile for profile, utterance in zip(context, recent, strict=True) if utterance.speaker != partner]
    return describe(Exchange(context, own, reader.read(dialogue.response)))
