"""Drawings of analyses in files: what they hold, and what becomes of names and of reports that hold nothing."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from saiten_server.analyses.charts.reports import build_sheet, names_of, plot
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.model import Value
from saiten_server.core.reports import (
    AspectPairs,
    BlendFit,
    CompositeFit,
    Correlations,
    Decorrelated,
    Dependency,
    HierarchyReport,
    Matrix,
)
from saiten_server.platform.charts.canvas import LIGHT
from saiten_server.platform.charts.sheet import compose, find_missing, label_names
from saiten_server.stats.agreement import measure_agreement
from saiten_server.stats.corrected import report_corrected
from saiten_server.stats.correlation import correlate_scores
from saiten_server.stats.hierarchy import find_hierarchy
from saiten_server.stats.observations import Observations
from saiten_server.stats.reading import ObservationReader, read_ndjson
from saiten_server.stats.scorers import compare_scorers
from saiten_server.stats.win_rates import rate_wins
from tests.support.drawing import SVG, Drawing, bar_width, place, span

MAGIC = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<svg ", ".pdf": b"%PDF-"}
ROOT = Path(__file__).resolve().parents[2]


def observe(aspects: Sequence[str], systems: int = 2, items: int = 20, raters: int = 3, seed: int = 0) -> Observations:
    """Ratings from 1 to 5 with better systems towards the end, and scores that follow them."""
    generator = np.random.default_rng(seed)
    system = np.repeat(np.arange(systems), items * raters)
    item = np.tile(np.repeat(np.arange(items), raters), systems)
    quality = np.linspace(-1, 1, systems)[system] + generator.normal(size=(systems, items))[system, item]
    noise = {name: generator.normal(size=len(system)) for name in aspects}
    return Observations(
        systems=tuple(f"system {number}" for number in range(systems)),
        items=tuple(f"i{number}" for number in range(items)),
        raters=tuple(f"r{number}" for number in range(raters)),
        system=system,
        item=item,
        rater=np.tile(np.arange(raters), systems * items),
        ratings={name: np.clip(np.round(3 + quality + noise[name]), 1, 5) for name in aspects},
        scores=dict.fromkeys(aspects, quality),
    )


def empty(aspects: Sequence[str] = ()) -> Observations:
    """One item of one system, not rated at all."""
    one = np.zeros(1, dtype=np.int64)
    columns = {name: np.full(1, np.nan) for name in aspects}
    return Observations(("a",), ("i",), (), one, one, one - 1, columns, dict(columns))


def depends(lower: str, higher: str, common: int = 1, higher_only: int = 1, change: int | None = 0) -> Dependency:
    new = None if change is None else abs(change)
    left = Decorrelated(method="residual", n=9, left_out=0, common_change=change, higher_only_change=change, new=new)
    return Dependency(lower=lower, higher=higher, common=common, higher_only=higher_only, decorrelated=left)


def hierarchy(names: Sequence[str], edges: Sequence[Dependency] = (), **more: Any) -> HierarchyReport:
    pairs = {name: AspectPairs(pairs=2, tested=3, n=9, left_out=0, significant=()) for name in names}
    return HierarchyReport(alpha=0.01, systems=3, items=9, aspects=pairs, dependencies=tuple(edges), **more)


COMPOSITE = CompositeFit(
    composite="mate",
    target="acceptability",
    n=50,
    left_out=1,
    train=40,
    test=10,
    seed=0,
    weights={"formality": 0.3, "factuality": 2.0},
    intervals={"formality": (0.2, 0.4), "factuality": (1.9, 2.1)},
    declared={"formality": 0.335, "factuality": 2.048},
    pearson=0.853,
    declared_pearson=0.84,
)
BLEND = BlendFit(
    aspect="relevance",
    n=50,
    left_out=0,
    folds=5,
    seed=0,
    statistic="spearman",
    weight=7.5,
    interval=(3.0, 14.0),
    correlation=0.44,
    unblended=0.38,
    default=0.43,
)


def every_report(observations: Observations) -> list[Value]:
    return [
        measure_agreement(observations),
        correlate_scores(observations, resamples=100),
        find_hierarchy(observations),
        rate_wins(observations),
        COMPOSITE,
        BLEND,
    ]


class Sheets(Drawing):
    """A drawn sheet with its charts, each of which is an image of its own."""

    def __init__(self, report: Value, observations: Observations | None = None) -> None:
        labels, _ = label_names(names_of(report, observations), "sheet.svg")
        sheet, self.notes = build_sheet(report, observations, labels)
        super().__init__(compose(sheet))

    @property
    def charts(self) -> list[Drawing]:
        nested = [part for part in self.root.iter(f"{SVG}svg") if part is not self.root]
        return [Drawing(ElementTree.tostring(part, encoding="unicode")) for part in nested]


def at(drawn: Drawing, name: str) -> list[float]:
    """How far from the left the marks stand."""
    return [place(mark)[0] for mark in drawn.marks(name)]


def on_axis(drawn: Drawing, name: str, low: float, high: float, width: float) -> list[float]:
    """Where marks stand on an axis from low to high that is so many pixels wide."""
    return [low + x / width * (high - low) for x in at(drawn, name)]


@pytest.mark.parametrize("suffix", MAGIC)
def test_every_report_becomes_a_file_of_the_named_type(tmp_path: Path, suffix: str) -> None:
    observations = observe(["natural", "overall"])
    for report in every_report(observations):
        path = tmp_path / f"{type(report).__name__}{suffix}"
        assert plot(report, observations, path) == []
        assert path.read_bytes().startswith(MAGIC[suffix])


def test_every_report_can_be_drawn_without_observations(tmp_path: Path) -> None:
    for report in every_report(observe(["natural", "overall"])):
        path = tmp_path / f"{type(report).__name__}.svg"
        plot(report, None, path)
        assert path.read_bytes().startswith(MAGIC[".svg"])


def test_the_same_report_gives_the_same_file(tmp_path: Path) -> None:
    observations = observe(["自然さ", "공감성"])
    for suffix in (".svg", ".png"):
        for name in "ab":
            plot(correlate_scores(observations, resamples=100), observations, tmp_path / f"{name}{suffix}")
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_a_file_needs_no_page_around_it() -> None:
    """No property of a page's style sheet is left, and the colours are those of the light page."""
    observations = observe(["natural", "overall"])
    for report in every_report(observations):
        drawn = Sheets(report, observations)
        assert "var(" not in drawn.text
        assert "url(" not in drawn.text
        assert "Noto Sans CJK JP" in drawn.root.attrib["font-family"]
    style = (ROOT / "app" / "platform" / "web" / "static" / "app.css").read_text(encoding="utf-8")
    light = style[: style.index("@media")]
    for name, colour in LIGHT.items():
        assert f"{name}: {colour};" in light


@pytest.mark.parametrize("aspects", [[], ["alone"], ["a", "b"]])
def test_data_without_any_rating_is_drawn_and_says_so(tmp_path: Path, aspects: list[str]) -> None:
    nothing = empty(aspects)
    for report in every_report(nothing)[:4]:
        plot(report, nothing, tmp_path / "drawn.svg")
    assert "no correlations: there is one aspect" in Sheets(measure_agreement(observe(["x"]))).all_texts()
    said = Sheets(correlate_scores(empty(), resamples=100), empty()).all_texts()
    assert "ratings and scores have no aspect in common" in said
    assert "no aspect has a rating" in Sheets(find_hierarchy(empty()), empty()).all_texts()
    wins = Sheets(rate_wins(nothing))
    assert any(text.lstrip("– ").startswith(("no context", "no item", "there is")) for text in wins.all_texts())


def test_many_aspects_and_systems_are_drawn(tmp_path: Path) -> None:
    observations = observe([f"aspect {number}" for number in range(14)], systems=24, items=4, raters=2)
    for report in every_report(observations)[:4]:
        plot(report, observations, tmp_path / "drawn.svg")
        assert (tmp_path / "drawn.svg").read_bytes().startswith(b"<svg ")
        (tmp_path / "drawn.svg").unlink()


@pytest.mark.parametrize("name", ["drawn", "drawn.jpeg", "drawn.png.txt"])
def test_another_file_type_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(InvalidRequest, match=r"must end in \.png, \.svg, \.pdf"):
        plot(BLEND, None, name)


def test_scorers_stand_below_each_other_with_the_ceiling_beside_them() -> None:
    observed = observe(["overall"])
    scores = observed.scores["overall"]
    observed = replace(observed, scores={"近い:overall": scores, "<far>:overall": -scores})
    report = compare_scorers(observed, resamples=100)
    sheet, notes = build_sheet(report, None, label_names(names_of(report, None), "a.svg")[0])
    drawing = compose(sheet)
    assert notes == []
    for text in ("近い", "&lt;far&gt;", "ceiling", "3 raters"):
        assert text in drawing


def test_a_corrected_mean_stands_beside_the_judges_and_a_refusal_says_why() -> None:
    with (ROOT / "examples" / "judged.ndjson").open("rb") as file:
        observed = read_ndjson(file, ObservationReader())
    report = report_corrected(observed, ranges={"overall": (1.0, 5.0)})
    few = report.systems["bot-b"].aspects["overall"].model_copy(update={"corrected": None, "refused": "too few"})
    refused = report.systems["bot-b"].model_copy(update={"aspects": {"overall": few}})
    report = report.model_copy(update={"systems": {**report.systems, "bot-b": refused}})
    drawing = compose(build_sheet(report, None, label_names(names_of(report, None), "a.svg")[0])[0])
    kept = report.systems["bot-a"].aspects["overall"]
    assert kept.corrected is not None
    assert f"{kept.corrected.mean:.2f} [" in drawing
    assert "bot-b, overall: too few" in drawing
    assert f"– · judge {few.judge.mean:.2f}" in drawing


def test_what_is_no_analysis_has_no_drawing() -> None:
    with pytest.raises(InvalidRequest, match="has no drawing"):
        plot(depends("a", "b"), None, "drawn.png")


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"drawn\.png cannot be written: No such file or directory$"):
        plot(BLEND, None, tmp_path / "absent" / "drawn.png")


def test_the_engine_is_loaded_only_to_draw() -> None:
    code = "import sys; import saiten_server.analyses.charts.reports; sys.exit('vl_convert' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_agreement_shows_both_matrices_and_how_raters_agree() -> None:
    report = measure_agreement(observe(["natural", "overall"]))
    matrices = Correlations(
        spearman={"natural": {"natural": 1.0, "overall": 0.123}, "overall": {"natural": 0.123, "overall": 1.0}},
        pearson={"natural": {"natural": 1.0, "overall": None}, "overall": {"natural": None, "overall": 1.0}},
        n={},
        undefined={"natural": {"overall": "made up"}},
    )
    drawn = Sheets(report.model_copy(update={"correlations": matrices}), observe(["natural", "overall"]))
    cells = {place(mark): mark.text for mark in drawn.marks("values")}
    # Below the diagonal is Spearman's, above it Pearson's, which is undefined and grey.
    assert cells == {(66, 25): "–", (22, 69): "0.12"}
    (undefined,) = drawn.marks("undefined")
    assert undefined.attrib["fill"] == LIGHT["--line"]
    found = report.aspects["natural"]
    assert found.krippendorff_alpha is not None
    assert any(f"α {found.krippendorff_alpha:.2f}" in text for text in drawn.all_texts())
    assert drawn.notes == []


def test_shades_of_the_matrix_follow_the_correlation_and_its_sign() -> None:
    values: Matrix = {"a": {"b": 0.9, "c": -0.4}, "b": {"a": 0.9, "c": 0.0}, "c": {"a": -0.4, "b": 0.0}}
    found = Correlations(spearman=values, pearson=values, n={})
    drawn = Sheets(measure_agreement(observe(["a", "b", "c"])).model_copy(update={"correlations": found}))
    assert {mark.get("fill-opacity") for mark in drawn.marks("positive")} == {"0.9", "0"}
    assert {mark.get("fill-opacity") for mark in drawn.marks("negative")} == {"0.4"}
    assert drawn.texts("dark-values") == ["0.90", "0.90"]
    assert sorted(drawn.texts("values")) == sorted(["−0.40", "0.00"] * 2)


def test_distributions_hold_every_item() -> None:
    observations = observe(["natural"], raters=1)
    drawn = Sheets(measure_agreement(observations), observations)
    values, counts = np.unique(observations.ratings["natural"], return_counts=True)
    assert drawn.texts("labels") == [f"{value:g}" for value in values]
    assert [int(text.split(" ")[0]) for text in drawn.texts("figures")] == counts.tolist()
    widths = [bar_width(bar) for bar in drawn.marks("bars")]
    assert np.allclose(np.array(widths) / max(widths), counts / counts.max(), atol=0.01)
    assert {"Items by the mean of their raters", "natural"} <= set(drawn.all_texts())
    mean = observations.ratings["natural"].mean()
    assert any(text.startswith(f"mean {mean:.2f} ") for text in drawn.all_texts())


def test_a_distribution_has_a_bar_per_step_of_the_whole_range_or_bins() -> None:
    observations = observe(["natural"], raters=1)
    gaps = np.where(observations.ratings["natural"] == 3, 4, observations.ratings["natural"])
    fewer = replace(observations, ratings={"natural": gaps})
    assert Sheets(measure_agreement(fewer), fewer).texts("labels") == ["1", "2", "3", "4", "5"]
    fine = replace(observations, ratings={"natural": observations.scores["natural"]})
    drawn = Sheets(measure_agreement(fine), fine)
    assert len(drawn.texts("labels")) == 12
    assert sum(int(text.split(" ")[0]) for text in drawn.texts("figures")) == 40


def test_the_matrix_says_of_how_many_items_it_is() -> None:
    observations = observe(["a", "b", "c"], raters=1)  # 2 systems of 20 items
    assert "Correlation of aspects, n 40" in Sheets(measure_agreement(observations)).all_texts()
    gaps = observations.ratings["c"].copy()
    gaps[:10] = np.nan
    fewer = replace(observations, ratings={**observations.ratings, "c": gaps})
    assert "Correlation of aspects, n 30 to 40" in Sheets(measure_agreement(fewer)).all_texts()


def test_the_forest_shows_rho_interval_and_ceiling() -> None:
    report = correlate_scores(observe(["natural", "overall"]), resamples=200)
    (chart,) = Sheets(report).charts
    found = list(report.aspects.values())
    assert on_axis(chart, "points", 0, 1, 432) == [pytest.approx(one.spearman, abs=1e-3) for one in found]
    ceilings = [one.ceiling.spearman for one in found if one.ceiling]
    assert on_axis(chart, "references", 0, 1, 432) == [pytest.approx(one, abs=1e-3) for one in ceilings]
    lengths = [span(mark)[0] / 432 for mark in chart.marks("intervals")]
    intervals = [one.spearman_interval for one in found if one.spearman_interval]
    assert np.abs(lengths) == pytest.approx([high - low for low, high in intervals], abs=1e-3)
    assert chart.texts("names") == ["natural", "overall"]


def dots_of(drawn: Drawing) -> tuple[np.ndarray, np.ndarray]:
    """Where the dots of the one scatter plot stand, as shares of its width and height."""
    spots = np.array([place(mark) for mark in drawn.marks("dots")])
    return spots[:, 0] / 180, 1 - spots[:, 1] / 180


def test_the_scatter_has_a_dot_per_item_near_its_values() -> None:
    observations = observe(["natural"], systems=3)
    drawn = Sheets(correlate_scores(observations, resamples=100), observations)
    x, y = dots_of(drawn)
    means = observations.means(observations.ratings["natural"])
    assert len(x) == 60
    # Three raters make means a third apart, and a dot moves by a quarter of that at most. The axis is from 1 to 5, with
    # 6% on either side.
    assert np.abs(0.76 + 4.48 * y - means).max() <= 1 / 12 + 0.02
    scores = observations.means(observations.scores["natural"])
    low, reach = scores.min(), scores.max() - scores.min()
    assert np.allclose(low - 0.06 * reach + 1.12 * reach * x, scores, atol=0.02)
    assert "ratings spread by up to ¼ step" in drawn.all_texts()


def test_no_dot_is_moved_beyond_the_range_of_the_ratings_and_the_caption_says_what_moved() -> None:
    observations = observe(["natural"], items=200, raters=1)
    coarse = replace(observations, scores=observations.ratings)
    drawn = Sheets(correlate_scores(coarse, resamples=100), coarse)
    true = observations.means(observations.ratings["natural"])
    assert (float(true.min()), float(true.max())) == (1.0, 5.0)
    for moved in dots_of(drawn):
        values = 0.76 + 4.48 * moved
        # The ratings are 1 to 5, a step is 1: what is at an end moves inwards only.
        assert values.min() >= 0.99
        assert values.max() <= 5.01
        assert 0 < np.abs(values - true).max() <= 0.26
    assert "points spread by up to ¼ step" in drawn.all_texts()


def test_continuous_values_and_densities_are_not_said_to_be_moved() -> None:
    observations = observe(["natural"], items=1500, raters=1)
    drawn = Sheets(correlate_scores(observations, resamples=10), observations)
    assert not [text for text in drawn.all_texts() if "spread by" in text]
    assert "the darker, the more items (log scale)" in drawn.all_texts()
    assert drawn.marks("density")
    assert not drawn.marks("dots")


def test_the_forest_names_its_axis_and_only_the_signs_it_has() -> None:
    drawn = Sheets(correlate_scores(observe(["natural"]), resamples=100))
    assert "Spearman's ρ of scores with the mean of the raters" in drawn.all_texts()
    assert "ceiling: each rater against the mean of the others" in drawn.all_texts()
    alone = Sheets(correlate_scores(observe(["natural"], raters=1), resamples=100))
    assert not [text for text in alone.all_texts() if "ceiling" in text]
    # The reasons for figures that the drawing does not have are not told.
    assert not [text for text in alone.all_texts() if text.startswith("–")]


def test_an_undefined_correlation_says_why_and_what_is_unmatched_is_noted() -> None:
    observations = observe(["natural"])
    constant = np.ones_like(observations.ratings["natural"])
    report = correlate_scores(replace(observations, scores={"natural": constant, "other": constant}), resamples=100)
    drawn = Sheets(report)
    why = report.aspects["natural"].undefined["spearman"]
    assert drawn.texts("figures")[0].startswith("– ")
    assert f"–: {why}" in drawn.all_texts()
    assert drawn.notes == [f"other is not drawn: {report.unmatched['other']}"]


def test_wins_and_ties_fill_the_bar_and_have_their_intervals() -> None:
    report = rate_wins(observe(["natural"], systems=3))
    stacks, shares = Sheets(report).charts
    found = report.aspects["natural"]
    everyone = [*found.systems.values(), found.ties]
    bars = [mark for number in range(4) for mark in stacks.marks(f"part-{number}")]
    widths = np.array([bar_width(bar) for bar in bars])
    assert widths / widths.sum() == pytest.approx([one.share for one in everyone], abs=1e-3)
    assert on_axis(shares, "points", 0, 1, 300) == [pytest.approx(one.share, abs=1e-3) for one in everyone]
    lengths = [abs(span(mark)[0]) / 300 for mark in shares.marks("intervals")]
    assert lengths == pytest.approx([one.interval[1] - one.interval[0] for one in everyone if one.interval], abs=1e-3)


def test_more_systems_than_colours_are_one_piece_of_the_bar() -> None:
    report = rate_wins(observe([f"a{number}" for number in range(10)], systems=20, items=30))
    drawn = Sheets(report)
    pieces = [drawn.marks(f"part-{number}") for number in range(8)]
    assert [len(marks) for marks in pieces] == [10] * 8
    assert drawn.texts("key-text-6") == ["other systems"]
    assert drawn.notes == ["intervals are drawn for the 6 systems that win most, of 20"]


def test_every_system_stands_in_the_legend_whatever_its_name() -> None:
    report = rate_wins(replace(observe(["natural"], systems=3), systems=("_hidden", "plain", "_")))
    drawn = Sheets(report)
    assert [drawn.texts(f"key-text-{number}") for number in range(4)] == [["_hidden"], ["plain"], ["_"], ["ties"]]
    for number in range(4):
        (part,), (key,) = drawn.marks(f"part-{number}"), drawn.marks(f"key-{number}")
        assert part.attrib["fill"] == key.attrib["fill"]


def test_contexts_that_not_every_system_answered_are_said_in_place_of_bars() -> None:
    observations = observe(["natural"])
    half = np.where(observations.system == 0, np.nan, observations.ratings["natural"])
    drawn = Sheets(rate_wins(replace(observations, ratings={"natural": half})))
    assert not drawn.marks("part-0")
    assert drawn.texts("reasons") or any(text.startswith("–") for text in drawn.all_texts())


def test_a_composite_fit_shows_the_fitted_weights_and_the_rubrics() -> None:
    drawn = Sheets(COMPOSITE)
    weights, correlations = drawn.charts
    (fitted, other), (declared, _) = at(weights, "points"), at(weights, "references")
    scale = (other - fitted) / 1.7
    assert declared - fitted == pytest.approx(0.035 * scale, abs=0.1)
    assert [abs(span(mark)[0]) for mark in weights.marks("intervals")] == pytest.approx([0.2 * scale] * 2, abs=0.1)
    assert weights.texts("figures") == ["fitted 0.300 · in the rubric 0.335", "fitted 2.000 · in the rubric 2.048"]
    assert on_axis(correlations, "points", 0, 1, 300) == pytest.approx([0.853, 0.84], abs=1e-3)
    assert correlations.texts("names") == ["fitted", "in the rubric"]
    assert "Held-out Pearson's r, n 10" in drawn.all_texts()
    assert not [text for text in drawn.all_texts() if "declared" in text]


def test_a_blend_fit_shows_the_weight_on_what_was_tried() -> None:
    weight, correlations = Sheets(BLEND).charts
    assert on_axis(weight, "points", -3, 53, 432) == pytest.approx([7.5], abs=0.01)
    assert on_axis(weight, "references", -3, 53, 432) == pytest.approx([10], abs=0.01)
    assert abs(span(weight.marks("intervals")[0])[0]) == pytest.approx(11 / 56 * 432, abs=0.1)
    assert correlations.texts("figures") == ["0.380", "0.430", "0.440"]


def test_the_notes_of_a_blend_fit_stand_on_its_drawing() -> None:
    notes = "50 does as well as 48: the items set it no bound", "costs $5 " * 40
    drawn = Sheets(BLEND.model_copy(update={"notes": notes}))
    assert notes[0] in drawn.all_texts()
    told = [text for text in drawn.all_texts() if "$5" in text]
    assert len(told) > 1
    assert sum(text.count("$5") for text in told) == 40


def test_fits_that_could_not_be_made_say_why() -> None:
    nothing = dict.fromkeys(("correlation", "unblended", "default", "interval", "weight"))
    said = Sheets(BLEND.model_copy(update=nothing | {"undefined": {"weight": "too few items"}})).all_texts()
    assert {"no weight could be chosen", "–: too few items"} <= set(said)
    gone = {"weights": {"formality": None}, "intervals": {"formality": None}, "pearson": None, "declared_pearson": None}
    said = Sheets(COMPOSITE.model_copy(update=gone | {"undefined": {"weights": "too few items"}})).all_texts()
    assert {"no correlation", "–: too few items"} <= set(said)


def test_the_graph_of_topical_chat(shared: Path) -> None:
    with (shared / "data" / "topical_chat_usr.jsonl").open("rb") as lines:
        observations = read_ndjson(lines, ObservationReader())
    drawn = Sheets(find_hierarchy(observations), observations)
    # method.md, section 6: four up to the middle layer, four from there, and the one that follows, which is told below.
    assert sorted(drawn.texts("counts")) == ["8 / +1"] * 4 + ["9 / +1"] * 4
    assert len(drawn.marks("arrows")) == 8
    follows = [text for text in drawn.all_texts() if text.startswith("follows from others: ")]
    assert [text.endswith(", 8 / +2") for text in follows] == [True]
    assert "10 / 15" in drawn.all_texts()
    assert drawn.notes == ["1 dependency that follows from those drawn is left out of the graph"]


def test_decorrelation_is_told_where_it_changes_anything() -> None:
    chain = hierarchy("abc", [depends("a", "b", 5, 2, -1), depends("b", "c"), depends("a", "c", change=None)])
    said = Sheets(chain).all_texts()
    assert "5 / +2" in said
    assert "a → b (−1 / −1, 1 new); a → c (–)" in said
    assert any(text.startswith("change of the pairs by decorrelation (residual)") for text in said)
    calm = Sheets(hierarchy("ab", [depends("a", "b")])).all_texts()
    assert "decorrelation (residual) changes none of them" in calm
    assert not any("change of the pairs" in text for text in calm)


def test_no_dependency_is_said_with_its_reason() -> None:
    drawn = Sheets(hierarchy("ab", undefined={"dependencies": "no aspect tells any two apart"}))
    assert "No aspect depends on another: no aspect tells any two apart" in drawn.all_texts()
    assert drawn.marks("arrows") == []


def test_a_deep_graph_is_drawn_whole() -> None:
    names = [f"aspect {number}" for number in range(12)]
    drawn = Sheets(hierarchy(names, [depends(*pair) for pair in pairwise(names)]))
    heights = dict(zip(drawn.texts("names"), (place(mark)[1] for mark in drawn.marks("names")), strict=True))
    assert heights["aspect 0"] > heights["aspect 11"]
    assert len(drawn.marks("arrows")) == 11


def test_systems_stand_in_one_order_the_best_first() -> None:
    observations = observe(["natural", "overall"], systems=4, items=80)
    charts = Sheets(find_hierarchy(observations), observations).charts
    panels = [chart for chart in charts if chart.marks("means")]
    assert [chart.texts("names") for chart in panels] == [[f"system {number}" for number in (3, 2, 1, 0)]] * 2
    means = observations.means(observations.ratings["natural"])
    wanted = [means[observations.unit_system == system].mean() for system in (3, 2, 1, 0)]
    found = np.array(at(panels[0], "means"))
    assert np.corrcoef(found, wanted)[0, 1] == pytest.approx(1, abs=1e-4)


def test_value_axes_are_named_and_reach_over_all_ratings() -> None:
    observations = observe(["natural", "amount"], systems=3)
    folded = replace(
        observations,
        ratings={**observations.ratings, "amount": -np.abs(observations.ratings["amount"] - 3)},
        folded={"amount": 3.0},
    )
    charts = Sheets(find_hierarchy(folded), folded).charts
    panels = [chart for chart in charts if chart.marks("means")]
    assert {"1", "5", "rating"} <= set(panels[0].all_texts())
    assert "−|rating − 3|" in panels[1].all_texts()
    assert (
        "dot: mean; thick: middle half; thin: 5 to 95%; systems sorted by mean"
        in Sheets(find_hierarchy(folded), folded).all_texts()
    )


def test_names_without_a_glyph_are_numbered_boxes_and_one_note(tmp_path: Path) -> None:
    names = ["natural", "odd \U00013000", "\U00013001"]  # hieroglyphs, which no Japanese or Korean font has
    labels, (note,) = label_names(names, "drawn.png")
    assert labels == {"natural": "natural", names[1]: "#1 odd □", names[2]: "#2 □"}
    assert note.endswith("Drawn as □ are #1 odd \U00013000, #2 \U00013001")
    observations = observe(names)
    assert plot(measure_agreement(observations), observations, tmp_path / "drawn.png") == [note]


def test_an_svg_leaves_the_fonts_to_its_reader() -> None:
    assert label_names(["odd \U00013000"], "drawn.svg") == ({"odd \U00013000": "odd \U00013000"}, [])


def test_only_characters_without_a_glyph_are_missing() -> None:
    assert find_missing("abcρα−") == frozenset()
    assert find_missing("é\U00013000") == {"\U00013000"}


def test_names_stay_short_and_harmless() -> None:
    long = "a" * 20 + "b" * 20
    labels, _ = label_names(["$x^2$", "two\nlines\x07", "", "<b>&amp;</b>", long], "drawn.svg")
    assert labels["$x^2$"] == "$x^2$"
    assert labels["two\nlines\x07"] == "two lines\ufffd"
    assert labels[""] == "–"
    assert labels[long].startswith("aaaa")
    assert labels[long].endswith("bbbb")
    assert len(labels[long]) < 40
    hostile = ["</text><script>alert(1)</script>", '"var(--ink)" onload="x"', "a & b <c>"]
    observations = observe(hostile)
    for report in every_report(observations)[:4]:
        drawn = Sheets(report, observations)
        assert not list(drawn.root.iter(f"{SVG}script"))
        assert "a & b <c>" in drawn.all_texts()
