"""What work is priced at before it begins, what of it is in hand at once, and who pays for its calls."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import CostLimitReached, TooMuchWork
from saiten_server.core.evaluation import ConversationRequest, EvaluationRequest, Usage
from saiten_server.platform.tasks import run_few
from saiten_server.providers.call_cache import CachedCalls
from saiten_server.providers.ports import Judgement, JudgingTask, RequestScope
from saiten_server.scoring.admission import Experience, ReservingPurse, admit, quote
from saiten_server.scoring.conversation import evaluate_conversation
from saiten_server.scoring.evaluate import ScoringContext
from saiten_server.scoring.relevance import Relevance
from saiten_server.scoring.rubrics.files import open_rubrics
from tests.scoring.test_evaluate import Bench
from tests.support.conversations import make_turns
from tests.support.databases import unused_store
from tests.support.dict_cache import DictCache
from tests.support.fake_judge import FakeJudge
from tests.support.faults import words
from tests.support.judges import make_judge

SHIPPED = open_rubrics(None)
UTTERANCE = {"speaker": "A", "text": "おはよう。"}


class CountingJudge(FakeJudge):
    """Counts the tasks in hand, each of whose calls costs a thousandth of a dollar."""

    in_hand = 0
    peak = 0

    async def judge(self, task: JudgingTask) -> Judgement:
        self.in_hand += 1
        self.peak = max(self.peak, self.in_hand)
        await asyncio.sleep(0.001)
        self.in_hand -= 1
        found = await super().judge(task)
        samples = task.options.samples
        return replace(found, usage=Usage(judge_calls=samples, cost_usd=samples * 0.001))


def make_context(judge: FakeJudge | None = None, **changes: Any) -> ScoringContext:
    bench = Bench(judge=judge or CountingJudge())
    relevance = Relevance(None, unused_store(), CachedCalls(DictCache(), bench.telemetry))
    return replace(bench.instruments, rubrics=SHIPPED, relevance=relevance, **changes)


def make_conversation(turns: int, *, samples: int = 1, **more: Any) -> ConversationRequest:
    asked = {"turns": make_turns(*(f"{number}番です。" for number in range(turns))), "judge": {"samples": samples}}
    return ConversationRequest.model_validate({**asked, "score_turns": {"rubric": "ja-dialogue"}, **more})


def make_evaluation(**more: Any) -> EvaluationRequest:
    asked = {"rubric": "ja-dialogue", "context": [UTTERANCE], "response": "よく眠れました。", "relevance": None}
    return EvaluationRequest.model_validate({**asked, **more})


@pytest.mark.parametrize(
    ("asked", "calls"),
    [
        (make_evaluation(), 1),
        (make_evaluation(judge={"samples": 16}), 16),
        (make_evaluation(path="both", judge={"samples": 3}), 6),
        (make_evaluation(path="both", judge={"samples": 3}, integrity="judge-twice"), 9),
        (make_conversation(40, samples=4), 4 + 40 * 4),
        (make_conversation(40, samples=4, integrity="judge-twice"), 2 * (4 + 40 * 4)),
        (make_conversation(40, samples=4, score_turns=None), 4),
    ],
)
def test_work_is_priced_at_all_its_calls(asked: EvaluationRequest | ConversationRequest, calls: int) -> None:
    found = quote([asked], make_context())
    assert found.calls == calls
    assert found.cost_usd == pytest.approx(calls * 0.001)
    assert quote([asked], make_context(), times=3).calls == 3 * calls


def test_windows_are_priced_each() -> None:
    whole = quote([make_conversation(40, score_turns=None)], make_context(window_tokens=40))
    assert whole.calls > 10


async def test_turns_are_priced_as_prompts_one_by_one_are() -> None:
    """The judge does not weigh a turn's context anew for each turn after it, and comes to the same."""
    asked, judge = make_conversation(30), make_judge("http://127.0.0.1:9/v1")
    turns = asked.turns
    singles = [
        make_evaluation(
            context=[turn.model_dump(include={"speaker", "text"}) for turn in turns[:number]],
            response=turns[number].text,
        )
        for number in range(1, len(turns), 2)
    ]
    together = quote([asked], make_context(judge))  # type: ignore[arg-type]
    whole = quote([asked.model_copy(update={"score_turns": None})], make_context(judge))  # type: ignore[arg-type]
    each = [quote([one], make_context(make_judge("http://127.0.0.1:9/v1"))) for one in singles]  # type: ignore[arg-type]
    assert together.prompt_tokens - whole.prompt_tokens == sum(one.prompt_tokens for one in each)
    assert together.calls == 1 + len(singles)


@pytest.mark.parametrize(
    ("limits", "setting"),
    [
        (Limits(judge_calls=84), "SAITEN_LIMITS__JUDGE_CALLS"),
        (Limits(judge_tokens=80_000), "SAITEN_LIMITS__JUDGE_TOKENS"),
    ],
)
async def test_too_much_work_is_refused_before_it_begins_and_the_setting_is_named(limits: Limits, setting: str) -> None:
    context = make_context(limits=limits)
    with pytest.raises(TooMuchWork, match=setting):
        await admit([make_conversation(17, samples=5)], context, RequestScope())
    await admit([make_conversation(10, samples=5)], context, RequestScope())
    with pytest.raises(TooMuchWork, match=setting):
        await admit([make_conversation(10, samples=5)], context, RequestScope(), times=2)


@pytest.mark.parametrize(("samples", "most"), [(1, 16), (4, 4), (16, 1)])
async def test_turns_are_in_hand_a_few_at_a_time_and_their_usage_counts(samples: int, most: int) -> None:
    judge, scope = CountingJudge(), RequestScope()
    record, turns = await evaluate_conversation(make_conversation(50, samples=samples), make_context(judge), scope)
    assert len(turns) == 50
    assert judge.peak <= most + 1  # and the conversation as a whole
    assert record.evaluation.usage.judge_calls == 51 * samples
    assert record.evaluation.usage.cost_usd == pytest.approx(51 * samples * 0.001)
    assert scope.cost_usd == pytest.approx(51 * samples * 0.001)


async def test_windows_are_in_hand_a_few_at_a_time() -> None:
    judge = CountingJudge()
    asked = make_conversation(60, samples=8, score_turns=None)
    record, _ = await evaluate_conversation(asked, make_context(judge, window_tokens=40))
    assert judge.peak <= 2
    assert record.evaluation.usage.judge_calls == 8 * len(record.evaluation.windows or ()) > 80


async def test_work_is_made_when_it_is_begun() -> None:
    made, begun = [], asyncio.Event()

    async def work(number: int) -> int:
        made.append(number)
        await begun.wait()
        return number

    def list_work() -> Any:
        for number in range(100):
            assert number <= len(made) + 3  # no further ahead than there are hands
            yield partial(work, number)

    running = asyncio.create_task(run_few(list_work(), 3))
    for _ in range(10):
        await asyncio.sleep(0)
    assert made == [0, 1, 2]
    begun.set()
    assert await running == list(range(100))


async def test_the_first_failure_ends_the_rest() -> None:
    begun: list[int] = []

    async def work(number: int) -> None:
        begun.append(number)
        if number == 4:
            raise ValueError("four")
        await asyncio.sleep(0.001)

    with pytest.raises(ValueError, match="four"):
        await run_few((partial(work, number) for number in range(100)), 2)
    assert max(begun) <= 6


class Account:
    """Has so many dollars; a purse takes of them."""

    def __init__(self, usd: float) -> None:
        self.usd = usd

    async def take(self, usd: float) -> None:
        await asyncio.sleep(0)
        if usd > self.usd + 1e-9:
            raise CostLimitReached(words("no"), retry_after_seconds=1)
        self.usd -= usd


def call_at(scope: RequestScope, expected: float, cost: float) -> Callable[[], Coroutine[Any, Any, None]]:
    async def call() -> None:
        async with scope.paying(expected) as payment:
            await asyncio.sleep(0)
            payment.cost_usd = cost

    return call


async def test_calls_are_paid_of_what_was_reserved_and_more_only_while_there_is_more() -> None:
    account = Account(10.0)
    purse = ReservingPurse(account.take, Experience())
    scope = RequestScope(purse=purse)
    await purse.reserve(4.0)
    assert account.usd == 6
    await run_few([call_at(scope, 1.0, 1.0)] * 4, 4)
    assert (account.usd, purse.due_usd(scope.cost_usd)) == (6, 0)
    # Six calls more, such as those that ask again, and not a seventh.
    with pytest.raises(CostLimitReached):
        await run_few([call_at(scope, 1.0, 1.0)] * 20, 3)
    assert (scope.cost_usd, account.usd) == (10, 0)


async def test_calls_that_are_dearer_than_expected_overspend_by_one_call() -> None:
    """As by a model that thinks, whose replies cost five times what is expected of them."""
    account, experience, spent = Account(100.0), Experience(), 0.0
    for _ in range(200):
        purse = ReservingPurse(account.take, experience)
        scope = RequestScope(purse=purse)
        try:
            await purse.reserve(1.0)
            await call_at(scope, 1.0, 5.0)()
        except CostLimitReached:
            break
        account.usd -= purse.due_usd(scope.cost_usd)
        spent += scope.cost_usd
    assert 95 <= spent <= 100 + 5
    assert experience.ratio == 5


async def test_what_was_reserved_is_enough_whatever_other_work_learns_meanwhile() -> None:
    account, experience = Account(2.0), Experience()
    scopes = [RequestScope(purse=ReservingPurse(account.take, experience)) for _ in range(2)]
    for scope in scopes:
        assert scope.purse is not None
        await scope.purse.reserve(1.0)
    await call_at(scopes[0], 1.0, 1.5)()
    await call_at(scopes[1], 1.0, 1.0)()
    assert [scope.cost_usd for scope in scopes] == [1.5, 1.0]


async def test_what_was_not_needed_is_given_back_and_what_was_begun_is_paid() -> None:
    account = Account(10.0)
    purse = ReservingPurse(account.take, Experience())
    scope = RequestScope(purse=purse)
    await purse.reserve(8.0)

    async def fail() -> None:
        async with scope.paying(1.0):
            raise ValueError("the call failed")

    with pytest.raises(ValueError, match="failed"):
        await fail()
    assert purse.due_usd(scope.cost_usd) == -8

    async def hang() -> None:
        async with scope.paying(1.0):
            await asyncio.Event().wait()

    hanging = asyncio.create_task(hang())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert purse.due_usd(scope.cost_usd) == -7  # it has no outcome yet
    hanging.cancel()
    await asyncio.wait([hanging])
    assert (scope.cost_usd, purse.due_usd(scope.cost_usd)) == (1, -7)
