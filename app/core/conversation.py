"""A whole conversation as the unit under evaluation, and the faults of its system turns.

One judge call rates the whole, and names the system turns that lower each aspect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from saiten.core.messages import Message, Misfit
from saiten_server.core.dialogue import Dialogue, Speaker, Text, Utterance, check_line
from saiten_server.core.model import Value, listed, refuse
from saiten_server.core.sentences import Detailed, MessageId, MessageValues
from saiten_server.core.token_estimate import bound_tokens, estimate_tokens

FINDING = "finding:"
"""What precedes a code where the rate of its findings is meant, in a run's measures."""


Role = Literal["user", "system"]

MOST_TURNS = 400
MOST_PERSONA_FIELDS = 20
MOST_PERSONA_NAME = 64
MOST_PERSONA_TEXT = 500


def check_turns(turns: Any) -> Any:
    """Raises ValueError if there are too many turns. Runs before they are read: it is one error."""
    if isinstance(turns, list | tuple) and len(turns) > MOST_TURNS:
        raise Misfit(Message("conversation-turns-most", maximum=MOST_TURNS, count=len(turns)))
    return turns


def check_persona(persona: Any) -> Any:
    """Raises ValueError if there are too many fields. Runs before they are read: it is one error."""
    if isinstance(persona, dict) and len(persona) > MOST_PERSONA_FIELDS:
        raise Misfit(Message("persona-fields-most", maximum=MOST_PERSONA_FIELDS, count=len(persona)))
    return persona


def check_persona_text(text: str, info: ValidationInfo) -> str:
    """One line of a persona."""
    if len(text) > MOST_PERSONA_TEXT:
        raise Misfit(Message("persona-value-most", maximum=MOST_PERSONA_TEXT, count=len(text)))
    return check_line(text, info, limit="text_characters", what=Message("persona-value"), blank=False)


def check_persona_name(name: str, info: ValidationInfo) -> str:
    """The name of a persona's field."""
    if len(name) > MOST_PERSONA_NAME:
        raise Misfit(Message("persona-name-most", maximum=MOST_PERSONA_NAME, count=len(name)))
    return check_line(name, info, limit="text_characters", what=Message("persona-name"), blank=False)


PersonaName = Annotated[str, AfterValidator(check_persona_name)]
PersonaText = Annotated[str, AfterValidator(check_persona_text)]
PersonaNumber = Annotated[int, Field(ge=-(2**53), le=2**53)]
PersonaValue = PersonaText | bool | PersonaNumber | Annotated[float, Field(allow_inf_nan=False)]
Persona = Annotated[
    dict[PersonaName, PersonaValue], Field(min_length=1, max_length=MOST_PERSONA_FIELDS), BeforeValidator(check_persona)
]


class Turn(Utterance):
    """One turn of a conversation, verbatim. `role` says whether the system under evaluation spoke."""

    speaker: Speaker = Field(description="who speaks; each role has one speaker")
    role: Role = Field(description="`system` for the system under evaluation, `user` for the person that it talks to")


Turns = Annotated[
    tuple[Turn, ...],
    listed(minimum=1),
    BeforeValidator(check_turns),
    Field(description=f"the conversation, oldest turn first, at most {MOST_TURNS} turns"),
]


class Conversation(Value):
    """A whole dialogue, oldest turn first, with at least one turn of the system. Each role has one speaker."""

    turns: Turns
    persona: Persona | None = Field(
        default=None, description="what the system is to be, such as its name, age and style, as named fields"
    )
    goal: Text | None = Field(default=None, description="what is to be achieved, by the user or by the system")

    @model_validator(mode="after")
    def _check_roles(self) -> Conversation:
        fault = find_role_fault(self.turns)
        refuse("Conversation", [(("turns",), fault)] if fault else [])
        return self

    @cached_property
    def system_turns(self) -> tuple[int, ...]:
        """The numbers of the system's turns, ascending; turns count from 0."""
        return tuple(number for number, turn in enumerate(self.turns) if turn.role == "system")

    def gives(self, requirement: str | None) -> bool:
        """Whether the conversation has what an aspect requires: `persona`, `goal` or nothing."""
        return requirement is None or getattr(self, requirement) is not None


def find_role_fault(turns: Sequence[Turn]) -> Message | None:
    """Why the roles cannot be: no turn of the system, two speakers with one role, or a speaker with both."""
    speakers: dict[Role, str] = {}
    for number, turn in enumerate(turns):
        known = speakers.setdefault(turn.role, turn.speaker)
        if known != turn.speaker:
            return Message("role-of-two-speakers", number=number, role=turn.role)
    if "system" not in speakers:
        return Message("conversation-without-system")
    if len(set(speakers.values())) < len(speakers):
        return Message("speaker-in-both-roles")
    return None


def add_roles(document: Any) -> Any:
    """A JSON document with the roles that its turns lack, if its `infer_roles` asks for them: the last speaker is the
    system. Turns that have a role, and whatever is not of the expected form, stay as they are."""
    if not isinstance(document, dict) or document.get("infer_roles") is not True:
        return document
    return {**document, "turns": infer_roles(document.get("turns"))}


def infer_roles(turns: Any) -> Any:
    """The turns with the roles that they lack."""
    if not isinstance(turns, list) or len(turns) > MOST_TURNS or not all(isinstance(turn, dict) for turn in turns):
        return turns
    last = turns[-1].get("speaker") if turns else None
    return [
        turn if "role" in turn else {**turn, "role": "system" if turn.get("speaker") == last else "user"}
        for turn in turns
    ]


class GivenConversation(Conversation):
    """A conversation as a caller gives it."""

    infer_roles: bool = Field(
        default=False,
        exclude_if=lambda infer: not infer,
        description="whether turns may lack roles; the last speaker is then the system",
    )

    @model_validator(mode="before")
    @classmethod
    def _add_roles(cls, document: Any) -> Any:
        return add_roles(document)


class Finding(Detailed, Value):
    """A fault of one system turn. `turn` counts from 0 over all turns. The judge's findings have no code."""

    turn: int = Field(ge=0, description="the number of the system turn, counted from 0 over all turns")
    aspect: str | None = Field(description="the aspect that the fault concerns; null if the rubric has none for it")
    code: str | None = Field(description="what a rule found; null for a finding of the judge")
    by: Literal["judge", "rule"]
    detail: str = Field(description="what is wrong, in a sentence")
    kind: str | None = Field(
        default=None,
        description="the kind of fault, one of seventeen; null for the judge's findings by a rubric without kinds",
    )
    message: MessageId = None
    values: MessageValues = None


RULE_CODES = (
    "register-shift",
    "register-mix",
    "wrong-language",
    "repetition",
    "self-contradiction",
    "persona-contradiction",
)
"""The codes of the findings of rules."""

FAULT_KINDS = (
    "uninterpretable",
    "grammatical-error",
    "semantic-error",
    "wrong-information",
    "ignored-question",
    "ignored-request",
    "ignored-proposal",
    "ignored-greeting",
    "ignored-expectation",
    "unclear-intention",
    "topic-transition",
    "lack-of-information",
    "self-contradiction",
    "contradiction",
    "repetition",
    "lack-of-sociality",
    "lack-of-common-sense",
)
"""The integrated taxonomy of errors in chat-oriented dialogue systems (Higashinaka, Araki, Tsukahara and Mizukami,
SIGDIAL 2021): utterance, response, context, society."""

KIND_OF_RULE: Mapping[str, str] = {
    "register-shift": "lack-of-sociality",
    "register-mix": "lack-of-sociality",
    "wrong-language": "uninterpretable",
    "repetition": "repetition",
    "self-contradiction": "self-contradiction",
    "persona-contradiction": "self-contradiction",
}
"""The kind of what each rule finds. A persona is the system's own, so that it contradicts itself."""

JUDGED = "judge"
"""What stands for the code of the judge's findings, which have none."""

ANY_CODE = "any"
"""What stands for findings of any code, the judge's among them."""

RULES = "rules"
"""What stands for findings of any rule."""

FINDING_CODES = (ANY_CODE, JUDGED, *RULE_CODES)
"""What findings are counted by."""

KIND = "kind:"
"""What precedes a kind of faults where findings are counted by it as by a code: some kinds are named as rules are."""

KIND_CODES = tuple(KIND + kind for kind in FAULT_KINDS)
"""What findings are counted by where the rubric has kinds of faults."""

FAULTY_TURNS = "faulty_turns"
"""The measure of a run: system turns per 100 with a finding of any code, or that people marked."""

KINDS_KNOWN = "kinds"
"""Stands among the codes of a conversation whose findings all have their kinds."""


class FaultyTurns(NamedTuple):
    """The system's turns with findings in one conversation that has `system_turns` of them: their numbers by code and
    by `kind:KIND`, counted from 0 over the system's turns alone. Without `judge` the judge's findings are not known,
    and without `kinds` not what kinds there are."""

    system_turns: int
    found: Mapping[str, Sequence[int]]

    def turns_of(self, code: str) -> Sequence[int] | None:
        """The turns with a finding of the code, each once; None where that is not known."""
        if code == ANY_CODE:
            return sorted({turn for turns in self.found.values() for turn in turns}) if JUDGED in self.found else None
        if code == RULES:
            return sorted({turn for by in RULE_CODES for turn in self.found.get(by, ())})
        if code.startswith(KIND) and KINDS_KNOWN not in self.found:
            return None
        return self.found.get(code, None if code == JUDGED else ())

    def rate_of(self, code: str) -> float | None:
        """How many of 100 system turns have a finding of the code; None where that is not known."""
        turns = self.turns_of(code)
        return None if turns is None else 100 * len(turns) / self.system_turns


def codes_of(faulty: FaultyTurns | None) -> list[str]:
    """The codes of the findings in a conversation, after `any` if there are any."""
    codes = [code for code, turns in faulty.found.items() if turns] if faulty else []
    return [ANY_CODE, *codes] if codes else []


def list_codes(faulty: FaultyTurns) -> Sequence[str]:
    """What the conversation's findings are counted by: kinds too where they are known."""
    return (*FINDING_CODES, *KIND_CODES) if KINDS_KNOWN in faulty.found else FINDING_CODES


def list_faulty(
    conversation: Conversation, findings: Iterable[Finding], *, judged: bool, kinds: bool = False
) -> FaultyTurns:
    """The faulty turns of a conversation; `judged` says whether the judge's findings are all there, and `kinds` whether
    they have kinds."""
    places = {number: place for place, number in enumerate(conversation.system_turns)}
    return FaultyTurns(len(places), mark_faulty(places, findings, judged=judged, kinds=kinds))


def mark_faulty(
    places: Mapping[int, int], findings: Iterable[Finding], *, judged: bool, kinds: bool
) -> dict[str, list[int]]:
    """The faulty turns by code and kind; `places` holds a number for each of the system's turns."""
    found: dict[str, set[int]] = {JUDGED: set()} if judged else {}
    if judged and kinds:
        found[KINDS_KNOWN] = set()
    for one in findings:
        code = one.code or JUDGED
        if (judged or code != JUDGED) and one.turn in places:
            found.setdefault(code, set()).add(places[one.turn])
            if judged and kinds and one.kind is not None:
                found.setdefault(KIND + one.kind, set()).add(places[one.turn])
    return {code: sorted(turns) for code, turns in found.items()}


@dataclass(frozen=True)
class TurnWindow:
    """Consecutive turns of a conversation that are judged in one call; `first` is the number of the first one. Numbers
    stay those of the whole conversation."""

    conversation: Conversation
    first: int
    end: int

    @property
    def turns(self) -> tuple[Turn, ...]:
        return self.conversation.turns[self.first : self.end]

    @property
    def dialogue(self) -> Dialogue:
        """The window as a dialogue whose response is its last turn, and whose utterances are the turns before it."""
        *before, last = self.turns
        return Dialogue.model_construct(context=tuple(before), response=last.text)

    @property
    def system_turns(self) -> tuple[int, ...]:
        return tuple(number for number in self.conversation.system_turns if self.first <= number < self.end)


OVERLAP = 0.2
"""The share of a window's tokens that the next window repeats."""
TURN_TOKENS = 6
"""What a turn takes beside its text: its number, its role and the line break."""


def cut_windows(conversation: Conversation, most_tokens: int) -> tuple[TurnWindow, ...]:
    """The conversation in windows of at most `most_tokens` estimated tokens, each with at least one turn of the system;
    a single window if it fits. A window repeats the last turns of the one before it, up to a fifth of its tokens. A
    turn that is longer than a window is a window of its own."""
    count = len(conversation.turns)
    if sum(bound_tokens(turn.text) for turn in conversation.turns) + TURN_TOKENS * count <= most_tokens:
        # Nearly all conversations: they fit, whatever their characters are.
        return (TurnWindow(conversation, 0, count),) if conversation.system_turns else ()
    costs = [estimate_tokens(turn.text) + TURN_TOKENS for turn in conversation.turns]
    windows: list[TurnWindow] = []
    first = 0
    while True:
        end, spent = first, 0
        while end < len(costs) and (end == first or spent + costs[end] <= most_tokens):
            spent += costs[end]
            end += 1
        windows.append(TurnWindow(conversation, first, end))
        if end == len(costs):
            break
        start, repeated = end, 0
        while start - 1 > first and repeated + costs[start - 1] <= OVERLAP * most_tokens:
            start -= 1
            repeated += costs[start]
        # A window that begins with what was repeated must hold something new.
        first = start if repeated + costs[end] <= most_tokens else end
    return tuple(window for window in windows if window.system_turns)


def list_contexts(conversation: Conversation, most: int) -> Iterator[tuple[int, Dialogue]]:
    """Each system turn but the first turn, by its number, as a response with what precedes it, at most `most`
    utterances. All contexts share their utterances, since there are hundreds of both."""
    said = tuple(Utterance.model_construct(speaker=turn.speaker, text=turn.text) for turn in conversation.turns)
    for number in conversation.system_turns:
        if number:
            context = said[max(0, number - most) : number]
            yield number, Dialogue.model_construct(context=context, response=said[number].text)


def texts_of_conversation(conversation: Conversation) -> Mapping[str, str]:
    """Each text of a conversation by its place, in reading order: speakers, turns, persona and goal."""
    places: dict[str, str] = {}
    for number, turn in enumerate(conversation.turns):
        places |= {f"turns/{number}/speaker": turn.speaker, f"turns/{number}/text": turn.text}
    for position, (name, value) in enumerate((conversation.persona or {}).items()):
        # The names of fields are the caller's too, and a place must not quote them.
        places[f"persona/{position}"] = f"{name}: {value}"
    if conversation.goal is not None:
        places["goal"] = conversation.goal
    return places
