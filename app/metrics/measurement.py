"""Measures responses: each item's reference metrics, or the reason why one cannot be had."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.domain.reference_metrics import PERPLEXITIES, ROUGE, Figure, ItemFigures, Language, MetricItem
from app.metrics.figures import compute_perplexity, draw_other_questions
from app.providers.ports import (
    Encoder,
    EncoderUnavailable,
    LanguageModel,
    MetricUnavailable,
    Overlap,
    Passage,
    Similarity,
    Words,
)

ITEMS_TOGETHER = 64
"""Items that the encoder is given at a time: enough to fill its batches, and few enough to hold."""

NO_REFERENCE = "the item has no reference"
NO_QUESTION = "the item has neither a context nor a question"
NO_OTHER_QUESTION = "no other item has another question"
NOT_FINITE = "the encoder gave no finite similarity"
TOO_UNLIKELY = "the response is too unlikely for a perplexity: the model does not know its language"


@dataclass(frozen=True)
class MetricTools:
    """What measures texts of `language`. A string takes the place of an unavailable tool and says why."""

    language: Language
    words: Words
    overlap: Overlap | str
    encoder: Encoder | str
    model: LanguageModel | str

    async def identify(self, figures: Sequence[ItemFigures]) -> dict[str, str]:
        """What measured, by family of figures; families that no item has are left out."""
        found = {"len": self.words.identity}
        if not isinstance(self.overlap, str) and any(one.rouge1 is not None for one in figures):
            found["rouge"] = self.overlap.identity
        if not isinstance(self.encoder, str) and any(one.bertscore is not None for one in figures):
            found["bertscore"] = await self.encoder.identify(self.language)
        read = any(one.value(figure) is not None for one in figures for figure in PERPLEXITIES)
        if not isinstance(self.model, str) and read:
            found["perplexity"] = await self.model.identify()
        return found


@dataclass
class MeasuredItem:
    """One item while it is measured."""

    item: MetricItem
    words: int
    values: dict[Figure, float] = field(default_factory=dict)
    reasons: dict[Figure, str] = field(default_factory=dict)
    truncated: list[Figure] = field(default_factory=list)

    def lack(self, figures: Iterable[Figure], reason: str) -> None:
        """Says why these cannot be had."""
        self.reasons.update(dict.fromkeys(figures, reason))

    def put(self, figure: Figure, value: float, *, truncated: bool) -> None:
        """Enters a figure."""
        self.values[figure] = value
        if truncated:
            self.truncated.append(figure)

    def close(self, position: int) -> ItemFigures:
        """The figures of the item that is the `position`-th."""
        return ItemFigures(
            position=position,
            system=self.item.system,
            item=self.item.item,
            len=self.words,
            truncated=tuple(self.truncated),
            unavailable=self.reasons,
            **self.values,
        )


async def measure(
    items: Sequence[MetricItem], tools: MetricTools, *, seed: int, done: Callable[[], None] = lambda: None
) -> list[ItemFigures]:
    """Every item's figures, in order. `seed` draws the random other questions of RQA.

    No figure but RQA's depends on what is measured beside the item. `done` is called with each finished item.
    """
    others = draw_other_questions((item.asked for item in items if item.asked is not None), seed)
    sheets = [MeasuredItem(item, tools.words.count(item.response)) for item in items]
    for sheet in sheets:
        add_overlap(sheet, tools.overlap)
    for start in range(0, len(sheets), ITEMS_TOGETHER):
        together = sheets[start : start + ITEMS_TOGETHER]
        await asyncio.gather(*(add_similarity(sheet, tools.encoder, tools.language) for sheet in together))
    for sheet in sheets:
        await add_perplexities(sheet, tools.model, others)
        done()
    return [sheet.close(position) for position, sheet in enumerate(sheets, start=1)]


def add_overlap(sheet: MeasuredItem, overlap: Overlap | str) -> None:
    """ROUGE against the reference that gives each figure's best."""
    if not sheet.item.references:
        sheet.lack(ROUGE, NO_REFERENCE)
    elif isinstance(overlap, str):
        sheet.lack(ROUGE, overlap)
    else:
        try:
            found = overlap.compare(sheet.item.references, sheet.item.response)
        except MetricUnavailable as error:
            sheet.lack(ROUGE, str(error))
            return
        sheet.values |= {"rouge1": found.rouge1, "rouge2": found.rouge2, "rougeL": found.rougeL}


async def add_similarity(sheet: MeasuredItem, encoder: Encoder | str, language: str) -> None:
    """BERTScore F1 with the reference that resembles the response most."""
    if not sheet.item.references:
        sheet.lack(["bertscore"], NO_REFERENCE)
    elif isinstance(encoder, str):
        sheet.lack(["bertscore"], encoder)
    else:
        pairs = [(reference, sheet.item.response) for reference in sheet.item.references]
        try:
            best = choose_best(await encoder.compare(language, pairs))
        except EncoderUnavailable as error:
            sheet.lack(["bertscore"], str(error))
            return
        sheet.put("bertscore", best.f1, truncated=best.truncated)


def choose_best(found: Sequence[Similarity]) -> Similarity:
    """The highest F1; raises EncoderUnavailable if one is NaN."""
    if not all(math.isfinite(similarity.f1) for similarity in found):
        raise EncoderUnavailable(NOT_FINITE)
    return max(found, key=lambda similarity: similarity.f1)


async def add_perplexities(sheet: MeasuredItem, model: LanguageModel | str, others: Mapping[str, str]) -> None:
    """Perplexity of the response alone, after its question, and after a random other one."""
    if isinstance(model, str):
        sheet.lack(PERPLEXITIES, model)
        return
    response, asked = sheet.item.response, sheet.item.asked
    await add_perplexity("perplexity_a", sheet, model, Passage(response))
    if asked is None:
        sheet.lack(["perplexity_qa", "perplexity_rqa"], NO_QUESTION)
        return
    await add_perplexity("perplexity_qa", sheet, model, Passage(response, asked))
    if asked in others:
        await add_perplexity("perplexity_rqa", sheet, model, Passage(response, others[asked]))
    else:
        sheet.lack(["perplexity_rqa"], NO_OTHER_QUESTION)


async def add_perplexity(figure: Figure, sheet: MeasuredItem, model: LanguageModel, passage: Passage) -> None:
    """One perplexity, or why there is none."""
    try:
        likelihood = await model.read(passage)
    except MetricUnavailable as error:
        sheet.lack([figure], str(error))
        return
    perplexity = compute_perplexity(likelihood.nats)
    if perplexity is None:
        sheet.lack([figure], TOO_UNLIKELY)
    else:
        sheet.put(figure, perplexity, truncated=likelihood.truncated)
