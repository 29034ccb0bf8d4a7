"""A dialogue context and the response under evaluation, and the requirements that a text must meet to be judged."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationInfo

from saiten.core.messages import Message, Misfit
from saiten.core.plain_text import cut_mark_runs
from saiten_server.core.model import Value, digest, listed

NOT_IN_TEXTS = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff]")
"""Lone surrogates and C0 controls other than tab and newline."""

NOT_IN_LINES = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
"""The same, plus tab, delete and every line break."""

FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\U0001d159")
"""Code points that Unicode classes as letters or symbols but that are invisible."""

UNASSIGNED_INVISIBLE = re.compile("[\u2065\ufdd0-\ufdef\ufff0-\uffff\U000e0000-\U000e0fff]")
"""Unassigned code points that Unicode reserves for invisible use, and noncharacters."""

LETTER = re.compile("[!-~ぁ-ゖァ-ヺ一-鿿가-힣]")
"""Common visible characters. A text with one of them needs no further check."""

EXPANSION = 4
"""How much longer a text may become under NFKC. ㍿ becomes four code points; only rarities (U+FDFA: 18) become more."""

LONGEST_EXPANSION = 18
"""The most code points that one code point becomes under NFKC. Composition only shortens."""


class Limits(Value):
    """The limits of a request, which the operator may change. Lengths are in code points."""

    model_config = ConfigDict(strict=False)  # values come from environment variables, which are strings

    body_bytes: int = Field(default=4 * 1024 * 1024, ge=1024, description="largest request body, in bytes")
    context_utterances: int = Field(default=200, ge=1, description="most utterances of a dialogue context")
    text_characters: int = Field(default=8000, ge=1, description="longest utterance or response")
    speaker_characters: int = Field(default=64, ge=1, description="longest speaker name")
    samples: int = Field(default=16, ge=1, description="most samples of one judgement")
    judge_calls: int = Field(
        default=1_000, ge=1, description="most judge calls of one request: turns × samples × paths × windows"
    )
    judge_tokens: int = Field(
        default=25_000_000, ge=1, description="most tokens of the prompts of one request, by Saiten's estimate"
    )
    metadata_entries: int = Field(default=16, ge=0, description="most metadata entries")
    metadata_characters: int = Field(default=256, ge=1, description="longest metadata key or value")
    references: int = Field(default=16, ge=1, description="most reference texts")
    batch_items: int = Field(default=100_000, ge=1, description="most candidates of a batch")
    batch_bytes: int = Field(default=1024**3, ge=1024, description="largest batch body, in bytes")
    analysis_bytes: int = Field(
        default=64 * 1024 * 1024, ge=1024, description="largest NDJSON or CSV body of an analysis, in bytes"
    )
    responses: int = Field(default=64, ge=1, description="most candidates of one item of a batch")
    item_id_characters: int = Field(default=128, ge=1, description="longest id of an item")
    name_characters: int = Field(default=128, ge=1, description="longest name of a batch")


DEFAULT_LIMITS = Limits()
UNBOUNDED = Limits(**dict.fromkeys(Limits.model_fields, 2**62))
"""For values whose limits were checked elsewhere."""

CHECKED = UNBOUNDED.model_copy()
"""For stored values, whose texts are not checked again: they stay readable if an operator lowers a limit."""


def limits_of(info: ValidationInfo) -> Limits:
    """The limits in force: those in the validation context, else the defaults."""
    context = info.context
    found = context.get("limits") if isinstance(context, dict) else None
    return found if isinstance(found, Limits) else DEFAULT_LIMITS


def at_most(limit: str, say: Callable[[int, int], Message]) -> AfterValidator:
    """Refuses a number, or a collection of items, beyond this field of `Limits`. `say` is given the most that there may
    be, and how many there are."""

    def check(value: Any, info: ValidationInfo) -> Any:
        maximum, count = getattr(limits_of(info), limit), value if isinstance(value, int) else len(value)
        if count > maximum:
            raise Misfit(say(maximum, count))
        return value

    return AfterValidator(check)


def requested_from(least: float) -> AfterValidator:
    """Refuses a smaller number in a request. One that was stored before there was this bound is still read."""

    def check(value: float, info: ValidationInfo) -> float:
        if value < least and limits_of(info) is not CHECKED:
            raise Misfit(Message("must-be-at-least", ge=least))
        return value

    return AfterValidator(check)


def is_invisible(character: str) -> bool:
    """Whether the character is invisible: spaces, controls, format characters, fillers, lone marks and selectors.
    Private-use characters (gaiji) are visible, and so are those that this Python's Unicode data does not know yet."""
    if character in FILLERS:
        return True
    category = unicodedata.category(character)
    if category == "Cn":
        return UNASSIGNED_INVISIBLE.match(character) is not None
    return category[0] in "ZCM" and category != "Co"


def refuse_controls(text: str, *, one_line: bool = False) -> None:
    """Raises ValueError for lone surrogates and for C0 controls other than tab and newline (LF or CRLF)."""
    if one_line:
        found = NOT_IN_LINES.search(text)
    else:
        found = NOT_IN_TEXTS.search(text.replace("\r\n", "\n") if "\r" in text else text)
    if found is None:
        return
    if "\ud800" <= (character := found[0]) <= "\udfff":
        raise Misfit(Message("lone-surrogate"))
    raise Misfit(Message("control-character", code=ord(character)))


def check_length(text: str, maximum: int, what: Message) -> None:
    """Raises ValueError if `text` is longer than `maximum` code points, or `EXPANSION` times that after NFKC."""
    if len(text) > maximum:
        raise Misfit(Message("text-most", what=what, maximum=maximum, count=len(text)))
    # The judge's tokenizer sees something closer to the NFKC form.
    if LONGEST_EXPANSION * len(text) <= EXPANSION * maximum:
        return
    kept = cut_mark_runs(text)
    length = len(unicodedata.normalize("NFKC", kept)) + len(text) - len(kept)
    if length > EXPANSION * maximum:
        most = EXPANSION * maximum
        raise Misfit(Message("text-most-normalized", what=what, maximum=most, count=length))


def check_text(text: str, info: ValidationInfo) -> str:
    """An utterance, response or reference; raises ValueError that names the limit it exceeds."""
    limits = limits_of(info)
    if limits is CHECKED:
        return text
    refuse_controls(text)
    check_length(text, limits.text_characters, Message("a-text"))
    refuse_invisible(text)
    return text


def refuse_invisible(text: str) -> None:
    """Raises ValueError if a reader would see nothing."""
    if not LETTER.search(text) and all(map(is_invisible, text)):
        raise Misfit(Message("text-blank"))


def check_line(text: str, info: ValidationInfo, *, limit: str, what: Message, blank: bool) -> str:
    """A text of one line; `limit` names the field of `Limits` that bounds it."""
    limits = limits_of(info)
    if limits is CHECKED:
        return text
    refuse_controls(text, one_line=True)
    check_length(text, getattr(limits, limit), what)
    if not blank:
        refuse_invisible(text)
    return text


def lengths(maximum: int) -> Any:
    """The length limits of a text for the JSON schema, with the default limit."""
    return Field(json_schema_extra={"minLength": 1, "maxLength": maximum})


Text = Annotated[str, lengths(DEFAULT_LIMITS.text_characters), AfterValidator(check_text)]
Speaker = Annotated[
    str,
    lengths(DEFAULT_LIMITS.speaker_characters),
    AfterValidator(partial(check_line, limit="speaker_characters", what=Message("a-speaker"), blank=False)),
]
MetadataKey = Annotated[
    str, AfterValidator(partial(check_line, limit="metadata_characters", what=Message("metadata-key"), blank=False))
]
MetadataValue = Annotated[
    str, AfterValidator(partial(check_line, limit="metadata_characters", what=Message("metadata-value"), blank=True))
]


class Utterance(Value):
    """What one speaker said, verbatim."""

    speaker: Speaker
    text: Text


def digest_context(context: Sequence[Utterance]) -> str:
    """A digest of the dialogue context, equal for equal contexts: 16 hexadecimal digits."""
    return digest([[utterance.speaker, utterance.text] for utterance in context])[:16]


ANSWERED, ANSWERING = "user", "assistant"
"""The speakers of a context of strings, as the command names them: who spoke last and is answered, and who answers."""


def check_context(context: Any, info: ValidationInfo) -> Any:
    """The context, with alternating speakers where it holds strings alone. Raises ValueError if it has too many
    utterances. Runs before they are read: it is one error."""
    maximum = limits_of(info).context_utterances
    if not isinstance(context, list | tuple):
        return context
    if len(context) > maximum:
        raise Misfit(Message("context-most", maximum=maximum, count=len(context)))
    if not all(isinstance(utterance, str) for utterance in context):
        return context
    last = len(context) - 1
    return [
        {"speaker": ANSWERING if (last - place) % 2 else ANSWERED, "text": text} for place, text in enumerate(context)
    ]


Context = Annotated[
    tuple[Utterance, ...],
    listed(minimum=1),
    BeforeValidator(
        check_context,
        json_schema_input_type=Annotated[list[Utterance], Field(min_length=1)]
        | Annotated[list[Text], Field(min_length=1)],
    ),
]


class Dialogue(Value):
    """A dialogue context (oldest utterance first) and the response that would follow it."""

    context: Context
    response: Text

    @property
    def last_utterance(self) -> str:
        return self.context[-1].text


def responder_of(context: Sequence[Utterance]) -> str | None:
    """The speaker of the response: the last one other than the last speaker, or None if there is no other."""
    last = context[-1].speaker if context else None
    return next((said.speaker for said in reversed(context) if said.speaker != last), None)
