"""Confidence intervals of a mean, without a statistics package."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

NORMAL_975 = NormalDist().inv_cdf(0.975)

# fmt: off
T_975 = (
    12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004,
    2.262157, 2.228139, 2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905,
    2.109816, 2.100922, 2.093024, 2.085963, 2.079614, 2.073873, 2.068658, 2.063899,
    2.059539, 2.055529, 2.051831, 2.048407, 2.045230,
)
# fmt: on
"""The 0.975 quantile of Student's t for 1, 2, … 29 degrees of freedom (Abramowitz & Stegun 1964, table 26.10, with more
digits)."""


def quantile_t(freedom: int) -> float:
    """The 0.975 quantile of Student's t: what 95 % of the distribution lies within. `freedom` is at least 1.

    Beyond the table by the expansion in powers of 1/`freedom` around the normal quantile (Abramowitz & Stegun,
    26.7.5), whose error is below 1e-7 there.
    """
    if freedom <= len(T_975):
        return T_975[freedom - 1]
    x = NORMAL_975
    terms = (
        x,
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return sum(term / float(freedom) ** power for power, term in enumerate(terms))


def interval_of_mean(n: int, mean: float | None, sd: float | None) -> tuple[float, float] | None:
    """The 95 % interval mean ± t · sd / √n, with the sample standard deviation and n − 1 degrees of freedom.

    None for fewer than two values and where all are equal: such values show nothing of how far the mean may be off,
    and an interval of no width would claim that they do. Not cut to the scale.
    """
    if n < 2 or mean is None or not sd:
        return None
    margin = quantile_t(n - 1) * sd / sqrt(n)
    return mean - margin, mean + margin
