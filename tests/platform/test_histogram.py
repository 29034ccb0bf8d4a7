import pytest

from saiten_server.platform.charts.canvas import measure_width, wrap
from saiten_server.platform.charts.histogram import HistogramAxis, HistogramLabels, build_histogram
from tests.support.drawing import bar_width, draw, place

LABELS = HistogramLabels(title="Relevance", description="Levels", unrated="unrated", nothing="no ratings")


def test_a_bar_is_as_long_as_its_count() -> None:
    drawn = draw(
        build_histogram(
            [("1", 5), ("2", 10), ("3", 0), ("4", 20)],
            10,
            LABELS,
        )
    )
    one, two, three, four = map(bar_width, drawn.marks("bars"))
    assert abs(two - 2 * one) < 0.05
    assert abs(four - 4 * one) < 0.05
    assert three == 0
    (unrated,) = drawn.marks("unrated")
    assert abs(bar_width(unrated) - two) < 0.05


def test_says_count_and_percentage_of_the_rated() -> None:
    drawn = draw(build_histogram([("low", 5), ("high", 15)], 20, LABELS))
    assert drawn.texts("labels") == ["low", "high", "unrated"]
    assert drawn.texts("figures") == ["5 (25%)", "15 (75%)", "20"]


def test_the_unrated_are_told_by_more_than_a_colour() -> None:
    drawn = draw(build_histogram([("1", 5), ("2", 5)], 5, LABELS))
    (unrated,) = drawn.marks("unrated")
    assert unrated.get("stroke-dasharray")
    assert unrated.get("fill", "none") == "none"
    low, high, apart = (place(mark)[1] for mark in drawn.marks("labels"))
    assert apart - high > high - low


def test_levels_stand_in_their_order() -> None:
    drawn = draw(build_histogram([(str(number), 1) for number in range(7)], 0, LABELS))
    ys = [place(mark)[1] for mark in drawn.marks("labels")]
    assert ys == sorted(ys)
    assert drawn.texts("labels") == [str(number) for number in range(7)]
    assert drawn.size == (260, 7 * 22)


def test_all_unrated() -> None:
    drawn = draw(build_histogram([("1", 0), ("2", 0)], 7, LABELS))
    assert drawn.texts("figures") == ["0", "0", "7"]
    assert [bar_width(mark) for mark in drawn.marks("bars")] == [0, 0]


def test_zero_of_everything() -> None:
    drawn = draw(build_histogram([("1", 0)], 0, LABELS))
    assert drawn.texts("figures") == ["0"]
    assert not drawn.marks("unrated")


def test_nothing_at_all() -> None:
    assert draw(build_histogram([], 0, LABELS)).all_texts() == ["no ratings"]


def test_only_unrated_without_levels() -> None:
    assert draw(build_histogram([], 3, LABELS)).texts("labels") == ["unrated"]


def test_long_labels_leave_room_for_bars() -> None:
    drawn = draw(build_histogram([("とても長い水準の名前" * 20, 1_000_000)], 0, LABELS))
    assert drawn.size[0] == 260
    assert bar_width(drawn.marks("bars")[0]) >= 40
    assert len(drawn.texts("labels")) == 2
    assert drawn.texts("labels")[1].endswith("…")


def test_labels_are_broken_into_lines() -> None:
    assert wrap("1 No particular topic", 80, 2) == ["1 No", "particular…"]
    assert wrap("2 特定の話題がない", 90, 2) == ["2 特定の話題が", "ない"]
    assert wrap("1 話題から外れている", 110, 2) == ["1 話題から外れて", "いる"]
    assert wrap("short", 90, 2) == ["short"]
    assert all(measure_width(line) <= 60 for line in wrap("a" * 500, 60, 3))
    drawn = draw(build_histogram([("3 話題に合っている話題に合っている", 4), ("2 short", 1)], 1, LABELS))
    first, second, short, apart = (place(mark)[1] for mark in drawn.marks("labels"))
    assert second - first == 14
    assert abs(place(drawn.marks("figures")[0])[1] - (first + second) / 2) <= 1
    assert first < second < short < apart


def test_charts_on_one_axis_begin_at_one_place_and_have_one_scale() -> None:
    axis, levels = HistogramAxis(200), [("a", 50), ("b", 100)]
    small = draw(build_histogram(levels, 0, LABELS, axis=axis, tones=[0.0, 1.0]))
    large = draw(build_histogram([("a long label", 200)], 0, LABELS, axis=axis, tones=[0.5]))
    assert small.size[0] == large.size[0]
    widths = [bar_width(mark) for drawn in (small, large) for mark in drawn.marks("bars")]
    assert widths == [pytest.approx(widths[2] / 4, abs=0.1), pytest.approx(widths[2] / 2, abs=0.1), widths[2]]
    colours = [mark.get("fill") for drawn in (small, large) for mark in drawn.marks("bars")]
    assert colours == ["var(--level-1)", "var(--level-5)", "var(--level-3)"]
