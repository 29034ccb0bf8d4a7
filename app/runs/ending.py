"""Ending a batch whose similarity baseline b̄ is the mean b of its own responses."""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from math import fsum

from saiten_server.core.evaluation import Evaluation, Path, PathResult, RelevanceResult
from saiten_server.core.signature import describe_relevance, merge_paths, sign
from saiten_server.runs.result import Result
from saiten_server.runs.store.batches import BatchStore
from saiten_server.runs.summaries import add_up
from saiten_server.scoring.case import blended_aspects
from saiten_server.scoring.record import blend_aspect
from saiten_server.scoring.rubrics.files import RubricSource

SUMMED_RESULTS_PAGE = 500
ENGLISH_PIECES = "english."


@dataclass
class Means:
    """The values of b by language path. Memory: eight bytes per candidate, so that their sum is rounded only once."""

    scores: dict[Path, array[float]] = field(default_factory=dict)

    def add(self, path: Path, relevance: RelevanceResult | None) -> None:
        if relevance is not None and relevance.score is not None:
            self.scores.setdefault(path, array("d")).append(relevance.score)

    def mean(self, path: Path) -> float | None:
        """b̄ of the path; None where no response has a similarity."""
        found = self.scores.get(path)
        return fsum(found) / len(found) if found else None


async def end_batch(store: BatchStore, rubrics: RubricSource, batch_id: str) -> None:
    """Puts b̄ and the blended values into every result, completes the batch, and stores its figures. Every value is
    computed from c, b and b̄, so doing it twice, or resuming after a crash, gives the same result. Figures that were
    not stored are computed by the first caller who asks for them."""
    project = await store.project_of(batch_id)
    options = await store.options(project, batch_id) if project is not None else None
    if project is None or options is None:
        return
    names = blended_aspects(rubrics.get(options.rubric), options.relevance)
    means = Means()
    async for page in read_pages(store, project, batch_id):
        for evaluation in (result.evaluation for result in page if result.evaluation):
            for path, found in evaluation.by_path.items():
                means.add(path, found.relevance)
    async for page in read_pages(store, project, batch_id):
        changed = [
            (one.entry.position, blend_evaluation(one.evaluation, means, names)) for one in page if one.evaluation
        ]
        await store.rewrite(batch_id, changed)
    await store.complete(batch_id)
    await store.keep_tally(project, batch_id, await add_up(store, project, batch_id))


async def read_pages(store: BatchStore, project: str, batch_id: str) -> AsyncIterator[list[Result]]:
    """All results of the batch, page by page."""
    after = -1
    while page := await store.results(project, batch_id, after=after, limit=SUMMED_RESULTS_PAGE):
        yield page
        after = page[-1].entry.position


def blend_evaluation(evaluation: Evaluation, means: Means, names: tuple[str, ...]) -> Evaluation:
    """The evaluation with the batch's b̄ in every path's relevance, blended values and signature. `names` are the
    aspects to blend."""
    paths, pieces = evaluation.paths, evaluation.signature_pieces
    if paths is None:
        ((path, result),) = evaluation.by_path.items()
        top, pieces = blend_path(result, means.mean(path), names, pieces)
    else:
        own, theirs = split_pieces(pieces)
        top, own = blend_path(paths.source, means.mean("source"), names, own)
        english, theirs = blend_path(paths.english, means.mean("english"), names, theirs)
        paths, pieces = paths.model_copy(update={"source": top, "english": english}), merge_paths(own, theirs)
    update = {"aspects": top.aspects, "relevance": top.relevance, "paths": paths}
    return evaluation.model_copy(update={**update, "signature_pieces": pieces, "signature": sign(pieces)})


def blend_path(
    result: PathResult, baseline: float | None, names: tuple[str, ...], pieces: dict[str, str]
) -> tuple[PathResult, dict[str, str]]:
    """One path's result with b̄ and the pieces of its signature; both unchanged if it has no similarity."""
    relevance = result.relevance
    if relevance is None or relevance.score is None or baseline is None:
        return result, pieces
    relevance = relevance.model_copy(update={"baseline": baseline})
    aspects = {
        name: blend_aspect(aspect, relevance) if name in names else aspect for name, aspect in result.aspects.items()
    }
    signed = pieces | describe_relevance(relevance, names)
    update = {"aspects": aspects, "relevance": relevance, "signature": sign(signed)}
    return result.model_copy(update=update), signed


def split_pieces(pieces: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The source path's and the English path's pieces of a signature on both paths: the inverse of `merge_paths`."""
    source = {key: value for key, value in pieces.items() if not key.startswith(ENGLISH_PIECES)} | {"path": "source"}
    english = {
        key.removeprefix(ENGLISH_PIECES): value for key, value in pieces.items() if key.startswith(ENGLISH_PIECES)
    }
    return source, source | english | {"path": "english"}
