"""A gate's verdict for eyes: nothing is folded at 100 columns, and nothing is lost at 80."""

import io
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress as Bar

from saiten.answers import Batch
from saiten.commands.output import make_progress
from saiten_server.comparison.gate import judge_gate
from saiten_server.comparison.links.values import LinkMark
from saiten_server.comparison.values import ComparedRun, GateReport, GateRule
from tests.support.gate_files import ASPECTS, SIGNATURE
from tests.support.gates import print_gate
from tests.support.judge_checks import make_check
from tests.support.runs import Row, make_frame

SCALES = dict.fromkeys(ASPECTS, (1.0, 5.0))


def make_run(name: str, ratings: list[float], signature: str = SIGNATURE) -> ComparedRun:
    items = [Row(f"i{number}", None, dict.fromkeys(ASPECTS, rating)) for number, rating in enumerate(ratings)]
    return ComparedRun(name, make_frame(items, ASPECTS), len(items), {signature: len(items)}, SCALES, ASPECTS)


def show(report: GateReport, width: int, *, terminal: bool = False) -> str:
    on = Console(
        file=io.StringIO(), width=width, force_terminal=terminal, color_system=None, highlight=False, markup=False
    )
    print_gate(report, on=on)
    assert isinstance(on.file, io.StringIO)
    return on.file.getvalue()


@pytest.fixture(scope="module")
def report() -> GateReport:
    # 30 of 40 items fall from 4 to 3: the mean falls from 4 to 3.25.
    return judge_gate(make_run("new", [3.0] * 30 + [4.0] * 10), make_run("old", [4.0] * 40))


def table_of(shown: str) -> list[str]:
    lines = shown.splitlines()
    start = next(number for number, line in enumerate(lines) if "───" in line)
    return [line for line in lines[start + 1 :] if line.strip()][: len(ASPECTS)]


@pytest.mark.parametrize(("width", "words"), [(100, 11), (80, 10)])
def test_every_measure_has_one_line_with_all_its_figures(report: GateReport, width: int, words: int) -> None:
    shown = show(report, width)
    rows = table_of(shown)
    assert [row.split()[0] for row in rows] == list(ASPECTS)
    assert all(len(row) <= width for row in rows)
    assert all("4.00 → 3.25" in row and "-0.75 [" in row and row.split()[-1] == "worse" for row in rows)
    assert "…" not in shown
    # Name, n, two means with an arrow, difference, two ends of its interval, p, (detectable,) verdict.
    assert {len(row.split()) for row in rows} == {words}
    assert ("detectable: naturalness " in shown) == (width < 96)


def test_linked_means_are_marked(report: GateReport) -> None:
    assert report.comparison is not None
    link = LinkMark(id="ln_1", old_signature="a", new_signature="b", runs=("baseline",))
    linked = report.model_copy(update={"comparison": report.comparison.model_copy(update={"link": link})})
    shown = show(linked, 100)
    assert "≈ baseline: on this judge's scale by ln_1, with the linking error" in shown
    assert all("≈4.00 → 3.25" in row for row in table_of(shown))


def test_reasons_stand_on_one_line_each_in_a_log_and_are_folded_on_a_terminal(report: GateReport) -> None:
    logged = show(report, 80).splitlines()
    assert logged[0] == "gate: fail"
    assert logged[1].startswith("  ✗ naturalness: fell by 0.750 (from 4.000 to 3.250; ")
    assert "more than the 0 tolerated; a drop of " in logged[1]
    folded = show(report, 80, terminal=True).splitlines()
    assert all(len(line) <= 80 for line in folded)
    assert folded[2].startswith("    ")


def test_the_coverage_and_what_made_the_verdict_are_named() -> None:
    thin = make_run("new", [3.0] * 30)
    short = ComparedRun(thin.name, thin.frame, 40, thin.signatures, SCALES, ASPECTS)
    shown = show(judge_gate(short, None, [GateRule(aspect="overall", min_mean=2.0)]), 100)
    assert shown.startswith("gate: inconclusive (not enough coverage)\n  ? coverage: 30 of 40 verdicts")
    assert "→" not in shown


def test_where_the_judge_moved_nothing_is_said_to_have_failed() -> None:
    old, new = make_run("old", [4.0] * 40), make_run("new", [3.0] * 30 + [4.0] * 10)
    shown = show(judge_gate(new, old, judge=make_check("moved")), 100)
    assert shown.startswith("gate: inconclusive (the judge moved)\n  ? judge: judge moved: ")
    assert "  · overall: fell by 0.750" in shown
    assert "✗" not in shown
    assert "record the baseline again" in " ".join(shown.split())


def test_means_that_are_not_of_the_ratings_themselves_say_what_they_are_of() -> None:
    old, new = make_run("old", [3.0] * 20), make_run("new", [2.0] * 20)
    new, old = (replace(run, best={"overall": 3.0}) for run in (new, old))
    report = judge_gate(new, old)
    rows = {width: table_of(show(report, width))[-1] for width in (100, 80)}
    assert rows[100].split("20")[0].strip() == "overall (minus distance from 3)"
    assert rows[80].startswith(" overall (minus distance from ")
    assert all("0.00 → -1.00" in row for row in rows.values())
    assert "naturalness (minus" not in show(report, 100)


def test_allowed_differences_and_missing_figures_are_noted_once() -> None:
    old, new = make_run("old", [3.0] * 5, "saiten:1|model:a"), make_run("new", [3.0] * 5, "saiten:1|model:b")
    shown = show(judge_gate(new, old, allow_signature_mismatch=True), 100)
    assert "scored differently, model: a → b" in shown
    assert shown.count("no value differs, so") == 1
    assert f"– {', '.join(ASPECTS)}: no value differs, so there is no interval" in shown
    assert all(row.split()[-1] == "same" for row in table_of(shown))


def test_names_cannot_steer_the_terminal() -> None:
    shown = show(judge_gate(make_run("new\x1b[2J", [3.0] * 5), make_run("old\nline", [3.0] * 5)), 100)
    assert "\x1b" not in shown
    assert "new\ufffd[2J against old line\n" in shown


def test_a_log_is_told_of_progress_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter((0.0, 5.0, 29.0, 30.0, 31.0, 90.0, 91.25))
    told = make_progress(Bar(disable=True), clock=lambda: next(clock))
    for queued in (60, 50, 40, 30, 20, 10):
        told(make_batch(queued))
    assert capsys.readouterr().err.splitlines() == [f"scoring main: {done} of 60" for done in (0, 30, 50)]
    told(make_batch(0, status="completed"))
    assert capsys.readouterr().err == "scoring main: 60 of 60 in 91.2 s\n"


def test_a_batch_that_was_complete_already_is_not_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    make_progress(Bar(disable=True), clock=lambda: 0.0)(make_batch(0, status="completed"))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("width", [80, 100])
def test_a_change_that_chance_may_have_made_is_not_called_one(width: int) -> None:
    old, new = make_run("old", [3.0, 4.0] * 10), make_run("new", [4.0, 3.0] * 9 + [4.0, 4.0])
    shown = show(judge_gate(new, old), width)
    rows = table_of(shown)
    assert all(row.rstrip().endswith("no change shown") and len(row) <= width for row in rows), shown


def make_batch(queued: int, *, status: str = "running") -> Batch:
    values: dict[str, Any] = {
        "id": "ba_1",
        "name": "main",
        "status": status,
        "rubric": "ja-dialogue",
        "path": "source",
        "relevance": None,
        "judge": {},
        "budget_usd": None,
        "counts": {"total": 60, "queued": queued, "scored": 60 - queued, "partial": 0, "failed": 0},
        "progress": 1 - queued / 60,
        "rate_per_second": None,
        "estimated_end": None,
        "usage": {},
        "signature": None,
        "metadata": {},
        "created_at": datetime(2026, 11, 21, tzinfo=UTC),
    }
    return Batch.model_validate(values)
