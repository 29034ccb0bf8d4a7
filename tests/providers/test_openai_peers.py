"""The judge against others' files: the peer server and the attacks that are shared beside the repository."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from saiten_server.core.dialogue import Dialogue, Utterance
from tests.support.fake_openai import Behaviour, quote_first, quote_in_reason, refuse
from tests.support.judges import make_judge, make_task, open_bench, ratings_of
from tests.support.small_rubrics import joint_rubric, make_dialogue

SHARED = Path(__file__).resolve().parents[3] / "shared"
PEER = SHARED / "peers" / "fakeopenai.py"
ATTACKS = SHARED / "checks" / "attacks.jsonl"

needs_peer = pytest.mark.skipif(not PEER.exists(), reason="the peer server is not beside the repository")
needs_attacks = pytest.mark.skipif(not ATTACKS.exists(), reason="the attacks are not beside the repository")


@asynccontextmanager
async def run_peer(**knobs: object) -> AsyncIterator[str]:
    """The peer in a process of its own; gives its base URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in {"latency_ms": 1, **knobs}.items()]
    process = await asyncio.create_subprocess_exec(sys.executable, str(PEER), f"--port={port}", *flags)
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            for _ in range(200):
                try:
                    await client.get(f"{url}/stats")
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.05)
        yield f"{url}/v1"
    finally:
        process.kill()
        await process.wait()


async def stats(base_url: str) -> dict[str, int]:
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        return dict((await client.get(base_url.replace("/v1", "/stats"))).json())


@needs_peer
async def test_the_peer_rates_in_the_structured_format():
    async with run_peer() as url:
        judge = make_judge(url)
        judgement = await judge.judge(make_task(expected=True, explain=True, samples=2))
        await judge.close()
    assert all(None not in samples for samples in ratings_of(judgement).values())
    # The peer's tokens are digits: at "-1" it gives no probabilities of whole values.
    judged = zip(ratings_of(judgement).values(), judgement.verdicts.values(), strict=True)
    plain = [verdict.expected for samples, verdict in judged if -1 not in samples]
    assert len(plain) > 2
    assert None not in plain


@needs_peer
async def test_the_peers_faults_store_nothing_that_it_did_not_give():
    async with run_peer(malformed=0.4, err500=0.2, sticky=0) as url:
        judge = make_judge(url, max_attempts=8)
        tasks = [make_task(None, make_dialogue(f"応答 {number}")) for number in range(100)]
        judgements = await asyncio.gather(*map(judge.judge, tasks))
        counted = await stats(url)
        await judge.close()
    assert counted["malformed"] > 20
    assert counted["status_500"] > 10
    for judgement in judgements:
        replies = [json.loads(call.reply) for call in judgement.trace if call.reply and call.reply[-1:] == "}"]
        for aspect in joint_rubric().aspects:
            (value,) = ratings_of(judgement)[aspect.id]
            given = [reply[aspect.id] for reply in replies if aspect.id in reply]
            assert value is None or value in given
            assert value is None or value in aspect.values
    rated = sum(None not in samples for one in judgements for samples in ratings_of(one).values())
    assert rated > 400


@needs_peer
async def test_the_peers_rate_limit_is_kept():
    async with run_peer(rpm=1200, rpm_burst=4) as url:
        judge = make_judge(url, max_attempts=8)
        tasks = [make_task(None, make_dialogue(f"応答 {number}")) for number in range(12)]
        judgements = await asyncio.gather(*map(judge.judge, tasks))
        counted = await stats(url)
        await judge.close()
    assert all(None not in samples for one in judgements for samples in ratings_of(one).values())
    assert counted["status_429"] > 0
    assert counted["early_retries"] == 0


def read_attacks() -> list[Dialogue]:
    attacks = [json.loads(line) for line in ATTACKS.read_text("utf-8").splitlines()] if ATTACKS.exists() else []
    # Not through the validators: a blank response is refused before it reaches a judge, but may well be tried here.
    return [
        Dialogue.model_construct(
            context=tuple(Utterance.model_construct(**said) for said in attack["context"]),
            response=attack["response"],
        )
        for attack in attacks
    ]


LOWEST = {(aspect.id, aspect.values[0]) for aspect in joint_rubric().aspects}


async def accept_from(behaviour: Behaviour, *, structured: bool, explain: bool) -> list[set[tuple[str, int]]]:
    """The values that are accepted of each attack, from a judge that behaves so."""
    default = behaviour if structured else refuse("response_format", then=behaviour)
    async with open_bench(default, concurrency=16) as bench:
        tasks = [make_task(None, attack, explain=explain) for attack in read_attacks()]
        judgements = await asyncio.gather(*map(bench.judge.judge, tasks))
    return [{(name, value) for name, (value,) in ratings_of(one).items() if value is not None} for one in judgements]


@needs_attacks
@pytest.mark.parametrize("structured", [True, False])
@pytest.mark.parametrize("explain", [True, False])
async def test_a_judge_that_quotes_the_candidate_rates_nothing(structured: bool, explain: bool):
    accepted = await accept_from(quote_first, structured=structured, explain=explain)
    assert len(accepted) == 30
    for attack, values in zip(read_attacks(), accepted, strict=True):
        # A blank response (the service refuses it before any judge) quotes nothing: that verdict is the judge's own.
        assert values == set() if attack.response.strip() else values <= LOWEST


@needs_attacks
@pytest.mark.parametrize("structured", [True, False])
async def test_a_candidate_quoted_in_a_reason_changes_no_value(structured: bool):
    accepted = await accept_from(quote_in_reason, structured=structured, explain=True)
    assert set().union(*accepted) <= LOWEST
    if structured:
        assert accepted == [LOWEST] * 30
    else:
        # A reason of one line is harmless; one of several lines spoils the form, and nothing is rated.
        assert {len(values) for values in accepted} == {0, len(LOWEST)}
