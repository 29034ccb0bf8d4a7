"""Phrases that several statistics say: numbers of things, and clauses."""

from __future__ import annotations

from collections.abc import Iterable

from saiten.core.figures import write_figure
from saiten.core.messages import Message
from saiten.core.wording import tell_p

CLAUSES = "clauses"

NO_VALUES = Message("no-values")
NO_COMMON_VALUES = Message("no-common-values")
NEITHER_HAS_VALUES = Message("neither-has-values")


def tell_count(n: int, noun: str) -> Message:
    """`1 item`, `2 items`."""
    return Message(f"one-{noun}" if n == 1 else f"{noun}s", n=n)


def tell_count_within(n: int, noun: str, dialogues: int | None) -> Message:
    """So many, and in how many dialogues where that is given."""
    if dialogues is None:
        return tell_count(n, noun)
    return Message("in-dialogues", what=tell_count(n, noun), dialogues=tell_count(dialogues, "dialogue"))


def join_clauses(clauses: Iterable[Message | str]) -> Message:
    """The clauses as one message, clauses of clauses among them; one alone as it is."""
    found: list[Message] = []
    for each in clauses:
        one = Message("text", text=each) if isinstance(each, str) else each
        parts = one.values[CLAUSES] if one.id == CLAUSES else None
        found += parts if isinstance(parts, list) else [one]
    return found[0] if len(found) == 1 else Message(CLAUSES, clauses=found)


def tell_why(what: Message, why: Message | str) -> Message:
    """`what: why`."""
    return Message("with-reason", what=what, why=why)


def tell_adjusted(p: float | None, tests: int) -> list[Message]:
    """p after Holm, where there is one."""
    return [] if p is None else [Message("adjusted-p", p=tell_p(p), tests=tests)]


def tell_ends(interval: tuple[float, float]) -> dict[str, str]:
    """Both ends with their signs, as `low` and `high`."""
    return {name: write_figure(end, signed=True) for name, end in zip(("low", "high"), interval, strict=True)}
