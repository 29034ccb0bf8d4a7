"""What is left of y without x: against NumPy's eigenvectors and SciPy's regression, and at the edges."""

from math import nan, sqrt

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import linregress

from saiten_server.core.reports import Decorrelation
from saiten_server.stats.hierarchy import Standing, count_changes, decorrelate
from saiten_server.stats.statistics import compare_systems

METHODS: tuple[Decorrelation, ...] = ("principal-axis", "residual")
POINTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=40)


def columns(points):
    x, y = np.array(points, dtype=np.float64).T
    return x, y


def centre(values):
    return values - values.mean()


def project_plainly(x, y):
    """The projection as the paper's reading has it; ties and order by NumPy's eigenvectors."""
    _, axes = np.linalg.eigh(np.cov(x, y))
    axis = axes[:, np.argmax(np.abs(axes[1]))]
    axis = axis if axis[1] > 0 else -axis
    return axis[0] * (x - x.mean()) + axis[1] * (y - y.mean())


@given(POINTS, st.sampled_from([1.0, 1 / 3, 1e-4, 1e150, 1e-150]), st.sampled_from([0.0, 3.0]))
@settings(deadline=None)
def test_the_principal_axis_is_numpys(points, unit, offset):
    x, y = columns(points)
    assume(abs(x.var() - y.var()) > 1e-3 and x.var() > 0 and y.var() > 0)
    found = decorrelate((x + offset) * unit, (y + offset) * unit, "principal-axis").values / unit
    assert centre(found) == pytest.approx(project_plainly(x, y), abs=1e-9)


@given(POINTS, st.sampled_from([1.0, 1 / 3, 1e150]), st.sampled_from([1.0, 1e-3, 1e150]))
@settings(deadline=None)
def test_the_residual_is_scipys(points, x_unit, y_unit):
    x, y = columns(points)
    assume(np.ptp(x) > 0 and np.ptp(y) > 0)
    line = linregress(x, y)
    expected = y - line.intercept - line.slope * x
    found = centre(decorrelate(x * x_unit, y * y_unit, "residual").values / y_unit)
    assert found == pytest.approx(expected, abs=1e-9)
    assert np.dot(found, x - x.mean()) == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("method", METHODS)
@given(points=POINTS, unit=st.sampled_from([1.0, 1 / 3, 0.1]))
@settings(deadline=None)
def test_equal_points_tie_exactly(method, points, unit):
    points = points * 3
    x, y = columns(points)
    found = decorrelate(x * unit, y * unit, method).values
    if found is not None:
        assert len({(point, value) for point, value in zip(points, found.tolist(), strict=True)}) == len(set(points))


def test_points_that_differ_tie_where_only_rounding_parts_them():
    """Both variances are 2/3 and the covariance 1/3: y - x over √2 is what is left. (0, 0), (1, 1) and (2, 2) are 0."""
    x = np.array([0, 1, 2, 0, 1, 1, 2]) / 3
    y = np.array([0, 1, 2, 1, 0, 2, 1]) / 3
    found = decorrelate(x, y, "principal-axis").values
    assert found == pytest.approx(np.array([0, 0, 0, 1, -1, 1, -1]) / (3 * sqrt(2)), abs=1e-12)
    assert len(set(found.tolist())) == 3


@pytest.mark.parametrize(("turn", "sign"), [(1, -1), (-1, 1)])
def test_of_equal_loadings_the_axis_that_follows_x_less_is_taken(turn, sign):
    """Variances equal, |r| = 0.8: y - sign(r) x correlates with x by √(0.1), y + sign(r) x by √(0.9)."""
    x = np.array([-2, -1, 0, 1, 2], dtype=np.float64)
    y = turn * np.array([-1, -2, 0, 2, 1], dtype=np.float64)
    found = decorrelate(x, y, "principal-axis").values
    assert found == pytest.approx((y + sign * x) / sqrt(2), abs=1e-12)
    assert abs(np.corrcoef(x, found)[0, 1]) == pytest.approx(sqrt(0.1))


@pytest.mark.parametrize("stretch", [0.3, 3.0])
@pytest.mark.parametrize("turn", [1, -1])
def test_more_of_y_is_more(stretch, turn):
    random = np.random.default_rng(3)
    x = random.normal(size=200)
    y = stretch * (turn * x + random.normal(size=200) / 2)
    for method in METHODS:
        found = decorrelate(x, y, method).values
        raised = decorrelate(np.append(x, x[0]), np.append(y, y[0] + 0.5), method).values
        assert found is not None
        assert raised is not None
        assert raised[-1] > raised[0]
        assert np.corrcoef(found, y)[0, 1] > 0


@pytest.mark.parametrize("method", METHODS)
def test_of_a_line_nothing_is_left(method):
    """y = x / 2 + 1: all points lie on the axis that is taken out, and rounding must not stand in for a value."""
    x = np.arange(30) / 7
    found = decorrelate(x, x / 2 + 1, method).values
    assert found is not None
    assert len(set(found.tolist())) == 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("x", "y", "why"),
    [
        ([], [], "fewer than 3 items"),
        ([1, 2], [2, 1], "fewer than 3 items"),
        ([2, 2, 2, 2], [1, 2, 3, 4], "same value for the lower"),
        ([0.1, 0.1, 0.1 + 1e-17], [1, 2, 3], "same value for the lower"),
        ([1, 2, 3, 4], [0, 0, 0, 0], "same value for the higher"),
        ([1, 1, 1], [2, 2, 2], "same value for the lower"),
    ],
)
def test_what_cannot_be_decorrelated_says_why(method, x, y, why):
    found = decorrelate(np.array(x, dtype=np.float64), np.array(y, dtype=np.float64), method)
    assert found.values is None
    assert why in str(found.reason)


@pytest.mark.parametrize("unit", [1.0, 1 / 3, 1e200])
def test_points_without_direction_have_no_axis(unit):
    """The corners of a square spread equally in every direction. Residuals they have: y itself, as r = 0."""
    x, y = np.array([0, 0, 1, 1]) * unit, np.array([0, 1, 0, 1]) * unit
    found = decorrelate(x, y, "principal-axis")
    assert found.values is None
    assert "no principal axis" in str(found.reason)
    assert decorrelate(x, y, "residual").values / unit == pytest.approx(y / unit)


@given(
    st.lists(st.tuples(*[st.floats(-1e300, 1e300, allow_subnormal=True)] * 2), max_size=12), st.sampled_from(METHODS)
)
@settings(deadline=None, max_examples=300)
def test_whatever_is_finite_gives_finite_values_or_a_reason(points, method):
    x, y = columns(points) if points else (np.zeros(0), np.zeros(0))
    found = decorrelate(x, y, method)
    if found.values is None:
        assert found.reason
    else:
        assert np.isfinite(found.values).all()
        assert found.values.shape == y.shape


def make_standing(values, system, alpha=0.01):
    values = np.array(values, dtype=np.float64)
    return Standing("any", values, compare_systems(values, system, int(system.max()) + 1).better(alpha))


def test_pairs_that_only_followed_are_lost_and_what_lay_under_them_comes_up():
    """y = 2x + 1 for c and d, 2x for a and b; x is 1 and 2 for a and c, 2 and 3 for b and d, 20 times each.

    D(x) is b > a, b > c, d > a, d > c. y is 2, 4 | 4, 6 | 3, 5 | 5, 7: D(y) has these four, c > a and d > b besides.
    The bonus does not hang on x, so the line's slope is 2, and what is left of y is -1/2 for a and b, 1/2 for c and d:
    c > a, d > a, d > b stay, b > a, b > c, d > c go, c > b is new. The principal axis of [[.5, 1], [1, 2.25]] is
    (1, 2.2): along it lie 5.4x and 2.2 for the bonus, in the order of y.
    """
    x = np.tile([1.0, 2.0, 2.0, 3.0, 1.0, 2.0, 2.0, 3.0], 20)
    y = 2 * x + np.tile([0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0], 20)
    system = np.tile([0, 0, 1, 1, 2, 2, 3, 3], 20)
    lower, higher = make_standing(x, system), make_standing(y, system)
    assert np.argwhere(lower.better).tolist() == [[1, 0], [1, 2], [3, 0], [3, 2]]
    assert np.argwhere(higher.better).tolist() == [[1, 0], [1, 2], [2, 0], [3, 0], [3, 1], [3, 2]]
    found = count_changes(lower, higher, system, 0.01, "residual")
    assert (found.common_change, found.higher_only_change, found.new) == (-3, 0, 1)
    assert (found.n, found.left_out, found.undefined) == (160, 0, {})
    along = count_changes(lower, higher, system, 0.01, "principal-axis")
    assert (along.common_change, along.higher_only_change, along.new) == (0, 0, 0)


def test_items_that_lack_either_value_are_left_out_and_counted():
    system = np.repeat([0, 1], 6)
    x = [1, 2, 3, nan, 2, 1, 2, 3, 3, 2, nan, nan]
    y = [1, nan, 3, 1, 2, 1, 2, 3, 2, 2, nan, 1]
    found = count_changes(make_standing(x, system), make_standing(y, system), system, 0.01, "principal-axis")
    assert (found.n, found.left_out) == (8, 4)


@pytest.mark.parametrize("method", METHODS)
def test_no_axis_is_null_with_its_reason(method):
    system = np.repeat([0, 1], 20)
    lower, higher = make_standing([1.0] * 40, system), make_standing(np.repeat([1.0, 2.0], 20), system)
    found = count_changes(lower, higher, system, 0.01, method)
    assert (found.common_change, found.higher_only_change, found.new) == (None, None, None)
    assert set(found.undefined) == {"common_change", "higher_only_change", "new"}
    assert all("same value for the lower" in str(reason) for reason in found.undefined.values())
