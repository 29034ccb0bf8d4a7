from app.charts.forest import ForestLabels, ForestRow, build_forest
from tests.unit.charts.drawing import draw, place, span

LABELS = ForestLabels(
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
    drawn = draw(build_forest(rows, LABELS))
    (better,), (worse,), (open_one,) = (drawn.marks(f"{v}-points") for v in ("better", "worse", "inconclusive"))
    assert len({mark.attrib["d"] for mark in (better, worse, open_one)}) == 3
    assert open_one.get("fill") == "var(--surface)"
    zero = place(drawn.marks("zero")[0])[0]
    assert place(worse)[0] < zero < place(better)[0]
    assert abs(place(better)[0] + place(worse)[0] - 2 * zero) < 0.1
    assert abs(place(open_one)[0] - zero) < 0.1


def test_an_interval_is_as_long_as_it_is() -> None:
    rows = [ForestRow("a", 0.4, (0.3, 0.5), "better", 4), ForestRow("b", 0.4, (0.2, 0.6), "better", 4)]
    short, long = draw(build_forest(rows, LABELS)).marks("better-intervals")
    assert abs(2 * span(short)[0] - span(long)[0]) <= 1.5  # lines end on whole pixels


def test_scales_alike_are_in_points() -> None:
    drawn = draw(build_forest([ForestRow("a", 0.4, (0.2, 0.6), "better", 4)], LABELS))
    assert "points" in drawn.all_texts()
    assert "share of the scale" not in drawn.all_texts()
    assert drawn.texts("figures") == ["+0.40 [0.20, 0.60]"]


def test_scales_that_differ_are_shares_and_figures_stay_points() -> None:
    rows = [ForestRow("a", 0.4, (0.2, 0.6), "better", 4), ForestRow("b", 10.0, (5.0, 15.0), "better", 100)]
    drawn = draw(build_forest(rows, LABELS))
    assert "share of the scale" in drawn.all_texts()
    one, other = drawn.marks("better-points")
    assert abs(place(one)[0] - place(other)[0]) < 0.1
    assert drawn.texts("figures") == ["+0.40 [0.20, 0.60]", "+10.00 [5.00, 15.00]"]
    assert any(text.endswith("%") for text in drawn.all_texts())


def test_what_is_undefined_has_a_dash_and_no_mark() -> None:
    drawn = draw(build_forest([ForestRow("a", None, None, "inconclusive", 4)], LABELS))
    assert drawn.texts("figures") == ["–"]
    assert not drawn.marks("inconclusive-points")


def test_a_difference_without_an_interval_is_a_point_alone() -> None:
    drawn = draw(build_forest([ForestRow("a", 0.0, None, "inconclusive", 0)], LABELS))
    assert drawn.texts("figures") == ["0.00"]
    assert len(drawn.marks("inconclusive-points")) == 1
    assert not drawn.marks("inconclusive-intervals")


def test_zero_has_no_sign_on_the_axis() -> None:
    texts = draw(build_forest([ForestRow("a", 0.4, (-0.2, 1), "inconclusive", 4)], LABELS)).all_texts()
    assert "0" in texts
    assert "+0.5" in texts
    assert "−0.5" in texts


def test_fits_a_phone_and_keeps_names_off_figures() -> None:
    drawn = draw(build_forest([ForestRow("長い名前" * 40, -0.4, (-0.6, -0.2), "worse", 4)], LABELS))
    assert drawn.size[0] == 328
    assert drawn.texts("names")[0].endswith("…")


def test_nothing_compared() -> None:
    assert draw(build_forest([], LABELS)).all_texts() == ["nothing compared"]
