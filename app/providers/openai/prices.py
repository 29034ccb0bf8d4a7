"""What judging costs: prices of tokens, the fixed parts of prompts, and estimates made before any call."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, NamedTuple

from cachetools import FIFOCache
from pydantic import Field, ValidationError

from saiten.core.messages import Message
from saiten_server.core.dialogue import Dialogue, Utterance
from saiten_server.core.errors import SettingsInvalid
from saiten_server.core.model import Finite, Value, canonical_json
from saiten_server.core.rubric import Aspect
from saiten_server.core.token_estimate import UNIT, estimate_tokens, weigh_text
from saiten_server.judging.conversation_prompt import build_conversation_prefix, enclose_conversation
from saiten_server.judging.pair_prompt import build_pair_prefix, enclose_pair
from saiten_server.judging.prompt import SCREEN, Prefix, build_prefix, enclose
from saiten_server.providers.ports import JudgingEstimate, JudgingTask

RELEASE_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}\Z")
TOKENS_PER_PRICE = 1_000_000

Dollars = Annotated[Finite, Field(ge=0)]


class Price(Value):
    """US dollars per 1,000,000 tokens. `cached_input` are prompt tokens that the provider had in its prompt cache,
    `cache_write` those that it put there; None where these cost what others do."""

    input: Dollars
    cached_input: Dollars
    output: Dollars
    cache_write: Dollars | None = None


class Prices(Value):
    """Prices by model, with the day and the source they are from."""

    updated: str
    source: str
    models: dict[str, Price]

    def find(self, model: str) -> Price | None:
        """The model's price; a dated name (`gpt-6-luna-2026-09-22`) without one of its own has its family's."""
        return self.models.get(model) or self.models.get(RELEASE_DATE.sub("", model))

    def cost(
        self, model: str, *, prompt_tokens: int, cached_tokens: int, completion_tokens: int, written_tokens: int = 0
    ) -> float | None:
        """US dollars, or None where the price is not known. `cached_tokens`, read from the provider's prompt cache, and
        `written_tokens`, put into it, are among `prompt_tokens`, and none is both."""
        price = self.find(model)
        if price is None:
            return None
        cached_tokens = min(prompt_tokens, cached_tokens)
        written_tokens = min(prompt_tokens - cached_tokens, written_tokens)
        fresh_tokens = prompt_tokens - cached_tokens - written_tokens
        write_price = price.input if price.cache_write is None else price.cache_write
        prompt = fresh_tokens * price.input + cached_tokens * price.cached_input + written_tokens * write_price
        return (prompt + completion_tokens * price.output) / TOKENS_PER_PRICE


def read_prices(path: Path | None = None) -> Prices:
    """The table in `path`, or the one that ships. Raises SettingsInvalid where the file cannot be used."""
    source = path or files("saiten_server").joinpath("providers/openai/prices.json")
    try:
        return Prices.model_validate_json(source.read_bytes())
    except OSError as error:
        raise SettingsInvalid(
            Message("prices-not-read", file=str(source), problem=error.strerror or str(error))
        ) from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole file"
        raise SettingsInvalid(
            Message("prices-not-valid", file=str(source), place=where, problem=first["msg"])
        ) from error


# Kept at most. One is some tens of kilobytes; a rubric of ten aspects asked independently has ten a language.
PREFIXES = 256
Way = tuple[str, str, tuple[str, ...], bool, bool, bool, str]


class ReplyFormats(NamedTuple):
    """One fixed part in both reply formats."""

    structured: Prefix
    text: Prefix


class Prefixes:
    """Finds the fixed parts of a task's prompts. Keeps the last `limit` that were built, and forgets the oldest.
    Thread-safe: batches are estimated in threads, beside the event loop."""

    def __init__(self, limit: int = PREFIXES) -> None:
        self._kept: FIFOCache[Way, ReplyFormats] = FIFOCache(limit)
        self._lock = Lock()

    def find(self, task: JudgingTask, aspects: tuple[Aspect, ...]) -> ReplyFormats:
        """The fixed parts that ask for these aspects of the task's rubric. Raises LanguageNotSupported."""
        ids = tuple(aspect.id for aspect in aspects)
        shown = task.shown
        # What two are called tells the order, and whether they are conversations the rest.
        kind = "" if shown is None else f"{shown.names}{bool(shown.conversations)}"
        way = (task.rubric.digest, task.language, ids, task.options.explain, bool(task.references), task.screen, kind)
        with self._lock:
            found = self._kept.get(way)
        if found is None:
            build: Callable[..., Prefix]
            if shown is not None:
                build = partial(build_pair_prefix, task.rubric, task.language, shown, screen=task.screen)
            elif task.window is not None:
                build = partial(build_conversation_prefix, task.rubric, task.language, aspects, screen=task.screen)
            else:
                form = {"explain": task.options.explain, "references": bool(task.references), "screen": task.screen}
                build = partial(build_prefix, task.rubric, task.language, aspects, **form)
            found = ReplyFormats(build(structured=True), build(structured=False))
            with self._lock:
                self._kept[way] = found
        return found


CHAT_TOKENS = 10  # What the chat format itself takes: some tokens a message, and the opening of the reply
NAME_TOKENS = 2  # An aspect's id comes in more pieces than as many letters of prose: `interestingness` in three
TURNS_TOKENS = 10  # Of a list of faulty turns
REASON_TOKENS = 80  # Of an explanation: one sentence, which in Japanese has up to a hundred characters
CACHEABLE_TOKENS = 1024  # The shortest beginning of a prompt that OpenAI's prompt cache keeps
# The shortest by estimate, which is 8% to 22% above the count for the shipped prompts: rather too dear than too cheap
SURELY_CACHEABLE_TOKENS = 1250


class Forecast:
    """Estimates tasks, in any thread. What depends on rubric and options alone is computed once and kept, as the
    prefixes are."""

    def __init__(self, prefixes: Prefixes, prices: Prices, *, max_output_tokens: int) -> None:
        self._prefixes = prefixes
        self._prices = prices
        self._max_output_tokens = max_output_tokens
        self._fixed: FIFOCache[str, tuple[int, int]] = FIFOCache(PREFIXES)
        self._lock = Lock()
        self._contexts = ContextWeights()

    def estimate(self, task: JudgingTask, groups: Sequence[tuple[Aspect, ...]], model: str) -> JudgingEstimate:
        """What one question a group of aspects takes, asked once a sample. Raises LanguageNotSupported."""
        prefixes, completions = zip(*(self._count_fixed(task, aspects) for aspects in groups), strict=True)
        samples = task.options.samples
        calls = samples * len(groups)
        prefix_tokens = samples * sum(prefixes)
        kept_tokens = samples * sum(tokens for tokens in prefixes if tokens >= SURELY_CACHEABLE_TOKENS)
        spent = {
            "prompt_tokens": prefix_tokens + calls * count_user(task, self._contexts),
            "completion_tokens": samples * sum(completions),
        }
        return JudgingEstimate(
            calls=calls,
            prefix_tokens=prefix_tokens,
            cost_usd=self._prices.cost(model, cached_tokens=0, **spent),
            cost_usd_prefix_cached=self._prices.cost(model, cached_tokens=kept_tokens, **spent),
            **spent,
        )

    def _count_fixed(self, task: JudgingTask, aspects: tuple[Aspect, ...]) -> tuple[int, int]:
        """The tokens of a question that its dialogue does not change: those of its fixed part, and of the reply."""
        # The structured format is what is asked for first, and with its schema the longer one.
        prefix = self._prefixes.find(task, aspects).structured
        # Prompts about a conversation share a digest, whichever aspects apply.
        key = f"{prefix.digest}/{len(aspects)}"
        with self._lock:
            found = self._fixed.get(key)
        if found is None:
            reply_tokens = count_reply(aspects, explain=task.options.explain, screen=prefix.screen)
            if task.window is not None:
                reply_tokens += TURNS_TOKENS * len(aspects)
            found = count_prefix(prefix), min(reply_tokens, self._max_output_tokens)
            with self._lock:
                self._fixed[key] = found
        return found


class ContextWeights:
    """Weighs contexts, in hundredths of a token. Utterances of the last context are not weighed again: the contexts of
    a conversation's turns share them."""

    def __init__(self) -> None:
        # With the context, so that no other utterance can have the identity of one of its own.
        self._last: tuple[Sequence[Utterance], dict[int, int]] = ((), {})

    def weigh(self, context: Sequence[Utterance]) -> int:
        """The weight of all speakers and texts as JSON spells them."""
        last, known = self._last
        found: dict[int, int] = {}
        for said in context:
            weight = known.get(id(said)) if last else None
            found[id(said)] = weigh_escaped(said.speaker + said.text) if weight is None else weight
        self._last = context, found
        return sum(found[id(said)] for said in context)


def weigh_escaped(text: str) -> int:
    """The weight of a text as JSON spells it, without the quotes."""
    return weigh_text(json.dumps(text, ensure_ascii=False)[1:-1])


QUOTES = weigh_text('""')


def count_user(task: JudgingTask, contexts: ContextWeights) -> int:
    """The user message's tokens: those of its texts as JSON spells them, and those around them."""
    if task.shown is not None:
        return estimate_tokens(enclose_pair(task.shown, task.language))
    if task.window is not None:
        return estimate_tokens(enclose_conversation(task.window, task.language))
    message_tokens, utterance_tokens = count_frame(task.language, len(task.references))
    context = task.dialogue.context
    rest = weigh_escaped("".join((task.dialogue.response, *task.references)))
    content_tokens = -(-(contexts.weigh(context) + rest + QUOTES) // UNIT)
    return message_tokens + len(context) * utterance_tokens + content_tokens


def count_prefix(prefix: Prefix) -> int:
    """Tokens of the system message, the schema and the chat format."""
    schema = canonical_json(prefix.schema) if prefix.schema else ""
    return CHAT_TOKENS + estimate_tokens(prefix.system) + estimate_tokens(schema)


def count_reply(aspects: tuple[Aspect, ...], *, explain: bool, screen: bool = False) -> int:
    """Tokens of a verdict on these aspects in JSON, with a reason for each where `explain` is set."""
    verdict: dict[str, Any] = {SCREEN: False} if screen else {}
    verdict |= {
        aspect.id: {"reason": "", "rating": aspect.values[0]} if explain else aspect.values[0] for aspect in aspects
    }
    of_aspect = NAME_TOKENS + (REASON_TOKENS if explain else 0)
    return estimate_tokens(json.dumps(verdict)) + len(aspects) * of_aspect


@lru_cache(maxsize=64)
def count_frame(language: str, references: int) -> tuple[int, int]:
    """The tokens of a user message that holds no text, and how many an utterance without text adds."""
    blank = Utterance.model_construct(speaker="", text="")
    without, one = (
        estimate_tokens(enclose(Dialogue.model_construct(context=context, response=""), ("",) * references, language))
        for context in ((), (blank,) * 100)
    )
    # Over a hundred, because the digest in the boundary lines is another one for each message.
    return without, -(-(one - without) // 100)
