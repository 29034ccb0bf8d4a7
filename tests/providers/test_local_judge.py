"""The judge in this process, with a tiny model of random weights: whatever it would say, its replies are verdicts."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from saiten_server.core.errors import JudgeRefusedRequest, JudgeUnavailable, SettingsInvalid
from saiten_server.platform.settings import Settings
from saiten_server.providers import registry
from saiten_server.providers.chat_model import (
    ChatModelChoice,
    ChatRequest,
    bound_schema,
    check_folder,
    count_prompts,
    load_chat_model,
)
from saiten_server.providers.openai.local import LocalEndpoint
from tests.support.tiny_lm import save_judge

pytestmark = pytest.mark.skipif(
    any(find_spec(package) is None for package in ("llguidance", "torch", "transformers")),
    reason="the judge extra is absent",
)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "fluency": {"type": "integer", "enum": [-1, 0, 1]},
        "note": {"type": "string"},
        "turns": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["fluency", "note", "turns"],
    "additionalProperties": False,
}
RATINGS = {**SCHEMA, "properties": {"fluency": SCHEMA["properties"]["fluency"]}, "required": ["fluency"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    torch.set_num_threads(1)
    return save_judge(tmp_path_factory.mktemp("models") / "tiny-judge")


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return load_chat_model(choose(folder))


def choose(folder: Path) -> ChatModelChoice:
    return ChatModelChoice(name=str(folder), precision="float32", device="cpu", threads=1)


def ask(text: str, schema: dict[str, Any] = RATINGS, **more: Any) -> ChatRequest:
    messages = [{"role": "system", "content": "Rate it."}, {"role": "user", "content": text}]
    return ChatRequest(messages, schema, **{"max_tokens": 64, **more})


def content_of(outcome: Any) -> str:
    return str(outcome["choices"][0]["message"]["content"])


def test_whatever_the_weights_every_reply_is_of_the_schema(model: Any) -> None:
    for outcome in model.complete([ask(text) for text in ("a", "猫は好き？", "네, 좋아해요", "x" * 90)]):
        assert outcome["choices"][0]["finish_reason"] == "stop"
        assert json.loads(content_of(outcome))["fluency"] in {-1, 0, 1}


def test_a_reply_does_not_depend_on_the_batch_or_the_time(model: Any) -> None:
    requests = [ask(text) for text in ("a", "b" * 70, "c" * 7)]
    together = model.complete(requests)
    assert together == model.complete(requests)
    assert together == [model.complete([one])[0] for one in requests]


def test_a_reply_ends_at_its_own_limit_in_any_batch(model: Any) -> None:
    short, long = model.complete([ask("a", max_tokens=5), ask("a")])
    assert short["choices"][0]["finish_reason"] == "length"
    assert short["usage"]["completion_tokens"] == 5
    assert content_of(long).startswith(content_of(short))


def test_texts_lists_and_numbers_of_a_reply_have_an_end() -> None:
    bounded = bound_schema(SCHEMA)["properties"]
    assert bounded["fluency"] == {"type": "integer", "enum": [-1, 0, 1]}
    assert bounded["note"]["maxLength"] > 100
    assert bounded["turns"]["maxItems"] >= 50
    assert bounded["turns"]["items"]["maximum"] >= 10_000


def test_probabilities_are_of_the_model_before_the_grammar(model: Any) -> None:
    [outcome] = model.complete([ask("a", alternatives=True)])
    told = outcome["choices"][0]["logprobs"]["content"]
    assert b"".join(bytes(one["bytes"]) for one in told).decode() == content_of(outcome)
    assert all(len(one["top_logprobs"]) == 20 and one["logprob"] < 0 for one in told)


def test_a_question_that_does_not_fit_is_refused_and_the_others_are_answered(tmp_path: Path) -> None:
    small = load_chat_model(choose(save_judge(tmp_path / "small", window=128)))
    refused, answered = small.complete([ask("x" * 200), ask("x")])
    assert isinstance(refused, JudgeRefusedRequest)
    assert refused.message.id == "local-judge-too-long"
    assert json.loads(content_of(answered))


def test_a_batch_takes_as_many_prompts_as_its_mask_has_room_for() -> None:
    assert count_prompts([10] * 32) == 32
    assert count_prompts([100, 200, 6_000, 6_000, 8_000, 8_000]) == 4
    assert count_prompts([20_000, 20_000]) == 1


def test_where_memory_runs_out_half_as_many_are_answered_at_once(folder: Path) -> None:
    loaded, sizes = load_chat_model(choose(folder)), []
    generate = loaded.model.generate

    def generate_few(input_ids: Any, **more: Any) -> Any:
        sizes.append(len(input_ids))
        if len(input_ids) > most:
            raise MemoryError
        return generate(input_ids, **more)

    loaded.model.generate = generate_few
    most = 2
    assert all(isinstance(one, dict) for one in loaded.complete([ask(str(n)) for n in range(5)]))
    assert sizes == [5, 2, 2, 1]
    most = 1
    found: list[Any] = loaded.complete([ask(str(n)) for n in range(3)])
    assert [isinstance(one, dict) for one in found] == [False, False, True]
    assert found[0].message.id == "local-judge-memory"


def test_another_folder_or_precision_is_another_judge(folder: Path, tmp_path: Path) -> None:
    names = {choose(folder).identify(), ChatModelChoice(name=str(folder)).identify()}
    other = save_judge(tmp_path / "tiny-judge", seed=9)
    assert len(names | {choose(other).identify()}) == 3
    assert choose(Path(shutil.copytree(folder, tmp_path / "copy" / "tiny-judge"))).identify() in names
    (other / "chat_template.jinja").write_text("{{ messages }}")
    assert len(names | {choose(other).identify()}) == 3


def test_what_is_missing_is_named(folder: Path, tmp_path: Path) -> None:
    def find_fault(**settings: Any) -> str:
        given = Settings(judge="local", **settings)
        with pytest.raises(SettingsInvalid) as raised:
            registry.find_judge(given).check(given)
        assert str(tmp_path) not in str(raised.value)
        return raised.value.message.id

    assert find_fault() == "local-judge-folder-missing"
    assert find_fault(judge_folder=str(tmp_path / "none")) == "model-folder-missing"
    bare = save_judge(tmp_path / "bare", template=None)
    assert find_fault(judge_folder=str(bare)) == "local-judge-no-template"
    check_folder(str(folder))


async def test_a_model_that_cannot_be_loaded_is_tried_once(tmp_path: Path, folder: Path) -> None:
    broken = Path(shutil.copytree(folder, tmp_path / "broken"))
    (broken / "model.safetensors").write_bytes(b"no weights")
    loads = 0

    def load(choice: ChatModelChoice) -> Any:
        nonlocal loads
        loads += 1
        return load_chat_model(choice)

    endpoint = LocalEndpoint(choose(broken), most=4, load=load)
    for _ in range(2):
        with pytest.raises(SettingsInvalid) as raised:
            await endpoint.identify()
        assert raised.value.message.id == "model-not-loaded"
    assert loads == 1
    await endpoint.close()
    with pytest.raises(JudgeUnavailable):
        await endpoint.identify()
