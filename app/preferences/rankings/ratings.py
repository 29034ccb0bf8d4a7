"""Preferences that ratings of single responses make."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from saiten.core.messages import Message
from saiten_server.core.errors import InvalidRequest
from saiten_server.core.evaluation import OVERALL
from saiten_server.runs.frame import RunFrame
from saiten_server.stats.observations import NO_RATER, number_keys
from saiten_server.stats.shown_pairs import FIRST, SECOND, TIE, ShownPairs


def compare_ratings(systems: Sequence[str], frames: Sequence[RunFrame], aspect: str | None) -> tuple[ShownPairs, int]:
    """A preference for each two runs and each item that both have a rating of: the higher one wins, equal ones tie; and
    how many pairs are left out because their contexts differ. Raises InvalidRequest where no two runs have such an
    item. Which is called the first says nothing of an order."""
    name = choose_aspect(frames, aspect)
    values = [frame.read(("aspect", name)) for frame in frames]
    keys = [frame.items * 64 + frame.candidates + 1 for frame in frames]
    parts, apart = [], 0
    for one, other in combinations(range(len(frames)), 2):
        rows = [np.flatnonzero(~np.isnan(values[number])) for number in (one, other)]
        first, second = keys[one][rows[0]], keys[other][rows[1]]
        common, mine, theirs = np.intersect1d(first, second, return_indices=True)
        here, there = frames[one].contexts[rows[0][mine]], frames[other].contexts[rows[1][theirs]]
        alike = (here == there) | (here == 0) | (there == 0)  # 0 where a context is not known
        common, mine, theirs = common[alike], mine[alike], theirs[alike]
        apart += int(np.sum(~alike))
        before, after = values[one][rows[0][mine]], values[other][rows[1][theirs]]
        choice = np.where(before > after, FIRST, np.where(before < after, SECOND, TIE))
        cluster = frames[one].clusters[rows[0][mine]]
        item = frames[one].items[rows[0][mine]]
        places = np.full(len(common), one), np.full(len(common), other)
        parts.append((*places, choice, common, np.where(cluster == 0, item, cluster)))
    first, second, choice, item, cluster = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not len(first):
        raise InvalidRequest(Message("ranking-nothing-in-common"), pointer="/runs")
    pairs = ShownPairs(
        systems=tuple(systems),
        first=first,
        second=second,
        choice=choice,
        item=np.unique(item, return_inverse=True)[1],
        cluster=number_keys(np.unique(cluster, return_inverse=True)[1]),
        rater=np.full(len(first), NO_RATER),
    )
    return pairs, apart


def choose_aspect(frames: Sequence[RunFrame], aspect: str | None) -> str:
    """The aspect that all runs have ratings of; raises InvalidRequest where there is none."""
    held = [
        [name for (kind, name), column in frame.values.items() if kind == "aspect" and not np.isnan(column).all()]
        for frame in frames
    ]
    shared = [name for name in held[0] if all(name in own for own in held[1:])]
    if aspect is None and shared:
        return OVERALL if OVERALL in shared else shared[0]
    if aspect is None or aspect not in shared:
        raise InvalidRequest(Message("ranking-aspect-missing", aspect=repr(aspect or OVERALL)), pointer="/aspect")
    return aspect
