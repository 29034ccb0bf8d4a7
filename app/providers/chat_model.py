"""Chats with a language model in this process: several requests at once, each reply held to its JSON schema.

The model is a local folder, as `transformers` saves it. PyTorch is imported once it is loaded, in a thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from saiten.core.messages import Message
from saiten_server.core.errors import JudgeRefusedRequest, JudgeUnavailable, SaitenError, SettingsInvalid
from saiten_server.providers.huggingface import (
    ModelChoice,
    ModelKind,
    ModelSource,
    digest_folder,
    find_window,
    is_out_of_memory,
    loading,
)

logger = logging.getLogger("saiten.judge")

ChatPrecision = Literal["bfloat16", "float16", "float32"]

CHAT_MODEL = ModelKind(
    Message("noun-judge-model"),
    Message("purpose-local-judge"),
    ("llguidance", "torch", "transformers"),
    SettingsInvalid,
    extra="judge",
)

WINDOW_TOKENS = 131_072
"""Prompt and reply are never longer, whatever the model states."""

ALTERNATIVES = 20
"""Tokens whose probabilities are told at each place, as many as OpenAI's API tells at most."""

LONGEST_TEXT = 600
"""Characters of a reason. No schema of a prompt bounds it, and a model that goes on would rate nothing."""

MOST_MASKED = 2**28
"""Cells of the mask of a batch, which are its rows times the square of its longest prompt."""

LONGEST_LIST = 64
LARGEST_NUMBER = 99_999


@dataclass(frozen=True)
class ChatRequest:
    """What is asked: messages as of OpenAI's API, the `schema` of the reply, and its tokens at most. With
    `alternatives` the reply tells the probabilities of its tokens."""

    messages: Sequence[Mapping[str, Any]]
    schema: Mapping[str, Any]
    max_tokens: int
    alternatives: bool = False


@dataclass(frozen=True, kw_only=True)
class ChatModelChoice(ModelChoice):
    """`name` is a folder."""

    precision: ChatPrecision = "bfloat16"

    def identify(self) -> str:
        """Name, digest of the files, precision and libraries: equal ones give equal replies, but for rounding. Reads
        every file, once as long as none changes. Raises SettingsInvalid."""
        CHAT_MODEL.require_installed()
        folder = check_folder(self.name)
        files = (path.stat() for path in sorted(folder.iterdir()))
        revision = digest_unchanged(folder, tuple((one.st_size, one.st_mtime_ns) for one in files))
        engine = f"transformers-{version('transformers')}_llguidance-{version('llguidance')}"
        return f"{folder.resolve().name}_rev={revision}_{self.precision}_{engine}"


@lru_cache(maxsize=8)
def digest_unchanged(folder: Path, _: tuple[tuple[int, int], ...]) -> str:
    """`digest_folder`, again only if the size or the time of a file has changed: weights are many gigabytes."""
    return digest_folder(folder)


TEMPLATES = ("chat_template.jinja", "chat_template.json")


def check_folder(name: str) -> Path:
    """The folder. Raises SettingsInvalid if it is none, holds no model, or its tokenizer has no chat template."""
    folder = Path(name).expanduser()
    if not (folder / "config.json").is_file():
        raise SettingsInvalid(Message("model-folder-missing", noun=CHAT_MODEL.noun, name=folder.name))
    try:
        stated = '"chat_template"' in (folder / "tokenizer_config.json").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        stated = False
    if not stated and not any((folder / file).is_file() for file in TEMPLATES):
        raise SettingsInvalid(Message("local-judge-no-template", name=folder.name))
    return folder


def bound_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with an end for every text, list and number, so that each reply comes to its own."""
    bounded = dict(schema)
    if "properties" in schema:
        bounded["properties"] = {name: bound_schema(part) for name, part in schema["properties"].items()}
    elif "items" in schema:
        choices = schema["items"].get("enum")
        most = {"minItems": 1, "maxItems": len(choices)} if choices else {"maxItems": LONGEST_LIST}
        bounded |= {"items": bound_schema(schema["items"]), **most}
    elif "enum" not in schema and schema.get("type") == "string":
        bounded["maxLength"] = LONGEST_TEXT
    elif "enum" not in schema and schema.get("type") == "integer":
        bounded |= {"minimum": 0, "maximum": LARGEST_NUMBER}
    return bounded


class ReplyGrammars:
    """The grammars of replies. Those of a run are few: each is compiled once, and copied."""

    def __init__(self, tokenizer: Any, vocabulary: int) -> None:
        from llguidance import LLExecutor, hf

        self.tokenizer = hf.from_tokenizer(tokenizer, n_vocab=vocabulary)
        self.executor = LLExecutor()
        self._compile = lru_cache(maxsize=64)(self._compile_new)

    def open(self, schema: Mapping[str, Any]) -> Any:
        """A matcher at the beginning of a reply. Raises JudgeRefusedRequest for a schema that no grammar has."""
        from llguidance import LLMatcher

        # At most one space where JSON has any white space: a model could write it without end.
        spaces: Any = {"whitespace_flexible": True, "whitespace_pattern": " "}
        return self._compile(LLMatcher.grammar_from_json_schema(bound_schema(schema), overrides=spaces)).deep_copy()

    def _compile_new(self, grammar: str) -> Any:
        from llguidance import LLMatcher

        matcher = LLMatcher(self.tokenizer, grammar, log_level=0)
        if matcher.is_error():
            logger.warning("no grammar for a schema: %s", matcher.get_error())
            raise JudgeRefusedRequest(Message("local-judge-grammar"))
        return matcher


@dataclass(frozen=True)
class ToldToken:
    """A token of a reply with its logarithmic probability, and those of the likeliest tokens in its place."""

    token: int
    logprob: float
    others: Sequence[tuple[int, float]]


class GrammarMask:
    """A logits processor of `transformers`: leaves each row of a batch the tokens that its grammar allows next.

    With `alternatives` it notes what the model itself would have chosen from, in `told` by row. `start` is the number
    of tokens of the prompts, padding included."""

    def __init__(self, matchers: Sequence[Any], grammars: ReplyGrammars, start: int, *, alternatives: bool) -> None:
        from llguidance.numpy import allocate_token_bitmask

        self._matchers = matchers
        self._grammars = grammars
        self._start = start
        self._alternatives = alternatives
        self._mask = allocate_token_bitmask(len(matchers), grammars.tokenizer.vocab_size)
        self._last: Any = None
        self.told: list[list[ToldToken]] = [[] for _ in matchers]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """The scores, minus infinity for what no reply could go on with."""
        import torch
        from llguidance.numpy import fill_next_token_bitmask_par

        if input_ids.shape[1] > self._start:
            self.take(input_ids[:, -1].tolist())
        if self._alternatives:
            logprobs = scores.float().log_softmax(dim=-1)
            self._last = logprobs, logprobs.topk(min(ALTERNATIVES, logprobs.shape[-1]))
        places = [(matcher, row) for row, matcher in enumerate(self._matchers)]
        fill_next_token_bitmask_par(self._grammars.executor, places, self._mask)
        bits = torch.from_numpy(self._mask).to(scores.device)[:, :, None] >> torch.arange(
            32, dtype=torch.int32, device=scores.device
        )
        allowed = (bits & 1).bool().flatten(1)[:, : scores.shape[-1]]
        return scores.masked_fill(~allowed, float("-inf"))

    def take(self, tokens: Sequence[int]) -> None:
        """Notes the token that was chosen for each row. A finished row is given padding, which its grammar ends with
        too."""
        for row, (matcher, token) in enumerate(zip(self._matchers, tokens, strict=True)):
            if matcher.is_stopped():
                continue
            matcher.consume_token(token)
            if self._last is not None:
                logprobs, top = self._last
                others = [*zip(top.indices[row].tolist(), top.values[row].tolist(), strict=True)]
                self.told[row].append(ToldToken(token, float(logprobs[row, token]), others))


Completion = dict[str, Any] | SaitenError
"""A chat completion as of OpenAI's API, or why there is none."""


@dataclass(eq=False, repr=False, kw_only=True)
class ChatModel:
    """A loaded model, used from one thread. `merges` is True if its template knows no system message."""

    model: Any
    tokenizer: Any
    grammars: ReplyGrammars
    identity: str
    device: str
    window: int
    merges: bool

    def __post_init__(self) -> None:
        self._most: int | None = None

    def complete(
        self, requests: Sequence[ChatRequest], stopped: Callable[[], bool] = lambda: False
    ) -> list[Completion]:
        """The replies, in the same order, generated together. Where memory does not suffice, half as many are generated
        at once from then on; what does not fit then either is refused. Once `stopped` is true all ends."""
        outcomes: list[Completion | None] = [None] * len(requests)
        prompts: dict[int, list[int]] = {}
        for number, request in enumerate(requests):
            ids = self._write(request.messages)
            if len(ids) < self.window:
                prompts[number] = ids
            else:
                detail = Message("local-judge-too-long", tokens=len(ids), most=self.window)
                outcomes[number] = JudgeRefusedRequest(detail)
        left = sorted(prompts, key=lambda number: len(prompts[number]))
        while left:
            most = min(self._most or len(left), count_prompts([len(prompts[number]) for number in left]))
            part, left = left[:most], left[most:]
            try:
                found = self._generate([(requests[number], prompts[number]) for number in part], stopped)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                self._free()
                if self._most is None and len(part) > 1:
                    self._most = len(part) // 2
                    logger.warning("memory does not suffice for %d requests at once: %d", len(part), self._most)
                    left = [*part, *left]
                    continue
                found = [JudgeRefusedRequest(Message("local-judge-memory", count=len(part))) for _ in part]
            for number, outcome in zip(part, found, strict=True):
                outcomes[number] = outcome
        return [outcome for outcome in outcomes if outcome is not None]

    def _write(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """The prompt's tokens. A reply begins with its verdict, and so a model that can think before it must not."""
        given = [dict(one) for one in messages]
        if self.merges:
            given = [{"role": "user", "content": "\n\n".join(one["content"] for one in given)}]
        return list(write_prompt(self.tokenizer, given))

    def _generate(
        self, asked: Sequence[tuple[ChatRequest, list[int]]], stopped: Callable[[], bool]
    ) -> list[Completion]:
        import torch
        from transformers import GenerationConfig

        rows, width, end = len(asked), max(len(ids) for _, ids in asked), int(self.tokenizer.eos_token_id)
        input_ids = torch.full((rows, width), end, dtype=torch.long)
        mask = torch.zeros((rows, width), dtype=torch.long)
        for row, (_, ids) in enumerate(asked):
            input_ids[row, width - len(ids) :] = torch.tensor(ids)
            mask[row, width - len(ids) :] = 1
        matchers = [self.grammars.open(request.schema) for request, _ in asked]
        grammar = GrammarMask(
            matchers, self.grammars, width, alternatives=any(request.alternatives for request, _ in asked)
        )
        limits = [min(request.max_tokens, self.window - len(ids)) for request, ids in asked]
        settings = GenerationConfig(
            max_new_tokens=max(limits), do_sample=False, num_beams=1, eos_token_id=end, pad_token_id=end
        )

        def stop(ids: Any, _: Any, **__: Any) -> Any:
            return torch.full((ids.shape[0],), stopped(), dtype=torch.bool, device=ids.device)

        with torch.inference_mode():
            found = self.model.generate(
                input_ids.to(self.device),
                attention_mask=mask.to(self.device),
                generation_config=settings,
                logits_processor=[grammar],
                stopping_criteria=[stop],
            )
        if stopped():
            return [JudgeUnavailable(Message("local-judge-closed")) for _ in asked]
        replies = found[:, width:].tolist()
        grammar.take([reply[-1] for reply in replies])
        return [
            self._read(reply, limit, len(ids), grammar.told[row] if request.alternatives else [])
            for row, ((request, ids), reply, limit) in enumerate(zip(asked, replies, limits, strict=True))
        ]

    def _read(self, reply: list[int], limit: int, prompt_tokens: int, told: Sequence[ToldToken]) -> dict[str, Any]:
        """The completion of a row: its tokens up to the end, no more than it asked for."""
        end = self.tokenizer.eos_token_id
        length = reply.index(end) if end in reply else len(reply)
        kept = reply[: min(length, limit)]
        # The end is a token too. By the row's own limit, so that no other row of the batch lengthens a reply.
        finish_reason = "stop" if length < min(limit, len(reply)) else "length"
        choice = {
            "message": {"content": self._decode(kept).decode("utf-8", "replace")},
            "finish_reason": finish_reason,
            "logprobs": {"content": [self._tell(one) for one in told[: len(kept)]]},
        }
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": len(kept)}
        return {"model": self.identity, "choices": [choice], "usage": usage}

    def _tell(self, told: ToldToken) -> dict[str, Any]:
        """A token as OpenAI's API tells it."""
        others = [self._tell(ToldToken(token, logprob, ())) for token, logprob in told.others]
        spelled = self._decode([told.token])
        return {
            "token": spelled.decode("utf-8", "replace"),
            "bytes": [*spelled],
            "logprob": told.logprob,
            "top_logprobs": others,
        }

    def _decode(self, tokens: list[int]) -> bytes:
        """The letters of the tokens, as the grammar has read them."""
        return bytes(self.grammars.tokenizer.decode_bytes(tokens))

    def _free(self) -> None:
        """Gives back what the GPU's allocator holds in pieces of another size."""
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def count_prompts(lengths: Sequence[int]) -> int:
    """How many prompts of these lengths, the shortest first, one batch takes: one at least."""
    fitting = (row for row, length in enumerate(lengths, start=1) if row * length**2 <= MOST_MASKED)
    return max(fitting, default=1)


def write_prompt(tokenizer: Any, messages: Sequence[Mapping[str, Any]]) -> Sequence[int]:
    """The tokens of the messages in the tokenizer's chat template, up to where the reply begins."""
    found: Sequence[int] = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=False, enable_thinking=False
    )
    return found


def load_chat_model(choice: ChatModelChoice) -> ChatModel:
    """Loads tokenizer and weights. Code that comes with a model is never run. Raises SettingsInvalid if the extra is
    not installed, the folder is missing or broken, or has no chat template that takes a user's message."""
    identity = choice.identify()
    with loading(CHAT_MODEL, choice) as (source, device):
        from transformers import AutoTokenizer, GenerationConfig

        tokenizer = AutoTokenizer.from_pretrained(**source.arguments)
        if not tokenizer.is_fast or tokenizer.eos_token_id is None:
            raise SettingsInvalid(Message("local-judge-tokenizer", name=Path(choice.name).name))
        merges = not takes_system(tokenizer)
        model = _load_weights(source, choice.precision)
        # A folder may ask for sampling and penalties, which change what is likeliest.
        model.generation_config = GenerationConfig()
        vocabulary = max(int(model.config.get_text_config().vocab_size), len(tokenizer))
        loaded = ChatModel(
            model=model.eval().to(device),
            tokenizer=tokenizer,
            grammars=ReplyGrammars(tokenizer, vocabulary),
            identity=identity,
            device=device,
            window=find_window(model.config, tokenizer, WINDOW_TOKENS),
            merges=merges,
        )
        probe = ChatRequest([{"role": "user", "content": "1"}], {"type": "integer", "enum": [1]}, max_tokens=8)
        loaded.complete([probe])  # a model that cannot run is not available
        return loaded


def takes_system(tokenizer: Any) -> bool:
    """Whether the template takes a system message. Raises jinja2's error if it does not take a user's either."""
    from jinja2 import TemplateError

    user = {"role": "user", "content": "1"}
    try:
        write_prompt(tokenizer, [{"role": "system", "content": "1"}, user])
    except TemplateError:
        write_prompt(tokenizer, [user])
        return False
    return True


def _load_weights(source: ModelSource, precision: ChatPrecision) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    model, report = AutoModelForCausalLM.from_pretrained(
        **source.arguments, dtype=getattr(torch, precision), output_loading_info=True
    )
    parameters = dict(model.named_parameters())
    # transformers fills weights that a checkpoint lacks at random and only warns.
    if lacking := [key for key in report["missing_keys"] if key in parameters]:
        name = Path(source.name).name
        raise SettingsInvalid(Message("language-model-lacks-weights", name=name, count=len(lacking)))
    return model
