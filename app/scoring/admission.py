"""What work takes at the judge, priced before it begins, and whether its caller may ask for so much."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from saiten.core.messages import Message
from saiten_server.core.batch import AnyRequest
from saiten_server.core.conversation import cut_windows
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import InvalidRequest, TooMuchWork
from saiten_server.core.evaluation import ConversationRequest, EvaluationRequest, PathChoice, PreferenceRequest
from saiten_server.core.rubric import Rubric
from saiten_server.providers.ports import Judge, JudgingEstimate, JudgingTask, Purse, RequestScope
from saiten_server.scoring.conversation import ConversationSubject, list_turn_requests, plan_conversation
from saiten_server.scoring.evaluate import ScoringContext
from saiten_server.scoring.preferring import open_pair
from saiten_server.scoring.subject import ENGLISH_PATH_LANGUAGE, check_path, check_unit

PRICED_AT_ONCE = 20_000
"""Characters that are priced on the event loop, which takes about a millisecond."""

ROUNDING_USD = 1e-12


@dataclass(frozen=True)
class Quote:
    """What work takes at most, if every first reply is valid and none is cached. `cost_usd` is None if the price of the
    judge's model is not known."""

    calls: int
    prompt_tokens: int
    cost_usd: float | None


class Bill:
    """Adds up what tasks take at the judge. A cost is None from the first task on whose cost is not known.
    `second_calls`, `second_tokens` and `second_cost_usd` are what a second look at every candidate would add: it is on
    one path, the dearest here, in all windows, and shows the judge no more than the first look did."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._languages: set[str] = set()
        self.calls = 0
        self.prompt_tokens = 0
        self.prefix_tokens = 0
        self.completion_tokens = 0
        self.cost_usd: float | None = 0.0
        self.cost_usd_prefix_cached: float | None = 0.0
        self.unit_cost_usd: float | None = 0.0
        self.second_calls = 0
        self.second_tokens = 0
        self.second_cost_usd: float | None = 0.0

    def add(self, tasks: Iterable[JudgingTask]) -> None:
        """Adds one candidate's tasks: one per language, or one per window of a conversation."""
        unit: float | None = 0.0
        looks: dict[str, tuple[int, int, float | None]] = {}
        for task in tasks:
            estimate = self._judge.estimate(task)
            self.calls += estimate.calls
            self.prompt_tokens += estimate.prompt_tokens
            self.prefix_tokens += estimate.prefix_tokens
            self.completion_tokens += estimate.completion_tokens
            cached = self._price_cached(task, estimate)
            self.cost_usd_prefix_cached = add_costs(self.cost_usd_prefix_cached, cached)
            unit = add_costs(unit, estimate.cost_usd)
            calls, tokens, cost = looks.get(task.language, (0, 0, 0.0))
            look = calls + estimate.calls, tokens + estimate.prompt_tokens, add_costs(cost, estimate.cost_usd)
            looks[task.language] = look
        self.second_calls += max((calls for calls, _, _ in looks.values()), default=0)
        self.second_tokens += max((tokens for _, tokens, _ in looks.values()), default=0)
        costs = [cost for _, _, cost in looks.values() if cost is not None]
        known = len(costs) == len(looks)
        self.second_cost_usd = add_costs(self.second_cost_usd, max(costs, default=0.0) if known else None)
        self.cost_usd = add_costs(self.cost_usd, unit)
        known = self.unit_cost_usd is not None and unit is not None
        self.unit_cost_usd = max(self.unit_cost_usd or 0.0, unit or 0.0) if known else None

    def quote(self, *, twice: bool) -> Quote:
        """The sum; `twice`, with a second look at everything."""
        if not twice:
            return Quote(self.calls, self.prompt_tokens, self.cost_usd)
        tokens = self.prompt_tokens + self.second_tokens
        return Quote(self.calls + self.second_calls, tokens, add_costs(self.cost_usd, self.second_cost_usd))

    def _price_cached(self, task: JudgingTask, estimate: JudgingEstimate) -> float | None:
        """The cost with the prefix in the provider's prompt cache, into which a language's first sample puts it."""
        full, cached = estimate.cost_usd, estimate.cost_usd_prefix_cached
        if full is None or cached is None:
            return full
        if task.language in self._languages:
            return cached
        self._languages.add(task.language)
        return cached + (full - cached) / task.options.samples


def add_costs(one: float | None, other: float | None) -> float | None:
    """The sum; None where either is not known."""
    return None if one is None or other is None else one + other


def languages_of(rubric: Rubric, path: PathChoice) -> tuple[str, ...]:
    """The languages that are judged on a path. A translation is not there yet when work is priced, and is taken to
    have its source's tokens."""
    own = rubric.source_language
    return {"source": (own,), "english": (ENGLISH_PATH_LANGUAGE,), "both": (own, ENGLISH_PATH_LANGUAGE)}[path]


def plan_evaluation(asked: EvaluationRequest, rubric: Rubric) -> list[JudgingTask]:
    """The judge's tasks on one response, one per language."""
    references = asked.references if rubric.references else ()
    languages = languages_of(rubric, asked.path)
    return [JudgingTask(rubric, language, asked.turn, asked.judge, references) for language in languages]


def plan_whole(asked: ConversationRequest, rubric: Rubric, window_tokens: int) -> list[JudgingTask]:
    """The judge's tasks on one conversation, one per window and language."""
    windows = cut_windows(asked.conversation, window_tokens)
    languages = languages_of(rubric, asked.path)
    return [task for language in languages for task in plan_conversation(windows, rubric, language, asked.judge)]


def list_work(asked: AnyRequest, context: ScoringContext) -> Iterator[Sequence[JudgingTask]]:
    """The judge's tasks by candidate; of a conversation with `score_turns`, each turn is one. They are made while they
    are read, since hundreds of turns each hold the turns before them. Raises UnknownRubric, LanguageNotSupported
    and RubricUnitMismatch."""
    rubric = context.rubrics.get(asked.rubric)
    if isinstance(asked, PreferenceRequest):
        yield open_pair(asked, rubric, context.window_tokens).tasks("interactive")
        return
    check_path(rubric, asked.path)
    if isinstance(asked, EvaluationRequest):
        check_unit(rubric, "item")  # before a judge says that it cannot rate such a rubric
        yield plan_evaluation(asked, rubric)
        return
    subject = ConversationSubject(asked, rubric, context.window_tokens)
    yield plan_whole(asked, rubric, context.window_tokens)
    for _, one in list_turn_requests(subject, context):
        yield plan_evaluation(one, context.rubrics.get(one.rubric))


def quote(requests: Iterable[AnyRequest], context: ScoringContext, *, times: int = 1) -> Quote:
    """What it takes to score these, each so many times. Raises InvalidRequest."""
    bill, twice = Bill(context.judge), False
    for asked in requests:
        twice = twice or asked.integrity == "judge-twice"
        for tasks in list_work(asked, context):
            bill.add(tasks)
    found = bill.quote(twice=twice)
    cost = None if found.cost_usd is None else times * found.cost_usd
    return Quote(times * found.calls, times * found.prompt_tokens, cost)


def characters_of(asked: AnyRequest) -> int:
    """The characters of the texts to be judged; of turns that are scored too, each with those before it."""
    if isinstance(asked, EvaluationRequest):
        return sum(len(said.text) for said in asked.context) + len(asked.response)
    if isinstance(asked, PreferenceRequest):
        texts = (text for given in asked.sides.values() for text in given.texts)
        return sum(len(said.text) for said in asked.context or ()) + sum(map(len, texts))
    return sum(len(turn.text) for turn in asked.turns) * (len(asked.turns) if asked.score_turns else 1)


async def admit(
    requests: Sequence[AnyRequest], context: ScoringContext, scope: RequestScope, *, times: int = 1
) -> Quote:
    """Prices the work before it begins, and reserves its cost, which the scope's purse pays. Raises TooMuchWork beyond
    the limits of one request, CostLimitReached if the caller's money is not enough, and InvalidRequest if the judge
    does not take it."""
    if sum(map(characters_of, requests)) <= PRICED_AT_ONCE:
        found = quote(requests, context, times=times)
    else:
        found = await asyncio.to_thread(quote, requests, context, times=times)
    require_within(found, context.limits)
    if scope.purse is not None:
        await scope.purse.reserve(found.cost_usd or 0.0)
    return found


def require_within(asked: Quote, limits: Limits) -> None:
    """Raises TooMuchWork if the work takes more calls or tokens than one request may."""
    if asked.calls > limits.judge_calls:
        raise TooMuchWork(Message("judge-calls-most", calls=asked.calls, limit=limits.judge_calls))
    if asked.prompt_tokens > limits.judge_tokens:
        raise TooMuchWork(Message("judge-tokens-most", tokens=asked.prompt_tokens, limit=limits.judge_tokens))


LATEST_WEIGHT = 0.1
"""The weight of the latest call in what calls turn out to cost."""


@dataclass(eq=False)
class Experience:
    """How much dearer calls turn out than they are expected to be: `ratio` is at least 1. It follows a dearer call at
    once, such as the first one of a model that thinks, and cheaper ones slowly."""

    ratio: float = 1.0

    def learn(self, expected_usd: float, cost_usd: float) -> None:
        """A call was expected to cost so much, and did cost so much. A call that failed says nothing."""
        if expected_usd > 0 and cost_usd > 0:
            latest = cost_usd / expected_usd
            weight = 1.0 if latest > self.ratio else LATEST_WEIGHT
            self.ratio = max(1.0, self.ratio + weight * (latest - self.ratio))


class ReservingPurse:
    """Implements `Purse` over an account that other work uses too: `take` reserves so many dollars of it, and raises
    CostLimitReached if they are not there.

    Work reserves what it was priced at, then holds a part of that for each call. What a call needs beyond it, such as
    one that asks again for a malformed reply, is reserved when the call is about to begin. Everything is reserved at
    what is expected of it, times what `experience`, which all work of one account shares, says as the work begins, and
    what its own calls say later: what other work learns meanwhile must not make its reservation too small.
    """

    def __init__(self, take: Callable[[float], Awaitable[None]], experience: Experience) -> None:
        self._take = take
        self._shared = experience
        self._own = Experience(experience.ratio)
        self._reserved_usd = 0.0
        self._held_usd = 0.0
        self._spent_usd = 0.0

    async def reserve(self, usd: float) -> None:
        needed_usd = usd * self._own.ratio
        if needed_usd > 0:
            await self._take(needed_usd)
            self._reserved_usd += needed_usd

    async def hold(self, expected_usd: float) -> float:
        needed_usd = expected_usd * self._own.ratio
        self._held_usd += needed_usd
        short_usd = self._spent_usd + self._held_usd - self._reserved_usd
        if short_usd > ROUNDING_USD:
            self._reserved_usd += short_usd  # other calls of this work must not count on it meanwhile
            try:
                await self._take(short_usd)
            except BaseException:
                self._reserved_usd -= short_usd
                self._held_usd -= needed_usd
                raise
        return needed_usd

    def settle(self, expected_usd: float, held_usd: float, cost_usd: float) -> None:
        self._held_usd -= held_usd
        self._spent_usd += cost_usd
        for experience in (self._own, self._shared):
            experience.learn(expected_usd, cost_usd)

    def due_usd(self, cost_usd: float) -> float:
        """What the account still has to pay once the work is over, which is below 0 if it gets something back. Calls
        that have no outcome are paid at what was held for them. `cost_usd` is what the work cost as its scope knows."""
        return max(self._spent_usd + self._held_usd, cost_usd) - self._reserved_usd


class CappedPurse:
    """Implements `Purse` over another one, or over none, for work that may cost `most_usd` in all. Raises
    InvalidRequest for what costs more."""

    def __init__(self, purse: Purse | None, most_usd: float) -> None:
        self._purse = purse
        self._most_usd = most_usd
        self._bound_usd = 0.0

    async def reserve(self, usd: float) -> None:
        self._require(usd)
        if self._purse is not None:
            await self._purse.reserve(usd)

    async def hold(self, expected_usd: float) -> float:
        self._require(self._bound_usd + expected_usd)
        held_usd = expected_usd if self._purse is None else await self._purse.hold(expected_usd)
        self._bound_usd += expected_usd
        return held_usd

    def settle(self, expected_usd: float, held_usd: float, cost_usd: float) -> None:
        self._bound_usd += cost_usd - expected_usd
        if self._purse is not None:
            self._purse.settle(expected_usd, held_usd, cost_usd)

    def _require(self, usd: float) -> None:
        if usd > self._most_usd + ROUNDING_USD:
            detail = Message("budget-exceeded", cost=usd, limit=self._most_usd)
            raise InvalidRequest(detail, pointer="/budget_usd")
