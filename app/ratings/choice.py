"""What a round draws: responses in which the judge is unsteady, of each level of its ratings, or the worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan, sqrt
from typing import TYPE_CHECKING

from saiten_server.core.evaluation import AspectResult, Evaluation
from saiten_server.core.rubric import Aspect
from saiten_server.ratings.values import RoundDraw, RoundOptions, Signal
from saiten_server.runs.result import Result

if TYPE_CHECKING:
    from saiten_server.runs.frame import RunFrame
    from saiten_server.stats.observations import Floats, Integers

BANDS = 5
"""Equal parts of the scale, into which the mean over aspects falls."""

ResponseKey = tuple[int, int, int]
"""What a response is known by in several batches: the keys of the item, the candidate and the context."""


class Spreads:
    """By signal how unsteady the judge was about each of `count` results in each aspect, as standard deviations in
    shares of the aspect's scale."""

    def __init__(self, count: int, aspects: Sequence[Aspect]) -> None:
        self._count = count
        self._aspects = aspects
        self._found: dict[Signal, dict[tuple[int, int], float]] = {}

    def add(self, places: Mapping[int, int], results: Sequence[Result]) -> None:
        """Notes what these results show; `places` has the place of each that counts, by its position in the batch."""
        for result in results:
            if result.evaluation is not None and (place := places.get(result.entry.position)) is not None:
                self._add(place, result.evaluation)

    def _add(self, place: int, evaluation: Evaluation) -> None:
        paths = evaluation.paths
        for column, aspect in enumerate(self._aspects):
            one = evaluation.aspects.get(aspect.id)
            if one is None:
                continue
            if one.sd is not None and len(one.samples) > 1:
                self._note("samples", place, column, one.sd)
            if one.expected is not None:
                self._note("expected", place, column, spread_around(one))
            if paths is not None and (apart := paths.difference.get(aspect.id)) is not None:
                self._note("paths", place, column, abs(apart) / sqrt(2))

    def compare(self, rated: RunFrame, others: Sequence[RunFrame]) -> None:
        """Notes how several judges differ: these results, and others of the same responses."""
        same = [{key: row for row, key in enumerate(list_places(other))} for other in others]
        places = list_places(rated)
        for column, aspect in enumerate(self._aspects):
            own, *theirs = (frame.read(("aspect", aspect.id)).tolist() for frame in (rated, *others))
            for place, key in enumerate(places):
                figures = [
                    own[place],
                    *(values[rows[key]] for values, rows in zip(theirs, same, strict=True) if key in rows),
                ]
                means = [mean for mean in figures if not isnan(mean)]
                if len(means) > 1:
                    middle = sum(means) / len(means)
                    variance = sum((mean - middle) ** 2 for mean in means) / (len(means) - 1)
                    self._note("judges", place, column, sqrt(variance))

    def _note(self, signal: Signal, place: int, column: int, spread: float) -> None:
        low, high = self._aspects[column].scale
        self._found.setdefault(signal, {})[place, column] = spread / (high - low)

    def columns(self) -> dict[Signal, Floats]:
        """By signal the spreads, shape (count, aspects), NaN for none."""
        import numpy as np

        found = {}
        for signal, values in self._found.items():
            table = np.full((self._count, len(self._aspects)), np.nan)
            rows, columns = np.array(list(values), dtype=np.int64).T
            table[rows, columns] = list(values.values())
            found[signal] = table
        return found


def spread_around(one: AspectResult) -> float:
    """The least spread of ratings at whole levels that have the expected rating as their mean, and no less than its
    distance from the rating that was given."""
    expected = one.expected or 0.0
    part = expected % 1
    apart = 0.0 if one.rating is None else abs(expected - one.rating)
    return max(sqrt(part * (1 - part)), apart)


def list_places(frame: RunFrame) -> list[ResponseKey]:
    """What each response is known by."""
    return [*zip(frame.items.tolist(), frame.candidates.tolist(), frame.contexts.tolist(), strict=True)]


def draw_informative(rated: RunFrame, spreads: Spreads, options: RoundOptions) -> RoundDraw | None:
    """Responses in which the judge is unsteady with a higher probability; None where nothing tells them apart."""
    from saiten_server.stats.choosing import combine_spreads, find_probabilities

    residuals, signals = combine_spreads(spreads.columns())
    if residuals is None:
        return None
    probabilities = find_probabilities(residuals, min(options.items, len(rated)))
    return carry_out(rated, probabilities, options.seed)._replace(signals=signals)


def draw_stratified(rated: RunFrame, aspects: Sequence[Aspect], options: RoundOptions) -> RoundDraw:
    """Responses of each level of the judge's ratings: of one aspect its levels, of several the fifths of the scale in
    which their mean lies. Those without a rating are a stratum by themselves."""
    import numpy as np

    from saiten_server.stats.choosing import stratify

    means = zip(*(rated.read(("aspect", aspect.id)).tolist() for aspect in aspects), strict=True)
    strata = np.array([find_level(each, aspects) for each in means])
    size = min(options.items, len(rated))
    probabilities = stratify(np.unique(strata, return_inverse=True)[1], size)
    # Fewer than there are strata are drawn from all together.
    apart = len(np.unique(strata)) <= size
    return carry_out(rated, probabilities, options.seed, strata if apart else None)


def pick_worst(rated: RunFrame, aspects: Sequence[Aspect], best: Mapping[str, float], size: int) -> list[int]:
    """The positions of the responses whose ratings are farthest from the best, in shares of the scales and on average
    over these aspects, the worst first, of equal ones that which came first. Those without a rating are left out.
    `best` has the best value of each aspect where it is not the highest."""
    far: list[tuple[float, int]] = []
    columns = [rated.read(("aspect", aspect.id)).tolist() for aspect in aspects]
    for position, means in zip(rated.positions.tolist(), zip(*columns, strict=True), strict=True):
        apart = [
            abs(best.get(aspect.id, aspect.scale[1]) - mean) / (aspect.scale[1] - aspect.scale[0])
            for mean, aspect in zip(means, aspects, strict=True)
            if not isnan(mean)
        ]
        if apart:
            far.append((-sum(apart) / len(apart), position))
    return [position for _, position in sorted(far)[:size]]


def find_level(means: Sequence[float], aspects: Sequence[Aspect]) -> int:
    """The level, or fifth of the scale, of a response with these means by aspect, NaN for none; −1 without a rating."""
    shares = []
    for mean, aspect in zip(means, aspects, strict=True):
        low, high = aspect.scale
        if not isnan(mean) and len(aspects) == 1:
            return round(mean) - low
        if not isnan(mean):
            shares.append((mean - low) / (high - low))
    return min(BANDS - 1, int(BANDS * sum(shares) / len(shares))) if shares else -1


def carry_out(rated: RunFrame, probabilities: Floats, seed: int, strata: Integers | None = None) -> RoundDraw:
    """The draw with these probabilities, in each stratum of as many as they sum up to."""
    import numpy as np

    from saiten_server.stats.choosing import draw_items

    generator = np.random.default_rng(seed)
    numbers: dict[int, int] = {}
    # A key is positive, and what stands alone has none.
    keys = rated.clusters.tolist()
    clusters = np.array([numbers.setdefault(key or -1 - place, len(numbers)) for place, key in enumerate(keys)])
    parts = [np.arange(len(rated))] if strata is None else [np.flatnonzero(strata == one) for one in np.unique(strata)]
    drawn = np.concatenate([part[draw_items(probabilities[part], clusters[part], generator)] for part in parts])
    drawn = generator.permutation(drawn)
    return RoundDraw(rated.positions[drawn].tolist(), probabilities[drawn].tolist())
