import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from saiten_server.explorer.trend_chart import (
    MOST_LANES,
    TrendBuild,
    TrendChange,
    TrendLabels,
    TrendLane,
    TrendPoint,
    build_trend,
    shorten_names,
)
from tests.support.drawing import Drawing, draw, place, span

LABELS = TrendLabels(
    title="Relevance",
    description="d",
    nothing="no builds",
    axis="mean, 1–5",
    current="this build",
    change="change of the level",
    broken="scored in another way",
    linked="linked",
)
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def name_builds(count: int, days: float = 1.0) -> list[TrendBuild]:
    times = [FIRST + timedelta(days=days * number) for number in range(count)]
    return [TrendBuild(f"release-{time:%Y.%m.%d}+{number * 48271:07x}", time) for number, time in enumerate(times)]


def lane(name: str, *means: float | None, half: float | None = 0.2, **marks: Any) -> TrendLane:
    points = [
        None if mean is None else TrendPoint(mean, None if half is None else (mean - half, mean + half))
        for mean in means
    ]
    return TrendLane(name, points, **marks)


def show(count: int, lanes: Sequence[TrendLane], scale: tuple[float, float] = (1, 5), **options: Any) -> Drawing:
    return draw(build_trend(name_builds(count), lanes, LABELS, scale=scale, **options))


def test_points_stand_where_their_means_are_on_the_whole_scale() -> None:
    drawn = show(3, [lane("a", 1.0, 3.0, 5.0)])
    (x1, y1), (x2, y2), (x3, y3) = map(place, drawn.marks("points"))
    assert x2 - x1 == x3 - x2 > 0
    assert y1 - y2 == y2 - y3 > 30
    assert drawn.texts("ticks") == ["1", "2", "3", "4", "5"]
    assert [place(mark)[1] for mark in drawn.marks("grid")] == [y1, (y1 + y2) / 2, y2, (y2 + y3) / 2, y3]
    assert drawn.texts("lanes") == []
    (band,) = drawn.marks("band")
    assert band.get("fill-opacity")
    # A point without neighbours has its interval as a line.
    (alone,) = show(2, [lane("a", 3.0, None)]).marks("intervals")
    assert abs(abs(span(alone)[1]) - 0.4 * (y1 - y3) / 4) < 0.1


def test_each_system_has_a_lane_of_its_own() -> None:
    lanes = [lane(f"system {number}", 3.0, None, 4.0) for number in range(MOST_LANES + 1)]
    drawn = show(3, lanes)
    assert drawn.texts("lanes") == [one.name for one in lanes[:MOST_LANES]]
    paths = [mark.attrib["d"] for mark in drawn.marks("line")]
    assert len(paths) == MOST_LANES
    # A line goes over the builds of other systems.
    assert all(re.fullmatch(r"M[^ML]+L[^ML]+", path) for path in paths)
    heights = sorted({place(mark)[1] for mark in drawn.marks("points")})
    assert len(heights) == 2 * MOST_LANES


def test_the_current_build_is_marked_named_and_has_its_mean() -> None:
    drawn = show(2, [lane("a", 3.0, 3.5), lane("b", 2.0, None)], current=1)
    assert len(drawn.marks("current")) == 1
    assert drawn.texts("current-text") == ["this build 3.50"]
    assert (drawn.texts("builds"), drawn.texts("build")) == (["2026.01.01"], ["2026.01.02"])
    assert show(2, [lane("a", 3.0, 3.5), lane("b", 2.0, 3.0)], current=1).texts("current-text") == ["this build"]


def test_changes_breaks_and_links_are_drawn_and_explained() -> None:
    changes = [TrendChange(6, 5, 8, -0.4, "worse"), TrendChange(9, 9, 9, 0.3, "better")]
    points = [TrendPoint(3.0, (2.9, 3.1), linked=number < 3) for number in range(12)]
    drawn = show(12, [TrendLane("a", points, breaks=[3], changes=changes)], width=600)
    # Between the build before and the build after.
    xs = sorted(place(mark)[0] for mark in (*drawn.marks("points"), *drawn.marks("linked-points")))
    step = xs[1] - xs[0]
    (broken,), (worse,), (better,) = (drawn.marks(name) for name in ("breaks", "change-worse", "change-better"))
    for mark, build in ((broken, 3), (worse, 6), (better, 9)):
        assert abs(place(mark)[0] - (xs[build] - step / 2)) < 0.02
    (area,) = drawn.marks("span-worse")
    found = re.match(r"M([\d.]+),[\d.]+h([\d.]+)", area.attrib["d"])
    assert found is not None
    assert abs(float(found[1]) - (xs[5] - step / 2)) < 0.02
    assert abs(float(found[2]) - 3 * step) < 0.02
    assert (drawn.texts("size-worse"), drawn.texts("size-better")) == (["▼ −0.40"], ["▲ +0.30"])
    assert len(drawn.marks("linked-points")) == 3
    assert (len(drawn.marks("line")), len(drawn.marks("linked-line")), len(drawn.marks("band"))) == (1, 1, 2)
    keys = [drawn.texts(f"key-text-{name}")[0] for name in ("change", "break", "linked")]
    assert keys == ["change of the level", "scored in another way", "linked"]
    assert "change of the level" not in show(2, [lane("a", 3.0, 3.0)]).all_texts()


def test_two_hundred_builds_are_read_at_any_width() -> None:
    for width, axis in ((328, "build"), (1080, "build"), (328, "time"), (1080, "time")):
        drawn = show(200, [lane("a", *([3.0] * 200))], width=width, axis=axis, current=120)
        assert drawn.size[0] == width
        names = [mark for name in ("builds", "build") for mark in drawn.marks(name)]
        middles = sorted(place(mark)[0] for mark in names)
        assert 2 <= len(middles) <= 16
        assert min(right - left for left, right in pairwise(middles)) >= 60
        assert all(re.fullmatch(r"2026[.-]\d\d[.-]\d\d", mark.text or "") for mark in names)
        assert bool(drawn.texts("build")) == (axis == "build")


def test_names_are_shortened_while_they_differ() -> None:
    long = ["release-2026.11.09+553e0b6", "release-2026.11.10+aa01f33", "release-2026.12.01+1"]
    assert shorten_names(long) == ["2026.11.09", "2026.11.10", "2026.12.01"]
    # Only what would be the same twice keeps its end.
    assert shorten_names([*long, "release-2026.11.09+9"])[::3] == ["2026.11.09+553e0b6", "2026.11.09+9"]
    assert shorten_names([*long, "release-2026.11.09+9"])[1:3] == ["2026.11.10", "2026.12.01"]
    assert shorten_names(["v1", "v2", "v10"]) == ["v1", "v2", "v10"]
    assert shorten_names(["release-1", "release-1"]) == ["release-1", "release-1"]
    assert shorten_names(["a-", "a-b"]) == ["a-", "b"]
    assert shorten_names(["+x", "+y"]) == ["+x", "+y"]
    assert shorten_names([]) == []


def test_times_are_round_and_in_place() -> None:
    spans = {0.01: r"\d\d-\d\d \d\d:00", 1: r"2026-\d\d-\d\d", 20: r"20\d\d-\d\d-01", 900: r"\d{4}-01-01"}
    for days, form in spans.items():
        builds = name_builds(40, days)
        drawn = draw(build_trend(builds, [lane("a", *([3.0] * 40))], LABELS, scale=(1, 5), axis="time", width=700))
        texts = drawn.texts("builds")
        assert 1 <= len(texts) <= 12, (days, texts)
        assert all(re.fullmatch(form, text) for text in texts), (days, texts)
    same = [TrendBuild("a", FIRST), TrendBuild("b", FIRST)]
    alone = draw(build_trend(same, [lane("a", 3.0, 4.0)], LABELS, scale=(1, 5), axis="time"))
    assert alone.texts("builds") == ["2026-01-01 00:00"]


def test_what_there_is_nothing_of() -> None:
    assert show(1, [lane("a", None)]).all_texts() == ["no builds"]
    assert draw(build_trend([], [], LABELS, scale=(1, 5))).all_texts() == ["no builds"]
    assert len(show(1, [lane("a", 2.0, half=None)], scale=(2, 2)).marks("points")) == 1
