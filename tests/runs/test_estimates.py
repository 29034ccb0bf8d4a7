"""Estimates of batches: what is counted once, what is counted each time, and what nobody is asked."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from saiten.core.messages import Message
from saiten_server.core.batch import (
    BatchConversation,
    BatchItem,
    BatchOptions,
    Candidate,
    EstimateReport,
    any_request_of,
    list_candidates,
    request_of,
)
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import LanguageNotSupported, TranslatorNotConfigured, UnknownAspect, UnknownRubric
from saiten_server.core.evaluation import ConversationRequest, JudgeOptions
from saiten_server.providers.call_cache import CachedCalls
from saiten_server.providers.deepl.requests import plan_passages
from saiten_server.providers.ports import JudgingEstimate, JudgingTask, RequestScope
from saiten_server.runs.attempt import make_example, rate_request
from saiten_server.runs.document import BatchReader
from saiten_server.runs.estimates import BatchEstimate, admit
from saiten_server.runs.intake import Spool, take_in
from saiten_server.scoring.evaluate import ScoringContext
from saiten_server.scoring.relevance import Relevance
from saiten_server.scoring.rubrics.files import open_rubrics
from tests.support.conversations import make_turns
from tests.support.databases import unused_store
from tests.support.dict_cache import DictCache
from tests.support.fake_encoder import FakeEncoder
from tests.support.fake_judge import FakeJudge
from tests.support.fake_rubrics import FakeRubrics, small_rubric
from tests.support.fake_speech import FakeSpeech
from tests.support.fake_telemetry import FakeTelemetry
from tests.support.fake_translator import FakeTranslator
from tests.support.small_rubrics import joint_rubric

RUBRIC = joint_rubric()
SHOWING = RUBRIC.model_copy(update={"id": "showing", "references": True})
OPTIONS = BatchOptions(rubric=RUBRIC.id)


class PricedJudge(FakeJudge):
    """A dollar a call and ten cents a character of the response; the prefix is 40 cents of it, 4 where it is kept."""

    def estimate(self, task: JudgingTask) -> JudgingEstimate:
        samples = task.options.samples
        cost = samples * (1.0 + 0.1 * len(task.dialogue.response))
        return JudgingEstimate(samples, 0, 0, 0, cost, cost - 0.36 * samples)


class UnpricedJudge(FakeJudge):
    """Knows the price of short responses only."""

    def estimate(self, task: JudgingTask) -> JudgingEstimate:
        known = len(task.dialogue.response) < 5
        return replace(super().estimate(task), cost_usd=0.5 if known else None)


def make_instruments(judge: FakeJudge | None = None, translator: FakeTranslator | None = None) -> ScoringContext:
    telemetry = FakeTelemetry()
    return ScoringContext(
        rubrics=FakeRubrics([RUBRIC, SHOWING, small_rubric()]),
        judge=judge or FakeJudge(),
        translator=translator,
        relevance=Relevance(FakeEncoder(), unused_store(), CachedCalls(DictCache(), telemetry)),
        telemetry=telemetry,
        speech=FakeSpeech(),
        now=lambda: datetime(2026, 11, 21, tzinfo=UTC),
        new_id=lambda: "ev_test",
    )


def make_candidate(response: str = "はい。", said: tuple[str, ...] = ("雨ですね。",), **more: Any) -> Candidate:
    context = [{"speaker": "A", "text": text} for text in said]
    return Candidate.model_validate({"context": context, "response": response, **more})


def estimate(candidates: list[Candidate], options: BatchOptions = OPTIONS, **parts: Any) -> EstimateReport:
    found = BatchEstimate(options, make_instruments(**parts))
    for candidate in candidates:
        found.add(candidate)
    return found.report()


def test_candidates_are_added_up():
    report = estimate([make_candidate("はい。"), make_candidate("いいえ。")])
    assert (report.candidates, report.distinct_candidates, report.calls) == (2, 2, 2)
    assert (report.prompt_tokens, report.prefix_tokens, report.completion_tokens) == (2007, 2000, 20)
    assert report.cost_usd == pytest.approx(0.002)
    assert report.unit_cost_usd == pytest.approx(0.001)
    assert report.translated_characters == 0


def test_identical_candidates_are_judged_once():
    twice = [make_candidate(), make_candidate(metadata={"system": "b"}), make_candidate(said=("晴れですね。",))]
    report = estimate(twice)
    assert (report.candidates, report.distinct_candidates, report.calls) == (3, 2, 2)


def test_texts_do_not_run_into_each_other():
    report = estimate(
        [make_candidate(said=("ab", "c")), make_candidate(said=("a", "bc")), make_candidate(said=("abc",))]
    )
    assert report.distinct_candidates == 3


def test_another_speaker_is_another_candidate():
    other = Candidate.model_validate({"context": [{"speaker": "B", "text": "雨ですね。"}], "response": "はい。"})
    assert estimate([make_candidate(), other]).distinct_candidates == 2


@pytest.mark.parametrize(("rubric", "distinct"), [(RUBRIC.id, 1), (SHOWING.id, 2)])
def test_references_count_where_the_judge_is_shown_them(rubric, distinct):
    candidates = [make_candidate(), make_candidate(reference="正解です。")]
    assert estimate(candidates, BatchOptions(rubric=rubric)).distinct_candidates == distinct


def test_nobody_is_asked():
    judge, translator = FakeJudge(), FakeTranslator()
    estimate([make_candidate()], BatchOptions(rubric=RUBRIC.id, path="both"), judge=judge, translator=translator)
    assert (judge.tasks, translator.asked) == ([], [])


@pytest.mark.parametrize(("path", "calls"), [("source", 2), ("english", 2), ("both", 4)])
def test_both_paths_are_judged_twice(path, calls):
    options = BatchOptions(rubric=RUBRIC.id, path=path, judge=JudgeOptions(samples=2))
    assert estimate([make_candidate()], options, translator=FakeTranslator()).calls == calls


@pytest.mark.parametrize("path", ["english", "both"])
def test_a_context_is_translated_once_for_all_its_responses(path):
    item = BatchItem.model_validate(
        {"context": [{"speaker": "A", "text": "あ" * 10}], "responses": ["い" * 3, "う" * 4, "い" * 3]}
    )
    candidates = [candidate for _, candidate in list_candidates(item, 0, 0)]
    apart = make_candidate("い" * 3, said=("あ" * 10,))
    elsewhere = make_candidate("い" * 3, said=("え" * 20,))
    options = BatchOptions(rubric=RUBRIC.id, path=path)
    report = estimate([*candidates, apart, elsewhere], options, translator=FakeTranslator())
    # The same response after another context is another translation.
    assert report.translated_characters == 10 + 3 + 4 + 20 + 3


def test_characters_are_those_that_the_translator_would_send():
    def said(*numbers: int) -> tuple[str, ...]:
        return tuple("あ" * number for number in numbers)

    growing = [make_candidate("い" * turns, said=said(*range(1, turns + 1))) for turns in range(1, 25)]
    repeating = [make_candidate("い", said=("い", "う", "い")), make_candidate("い", said=("う",) * 11 + ("い",))]
    candidates = [*growing, *repeating, growing[-1]]
    options = BatchOptions(rubric=RUBRIC.id, path="english")
    sent = {passage for one in candidates for passage in plan_passages(request_of(options, one).turn, "JA")}
    report = estimate(candidates, options, translator=FakeTranslator())
    assert report.translated_characters == sum(len(passage.text) for passage in sent)


def test_the_unit_is_the_dearest_candidate():
    report = estimate([make_candidate("a"), make_candidate("a" * 20), make_candidate("a" * 5)], judge=PricedJudge())
    assert report.unit_cost_usd == pytest.approx(3.0)
    assert report.cost_usd == pytest.approx(3 + 2.6)
    assert report.cost_usd_provider_batch == pytest.approx(5.6 / 2)


def test_the_unit_has_both_paths():
    options = BatchOptions(rubric=RUBRIC.id, path="both", judge=JudgeOptions(samples=3))
    report = estimate([make_candidate("a")], options, judge=PricedJudge(), translator=FakeTranslator())
    assert report.unit_cost_usd == pytest.approx(2 * 3 * 1.1)


@pytest.mark.parametrize(("path", "prefixes"), [("source", 1), ("both", 2)])
def test_each_prefix_is_paid_in_full_once(path, prefixes):
    options = BatchOptions(rubric=RUBRIC.id, path=path, judge=JudgeOptions(samples=4))
    candidates = [make_candidate("a"), make_candidate("b"), make_candidate("c")]
    report = estimate(candidates, options, judge=PricedJudge(), translator=FakeTranslator())
    calls = 3 * 4 * prefixes
    assert report.calls == calls
    assert report.cost_usd == pytest.approx(calls * 1.1)
    assert report.cost_usd_prefix_cached == pytest.approx(calls * 1.1 - (calls - prefixes) * 0.36)


@pytest.mark.parametrize("order", [1, -1])
def test_one_unknown_cost_makes_all_unknown(order):
    candidates = [make_candidate("no"), make_candidate("long enough")][::order]
    report = estimate(candidates, judge=UnpricedJudge())
    assert (report.cost_usd, report.cost_usd_prefix_cached, report.cost_usd_provider_batch) == (None, None, None)
    assert report.unit_cost_usd is None
    assert report.calls == 2
    assert Message("assumed-no-price") in report.assumptions


@pytest.mark.parametrize(("path", "calls"), [("source", 3), ("english", 3), ("both", 6)])
def test_a_second_look_is_told_apart_as_the_most_that_it_adds(path, calls):
    judged = {"path": path, "judge": JudgeOptions(samples=3)}
    parts = {"judge": PricedJudge(), "translator": FakeTranslator()}
    once = estimate([make_candidate("a")], BatchOptions(rubric=RUBRIC.id, **judged), **parts)
    twice = estimate([make_candidate("a")], BatchOptions(rubric=RUBRIC.id, integrity="judge-twice", **judged), **parts)
    # A call of a dollar and ten cents for each sample, on one of the paths.
    assert twice.second_look_calls == 3
    assert twice.second_look_cost_usd == pytest.approx(3 * 1.1)
    assert (once.second_look_calls, once.second_look_cost_usd) == (0, 0.0)
    assert once.calls == twice.calls == calls
    assert (once.cost_usd, once.unit_cost_usd) == (twice.cost_usd, twice.unit_cost_usd)
    assert twice.assumptions.count(Message("assumed-second-looks")) == 1
    assert Message("assumed-second-looks") not in once.assumptions


def test_a_second_look_is_at_distinct_candidates_and_at_the_dearer_path():
    class DearEnglish(PricedJudge):
        def estimate(self, task: JudgingTask) -> JudgingEstimate:
            found = super().estimate(task)
            return replace(found, cost_usd=2 * (found.cost_usd or 0.0)) if task.language == "en" else found

    options = BatchOptions(rubric=RUBRIC.id, path="both", integrity="judge-twice")
    report = estimate([make_candidate("a")] * 2, options, judge=DearEnglish(), translator=FakeTranslator())
    assert report.second_look_calls == 1
    assert report.second_look_cost_usd == pytest.approx(2.2)


def test_an_unknown_cost_of_a_second_look_is_unknown():
    options = BatchOptions(rubric=RUBRIC.id, integrity="judge-twice")
    report = estimate([make_candidate("long enough"), make_candidate("no")], options, judge=UnpricedJudge())
    assert (report.second_look_calls, report.second_look_cost_usd) == (2, None)


def test_an_empty_batch_takes_nothing():
    report = estimate([])
    assert (report.candidates, report.calls, report.cost_usd, report.unit_cost_usd) == (0, 0, 0.0, 0.0)


def test_assumptions_say_what_the_figures_rest_on():
    live = estimate([make_candidate()]).assumptions
    english = estimate([make_candidate()], BatchOptions(rubric=RUBRIC.id, path="english"), translator=FakeTranslator())
    assert len(english.assumptions) == len(live) + 1
    assert english.assumptions[-1] == Message("assumed-translations")


def test_a_report_may_be_asked_for_in_between():
    running = BatchEstimate(OPTIONS, make_instruments())
    running.add(make_candidate())
    assert running.report().candidates == 1
    running.add(make_candidate("いいえ。"))
    assert running.report().candidates == 2


def test_a_batch_may_have_its_own_baseline():
    options = BatchOptions.model_validate({"rubric": RUBRIC.id, "relevance": {"baseline": "batch"}})
    assert estimate([make_candidate()], options).calls == 1


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"rubric": "nowhere"}, UnknownRubric),
        ({"path": "english"}, TranslatorNotConfigured),
        ({"relevance": {"aspects": ["wit"]}}, UnknownAspect),
    ],
)
def test_what_could_not_be_judged_is_refused(options, error):
    with pytest.raises(error):
        estimate([make_candidate()], BatchOptions.model_validate({"rubric": RUBRIC.id, **options}))


def test_references_that_would_have_to_be_translated_are_refused():
    options = BatchOptions(rubric=SHOWING.id, path="english")
    with pytest.raises(LanguageNotSupported) as caught:
        estimate([make_candidate(), make_candidate(reference="正解")], options, translator=FakeTranslator())
    assert caught.value.pointer == "/reference"


@pytest.mark.parametrize(
    ("mode", "tries", "expected"), [("live", 3, 3.9), ("live", 1, 1.3), ("provider-batch", 3, 2.6)]
)
async def test_a_budget_bears_the_calls_for_malformed_replies(mode: str, tries: int, expected: float) -> None:
    item = {"context": [{"speaker": "A", "text": "こんにちは"}], "response": "はいよ"}
    body = json.dumps({"rubric": RUBRIC.id, "mode": mode, "budget_usd": 100, "items": [item]}).encode()

    async def pieces() -> AsyncIterator[bytes]:
        yield body

    instruments = replace(make_instruments(PricedJudge()), tries=tries)
    async with Spool() as spool:
        intake = await take_in(pieces(), BatchReader(Limits(), ndjson=False), spool)
        # 1.30 a call; of the provider's mode a quarter is taken, which is half of one call.
        assert await admit(intake, instruments) == pytest.approx(expected)


def test_a_conversation_is_estimated_by_its_windows_and_a_repeated_one_once() -> None:
    rubric = open_rubrics(None).get("ja-conversation")
    instruments = replace(make_instruments(PricedJudge()), rubrics=FakeRubrics([rubric]), window_tokens=60)
    found = BatchEstimate(BatchOptions(rubric=rubric.id, relevance=None, integrity="judge-twice"), instruments)
    turns = make_turns(*(f"{number}番目の長めの答えです。" for number in range(6)))
    parts: tuple[dict[str, Any], ...] = (
        {},
        {"goal": "予約する。"},
        {"persona": {"name": "佐藤"}},
        {"metadata": {"a": "b"}},
    )
    for more in parts:
        item = BatchConversation.model_validate({"turns": turns, **more})
        found.add(next(list_candidates(item, 0, 0))[1])
    roles = BatchConversation.model_validate({"turns": [{**one, "role": "system"} for one in turns[1::2]]})
    users = roles.model_copy(
        update={"turns": (*(one.model_copy(update={"role": "user"}) for one in roles.turns[:-1]), roles.turns[-1])}
    )
    for item in (roles, users):
        found.add(next(list_candidates(item, 0, 0))[1])
    report = found.report()
    # What only its metadata tell apart costs nothing more; persona, goal and roles are shown to the judge.
    assert (report.candidates, report.distinct_candidates) == (6, 5)
    assert report.calls == report.second_look_calls > 5
    assert report.cost_usd is not None
    assert report.second_look_cost_usd == pytest.approx(report.cost_usd)
    assert report.cost_usd_provider_batch is None


async def test_a_judge_of_conversations_is_probed_with_one() -> None:
    rubric = open_rubrics(None).get("ko-conversation")
    request = any_request_of(BatchOptions(rubric=rubric.id), make_example(rubric))
    assert isinstance(request, ConversationRequest)
    instruments = replace(make_instruments(), rubrics=FakeRubrics([rubric]), lane="batch")
    assert (await rate_request(request, instruments, RequestScope())).evaluation.findings == ()
