"""Which judge rates: never the lexical one where a secret was lost, and never unnoticed."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from saiten.commands.markdown import LEXICAL_NOTE
from tests.support.command import saiten
from tests.support.fake_openai import FakeOpenAI
from tests.support.gate_files import SIGNATURE, write_items, write_lines, write_results
from tests.support.posted import make_item
from tests.support.serving import serving

ROOT = Path(__file__).resolve().parents[2]
LEXICAL = SIGNATURE.replace("judge:openai", "judge:lexical")


@pytest.mark.parametrize("command", [("score", "items.ndjson"), ("gate", "--candidate", "items.ndjson")])
@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"OPENAI_API_KEY": ""}, "OPENAI_API_KEY is set but empty"),
        ({"SAITEN_JUDGE": "openai"}, "neither OPENAI_API_KEY nor OPENAI_BASE_URL is"),
        ({"SAITEN_MODEL": "qwen3"}, "SAITEN_MODEL is set, but neither"),
        ({"OPENAI_BASE_URL": "https://r.openai.azure.com/openai?api-version=2024-10-21"}, "/openai/v1/"),
    ],
)
def test_a_command_that_judges_says_what_is_missing(
    tmp_path: Path, command: tuple[str, ...], variables: dict[str, Any], words: str
) -> None:
    write_items(tmp_path, count=1)
    done = saiten(*command, folder=tmp_path, CI="true", **variables)
    assert done.returncode == 3
    assert words in done.stderr


def test_the_service_does_not_start_with_an_empty_key(tmp_path: Path) -> None:
    done = saiten("serve", "--port", "0", folder=tmp_path, OPENAI_API_KEY="")
    assert done.returncode == 3
    assert "OPENAI_API_KEY is set but empty" in done.stderr


def test_what_judges_nothing_needs_no_key(tmp_path: Path) -> None:
    assert saiten("rubric", "list", folder=tmp_path, OPENAI_API_KEY="").returncode == 0
    unknown = saiten("analyze", "agreement", "--batch", "ba_0", folder=tmp_path, OPENAI_API_KEY="")
    assert "OPENAI_API_KEY" not in unknown.stderr


async def test_an_endpoint_without_a_key_is_asked_without_one(tmp_path: Path) -> None:
    write_items(tmp_path, count=1)
    async with FakeOpenAI() as fake:
        score = ("score", "items.ndjson")
        done = await asyncio.to_thread(saiten, *score, folder=tmp_path, OPENAI_BASE_URL=fake.base_url)
        assert done.returncode == 0, done.stderr
        assert fake.authorizations == [""]
    assert json.loads(done.stdout)["judge"]["kind"] == "openai"


async def test_options_of_the_judge_reach_a_gates_items(tmp_path: Path) -> None:
    write_items(tmp_path, count=1)
    (tmp_path / "saiten.toml").write_text('[gate]\njudge = {model = "/models/qwen.gguf", temperature = 1}\n')
    gate = ("gate", "--candidate", "items.ndjson", "--record", "base.ndjson", "--temperature", "0.5")
    async with FakeOpenAI() as fake:
        options = (*gate, "--max-tokens", "99")
        done = await asyncio.to_thread(saiten, *options, folder=tmp_path, CI="true", OPENAI_BASE_URL=fake.base_url)
        (request,) = fake.requests
    assert done.returncode == 0, done.stderr
    assert (request["model"], request["temperature"], request["max_tokens"]) == ("/models/qwen.gguf", 0.5, 99)


@pytest.mark.parametrize("variables", [{}, {"SAITEN_JUDGE": "lexical"}])
def test_in_ci_the_lexical_judge_gates_only_where_it_is_named(tmp_path: Path, variables: dict[str, Any]) -> None:
    write_items(tmp_path, count=2)
    gate = ("gate", "--candidate", "items.ndjson", "--min-mean", "naturalness=1")
    done = saiten(*gate, folder=tmp_path, CI="true", **variables)
    assert done.returncode == 3
    assert "--judge lexical" in done.stderr
    reports = ("--markdown", "gate.md", "--junit", "gate.xml")
    named = saiten(*gate, "--judge", "lexical", *reports, folder=tmp_path, CI="true", **variables)
    assert named.returncode in {0, 2}, named.stderr
    for name in ("gate.md", "gate.xml"):
        assert LEXICAL_NOTE in (tmp_path / name).read_text(encoding="utf-8").splitlines()[0]


def test_in_ci_results_of_the_lexical_judge_are_refused_too(tmp_path: Path) -> None:
    write_results(tmp_path, "run.ndjson", [3] * 8, signature=LEXICAL)
    gate = ("gate", "--candidate", "run.ndjson", "--min-mean", "naturalness=1")
    assert saiten(*gate, folder=tmp_path, CI="1").returncode == 3
    assert saiten(*gate, folder=tmp_path, CI="false").returncode in {0, 2}
    assert saiten(*gate, "--judge", "lexical", folder=tmp_path, CI="1").returncode in {0, 2}


async def test_in_ci_a_service_that_judges_lexically_is_refused(tmp_path: Path) -> None:
    write_items(tmp_path, count=1)
    async with serving(tmp_path) as client:
        gate = ("gate", "--url", str(client.base_url), "--candidate", "items.ndjson", "--record", "base.ndjson")
        done = await asyncio.to_thread(saiten, *gate, folder=tmp_path, CI="true")
    assert done.returncode == 3
    assert "--judge lexical" in done.stderr


def test_a_mistyped_variable_is_said_in_one_line(tmp_path: Path) -> None:
    write_lines(tmp_path / "items.ndjson", [make_item(0)])
    done = saiten("score", "items.ndjson", folder=tmp_path, SAITEN_MODLE="qwen3", SAITEN_TEST_REDIS_URL="redis://h")
    assert done.returncode == 0
    assert [line for line in done.stderr.splitlines() if "SAITEN_MODLE (is SAITEN_MODEL meant?)" in line]
    assert "SAITEN_TEST_" not in done.stderr


def test_compose_passes_on_only_what_is_set() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    for name in ("api", "worker"):
        given = services[name]["environment"]
        assert {variable for variable in given if variable.startswith("OPENAI_")} == {
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
        }
        # A value, and be it an empty one, would set the variable.
        assert {given[variable] for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "SAITEN_MODEL")} == {None}
