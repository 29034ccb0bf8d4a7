from app.charts.intervals import IntervalLabels, build_correlation
from app.domain.reports import AspectCorrelation, Ceiling, CorrelationReport
from tests.unit.charts.drawing import draw, place, span

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
