"""What `saiten score` says of a judge whose replies are of no use."""

import asyncio
import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.support.command import saiten
from tests.support.fake_openai import FakeOpenAI, Request, complete, refuse, say
from tests.support.gate_files import write_items
from tests.support.serving import serving

USELESS = "承知しました。この応答はとても自然で、" + "文脈にもよく合っています。" * 20
IGNORED = "the endpoint probably ignored `response_format`"


async def score(folder: Path, fake: FakeOpenAI, *arguments: str, **variables: Any) -> CompletedProcess[str]:
    """Scores one item by the fake judge; it has the key `k`."""
    write_items(folder, count=1)
    known: dict[str, Any] = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": fake.base_url, **variables}
    return await asyncio.to_thread(saiten, "score", "items.ndjson", *arguments, folder=folder, **known)


async def test_a_reply_that_rates_nothing_is_shown(tmp_path: Path) -> None:
    async with FakeOpenAI(refuse("seed", then=say(USELESS))) as fake:
        done = await score(tmp_path, fake)
        assert len(fake.requests) == 4
    assert done.returncode == 1
    line = next(line for line in done.stderr.splitlines() if line.startswith("item 1: judge-reply-invalid"))
    assert "rated no aspect (replies: 3; unparseable)" in line
    assert IGNORED in line
    assert "the endpoint refused seed" in line
    assert line.endswith(f"its last reply begins: {USELESS[:120]}…")
    assert USELESS[:60] not in done.stdout.replace(line, "") or json.loads(done.stdout)["status"] == "failed"


@pytest.mark.parametrize("there", [False, True])
async def test_a_reply_that_rates_some_aspects_is_shown(tmp_path: Path, there: bool) -> None:
    def answer(request: Request):
        return complete(request, '{"addressesEvaluator": false, "naturalness": 3}')

    async with FakeOpenAI(refuse("seed", then=answer)) as fake:
        if there:
            settings = {"openai_api_key": "k", "openai_base_url": fake.base_url}
            async with serving(tmp_path, judge="openai", **settings) as client:
                done = await score(tmp_path, fake, "--url", str(client.base_url))
        else:
            done = await score(tmp_path, fake)
    assert done.returncode == 1, done.stderr
    lines = done.stderr.splitlines()
    (told,) = [line for line in lines if line.startswith("item 1: coherence unrated")]
    assert IGNORED in told
    assert told.endswith('its last reply begins: {"addressesEvaluator": false, "naturalness": 3}')
    assert "the judge's endpoint refused seed: it was asked without" in lines
    assert "_unused" not in done.stdout


async def test_options_of_the_judge_reach_it(tmp_path: Path) -> None:
    extra = json.dumps({"chat_template_kwargs": {"enable_thinking": False}})
    async with FakeOpenAI() as fake:
        options = ("--temperature", "0.5", "--max-tokens", "4096")
        done = await score(tmp_path, fake, *options, SAITEN_JUDGE_EXTRA=extra, SAITEN_MODEL="/models/qwen.gguf")
        (request,) = fake.requests
    assert done.returncode == 0, done.stderr
    assert (request["temperature"], request["max_tokens"], request["model"]) == (0.5, 4096, "/models/qwen.gguf")
    assert request["chat_template_kwargs"] == {"enable_thinking": False}
    assert "temperature=0.5" in json.loads(done.stdout)["signature"]


async def test_retries_of_malformed_replies_are_a_setting(tmp_path: Path) -> None:
    async with FakeOpenAI(say("no")) as fake:
        await score(tmp_path, fake, SAITEN_JUDGE_MALFORMED_RETRIES="0")
        assert len(fake.requests) == 1
