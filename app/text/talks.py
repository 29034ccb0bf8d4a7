"""What code finds in one conversation: attacks on its judge, and faults of the system's turns.

In a helper process, jobs and answers are bytes of JSON, which take less time than pickled values.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from saiten_server.core.conversation import KIND_OF_RULE, Conversation, Finding, Turn, texts_of_conversation
from saiten_server.core.evaluation import MaskedSpan, Warned
from saiten_server.core.sentences import pass_on
from saiten_server.text.faults import find_faults
from saiten_server.text.injection import inspect_texts, locate_warnings


class TextFindings(NamedTuple):
    """Warnings for texts that look like an attack on the judge, and the findings of rules."""

    suspicions: tuple[Warned, ...]
    faults: tuple[Finding, ...]


def look_through(
    conversation: Conversation, language: str, aspects: tuple[str, ...], checkpoint: Callable[[], None] = lambda: None
) -> TextFindings:
    """What is found; `aspects` are names of the aspects of the rubric in force. `checkpoint` is called before each text
    that is inspected, and may raise to end the work."""
    places = texts_of_conversation(conversation)
    found = inspect_texts(places, aspects=aspects, checkpoint=checkpoint)
    suspicions = locate_warnings(found, places, aspects=aspects, checkpoint=checkpoint)
    checkpoint()
    return TextFindings(suspicions, find_faults(conversation, language))


def write_job(conversation: Conversation, language: str, aspects: tuple[str, ...]) -> bytes:
    """What asks a helper for it."""
    turns = [(turn.speaker, turn.text, turn.role) for turn in conversation.turns]
    return json.dumps([turns, conversation.persona, conversation.goal, language, aspects]).encode()


def answer_job(job: bytes) -> bytes:
    """What a helper answers; null where the work fails, so that who asked does it and meets the error."""
    try:
        turns, persona, goal, language, aspects = json.loads(job)
        said = tuple(Turn.model_construct(speaker=speaker, text=text, role=role) for speaker, text, role in turns)
        conversation = Conversation.model_construct(turns=said, persona=persona, goal=goal)
        suspicions, faults = look_through(conversation, language, tuple(aspects))
        shown = [
            (one.code, one.where, pass_on(one), [(span.start, span.end) for span in one.spans]) for one in suspicions
        ]
        return json.dumps([shown, [(one.turn, one.aspect, one.code, pass_on(one)) for one in faults]]).encode()
    except Exception:  # noqa: BLE001 - the edge of a process: who asked does the work, and tells of the error
        return b"null"


def read_found(answered: bytes) -> TextFindings | None:
    """What a helper found; None where it failed."""
    read = json.loads(answered)
    if read is None:
        return None
    suspicions, faults = read
    return TextFindings(
        tuple(
            Warned(
                code=code,
                where=where,
                **detail,
                spans=tuple(MaskedSpan(where=where, start=start, end=end) for start, end in spans),
            )
            for code, where, detail, spans in suspicions
        ),
        tuple(
            Finding.model_construct(turn=turn, aspect=aspect, code=code, by="rule", kind=KIND_OF_RULE[code], **detail)
            for turn, aspect, code, detail in faults
        ),
    )
