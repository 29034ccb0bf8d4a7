"""inspect_ai: six `model_graded_qa` scorers on responses that are given, its log as the store."""

from __future__ import annotations

from typing import Any

from inspect_ai import Task as Evaluation
from inspect_ai import eval as evaluate
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig, ModelOutput, get_model
from inspect_ai.scorer import mean, model_graded_qa, scorer
from inspect_ai.solver import Generate, TaskState, solver
from meter import KEY, MODEL, Task, read_task, time_task

TEMPLATE = """{instructions}

[対話文脈]
{question}

[応答]
{answer}
"""
PATTERN = r"GRADE:\s*(-?\d+)"


@solver
def give_response() -> Any:
    """The sample's own response in the place of a generated one."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.output = ModelOutput.from_content(model="given", content=state.metadata["response"])
        return state

    return solve


def make_scorer(task: Task, aspect: dict[str, Any], grader: Any) -> Any:
    """A scorer named after its aspect, with a mean."""

    @scorer(metrics=[mean()], name=aspect["id"])
    def rate() -> Any:
        return model_graded_qa(
            template=TEMPLATE,
            instructions=f"{task.instructions}\n\n{aspect['name']}\n{aspect['criterion']}\n\nGRADE: N",
            grade_pattern=PATTERN,
            model=grader,
        )

    return rate()


def score(task: Task, items: list[dict[str, str]]) -> int:
    """The number of scores."""
    grader = get_model(
        f"openai/{MODEL}",
        base_url=task.base_url,
        api_key=KEY,
        config=GenerateConfig(temperature=0, max_connections=task.concurrency),
        responses_api=False,
        memoize=False,
    )
    samples = [Sample(input=one["context"], id=one["id"], metadata={"response": one["response"]}) for one in items]
    evaluation = Evaluation(
        dataset=MemoryDataset(samples),
        solver=give_response(),
        scorer=[make_scorer(task, one, grader) for one in task.aspects],
    )
    (log,) = evaluate(
        evaluation,
        model=grader,
        max_samples=max(1, len(items)),
        display="none",
        log_dir=str(task.folder),
        log_level="error",
        log_realtime=False,
        score_display=False,
    )
    if log.status != "success":
        raise RuntimeError(f"inspect_ai: {log.status}: {log.error}")
    return sum(one.value is not None for sample in log.samples or [] for one in (sample.scores or {}).values())


if __name__ == "__main__":
    given = read_task()
    time_task(given, lambda items: score(given, items))
