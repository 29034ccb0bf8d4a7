"""`saiten analyze` as its users meet it: figures, forms of input, degenerate data, output."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from saiten.commands.ratings import write_csv
from saiten_server.analyses.requests import REQUESTS
from saiten_server.cli.analyze import analyse_file, make_request
from saiten_server.core.reports import HierarchyReport
from tests.support.analyzing import AGREED, Record, analyze, make_workbook, ndjson, report, table
from tests.support.command import environment, run
from tests.support.command import saiten as saiten_process

# Figures that were published, or that method.md states


def test_the_nine_dependencies_of_topical_chat(shared: Path) -> None:
    path = str(shared / "data" / "topical_chat_usr.jsonl")
    found = json.loads(analyze("hierarchy", path, "--alpha", "0.01", "--json").stdout)
    assert (found["systems"], found["items"], found["alpha"]) == (6, 360, 0.01)
    assert {
        (each["lower"], each["higher"]): (each["common"], each["higher_only"]) for each in found["dependencies"]
    } == {
        ("understandable", "natural"): (8, 1),
        ("understandable", "maintains_context"): (8, 1),
        ("understandable", "engaging"): (8, 1),
        ("understandable", "uses_knowledge"): (8, 1),
        ("understandable", "overall"): (8, 2),
        ("natural", "overall"): (9, 1),
        ("maintains_context", "overall"): (9, 1),
        ("engaging", "overall"): (9, 1),
        ("uses_knowledge", "overall"): (9, 1),
    }
    for each in found["dependencies"]:
        changes = each["decorrelated"]
        assert (changes["common_change"], changes["higher_only_change"], changes["new"]) == (0, 0, 0)
        assert changes["method"] == "principal-axis"


def test_the_ten_correlations_of_unieval(shared: Path) -> None:
    path = str(shared / "data" / "topical_chat_usr.jsonl")
    done = analyze("correlation", path, "--scores", "unieval", "--resamples", "100", "--json")
    found = json.loads(done.stdout)["aspects"]
    figures = {name: (round(found[name]["pearson"], 3), round(found[name]["spearman"], 3)) for name in found}
    del figures["understandable"]
    assert figures == {
        "natural": (0.444, 0.514),
        "maintains_context": (0.595, 0.613),
        "engaging": (0.557, 0.605),
        "uses_knowledge": (0.536, 0.575),
        "overall": (0.633, 0.663),
    }


def test_the_agreement_of_dbdc3(shared: Path) -> None:
    path = str(shared / "data" / "dbdc3_ja.jsonl")
    done = analyze("agreement", path, "--labels", "O=1,T=0.5,X=0", "--json")
    found = json.loads(done.stdout)["aspects"]["label"]
    assert (found["n"], found["raters"]) == (1000, 30)
    assert [round(found[name], 3) for name in ("spearman", "pearson", "krippendorff_alpha", "mean")] == [
        0.551,
        0.557,
        0.317,
        0.457,
    ]


# A small example of each analysis


def test_agreement_by_hand() -> None:
    found = report("agreement", records=AGREED)
    assert (found["systems"], found["items"], found["raters"], found["ratings"]) == (1, 3, 2, 6)
    aspect = found["aspects"]["自然さ"]
    # Item means 1, 2.5, 2.5: mean 2, sd √((1 + ¼ + ¼) / 2).
    assert aspect["mean"] == pytest.approx(2)
    assert aspect["sd"] == pytest.approx(0.75**0.5)
    # (−1, 0, 1) · (−1, 1, 0) = 1, over √(2 · 2); the values are their own ranks.
    assert aspect["pearson"] == pytest.approx(0.5)
    assert aspect["spearman"] == pytest.approx(0.5)
    # Two each of 1, 2, 3 have mid-ranks 1.5, 3.5, 5.5. Observed: two items differ by one step, 2 · (2 · 2²) / 6 = 8/3.
    # Expected: of 15 pairs 4 + 4 differ by 2 and 4 by 4, 2 · (8 · 4 + 4 · 16) / (6 · 5) = 6.4. α = 1 − (8/3) / 6.4.
    assert aspect["krippendorff_alpha"] == pytest.approx(7 / 12)


def test_correlation_by_hand() -> None:
    pairs = [(1, 2), (2, 4), (3, 3), (4, 5)]
    records = [{"item": rating, "ratings": {"a": rating}, "judge": {"a": score}} for rating, score in pairs]
    found = report("correlation", "--scores", "judge", "--seed", "3", "--resamples", "100", records=records)
    aspect = found["aspects"]["a"]
    # Ranks 1 2 3 4 and 1 3 2 4: ρ = 1 − 6 · 2 / (4 · 15); of 6 pairs one is the wrong way round.
    assert aspect["spearman"] == pytest.approx(0.8)
    assert aspect["pearson"] == pytest.approx(0.8)
    assert aspect["kendall"] == pytest.approx(4 / 6)
    assert aspect["bias"] == pytest.approx((1 + 2 + 0 + 1) / 4)
    assert (found["resamples"], found["seed"]) == (100, 3)


def ordered(lower: dict[str, range], higher: dict[str, range]) -> list[Record]:
    return [
        {"system": system, "item": item, "ratings": {"lower": low, "higher": high}}
        for system in lower
        for item, (low, high) in enumerate(zip(lower[system], higher[system], strict=True))
    ]


@pytest.mark.parametrize("method", ["principal-axis", "residual"])
def test_hierarchy_by_hand(method: str) -> None:
    # Six values all above six others: p = 2 / C(12, 6) = 0.0022. Of interleaved ones 21 of 36 pairs are won: p = 0.70.
    records = ordered(
        {"a": range(11, 23, 2), "b": range(12, 24, 2), "c": range(6)},
        {"a": range(20, 26), "b": range(10, 16), "c": range(6)},
    )
    found = report("hierarchy", "--alpha", "0.01", "--method", method, records=records)
    assert {name: aspect["pairs"] for name, aspect in found["aspects"].items()} == {"lower": 2, "higher": 3}
    (only,) = found["dependencies"]
    assert (only["lower"], only["higher"], only["common"], only["higher_only"]) == ("lower", "higher", 2, 1)
    assert only["decorrelated"]["method"] == method
    assert report("hierarchy", "--alpha", "0.002", records=records)["dependencies"] == []


def test_composite_fit_by_hand() -> None:
    # Without noise least squares gives the weights back that made the ratings.
    records = [
        {
            "item": f"{factuality} {amount} {formality}",
            "ratings": {
                "factuality": factuality,
                "amount_info": amount,
                "formality": formality,
                "acceptability": 3 + 1.5 * (factuality - 3) / 3 - 0.5 * abs(amount) - 0.25 * abs(formality),
            },
        }
        for factuality, amount, formality in product(range(4), (-1, 0, 1), (-1, 0, 1))
    ]
    found = report("composite-fit", records=records)
    assert found["weights"] == pytest.approx({"factuality": 1.5, "amount_info": 0.5, "formality": 0.25})
    assert found["declared"] == {"factuality": 2.048, "amount_info": 0.739, "formality": 0.335}
    assert found["pearson"] == pytest.approx(1)
    # A fifth of 36 is 7.
    assert (found["composite"], found["n"], found["train"], found["test"]) == ("mate", 36, 29, 7)


def test_blend_fit_by_hand() -> None:
    # Ratings are score + 5 · similarity: at w = 5, and nowhere else, they lie on a line.
    records = [
        {
            "item": number,
            "ratings": {"topic": number % 3 + 5 * (number % 7) / 10},
            "scores": {"topic": number % 3},
            "similarity": (number % 7) / 10,
        }
        for number in range(42)
    ]
    found = report("blend-fit", "--aspect", "topic", "--statistic", "pearson", "--folds", "3", records=records)
    assert (found["weight"], found["folds"]) == (5, 3)
    assert found["correlation"] == pytest.approx(1)
    assert found["unblended"] < found["correlation"]


def test_win_rates_by_hand() -> None:
    values = {"a": (3, 3, 1, 2), "b": (1, 2, 3, 2)}
    records = [
        {"system": system, "item": item, "ratings": {"overall": value}, "scores": {"overall": -value}}
        for system, row in values.items()
        for item, value in enumerate(row)
    ]
    wins = report("win-rates", records=records)["aspects"]["overall"]
    assert (wins["systems"]["a"]["wins"], wins["systems"]["b"]["wins"], wins["ties"]["wins"]) == (2, 1, 1)
    # Wilson at 2 of 4, z² = 3.8415: ½ ± 1.96 √(1/16 + 3.8415/64) / (1 + 3.8415/4) = ½ ± 0.350.
    assert wins["systems"]["a"]["interval"] == pytest.approx([0.150, 0.850], abs=1e-3)
    by_scores = report("win-rates", "--values", "scores", records=records)["aspects"]["overall"]
    assert (by_scores["systems"]["a"]["wins"], by_scores["systems"]["b"]["wins"]) == (1, 2)


def test_a_rubric_says_what_is_better() -> None:
    # Formality is best at 0: too stiff is no better than too casual.
    records = [
        {"system": system, "item": 1, "ratings": {"formality": value}} for system, value in (("right", 0), ("stiff", 1))
    ]
    plain = report("win-rates", records=records)["aspects"]["formality"]["systems"]
    informed = report("win-rates", "--rubric", "lfqa", records=records)["aspects"]["formality"]["systems"]
    assert (plain["stiff"]["wins"], informed["right"]["wins"]) == (1, 1)


# Forms of input


FORMS = {
    "lines": ndjson(AGREED),
    "without a last line break": ndjson(AGREED).rstrip(),
    "blank lines first": b"\n \r\n" + ndjson(AGREED).replace(b"\n", b"\r\n\r\n"),
    "an editor's byte order mark": b"\xef\xbb\xbf" + ndjson(AGREED),
    "array": json.dumps(AGREED).encode(),
    "array over many lines": b"\n" + json.dumps(AGREED, indent=1, ensure_ascii=False).encode(),
    "table": table().encode(),
    "table as spreadsheets save it": table(end="\r\n").encode("utf-8-sig"),
    "table in Shift_JIS": table().encode("cp932"),
    "table as a spreadsheet's text": table(separator="\t", end="\r\n").encode("utf-16"),
    "table with semicolons": table(separator=";").encode(),
    "table with its separator named": f"sep=;\r\n{table(separator=';')}".encode("utf-8-sig"),
    "compressed lines": gzip.compress(ndjson(AGREED)),
    "workbook": make_workbook([row.split(",") for row in table().splitlines()]),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_on_standard_input_gives_the_same(form: str) -> None:
    assert report("agreement", records=FORMS[form]) == report("agreement", records=AGREED)


@pytest.mark.parametrize("name", ["r.CSV", "r.ndjson", "評価.json"])
def test_a_file_by_its_name(name: str, tmp_path: Path) -> None:
    body = {"r.CSV": FORMS["table"], "r.ndjson": FORMS["lines"], "評価.json": FORMS["array"]}[name]
    (tmp_path / name).write_bytes(body)
    done = analyze("agreement", str(tmp_path / name), "--json")
    assert json.loads(done.stdout) == report("agreement", records=AGREED)


def test_one_aspect_a_line_is_the_same_as_all_on_one() -> None:
    wide: list[Record] = [{"item": n, "rater": "R", "ratings": {"a": n, "b": -n}} for n in range(4)]
    long = [{**record, "ratings": {name: record["ratings"][name]}} for record in wide for name in ("a", "b")]
    assert report("agreement", records=long)["aspects"] == report("agreement", records=wide)["aspects"]


def test_a_fault_of_a_workbook_is_told_with_its_row(tmp_path: Path) -> None:
    rows: list[list[Any]] = [["item", "rater", "fluency"], ["1", "A", 3], [None, None, None], ["1", "A", "三"]]
    (tmp_path / "r.xlsx").write_bytes(make_workbook(rows))
    done = analyze("agreement", str(tmp_path / "r.xlsx"))
    assert done.exit_code == 2
    assert f"{tmp_path / 'r.xlsx'}: sheet 評価, row 4: 'fluency' is not a number" in done.stderr


def test_an_export_of_ratings_is_analysed_without_what_rates_nothing() -> None:
    exported = [{**record, "comment": "良い", "created_at": "2026-01-01T00:00:00Z"} for record in AGREED]
    body = "".join(write_csv(exported)).encode()
    assert report("agreement", records=body) == report("agreement", records=AGREED)


def test_the_format_may_be_named() -> None:
    assert analyze("agreement", "-", "--format", "csv", stdin=FORMS["lines"]).exit_code == 2


def test_aspects_keep_the_order_that_is_asked_for() -> None:
    records = [{"item": n, "ratings": {"a": n, "b": -n}} for n in range(3)]
    assert list(report("agreement", "--aspects", "b, a", records=records)["aspects"]) == ["b", "a"]


# Degenerate data, output


DEGENERATE: dict[str, list[Record]] = {
    "one record": [{"item": 1, "ratings": {"a": 1}, "scores": {"a": 1}, "similarity": 0.5}],
    "constant": [
        {"system": s, "item": n, "ratings": {"a": 1, "b": 1}, "scores": {"a": 1}, "similarity": 0.5}
        for s in "xy"
        for n in range(9)
    ],
    "missing": [
        {
            "system": s,
            "item": n,
            "rater": n % 2,
            "ratings": {"a": n if s == "x" else None},
            "scores": {"a": n},
            "similarity": 1,
        }
        for s in "xy"
        for n in range(9)
    ],
    "one system": [
        {"system": "x", "item": n, "ratings": {"a": n, "b": -n}, "scores": {"a": n % 3}, "similarity": n}
        for n in range(9)
    ],
}
NOT_FIGURES = {"ratings_used", "clusters"}
"""Null without a reason: these data are of no batch, and no record names a dialogue."""


@pytest.mark.parametrize("data", DEGENERATE)
@pytest.mark.parametrize("name", ["agreement", "correlation", "hierarchy", "blend-fit", "win-rates"])
def test_degenerate_data_gives_reasons_not_failures(name: str, data: str) -> None:
    options = ["--aspect", "a"] if name == "blend-fit" else []
    found = report(name, *options, records=DEGENERATE[data])
    # An interval's reason may be that of its figure.
    lacking = [
        (path.replace("_interval", "").split("."), known) for path, known in nulls(found) if path not in NOT_FIGURES
    ]
    assert [path for path, known in lacking if not any(name in known for name in path)] == []
    done = analyze(name, "-", *options, stdin=ndjson(DEGENERATE[data]))
    assert done.exit_code == 0
    assert "nan" not in done.stdout.lower()


def nulls(value: Any, path: str = "", known: str = "") -> list[tuple[str, str]]:
    """Each null's path with every reason that stands in an object around it."""
    if isinstance(value, dict):
        known += " ".join(value.get("undefined", {}))
        return [
            found for name, each in value.items() for found in nulls(each, f"{path}.{name}".strip("."), known + " ")
        ]
    if isinstance(value, list):
        return [found for each in value for found in nulls(each, path, known)]
    return [(path, known)] if value is None else []


@pytest.mark.parametrize("name", REQUESTS)
def test_help_has_an_example_and_no_torn_lines(name: str) -> None:
    done = analyze(name, "--help")
    assert done.exit_code == 0
    assert f"saiten analyze {name} " in done.stdout.partition("Example:")[2]
    assert not [line for line in done.stdout.partition("Options:")[0].splitlines() if "   " in line.strip()]


def test_the_help_of_all_names_every_exit_code_and_the_metrics() -> None:
    text = analyze("--help").stdout
    assert [code for code in range(4) if re.search(rf"\b{code}:", text)] == [0, 1, 2, 3]
    assert "saiten analyze metrics responses.ndjson --language ja" in text


@pytest.mark.parametrize("name", ["hierarchy", "win-rates"])
def test_help_says_that_more_is_better_without_a_rubric(name: str) -> None:
    assert "Without --rubric more counts as better" in " ".join(analyze(name, "--help").stdout.split())


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    script = (
        "import sys; from saiten_server.cli import run; sys.argv = ['saiten', 'analyze', '--help']; code = run();"
        "print(code, [name for name in ('numpy', 'scipy', 'pydantic', 'rich', 'httpx') if name in sys.modules])"
    )
    done = run([sys.executable, "-c", script], tmp_path, None, {"SAITEN_MODEL": "gpt-6-luna"})
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr


def test_a_file_that_is_refused_loads_no_analysis(tmp_path: Path) -> None:
    script = (
        "import sys; from saiten_server.cli import run; sys.argv = ['saiten', 'analyze', 'correlation', '-']; code = run();"
        "print(code, [name for name in ('scipy', 'saiten_server.comparison.service', 'saiten_server.stats.statistics') if name in sys.modules])"
    )
    done = run([sys.executable, "-c", script], tmp_path, b"{}", {})
    assert done.stdout.splitlines()[-1] == "2 []", done.stderr


def test_a_pipe_has_no_colour_and_valid_json(tmp_path: Path) -> None:
    plain = saiten_process("analyze", "agreement", "-", folder=tmp_path, stdin=FORMS["lines"], COLUMNS="60")
    assert (plain.returncode, plain.stderr) == (0, "")
    assert "\x1b" not in plain.stdout
    assert max(map(len, plain.stdout.splitlines())) <= 100
    as_json = saiten_process("analyze", "agreement", "-", "--json", folder=tmp_path, stdin=FORMS["lines"])
    assert list(json.loads(as_json.stdout)["aspects"]) == ["自然さ"]


def test_a_reader_that_leaves_ends_the_command_quietly(tmp_path: Path) -> None:
    (tmp_path / "r.ndjson").write_bytes(FORMS["lines"])
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "saiten_server", "analyze", "agreement", "r.ndjson", "--json"],
            stdout=pipe,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env=environment(tmp_path),
            check=False,
        )
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_a_drawing_is_made_of_the_values_that_the_report_is_of(tmp_path: Path) -> None:
    records: list[Record] = [
        {"system": system, "item": item, "ratings": {"formality": item % 2}, "scores": {"formality": -1}}
        for item in range(3)
        for system in "ab"
    ]
    (tmp_path / "r.ndjson").write_bytes(ndjson(records))
    request = make_request("hierarchy", {"values": "scores", "rubric": "lfqa"}, ())
    report, observations = analyse_file(str(tmp_path / "r.ndjson"), None, request)
    assert isinstance(report, HierarchyReport)
    # Of scores that are all −1, the best level being 0.
    assert set(observations.ratings["formality"].tolist()) == {-1.0}
    assert report.best == observations.folded == {"formality": 0.0}


def test_a_drawing_beside_the_tables(tmp_path: Path) -> None:
    done = analyze("win-rates", "-", "--plot", str(tmp_path / "w.svg"), stdin=ndjson(DEGENERATE["constant"]))
    assert done.exit_code == 0, done.output
    assert "contexts won" in done.stdout
    assert "<svg" in (tmp_path / "w.svg").read_text(encoding="utf-8")
    done = analyze("win-rates", "-", "--plot", str(tmp_path / "no" / "w.svg"), stdin=ndjson(DEGENERATE["constant"]))
    assert done.exit_code == 2
    assert "contexts won" in done.stdout
