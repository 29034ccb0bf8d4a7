"""Leaderboards: one set of runs ranked by all sources, side by side. Takes seconds at worst: not for an event loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from saiten.core.messages import Message
from saiten_server.core.errors import InvalidRequest
from saiten_server.preferences.rankings.columns import list_columns
from saiten_server.preferences.rankings.ratings import compare_ratings
from saiten_server.preferences.rankings.report import rank_preferences, take_apart, tell_other_contexts
from saiten_server.preferences.rankings.values import (
    Leaderboard,
    Ranking,
    RankingRequest,
    Source,
    SourcesAgreement,
    Voice,
)
from saiten_server.preferences.values import ShownPair
from saiten_server.runs.frame import RunFrame
from saiten_server.stats.shown_pairs import ShownPairs
from saiten_server.stats.statistics import kendall

FEWEST_RANKED = 3

Rated = tuple[ShownPairs, int]
"""What `compare_ratings` finds."""


def lead(
    runs: Mapping[str, str],
    judged: Sequence[ShownPair],
    people: Sequence[ShownPair],
    rated: Rated | None,
    *,
    request: RankingRequest,
    name: str | None = None,
) -> Leaderboard:
    """The rankings of the systems by each source that there is. `runs` are the systems' runs, `rated` preferences that
    ratings of single responses make. Raises InvalidRequest for an aspect that no source has."""
    systems = [*runs]
    found: dict[Source, Ranking] = {}
    if judged:
        found["judge"] = rank(list_columns([*judged, *people], systems), request, "judge")
    if people:
        found["people"] = rank(list_columns(people, systems), request, "people")
    if rated is not None:
        pairs, apart = rated
        found["ratings"] = rank(pairs, request, "judge", tell_other_contexts(apart))
    if request.aspect is not None and not judged and rated is None:
        raise InvalidRequest(Message("ranking-aspect-missing", aspect=repr(request.aspect)), pointer="/query/aspect")
    return Leaderboard(
        name=name,
        preference_run=request.preference_run,
        runs=dict(runs),
        judge=found.get("judge"),
        people=found.get("people"),
        ratings=found.get("ratings"),
        agreement=tuple(agree(first, second, found[first], found[second]) for first, second in combinations(found, 2)),
    )


def rank(pairs: ShownPairs, request: RankingRequest, by: Voice, notes: Sequence[Message] = ()) -> Ranking:
    """The ranking by these looks."""
    return rank_preferences(take_apart(pairs, request.clusters), request.model_copy(update={"by": by}), notes)


def agree(first: Source, second: Source, one: Ranking, other: Ranking) -> SourcesAgreement:
    """How far two rankings agree."""
    shared = [
        (mine.strength, other.systems[name].strength)
        for name, mine in one.systems.items()
        if mine.strength is not None and name in other.systems and other.systems[name].strength is not None
    ]
    resolved = {(pair.worse, pair.better) for pair in other.resolved}
    return SourcesAgreement(
        first=first,
        second=second,
        systems=len(shared),
        kendall=kendall(*np.array(shared, dtype=np.float64).T) if len(shared) >= FEWEST_RANKED else None,
        opposed=sum((pair.better, pair.worse) in resolved for pair in one.resolved),
    )


def rate_alike(systems: Sequence[str], frames: Sequence[RunFrame], aspect: str | None) -> Rated | None:
    """The preferences that ratings make; None where no aspect was rated in all runs, or no item in two."""
    try:
        return compare_ratings(systems, frames, aspect)
    except InvalidRequest:
        return None
