"""A plain AsyncOpenAI loop under a semaphore, all aspects in one call; with `single`, a call an aspect.

What a team would write first. It appends each verdict to a JSON Lines file, without a sync.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import openai
from meter import KEY, MODEL, Task, read_task, time_task


def write_schema(aspects: list[dict[str, Any]]) -> dict[str, Any]:
    """One enumerated integer an aspect."""
    schema = {
        "type": "object",
        "properties": {one["id"]: {"type": "integer", "enum": one["values"]} for one in aspects},
        "required": [one["id"] for one in aspects],
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": schema}}


async def score_all(task: Task, items: list[dict[str, str]], parts: list[list[dict[str, Any]]]) -> int:
    """Asks for each part of the aspects of each item; the number of ratings."""
    places, ratings = asyncio.Semaphore(task.concurrency), 0
    asked = [
        (write_schema(part), "\n\n".join([task.instructions, *(f"{one['name']}\n{one['criterion']}" for one in part)]))
        for part in parts
    ]
    async with openai.AsyncOpenAI(api_key=KEY, base_url=task.base_url) as client:
        with (task.folder / "verdicts.jsonl").open("a", encoding="utf-8") as stored:

            async def ask(item: dict[str, str], wanted: Any, instructions: str) -> None:
                nonlocal ratings
                async with places:
                    answer = await client.chat.completions.create(
                        model=MODEL,
                        temperature=0,
                        response_format=wanted,
                        messages=[
                            {"role": "system", "content": instructions},
                            {"role": "user", "content": f"{item['context']}\n\n応答: {item['response']}"},
                        ],
                    )
                verdict = json.loads(answer.choices[0].message.content or "")
                stored.write(json.dumps({"id": item["id"], **verdict}) + "\n")
                ratings += len(verdict)

            await asyncio.gather(*(ask(item, *one) for item in items for one in asked))
    return ratings


if __name__ == "__main__":
    given = read_task()
    chosen = [[one] for one in given.aspects] if "single" in sys.argv[5:] else [given.aspects]
    time_task(given, lambda items: asyncio.run(score_all(given, items, chosen)))
