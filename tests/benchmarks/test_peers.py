"""The peers' common work, the scales, and the environments' pins."""

import re

import httpx
import pytest

from benchmarks.peer_tools import environments
from benchmarks.peer_tools.environments import HERE, NODE_PACKAGES, Unavailable, read_pins, read_version, run
from benchmarks.peer_tools.scales import open_scales, read_text
from benchmarks.peer_tools.workload import write_batch, write_work
from benchmarks.peers import PEERS, make_variables, open_programs
from benchmarks.record import Report


def test_everybody_gets_the_same_dialogues_and_six_questions():
    work = write_work(30, seed=3)
    assert len(work["items"]) == 30
    assert len(work["warm"]) == 10
    assert [one["id"] for one in work["aspects"]] == [
        "naturalness",
        "coherence",
        "interestingness",
        "relevance",
        "consistency",
        "overall",
    ]
    assert "1: 不自然。" in work["aspects"][0]["criterion"]
    batch = write_batch(work, "items")
    assert [one["response"] for one in batch] == [one["response"] for one in work["items"]]
    assert "\n".join(f"{one['speaker']}: {one['text']}" for one in batch[7]["context"]) == work["items"][7]["context"]


def test_no_dialogue_is_asked_twice():
    responses = [one["response"] for seed in (1, 2) for part in ("items", "warm") for one in write_work(50, seed)[part]]
    assert len(set(responses)) == len(responses)


def test_scales_weigh_calls_characters_and_tokens():
    schema = {"type": "object", "properties": {"overall": {"type": "integer", "enum": [1, 5]}}}
    asked = {
        "model": "m",
        "messages": [
            {"role": "system", "content": "四文字だ"},
            {"role": "user", "content": [{"type": "text", "text": "ab"}, {"type": "image_url"}]},
        ],
    }
    with (
        open_scales("GRADE: 3", lambda text: len(text.encode())) as scales,
        httpx.Client(trust_env=False, verify=False) as client,
    ):
        plain = client.post(f"{scales.base_url}/chat/completions", json=asked).json()
        wanted = {"type": "json_schema", "json_schema": {"name": "v", "schema": schema}}
        rated = client.post(f"{scales.base_url}/chat/completions", json=asked | {"response_format": wanted}).json()
        assert (scales.calls, scales.characters, scales.tokens) == (2, 12, 28)  # 四文字だ: 12 bytes; ab: 2
    assert plain["choices"][0]["message"]["content"] == "GRADE: 3"
    assert rated["choices"][0]["message"]["content"] == '{"overall": 5}'
    assert read_text(None) == ""


def test_every_peer_is_pinned_to_the_last_package():
    packages = {peer.package for peer in PEERS if peer.package}
    assert packages == {"deepeval", "inspect-ai", "promptfoo"}
    for package in packages:
        assert re.fullmatch(r"\d+(\.\d+)+", read_version(package))
        lines = (HERE / f"requirements-{package}.txt").read_text(encoding="utf-8").splitlines()
        assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    assert len({read_pins(package) for package in packages}) == 3
    assert packages >= NODE_PACKAGES


def test_a_peer_sees_no_key_and_no_proxy(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    for peer in PEERS:
        assert (HERE / peer.script).is_file()
        found = make_variables(tmp_path, peer)
        assert "OPENAI_API_KEY" not in found
        assert "HTTPS_PROXY" not in found
        assert found["HOME"] == str(tmp_path)


def test_a_peer_that_cannot_be_had_is_left_out_with_the_reason(monkeypatch, tmp_path):
    def refuse(name, folder):
        raise Unavailable(f"no registry for {name}")

    monkeypatch.setattr(environments, "FOLDER", tmp_path / "venvs")
    monkeypatch.setattr(environments, "make_environment", refuse)
    report = Report(machine={}, say=lambda text: None)
    assert set(open_programs(report)) == {"AsyncOpenAI loop", "AsyncOpenAI loop, a call an aspect"}
    assert [(one.name, one.reason) for one in report.missing] == [
        ("DeepEval", "no registry for deepeval"),
        ("inspect_ai", "no registry for inspect-ai"),
        ("promptfoo", "no registry for promptfoo"),
    ]
    assert not report.failed


def test_what_cannot_be_installed_says_why(tmp_path):
    with pytest.raises(Unavailable, match="no-such-program"):
        run(["no-such-program"], tmp_path)
    with pytest.raises(Unavailable, match="sh failed: out of space"):
        run(["sh", "-c", "echo out of space >&2; exit 3"], tmp_path)
    assert run(["sh", "-c", "echo fine"], tmp_path) == "fine\n"
