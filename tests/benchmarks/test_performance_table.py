"""benchmarks/performance_table.py: docs/performance.md from the benchmarks' JSON."""

from dataclasses import replace

import pytest

from benchmarks.performance_table import BEGIN, END, PAGE, fill, main, render_table
from benchmarks.record import Beside, Figure, Report, at_most

MACHINE = {
    "cpu": "abacus",
    "cores": 4,
    "memory_gib": None,
    "system": "Linux 6",
    "python": "3.11.7",
    "libraries": {"openai": "3.0"},
    "revision": None,
    "load": 0.1,
}
BATCH = Figure(
    "batches",
    "1,000 items",
    "s",
    [2.2, 2.6, 2.4],
    limit=Beside("judge|alone", 2.0),
    target=at_most(1.3, of="limit"),
    note="SQLite",
)


def test_a_table_has_what_is_beside_each_figure_and_its_target():
    assert render_table([BATCH]).splitlines() == [
        "|  | ours | beside it | ratio | target |",
        "| --- | --- | --- | --- | --- |",
        "| 1,000 items | 2.40 ±8% s | judge\\|alone 2 | 1.20 × | met: ≤ 1.3 × limit |",
    ]


def test_of_very_many_targets_those_that_are_missed_are_shown():
    missed = replace(BATCH, name="too slow", ours=[9.0, 9.0, 9.0])
    assert [line.split("|")[1].strip() for line in render_table([BATCH] * 30 + [missed]).splitlines()[2:]] == [
        "too slow"
    ]


def test_the_page_gets_machine_tables_and_what_is_missing(tmp_path):
    report = Report(machine=MACHINE, say=lambda text: None)
    report.add(BATCH)
    report.add(Figure("start", "--help", "s", [0.2, 0.2, 0.2], target=at_most(0.1)))
    report.add(Figure("hot", "cached", "s", [0.2, 0.2, 0.2]))
    report.skip("peers", "promptfoo", "npm has no registry")
    report.write_json(tmp_path / "bench.json")
    page = tmp_path / "page.md"
    page.write_text(f"# Head\n\n{BEGIN}\nold\n{END}\n\ntail\n", encoding="utf-8")
    main([str(tmp_path / "bench.json"), "--page", str(page)])
    once = page.read_text(encoding="utf-8")
    assert once.startswith(f"# Head\n\n{BEGIN}\n\nabacus, 4 cores, memory unknown, Linux 6")
    assert once.endswith(f"- peers, promptfoo: npm has no registry\n\n{END}\n\ntail\n")
    assert "### batches\n\n`python -m benchmarks batches`: 1 of 1 targets met\n\n|  | ours |" in once
    assert "### start\n\n`python -m benchmarks start`: 0 of 1" in once
    assert "### hot" not in once
    assert "old" not in once
    main([str(tmp_path / "bench.json"), "--page", str(page)])
    assert page.read_text(encoding="utf-8") == once


def test_figures_of_several_runs_stand_one_below_the_other(tmp_path):
    page, paths = tmp_path / "page.md", [tmp_path / "one.json", tmp_path / "two.json"]
    for path, benchmark in zip(paths, ("start", "batches"), strict=True):
        report = Report(machine=MACHINE, say=lambda text: None)
        report.add(Figure(benchmark, "it", "s", [0.2, 0.2, 0.2], target=at_most(1)))
        report.skip(benchmark, "other", "no time")
        report.write_json(path)
    page.write_text(f"{BEGIN}{END}", encoding="utf-8")
    main([*map(str, paths), "--page", str(page)])
    written = page.read_text(encoding="utf-8")
    assert [line for line in written.splitlines() if line.startswith(("###", "- "))] == [
        "### start",
        "### batches",
        "### Not measured here",
        "- start, other: no time",
        "- batches, other: no time",
    ]


@pytest.mark.parametrize("page", ["", BEGIN, END, f"{END}{BEGIN}", f"{BEGIN}{BEGIN}{END}", f"{BEGIN}{END}{END}"])
def test_a_page_without_its_marks_is_left_alone(page):
    with pytest.raises(ValueError, match="the page needs"):
        fill(page, "tables")


def test_the_page_has_its_marks():
    assert "tables" in fill(PAGE.read_text(encoding="utf-8"), "tables")
