"""Statistics of repeats: outliers, spread and intervals. The same samples always give the same
numbers.
"""

import math
import random
from collections.abc import Sequence
from statistics import fmean, median

from stacks.frozen import frozen

OUTLIER_Z = 3.5
"""Modified z score from which a value is an outlier (Iglewicz and Hoaglin, How to Detect and Handle
Outliers)."""
NORMAL = 0.6745
"""Median absolute deviation over standard deviation, for normal values."""
EQUAL_SHARE = 0.05
"""Relative distance from the median from which a value is an outlier when more than half of the
values are equal."""
RESAMPLES, CONFIDENCE = 2000, 0.95
LEAST_FOR_INTERVAL = 5
"""Values from which an interval is meaningful."""


@frozen
class Repeats:
    """Repeats of one measurement in a few numbers."""

    median: float
    cv: float
    """Standard deviation of the kept values over their mean; 0 for a single value."""
    dropped: tuple[float, ...]
    """Outliers, in the order of the samples."""
    unstable: bool
    """Whether more than a third are outliers; then none is dropped, and the median cannot be
    trusted."""


def mad(values: Sequence[float]) -> float:
    """Median absolute deviation from the median, in the unit of the values."""
    middle = median(values)
    return median([abs(value - middle) for value in values])


def outliers(values: Sequence[float]) -> tuple[int, ...]:
    """Positions of the outliers by the modified z score; where the MAD is 0, by 5 % of the
    median.
    """
    if len(values) < 3:
        return ()  # of two values either may be wrong
    middle, spread = median(values), mad(values)
    if spread == 0:
        limit = EQUAL_SHARE * abs(middle)
    else:
        limit = OUTLIER_Z * spread / NORMAL
    return tuple(number for number, value in enumerate(values) if abs(value - middle) > limit)


def repeats(values: Sequence[float]) -> Repeats:
    """Drops at most a third of the values as outliers; with more outliers the repeats are unstable.

    Raises:
        ValueError: for no values.
    """
    if not values:
        raise ValueError("no values: a measurement without a result has no median")
    outside = outliers(values)
    unstable = len(outside) > len(values) // 3
    dropped = () if unstable else outside
    kept = tuple(value for number, value in enumerate(values) if number not in dropped)
    return Repeats(
        median=median(kept),
        cv=cv(kept),
        dropped=tuple(values[number] for number in dropped),
        unstable=unstable,
    )


def cv(values: Sequence[float]) -> float:
    """Coefficient of variation: sample standard deviation over mean, 0 for fewer than two values or
    a mean of 0.
    """
    if len(values) < 2:
        return 0.0
    mean = fmean(values)
    if not mean:
        return 0.0
    # statistics.stdev computes with fractions, which takes half the time of a verdict on 256 nodes
    squares = math.fsum((value - mean) ** 2 for value in values)
    return math.sqrt(squares / (len(values) - 1)) / abs(mean)


def interval_of_ratio(above: Sequence[float], below: Sequence[float]) -> tuple[float, float] | None:
    """Bootstrap interval of the ratio of two medians (percentile method, Efron); None with too few
    values or a zero.

    The seed is fixed, so that the same samples always give the same interval.
    """
    if min(len(above), len(below)) < LEAST_FOR_INTERVAL or min(below) <= 0:
        return None
    draw = random.Random(1)  # noqa: S311 (resampling, no secret)

    def resampled(values: Sequence[float]) -> float:
        return median(draw.choices(values, k=len(values)))

    ratios = sorted(resampled(above) / resampled(below) for _ in range(RESAMPLES))
    out = round(RESAMPLES * (1 - CONFIDENCE) / 2)
    return ratios[out], ratios[-1 - out]


def at_most(successes: int, trials: int, rate: float) -> float:
    """Probability of at most `successes` (binomial distribution)."""
    if rate <= 0:
        return 1.0
    if rate >= 1:
        return 1.0 if successes >= trials else 0.0
    chances = []
    for count in range(successes + 1):
        ways = math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
        odds = count * math.log(rate) + (trials - count) * math.log1p(-rate)
        chances.append(math.exp(ways + odds))
    return min(1.0, math.fsum(chances))
