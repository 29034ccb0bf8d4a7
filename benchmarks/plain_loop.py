"""What a team would write first, in a process of its own: AsyncOpenAI under a semaphore, each reply read as JSON.

    python -m benchmarks.plain_loop --base-url http://127.0.0.1:9300/v1 --items 1000 --in-flight 100

Nothing is checked, cached, retried by plan or stored. It asks what Saiten asks: the same messages, schema and
parameters, which are made before the clock starts. Prints seconds, CPU seconds and lost items as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from saiten_server.core.batch import BatchItem
from saiten_server.core.evaluation import EvaluationRequest, JudgeOptions
from saiten_server.providers.ports import JudgingTask
from tests.support.site import make_item

ROOT = Path(__file__).parent.parent


def make_requests(items: int, name: str) -> list[dict[str, Any]]:
    """The bodies that Saiten's judge sends for as many items of `make_item`."""
    from prometheus_client import CollectorRegistry

    from saiten_server.platform.memory_cache import NoCallCache
    from saiten_server.platform.telemetry import Telemetry
    from saiten_server.providers.call_cache import CachedCalls
    from saiten_server.providers.openai.judge import OpenAIJudge
    from saiten_server.providers.openai.prices import read_prices
    from saiten_server.scoring.rubrics.files import RubricFiles, default_folder

    calls = CachedCalls(NoCallCache(), Telemetry(CollectorRegistry()))
    judge = OpenAIJudge(api_key="k", base_url=None, calls=calls, prices=read_prices())
    rubric = RubricFiles([default_folder()]).get(str(EvaluationRequest.model_fields["rubric"].default))
    bodies: list[dict[str, Any]] = []
    for number in range(items):
        item = BatchItem.model_validate(make_item(name, number))
        request = EvaluationRequest.model_construct(context=item.context, response=item.response or "")
        task = JudgingTask(rubric, rubric.source_language, request.turn, JudgeOptions())
        bodies += [dict(call.body) for call in judge.defer(task)]
    return bodies


async def ask_all(base_url: str, bodies: list[dict[str, Any]], in_flight: int) -> dict[str, float]:
    """Asks them all; a first call, before the clock starts, opens the client."""
    import openai

    places, lost = asyncio.Semaphore(in_flight), 0

    async def ask(client: openai.AsyncOpenAI, body: dict[str, Any]) -> None:
        nonlocal lost
        async with places:
            try:
                reply = await client.chat.completions.create(**body)
                json.loads(reply.choices[0].message.content or "")
            except (openai.OpenAIError, ValueError):
                lost += 1

    async with openai.AsyncOpenAI(api_key="k", base_url=base_url) as client:
        await ask(client, bodies[0])
        cpu, started = time.process_time(), time.perf_counter()
        await asyncio.gather(*(ask(client, body) for body in bodies))
        return {
            "seconds": time.perf_counter() - started,
            "cpu_seconds": time.process_time() - cpu,
            "lost": lost,
        }


def run_plain_loop(base_url: str, *, items: int, in_flight: int, name: str) -> dict[str, float]:
    """`ask_all` in a process of its own. Raises RuntimeError where it fails or loses an item."""
    numbers = ["--items", str(items), "--in-flight", str(in_flight), "--name", name]
    command = [sys.executable, "-m", "benchmarks.plain_loop", "--base-url", base_url, *numbers]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise RuntimeError(f"the plain loop failed\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout)
    if found["lost"]:
        raise RuntimeError(f"the plain loop lost {found['lost']:.0f} items")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--in-flight", type=int, default=100)
    parser.add_argument("--name", default="plain")
    options = parser.parse_args()
    bodies = make_requests(options.items, options.name)
    print(json.dumps(asyncio.run(ask_all(options.base_url, bodies, options.in_flight))))


if __name__ == "__main__":
    main()
