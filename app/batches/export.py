"""A batch's results as files: NDJSON with everything, CSV with what fits a table.

Both take pages of results and give one piece of the file a page, so no more than a page is held.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Sequence

from app.domain.batch import BatchOptions, ItemResult
from app.domain.evaluation import AspectResult, Evaluation
from app.domain.rubric import Rubric
from app.scoring.case import blended_aspects
from saiten.spreadsheet import Cell, write_rows

COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


async def stream_ndjson(pages: AsyncIterable[Sequence[ItemResult]]) -> AsyncIterator[bytes]:
    """One line a result: `ItemResult.line` as UTF-8 JSON."""
    async for page in pages:
        yield "".join(map(write_line, page)).encode()


def write_line(result: ItemResult) -> str:
    """The result's line with its line break."""
    if result.evaluation is None:
        return COMPACT.encode(result.line()) + "\n"
    # Spliced from two texts: written by pydantic itself an evaluation takes half the time.
    # `dialogue` is the evaluation's too, and stands once.
    return f"{result.entry.model_dump_json(exclude={'dialogue'})[:-1]},{result.evaluation.model_dump_json()[1:]}\n"


async def stream_csv(
    pages: AsyncIterable[Sequence[ItemResult]], rubric: Rubric, options: BatchOptions
) -> AsyncIterator[bytes]:
    """The header, then one row a result, in UTF-8 as RFC 4180 has it. Text is quoted, and defused by `defuse`."""
    table = Table(rubric, options)
    yield write_rows([table.header])
    async for page in pages:
        yield write_rows([table.row(result) for result in page])


class Table:
    """The columns that a batch's results have as a table: the same for each, whatever became of it."""

    def __init__(self, rubric: Rubric, options: BatchOptions) -> None:
        self._aspects = tuple(aspect.id for aspect in rubric.aspects)
        self._composites = tuple(composite.id for composite in rubric.composites)
        self._sampled = options.judge.samples > 1
        self._blended = frozenset(blended_aspects(rubric, options.relevance))
        self._both = options.path == "both"

    @property
    def header(self) -> list[str]:
        """The columns' names. `NAME` is an aspect's rating; with both paths it is the source path's, and
        `NAME.english` the other's."""
        return [
            *("item", "position", "candidate", "status"),
            *(f"{name}{part}" for name in self._aspects for part in self._parts(name)),
            *self._composites,
            *("relevance.score", *(["translation_sensitive"] if self._both else []), "warnings", "cached"),
            *("judge_calls", "prompt_tokens", "completion_tokens", "cost_usd"),
            *("evaluation", "signature", "failure.code", "failure.detail", "metadata", "reliability"),
            *("dialogue", "cluster"),
        ]

    def row(self, result: ItemResult) -> list[Cell]:
        """One result's cells."""
        entry, evaluation, failure = result.entry, result.evaluation, result.failure
        status = evaluation.status if evaluation else "failed"
        cells: list[Cell] = [entry.item, entry.position, entry.candidate, status]
        cells += self._scores(evaluation)
        cells += self._circumstances(evaluation)
        cells += (failure.code, failure.detail) if failure else (None, None)
        cells.append(COMPACT.encode(evaluation.metadata) if evaluation and evaluation.metadata else None)
        cells.append(evaluation.reliability.detail if evaluation and evaluation.reliability else None)
        cells += (entry.dialogue, entry.cluster)
        return cells

    def _parts(self, name: str) -> list[str]:
        """What there is of an aspect, as the ends of its columns' names."""
        wanted = {
            "": True,
            ".mean": self._sampled,
            ".blended": name in self._blended,
            ".english": self._both,
            ".unrated": True,
        }
        return [part for part, shown in wanted.items() if shown]

    def _scores(self, evaluation: Evaluation | None) -> list[Cell]:
        """The cells of aspects, composites and similarity."""
        cells: list[Cell] = []
        english = evaluation.paths.english.aspects if evaluation and evaluation.paths else {}
        for name in self._aspects:
            found = evaluation.aspects.get(name) if evaluation else None
            cells += self._verdict(name, found, english.get(name))
        composites = evaluation.composites if evaluation else {}
        cells += [composites.get(name) for name in self._composites]
        cells.append(evaluation.relevance.score if evaluation and evaluation.relevance else None)
        return cells

    def _verdict(self, name: str, result: AspectResult | None, english: AspectResult | None) -> list[Cell]:
        cells: list[Cell] = [result.rating if result else None]
        if self._sampled:
            cells.append(result.mean if result else None)
        if name in self._blended:
            cells.append(result.blended if result else None)
        if self._both:
            cells.append(english.rating if english else None)
        cells.append(result.unrated.reason if result and result.unrated else None)
        return cells

    def _circumstances(self, evaluation: Evaluation | None) -> list[Cell]:
        """The cells of warnings, usage and origin."""
        if evaluation is None:
            return [None] * (9 if self._both else 8)
        usage, paths = evaluation.usage, evaluation.paths
        sensitive: list[Cell] = [tell(paths.translation_sensitive) if paths else None] if self._both else []
        return [
            *sensitive,
            " ".join(dict.fromkeys(warned.code for warned in evaluation.warnings)) or None,
            tell(evaluation.cached),
            usage.judge_calls,
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.cost_usd,
            evaluation.id,
            evaluation.signature,
        ]


def tell(value: bool) -> str:
    """A truth value as JSON spells it."""
    return "true" if value else "false"
