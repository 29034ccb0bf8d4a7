"""DeepEval: six GEval metrics through `evaluate()`, steps given, one HTTP client for all calls.

Given steps save GEval the call that would write them. Without the shared client it opens a connection a call.
"""

from __future__ import annotations

import openai
from deepeval import evaluate
from deepeval.evaluate.configs import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import GEval
from deepeval.models import OpenAIModel
from deepeval.test_case import LLMTestCase, SingleTurnParams
from meter import KEY, MODEL, Task, read_task, time_task


def score(task: Task, items: list[dict[str, str]]) -> int:
    """The number of scores."""
    model = OpenAIModel(
        model=MODEL, api_key=KEY, base_url=task.base_url, async_http_client=openai.DefaultAsyncHttpxClient()
    )
    metrics = [
        GEval(
            name=one["name"],
            evaluation_steps=[task.instructions, one["criterion"]],
            evaluation_params=[SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT],
            model=model,
        )
        for one in task.aspects
    ]
    cases = [LLMTestCase(input=one["context"], actual_output=one["response"], name=one["id"]) for one in items]
    found = evaluate(
        cases,
        metrics,
        async_config=AsyncConfig(max_concurrent=task.concurrency),
        display_config=DisplayConfig(show_indicator=False, print_results=False, inspect_after_run=False),
        cache_config=CacheConfig(write_cache=False),
    )
    return sum(one.score is not None for result in found.test_results for one in result.metrics_data or [])


if __name__ == "__main__":
    given = read_task()
    time_task(given, lambda items: score(given, items))
