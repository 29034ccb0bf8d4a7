"""A judge without a model, for tests of what uses one."""

import hashlib
from collections.abc import Callable

from saiten_server.core.evaluation import CallTrace, JudgeProvenance, Unrated, Usage
from saiten_server.core.model import digest
from saiten_server.core.rubric import Aspect
from saiten_server.providers.ports import Judgement, JudgingEstimate, JudgingTask, Verdict

Opinion = Callable[[JudgingTask, Aspect, int], int | Unrated]


def hash_opinion(task: JudgingTask, aspect: Aspect, sample: int) -> int:
    """A legal value that depends on the dialogue, the language, the aspect and the sample alone."""
    seed = digest([task.dialogue.model_dump(mode="json"), task.language, aspect.id, sample])
    return aspect.values[int(hashlib.sha256(seed.encode()).hexdigest(), 16) % len(aspect.values)]


class FakeJudge:
    """Rates by `opinion`. `error` is raised in place of an answer; `tasks` holds what it was asked, in order."""

    def __init__(self, opinion: Opinion = hash_opinion, *, error: Exception | None = None) -> None:
        self.opinion = opinion
        self.error = error
        self.tasks: list[JudgingTask] = []
        self.closed = False

    @property
    def kind(self) -> str:
        return "fake"

    @property
    def default_model(self) -> str:
        return "fake-1"

    async def judge(self, task: JudgingTask) -> Judgement:
        self.tasks.append(task)
        if self.error:
            raise self.error
        return Judgement(
            verdicts={aspect.id: self._rate(task, aspect) for aspect in task.aspects},
            provenance=JudgeProvenance(kind=self.kind, model=task.options.model or self.default_model),
            usage=Usage(judge_calls=task.options.samples),
            trace=tuple(self._trace(task, sample) for sample in range(task.options.samples)),
        )

    def estimate(self, task: JudgingTask) -> JudgingEstimate:
        """A call a sample: 1,000 prefix tokens, one a character of the response, 10 out; a thousandth of a dollar."""
        samples = task.options.samples
        return JudgingEstimate(
            calls=samples,
            prompt_tokens=samples * (1000 + len(task.dialogue.response)),
            prefix_tokens=samples * 1000,
            completion_tokens=samples * 10,
            cost_usd=samples * 0.001,
        )

    async def close(self) -> None:
        self.closed = True

    def _rate(self, task: JudgingTask, aspect: Aspect) -> Verdict:
        samples = tuple(self.opinion(task, aspect, sample) for sample in range(task.options.samples))
        rated = [sample for sample in samples if isinstance(sample, int)]
        return Verdict(
            samples=samples,
            expected=sum(rated) / len(rated) if rated and task.options.expected else None,
            off_scale_mass=0.0 if rated and task.options.expected else None,
            reason="fake" if rated and task.options.explain else None,
        )

    def _trace(self, task: JudgingTask, sample: int) -> CallTrace:
        return CallTrace(
            prompt_digest=task.rubric.digest,
            sample=sample,
            attempt=0,
            aspects=tuple(aspect.id for aspect in task.aspects),
            reply="fake",
            finish_reason="stop",
        )
