"""What judging a dialogue would take, reckoned from the prompts that would be sent. Asks nobody."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.adapters.openai.prefixes import PREFIXES, Prefixes
from app.adapters.openai.prices import Prices
from app.domain.dialogue import Dialogue, Utterance
from app.domain.model import canonical_json
from app.domain.prompt import Prefix, enclose
from app.domain.rubric import Aspect
from app.domain.token_estimate import estimate_tokens
from app.domain.verdict_parts import SCREEN
from app.ports import Estimate, JudgingTask

CHAT_TOKENS = 10
"""What the chat format itself takes: some tokens a message, and the opening of the reply."""
NAME_TOKENS = 2
"""An aspect's id comes in more pieces than as many letters of prose: `interestingness` in three."""
REASON_TOKENS = 80
"""Of an explanation: one sentence, which in Japanese has up to a hundred characters."""
CACHEABLE_TOKENS = 1024
"""The shortest beginning of a prompt that OpenAI's prompt cache keeps."""
SURELY_CACHEABLE_TOKENS = 1250
"""The shortest by estimate, which is 8 % to 22 % above the count for the shipped prompts: rather too dear than too
cheap."""


@dataclass(frozen=True)
class Fixed:
    """The tokens of a question that its dialogue does not change."""

    prefix_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Frame:
    """The tokens around the texts of a user message: those of the message itself, and of each utterance's names."""

    message_tokens: int
    utterance_tokens: int


class Forecast:
    """Estimates tasks. What depends on rubric and options alone is reckoned once and kept, as the prefixes are."""

    def __init__(self, prefixes: Prefixes, prices: Prices, *, max_output_tokens: int) -> None:
        self._prefixes = prefixes
        self._prices = prices
        self._max_output_tokens = max_output_tokens
        self._fixed: dict[str, Fixed] = {}
        self._frames: dict[tuple[str, int], Frame] = {}

    def estimate(self, task: JudgingTask, groups: Sequence[tuple[Aspect, ...]], model: str) -> Estimate:
        """What one question a group of aspects takes, asked once a sample. Raises LanguageNotSupported."""
        questions = [self._find_fixed(task, aspects) for aspects in groups]
        samples = task.options.samples
        calls = samples * len(questions)
        prefix_tokens = samples * sum(question.prefix_tokens for question in questions)
        kept_tokens = samples * sum(
            question.prefix_tokens for question in questions if question.prefix_tokens >= SURELY_CACHEABLE_TOKENS
        )
        prompt_tokens = prefix_tokens + calls * self._count_user(task)
        spent = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": samples * sum(question.completion_tokens for question in questions),
        }
        return Estimate(
            calls=calls,
            prefix_tokens=prefix_tokens,
            cost_usd=self._prices.cost(model, cached_tokens=0, **spent),
            cost_usd_prefix_cached=self._prices.cost(model, cached_tokens=kept_tokens, **spent),
            **spent,
        )

    def _find_fixed(self, task: JudgingTask, aspects: tuple[Aspect, ...]) -> Fixed:
        # The structured format is what is asked for first, and with its schema the longer one.
        prefix = self._prefixes.find(task, aspects).structured
        found = self._fixed.get(prefix.digest)
        if found is None:
            found = Fixed(
                count_prefix(prefix),
                min(count_reply(aspects, explain=task.options.explain, screen=prefix.screen), self._max_output_tokens),
            )
            if len(self._fixed) >= PREFIXES:
                del self._fixed[next(iter(self._fixed))]
            self._fixed[prefix.digest] = found
        return found

    def _count_user(self, task: JudgingTask) -> int:
        """The user message's tokens: those of its texts as JSON spells them, and those around them."""
        key = task.language, len(task.references)
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = count_frame(*key)
        context = task.dialogue.context
        texts = [task.dialogue.response, *task.references]
        for said in context:
            texts += (said.speaker, said.text)
        content = json.dumps("".join(texts), ensure_ascii=False)
        return frame.message_tokens + len(context) * frame.utterance_tokens + estimate_tokens(content)


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


def count_frame(language: str, references: int) -> Frame:
    """The tokens of a user message that holds no text, and how many an utterance without text adds."""
    blank = Utterance.model_construct(speaker="", text="")
    without, one = (
        estimate_tokens(enclose(Dialogue.model_construct(context=context, response=""), ("",) * references, language))
        for context in ((), (blank,) * 100)
    )
    # Over a hundred, because the digest in the boundary lines is another one for each message.
    return Frame(without, -(-(one - without) // 100))
