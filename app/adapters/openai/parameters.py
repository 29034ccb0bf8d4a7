"""Which parameters a chat endpoint is sent, and how it gives way when the endpoint refuses one of them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

from app.adapters.openai.cache_marks import MARKS, is_about_marks, mark_prefix
from app.domain.evaluation import JudgeOptions
from app.domain.model import canonical_json
from app.domain.prompt import Prompt
from app.domain.rubric import Aspect

REASONING_MODEL = re.compile(r"(?:.*/)?(?:gpt-[5-9]|o[1-9])")
"""Models that think before they answer, and take a temperature only while they do not."""

NEGOTIABLE = (
    "temperature",
    "seed",
    "top_logprobs",
    "logprobs",
    "reasoning_effort",
    "response_format",
    "max_completion_tokens",
    "max_tokens",
)
WIDE_TOP_LOGPROBS, NARROW_TOP_LOGPROBS = 20, 5
LARGEST_PLAIN_REPLY_BYTES = 2**20
"""A completion of a few thousand tokens has some tens of kilobytes."""
CHOICE_BYTES = 256
"""Of one token among the alternatives, indented as OpenAI does it, with its bytes one a line: about 230."""
TOO_LONG = re.compile(r"context.?(?:length|window)|maximum context|too (?:long|many tokens)", re.IGNORECASE)
PARAMETER_NAME = re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(NEGOTIABLE)})(?![A-Za-z0-9_])")
SEED = 20_240_719
"""The first sample's seed. Any fixed number will do; the signature shows it."""
RETRY_SEED_STEP = 1_000_000
CACHE_FORMAT = 2
"""Raise it whenever the request body changes in a way that no part of the key shows."""


@dataclass(frozen=True)
class Question:
    """One thing to ask the judge: some aspects of one dialogue, as a structured and as a text prompt.

    The two prompts differ in their fixed part only. `sample` counts from 0. `attempt` is 0 for the first and 1 for
    the one repetition after a malformed reply. `marked` is whether the end of the fixed part is marked for the
    provider's prompt cache.
    """

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

    def prompt(self, *, structured: bool) -> Prompt:
        return self.structured if structured else self.text

    def parameters(self, conceded: tuple[str, ...] = ()) -> dict[str, Any]:
        """The parameters in force once `conceded` are given up, as the signature names them."""
        found: dict[str, Any] = {"temperature": 0, "seed": SEED}
        if REASONING_MODEL.match(self.model):
            found["reasoning_effort"] = "none"
        if self.options.expected and "logprobs" not in conceded:
            found["top_logprobs"] = NARROW_TOP_LOGPROBS if "top_logprobs" in conceded else WIDE_TOP_LOGPROBS
        for name in conceded:
            if name != "top_logprobs":
                found.pop(name, None)
        if limit_name := self._limit_name(conceded):
            found[limit_name] = self.max_output_tokens
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
        return mark_prefix(body, prompt.prefix_digest) if self.marked and MARKS not in conceded else body

    def key(self, endpoint: str) -> str:
        """The call cache's key: digest of the endpoint, of everything that may be sent, and of which call."""
        # Which of the two prompts is sent shows only once the endpoint was asked, so both decide. Their fixed parts
        # enter as digests that were taken once, and the dialogue, which is the same in both, as it is.
        prefixes = [self.structured.prefix_digest, self.text.prefix_digest]
        fixed = open_key(endpoint, tuple(self._settle().items()), *prefixes)
        written = f"{fixed},{encode_basestring(self.structured.user)},{self.sample},{self.attempt}]"
        return hashlib.sha256(written.encode()).hexdigest()

    def _settle(self, conceded: tuple[str, ...] = ()) -> dict[str, Any]:
        """The body's model and parameters, less `response_format`, as this very call sends them."""
        body = self.parameters(conceded) | {"model": self.model}
        del body["response_format"]
        if "seed" in body:
            # Another seed for the repetition, so that an endpoint which keeps to its seed may answer differently.
            body["seed"] = SEED + self.sample + RETRY_SEED_STEP * self.attempt
        if "top_logprobs" in body:
            body["logprobs"] = True
        return body

    def _limit_name(self, conceded: tuple[str, ...]) -> str | None:
        names = ["max_completion_tokens", "max_tokens"]
        if not REASONING_MODEL.match(self.model):
            names.reverse()
        return next((name for name in names if name not in conceded), None)


@lru_cache(maxsize=256)
def open_key(endpoint: str, settled: tuple[tuple[str, Any], ...], *prefixes: str) -> str:
    """Canonical JSON of what a key is the digest of, up to the dialogue: the same for all dialogues of a run."""
    return canonical_json(["judge", CACHE_FORMAT, endpoint, dict(settled), [*prefixes]]).removesuffix("]")


def bound_reply(max_output_tokens: int) -> int:
    """The most bytes that an honest reply with token probabilities may have."""
    return LARGEST_PLAIN_REPLY_BYTES + max_output_tokens * (1 + WIDE_TOP_LOGPROBS) * CHOICE_BYTES


def find_refused(body: dict[str, Any], message: str, param: str | None, code: str | None) -> str | None:
    """Which parameter of `body` an HTTP 400 is about; None where it is about something else.

    An endpoint's `param` decides where it is given; only without one is the message searched for the first name.
    """
    if (code or "") == "context_length_exceeded" or TOO_LONG.search(message):
        # vLLM names `max_tokens` here, but it is this dialogue that does not fit, not the parameter.
        return None
    if is_about_marks(body, message, param):
        return MARKS
    named = [re.split(r"[.\[]", param)[0]] if param else PARAMETER_NAME.findall(message)
    return next((name for name in named if name in NEGOTIABLE and name in body), None)


def concede(conceded: tuple[str, ...], refused: str) -> tuple[str, ...]:
    """The parameters given up, with one more. `top_logprobs` first gives way in value, then with `logprobs`."""
    if refused in conceded:
        return (*conceded, "logprobs")
    return (*conceded, refused)
