"""What a run over runs asks between its rounds: what to judge next, and whether to stop. Pure.

    standing = PairStanding(0, frozenset(), …)   # before the first round; `begin_choice(systems)`
    while not is_resolved(standing):
        for first, second, item in choose_next(shown, systems, open_items, standing=standing):
            …                                # judged in both orders, or in one at random
        standing = take_stock(shown, systems, alpha=0.05, before=standing)

The error control is that of `saiten_server.stats.active_choice`: group-sequential, at any number of rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from saiten_server.preferences.rankings.columns import list_columns
from saiten_server.preferences.values import ShownPair
from saiten_server.stats import active_choice
from saiten_server.stats.active_choice import PairStanding

SystemPair = tuple[str, str]


def begin_choice(systems: Sequence[str]) -> PairStanding:
    """What is known before anything was judged."""
    return PairStanding(0, frozenset(), tuple(combinations(range(len(systems)), 2)))


def take_stock(
    shown: Sequence[ShownPair], systems: Sequence[str], *, alpha: float = 0.05, before: PairStanding
) -> PairStanding:
    """What is known once the round after `before` has been judged; `shown` are the looks of all rounds."""
    return active_choice.take_stock(
        list_columns(shown, systems), alpha=alpha, number=before.round + 1, before=before.resolved
    )


def is_resolved(standing: PairStanding) -> bool:
    """Whether every rank is known."""
    return not standing.unresolved


def list_resolved(standing: PairStanding, systems: Sequence[str]) -> list[SystemPair]:
    """The resolved pairs by name, the better one first."""
    return sorted((systems[better], systems[worse]) for better, worse in standing.resolved)


def choose_next(
    shown: Sequence[ShownPair],
    systems: Sequence[str],
    open_items: Mapping[SystemPair, Sequence[str]],
    *,
    standing: PairStanding,
    size: int | None = None,
    looks: int = 2,
) -> list[tuple[str, str, str]]:
    """The pairs to judge next, as two systems and an item each, at most `size` (by default a round as `plan_round`
    plans it); none where all is resolved, or nothing is left.

    `open_items` are, by pair of systems in their order in `systems`, the items that were not judged yet, in an order
    that was drawn once for all pairs. `looks` is how often each is shown: 2 for both orders.
    """
    if is_resolved(standing):
        return []
    place = {name: number for number, name in enumerate(systems)}
    keys = {pair: (min(map(place.__getitem__, pair)), max(map(place.__getitem__, pair))) for pair in open_items}
    wanted = active_choice.plan_round(len(systems), len(shown) // looks) if size is None else size
    counts = active_choice.allocate(
        list_columns(shown, systems),
        standing.unresolved,
        {keys[pair]: len(items) for pair, items in open_items.items()},
        size=wanted,
        looks=looks,
    )
    return [(*pair, item) for pair, items in open_items.items() for item in items[: counts.get(keys[pair], 0)]]
