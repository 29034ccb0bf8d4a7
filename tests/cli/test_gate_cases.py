"""The worst cases of a gate that did not pass, and the reasons that the judge is asked for afterwards."""

from io import StringIO
from typing import Any, cast

import httpx
import pytest
from rich.console import Console

from saiten.answers import Batch
from saiten.commands import gating, junit, markdown
from saiten.commands.cases import ShownGateReport
from saiten.commands.gate_settings import GateSettings
from saiten.commands.reasons import RunPair, complete_answer, find_address, name_of, rank, tell_case
from saiten.commands.runs import ResultLine, Results
from saiten.connection import Connection
from saiten.core.errors import ServiceRefused
from tests.support.gate_files import make_result
from tests.support.gates import FAILED, answer, make_report

REASON = "質問に答えていない。"


def make_line(number: int, warmth: float, **changes: Any) -> ResultLine:
    aspects = {"warmth": {"mean": warmth, **changes.pop("aspect", {})}, "clarity": {"mean": 3.0}}
    line = make_result(number, aspects=aspects, id=f"ev_{number}", ids_given=True)
    return ResultLine.model_validate({**line, **changes})


def make_results(name: str, values: list[float], **changes: Any) -> Results:
    return Results(name, [make_line(number, value, **changes) for number, value in enumerate(values)], {"id": "small"})


class Judge:
    """A service whose judge gives its reasons at this price, and rates 3 then."""

    def __init__(self, cost_usd: float = 0.01) -> None:
        self.url = "https://name:secret@saiten.example.org"
        self.asked: list[str] = []
        self.cost_usd = cost_usd

    async def request(self, method: str, path: str, params: dict[str, str]) -> httpx.Response:
        name = path.split("/")[3]
        if method == "GET":
            said = {"context": [{"speaker": "A", "text": f"{name} は？"}], "response": f"{name} です。"}
            return httpx.Response(200, json={"request": said})
        if "budget_usd" in params and float(params["budget_usd"]) < self.cost_usd:
            raise ServiceRefused("the request is not valid", {"errors": [{"pointer": "", "detail": "too dear"}]}, 422)
        self.asked.append(name)
        told = {"warmth": {"rating": 3, "reason": REASON}, "clarity": {"rating": 3, "reason": "別の理由。"}}
        usage = {"cost_usd": self.cost_usd}
        explained = {"aspects": told, "usage": usage, "signature": "s", "created_at": "2026-11-24T10:00:00Z"}
        return httpx.Response(200, json={"explained": explained})


BEFORE = make_results("base.ndjson", [5.0] * 12)
AFTER = make_results("branch.ndjson", [5.0, 1.0, 4.0, 2.0, *[4.0] * 8])
FAILURE = answer(make_report(FAILED)).model_dump(mode="json")


async def gate(
    judge: Judge, after: Results = AFTER, before: Results | None = BEFORE, **settings: Any
) -> ShownGateReport:
    """The failure with its worst cases."""
    told = await complete_answer(cast(Connection, judge), GateSettings(**settings), dict(FAILURE), after, before)
    return ShownGateReport.model_validate(told)


async def test_a_failure_shows_the_worst_cases_with_reasons_asked_for_afterwards() -> None:
    judge = Judge()
    report = await gate(judge)
    # The largest drops of the aspect that failed, and no other case.
    assert [(case.item, case.candidate.rating) for case in report.cases] == [("i1", 1.0), ("i3", 2.0), ("i2", 4.0)]
    assert judge.asked == ["ev_1", "ev_1", "ev_3", "ev_3", "ev_2", "ev_2"]
    buffer = Console(width=100, record=True, file=StringIO())
    gating.print_gate(report, on=buffer)
    texts = {
        "terminal": buffer.export_text(),
        "markdown": markdown.write_markdown(report),
        "junit": junit.write_junit(report),
    }
    for where, text in texts.items():
        for wanted in ("ev_1 は？", "ev_1 です。", REASON, "asked again, the judge rated 3"):
            assert wanted.replace("_", "\\_" if where == "markdown" else "_") in text, (where, wanted)
        assert "branch.ndjson" in text, where


@pytest.mark.parametrize(
    ("settings", "asked", "why"),
    [
        ({"reasons": False}, 0, None),
        ({"budget_usd": 0.025}, 2, "too dear"),
        ({"budget_usd": 0.0}, 0, "too dear"),
        ({"budget_usd": 0.07}, 6, None),
    ],
)
async def test_reasons_stay_within_the_budget(settings: dict[str, Any], asked: int, why: str | None) -> None:
    judge = Judge()
    report = await gate(judge, **settings)
    assert (len(judge.asked), report.unexplained, len(report.cases)) == (asked, why, 3)


async def test_reasons_that_are_there_are_not_asked_for() -> None:
    judge = Judge()
    said = {"aspect": {"reason": "理由はこれ。"}, "context": [{"speaker": "A", "text": "朝は？"}], "response": "はい。"}
    report = await gate(judge, make_results("new", [1.0] * 12, **said), make_results("old", [5.0] * 12, **said))
    assert judge.asked == []
    assert {case.candidate.reasons["warmth"] for case in report.cases} == {"理由はこれ。"}
    assert {(case.said, case.candidate.response) for case in report.cases} == {("朝は？", "はい。")}


async def test_a_pass_and_a_judge_that_moved_ask_for_nothing() -> None:
    judge = Judge()
    for answered in ({**FAILURE, "verdict": "pass"}, {**FAILURE, "reasons": [MOVED, *FAILURE["reasons"]]}):
        told = await complete_answer(cast(Connection, judge), GateSettings(), answered, AFTER, BEFORE)
        assert (ShownGateReport.model_validate(told).cases, judge.asked) == ((), [])


MOVED = {"code": "judge-moved", "verdict": "inconclusive", "about": "judge", "detail": "it moved"}


async def test_runs_without_pairs_are_told_by_their_lowest_ratings() -> None:
    lonely = make_results("new", [3.0, 1.0, 2.0, 5.0], ids_given=False)
    report = await gate(Judge(), lonely, make_results("old", [5.0] * 4, ids_given=False))
    assert [(case.item, case.baseline) for case in report.cases] == [("i1", None), ("i2", None), ("i0", None)]


async def test_a_rule_on_findings_shows_where_they_are() -> None:
    def talk(number: int, turns: list[int]) -> ResultLine:
        found = [{"turn": turn, "code": "repetition", "kind": None, "detail": "同じことを言う"} for turn in turns]
        return make_line(number, 5.0, findings=found)

    after = Results("new", [talk(0, []), talk(1, [3, 5]), talk(2, [1])], {"id": "talks"})
    before = Results("old", [talk(number, []) for number in range(3)], {"id": "talks"})
    pair = RunPair(after, before, {(line.item or "", None): line for line in before.lines})
    ranked = rank("finding:repetition", None, pair)
    assert [one.candidate.item for one in ranked] == ["i1", "i2"]
    case = await tell_case(cast(Connection, Judge()), ranked[0], None)
    assert case.candidate.reasons == {"finding:repetition": "turn 4: 同じことを言う; turn 6: 同じことを言う"}
    assert rank("finding:other", None, pair) == []


def make_batch(number: int, **changes: Any) -> Batch:
    counts = {"total": 1, "queued": 0, "scored": 1, "partial": 0, "failed": 0}
    known = {"id": f"ba_{number}", "status": "completed", "rubric": "ja-dialogue", "rubric_version": 2}
    known |= {"path": "source", "judge": {}, "progress": 1, "usage": {}}
    return Batch.model_validate({**known, "counts": counts, "created_at": "2026-11-24T09:30:00Z", **changes})


def test_a_run_is_called_by_what_a_reader_knows_of_it() -> None:
    for changes, called in (
        ({"name": "nightly", "metadata": {"system": "bot-a", "build": "a-1"}}, "nightly · bot-a · a-1"),
        ({"metadata": {"name": "nightly", "build": "a-1"}}, "nightly · a-1"),
        ({}, "2026-11-24 09:30 UTC · ja-dialogue@2"),
    ):
        assert name_of(make_batch(1, **changes)) == called


def test_the_explorer_is_named_where_it_has_both_runs() -> None:
    one, other = make_batch(1), make_batch(2)
    url = "https://name:secret@saiten.example.org/"
    assert find_address(url, (other, one), None) == "https://saiten.example.org/explore?run=ba_1&run=ba_2"
    assert find_address(url, (other, None), None) == "https://saiten.example.org/runs/ba_2"
    assert find_address(url, (other, BEFORE), None) is None
