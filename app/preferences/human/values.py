"""Preferences of people: as values, and as JSON lines in which every fault is reported with its line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field, model_validator

from saiten.core.messages import Message
from saiten.core.strict_json import StrictJSONError, parse_strict_json
from saiten_server.core.conversation import Turns, find_role_fault
from saiten_server.core.dialogue import Context, Limits, MetadataValue, Text, Utterance
from saiten_server.core.errors import MOST_REFUSED, InvalidLines
from saiten_server.core.evaluation import Choice, DialogueId
from saiten_server.core.model import Location, Value, digest, listed, refuse
from saiten_server.core.validation import InvalidDocument, validate
from saiten_server.ratings.values import Comment, RaterId, RoundSide

MOST_PREFERENCES = 100_000
"""Of one request."""

ORDERS: Sequence[tuple[Choice, Choice]] = (("first", "second"), ("second", "first"))


class Side(Value):
    """One of two responses, or of two conversations."""

    response: Text | None = None
    turns: Turns | None = Field(default=None, description="a whole conversation in place of a response")
    id: MetadataValue | None = Field(default=None, description="the system that it is of; rankings need it")

    @model_validator(mode="after")
    def _check_text(self) -> Side:
        faults: list[tuple[Location, Message]] = []
        if (self.response is None) == (self.turns is None):
            faults.append(((), Message("response-or-turns")))
        if self.turns is not None and (fault := find_role_fault(self.turns)) is not None:
            faults.append((("turns",), fault))
        refuse("Side", faults)
        return self

    @property
    def said(self) -> Any:
        """What the system said, without its name: equal for equal texts."""
        return self.response if self.turns is None else [(turn.role, turn.text) for turn in self.turns]

    @property
    def length(self) -> int:
        """Characters that the system said."""
        if self.turns is None:
            return len(self.response or "")
        return sum(len(turn.text) for turn in self.turns if turn.role == "system")


class HumanPreference(Value):
    """Which of two responses one rater prefers.

    `pair` names them: a preference of the judge's (`pr_…`), or a pair of a round (`rr_….N`). Else they come with their
    context; two conversations have none. `shown` is the order in which the rater saw them. `simulated` preferences were
    not made by a person and never count as people's.
    """

    pair: Annotated[str, Field(min_length=1, max_length=128)] | None = Field(
        default=None, description="a preference of the judge's (`pr_…`), or a pair of a round (`rr_….N`)"
    )
    context: Context | None = None
    first: Side | None = Field(default=None, description="one of the two, where no `pair` names them")
    second: Side | None = Field(default=None, description="the other")
    dialogue: DialogueId | None = Field(default=None, description="the dialogue that a given context is of")
    rater: RaterId
    preference: Choice = Field(description="of the two as they are named here, whatever the order in which they stood")
    shown: Annotated[tuple[Choice, ...], listed(minimum=2, maximum=2)] = Field(
        default=("first", "second"), description="the order in which the rater saw them"
    )
    reason: Comment | None = None
    simulated: bool = False

    @model_validator(mode="after")
    def _check_pair(self) -> HumanPreference:
        faults: list[tuple[Location, Message]] = []
        given = [name for name in ("context", "first", "second", "dialogue") if getattr(self, name) is not None]
        if self.pair is not None:
            faults += [((name,), Message("pair-or-texts")) for name in given]
        elif self.first is None or self.second is None:
            faults.append(((), Message("pair-or-texts")))
        else:
            faults += self._find_text_faults(self.first, self.second)
        if self.shown not in ORDERS:
            faults.append((("shown",), Message("shown-both-once")))
        refuse("HumanPreference", faults)
        return self

    def _find_text_faults(self, first: Side, second: Side) -> list[tuple[Location, Message]]:
        faults: list[tuple[Location, Message]] = []
        if (first.turns is None) != (second.turns is None):
            faults.append((("second",), Message("sides-alike")))
        if (first.turns is None) != (self.context is not None):
            faults.append((("context",), Message("context-of-responses")))
        if first.said == second.said:
            faults.append((("second",), Message("sides-same-text")))
        if first.id is not None and first.id == second.id:
            faults.append((("second", "id"), Message("sides-same-system")))
        return faults

    @property
    def identity(self) -> Any:
        """What is equal for two that are of one pair, in whichever order they name it."""
        if self.pair is not None or self.first is None or self.second is None:
            return self.pair
        return [*sorted(digest([self.context_key, side.said, side.id]) for side in (self.first, self.second))]

    @property
    def context_key(self) -> str:
        """The digest of what both answered: the context, or the opening of two conversations."""
        if self.context is None:
            return digest_opening(self.dialogue, (self.first and self.first.turns) or ())
        return digest_context(self.context)


def digest_context(context: Sequence[Utterance]) -> str:
    """What stands for a context as an item's name."""
    return digest([(said.speaker, said.text) for said in context])


def digest_opening(dialogue: str | None, turns: Sequence[Utterance]) -> str:
    """What stands for the opening of two conversations as an item's name."""
    return digest([dialogue, [turn.text for turn in turns[:1]]])


class StoredPreference(Value):
    """A preference as it is kept. Texts that the project no longer keeps are null."""

    pair: str | None = Field(description="the pair's name; null where it came with its texts")
    round: str | None = Field(description="the round that drew the pair")
    context: Any = None
    first: Any = Field(default=None, description="one of the two, as it came")
    second: Any = Field(default=None, description="the other")
    rater: str
    preference: Choice = Field(description="of the two as the pair names them")
    shown: Annotated[tuple[Choice, ...], listed()] = Field(description="the order in which the rater saw them")
    reason: str | None = None
    simulated: bool = False
    created_at: Annotated[datetime, Field(strict=False)]


def tell_preference(kept: StoredPreference) -> dict[str, Any]:
    """The preference as JSON without null fields, and without `simulated` where false."""
    return kept.model_dump(mode="json", exclude_none=True, exclude=set() if kept.simulated else {"simulated"})


class PreferenceFilter(Value):
    """Which preferences; None means any. `run` selects those of pairs with a response of this batch."""

    pair: str | None = None
    round: str | None = None
    run: str | None = None
    rater: str | None = None


@dataclass(frozen=True)
class NamedPair:
    """The two sides of a pair that has a name, as it names them, with the characters of each where they are known.

    They stand in batches, or the judge compared two texts, of `systems` to an `item`. `round` is what drew the
    pair, at `position`.
    """

    first: RoundSide | None = None
    second: RoundSide | None = None
    lengths: tuple[int | None, int | None] = (None, None)
    round: str | None = None
    position: int | None = None
    systems: tuple[str | None, str | None] = (None, None)
    item: str | None = None
    dialogue: str | None = None

    @property
    def places(self) -> tuple[RoundSide, ...]:
        """Where the sides stand; none of two texts."""
        return tuple(place for place in (self.first, self.second) if place is not None)


@dataclass(frozen=True)
class KeptOpinion:
    """A preference that is to be kept, with the pair that it names."""

    given: HumanPreference
    named: NamedPair | None = None


class PreferencesAdded(BaseModel):
    """How many preferences are new, and how many replaced an earlier one."""

    added: int
    replaced: int


def read_preference_lines(body: bytes, limits: Limits) -> tuple[list[HumanPreference], list[int]]:
    """The preferences in NDJSON and their line numbers.

    Raises InvalidLines for lines that are not preferences, and for two by one rater of one pair, which may contradict
    each other.
    """
    found: list[HumanPreference] = []
    numbers: list[int] = []
    faults: list[tuple[int, Message]] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(body.split(b"\n"), start=1):
        if not line.strip():
            continue
        if len(faults) == MOST_REFUSED:
            raise InvalidLines(faults, stopped=True)
        if len(found) == MOST_PREFERENCES:
            faults.append((number, Message("preferences-most", maximum=MOST_PREFERENCES)))
            break
        try:
            one = validate(HumanPreference, parse_strict_json(line), limits)
        except (StrictJSONError, InvalidDocument) as error:
            faults.append((number, error.message))
            continue
        before = seen.setdefault(digest([one.rater, one.identity]), number)
        if before != number:
            faults.append((number, Message("preferred-on-earlier-line", number=before)))
        found.append(one)
        numbers.append(number)
    if faults:
        raise InvalidLines(faults)
    return found, numbers
