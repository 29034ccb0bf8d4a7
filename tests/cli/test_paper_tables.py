"""`saiten analyze judges --table`: text, CSV, LaTeX and a picture."""

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from saiten_server.cli import saiten
from saiten_server.cli.analyze import ABOUT_ANALYSES
from saiten_server.cli.paper_tables import escape_latex, write_csv, write_latex
from saiten_server.stats.paper_tables import PaperColumn, PaperRow, PaperTable

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "scorers.ndjson"
TABLE = PaperTable(
    title="50% of R&D",
    head="scorer",
    columns=(PaperColumn("文脈_1", ("spearman", "pearson")),),
    rows=(
        PaperRow("=ジャッジ{日}", ((0.346, -0.25),)),
        PaperRow("b", ((None, None),)),
        PaperRow("people", ((0.9, 0.9),)),
    ),
    footer=1,
    bold=True,
)


def test_latex_is_booktabs_with_escaped_names_and_the_best_in_bold():
    lines = [line.strip() for line in write_latex(TABLE).splitlines()]
    assert r"\caption{50\% of R\&D}" in lines
    assert r"scorer & 文脈\_1 \\" in lines
    assert r"=ジャッジ\{日\} & \textbf{0.35}/\textbf{$-0.25$} \\" in lines
    assert lines[-5:] == [r"\midrule", r"people & 0.90/0.90 \\", r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    assert r"b & – \\" in lines
    assert escape_latex("\\input{x}~^$#") == (r"\textbackslash{}input\{x\}\textasciitilde{}\textasciicircum{}\$\#")


def test_csv_has_a_number_a_cell_and_no_formula():
    heads, *rows = csv.reader(write_csv(TABLE).splitlines())
    assert heads == ["scorer", "文脈_1 spearman", "文脈_1 pearson"]
    assert rows == [["'=ジャッジ{日}", "0.35", "-0.25"], ["b", "", ""], ["people", "0.90", "0.90"]]


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_judges_metrics_and_blends_are_rows_of_one_table(tmp_path: Path, suffix: str) -> None:
    picture = tmp_path / f"table.{suffix}"
    asked = ["analyze", "judges", str(EXAMPLE), "--table", "scorers", "--as", "csv", "--plot", str(picture)]
    done = CliRunner().invoke(saiten, asked)
    assert done.exit_code == 0, done.output
    rows = list(csv.reader(done.stdout.splitlines()))
    assert [row[0] for row in rows] == [
        "scorer",
        "large judge",
        "large judge (blended)",
        "small judge",
        "ROUGE-L",
        "people",
    ]
    # The same figures as those of the analysis.
    report = json.loads(
        CliRunner().invoke(saiten, ["analyze", "judges", str(EXAMPLE), "--resamples", "100", "--json"]).stdout
    )
    scorers = report["aspects"]["overall"]["scorers"]
    for name, spearman, pearson in rows[1:-1]:
        assert (f"{scorers[name]['spearman']:.2f}", f"{scorers[name]['pearson']:.2f}") == (spearman, pearson)
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG" if suffix == "png" else b"<svg")
    assert suffix == "png" or "large judge (blended)" in content.decode()


def test_options_of_a_table_go_with_a_table():
    for options in (["--aspect", "overall"], ["--table", "raters", "--json"], ["--as", "csv", "--json"]):
        assert CliRunner().invoke(saiten, ["analyze", "judges", str(EXAMPLE), *options]).exit_code == 2


def test_every_report_is_written_as_csv_and_latex():
    ratings = EXAMPLE.with_name("ratings.ndjson")
    for name in sorted(ABOUT_ANALYSES.keys() - {"judges", "composite-fit", "win-rates"}):
        told = ["analyze", name, str(ratings), *(["--aspect", "relevance"] if name == "blend-fit" else [])]
        latex = CliRunner().invoke(saiten, [*told, "--as", "latex"])
        assert latex.exit_code == 0, latex.output
        assert latex.stdout.count(r"\begin{tabular}") == latex.stdout.count(r"\end{tabular}") >= 1
        assert not any(line.strip() and not line.startswith(("\\", " ", "%")) for line in latex.stdout.splitlines())
        sheet = CliRunner().invoke(saiten, [*told, "--as", "csv"])
        assert sheet.exit_code == 0
        tables = [list(csv.reader(part.splitlines())) for part in sheet.stdout.split("\n\n")]
        assert len(tables) == latex.stdout.count(r"\begin{tabular}")
        for table in tables:
            assert len({len(row) for row in table}) == 1
