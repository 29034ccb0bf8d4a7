"""Reads a live conversation as what a judge is given, and by rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from pydantic import ValidationError

from saiten_server.core.batch import BatchConversation
from saiten_server.core.conversation import MOST_TURNS, Conversation, Turn
from saiten_server.core.dialogue import Limits
from saiten_server.core.validation import InvalidDocument, validate
from saiten_server.monitors.sampling import attributes_of
from saiten_server.monitors.traces.values import LiveConversation
from saiten_server.text.faults import find_faults

ROLE_SPEAKERS = {"user": "user", "system": "bot"}
"""What each role is called: a speaker's name may be a person's."""

CUT = "…"


def read_conversation(live: LiveConversation, monitor: str, limits: Limits) -> BatchConversation | None:
    """The conversation as an item of a batch. Texts that are too long are cut, and of more than `MOST_TURNS` turns the
    first ones are left out. None if nothing is left that can be judged, such as where no turn is the system's."""
    turns = [turn for turn in list_turns(live, limits.text_characters) if turn["text"].strip()][-MOST_TURNS:]
    own = {"monitor": monitor, "conversation": live.name}
    # First, for entries may be cut off; and no attribute takes their place.
    metadata = {**own, **attributes_of(live), **own}
    named = {key: "".join(filter(str.isprintable, value)).strip() for key, value in metadata.items()}
    kept = {key: value[: limits.metadata_characters] for key, value in named.items() if value}
    entries = dict([*kept.items()][: max(0, limits.metadata_entries - 1)])  # one more is the probability's
    document = {"id": live.id, "turns": turns, "metadata": entries, "dialogue": live.id}
    try:
        return validate(BatchConversation, document, limits)
    except (InvalidDocument, ValidationError):
        # A text without a visible character, for example.
        return None


def list_turns(live: LiveConversation, longest: int) -> Iterator[dict[str, str]]:
    """The turns as a document; controls that a text may not hold become spaces."""
    for turn in live.turns:
        text = "".join(one if one in "\t\n" or one.isprintable() or ord(one) > 0x9F else " " for one in turn.text)
        shown = text if len(text) <= longest else text[: longest - 1] + CUT
        yield {"speaker": ROLE_SPEAKERS[turn.role], "role": turn.role, "text": shown}


def find_live_faults(live: LiveConversation, language: str | None) -> Counter[str]:
    """How many system turns have a finding of each rule."""
    turns = tuple(
        Turn.model_construct(speaker=ROLE_SPEAKERS[turn.role], role=turn.role, text=turn.text) for turn in live.turns
    )[-MOST_TURNS:]
    if not any(turn.role == "system" for turn in turns):
        return Counter()
    found = find_faults(Conversation.model_construct(turns=turns, persona=None, goal=None), language)
    ordered = sorted((one.code, one.turn) for one in found if one.code is not None)
    return Counter({code: len({turn for _, turn in own}) for code, own in groupby(ordered, key=lambda pair: pair[0])})
