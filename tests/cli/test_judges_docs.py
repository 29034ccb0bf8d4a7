"""The commands on the page about judges: settings that are valid together, options that there are, a file that exists."""

import re
import shlex
from pathlib import Path

import click
import pytest

from saiten.commands.score import command
from saiten_server.platform.settings import find_unknown, read_settings
from saiten_server.providers.openai.judge import check_address, find_address
from saiten_server.providers.openai.parameters import read_extra
from saiten_server.providers.registry import find_judge

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "judges.md").read_text(encoding="utf-8")
BLOCKS = re.compile(r"### ([^\n]+)\n\n```sh\n(.*?)```", re.DOTALL)
ENDPOINTS = {"Ollama", "vLLM", "llama.cpp", "Azure", "Gemini", "LiteLLM"}
ASSIGNED = re.compile(r"[A-Z_]+=")


def read_commands() -> dict[str, list[str]]:
    """The words of each endpoint's command that scores."""
    found = {}
    for name, block in BLOCKS.findall(PAGE):
        (line,) = [line for line in block.replace("\\\n", " ").splitlines() if "saiten score" in line]
        found[name] = shlex.split(line, comments=True)
    return found


def test_every_endpoint_has_a_command() -> None:
    assert set(read_commands()) == ENDPOINTS


@pytest.mark.parametrize("name", sorted(ENDPOINTS))
def test_a_command_is_one_that_works(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = read_commands()[name]
    variables = dict(word.split("=", 1) for word in words if ASSIGNED.match(word))
    program, score, *arguments = words[len(variables) :]
    assert (program, score) == ("saiten", "score")
    assert find_unknown(variables) is None
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    settings = read_settings()
    provider = find_judge(settings)
    provider.check(settings)
    assert provider.name == "openai"
    check_address(find_address(settings.openai_base_url))
    read_extra(settings.judge_extra)
    options, _, _ = command.make_parser(click.Context(command)).parse_args(arguments)
    assert set(options) <= {"max_tokens", "file"}
    assert (ROOT / str(options["file"])).is_file()


def test_what_is_sent_beside_is_as_the_page_shows() -> None:
    (shown,) = re.findall(r"```sh\nSAITEN_JUDGE_EXTRA='(.*?)'\n```", PAGE, re.DOTALL)
    extra = read_extra(shown)
    assert extra.settle({}) == {"top_k": 20, "chat_template_kwargs": {"enable_thinking": False}}
    thinking = {"chat_template_kwargs": {"enable_thinking": True}}
    assert extra.settle(thinking) == {"top_k": 20, **thinking}
