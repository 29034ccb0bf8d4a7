"""Drawings: what the axes hold, the files, and what becomes of names and of reports that hold nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("networkx")

from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.text import Text

from app.analysis.agreement import measure_agreement
from app.analysis.correlation import correlate
from app.analysis.hierarchy import find_hierarchy
from app.analysis.observations import Observations
from app.analysis.win_rates import rate_wins
from app.cli.plots import plot, require_drawing
from app.domain.errors import InvalidRequest
from app.domain.model import Value
from app.domain.reports import (
    AspectPairs,
    BlendFit,
    CompositeFit,
    Correlations,
    Decorrelated,
    Dependency,
    HierarchyReport,
)
from app.plots.agreement import build_agreement
from app.plots.correlation import build_correlation
from app.plots.fits import build_blend_fit, build_composite_fit
from app.plots.hierarchy import build_hierarchy
from app.plots.lettering import BOX, PLAIN, Face
from app.plots.win_rates import build_win_rates

MAGIC = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}
LATIN = Face(PLAIN, frozenset(range(32, 256)) | {ord(BOX), ord("…"), 0xFFFD})


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


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def dots(axes: Any, marker: str) -> list[tuple[float, float]]:
    """The places of single markers, from the top."""
    found = [line.get_xydata()[0] for line in axes.lines if line.get_marker() == marker and len(line.get_xydata()) == 1]
    return sorted(((float(x), float(y)) for x, y in found), key=lambda place: place[1])


def spans(axes: Any) -> list[tuple[float, float]]:
    """The ends of all horizontal strokes."""
    found = [segment[:, 0] for lines in axes.collections for segment in lines.get_segments()]
    return [(float(ends[0]), float(ends[1])) for ends in found]


def arrows(figure: Any) -> list[Any]:
    return list(figure.findobj(FancyArrowPatch))


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
        correlate(observations, resamples=100),
        find_hierarchy(observations),
        rate_wins(observations),
        COMPOSITE,
        BLEND,
    ]


@pytest.mark.parametrize("suffix", MAGIC)
def test_every_report_becomes_a_file_of_the_named_type(tmp_path: Path, suffix: str):
    observations = observe(["natural", "overall"])
    for report in every_report(observations):
        path = tmp_path / f"{type(report).__name__}{suffix}"
        assert plot(report, observations, path) == []
        assert path.read_bytes().startswith(MAGIC[suffix])


def test_every_report_can_be_drawn_without_observations(tmp_path: Path):
    for report in every_report(observe(["natural", "overall"])):
        path = tmp_path / f"{type(report).__name__}.png"
        plot(report, None, path)
        assert path.read_bytes().startswith(MAGIC[".png"])


@pytest.mark.parametrize("aspects", [[], ["alone"], ["a", "b"]])
def test_data_without_any_rating_is_drawn_and_says_so(tmp_path: Path, aspects: list[str]):
    nothing = empty(aspects)
    for report in every_report(nothing)[:4]:
        plot(report, nothing, tmp_path / "drawn.png")
    assert "no correlations: there is one aspect" in texts(build_agreement(measure_agreement(observe(["x"])), None)[0])
    said = texts(build_correlation(correlate(empty(), resamples=100), empty())[0])
    assert "ratings and scores have no aspect in common" in said
    assert any("no aspect has a rating" in text for text in texts(build_hierarchy(find_hierarchy(empty()), empty())[0]))
    assert any(text.startswith("no context") for text in texts(build_win_rates(rate_wins(nothing))[0]))


def test_many_aspects_and_systems_are_drawn_without_a_warning(tmp_path: Path):
    observations = observe([f"aspect {number}" for number in range(20)], systems=30, items=8, raters=2)
    for report in every_report(observations)[:4]:
        plot(report, observations, tmp_path / "drawn.svg")
        assert (tmp_path / "drawn.svg").read_bytes().startswith(b"<?xml")
        (tmp_path / "drawn.svg").unlink()


@pytest.mark.parametrize("name", ["drawn", "drawn.jpeg", "drawn.png.txt"])
def test_another_file_type_is_refused_with_those_that_there_are(name: str):
    with pytest.raises(InvalidRequest, match=r"must end in \.png, \.svg, \.pdf"):
        plot(BLEND, None, name)


def test_what_is_no_analysis_has_no_drawing():
    with pytest.raises(InvalidRequest, match="has no drawing"):
        plot(depends("a", "b"), None, "drawn.png")


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path):
    with pytest.raises(InvalidRequest, match=r"drawn\.png cannot be written: No such file or directory$"):
        plot(BLEND, None, tmp_path / "absent" / "drawn.png")


def test_without_the_extra_it_says_how_to_install_it():
    with pytest.raises(InvalidRequest, match=r"pip install 'saiten\[plot\]'"):
        require_drawing("drawn.png", find=lambda name: None)


def test_the_way_in_imports_no_library_and_drawing_no_pyplot(tmp_path: Path):
    code = (
        "import sys; from tests.unit.cli.test_plots import BLEND, depends, hierarchy, plot\n"
        f"plot(BLEND, None, {str(tmp_path / 'blend.png')!r})\n"
        f"plot(hierarchy('ab', [depends('a', 'b')]), None, {str(tmp_path / 'graph.png')!r})\n"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    lazy = "import sys; import app.cli.plots; sys.exit(bool({'matplotlib', 'networkx'} & set(sys.modules)))"
    root = Path(__file__).resolve().parents[3]
    for line in (lazy, code):
        assert subprocess.run([sys.executable, "-c", line], cwd=root, check=False).returncode == 0


def test_agreement_shows_both_matrices_and_how_raters_agree():
    report = measure_agreement(observe(["natural", "overall"]))
    matrices = Correlations(
        spearman={"natural": {"natural": 1.0, "overall": 0.123}, "overall": {"natural": 0.123, "overall": 1.0}},
        pearson={"natural": {"natural": 1.0, "overall": None}, "overall": {"natural": None, "overall": 1.0}},
        n={},
        undefined={"natural": {"overall": "made up"}},
    )
    figure, notes = build_agreement(
        report.model_copy(update={"correlations": matrices}), observe(["natural", "overall"])
    )
    matrix = next(axes for axes in figure.findobj() if getattr(axes, "images", None))
    cells = {text.get_position(): (text.get_text(), text.get_color()) for text in matrix.texts}
    # (column, row): below the diagonal Spearman's, above it Pearson's, which is undefined and grey.
    assert cells[0, 1][0] == ".12"
    assert cells[1, 0] == ("–", "#767676")
    assert len(cells) == 2
    assert matrix.images[0].get_array().mask.tolist() == [[True, True], [False, True]]
    found = report.aspects["natural"]
    assert found.krippendorff_alpha is not None
    assert any(f"α {found.krippendorff_alpha:.2f}".replace("0.", ".") in text for text in texts(figure))
    assert notes == []


def test_distributions_hold_every_item_and_its_mean():
    observations = observe(["natural"], raters=1)
    figure, _ = build_agreement(measure_agreement(observations), observations)
    (axes,) = [one for one in figure.findobj() if getattr(one, "containers", None)]
    bars = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in axes.containers[0]}
    values, counts = np.unique(observations.ratings["natural"], return_counts=True)
    assert bars == dict(zip(values.astype(int).tolist(), counts.tolist(), strict=True))
    low, high = axes.get_xlim()
    assert (low < 1, high > 5) == (True, True)
    assert max(axes.get_yticks()) >= counts.max() / 2
    assert {"items", "natural"} <= set(texts(figure))
    (mean,) = [line.get_xdata()[0] for line in axes.lines]
    assert mean == pytest.approx(observations.ratings["natural"].mean())


def test_the_matrix_says_of_how_many_items_it_is():
    observations = observe(["a", "b", "c"], raters=1)  # 2 systems of 20 items
    assert "Correlation of aspects, n 40" in texts(build_agreement(measure_agreement(observations), None)[0])
    gaps = observations.ratings["c"].copy()
    gaps[:10] = np.nan
    fewer = replace(observations, ratings={**observations.ratings, "c": gaps})
    assert "Correlation of aspects, n 30 to 40" in texts(build_agreement(measure_agreement(fewer), None)[0])


def test_the_forest_shows_rho_interval_and_ceiling():
    observations = observe(["natural", "overall"])
    report = correlate(observations, resamples=200)
    figure, _ = build_correlation(report, None)
    (axes,) = figure.axes
    found = list(report.aspects.values())
    assert [x for x, _ in dots(axes, "o")] == [pytest.approx(one.spearman) for one in found]
    assert [x for x, _ in dots(axes, "D")] == [pytest.approx(one.ceiling.spearman) for one in found if one.ceiling]
    assert spans(axes) == [pytest.approx(one.spearman_interval) for one in found]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["natural", "overall"]


def test_the_scatter_has_a_dot_an_item_near_its_values():
    observations = observe(["natural"], systems=3)
    figure, _ = build_correlation(correlate(observations, resamples=100), observations)
    clouds = [line for axes in figure.findobj() for line in getattr(axes, "lines", ()) if len(line.get_xdata()) == 60]
    (cloud,) = clouds
    means = observations.means(observations.ratings["natural"])
    # Three raters make means a third apart, and a dot moves by a quarter of that at most.
    assert np.abs(cloud.get_ydata() - means).max() <= 1 / 12 + 1e-9
    assert cloud.get_xdata() == pytest.approx(observations.means(observations.scores["natural"]))
    assert "ratings spread by up to ¼ step" in texts(figure)


def test_no_dot_is_moved_beyond_the_ratings_range_and_the_caption_says_what_moved():
    observations = observe(["natural"], items=200, raters=1)
    coarse = replace(observations, scores=observations.ratings)
    figure, _ = build_correlation(correlate(coarse, resamples=100), coarse)
    (cloud,) = [
        line for axes in figure.findobj() for line in getattr(axes, "lines", ()) if len(line.get_xdata()) == 400
    ]
    true = observations.means(observations.ratings["natural"])
    for moved in (cloud.get_xdata(), cloud.get_ydata()):
        # The ratings are 1 to 5, a step is 1: what is at an end moves inwards only.
        assert (float(true.min()), float(true.max())) == (1.0, 5.0)
        assert moved.min() >= 1
        assert moved.max() <= 5
        assert 0 < np.abs(moved - true).max() <= 1 / 4
    assert "points spread by up to ¼ step" in texts(figure)


def test_continuous_values_and_densities_are_not_said_to_be_moved():
    observations = observe(["natural"], items=1500, raters=1)
    figure, _ = build_correlation(correlate(observations, resamples=10), observations)
    assert not [text for text in texts(figure) if "spread by" in text]
    assert "the darker, the more items (log scale)" in texts(figure)


def test_the_forest_names_its_axis_and_only_the_signs_it_has():
    report = correlate(observe(["natural"]), resamples=100)
    (axes,) = build_correlation(report, None)[0].axes
    assert axes.get_xlabel().startswith("Spearman's ρ of scores with the mean of the raters\n")
    assert "◇ ceiling" in axes.get_xlabel()
    alone = correlate(observe(["natural"], raters=1), resamples=100)
    assert "◇" not in build_correlation(alone, None)[0].axes[0].get_xlabel()


def test_an_undefined_correlation_says_why_and_what_is_unmatched_is_noted():
    observations = observe(["natural"])
    constant = np.ones_like(observations.ratings["natural"])
    report = correlate(
        Observations(**{**vars_of(observations), "scores": {"natural": constant, "other": constant}}), resamples=100
    )
    figure, notes = build_correlation(report, None)
    assert f"– {report.aspects['natural'].undefined['spearman']}" in texts(figure)
    assert notes == [f"other is not drawn: {report.unmatched['other']}"]


def vars_of(observations: Observations) -> dict[str, Any]:
    names = ("systems", "items", "raters", "system", "item", "rater", "ratings")
    return {name: getattr(observations, name) for name in names}


def test_wins_and_ties_fill_the_bar_and_have_their_intervals():
    report = rate_wins(observe(["natural"], systems=3))
    figure, _ = build_win_rates(report)
    stacks, shares = figure.axes
    widths = [bar.get_width() for bar in stacks.patches if isinstance(bar, Rectangle)]
    found = report.aspects["natural"]
    everyone = [*found.systems.values(), found.ties]
    assert sum(widths) == pytest.approx(1)
    assert sorted(widths) == pytest.approx(sorted(one.share or 0.0 for one in everyone))
    assert [x for x, _ in dots(shares, "o")] == pytest.approx([one.share for one in everyone])
    assert spans(shares) == [pytest.approx(one.interval) for one in everyone]


def test_more_systems_than_colours_are_one_piece_of_the_bar():
    figure, notes = build_win_rates(rate_wins(observe([f"a{number}" for number in range(10)], systems=20, items=30)))
    assert len(figure.axes[0].patches) == 10 * (7 + 2)
    assert "other systems" in [text.get_text() for text in figure.legends[0].get_texts()]
    assert notes == ["intervals are drawn for the 7 systems that win most, of 20"]


def test_every_system_stands_in_the_legend_whatever_its_name():
    report = rate_wins(replace(observe(["natural"], systems=3), systems=("_hidden", "plain", "_")))
    figure, _ = build_win_rates(report)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["_hidden", "plain", "_", "ties"]
    stacks = figure.axes[0].patches
    drawn = [patch.get_facecolor() for patch in stacks]
    assert [handle.get_facecolor() for handle in legend.get_patches()] == drawn


def test_a_composite_fit_shows_the_fitted_weights_and_the_rubrics():
    figure, _ = build_composite_fit(COMPOSITE)
    weights, correlations = figure.axes
    assert [x for x, _ in dots(weights, "o")] == [0.3, 2.0]
    assert [x for x, _ in dots(weights, "D")] == [0.335, 2.048]
    assert spans(weights) == [(0.2, 0.4), (1.9, 2.1)]
    assert [bar.get_height() for bar in correlations.patches] == [0.853, 0.84]
    assert [label.get_text() for label in correlations.get_xticklabels()] == ["fitted", "in the rubric"]
    assert correlations.get_title(loc="left") == "Held-out Pearson's r, n 10"
    assert not [text for text in texts(figure) if "declared" in text]


def test_a_blend_fit_shows_the_weight_on_what_was_tried():
    figure, _ = build_blend_fit(BLEND)
    weight, correlations = figure.axes
    assert dots(weight, "o") == [(7.5, 0.0)]
    assert dots(weight, "D") == [(10.0, 0.0)]
    assert spans(weight) == [(3.0, 14.0)]
    assert [bar.get_height() for bar in correlations.patches] == [0.38, 0.43, 0.44]


def test_the_notes_of_a_blend_fit_stand_on_its_drawing():
    notes = "50 does as well as 48: the items set it no bound", "costs $5 " * 30
    figure, _ = build_blend_fit(BLEND.model_copy(update={"notes": notes}))
    told = figure.get_supxlabel()
    assert told.splitlines()[0] == notes[0]
    assert max(map(len, told.splitlines())) <= 140
    assert told.count(r"\$5") == 30
    assert build_blend_fit(BLEND)[0].get_supxlabel() == ""
    assert not [text for text in texts(figure) if "fitted" in text]


def test_fits_that_could_not_be_made_say_why():
    nothing: dict[str, Any] = {
        "correlation": None,
        "unblended": None,
        "default": None,
        "interval": None,
        "weight": None,
    }
    blend = BLEND.model_copy(update=nothing | {"undefined": {"weight": "too few items"}})
    assert "no weight could be chosen\ntoo few items" in texts(build_blend_fit(blend)[0])
    gone = {"weights": {"formality": None}, "intervals": {"formality": None}, "pearson": None, "declared_pearson": None}
    composite = COMPOSITE.model_copy(update=gone | {"undefined": {"weights": "too few items"}})
    said = texts(build_composite_fit(composite)[0])
    assert "too few items" in said
    assert any(text.startswith("no correlation\n") for text in said)
