"""What `saiten gate` tells before it scores, and with `--record` of a run that is to be a baseline."""

from typing import Any, cast

import pytest

from saiten.commands.files import InvalidItems
from saiten.commands.gate_settings import GateSettings
from saiten.commands.gating import GateJob, check_plan, fix_version
from saiten.commands.runs import ItemFile, ResultLine, Results
from saiten.connection import Connection
from saiten_server.comparison.gate import tell_coverage
from tests.support.judge_checks import make_check
from tests.support.runs import make_run

TERMS = {"alpha": 0.05, "min_coverage": 0.98}


def test_a_baseline_needs_enough_of_every_aspect() -> None:
    columns = {f"aspect-{number}": [3.0] * 60 for number in range(5)} | {"thin": [3.0] * 53 + [None] * 7}
    report = tell_coverage(make_run("main", columns), None, **TERMS)
    # 353 / 360 = 98.06% of all are there, but only 53 / 60 = 88.33% of one aspect.
    assert report.verdict == "inconclusive"
    assert [reason.code for reason in report.reasons] == ["coverage"]
    assert "353 of 360 verdicts of the candidate run (98.06%); 53 of 60 for thin, the fewest (88.33%)" in str(
        report.reasons[0].detail
    )
    assert (report.coverage.rated, report.coverage.expected) == (353, 360)


def test_a_whole_run_is_a_baseline_unless_its_judge_moved() -> None:
    run = make_run("main", {"warmth": [3.0] * 5, "clarity": [2.0] * 5})
    assert tell_coverage(run, make_check("steady"), **TERMS).verdict == "pass"
    moved = tell_coverage(run, make_check("moved"), **TERMS)
    assert (moved.verdict, moved.reasons[0].code) == ("inconclusive", "judge-moved")


async def test_a_rule_on_findings_is_refused_for_a_file_of_results_before_anything_is_scored() -> None:
    lines = [ResultLine(status="scored", findings=[])]
    before = Results("base.ndjson", lines, {"id": "ja-conversation", "version": 1})
    settings = GateSettings(rules=[{"finding": "repetition", "max_rise": 2}])
    nobody = cast(Connection, None)  # whoever asks the service fails
    with pytest.raises(InvalidItems, match="how many turns the system had"):
        await check_plan(nobody, GateJob(settings), ItemFile("talks.ndjson", [], {}), before)


class Rubrics:
    """A service that has these rubrics, by the number of their newest version."""

    def __init__(self, **newest: int) -> None:
        self._newest = {name.replace("_", "-"): number for name, number in newest.items()}

    async def rubric(self, name: str) -> dict[str, Any]:
        rubric_id, _, version = name.partition("@")
        return {"id": rubric_id, "version": int(version or self._newest[rubric_id])}


@pytest.mark.parametrize(
    ("newest", "said"),
    [
        (1, "rubric: ja-conversation@1, as the baseline\n"),
        (2, "rubric: ja-conversation@1, as the baseline; --rubric ja-conversation@2 asks for the newest\n"),
    ],
)
async def test_the_newest_version_is_that_of_the_baselines_rubric(
    newest: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ResultLine(status="scored", signature="saiten:0.1.0|rubric:ja-conversation@1|judge:openai")
    before = Results("base.ndjson", [line], {"id": "ja-conversation", "version": 1})
    service = cast(Connection, Rubrics(ja_dialogue=2, ja_conversation=newest))
    kept = await fix_version(service, ItemFile("talks.ndjson", [], {}), before, GateSettings())
    assert (kept.rubric, capsys.readouterr().err) == ("ja-conversation@1", said)
