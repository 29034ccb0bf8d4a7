"""Reports as tables: every figure or a dash with its reason, on any width, with nothing cut off."""

import io
import json
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from saiten.commands.output import EDGE, TerminalTable, widths_of
from saiten_server.analyses.reports import analyse
from saiten_server.analyses.requests import REQUESTS
from saiten_server.cli.reports import notes, print_report, remarks, render, tabulate
from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.model import Value
from saiten_server.core.reports import (
    AgreementReport,
    BlendFit,
    CompositeFit,
    CorrelationReport,
    HierarchyReport,
    WinReport,
)
from saiten_server.core.validation import validate
from tests.support.fake_rubrics import FakeRubrics, aspect_data, small_rubric
from tests.support.observed import observe

LONG = "maintains_the_context_of_the_dialogue_over_several_turns"


def shown(report: Value, width: int = 100) -> str:
    """What the report prints on a console of that width, without trailing spaces."""
    file = io.StringIO()
    print_report(report, on=Console(file=file, width=width, highlight=False, markup=False, emoji=False))
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    assert max(map(cell_len, lines), default=0) <= width
    return "\n".join(lines)


def row(text: str, name: str) -> list[str]:
    """The cells of the first row of that name."""
    return next(line.split() for line in text.splitlines() if line.strip().startswith(name))


def ask(name: str, records: list[dict[str, Any]], **options: Any) -> Any:
    request = validate(REQUESTS[name], options, DEFAULT_LIMITS)
    return analyse(request, observe(records), FakeRubrics([]))


RATED: list[dict[str, Any]] = [
    {
        "system": system,
        "item": item,
        "rater": rater,
        "ratings": {"自然さ": item % 3, LONG: (item + (system == "b") * 5 + (rater == "R2")) % 7},
        "scores": {"自然さ": item % 4, LONG: item % 5},
        "similarity": item / 10,
    }
    for system in ("a", "b", "c")
    for item in range(10)
    for rater in ("R1", "R2")
]


@pytest.mark.parametrize("width", [34, 60, 100, 250])
@pytest.mark.parametrize("name", ["agreement", "correlation", "hierarchy", "win-rates", "blend-fit"])
def test_nothing_is_cut_off_at_any_width(name: str, width: int) -> None:
    options = {"aspect": "x"} if name == "blend-fit" else {}
    records = RATED
    if name == "blend-fit":
        records = [{**each, "ratings": {"x": each["ratings"][LONG]}, "scores": {"x": 1}} for each in RATED]
    text = shown(ask(name, records, **options), width)
    assert "…" not in text
    if name in {"agreement", "correlation"}:
        figures = ask(name, records).aspects[LONG]
        assert f"{figures.spearman:.3f}" in text
        assert f"{figures.pearson:.3f}" in text


def test_a_matrix_has_names_above_where_they_fit_and_numbers_where_not() -> None:
    report = ask("agreement", RATED)
    wide = shown(report, 200).partition("Spearman\n")[2].splitlines()[1]
    narrow = shown(report, 80).partition("Spearman\n")[2].splitlines()[1]
    assert wide.split() == ["自然さ", LONG]
    assert narrow.split() == ["1", "2"]
    assert f"2 {LONG}" in shown(report, 80)


def test_a_table_that_is_too_wide_goes_on_below_under_the_same_first_column() -> None:
    report = ask("agreement", [{**each, "ratings": {"fluency": each["item"] % 3}} for each in RATED])
    lines = shown(report, 44).partition("raters in pairs")[0].splitlines()
    heads = [line.split() for line in lines if line.strip().startswith("aspect")]
    assert heads == [
        ["aspect", "n", "raters", "mean", "sd"],
        ["aspect", "spearman", "pearson", "α"],
    ]
    assert len([line for line in lines if line.strip().startswith("fluency")]) == 2


def test_a_table_is_as_wide_as_it_is_reckoned_to_be() -> None:
    sheet = TerminalTable("", ("", "n", "自然さ"), [("a", "1,000", "–"), ("会話-A", 1, "0.500 [0.10, 0.90]")])
    on = Console(width=200)
    assert on.measure(tabulate("", sheet.heads, sheet.rows)).maximum == EDGE + sum(widths_of(sheet))


def test_very_many_aspects_are_left_to_the_json() -> None:
    records = [{"item": n, "ratings": {f"a{k}": n * k for k in range(41)}} for n in range(3)]
    text = shown(ask("agreement", records))
    assert "correlations between 41 aspects stand in the output of --json" in text
    assert "aspect correlations" not in text


def test_agreement_says_what_was_left_out_and_who_was_not_compared() -> None:
    records = [{"item": n, "rater": r, "ratings": {"a": n + (r == "B")}} for n in range(4) for r in "AB"]
    records += [
        {"item": 0, "rater": "C", "ratings": {"a": 1, "b": 1}},
        {"item": 1, "rater": "C", "ratings": {"b": None}},
    ]
    text = shown(ask("agreement", records))
    assert "agreement: 4 items, 1 system, 3 named raters" in text
    # Aspect b has one rating of four items.
    assert row(text, "b ")[:4] == ["b", "1", "3", "1"]
    assert "a: spearman and pearson leave out 1 of 3 raters, for sharing fewer than 3 items with others" in text
    assert "– sd of b: fewer than two items have a rating" in text


def test_constant_ratings_are_explained_once() -> None:
    records = [{"item": n, "rater": r, "ratings": {"a": 1, "b": 2}} for n in range(4) for r in "AB"]
    text = shown(ask("agreement", records))
    assert text.count("all ratings of items with two raters or more are equal") == 1
    assert "– krippendorff α: all ratings" in text
    assert "– a~b: all ratings of a are equal" in text
    assert "a~a" not in text


def test_correlation_has_bias_ceiling_and_the_systems_means() -> None:
    text = shown(
        ask(
            "correlation",
            [{**each, "ratings": {"x": each["item"]}, "scores": {"x": each["item"] + 2}} for each in RATED],
        )
    )
    assert row(text, "x")[:3] == ["x", "30", "1.000"]
    assert "ceiling: each rater against the mean of the others, Spearman" in text
    assert row(text.partition("bias: mean score less mean rating")[2], "x") == ["x", "6.500", "4.500", "+2.000"]
    assert "– bias interval of x: all differences are equal" in text
    assert (
        "– systems' means spearman, systems' means pearson, systems' means kendall of x: all scores are equal" in text
    )


def test_correlation_of_nothing_says_so() -> None:
    text = shown(ask("correlation", [{"item": 1, "ratings": {"a": 1}, "scores": {"b": 1}}]))
    assert text.splitlines() == [
        "correlation with humans: 1 item, 1 system",
        "no aspect has both ratings and scores",
        "– a: only the ratings have it",
        "– b: only the scores have it",
    ]


def test_hierarchy_shows_what_decorrelation_changes() -> None:
    change = {"method": "residual", "n": 9, "left_out": 3, "common_change": -2, "higher_only_change": 0, "new": 1}
    none = {**change, "common_change": None, "higher_only_change": None, "new": None, "undefined": {"new": "why"}}
    aspects = {name: {"pairs": 2, "tested": 3, "n": 12, "left_out": 0, "significant": []} for name in "ab"}
    pairs = [
        {"lower": "a", "higher": "b", "common": 4, "higher_only": 5, "decorrelated": each} for each in (change, none)
    ]
    report = {"alpha": 0.01, "systems": 3, "items": 12, "aspects": aspects, "dependencies": pairs}
    text = shown(HierarchyReport.model_validate_json(json.dumps(report)))
    rows = [line.split() for line in text.splitlines() if line.startswith(" a → b")]
    assert rows == [
        ["a", "→", "b", "3", "4", "(-2)", "5", "(±0)", "1"],
        ["a", "→", "b", "3", "4", "(–)", "5", "(–)", "–"],
    ]
    assert "(residual)" in text
    assert "– new of a → b: why" in text
    assert row(text, "a ") == ["a", "12", "2", "of", "3"]


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([{"system": "x", "item": 1, "ratings": {"a": 1, "b": 2}}], "no dependencies: 1 system"),
        ([{"system": s, "item": 1, "ratings": {"a": 1}} for s in "xy"], "no dependencies: 1 aspect"),
        (
            [
                {"system": s, "item": n, "ratings": {"a": n + 50 * (s == "y"), "b": n + 50 * (s == "y")}}
                for s in "xy"
                for n in range(9)
            ],
            "no aspect depends on another",
        ),
    ],
)
def test_hierarchy_without_dependencies(records: list[dict[str, Any]], words: str) -> None:
    assert words in shown(ask("hierarchy", records))


def test_win_rates_by_aspect_and_by_pair() -> None:
    records = [
        {"system": system, "item": item, "ratings": {"a": value}}
        for system, values in {"": (3, 2), "y": (1, 2), "z": (0, 1)}.items()
        for item, value in enumerate(values)
    ] + [{"system": "y", "item": 7, "ratings": {"a": 1}}]
    text = shown(ask("win-rates", records))
    assert "contexts won: 3 contexts, 3 systems" in text
    assert "a: 2 contexts that every system answered (1 left out)" in text
    assert row(text, "(no name)")[:4] == ["(no", "name)", "1", "50%"]
    assert row(text, "(ties)")[:2] == ["(ties)", "1"]
    assert row(text, "a, y : z")[4:8] == ["2", "2", "0", "0"]
    assert row(text, "a, (no name) : y")[5:9] == ["2", "1", "0", "1"]


def test_two_systems_need_no_table_of_pairs_and_many_are_left_to_the_json() -> None:
    def wins(systems: int) -> str:
        records = [{"system": f"s{n}", "item": 1, "ratings": {"a": n}} for n in range(systems)]
        return shown(ask("win-rates", records))

    assert "pairs" not in wins(2)
    assert "systems in pairs" in wins(8)
    assert "36 comparisons of two systems stand in the output of --json" in wins(9)


def test_pairs_of_systems_and_agreement_keep_their_columns_together_at_80() -> None:
    names = ("naturalness", "interestingness")
    records = [
        {
            "system": f"bot-{n}",
            "item": item,
            "rater": rater,
            "ratings": {name: (n + item + len(rater)) % 5 for name in names},
        }
        for n in range(3)
        for item in range(10)
        for rater in ("A", "BB")
    ]
    wins, agreement = shown(ask("win-rates", records), 80), shown(ask("agreement", records), 80)
    assert "interestingness, bot-0 : bot-1" in wins
    assert [line.split() for line in wins.splitlines() if "a : b" in line] == [
        ["a", ":", "b", "n", "a", "won", "b", "won", "ties", "a", "%", "95%"]
    ]
    heads = [line.split() for line in agreement.splitlines() if line.strip().startswith("aspect ")]
    assert heads[0] == ["aspect", "n", "raters", "mean", "sd", "spearman", "pearson", "α"]
    rows = [line for line in (wins + agreement).splitlines() if line.startswith(" ")]
    assert max(map(len, rows)) <= 80


def test_wins_without_a_contest_say_why() -> None:
    text = shown(ask("win-rates", [{"item": n, "ratings": {"a": n, "b": n}} for n in range(3)]))
    assert text.splitlines() == [
        "contexts won: 3 contexts, 1 system",
        "– aspects: no context was answered by two systems",
    ]


def composite(**fields: Any) -> CompositeFit:
    found = {
        "composite": "mate", "target": "acceptability", "n": 10, "left_out": 2, "train": 8, "test": 2, "seed": 0,
        "weights": {"factuality": 1.9}, "intervals": {"factuality": [1.5, 2.3]}, "declared": {"factuality": 2.048},
        "pearson": 0.853, "declared_pearson": None, "undefined": {"declared_pearson": "on the held-out items: why"},
    }  # fmt: skip
    return CompositeFit.model_validate_json(json.dumps({**found, **fields}))


def test_composite_fit() -> None:
    text = shown(composite())
    assert text.startswith("mate from acceptability: 10 items (8 fitted, 2 held out, 2 left out)")
    assert shown(composite(clusters=4)).startswith("mate from acceptability: 10 items in 4 clusters (8 fitted,")
    assert row(text, "factuality") == ["factuality", "1.900", "[1.50,", "2.30]", "2.048"]
    assert "held-out Pearson 0.853; the rubric's own weights: –" in text
    assert "– declared pearson: on the held-out items: why" in text
    nothing = shown(
        composite(weights={"factuality": None}, intervals={"factuality": None}, undefined={"weights": "few"})
    )
    assert row(nothing, "factuality") == ["factuality", "–", "2.048"]


def blend(**fields: Any) -> BlendFit:
    found = {
        "aspect": "relevance", "n": 40, "left_out": 1, "folds": 5, "seed": 0, "statistic": "pearson", "weight": 12.5,
        "interval": [8.0, 17.0], "correlation": 0.5, "unblended": 0.25, "default": None, "undefined": {"default": "why"},
    }  # fmt: skip
    return BlendFit.model_validate_json(json.dumps({**found, **fields}))


def test_blend_fit() -> None:
    text = shown(blend())
    assert text.startswith("weight of the blend of relevance: 40 items, 5 folds (1 left out)")
    assert shown(blend(clusters=8)).startswith("weight of the blend of relevance: 40 items in 8 clusters, 5 folds")
    assert row(text, "chosen") == ["chosen", "12.5", "[8.00,", "17.00]", "0.500"]
    assert row(text, "none") == ["none", "0.0", "0.250"]
    assert row(text, "default") == ["default", "10.0", "–"]
    assert "– default: why" in text
    assert "50 is the greatest" in shown(blend(notes=["50 is the greatest weight tried: a greater one may do better"]))


def test_remarks_are_told_once_with_the_aspects_they_are_about() -> None:
    assert [text.plain for text in remarks({"a": ("x",), "b": ("x", "y"), "": ("z",)})] == ["a, b: x", "b: y", "z"]


@pytest.mark.parametrize("name", ["hierarchy", "win-rates"])
def test_what_counts_by_its_distance_from_the_best_level_is_told(name: str) -> None:
    rubric = small_rubric("manners", aspects=[aspect_data("formality", (-1, 0, 1), best=0), aspect_data("warmth")])
    records = [
        {"system": system, "item": item, "ratings": {"formality": (item + place) % 3 - 1, "warmth": item % 2}}
        for item in range(6)
        for place, system in enumerate("ab")
    ]
    told = "formality: counted by the distance from 0, the best level"
    assert told not in shown(ask(name, records))
    request = validate(REQUESTS[name], {"rubric": "manners"}, DEFAULT_LIMITS)
    report = analyse(request, observe(records), FakeRubrics([rubric]))
    assert isinstance(report, HierarchyReport | WinReport)
    assert report.best == {"formality": 0}
    assert told in shown(report).splitlines()


def test_notes_name_each_reason_once() -> None:
    undefined = {
        "a": {"spearman": "few", "pearson": "few", "spearman_interval": "no figure"},
        "b": {"spearman": "few", "pearson": "few"},
        "c": {"sd": "one", "bias_interval": "equal"},
        "": {"dependencies": "none"},
    }
    assert [note.plain for note in notes(undefined)] == [
        "– spearman, pearson of a, b: few",
        "– sd of c: one",
        "– bias interval of c: equal",
        "– dependencies: none",
    ]
    assert [note.plain for note in notes({"a": {"p": "few"}, "b": {"p": "few"}})] == ["– p: few"]
    many = {f"x{n}": {"p": "few"} for n in range(20)}
    assert notes({**many, "y": {}})[0].plain.endswith("x10, x11 and 8 more: few")


def test_names_cannot_steer_the_terminal() -> None:
    records = [{"system": "\x1b[2J", "item": n, "ratings": {"a\x07b": n}, "scores": {"a\x07b": n}} for n in range(4)]
    for name in ("agreement", "correlation", "hierarchy", "win-rates"):
        assert not {"\x1b", "\x07"} & set(shown(ask(name, records)))


def test_every_report_has_a_table() -> None:
    for kind in (AgreementReport, CorrelationReport, HierarchyReport, CompositeFit, BlendFit, WinReport):
        assert render.dispatch(kind) is not render.dispatch(Value)
    with pytest.raises(NotImplementedError):
        render(Value())
