import re

from app.charts.canvas import measure
from app.charts.trend import TrendLabels, TrendLine, TrendPoint, build_trend
from tests.unit.charts.drawing import SVG, draw, place, span

LABELS = TrendLabels(title="Relevance", description="d", axis="mean, 1–5", current="this build", nothing="no builds")


def line(name: str, *means: float | None, half: float | None = 0.2) -> TrendLine:
    return TrendLine(
        name,
        [
            None if mean is None else TrendPoint(mean, None if half is None else (mean - half, mean + half))
            for mean in means
        ],
    )


def test_points_stand_where_their_means_are() -> None:
    drawn = draw(build_trend(["v1", "v2", "v3"], [line("a", 3.0, 3.5, 4.0)], LABELS, scale=(1, 5)))
    (x1, y1), (x2, y2), (x3, y3) = map(place, drawn.marks("points-a"))
    assert x1 < x2 < x3
    assert y1 > y2 > y3
    assert abs((y1 - y2) - (y2 - y3)) < 0.1
    assert len(drawn.marks("intervals-a")) == 3
    assert drawn.texts("builds") == ["v1", "v2", "v3"]


def test_intervals_are_as_long_as_they_are() -> None:
    points = [TrendPoint(3.0, (2.5, 3.5)), TrendPoint(3.0, (2.75, 3.25)), TrendPoint(3.0, None)]
    drawn = draw(build_trend(["a", "b", "c"], [TrendLine("s", points)], LABELS, scale=(1, 5)))
    long, short = (abs(span(mark)[1]) for mark in drawn.marks("intervals-a"))
    assert abs(long - 2 * short) <= 2


def test_the_current_build_is_filled_named_and_has_its_mean() -> None:
    drawn = draw(build_trend(["v1", "v2"], [line("a", 3.0, 3.5)], LABELS, scale=(1, 5), current=1))
    (other,), (current,) = drawn.marks("points-a"), drawn.marks("current-a")
    assert other.get("fill") == "var(--surface)"
    assert current.get("fill") == "var(--chart-1)"
    assert drawn.texts("current-text") == ["this build 3.50"]
    assert (drawn.texts("builds"), drawn.texts("build")) == (["v1"], ["v2"])


def test_a_line_goes_over_builds_of_others() -> None:
    drawn = draw(build_trend(["v1", "v2", "v3"], [line("a", 3.0, None, 4.0)], LABELS, scale=(1, 5)))
    (path,) = drawn.marks("line-a")
    assert re.fullmatch(r"M[^ML]+L[^ML]+", path.attrib["d"])


def test_systems_differ_by_shape_and_dash() -> None:
    lines = [line(f"system {number}", 3.0, 3.5 + number / 10) for number in range(6)]
    drawn = draw(build_trend(["v1", "v2"], lines, LABELS, scale=(1, 5), current=1))
    assert len({drawn.marks(f"points-{name}")[0].attrib["d"] for name in "abcdef"}) == 6
    assert len({drawn.marks(f"line-{name}")[0].attrib["stroke-dasharray"] for name in "abcdef"}) == 6
    assert [drawn.texts(f"key-text-{name}")[0] for name in "abcdef"] == [one.name for one in lines]
    assert len({place(drawn.marks(f"current-{name}")[0])[0] for name in "abcdef"}) == 6
    assert drawn.texts("current-text") == ["this build"]


def test_draws_six_systems_and_fifty_builds() -> None:
    builds = [f"build {number}" for number in range(60)]
    lines = [line(f"s{number}", *([3.0] * 60)) for number in range(8)]
    drawn = draw(build_trend(builds, lines, LABELS, scale=(1, 5), current=59))
    assert len(drawn.marks("points-f")) == 49
    assert not drawn.marks("points-g")
    assert drawn.texts("build") == ["build 59"]
    assert "build 9" not in drawn.texts("builds")
    assert 5 < len(drawn.texts("builds")) < 50
    older = draw(build_trend(builds, lines, LABELS, scale=(1, 5), current=3))
    assert not older.marks("current-a")
    assert not older.texts("current-text")


def test_fifty_builds_of_one_system_fit_on_a_phone() -> None:
    builds = [f"2026.{number}.0-candidate" for number in range(50)]
    drawn = draw(build_trend(builds, [line("a", *([3.0] * 50))], LABELS, scale=(1, 5), current=25))
    assert drawn.size[0] == 328
    xs = [place(mark)[0] for name in ("builds", "build") for mark in drawn.marks(name)]
    gaps = [right - left for left, right in zip(sorted(xs), sorted(xs)[1:], strict=False)]
    assert min(gaps) >= 15
    assert drawn.texts("build") == ["2026.25.0-candidate"] or "…" in drawn.texts("build")[0]


def test_no_name_of_a_build_is_cut_off_at_the_left() -> None:
    for count in (1, 2, 10, 50):
        builds = [f"release-candidate-{number}" for number in range(count)]
        drawn = draw(build_trend(builds, [line("a", *([3.0] * count))], LABELS, scale=(1, 5)))
        plot = drawn.root.find(f".//{SVG}g[@transform]")
        assert plot is not None
        first = min((place(mark)[0], mark) for mark in drawn.marks("builds"))[1]
        slanted = 0.5 * measure(first.text or "", 11) if "rotate" in first.attrib["transform"] else 0
        assert place(plot)[0] + place(first)[0] - slanted >= 0


def test_the_axis_shows_no_value_beyond_the_scale() -> None:
    drawn = draw(build_trend(["v1"], [line("a", 5.0, half=None)], LABELS, scale=(1, 5)))
    numbers = [float(text) for text in drawn.all_texts() if re.fullmatch(r"[\d.]+", text)]
    assert numbers
    assert max(numbers) == 5
    assert len(drawn.marks("points-a")) == 1


def test_chance_is_not_blown_up() -> None:
    near = draw(build_trend(["a", "b"], [line("s", 3.0, 3.01, half=None)], LABELS, scale=(1, 5)))
    (_, one), (_, other) = map(place, near.marks("points-a"))
    assert abs(one - other) < 3


def test_without_a_single_point() -> None:
    assert draw(build_trend(["v1"], [line("a", None)], LABELS, scale=(1, 5))).all_texts() == ["no builds"]
    assert draw(build_trend([], [], LABELS, scale=(1, 5))).all_texts() == ["no builds"]


def test_a_scale_of_no_length() -> None:
    assert len(draw(build_trend(["v"], [line("a", 2.0, half=None)], LABELS, scale=(2, 2))).marks("points-a")) == 1
