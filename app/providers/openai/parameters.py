"""The parameters sent to a chat endpoint, and the concessions when the endpoint refuses one of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from saiten.core.messages import Message
from saiten.core.strict_json import StrictJSONError, parse_strict_json
from saiten_server.core.errors import InvalidRequest, SettingsInvalid
from saiten_server.core.evaluation import JudgeOptions
from saiten_server.core.model import canonical_json, encode_pieces
from saiten_server.core.rubric import Aspect
from saiten_server.judging.prompt import Prompt

# Members of a request that Saiten sets, or that would change the form of the answer
RESERVED = frozenset({
    "model", "messages", "response_format", "temperature", "seed", "logprobs", "top_logprobs", "max_tokens",
    "max_completion_tokens", "n", "stream", "stream_options", "prompt_cache_key", "prompt_cache_options",
})  # fmt: skip
CHOICE = frozenset({"allow", "default"})
EXTRA_FORM = Message("judge-extra-form")


@dataclass(frozen=True)
class Extra:
    """`defaults` are sent with every call; a request may name a member with one of the values `allowed` for it, each as
    canonical JSON."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    allowed: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def settle(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What is sent for a request that asks for this. Raises InvalidRequest for what the operator does not allow."""
        for name, value in asked.items():
            if canonical_json(value) not in self.allowed.get(name, ()):
                raise InvalidRequest(self._explain(name), pointer=f"/judge/extra/{name}")
        return {**self.defaults, **asked}

    def _explain(self, name: str) -> Message:
        if name in self.allowed:
            return Message(
                "judge-extra-value-not-allowed", name=name, names=", ".join(sorted(self.allowed[name]))[:200]
            )
        known = ", ".join(sorted(self.allowed)) or "nothing"
        return Message("judge-extra-not-allowed", name=name, names=known[:200])


NO_EXTRA = Extra()


def read_extra(written: str | None) -> Extra:
    """What `SAITEN_JUDGE_EXTRA` says. Raises SettingsInvalid."""
    if written is None:
        return NO_EXTRA
    try:
        members = parse_strict_json(written.encode())
    except (StrictJSONError, UnicodeEncodeError):
        members = None
    if not isinstance(members, dict):
        raise SettingsInvalid(EXTRA_FORM)
    if taken := sorted(RESERVED & set(members)):
        raise SettingsInvalid(Message("judge-extra-reserved", names=", ".join(taken)))
    defaults: dict[str, Any] = {}
    allowed: dict[str, frozenset[str]] = {}
    for name, value in members.items():
        chosen = isinstance(value, dict) and "allow" in value and set(value) <= CHOICE
        choices = value["allow"] if chosen else [value]
        if not isinstance(choices, list):
            raise SettingsInvalid(Message("judge-extra-no-list", form=EXTRA_FORM, name=name))
        if not chosen:
            defaults[name] = value
        elif "default" in value:
            defaults[name] = value["default"]
            choices = [*choices, value["default"]]
        allowed[name] = frozenset(map(canonical_json, choices))
    return Extra(defaults, allowed)


HOST = "api.openai.com"  # Regions have theirs below it: `jp.api.openai.com`
GPT_VERSION = re.compile(r"gpt-(\d{1,3})(?:\.(\d{1,3}))?(?![\d.])")
FIRST_MARKED = (5, 6)  # GPT-5.6: the first family that takes marks
CACHE_MARKS = "prompt_cache_options"  # Stands for all of them among the parameters that an endpoint was found to refuse
FAMILY = "prompt_cache"  # What the names of all of them begin with


def is_openais(url: str) -> bool:
    """Whether that is OpenAI's own service. What only resembles it need not know the marks."""
    host = urlsplit(url).hostname or ""
    return host == HOST or host.endswith("." + HOST)


def takes_marks(model: str) -> bool:
    """Whether a model of OpenAI's own service, by its name, keeps what is marked and nothing else."""
    version = GPT_VERSION.match(model)
    return version is not None and (int(version[1]), int(version[2] or 0)) >= FIRST_MARKED


def mark_prefix(body: dict[str, Any], prefix_digest: str) -> dict[str, Any]:
    """The body with its first message, which is fixed, marked as the end of what is to be kept. Requests with the same
    `prompt_cache_key` go to the same cache; it is the digest of the fixed part, hence of no dialogue."""
    first, *rest = body["messages"]
    text = {"type": "text", "text": first["content"], "prompt_cache_breakpoint": {"mode": "explicit"}}
    return body | {
        "messages": [first | {"content": [text]}, *rest],
        "prompt_cache_key": f"saiten-{prefix_digest[:32]}",
        CACHE_MARKS: {"mode": "explicit"},
    }


# Models that think before they answer, and take a temperature only while they do not
REASONING_MODEL = re.compile(r"(?:.*/)?(?:gpt-[5-9]|o[1-9])")
NEGOTIABLE = (
    "temperature", "seed", "top_logprobs", "logprobs", "reasoning_effort", "response_format", "max_completion_tokens",
    "max_tokens",
)  # fmt: skip
WIDE_TOP_LOGPROBS, NARROW_TOP_LOGPROBS = 20, 5
NARROWED = "top_logprobs"  # Among what is given up: alternatives narrowed to 5, or with `:3` behind it to 3
LARGEST_PLAIN_REPLY_BYTES = 2**20  # A completion of a few thousand tokens has some tens of kilobytes
# Of one token among the alternatives, indented as OpenAI does it, with its bytes one a line: about 230
CHOICE_BYTES = 256
TOO_LONG = re.compile(r"context.?(?:length|window)|maximum context|too (?:long|many tokens)", re.IGNORECASE)
PARAMETER_NAME = re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(NEGOTIABLE)})(?![A-Za-z0-9_])")
FIRST_SEED = 20_240_719  # The first sample's seed. Any fixed number will do; the signature shows it.
RETRY_SEED_STEP = 1_000_000
# How many alternatives an endpoint allows: "greater than max allowed: 5", "must be less than or equal to 5"
ALLOWED = re.compile(
    r"(?:max(?:imum)?|less than or equal to|at most|no more than|up to|<=|between \d+ and)\D{0,24}(\d{1,3})(?!\d)",
    re.IGNORECASE,
)
# What endpoints call `response_format` that do not name the parameter
FORMAT = re.compile(
    r"json[_ -]?schema|response[_ -]?format|structured[_ -]?outputs?|guided[_ -]?(?:json|decoding)|\bgrammars?\b",
    re.IGNORECASE,
)
# What llama.cpp says with HTTP 500 where it cannot hold a reply to the schema
BROKEN_FORMAT = re.compile(
    r"json_schema\W+or\W+grammar|JSON schema conversion failed|failed to parse grammar", re.IGNORECASE
)
MOST_REPLY_BYTES = 64 * 2**20  # Of any reply, whatever a caller asks for
CACHE_FORMAT = 2  # Raise it whenever the request body changes in a way that no part of the key shows


@dataclass(frozen=True)
class Question:
    """One thing to ask the judge: some aspects of one dialogue, as a structured and as a text prompt. The two prompts
    differ only in their fixed part. `sample` counts from 0. `attempt` counts the repetitions after malformed
    replies. The options' `extra` holds all further parameters, including the operator's. `marked` is whether the end
    of the fixed part is marked for the provider's prompt cache. `turns` are the numbers of the system's turns if a
    conversation is rated, and `kinds` the kinds of faults that its rubric tells apart. `lenient` is how the reply is
    read, as in `read_verdict`. `words` are those of a verdict on two, with what they mean."""

    model: str
    aspects: tuple[Aspect, ...]
    language: str
    options: JudgeOptions
    structured: Prompt
    text: Prompt
    max_output_tokens: int
    sample: int = 0
    attempt: int = 0
    marked: bool = False
    turns: tuple[int, ...] | None = None
    kinds: tuple[str, ...] = ()
    lenient: bool = False
    words: Mapping[str, int] | None = None

    def prompt(self, *, structured: bool) -> Prompt:
        return self.structured if structured else self.text

    def parameters(self, conceded: tuple[str, ...] = ()) -> dict[str, Any]:
        """The parameters in force once `conceded` are given up, as the signature names them."""
        temperature = self.options.temperature
        # An integer is written as one: 0 stands so in every signature and cache key that there is.
        written = int(temperature) if temperature.is_integer() else temperature
        found: dict[str, Any] = {"temperature": written, "seed": FIRST_SEED}
        if REASONING_MODEL.match(self.model):
            found["reasoning_effort"] = "none"
        found |= self.options.extra
        if self.options.expected and "logprobs" not in conceded:
            found["top_logprobs"] = width_of(conceded)
        for name in conceded:
            if not name.startswith("top_logprobs"):
                found.pop(name, None)
        limits = ["max_completion_tokens", "max_tokens"]
        if not REASONING_MODEL.match(self.model):
            limits.reverse()
        if limit := next((name for name in limits if name not in conceded), None):
            found[limit] = self.max_output_tokens
        found["response_format"] = "text" if "response_format" in conceded else "json_schema"
        return found

    def body(self, conceded: tuple[str, ...] = ()) -> dict[str, Any]:
        """The request body, less the parameters in `conceded` or with what stands in for them."""
        structured = "response_format" not in conceded
        prompt = self.prompt(structured=structured)
        body = self._settle(conceded) | {"messages": prompt.messages}
        if structured:
            schema = {"name": "verdict", "strict": True, "schema": prompt.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return mark_prefix(body, prompt.prefix_digest) if self.marked and CACHE_MARKS not in conceded else body

    def key(self, endpoint: str) -> str:
        """The call cache's key: digest of the endpoint, of everything that may be sent, and of which call."""
        # Which of the two prompts is sent shows only once the endpoint was asked, so both decide. Their fixed parts
        # enter as digests that were taken once, and the dialogue, which is the same in both, as it is.
        prefixes = [self.structured.prefix_digest, self.text.prefix_digest]
        settled, extra = self._settle(), self.options.extra
        own = tuple((name, value) for name, value in settled.items() if name not in extra)
        fixed = open_key(endpoint, own, *prefixes)
        more = f",{canonical_json(extra)}" if extra else ""
        found = hashlib.sha256(f"{fixed},".encode())
        for piece in encode_pieces(self.structured.user):
            found.update(piece)
        found.update(f",{self.sample},{self.attempt}{more}]".encode())
        return found.hexdigest()

    def _settle(self, conceded: tuple[str, ...] = ()) -> dict[str, Any]:
        """The body's model and parameters, less `response_format`, as this very call sends them."""
        body = self.parameters(conceded) | {"model": self.model}
        del body["response_format"]
        if "seed" in body:
            # Another seed for the repetition, so that an endpoint which keeps to its seed may answer differently.
            body["seed"] = FIRST_SEED + self.sample + RETRY_SEED_STEP * self.attempt
        if "top_logprobs" in body:
            body["logprobs"] = True
        return body


@lru_cache(maxsize=256)
def open_key(endpoint: str, settled: tuple[tuple[str, Any], ...], *prefixes: str) -> str:
    """Canonical JSON of what a key is the digest of, up to the dialogue: the same for all dialogues of a run."""
    return canonical_json(["judge", CACHE_FORMAT, endpoint, dict(settled), [*prefixes]]).removesuffix("]")


def bound_reply(max_output_tokens: int) -> int:
    """The most bytes that an honest reply with token probabilities may have, 64 MiB at most."""
    return min(MOST_REPLY_BYTES, LARGEST_PLAIN_REPLY_BYTES + max_output_tokens * (1 + WIDE_TOP_LOGPROBS) * CHOICE_BYTES)


def find_refused(body: dict[str, Any], message: str, param: str | None, code: str | None) -> str | None:
    """Which parameter of `body` an HTTP 400 is about, as `concede` takes it; None where it is about something else. An
    endpoint's `param` decides where it is given; only without one is the message searched for the first name, then for
    other words for `response_format`."""
    if (code or "") == "context_length_exceeded" or TOO_LONG.search(message):
        # vLLM names `max_tokens` here, but it is this dialogue that does not fit, not the parameter.
        return None
    if CACHE_MARKS in body and FAMILY in f"{param or ''} {message}":
        return CACHE_MARKS
    named = [re.split(r"[.\[]", param)[0]] if param else PARAMETER_NAME.findall(message)
    refused = next((name for name in named if name in NEGOTIABLE and name in body), None)
    if refused is None and not param and "response_format" in body and FORMAT.search(message):
        return "response_format"
    return narrow_alternatives(body, message) or refused if refused in {"logprobs", "top_logprobs"} else refused


def narrow_alternatives(body: dict[str, Any], message: str) -> str | None:
    """The concession that leaves as many alternatives as the message allows; None where it names no smaller number."""
    found = ALLOWED.search(message)
    most = int(found[1]) if found else 0
    if not 0 < most < body.get("top_logprobs", 0):
        return None
    return NARROWED if most == NARROW_TOP_LOGPROBS else f"{NARROWED}:{most}"


def width_of(conceded: tuple[str, ...]) -> int:
    """How many alternatives are asked for of each token once `conceded` are given up."""
    parts = (name.partition(":") for name in conceded)
    widths = (int(width or NARROW_TOP_LOGPROBS) for name, _, width in parts if name == NARROWED)
    return min(widths, default=WIDE_TOP_LOGPROBS)


def concede(conceded: tuple[str, ...], refused: str) -> tuple[str, ...]:
    """The parameters given up, with one more. `top_logprobs` first gives way in value, then with `logprobs`."""
    if refused in conceded or (refused.startswith(NARROWED) and width_of((refused,)) >= width_of(conceded)):
        return (*conceded, "logprobs")
    return (*conceded, refused)


def name_dropped(conceded: tuple[str, ...]) -> tuple[str, ...]:
    """The parameters given up, as results list them: each once, without the marks."""
    names = (name.partition(":")[0] for name in conceded)
    return tuple(dict.fromkeys(name for name in names if name != CACHE_MARKS))
