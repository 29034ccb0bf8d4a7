"""What every Judge promises. A judge joins the suite with one line in `JUDGES`."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import pytest

from saiten_server.core.errors import InvalidRequest
from saiten_server.core.evaluation import JudgeOptions, Unrated
from saiten_server.core.rubric import Rubric
from saiten_server.providers.lexical.judge import LexicalJudge
from saiten_server.providers.ports import Judge, Judgement, JudgingTask
from saiten_server.scoring.rubrics.files import default_folder, read_rubric_file
from tests.support.fake_judge import FakeJudge
from tests.support.judges import open_bench
from tests.support.small_rubrics import independent_rubric, joint_rubric, make_dialogue


@dataclass(frozen=True)
class Entrant:
    """A judge that the suite holds to the port, with the rubrics it can rate."""

    open: Callable[[], AbstractAsyncContextManager[Judge]]
    rubrics: tuple[Rubric, ...]


@asynccontextmanager
async def open_fake() -> AsyncIterator[Judge]:
    yield FakeJudge()


@asynccontextmanager
async def open_openai() -> AsyncIterator[Judge]:
    async with open_bench() as bench:
        yield bench.judge


@asynccontextmanager
async def open_lexical() -> AsyncIterator[Judge]:
    yield LexicalJudge()


JUDGES = {
    "fake": Entrant(open_fake, (joint_rubric(), independent_rubric())),
    "openai": Entrant(open_openai, (joint_rubric(), independent_rubric())),
    "lexical": Entrant(open_lexical, (read_rubric_file(default_folder() / "ja-dialogue.yaml"),)),
}


@pytest.fixture(params=JUDGES)
def entrant(request: pytest.FixtureRequest) -> Entrant:
    return JUDGES[request.param]


@pytest.fixture
async def judge(entrant: Entrant) -> AsyncIterator[Judge]:
    async with entrant.open() as opened:
        yield opened


async def rate(judge: Judge, rubric: Rubric, response: str = "いいですね。", **options) -> Judgement:
    return await judge.judge(JudgingTask(rubric, "ja", make_dialogue(response), JudgeOptions(**options)))


async def test_every_aspect_has_a_verdict_in_the_rubrics_order(judge: Judge, entrant: Entrant):
    for rubric in entrant.rubrics:
        judgement = await rate(judge, rubric)
        assert list(judgement.verdicts) == [aspect.id for aspect in rubric.aspects]


async def test_every_rating_is_a_level_of_its_aspect(judge: Judge, entrant: Entrant):
    for rubric in entrant.rubrics:
        for response in ("いいですね。", "?", "やめておきます。" * 30):
            judgement = await rate(judge, rubric, response)
            for aspect in rubric.aspects:
                (sample,) = judgement.verdicts[aspect.id].samples
                assert isinstance(sample, Unrated) or sample in aspect.values


@pytest.mark.parametrize("samples", [1, 4])
async def test_there_are_as_many_samples_as_were_asked_for(judge: Judge, entrant: Entrant, samples: int):
    judgement = await rate(judge, entrant.rubrics[0], samples=samples)
    assert {len(verdict.samples) for verdict in judgement.verdicts.values()} == {samples}


async def test_the_same_task_is_rated_the_same(judge: Judge, entrant: Entrant):
    first, second = await asyncio.gather(rate(judge, entrant.rubrics[0]), rate(judge, entrant.rubrics[0]))
    assert first.verdicts == second.verdicts
    assert first.provenance == second.provenance


async def test_expectations_lie_on_the_scale(judge: Judge, entrant: Entrant):
    rubric = entrant.rubrics[0]
    judgement = await rate(judge, rubric, expected=True)
    for aspect in rubric.aspects:
        verdict = judgement.verdicts[aspect.id]
        low, high = aspect.scale
        assert verdict.expected is None or low <= verdict.expected <= high
        assert verdict.off_scale_mass is None or 0 <= verdict.off_scale_mass <= 1


async def test_it_says_which_judge_it_was(judge: Judge, entrant: Entrant):
    judgement = await rate(judge, entrant.rubrics[0])
    assert judgement.provenance.kind == judge.kind
    assert judgement.provenance.model
    assert judge.default_model


async def test_what_is_traced_covers_every_aspect_of_every_sample(judge: Judge, entrant: Entrant):
    rubric = entrant.rubrics[0]
    judgement = await rate(judge, rubric, samples=2)
    traced = {(call.sample, aspect) for call in judgement.trace for aspect in call.aspects}
    assert not judgement.trace or traced == {(sample, aspect.id) for sample in (0, 1) for aspect in rubric.aspects}


async def test_a_cached_judgement_spends_nothing(judge: Judge, entrant: Entrant):
    await rate(judge, entrant.rubrics[0])
    again = await rate(judge, entrant.rubrics[0])
    assert not again.cached or (again.usage.judge_calls, again.usage.cost_usd) == (0, 0)


@pytest.mark.parametrize("samples", [1, 3])
async def test_an_estimate_has_the_calls_that_judging_makes(judge: Judge, entrant: Entrant, samples: int):
    for rubric in entrant.rubrics:
        task = JudgingTask(rubric, "ja", make_dialogue(), JudgeOptions(samples=samples))
        estimate = judge.estimate(task)
        assert estimate.calls == (await judge.judge(task)).usage.judge_calls


async def test_an_estimate_is_whole_and_the_same_each_time(judge: Judge, entrant: Entrant):
    for rubric in entrant.rubrics:
        task = JudgingTask(rubric, "ja", make_dialogue(), JudgeOptions())
        estimate = judge.estimate(task)
        assert 0 <= estimate.prefix_tokens <= estimate.prompt_tokens
        assert (estimate.completion_tokens > 0) == (estimate.prompt_tokens > 0) == (estimate.calls > 0)
        assert estimate.cost_usd is None or (estimate.cost_usd > 0) == (estimate.calls > 0)
        assert judge.estimate(task) == estimate


async def test_a_longer_dialogue_is_estimated_no_lower_and_more_samples_in_proportion(judge: Judge, entrant: Entrant):
    rubric = entrant.rubrics[0]
    short, long = (
        judge.estimate(JudgingTask(rubric, "ja", make_dialogue(response), JudgeOptions()))
        for response in ("はい。", "はい。" * 100)
    )
    assert (long.prompt_tokens > short.prompt_tokens) == (long.calls > 0)
    assert long.prefix_tokens == short.prefix_tokens
    thrice = judge.estimate(JudgingTask(rubric, "ja", make_dialogue("はい。"), JudgeOptions(samples=3)))
    for name in ("calls", "prompt_tokens", "prefix_tokens", "completion_tokens"):
        assert getattr(thrice, name) == 3 * getattr(short, name)


async def test_what_cannot_be_judged_cannot_be_estimated(judge: Judge, entrant: Entrant):
    task = JudgingTask(entrant.rubrics[0], "fr", make_dialogue(), JudgeOptions())
    try:
        await judge.judge(task)
    except InvalidRequest as refusal:
        with pytest.raises(type(refusal)):
            judge.estimate(task)
    else:
        assert judge.kind == "fake"
        assert judge.estimate(task).calls == 1
