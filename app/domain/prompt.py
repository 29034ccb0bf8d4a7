"""Builds the messages to the judge from a rubric and a dialogue.

The system message holds everything fixed (task, rules, aspects, worked example, format) and comes first, so that a
provider's prompt cache hits; the dialogue is only in the last message, encoded and enclosed. The fixed part is a value
of its own, `Prefix`, which a judge builds once and keeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from app.domain.dialogue import Dialogue
from app.domain.errors import LanguageNotSupported
from app.domain.model import canonical_json, digest, digest_texts
from app.domain.prompt_parts import SCREEN, PromptFrame, derive_boundary, derive_canary, encode_untrusted, frame_of
from app.domain.rubric import Aspect, Example, Level, Rubric, WorkedExample


@dataclass(frozen=True)
class Prompt:
    """`system` is fixed for rubric, language, aspects and format; `user` encloses the dialogue. `schema` is the strict
    JSON schema of the reply, or None if the reply is text. `canary` is in `system` and must never be in a reply.
    `screen`: the reply also says whether a text addresses its evaluator."""

    system: str
    user: str
    schema: dict[str, Any] | None
    prefix_digest: str
    canary: str | None = None
    screen: bool = False

    @property
    def messages(self) -> list[dict[str, str]]:
        return [{"role": "system", "content": self.system}, {"role": "user", "content": self.user}]

    @cached_property
    def digest(self) -> str:
        """Digest of everything that is sent to the judge, 64 hexadecimal digits."""
        return digest_texts(self.prefix_digest, self.user)


@dataclass(frozen=True)
class Prefix:
    """A prompt without the dialogue. `digest` (64 hexadecimal digits) also covers the words around the dialogue."""

    system: str
    schema: dict[str, Any] | None
    digest: str
    canary: str
    screen: bool = False

    def before(self, user: str) -> Prompt:
        """The whole prompt, with a user message from `enclose`."""
        return Prompt(self.system, user, self.schema, self.digest, self.canary, self.screen)


def group_aspects(rubric: Rubric) -> list[tuple[Aspect, ...]]:
    """The groups of aspects that are asked together, one call per group."""
    return [rubric.aspects] if rubric.calls == "joint" else [(aspect,) for aspect in rubric.aspects]


def build_prompt(
    rubric: Rubric,
    language: str,
    dialogue: Dialogue,
    aspects: tuple[Aspect, ...],
    *,
    explain: bool,
    structured: bool,
    references: tuple[str, ...] = (),
    screen: bool = False,
) -> Prompt:
    """The prompt that asks for `aspects` in one reply. Raises LanguageNotSupported."""
    form = {"explain": explain, "structured": structured, "screen": screen}
    prefix = build_prefix(rubric, language, aspects, **form, references=bool(references))
    return prefix.before(enclose(dialogue, references, language))


def build_prefix(
    rubric: Rubric,
    language: str,
    aspects: tuple[Aspect, ...],
    *,
    explain: bool,
    structured: bool,
    references: bool = False,
    screen: bool = False,
) -> Prefix:
    """The part that does not depend on the dialogue. Raises LanguageNotSupported. `references` tells whether any are
    shown. `screen` asks whether a text addresses its evaluator; it is ignored in the text format, which has room for
    aspects only."""
    if language not in rubric.languages:
        raise LanguageNotSupported(f"rubric {rubric.id} is not in {language}; it is in {', '.join(rubric.languages)}")
    frame = frame_of(language)
    screen = screen and structured
    schema = build_schema(aspects, explain=explain, screen=screen) if structured else None
    # Derived from the rubric only, so that it is the same whichever aspects are asked.
    canary = derive_canary(rubric.digest)
    rules = (*frame.rules, frame.canary_rule.format(canary=canary))
    sections = [
        f"{frame.task}\n{rubric.task[language]}",
        "\n".join((frame.rules_heading, *(f"- {rule}" for rule in rules))),
        "\n\n".join((frame.aspects_heading, *(describe_aspect(aspect, language, frame) for aspect in aspects))),
        describe_format(aspects, language, frame, explain=explain, structured=structured, screen=screen),
        *show_worked_examples(aspects, language, frame, explain=explain, structured=structured, screen=screen),
    ]
    system = "\n\n".join(sections)
    # Scores with and without references are not comparable, so their signatures must differ.
    shown = ["references"] if references else []
    known = digest([system, frame.begin, frame.end, frame.request, schema, *shown])
    return Prefix(system, schema, known, canary, screen)


def build_schema(aspects: tuple[Aspect, ...], *, explain: bool, screen: bool = False) -> dict[str, Any]:
    """The strict schema of a structured reply: legal values enumerated, everything required, nothing else allowed."""
    screened: dict[str, Any] = {SCREEN: {"type": "boolean"}} if screen else {}
    return closed_object(screened | {aspect.id: rating_schema(aspect, explain=explain) for aspect in aspects})


def rating_schema(aspect: Aspect, *, explain: bool) -> dict[str, Any]:
    """One aspect's part of the schema."""
    rating = {"type": "integer", "enum": list(aspect.values)}
    # The reason comes first: a judge that writes it afterwards only defends its rating.
    return closed_object({"reason": {"type": "string"}, "rating": rating}) if explain else rating


def closed_object(properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object that has all of these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def enclose(dialogue: Dialogue, references: tuple[str, ...], language: str) -> str:
    """The user message, the same for every format: JSON inside a boundary derived from the JSON's digest."""
    frame = frame_of(language)
    content: dict[str, Any] = {
        "context": [{"speaker": turn.speaker, "text": turn.text} for turn in dialogue.context],
        "response": dialogue.response,
    }
    if references:
        content["references"] = list(references)
    text = encode_untrusted(content)
    boundary = derive_boundary(text)
    return "\n".join((frame.begin.format(boundary=boundary), text, frame.end.format(boundary=boundary), frame.request))


def describe_aspect(aspect: Aspect, language: str, frame: PromptFrame) -> str:
    """Name, question, scale and every level with its example."""
    low, high = aspect.scale
    lines = [
        frame.aspect.format(name=aspect.name[language], id=aspect.id),
        aspect.question[language],
        frame.scale.format(low=low, high=high),
    ]
    for level in aspect.levels:
        lines += describe_level(level, language, frame)
    return "\n".join(lines)


def describe_level(level: Level, language: str, frame: PromptFrame) -> list[str]:
    """The line of a level, and that of its example if it has one."""
    label, description = level.label[language], level.description[language]
    lines = [frame.level.format(value=level.value, label=label, description=description)]
    if level.example:
        lines.append(frame.example.format(example=show_dialogue(level.example[language])))
    return lines


def show_dialogue(example: Example) -> str:
    """An example on one line, in the same form as the dialogue under evaluation."""
    content = {
        "context": [{"speaker": turn.speaker, "text": turn.text} for turn in example.context],
        "response": example.response,
    }
    return encode_untrusted(content, indent=None)


def describe_format(
    aspects: tuple[Aspect, ...], language: str, frame: PromptFrame, *, explain: bool, structured: bool, screen: bool
) -> str:
    """The reply's exact form, with placeholders for what the judge fills in."""
    lines = [frame.format_heading]
    if structured:
        lines += [frame.json_format, *([frame.reason_rule] if explain else [])]
        lines += [frame.screen_rule.format(name=SCREEN)] if screen else []
        lines.append(json_form(aspects, frame, explain=explain, screen=screen))
    else:
        values = {aspect.id: frame.value_placeholder for aspect in aspects}
        reasons = {aspect.id: frame.reason_placeholder for aspect in aspects} if explain else {}
        lines += [frame.text_format, *([frame.reason_rule] if explain else [])]
        lines.append(text_reply(aspects, language, values, reasons))
    return "\n".join(lines)


def json_form(aspects: tuple[Aspect, ...], frame: PromptFrame, *, explain: bool, screen: bool) -> str:
    """`{"naturalness": 1 | 2 | 3}`: the legal values are shown too, for endpoints that ignore the schema."""
    parts = [f'"{SCREEN}": true | false'] if screen else []
    for aspect in aspects:
        values = " | ".join(map(str, aspect.values))
        form = f'{{"reason": "{frame.reason_placeholder}", "rating": {values}}}' if explain else values
        parts.append(f'"{aspect.id}": {form}')
    return "{" + ", ".join(parts) + "}"


def text_reply(aspects: tuple[Aspect, ...], language: str, values: dict[str, str], reasons: dict[str, str]) -> str:
    """A reply in the text format, one line per aspect, each after its reason if `reasons` has one."""
    frame = frame_of(language)
    lines = []
    for aspect in aspects:
        name = aspect.name[language]
        if aspect.id in reasons:
            lines.append(f"{frame.reason_label.format(name=name)}: {reasons[aspect.id]}")
        lines.append(f"{name}: 「{values[aspect.id]}」")
    return "\n".join(lines)


def show_worked_examples(
    aspects: tuple[Aspect, ...], language: str, frame: PromptFrame, *, explain: bool, structured: bool, screen: bool
) -> list[str]:
    """The one-shot example with its reply; only for a call about one aspect, whose reply is a whole verdict."""
    if len(aspects) != 1 or aspects[0].one_shot is None:
        return []
    aspect, example = aspects[0], aspects[0].one_shot[language]
    lines = (
        frame.worked_heading,
        frame.worked_dialogue.format(dialogue=show_dialogue(example)),
        frame.worked_reply,
        worked_reply(aspect, example, language, explain=explain, structured=structured, screen=screen),
    )
    return ["\n".join(lines)]


def worked_reply(
    aspect: Aspect, example: WorkedExample, language: str, *, explain: bool, structured: bool, screen: bool = False
) -> str:
    """The whole verdict on the worked example, in the requested format."""
    if not structured:
        reasons = {aspect.id: example.reason} if explain else {}
        return text_reply((aspect,), language, {aspect.id: str(example.rating)}, reasons)
    screened = f'"{SCREEN}":false,' if screen else ""
    if explain:
        # canonical_json would sort `rating` before `reason`.
        reasoned = f'{{"reason":{canonical_json(example.reason)},"rating":{example.rating}}}'
        return f'{{{screened}"{aspect.id}":{reasoned}}}'
    return f'{{{screened}"{aspect.id}":{example.rating}}}'
