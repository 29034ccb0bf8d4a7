"""Medians, ratios and verdicts of the benchmarks' figures, and how they are told."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.machine import describe_machine, introduce, warn_busy
from benchmarks.record import (
    Beside,
    Figure,
    Missing,
    Report,
    at_least,
    at_most,
    describe,
    find_median,
    find_spread,
    list_hasty,
    load_figures,
    print_table,
    show_number,
    tabulate,
)

MACHINE = {
    "cpu": "abacus",
    "cores": 4,
    "memory_gib": 8.0,
    "system": "Linux 6",
    "python": "3.11.7",
    "libraries": {"openai": "3.0"},
    "revision": "abc",
    "load": 0.5,
}


def figure(name="1,000 items", **changes):
    """2.4 s, a peer's 3 s, a limit of 2 s."""
    given: dict[str, Any] = {
        "ours": [2.2, 2.6, 2.4],
        "peer": Beside("loop", [3.0, 2.9, 3.2]),
        "limit": Beside("judge", 2.0),
        "target": at_most(1.3, of="limit"),
    }
    return Figure("batches", name, "s", **(given | changes))


def report():
    """A report that keeps what it says."""
    said: list[str] = []
    return Report(machine=MACHINE, say=said.append), said


def test_a_figure_is_the_median_of_its_rounds_with_half_their_range_as_spread():
    assert find_median([2.2, 2.6, 2.4]) == 2.4
    assert find_spread([2.2, 2.6, 2.4]) == pytest.approx(0.2 / 2.4)  # (2.6 − 2.2) / 2 = 0.2
    assert find_median(7) == 7
    assert find_spread(7) is None
    assert find_spread([0.0, 0.0]) is None


def test_a_figure_without_a_round_is_refused():
    with pytest.raises(ValueError, match="without a round"):
        find_median([])


def test_ratios_are_ours_over_the_others_medians():
    assert figure().ratio("peer") == pytest.approx(2.4 / 3.0)
    assert figure().ratio("limit") == pytest.approx(1.2)
    assert figure(peer=None).ratio("peer") is None
    assert figure(limit=Beside("nothing", 0.0)).ratio("limit") is None


@pytest.mark.parametrize(
    ("target", "met"),
    [
        (at_most(1.3, of="limit"), True),  # 1.2
        (at_most(1.1, of="limit"), False),
        (at_most(1.2, of="limit"), True),
        (at_least(0.9, of="peer"), False),  # 0.8
        (at_least(0.7, of="peer"), True),
        (at_most(2.4), True),
        (at_most(2.3), False),
        (at_least(2.5), False),
        (None, None),
    ],
)
def test_a_target_bounds_our_value_or_a_ratio(target, met):
    assert figure(target=target).met is met


def test_a_target_against_nothing_is_refused():
    with pytest.raises(ValueError, match="peer that is not there"):
        figure(peer=None, target=at_least(3, of="peer"))


def test_a_target_against_zero_is_not_known():
    of_zero = figure(peer=Beside("nobody", 0.0), target=at_least(3, of="peer"))
    assert of_zero.met is None
    assert "not known: ≥ 3 × peer" in describe(of_zero)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (0.00001234, "1.23e-05"),
        (0.0123, "0.0123"),
        (0.3456, "0.346"),
        (1.3, "1.30"),
        (2.0, "2"),
        (12.34, "12.3"),
        (99.96, "100"),
        (1234.5, "1,234"),
        (-4.56, "-4.56"),
        (1_500_000.0, "1.5e+06"),
    ],
)
def test_numbers_show_the_digits_that_count(value, shown):
    assert show_number(value) == shown


def test_a_figure_tells_all_in_a_line():
    assert describe(figure(note="SQLite")) == (
        "1,000 items: 2.40 s ±8%; 0.800 × loop (3 ±5%); 1.20 × limit, judge (2); met: ≤ 1.3 × limit; SQLite"
    )


def test_a_report_tells_what_it_has_and_what_it_has_not():
    made, said = report()
    made.add(figure())
    made.skip("batches", "two workers", "there is no Redis")
    assert not made.failed
    made.fail("gate", "ValueError: broken")
    assert made.failed
    assert said[1:] == ["  two workers: not measured, there is no Redis", "  gate: FAILED, ValueError: broken"]
    said.clear()
    print_table(made)
    assert "batches: two workers not measured: there is no Redis" in said
    assert "gate: gate FAILED: ValueError: broken" in said
    assert said[-1].startswith("1 of 1 targets met")


def test_the_table_is_aligned_and_names_a_benchmark_once():
    made, said = report()
    for one in (figure(), figure(name="more"), Figure("gate", "a verdict", "ms", [1.0, 2.0, 3.0])):
        made.figures.append(one)
    print_table(made)
    rows = tabulate(made.figures)
    assert [row[0] for row in rows] == ["batches", "  1,000 items", "  more", "gate", "  a verdict"]
    starts = {line.index("loop") for line in said if "loop" in line}
    assert len(starts) == 1


def figure_of(**changes):
    return Figure("start", "--help", "s", **changes)


def test_what_was_timed_too_few_times_is_named_once():
    hasty = [figure_of(ours=[0.2, 0.3]), figure_of(ours=0.2), figure_of(ours=1, once=True), figure()]
    assert list_hasty(hasty) == ["start, --help"]


def test_json_holds_all_that_is_needed_to_tell_it_again(tmp_path: Path):
    made, _ = report()
    made.add(figure(note="SQLite", better="higher"))
    made.add(figure_of(ours=1, once=True))
    made.skip("batches", "two workers", "there is no Redis")
    made.write_json(tmp_path / "figures.json")
    text = (tmp_path / "figures.json").read_text(encoding="utf-8")
    machine, figures, missing = load_figures(text)
    assert machine == MACHINE
    assert [describe(one) for one in figures] == [describe(one) for one in made.figures]
    assert [(one.better, one.once) for one in figures] == [("higher", False), ("lower", True)]
    assert missing == [Missing("batches", "two workers", "there is no Redis")]
    first = json.loads(text)["figures"][0]
    assert first["ours"] == {"median": 2.4, "rounds": [2.2, 2.6, 2.4], "spread": pytest.approx(0.2 / 2.4)}
    assert (first["ratio_to_peer"], first["met"]) == (pytest.approx(0.8), True)


def test_another_format_is_refused():
    with pytest.raises(ValueError, match="format"):
        load_figures('{"format": 0}')


def test_a_busy_machine_is_warned_of():
    assert warn_busy({"load": 1.0, "cores": 4}) is None
    assert warn_busy({"load": None, "cores": 4}) is None
    assert "load 1.1 on 4 cores" in str(warn_busy({"load": 1.1, "cores": 4}))
    assert introduce(MACHINE | {"load": 9.0}).splitlines()[-1].startswith("WARNING")
    assert introduce(MACHINE).splitlines() == [
        "abacus, 4 cores, 8 GiB, Linux 6, Python 3.11.7, revision abc",
        "openai 3.0",
    ]


def test_this_machine_is_described():
    found = describe_machine()
    assert found["cpu"]
    assert found["cores"] >= 1
    assert found["libraries"]["openai"]
    assert "not installed" not in found["libraries"].values()
    assert introduce(found)
