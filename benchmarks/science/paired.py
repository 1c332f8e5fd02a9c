"""Paired t tests of what `narrowgauge compare` does not compare, from the standard library."""

import dataclasses
import math

CONFIDENCE = 0.95


def _continued_fraction(a, b, x):
    """Lentz's method for the incomplete beta function. [Numerical Recipes 6.4]"""
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    result = d
    for m in range(1, 1000):
        for numerator in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                          -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            d = 1 + numerator * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + numerator / c
            c = c if abs(c) > tiny else tiny
            result *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return result


def incomplete_beta(a, b, x):
    """Regularized: I_x(a, b)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    log = (math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x)
           + b * math.log1p(-x))
    return math.exp(log) * _continued_fraction(a, b, x) / a


def two_sided_p(t, degrees):
    """P(|T| >= |t|) of Student's distribution."""
    return incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t))


def two_sided_quantile(confidence, degrees):
    """The t for which P(|T| <= t) is `confidence`; here against a printed table.

    >>> [round(two_sided_quantile(0.95, degrees), 3) for degrees in (1, 2, 7, 30)]
    [12.706, 4.303, 2.365, 2.042]
    """
    low, high = 0.0, 1e4
    for _ in range(200):
        middle = (low + high) / 2
        low, high = ((middle, high) if 1 - two_sided_p(middle, degrees) < confidence
                     else (low, middle))
    return high


@dataclasses.dataclass
class Paired:
    """Differences by seed: their mean, its 95 % interval mean ± half, and p of mean = 0.

    NaN where one pair says nothing about the spread.
    """
    n: int
    mean: float
    sd: float
    half: float
    p: float


def mean_of(values):
    return sum(values) / len(values)


def deviation_of(values):
    """Of a sample; NaN for one value."""
    if len(values) < 2:
        return math.nan
    mean = mean_of(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))


def paired(differences):
    """
    >>> found = paired([1, 2, 3])
    >>> round(found.half, 3), round(found.p, 4)
    (2.484, 0.0742)
    """
    n, mean, sd = len(differences), mean_of(differences), deviation_of(differences)
    if n < 2:
        return Paired(n, mean, sd, math.nan, math.nan)
    error = sd / math.sqrt(n)
    if error == 0:
        return Paired(n, mean, sd, 0.0, 1.0 if mean == 0 else 0.0)
    half = two_sided_quantile(CONFIDENCE, n - 1) * error
    return Paired(n, mean, sd, half, two_sided_p(mean / error, n - 1))


def holm(values):
    """p corrected for all of them. [Holm 1979]

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order, corrected, largest = sorted(range(len(values)), key=values.__getitem__), {}, 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, values[index] * (len(values) - rank)))
        corrected[index] = largest
    return [corrected[index] for index in range(len(values))]
