"""The judge `local`: asks a model in this process, in batches of what is in flight.

The questions, the reader of their replies and the call cache are those of the judge `openai`; there is no endpoint, so
nothing is negotiated, retried, limited or paid for. Replies are greedy: the same question has the same reply, and is
not asked again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from saiten.core.messages import Message
from saiten_server.core.errors import InvalidRequest, JudgeUnavailable, SaitenError, SettingsInvalid
from saiten_server.platform.coalescing import Coalescer
from saiten_server.providers.chat_model import (
    ALTERNATIVES,
    ChatModel,
    ChatModelChoice,
    ChatRequest,
    Completion,
    load_chat_model,
)
from saiten_server.providers.huggingface import Worker
from saiten_server.providers.openai.judge import EndpointAddress, OpenAIJudge
from saiten_server.providers.openai.parameters import Question
from saiten_server.providers.openai.prices import Price, Prices
from saiten_server.providers.openai.reply import Reply, read_completion
from saiten_server.providers.ports import Judgement, JudgingEstimate, JudgingTask

LINGER_SECONDS = 0.02
"""How long a batch waits for the rows that the last one has made room for: they are read meanwhile."""

NOT_SENT = ("seed", "reasoning_effort", "top_logprobs")


class LocalEndpoint:
    """Answers questions with one model, at most `most` at once. The model is loaded at the first use, and runs in a
    thread of its own. A failed load is remembered. For one event loop."""

    def __init__(
        self, choice: ChatModelChoice, *, most: int, load: Callable[[ChatModelChoice], ChatModel] = load_chat_model
    ) -> None:
        self._choice = choice
        self._load = load
        self._worker = Worker("local-judge")
        self._batches = Coalescer(self._complete, most=most, linger_seconds=LINGER_SECONDS, company=2)
        self._loaded: ChatModel | None = None
        self._failure: SettingsInvalid | None = None
        self._closed = False

    async def identify(self) -> str:
        """The model's identity, once it is loaded. Raises SettingsInvalid if it cannot be."""
        if self._loaded is None:
            self._refuse_closed()
            return (await self._worker.submit(self._ensure_loaded)).identity
        return self._loaded.identity

    async def ask(self, question: Question, key: str, task: JudgingTask) -> Reply:
        """The model's reply to a question, marked with the question's key. Raises SettingsInvalid, JudgeRefusedRequest
        if the question does not fit, and JudgeUnavailable once this is closed."""
        self._refuse_closed()
        if task.scope.announce is not None:
            await task.scope.announce()
        prompt = question.structured
        outcome = await self._batches.submit(
            ChatRequest(
                prompt.messages, prompt.schema or {}, question.max_output_tokens, alternatives=question.options.expected
            )
        )
        if isinstance(outcome, SaitenError):
            raise outcome
        # In the form in which an endpoint's answer arrives, so that one reader bounds and cleans both.
        answer = read_completion(json.dumps(outcome).encode())
        parameters = question.parameters(NOT_SENT)
        if question.options.expected:
            parameters["top_logprobs"] = ALTERNATIVES
        return Reply(key=key, structured=True, parameters=parameters, dropped=(), **answer)

    async def close(self) -> None:
        """Ends what is generated at the next token."""
        self._closed = True
        await self._batches.drain(5.0)
        await self._worker.stop()
        self._loaded = None

    async def _complete(self, requests: Sequence[ChatRequest]) -> Sequence[Completion]:
        self._refuse_closed()
        return await self._worker.submit(lambda: self._ensure_loaded().complete(requests, lambda: self._closed))

    def _refuse_closed(self) -> None:
        if self._closed:
            raise JudgeUnavailable(Message("local-judge-closed"))

    def _ensure_loaded(self) -> ChatModel:
        if self._failure is not None:
            raise SettingsInvalid(self._failure.message)
        if self._loaded is None:
            try:
                self._loaded = self._load(self._choice)
            except SettingsInvalid as error:
                self._failure = error
                raise
        return self._loaded


FREE = Price(input=0.0, cached_input=0.0, output=0.0)


@dataclass(eq=False, repr=False, kw_only=True)
class LocalJudge(OpenAIJudge):
    """Implements `Judge` over a model in this process. `model` is its name, which a request may repeat."""

    local: LocalEndpoint
    api_key: str = ""
    base_url: str | None = "http://local.invalid/v1"
    malformed_retries: int = 0
    kind = "local"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._address = EndpointAddress("", "transformers", openais=False)

    async def judge(self, task: JudgingTask) -> Judgement:
        self._refuse_options(task)
        # The identity is part of every question's key.
        self._address = EndpointAddress(await self.local.identify(), "transformers", openais=False)
        return await super().judge(task)

    def estimate(self, task: JudgingTask) -> JudgingEstimate:
        self._refuse_options(task)
        return super().estimate(task)

    def open_endpoint(self) -> LocalEndpoint:
        return self.local

    async def close(self) -> None:
        await self.local.close()

    def _refuse_options(self, task: JudgingTask) -> None:
        """Raises InvalidRequest for another model, and for what greedy replies cannot give."""
        options = task.options
        if options.model not in {None, self.model}:
            raise InvalidRequest(Message("local-judge-other-model", name=self.model), pointer="/judge/model")
        if options.temperature > 0:
            raise InvalidRequest(Message("local-judge-greedy"), pointer="/judge/temperature")
        if options.samples > 1:
            raise InvalidRequest(Message("local-judge-greedy"), pointer="/judge/samples")


def free_prices(model: str) -> Prices:
    """The prices of a model that costs nothing."""
    return Prices(updated="", source="", models={model: FREE})
