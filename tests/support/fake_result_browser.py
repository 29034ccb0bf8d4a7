"""A `ResultBrowser` over the batches of a `FakeBatchStore`, by reading them all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from app.browse_ports import ANY_ASPECT, MOST_MEASURES, Browsed, BrowsedPage, ResultQuery
from app.domain.batch import Candidate, Entry
from app.domain.scores import Scores
from tests.support.fake_batch_store import FakeBatchStore, Kept, evaluation_id, figures_of

ASCII_LOWER = {letter: letter + 32 for letter in range(ord("A"), ord("Z") + 1)}


class FakeResultBrowser:
    def __init__(self, store: FakeBatchStore) -> None:
        self._store = store

    def _find(self, project: str, batch_id: str) -> Kept | None:
        kept = self._store.batches.get(batch_id)
        return kept if kept and kept.project == project and kept.status != "receiving" else None

    async def browse(self, project: str, batch_id: str, query: ResultQuery, *, offset: int, limit: int) -> BrowsedPage:
        kept = self._find(project, batch_id)
        if kept is None:
            return BrowsedPage(0, [])
        found = [browsed(kept, position) for position in sorted(kept.results)]
        fitting = [one for one in found if fits(one, query)]
        return BrowsedPage(len(fitting), arrange(fitting, query)[offset : offset + limit])

    async def read(self, project: str, batch_id: str, positions: Sequence[int]) -> Sequence[Browsed]:
        kept = self._find(project, batch_id)
        return [browsed(kept, position) for position in positions if kept and position in kept.results]

    async def measures(self, project: str, batch_id: str) -> tuple[str, ...]:
        kept = self._find(project, batch_id)
        found = [figures_of(one) for _, one in sorted(kept.results.items())] if kept else []
        aspects = dict.fromkeys(name for scores in found for name in scores.aspects)
        composites = dict.fromkeys(name for scores in found for name in scores.composites)
        names = [*aspects, *composites, *(f"{name}.blended" for name in aspects)][:MOST_MEASURES]
        blended = {
            f"{name}.blended" for one in found for name, figures in one.aspects.items() if figures[1] is not None
        }
        return tuple(name for name in names if not name.endswith(".blended") or name in blended)

    async def count_patterns(
        self, project: str, batch_id: str, measures: Sequence[str], *, most: int
    ) -> Sequence[tuple[tuple[float | None, ...], int]] | None:
        kept = self._find(project, batch_id)
        found = [figures_of(one) for one in kept.results.values()] if kept else []
        counts = Counter(tuple(value_of(scores, name) for name in measures) for scores in found)
        return [*counts.items()] if len(counts) <= most else None


def browsed(kept: Kept, position: int) -> Browsed:
    one = kept.results[position]
    return Browsed(one.entry, evaluation_id(one), figures_of(one), kept.items[position][1])


def value_of(scores: Scores, name: str) -> float | None:
    if name in scores.aspects:
        return scores.aspects[name][0]
    if name in scores.composites:
        return scores.composites[name]
    figures = scores.aspects.get(name.removesuffix(".blended"))
    return figures[1] if figures and name.endswith(".blended") else None


def fits(one: Browsed, query: ResultQuery) -> bool:
    scores = one.scores
    unrated = {name for name, figures in scores.aspects.items() if figures[0] is None}
    return (
        all(value_of(scores, name) == value for name, value in query.values.items())
        and (query.unrated is None or bool(unrated if query.unrated == ANY_ASPECT else unrated & {query.unrated}))
        and (query.warning is None or query.warning in scores.warnings)
        and query.status in {None, scores.status}
        and query.system in {None, scores.system}
        and (not query.text or holds(one.entry, one.candidate, query.text.translate(ASCII_LOWER)))
    )


def holds(entry: Entry, candidate: Candidate, needle: str) -> bool:
    texts = [entry.item, *(utterance.text for utterance in candidate.context), candidate.response]
    return any(needle in text.translate(ASCII_LOWER) for text in texts)


def arrange(found: list[Browsed], query: ResultQuery) -> list[Browsed]:
    if query.sort is None:
        return found[::-1] if query.descending else found
    valued = []
    for one in found:
        value = value_of(one.scores, query.sort)
        if value is not None:
            valued.append((value if query.target is None else abs(value - query.target), one))
    # Python's sort is stable in both directions.
    ordered = [one for _, one in sorted(valued, key=lambda pair: pair[0], reverse=query.descending)]
    return [*ordered, *(one for one in found if value_of(one.scores, query.sort) is None)]
