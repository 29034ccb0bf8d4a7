"""What the page of a run shows, put together from its summary, its bill and its signatures."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from app.comparison.computations import PendingComputation
from app.container import Container
from app.domain.batch import Batch
from app.domain.browsing import MOST_MEASURES
from app.domain.composites import range_of
from app.domain.errors import SaitenError
from app.domain.reports import Correlations
from app.domain.rubric import Aspect, Rubric
from app.domain.signature import read_signature
from app.domain.summary import AspectSummary, Spread, Summary
from app.web.dashboard.language import mark, query

ENDED = ("completed", "cancelled")

WHAT_TO_DO: Mapping[str, str] = {
    "requested": mark("Resume it to continue."),
    "budget-exhausted": mark(
        "Results so far are kept. Resume the run to use the rest of the budget, or send the other items as a new batch."
    ),
    "cost-limit-reached": mark("Resume the run after midnight UTC, or have the key's limit raised and then resume it."),
    "judge-quota-exhausted": mark(
        "Wait for the quota to reset, or raise it with the judge's provider. Then resume the run."
    ),
    "judge-unauthorized": mark("Set a valid OPENAI_API_KEY, restart the service, then resume the run."),
    "judge-refused-request": mark(
        "The judge refuses the model or the parameters. Read its answer below, correct them, then resume."
    ),
    "provider-batch-failed": mark("Read the provider's answer below, fix the problem, then resume the run."),
    "provider-batch-unavailable": mark(
        "Start the service or worker with a judge that has a batch mode, then resume the run."
    ),
    "translator-quota-exhausted": mark("Wait for DeepL's quota to reset, or raise it. Then resume the run."),
    "translator-unauthorized": mark("Set a valid DEEPL_API_KEY, restart the service, then resume the run."),
    "translator-not-configured": mark("Set DEEPL_API_KEY for the service and its workers, then resume the run."),
    "unknown-rubric": mark("Give the workers the rubric that the service had, then resume the run."),
    "rubric-not-supported": mark("Start the workers with a judge that can rate this rubric, then resume the run."),
}
"""By pause reason."""

OTHERWISE = mark("Fix the problem described below, then resume the run.")

PIECES: Mapping[str, str] = {
    "saiten": mark("Saiten's version"),
    "rubric": mark("rubric and its version"),
    "digest": mark("fingerprint of the rubric's meaning"),
    "judge": mark("kind of judge and of its endpoint"),
    "model": mark("model, as the endpoint names it"),
    "prompt": mark("fingerprint of the prompt's fixed part"),
    "parameters": mark("parameters in force"),
    "dropped": mark("parameters that the endpoint refused"),
    "samples": mark("ratings requested per response"),
    "expected": mark("whether expected ratings were computed from token probabilities"),
    "screen": mark("whether the judge was asked if a text is addressed to it"),
    "composites": mark("whether composites were computed per sample and averaged (runs), or from mean ratings (means)"),
    "path": mark("language that was judged: the source language, English, or both"),
    "translator": mark("translator for the English path"),
    "encoder": mark("encoder for the similarity to the context"),
    "baseline": mark("similarity that counts as average, and where it comes from"),
    "weight": mark("weight of the similarity in blended values"),
    "blended": mark("aspects that are blended"),
}
"""What each piece of a signature says."""

ON_ENGLISH = mark("the same on the English path")


@dataclass(frozen=True)
class LevelCount:
    """A level of a scale with its label (None where the rubric has it no more), how many ratings have it, and the
    address of those items; None where items are not found by their rating, but by the mean of several samples."""

    value: int
    label: Mapping[str, str] | None
    count: int
    items: str | None


@dataclass(frozen=True)
class AspectCard:
    """One aspect of the run. `aspect` is None for one that the rubric does not have any more; `worst` leads to the
    items that fare worst."""

    id: str
    aspect: Aspect | None
    summary: AspectSummary
    low: int
    high: int
    levels: tuple[LevelCount, ...]
    worst: str
    unrated: str

    @property
    def name(self) -> Mapping[str, str]:
        return {"en": self.id} if self.aspect is None else cast(Mapping[str, str], self.aspect.name)


@dataclass(frozen=True)
class CompositeFigure:
    id: str
    spread: Spread
    low: float
    high: float
    worst: str


@dataclass(frozen=True)
class Piece:
    """A piece of a signature; `meaning` is a message's id, None for one that is not known."""

    name: str
    value: str
    meaning: str | None


@dataclass(frozen=True)
class SignatureView:
    """`count` is None where all results share it."""

    text: str
    count: int | None
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class RunCost:
    """What was spent; None where it is not known or there is nothing to divide by."""

    cached_share: float | None
    cost_per_thousand: float | None
    finished: int


@dataclass(frozen=True)
class FailureCount:
    """Failures of one kind; `title` is the API's English."""

    code: str
    title: str
    count: int


def make_cards(rubric: Rubric, summary: Summary, *, samples: int) -> list[AspectCard]:
    """The aspects, those of the rubric first; each rating is of so many `samples`."""
    known = {aspect.id: aspect for aspect in rubric.aspects}
    batch_id = summary.batch
    return [make_card(name, known.get(name), found, batch_id, samples) for name, found in summary.aspects.items()]


def make_card(name: str, aspect: Aspect | None, found: AspectSummary, batch_id: str, samples: int) -> AspectCard:
    """One aspect; the lowest level stands at the bottom of its histogram."""
    counts = {int(level): count for level, count in found.histogram.items()}
    labels = {level.value: cast(Mapping[str, str], level.label) for level in aspect.levels} if aspect else {}
    levels = [
        LevelCount(
            value,
            labels.get(value),
            counts[value],
            items_of(batch_id, sort="position", value=f"{name}:{value}") if samples == 1 else None,
        )
        for value in sorted(counts, reverse=True)
    ]
    low, high = aspect.scale if aspect else (min(counts, default=0), max(counts, default=1))
    return AspectCard(
        id=name,
        aspect=aspect,
        summary=found,
        low=low,
        high=high,
        levels=tuple(levels),
        worst=items_of(batch_id, sort=name),
        unrated=items_of(batch_id, unrated=name),
    )


def items_of(batch_id: str, **parameters: str) -> str:
    """The run's table of items, filtered and sorted so."""
    return query(f"/runs/{batch_id}/items", **parameters)


def find_lowest(cards: Sequence[AspectCard]) -> AspectCard | None:
    """The aspect that fares worst on its scale."""
    rated = [card for card in cards if card.summary.mean is not None and card.high > card.low]
    return min(rated, key=shortfall, default=None)


def shortfall(card: AspectCard) -> float:
    """Minus how far ratings are from the best level on average, as a share of how far they could be. Of a best level
    inside the scale each rating counts: the mean of too much and too little would be the best."""
    best = card.aspect.best if card.aspect else None
    if best is None:
        return -(card.high - (card.summary.mean or 0.0)) / (card.high - card.low)
    farthest = max(best - card.low, card.high - best)
    off = sum(level.count * abs(level.value - best) for level in card.levels)
    return -off / farthest / max(1, sum(level.count for level in card.levels))


def make_composites(rubric: Rubric, summary: Summary) -> list[CompositeFigure]:
    """The rubric's composites."""
    found = []
    for composite in rubric.composites:
        low, high = range_of(composite, rubric)
        worst = items_of(summary.batch, sort=composite.id)
        found.append(CompositeFigure(composite.id, summary.composites[composite.id], low, high, worst))
    return found


def make_signatures(batch: Batch, signatures: Sequence[str]) -> list[SignatureView]:
    """The signatures with what their pieces mean."""
    return [
        SignatureView(signature, batch.signatures.get(signature), tuple(explain(signature))) for signature in signatures
    ]


def explain(signature: str) -> list[Piece]:
    """The signature's pieces."""
    return [Piece(name, value, meaning_of(name)) for name, value in read_signature(signature).items()]


def meaning_of(name: str) -> str | None:
    """What a piece says."""
    return ON_ENGLISH if name.startswith("english.") else PIECES.get(name)


def make_bill(batch: Batch) -> RunCost:
    """What the run cost so far."""
    usage, finished = batch.usage, batch.counts.total - batch.counts.queued
    return RunCost(
        cached_share=usage.cached_tokens / usage.prompt_tokens if usage.prompt_tokens else None,
        cost_per_thousand=usage.cost_usd / finished * 1000 if finished and usage.cost_usd is not None else None,
        finished=finished,
    )


def pick_warnings(summary: Summary) -> dict[str, int]:
    """Results by warning, without what is said of every one of them and stands on top of the page: that the judge is a
    baseline."""
    return {code: n for code, n in summary.warnings.items() if code != "baseline-judge"}


def make_failures(summary: Summary) -> list[FailureCount]:
    """Why candidates have no rating at all."""
    titles = titles_of(SaitenError)
    return [FailureCount(code, titles.get(code, ""), count) for code, count in summary.failures.items()]


def titles_of(kind: type[SaitenError]) -> dict[str, str]:
    """The titles of an error and of all below it, by code."""
    found = {kind.code: kind.title}
    for below in kind.__subclasses__():
        found |= titles_of(below)
    return found


def advise(batch: Batch) -> str | None:
    """What to do about the run's pause: a message's id."""
    if batch.status != "paused":
        return None
    return WHAT_TO_DO.get(batch.pause_reason or "", OTHERWISE)


MOST_PATTERNS = 20_000
SHADES = 5
COEFFICIENTS = ("spearman", "pearson")

ALONE = mark("The rubric has only one aspect, so there is nothing to correlate it with.")
TOO_MANY = mark(
    "The ratings have too many different values to be correlated on this page. Download the results instead."
)
NOTHING = mark("There are no results yet.")


@dataclass(frozen=True)
class CorrelationCell:
    """Two aspects' correlation. Without one, `reason` says why, in English. `shade` is a class, empty near zero."""

    value: float | None
    n: int
    reason: str
    shade: str


@dataclass(frozen=True)
class Aspects:
    """The matrix, or that it is being computed, or why there is none: a message's id."""

    names: tuple[str, ...] = ()
    rows: tuple[tuple[CorrelationCell, ...], ...] = ()
    is_computing: bool = False
    why_not: str | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why pairs have no correlation, in English, each reason once."""
        return tuple(dict.fromkeys(cell.reason for row in self.rows for cell in row if cell.reason))


async def correlate(
    container: Container, project: str, batch: Batch, names: Sequence[str], coefficient: str
) -> Aspects:
    """The matrix over the results that there are now."""
    names = tuple(names)[:MOST_MEASURES]
    finished = batch.counts.total - batch.counts.queued
    if len(names) < 2:
        return Aspects(why_not=ALONE)
    if not finished:
        return Aspects(why_not=NOTHING)

    async def work() -> Correlations | None:
        patterns = await container.dashboard.browser.count_patterns(project, batch.id, names, most=MOST_PATTERNS)
        if patterns is None:
            return None
        return await asyncio.to_thread(correlate_there, names, patterns)

    # A run that goes on has other results each time: then as many are the same ones.
    found = await container.dashboard.computations.get(project, ("patterns", batch.id, finished, names), work)
    if isinstance(found, PendingComputation):
        return Aspects(is_computing=True)
    if found is None:
        return Aspects(why_not=TOO_MANY)
    return Aspects(names, tuple(tuple(make_cell(found, coefficient, a, b) for b in names) for a in names))


def correlate_there(names: Sequence[str], patterns: Sequence[tuple[tuple[float | None, ...], int]]) -> Correlations:
    """The matrices; numpy is loaded here."""
    from app.stats.correlation import correlate_patterns

    return correlate_patterns(names, patterns)


def make_cell(found: Correlations, coefficient: str, row: str, column: str) -> CorrelationCell:
    """One cell. A pair's reason stands under the aspect that comes first."""
    matrix = found.pearson if coefficient == "pearson" else found.spearman
    value = matrix[row][column]
    reason = reason_of(found.undefined, row, column) or reason_of(found.undefined, column, row)
    return CorrelationCell(value, found.n[row][column], reason, "" if row == column else shade_of(value))


def reason_of(undefined: Mapping[str, Mapping[str, str]], one: str, other: str) -> str:
    """Why the pair has no correlation; empty where it has one."""
    return undefined.get(one, {}).get(other, "")


def shade_of(value: float | None) -> str:
    """The class of a cell's ground: the farther from zero, the stronger."""
    step = 0 if value is None else min(SHADES, int(abs(value) * SHADES + 0.5))
    return f"cell-{'p' if (value or 0) > 0 else 'n'}{step}" if step else ""
