"""Judging a conversation in several windows, and what rules find beside the judge."""

from dataclasses import replace

import pytest

from saiten_server.core.evaluation import AspectResult, ConversationRequest, JudgeProvenance, Unrated
from saiten_server.core.redaction import drop, redact_record
from saiten_server.core.rubric import Rubric
from saiten_server.judging.verdict import NamedFault
from saiten_server.providers.ports import Judgement, Verdict
from saiten_server.scoring.conversation import combine_windows, evaluate_conversation, read_findings
from saiten_server.scoring.rubrics.files import open_rubrics
from saiten_server.text.faults import find_faults
from tests.scoring.test_evaluate import Bench
from tests.support.conversations import make_turns

SHIPPED = open_rubrics(None)
RUBRIC: Rubric = SHIPPED.get("ja-conversation")


def judgement(rating: int | Unrated, *turns: int) -> Judgement:
    verdict = Verdict(
        (rating,), reason=f"r{rating}" if isinstance(rating, int) else None, turns=(tuple(map(NamedFault, turns)),)
    )
    return Judgement({aspect.id: verdict for aspect in RUBRIC.aspects}, JudgeProvenance(kind="fake", model="fake-1"))


def test_the_lowest_rating_of_any_window_counts_and_for_a_goal_that_of_the_last() -> None:
    combined = combine_windows([judgement(0, 1), judgement(1, 5)], RUBRIC).verdicts
    assert (combined["memory"].samples, combined["memory"].reason, combined["goal"].samples) == ((0,), "r0", (1,))
    assert combined["memory"].turns == ((NamedFault(1),), (NamedFault(5),))
    gone = Unrated(reason="missing", detail="no")
    assert combine_windows([judgement(gone), judgement(1)], RUBRIC).verdicts["memory"].samples == (gone,)


def test_a_finding_without_a_reason_names_the_aspect_and_its_level() -> None:
    result = AspectResult(rating=0, scale=(0, 1), label="忘れている", samples=(0,), mean=0.0, sd=0.0, reason="理由。")
    for given, detail in ((result, "理由。"), (result.model_copy(update={"reason": ""}), "記憶: 忘れている")):
        verdict = Verdict((0,), turns=((NamedFault(3),),))
        findings, _ = read_findings(RUBRIC.aspect("memory"), verdict, given, language="ja", windows=1, where="findings")
        assert [(one.turn, one.detail) for one in findings] == [(3, detail)]


async def test_what_rules_find_is_in_the_result_and_windows_are_stated() -> None:
    bench = Bench()
    instruments = replace(bench.instruments, rubrics=SHIPPED, window_tokens=40)
    turns = make_turns("今日は何名様ですか。", "お席にご案内します。", "もう店は閉まったよ。")
    request = ConversationRequest.model_validate({"turns": turns, "persona": {"name": "佐藤"}, "goal": "予約する。"})
    record, none = await evaluate_conversation(request, instruments)
    evaluation = record.evaluation
    assert none == ()
    assert evaluation.findings == find_faults(request.conversation, "ja")
    assert [(found.code, found.turn) for found in evaluation.findings or ()][:1] == [("register-shift", 5)]
    assert evaluation.windows is not None
    assert len(evaluation.windows) == len(bench.judge.tasks) > 1
    assert (evaluation.windows[0][0], evaluation.windows[-1][1]) == (0, 5)
    covered = redact_record(record, drop).model_dump_json()
    assert not any(text in covered for text in ("名様", "佐藤", "予約する", "閉まった", "受付"))


def test_an_expected_rating_of_windows_is_combined_as_the_ratings_are() -> None:
    def weighed(rating: int, expected: float | None) -> Judgement:
        given = judgement(rating)
        return replace(
            given, verdicts={n: replace(v, expected=expected, off_scale_mass=0.1) for n, v in given.verdicts.items()}
        )

    combined = combine_windows([weighed(1, 0.9), weighed(0, 0.2), weighed(1, 0.8)], RUBRIC).verdicts
    found = {name: combined[name].expected for name in ("memory", "overall", "goal")}
    assert found == {"memory": 0.2, "overall": 0.8, "goal": 0.8}
    assert combined["memory"].off_scale_mass == pytest.approx(0.1)
    for others in ([weighed(1, None)], [judgement(Unrated(reason="missing", detail="no"))]):
        assert combine_windows([weighed(0, 0.2), *others], RUBRIC).verdicts["memory"].expected is None
