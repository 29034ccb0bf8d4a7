from saiten_server.analyses.charts.intervals import (
    ForestLabels,
    ForestRow,
    IntervalLabels,
    build_correlation,
    build_forest,
)
from saiten_server.core.reports import AspectCorrelation, Ceiling, CorrelationReport
from tests.support.drawing import draw, place, span

LABELS = IntervalLabels(
    title="Agreement",
    description="d",
    value="judge",
    reference="human",
    axis="Spearman's ρ",
    nothing="no aspect",
)


def say_n(found: AspectCorrelation) -> str:
    return f" · n {found.n:,}"


def found(
    spearman: float | None, interval: tuple[float, float] | None, ceiling: float | None, n: int = 120
) -> AspectCorrelation:
    return AspectCorrelation(
        n=n,
        left_out=0,
        spearman=spearman,
        pearson=None,
        kendall=None,
        spearman_interval=interval,
        pearson_interval=None,
        kendall_interval=None,
        score_mean=None,
        rating_mean=None,
        bias=None,
        bias_interval=None,
        ceiling=None if ceiling is None else Ceiling(raters=3, spearman=ceiling, pearson=None),
        system_level=None,
    )


def report(**aspects: AspectCorrelation) -> CorrelationReport:
    return CorrelationReport(systems=2, items=120, raters=3, resamples=100, seed=1, aspects=aspects)


def test_marks_stand_on_one_axis() -> None:
    drawn = draw(
        build_correlation(
            report(a=found(0.5, (0.25, 0.75), 1.0), b=found(0.25, (0.0, 0.5), 0.5)), LABELS, describe=say_n
        )
    )
    (half, _), (quarter, _) = map(place, drawn.marks("points"))
    assert abs(half - 2 * quarter) < 0.1
    one, other = drawn.marks("references")
    assert abs(place(other)[0] - half) <= 1
    assert abs(place(one)[0] - 2 * half) <= 1
    long, also = drawn.marks("intervals")
    assert abs(span(long)[0] - half) <= 1
    assert abs(span(also)[0] - half) <= 1


def test_says_the_coefficient_and_n() -> None:
    drawn = draw(
        build_correlation(report(a=found(0.5, None, None, n=1200)), LABELS, describe=say_n, names={"a": "関連性"})
    )
    assert drawn.texts("names") == ["関連性"]
    assert drawn.texts("figures") == ["0.50 · n 1,200"]
    assert drawn.texts("key-text-value") == ["judge"]
    assert drawn.texts("key-text-reference") == ["human"]
    assert len(drawn.marks("points")) == 1
    assert not drawn.marks("intervals")
    assert not drawn.marks("references")


def test_what_is_undefined_is_a_dash() -> None:
    drawn = draw(build_correlation(report(a=found(None, None, None, n=2)), LABELS, describe=say_n))
    assert drawn.texts("figures") == ["– · n 2"]
    assert not drawn.marks("points")


def test_negative_correlations_stand_left_of_zero() -> None:
    drawn = draw(
        build_correlation(report(a=found(-0.4, (-0.7, -0.1), None), b=found(0.4, None, 0.9)), LABELS, describe=say_n)
    )
    zero = place(drawn.marks("zero")[0])[0]
    (negative, _), (positive, _) = map(place, drawn.marks("points"))
    assert negative < zero < positive
    assert {"−1", "0", "1"} <= set(drawn.all_texts())
    assert min(place(mark)[0] for mark in drawn.marks("intervals")) >= 0


def test_slightly_negative_ones_take_half_an_axis() -> None:
    assert {"−0.5", "0", "0.5", "1"} <= set(
        draw(build_correlation(report(a=found(-0.2, None, None)), LABELS, describe=say_n)).all_texts()
    )


def test_no_aspect() -> None:
    assert draw(build_correlation(report(), LABELS, describe=say_n)).all_texts() == ["no aspect"]


FOREST_LABELS = ForestLabels(
    title="Comparison",
    description="Differences",
    points="points",
    share="share of the scale",
    better="better",
    worse="worse",
    inconclusive="inconclusive",
    nothing="nothing compared",
)


def test_each_verdict_has_its_shape_and_side() -> None:
    rows = [
        ForestRow("a", 0.4, (0.2, 0.6), "better", 4),
        ForestRow("b", -0.4, (-0.6, -0.2), "worse", 4),
        ForestRow("c", 0.0, (-0.2, 0.2), "inconclusive", 4),
    ]
    drawn = draw(build_forest(rows, FOREST_LABELS))
    (better,), (worse,), (open_one,) = (drawn.marks(f"{v}-points") for v in ("better", "worse", "inconclusive"))
    assert len({mark.attrib["d"] for mark in (better, worse, open_one)}) == 3
    assert open_one.get("fill") == "var(--surface)"
    zero = place(drawn.marks("zero")[0])[0]
    assert place(worse)[0] < zero < place(better)[0]
    assert abs(place(better)[0] + place(worse)[0] - 2 * zero) < 0.1
    assert abs(place(open_one)[0] - zero) < 0.1


def test_an_interval_is_as_long_as_it_is() -> None:
    rows = [ForestRow("a", 0.4, (0.3, 0.5), "better", 4), ForestRow("b", 0.4, (0.2, 0.6), "better", 4)]
    short, long = draw(build_forest(rows, FOREST_LABELS)).marks("better-intervals")
    assert abs(2 * span(short)[0] - span(long)[0]) <= 1.5  # lines end on whole pixels


def test_scales_alike_are_in_points() -> None:
    drawn = draw(build_forest([ForestRow("a", 0.4, (0.2, 0.6), "better", 4)], FOREST_LABELS))
    assert "points" in drawn.all_texts()
    assert "share of the scale" not in drawn.all_texts()
    assert drawn.texts("figures") == ["+0.40 [0.20, 0.60]"]


def test_scales_that_differ_are_shares_and_figures_stay_points() -> None:
    rows = [ForestRow("a", 0.4, (0.2, 0.6), "better", 4), ForestRow("b", 10.0, (5.0, 15.0), "better", 100)]
    drawn = draw(build_forest(rows, FOREST_LABELS))
    assert "share of the scale" in drawn.all_texts()
    one, other = drawn.marks("better-points")
    assert abs(place(one)[0] - place(other)[0]) < 0.1
    assert drawn.texts("figures") == ["+0.40 [0.20, 0.60]", "+10.00 [5.00, 15.00]"]
    assert any(text.endswith("%") for text in drawn.all_texts())


def test_what_is_undefined_has_a_dash_and_no_mark() -> None:
    drawn = draw(build_forest([ForestRow("a", None, None, "inconclusive", 4)], FOREST_LABELS))
    assert drawn.texts("figures") == ["–"]
    assert not drawn.marks("inconclusive-points")


def test_a_difference_without_an_interval_is_a_point_alone() -> None:
    drawn = draw(build_forest([ForestRow("a", 0.0, None, "inconclusive", 0)], FOREST_LABELS))
    assert drawn.texts("figures") == ["0.00"]
    assert len(drawn.marks("inconclusive-points")) == 1
    assert not drawn.marks("inconclusive-intervals")


def test_zero_has_no_sign_on_the_axis() -> None:
    texts = draw(build_forest([ForestRow("a", 0.4, (-0.2, 1), "inconclusive", 4)], FOREST_LABELS)).all_texts()
    assert "0" in texts
    assert "+0.5" in texts
    assert "−0.5" in texts


def test_fits_a_phone_and_keeps_names_off_figures() -> None:
    drawn = draw(build_forest([ForestRow("長い名前" * 40, -0.4, (-0.6, -0.2), "worse", 4)], FOREST_LABELS))
    assert drawn.size[0] == 328
    assert drawn.texts("names")[0].endswith("…")


def test_nothing_compared() -> None:
    assert draw(build_forest([], FOREST_LABELS)).all_texts() == ["nothing compared"]
