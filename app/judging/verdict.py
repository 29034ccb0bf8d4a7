"""Reads a judge's reply strictly, as JSON or in the text format: the whole message is the verdict, or there is none.

Nothing is extracted from a longer text, so a quote of the candidate can never become a rating. Nothing is clamped,
coerced or filled in: an aspect without a valid rating is `Unrated`, with the reason. A lenient reading allows two
covers of the whole message and nothing else: one block of thinking before the verdict, and one code fence around it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from saiten.core.messages import Message
from saiten.core.plain_text import clean
from saiten.core.strict_json import StrictJSONError, read_strict_json
from saiten_server.core.evaluation import Unrated, UnratedReason
from saiten_server.core.rubric import FAULTS_MEMBER, Aspect
from saiten_server.core.sentences import in_english
from saiten_server.judging.prompt import SCREEN, frame_of, leaks

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
"""The tokens of a text that is known to be JSON."""


INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
"""An integer as in JSON, without leading zero, plus sign, fraction or exponent."""


class Malformed(Exception):
    """The reply is not a verdict; the message says why and holds none of the reply's text."""

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self.message = message


class NamedFault(NamedTuple):
    """A faulty turn as the judge names it. Kind and reason are None if the rubric has no kinds."""

    turn: int
    kind: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class FaultEntry:
    """A faulty turn as written in the list of faults."""

    turn: str
    reason: str
    kind: str
    aspects: tuple[str, ...]


SampleRating = int | Unrated
FaultyTurnsRead = tuple[NamedFault, ...] | Unrated
"""The faulty system turns, ascending; unrated if the judge named a turn that is none, or one twice, or an unknown
kind."""


@dataclass(frozen=True)
class VerdictReading:
    """The content of a reply: a rating or `Unrated` for every requested aspect, and the reasons given. `spans` holds
    the place of each rating in the reply as (start, end) in code points. `leaked` is True if the reply holds the canary
    of its instructions; it then rates nothing. `addressed` is True if it says that a text addresses its evaluator.
    `faults` holds the turns that a verdict on a conversation names for each rated aspect."""

    ratings: Mapping[str, SampleRating]
    reasons: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    spans: Mapping[str, tuple[int, int]] = field(default_factory=lambda: MappingProxyType({}))
    leaked: bool = False
    addressed: bool = False
    faults: Mapping[str, FaultyTurnsRead] = field(default_factory=lambda: MappingProxyType({}))

    @cached_property
    def rated(self) -> int:
        """How many aspects have a rating."""
        return sum(isinstance(rating, int) for rating in self.ratings.values())

    @property
    def complete(self) -> bool:
        return self.rated == len(self.ratings)

    def moved(self, by: int) -> VerdictReading:
        """The reading of a verdict that begins so many code points later."""
        spans = {name: (start + by, end + by) for name, (start, end) in self.spans.items()}
        return replace(self, spans=MappingProxyType(spans))


class Number(str):
    """An integer as it is spelled, so that it is never confused with a JSON string."""

    __slots__ = ()


def read_json_verdict(
    reply: str,
    aspects: tuple[Aspect, ...],
    *,
    explain: bool,
    screen: bool = False,
    turns: tuple[int, ...] | None = None,
    kinds: tuple[str, ...] = (),
) -> VerdictReading:
    """What a reply says that follows `build_schema`, or with `turns` `build_conversation_schema`.

    With `screen` it must say whether a text addresses its evaluator, and with `kinds` it must list faults. Raises
    Malformed. The text must be a single JSON object. Repeated or unknown members, and anything but an integer in the
    place of a rating, are refused."""
    # Numbers stay as they are spelled, so that `-0` is not read as the level 0.
    members, addressed = read_members(reply, screen=screen, parse_int=Number)
    listed = take_faults(members) if kinds else ()
    known = {aspect.id for aspect in aspects}
    if set(members) - known:
        raise Malformed(Message("verdict-member-unknown"))
    numbers: dict[str, str] = {}
    reasons: dict[str, str] = {}
    named: dict[str, tuple[str, ...]] = {}
    for name, value in members.items():
        if turns is not None and not kinds:
            named[name] = take_turns(value)
        number, reason = read_reasoned(value) if explain else (require_number(value), None)
        if number is not None:
            numbers[name] = number
        if reason is not None:
            reasons[name] = reason
    places = locate_numbers(reply)
    spans = {name: places.get((name, "rating") if explain else (name,), (0, 0)) for name in numbers}
    reading = replace(assess(aspects, numbers, spans, reasons, named=named, turns=turns or ()), addressed=addressed)
    return replace(reading, faults=assign_faults(listed, reading, turns or (), kinds)) if kinds else reading


def read_members(verdict: str, *, screen: bool, **options: Any) -> tuple[dict[str, Any], bool]:
    """The members of a JSON object, and whether it says that a text addresses its evaluator. `options` are those of
    `read_strict_json`. Raises Malformed."""
    try:
        members = read_strict_json(verdict, **options)
    except StrictJSONError as fault:
        raise Malformed(fault.message) from None
    if not isinstance(members, dict):
        raise Malformed(Message("verdict-not-object"))
    addressed = members.pop(SCREEN, None) if screen else False
    if not isinstance(addressed, bool):
        raise Malformed(Message("verdict-screen-not-boolean", name=SCREEN))
    return members, addressed


FAULT_MEMBERS = {"turn", "reason", "kind", "aspects"}


def take_faults(members: dict[str, Any]) -> tuple[FaultEntry, ...]:
    """Removes the list of faults from a verdict and returns it. Raises Malformed if it is not of the form that was
    asked for; whether turns, kinds and aspects exist is not looked at."""
    listed = members.pop(FAULTS_MEMBER, None)
    if not isinstance(listed, list):
        raise Malformed(Message("verdict-no-faults"))
    return tuple(map(read_fault, listed))


def read_fault(value: Any) -> FaultEntry:
    """One entry of the list of faults. Raises Malformed."""
    if not isinstance(value, dict) or set(value) != FAULT_MEMBERS or not isinstance(value["aspects"], list):
        raise Malformed(Message("verdict-fault-shape"))
    texts = (value["reason"], value["kind"], *value["aspects"])
    if not all(isinstance(text, str) and not isinstance(text, Number) for text in texts):
        raise Malformed(Message("verdict-fault-not-text"))
    reason, kind, *aspects = map(clean, texts)
    return FaultEntry(require_number(value["turn"]), reason, kind, tuple(aspects))


def take_turns(value: Any) -> tuple[str, ...]:
    """Removes the list of turns from an aspect's object and returns it. Raises Malformed if it is no list of
    integers."""
    turns = value.pop("turns", None) if isinstance(value, dict) else None
    if not isinstance(turns, list):
        raise Malformed(Message("verdict-no-turns"))
    return tuple(map(require_number, turns))


def read_reasoned(value: Any) -> tuple[str | None, str]:
    """`{"reason": text, "rating": integer}`; the rating may be left out, the reason may not."""
    if not isinstance(value, dict) or not {"reason"} <= set(value) <= {"reason", "rating"}:
        raise Malformed(Message("verdict-aspect-shape"))
    reason = value["reason"]
    if not isinstance(reason, str) or isinstance(reason, Number):
        raise Malformed(Message("verdict-reason-not-text"))
    return require_number(value["rating"]) if "rating" in value else None, clean(reason)


def require_number(value: Any) -> str:
    """The digits of an integer. Raises Malformed for anything else."""
    if not isinstance(value, Number):
        raise Malformed(Message("verdict-value-not-integer"))
    return str(value)


def locate_numbers(reply: str) -> Mapping[tuple[str, ...], tuple[int, int]]:
    """The span of each integer in a valid JSON object, by its path of member names."""
    spans: dict[tuple[str, ...], tuple[int, int]] = {}
    path: list[str] = []
    name = ""
    for token in TOKEN.finditer(reply):
        text = token[0]
        if text == "{":
            path.append("")
        elif text == "}":
            path.pop()
        elif text == ":":
            path[-1] = name
        elif text[0] == '"':
            name = text[1:-1]
        elif INTEGER.fullmatch(text):
            spans[tuple(path)] = token.span()
    return spans


VERDICT_SPACE = re.compile(r"[ \t\r\n\u3000]*")
SPACE_OR_END = re.compile(r"[ \t\r\n\u3000]+|\Z")
# Possessive: a reply that ends in nothing but spaces is read once, and not once for each of them.
COLON = r"[ \t\u3000]*+[:：][ \t\u3000]*+"
VALUE = r"「[ \t\u3000]*+(?P<value>[-－0-9０-９]*)[ \t\u3000]*+」"


def read_text_verdict(reply: str, aspects: tuple[Aspect, ...], language: str, *, explain: bool) -> VerdictReading:
    """What a reply in the text format says. Raises Malformed.

    The grammar covers the whole message: entries with white space between them and nothing else, each aspect at most
    once, in any order (each is named). With `explain` every entry begins with its aspect's reason, on a line of its
    own. Full-width digits, minus and colons are read as their narrow forms; no other text is folded.
    """
    entry = entry_pattern(aspects, language, explain=explain)
    ids = {aspect.name[language]: aspect.id for aspect in aspects}
    numbers: dict[str, str] = {}
    reasons: dict[str, str] = {}
    spans: dict[str, tuple[int, int]] = {}
    met: set[str] = set()
    place = match_end(VERDICT_SPACE, reply, 0)
    while place < len(reply):
        found = entry.match(reply, place)
        if found is None:
            raise Malformed(Message("verdict-lines-unknown"))
        name = ids[found["name"]]
        if name in met:
            raise Malformed(Message("verdict-aspect-twice"))
        met.add(name)
        if explain:
            reasons[name] = clean(found["reason"].strip())
        if found["value"]:
            numbers[name], spans[name] = read_digits(found["value"]), found.span("value")
        place = match_end(SPACE_OR_END, reply, found.end())
    return assess(aspects, numbers, spans, reasons)


def entry_pattern(aspects: tuple[Aspect, ...], language: str, *, explain: bool) -> re.Pattern[str]:
    """Matches one aspect's entry. With `explain` the value's line may be missing, the reason's line may not."""
    # Longest first: a name may begin with another.
    names = sorted((re.escape(aspect.name[language]) for aspect in aspects), key=len, reverse=True)
    name = f"(?P<name>{'|'.join(names)})"
    if not explain:
        return re.compile(f"{name}{COLON}{VALUE}")
    label = re.escape(frame_of(language).reason_label.format(name="\x00")).replace(re.escape("\x00"), name)
    return re.compile(rf"{label}{COLON}(?P<reason>[^\S\n]*+\S[^\n]*)(?:\n\s*(?P=name){COLON}{VALUE})?")


def read_digits(written: str) -> str:
    """The digits of an entry's value. Raises Malformed if it is not an integer."""
    number = unicodedata.normalize("NFKC", written)
    if not INTEGER.fullmatch(number):
        raise Malformed(Message("verdict-value-not-integer"))
    return number


def match_end(pattern: re.Pattern[str], text: str, place: int) -> int:
    """Where the pattern's match at `place` ends. Raises Malformed where it does not match there."""
    found = pattern.match(text, place)
    if found is None:
        raise Malformed(Message("verdict-entries-run-together"))
    return found.end()


THINK, THOUGHT = "<think>", "</think>"
FENCE = re.compile(r"\s*+```(?:json|JSON)?[ \t]*+\r?\n(?P<verdict>.*)\n[ \t]*+```\s*+\Z", re.DOTALL)


def uncover(reply: str) -> tuple[int, int]:
    """Where the verdict of a reply begins and ends: behind a block of thinking, which must be the only one and open the
    reply, and then within a code fence, which must hold all of the rest. A reply without either is its own verdict."""
    start, end = 0, len(reply)
    if reply.count(THINK) == reply.count(THOUGHT) == 1 and reply.lstrip().startswith(THINK):
        start = reply.index(THOUGHT) + len(THOUGHT)
    fence = FENCE.match(reply, start)
    return (start, end) if fence is None else fence.span("verdict")


FILTER_CHARACTERS = 200  # Of a provider's words about what it filtered
LEAKED = Message("reply-leaks-instructions")


def read_verdict(
    reply: str | None,
    *,
    aspects: tuple[Aspect, ...],
    language: str,
    structured: bool,
    explain: bool,
    finish_reason: str | None = "stop",
    refusal: str | None = None,
    canary: str | None = None,
    screen: bool = False,
    turns: tuple[int, ...] | None = None,
    kinds: tuple[str, ...] = (),
    lenient: bool = False,
) -> VerdictReading:
    """The reply's ratings of `aspects`; every aspect is in the result.

    `finish_reason` and `refusal` come from the endpoint: a reply that was cut off, filtered or refused rates nothing,
    whatever its text. Neither does one that holds the `canary`: a judge that reveals its instructions has followed the
    text under evaluation, and its ratings may come from there too. With `screen` a structured reply must say whether a
    text addresses its evaluator, which does not change any rating. `turns` are the numbers of the system's turns if a
    conversation is rated, whose reply is always JSON; with `kinds`, those of the rubric, it lists faulty turns once.
    With `lenient` the verdict may be covered, as `uncover` says.
    """
    if canary is not None and any(leaks(text, canary) for text in (reply, refusal) if text):
        return replace(rate_nothing(aspects, "unparseable", LEAKED), leaked=True)
    failing = fail(reply, finish_reason, refusal)
    if failing is not None:
        return rate_nothing(aspects, *failing)
    start, end = uncover(reply or "") if lenient else (0, None)
    verdict = (reply or "")[start:end]
    try:
        if structured or turns is not None:
            reading = read_json_verdict(verdict, aspects, explain=explain, screen=screen, turns=turns, kinds=kinds)
        else:
            reading = read_text_verdict(verdict, aspects, language, explain=explain)
    except Malformed as fault:
        return rate_nothing(aspects, "unparseable", Message("reply-no-verdict", fault=fault.message))
    return reading.moved(start) if start else reading


def fail(reply: str | None, finish_reason: str | None, refusal: str | None) -> tuple[UnratedReason, Message] | None:
    """Why there is no verdict, as a code and in words; None if there may be one."""
    if finish_reason == "content_filter" and not reply:
        said = clean(refusal or "")[:FILTER_CHARACTERS]
        filtered = Message("reply-dialogue-filtered")
        return "content-filter", Message("reply-dialogue-filtered-for", words=said) if refusal else filtered
    if refusal:
        return "refused", Message("reply-refused")
    if finish_reason == "content_filter":
        return "content-filter", Message("reply-filtered")
    if finish_reason == "length":
        return "truncated", Message("reply-truncated")
    if not reply or not reply.strip():
        return "unparseable", Message("reply-empty")
    return None


def rate_nothing(aspects: tuple[Aspect, ...], reason: UnratedReason, detail: Message) -> VerdictReading:
    """The reading of a reply that rates no aspect."""
    unrated = Unrated(reason=reason, **in_english(detail))
    return VerdictReading(MappingProxyType({aspect.id: unrated for aspect in aspects}))


def assess(
    aspects: tuple[Aspect, ...],
    numbers: Mapping[str, str],
    spans: Mapping[str, tuple[int, int]],
    reasons: Mapping[str, str],
    *,
    named: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    turns: tuple[int, ...] = (),
) -> VerdictReading:
    """The reading of a well-formed verdict. Each number, as written, is checked against the scale of its aspect, and
    the turns that are named for it, as written, against the system's `turns`."""
    known = {str(turn): turn for turn in turns}
    ratings = {aspect.id: rate_aspect(numbers.get(aspect.id), aspect) for aspect in aspects}
    rated = [name for name, rating in ratings.items() if isinstance(rating, int)]
    return VerdictReading(
        MappingProxyType(ratings),
        MappingProxyType({name: reasons[name] for name in rated if name in reasons}),
        MappingProxyType({name: spans[name] for name in rated}),
        faults=MappingProxyType({name: check_faults(named[name], known) for name in rated if name in named}),
    )


def off_scale(detail: Message) -> Unrated:
    """A value that the judge may not give."""
    return Unrated(reason="out-of-scale", **in_english(detail))


def check_faults(named: tuple[str, ...], known: Mapping[str, int]) -> FaultyTurnsRead:
    """The turns that the judge named, or why they cannot be used. `known` are the system's turns as written."""
    if strange := next((turn for turn in named if turn not in known), None):
        return off_scale(Message("verdict-turn-unknown", turn=strange[:12]))
    if len(set(named)) < len(named):
        return off_scale(Message("verdict-turn-twice"))
    return tuple(NamedFault(turn) for turn in sorted(known[turn] for turn in named))


def assign_faults(
    listed: Sequence[FaultEntry], reading: VerdictReading, turns: Sequence[int], kinds: Sequence[str]
) -> Mapping[str, FaultyTurnsRead]:
    """The listed faults by rated aspect, each aspect that is rated having its own, or why the list cannot be used:
    nothing of it is kept then, because a list that is wrong in one place is not known to be right in others."""
    known = {str(turn): turn for turn in turns}
    rated = [name for name, rating in reading.ratings.items() if isinstance(rating, int)]
    placed = check_faults(tuple(entry.turn for entry in listed), known)
    wrong = placed if isinstance(placed, Unrated) else check_entries(listed, set(reading.ratings), kinds)
    if wrong is not None:
        return MappingProxyType(dict.fromkeys(rated, wrong))
    found: dict[str, list[NamedFault]] = {name: [] for name in rated}
    for entry in sorted(listed, key=lambda entry: known[entry.turn]):
        for name in entry.aspects:
            if name in found:
                found[name].append(NamedFault(known[entry.turn], entry.kind, entry.reason))
    return MappingProxyType({name: tuple(faults) for name, faults in found.items()})


def check_entries(listed: Sequence[FaultEntry], asked: Set[str], kinds: Sequence[str]) -> Unrated | None:
    """Why the kinds or aspects of a list of faults cannot be used; None if they can. `asked` are the aspects."""
    for entry in listed:
        if entry.kind not in kinds:
            return off_scale(Message("verdict-kind-unknown"))
        if not entry.aspects or len(set(entry.aspects)) < len(entry.aspects) or not set(entry.aspects) <= asked:
            return off_scale(Message("verdict-fault-aspects"))
    return None


def rate_aspect(number: str | None, aspect: Aspect) -> SampleRating:
    """The aspect's rating for a number as written, or why there is none."""
    if number is None:
        return Unrated(reason="missing", **in_english(Message("verdict-without-value", aspect=aspect.id)))
    # Compared as text: a number of a thousand digits never becomes an int.
    for value in aspect.values:
        if number == str(value):
            return value
    low, high = aspect.scale
    return off_scale(Message("verdict-off-scale", given=number[:12], low=low, high=high))


def agree_on_faults(samples: Sequence[Mapping[str, FaultyTurnsRead]]) -> Mapping[str, FaultyTurnsRead]:
    """One list of faults from those of several samples, each as `assign_faults` gives it. A turn is in it if more than
    half of the lists that can be used name it, for whichever aspect; its kind and reason are those of the first sample
    with the commonest kind, its aspects those that more than half of the samples with this turn name, or else that
    sample's. Where no list can be used the first one's reason is kept."""
    rated = [name for names in samples for name in names]
    usable = [names for names in samples if names and not any(isinstance(one, Unrated) for one in names.values())]
    if not usable:
        return MappingProxyType({name: names[name] for names in reversed(samples) for name in names})
    found: dict[str, list[NamedFault]] = {name: [] for name in rated}
    listed = [by_turn(names) for names in usable]
    for turn in sorted({turn for turns in listed for turn in turns}):
        named = [turns[turn] for turns in listed if turn in turns]
        if 2 * len(named) > len(listed):
            fault, aspects = settle_fault(named)
            for name in aspects:
                found[name].append(fault)
    return MappingProxyType({name: tuple(faults) for name, faults in found.items()})


def by_turn(names: Mapping[str, FaultyTurnsRead]) -> dict[int, tuple[NamedFault, set[str]]]:
    """The faults of one sample by turn, each with its aspects."""
    found: dict[int, tuple[NamedFault, set[str]]] = {}
    for name, faults in names.items():
        for fault in () if isinstance(faults, Unrated) else faults:
            found.setdefault(fault.turn, (fault, set()))[1].add(name)
    return found


def settle_fault(named: Sequence[tuple[NamedFault, set[str]]]) -> tuple[NamedFault, set[str]]:
    """What several samples say of one turn, as one fault with its aspects."""
    kinds = [fault.kind for fault, _ in named]
    fault, own = max(named, key=lambda one: kinds.count(one[0].kind))
    counts = Counter(name for _, aspects in named for name in aspects)
    return fault, {name for name, count in counts.items() if 2 * count > len(named)} or own
