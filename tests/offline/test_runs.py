"""Files of results as runs: the gate and the summary are those of the same results in a store."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from saiten_server.cli.analyze import command as analyze
from saiten_server.comparison.given_runs import GivenRun
from saiten_server.comparison.requests import GateRequest
from saiten_server.comparison.runs import fit_frame, list_best, scales_of
from saiten_server.comparison.values import ComparedRun
from saiten_server.comparison.verdicts import judge_runs
from saiten_server.core.errors import InvalidRequest, SignatureMismatch, UnknownAspect
from saiten_server.offline.frame_files import ScoredRow, make_table
from saiten_server.offline.opened_files import open_files
from saiten_server.offline.runs import gate_files, observe_files, summarize_files
from saiten_server.runs.summary import tally_results
from saiten_server.stats.win_rates import rate_wins
from tests.support.figures import place_figures
from tests.support.offline_rows import KINDS, RUBRICS, entries_of, figures_of, make_rows, rubric_of, store

pq = pytest.importorskip("pyarrow.parquet")


def stored(rows: list[ScoredRow], kind: str, name: str) -> ComparedRun:
    """The run as it is read from the store."""
    rubric = rubric_of(kind)
    frame = fit_frame(place_figures(figures_of(rows), entries_of(rows)), rubric)
    signatures: dict[str, int] = {}
    for row in rows:
        if row.record is not None:
            signature = row.record.evaluation.signature
            signatures[signature] = signatures.get(signature, 0) + 1
    aspects = tuple(one.id for one in rubric.aspects)
    return ComparedRun(name, frame, len(rows), signatures, scales_of(rubric), aspects, best=list_best(rubric))


@pytest.mark.parametrize(
    ("kind", "held"), [*((kind, True) for kind in KINDS), ("blended", False), ("conversations", False)]
)
def test_a_gate_over_files_is_the_gate_over_stored_results(
    kind: str, held: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not held:
        monkeypatch.setattr("saiten_server.offline.frame_reading.HELD_BYTES", 0)
        monkeypatch.setattr("saiten_server.comparison.differences.KEPT_VALUES", 0)
    baseline, candidate = make_rows(kind, 90, seed=1), make_rows(kind, 84, seed=2, drop=0.4)
    files = [open_files(str(store(rows, kind, tmp_path / name))) for name, rows in (("a", baseline), ("b", candidate))]
    rules: list[dict[str, Any]] = [{"aspect": "overall", "max_drop": 0.1, "min_mean": 2.0}]
    if kind == "conversations":
        rules += [{"measure": "faulty_turns", "max_rise": 1}, {"finding": "kind:repetition", "max_rise": 1}]
    for asked in ({"rules": rules}, {"test": "unpaired"} if held else {}, {"coverage_only": True}):
        request = GateRequest.model_validate({"candidate": GivenRun(), "baseline": GivenRun(), **asked})
        found = gate_files(request, files[1], files[0], RUBRICS, None)
        names = [one.name for one in files]
        expected = judge_runs(request, stored(candidate, kind, names[1]), stored(baseline, kind, names[0]))
        assert json.loads(found.model_dump_json()) == json.loads(expected.model_dump_json())


def ask(**more: Any) -> GateRequest:
    return GateRequest.model_validate({"candidate": GivenRun(), "baseline": GivenRun(), **more})


@pytest.mark.parametrize("kind", KINDS)
def test_a_summary_of_files_adds_up_what_they_hold(kind: str, tmp_path: Path) -> None:
    rows = make_rows(kind, 90)
    summary = summarize_files(open_files(str(store(rows, kind, tmp_path))), RUBRICS, None)
    tally = tally_results(figures_of(rows))
    assert summary.counts.total == 90
    assert (summary.counts.scored, summary.counts.failed) == (tally.statuses["scored"], tally.statuses["failed"])
    assert summary.rubric == rubric_of(kind).id
    for name, one in tally.aspects.items():
        found = summary.aspects[name]
        assert (found.n, found.unrated) == (one.means.n, one.reasons.total())
        assert found.mean == pytest.approx(one.means.mean)
        assert found.interval is not None
        assert {int(level): count for level, count in found.histogram.items() if count} == dict(one.levels)
    assert summary.warnings == dict(tally.warnings)
    # A failure called the judge once, and so did each evaluation.
    assert summary.usage.judge_calls == 90
    if kind == "conversations":
        assert summary.faulty_turns is not None
        assert summary.faulty_turns.turns == sum(tally.findings["any"].turns)
        assert summary.fix_first


def test_what_cannot_be_judged_is_refused_before_a_row_is_read(tmp_path: Path) -> None:
    files = open_files(str(store(make_rows("responses"), "responses", tmp_path)))
    broken = replace(files, parts=[part._replace(open=lambda: "/nowhere") for part in files.parts])
    with pytest.raises(UnknownAspect):
        gate_files(ask(rules=[{"aspect": "overal", "max_drop": 0.1}]), broken, broken, RUBRICS, None)


def test_other_signatures_and_values_off_their_scale_are_refused(tmp_path: Path) -> None:
    rows = make_rows("responses", 40)
    other = [
        row._replace(record=row.record.model_copy(update={"evaluation": sign(row, "model:judge-2")}))
        if row.record
        else row
        for row in rows
    ]
    first, second = (
        open_files(str(store(each, "responses", tmp_path / name))) for name, each in (("a", rows), ("b", other))
    )
    with pytest.raises(SignatureMismatch):
        gate_files(ask(), second, first, RUBRICS, None)
    path = write_with(9.0, "mean.overall", make_table(rows, rubric_of("responses")), tmp_path / "c.parquet")
    with pytest.raises(InvalidRequest, match=r"c\.parquet, row group 2: .*overall"):
        gate_files(ask(), open_files(path), first, RUBRICS, None)


def test_a_blend_whose_square_is_infinite_is_refused(tmp_path: Path) -> None:
    table = make_table(make_rows("blended", 40), rubric_of("blended"))
    path = write_with(1e300, "blended.relevance", table, tmp_path / "d.parquet")
    with pytest.raises(InvalidRequest, match=r"d\.parquet, row group 2: 'relevance' is not a number within"):
        summarize_files(open_files(path), RUBRICS, None)


def write_with(value: float, column: str, table: Any, path: Path) -> str:
    """Writes the Arrow table, in row groups of ten, with this value in row 25; returns where."""
    values = table.column(column).to_pylist()
    values[25] = value
    pq.write_table(table.set_column(table.schema.get_field_index(column), column, [values]), path, row_group_size=10)
    return str(path)


def sign(row: ScoredRow, signature: str) -> Any:
    evaluation = row.record.evaluation  # type: ignore[union-attr]
    return evaluation.model_copy(update={"signature": f"saiten:1|{signature}"})


def test_systems_in_files_are_analysed_by_their_items(tmp_path: Path) -> None:
    for number, system in enumerate(("甲", "乙")):
        rows = [
            change(row, metadata={"system": system})
            for row in make_rows("clusters", 40, seed=number, drop=number)
            if row.record is not None
        ]
        store(rows, "clusters", tmp_path / f"system-{number}", files=1)
    observed, differing = observe_files(open_files(str(tmp_path)), rubric_of("clusters"), ["overall"])
    assert differing == ()
    assert (observed.systems, len(observed.items), [*observed.scores]) == (("乙", "甲"), len(rows), ["overall"])
    report = rate_wins(observed)
    assert (report.contexts, report.clusters is not None) == (len(rows), True)
    wins = {name: one.share or 0.0 for name, one in report.aspects["overall"].systems.items()}
    assert wins["甲"] > wins["乙"]
    with pytest.raises(UnknownAspect):
        observe_files(open_files(str(tmp_path)), rubric_of("clusters"), ["overal"])


def change(row: ScoredRow, **update: Any) -> ScoredRow:
    """The row as another one, with these values of the evaluation."""
    record = row.record
    evaluation = record.evaluation.model_copy(update=update)  # type: ignore[union-attr]
    changed = record.model_copy(update={"evaluation": evaluation})  # type: ignore[union-attr]
    return row._replace(key=f"{update}{row.key}", record=changed)


def test_the_command_sums_files_up_and_analyses_what_a_judge_said(tmp_path: Path) -> None:
    store(make_rows("conversations", 40), "conversations", tmp_path / "run")
    runner = CliRunner()
    told = runner.invoke(analyze, ["summary", str(tmp_path / "run")])
    assert told.exit_code == 0, told.output
    assert "40 results" in told.output
    assert "faulty turns per 100 system turns" in told.output
    summary = json.loads(runner.invoke(analyze, ["summary", str(tmp_path / "run"), "--json"]).output)
    assert (summary["rubric"], summary["counts"]["total"]) == ("ja-conversation", 40)
    wins = runner.invoke(analyze, ["win-rates", str(tmp_path / "run"), "--json"])
    assert json.loads(wins.output)["systems"] == ["", "甲"]
    assert wins.stderr == ""
    others = [change(row, signature="judge:openai") for row in make_rows("conversations", 40) if row.record is not None]
    store(others, "conversations", tmp_path / "run" / "others", files=1)
    wins = runner.invoke(analyze, ["win-rates", str(tmp_path / "run"), "--json"])
    assert "differ in rubric, digest, judge, model" in wins.stderr
    for name, words in (("none", "there are no Parquet files of results"), ("x.ndjson", "it cannot be read")):
        (tmp_path / "x.ndjson").write_text("{}\n")
        refused = runner.invoke(analyze, ["summary", str(tmp_path / name)])
        assert (refused.exit_code, words in refused.output) == (2, True), refused.output
    refused = runner.invoke(analyze, ["agreement", str(tmp_path / "run")])
    assert (refused.exit_code, "/v1/runs/adopt" in refused.output) == (2, True)
