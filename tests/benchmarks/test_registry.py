"""`python -m benchmarks`: which run, what is missing, and what becomes of one that breaks."""

import ast
import importlib.util
import sys
import types
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from benchmarks import __main__ as bench
from benchmarks.__main__ import BENCHMARKS, Benchmark, find_missing, main, run
from benchmarks.record import Figure, Report


@pytest.fixture
def made(monkeypatch):
    """Three benchmarks: one measures, one breaks, one needs what nobody has; with the report and what it says."""

    def measure(report, *, quick=False):
        report.add(Figure("good", "quick" if quick else "whole", "s", [1.0, 1.0, 1.0]))

    def break_down(report, *, quick=False):
        raise ValueError("no judge\nat all")

    def leave(report, *, quick=False):
        sys.exit("no servers")

    for name, function in (("good", measure), ("broken", break_down), ("gone", leave)):
        module = types.ModuleType(f"saiten_bench_{name}")
        vars(module)["measure"] = function
        monkeypatch.setitem(sys.modules, module.__name__, module)
    registry = {name: Benchmark(f"saiten_bench_{name}", name, {}) for name in ("broken", "gone", "good")}
    registry["poor"] = Benchmark("saiten_bench_good", "poor", {"saiten_nowhere": "nothing", "json": "core"})
    monkeypatch.setattr(bench, "BENCHMARKS", registry)
    said: list[str] = []
    return Report(machine={}, say=said.append), said


def test_a_broken_benchmark_is_told_and_the_others_run(made, capsys):
    report, _ = made
    run(["broken", "gone", "good"], report, quick=True)
    assert [(one.benchmark, one.name) for one in report.figures] == [("good", "quick")]
    assert [(one.benchmark, one.reason, one.kind) for one in report.missing] == [
        ("broken", "ValueError: no judge", "failed"),
        ("gone", "SystemExit: no servers", "failed"),
    ]
    assert "no judge" in capsys.readouterr().err


def test_what_is_not_installed_is_told_by_the_extra_that_brings_it(made):
    report, said = made
    run(["poor"], report, quick=False)
    assert report.figures == []
    assert not report.failed
    assert "  poor: not measured, saiten_nowhere not installed (extra nothing)" in said


@pytest.mark.parametrize(("names", "status"), [(["good"], 0), (["good", "broken"], 1), (["poor"], 0), ([], 1)])
@pytest.mark.usefixtures("made")
def test_the_exit_status_says_whether_all_ran(names, status, capsys):
    assert main(names) == status
    assert "targets met" in capsys.readouterr().out


@pytest.mark.usefixtures("made")
def test_an_unknown_name_is_refused_with_those_that_there_are(capsys):
    with pytest.raises(SystemExit) as refused:
        main(["nothing"])
    assert refused.value.code == 2
    assert "there are broken, gone, good, poor" in capsys.readouterr().err


@pytest.mark.usefixtures("made")
def test_figures_and_drawing_are_written(tmp_path):
    assert main(["good", "--json", str(tmp_path / "a.json"), "--plot", str(tmp_path / "a.svg")]) == 0
    assert '"good"' in (tmp_path / "a.json").read_text(encoding="utf-8")
    assert (tmp_path / "a.svg").exists()


def test_figures_are_written_after_each_benchmark(made, tmp_path):
    report, _ = made
    file = tmp_path / "a.json"

    def interrupt(report, *, quick=False):
        assert '"good"' in file.read_text(encoding="utf-8")
        raise KeyboardInterrupt

    vars(sys.modules["saiten_bench_broken"])["measure"] = interrupt
    with pytest.raises(KeyboardInterrupt):
        run(["good", "broken"], report, quick=False, file=file)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_there_and_measures(name):
    benchmark = BENCHMARKS[name]
    if find_missing(benchmark):
        pytest.skip(find_missing(benchmark))
    assert importlib.util.find_spec(benchmark.module) is not None
    assert callable(importlib.import_module(benchmark.module).measure)


def test_no_two_modules_import_each_other():
    graph = {}
    for path in Path(bench.__file__).parent.glob("*.py"):
        found = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom))
        graph[f"benchmarks.{path.stem}"] = {node.module for node in found if node.module}
    TopologicalSorter(graph).prepare()  # raises CycleError
