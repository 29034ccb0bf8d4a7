"""Reference metrics of responses: what is read, each item's figures or why one cannot be had, and the report over all.

The figures are those of the LFQA paper's table 1: Len; ROUGE-1/2/L and BERTScore against a reference; the perplexity of
a causal language model on the response alone (A), after its question (QA) and after a random other question (RQA).
"""

from __future__ import annotations

import asyncio
import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import AfterValidator, Field, ValidationInfo

from saiten.core.messages import Message, Misfit
from saiten_server.core.batch import ItemId
from saiten_server.core.dialogue import Context, Text, check_line
from saiten_server.core.evaluation import References
from saiten_server.core.model import Finite, Value, listed
from saiten_server.core.sentences import Sentence, Telling
from saiten_server.providers.ports import (
    Encoder,
    EncoderUnavailable,
    LanguageModel,
    MetricUnavailable,
    Overlap,
    Passage,
    Similarity,
    WordCounter,
)
from saiten_server.stats.observations import Floats
from saiten_server.stats.statistics import equalize, obstacle, pearson, spearman

Language = Literal["ja", "ko", "en"]
Figure = Literal["len", "rouge1", "rouge2", "rougeL", "bertscore", "perplexity_a", "perplexity_qa", "perplexity_rqa"]
FIGURES: tuple[Figure, ...] = get_args(Figure)

ROUGE: tuple[Figure, ...] = ("rouge1", "rouge2", "rougeL")
PERPLEXITIES: tuple[Figure, ...] = ("perplexity_a", "perplexity_qa", "perplexity_rqa")

NameText = Annotated[
    str,
    AfterValidator(partial(check_line, limit="name_characters", what=Message("system-or-aspect-name"), blank=False)),
]
Reasons = Annotated[dict[Figure, str], Field(description="figures that are null, each with the reason")]


def check_question(question: str | None, info: ValidationInfo) -> str | None:
    """Raises ValueError if an item has both a context and a question."""
    if question is not None and info.data.get("context") is not None:
        raise Misfit(Message("context-beside-question"))
    return question


class MetricItem(Value):
    """A response with its references. `ratings` are the human ratings, one value per aspect (the mean)."""

    system: NameText | None = None
    item: ItemId | None = None
    # Before `question`, which is checked against it.
    context: Context | None = None
    question: Annotated[Text | None, AfterValidator(check_question)] = None
    response: Text
    reference: References | None = None
    ratings: dict[NameText, Finite] = Field(default_factory=dict)

    @property
    def asked(self) -> str | None:
        """The question: as given, or the context's utterances, oldest first, a line each and without speakers."""
        if self.context is not None:
            return "\n".join(utterance.text for utterance in self.context)
        return self.question

    @property
    def references(self) -> tuple[str, ...]:
        """The texts that ROUGE and BERTScore compare the response with; may be empty."""
        return self.reference or ()


class ItemFigures(Value):
    """One item's figures; `position` counts the items from 1.

    `len` is in words, at least 0; `rouge1`, `rouge2`, `rougeL` are F-measures in [0, 1]; `bertscore` is F1 in [-1, 1];
    the perplexities are per token of the language model, at least 1. A null has its reason in `unavailable`.
    `truncated` names the figures of a text that was cut to the length that the encoder or language model reads.
    """

    position: int
    system: str | None
    item: str | None
    len: int
    rouge1: float | None = None
    rouge2: float | None = None
    rougeL: float | None = None  # noqa: N815 - as rouge-score names it
    bertscore: float | None = None
    perplexity_a: float | None = None
    perplexity_qa: float | None = None
    perplexity_rqa: float | None = None
    truncated: Annotated[tuple[Figure, ...], listed()] = ()
    unavailable: Reasons = Field(default_factory=dict)

    def value(self, figure: Figure) -> float | None:
        """The figure by its name."""
        found: float | None = getattr(self, figure)
        return found


class FigureMean(Value):
    """The mean of a figure over the `n` items that have it; for `truncated` of them a text was cut."""

    n: int
    mean: float | None
    truncated: int = 0


class SystemFigures(Value):
    """A system's means; `system` is null for the items that name none."""

    system: str | None
    items: int
    figures: dict[Figure, FigureMean]


class FigureCorrelation(Telling):
    """A figure against a human aspect over the `n` items that have both, all systems pooled; in [-1, 1].

    A null has its reason in `undefined`.
    """

    n: int
    pearson: float | None
    spearman: float | None
    undefined: Mapping[str, Sentence] = Field(default_factory=dict)


class ReferenceReport(Value):
    """The means of each system and of all items, and each figure against each human aspect.

    `overall` weights every item equally. `correlations` is by aspect, then figure. `unavailable` counts the items that
    lack a figure, by figure and reason. `tools` describes how figures were measured: equal tools give equal figures,
    except for RQA, which also depends on `seed` and on the other questions.
    """

    language: Language
    seed: int
    items: int
    systems: Annotated[tuple[SystemFigures, ...], listed()]
    overall: dict[Figure, FigureMean]
    correlations: dict[str, dict[Figure, FigureCorrelation]]
    unavailable: dict[Figure, dict[str, int]]
    tools: dict[str, str]


ITEMS_TOGETHER = 64  # items that the encoder is given at a time: enough to fill its batches, and few enough to hold
NO_REFERENCE = "the item has no reference"
NO_QUESTION = "the item has neither a context nor a question"
NO_OTHER_QUESTION = "no other item has another question"
NOT_FINITE = Message("similarity-not-finite")
TOO_UNLIKELY = "the response is too unlikely for a perplexity: the model does not know its language"


@dataclass(frozen=True)
class MetricTools:
    """What measures texts of `language`. A string takes the place of an unavailable tool and says why."""

    language: Language
    words: WordCounter
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
        """Says why these figures are missing."""
        self.reasons.update(dict.fromkeys(figures, reason))

    def put(self, figure: Figure, value: float, *, truncated: bool) -> None:
        self.values[figure] = value
        self.truncated += [figure] if truncated else []

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


async def measure_items(
    items: Sequence[MetricItem], tools: MetricTools, *, seed: int, done: Callable[[], None] = lambda: None
) -> list[ItemFigures]:
    """Every item's figures, in order. `seed` draws the random other questions of RQA. No figure but RQA's depends on
    what is measured beside the item. `done` is called with each finished item."""
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


MOST_NATS = 230.0  # e^230 is 1e100: beyond it a model does not know the language at all, and a mean could leave floats


def draw_other_questions(questions: Iterable[str], seed: int) -> dict[str, str]:
    """Each distinct question's random other question, for RQA. Empty where there are fewer than two.

    A random cyclic permutation (Sattolo 1986): no question keeps its own, each gets any other with the same
    probability, and each is given once. Over distinct questions, because several systems answer the same: by items, one
    could be given its own question from another system's item. So all answers to a question get the same other, and
    the order of the items changes nothing.
    """
    drawn = sorted(set(questions))
    own = list(drawn)
    if len(own) < 2:
        return {}
    # No `shuffle`: of all that `random` offers, Python keeps the sequence of `random()` alone over versions.
    generator = random.Random(seed)  # noqa: S311 - for an experiment, not a secret
    for last in range(len(drawn) - 1, 0, -1):
        other = int(generator.random() * last)
        drawn[last], drawn[other] = drawn[other], drawn[last]
    return dict(zip(own, drawn, strict=True))


def compute_perplexity(nats: float) -> float | None:
    """exp of the mean negative log-likelihood (nats per token); None if that is NaN or above 230."""
    return math.exp(nats) if nats <= MOST_NATS else None


def summarise(
    items: Sequence[MetricItem],
    figures: Sequence[ItemFigures],
    *,
    language: Language,
    seed: int,
    tools: Mapping[str, str],
) -> ReferenceReport:
    """The report over the items and their figures, which are in the same order."""
    systems: dict[str | None, list[ItemFigures]] = {}
    for one in figures:
        systems.setdefault(one.system, []).append(one)
    return ReferenceReport(
        language=language,
        seed=seed,
        items=len(figures),
        systems=tuple(
            SystemFigures(system=system, items=len(own), figures=average_figures(own))
            for system, own in systems.items()
        ),
        overall=average_figures(figures),
        correlations=correlate_with_humans(items, figures),
        unavailable=count_reasons(figures),
        tools=dict(tools),
    )


def average_figures(figures: Sequence[ItemFigures]) -> dict[Figure, FigureMean]:
    """Every figure's mean over the items that have it; null over no items."""
    found = {}
    for figure in FIGURES:
        values = [value for one in figures if (value := one.value(figure)) is not None]
        truncated = sum(figure in one.truncated for one in figures)
        mean = statistics.fmean(values) if values else None
        found[figure] = FigureMean(n=len(values), mean=mean, truncated=truncated)
    return found


def count_reasons(figures: Sequence[ItemFigures]) -> dict[Figure, dict[str, int]]:
    """How many items lack a figure, by figure and reason; figures that none lacks are left out."""
    counts = {
        figure: Counter(one.unavailable[figure] for one in figures if figure in one.unavailable) for figure in FIGURES
    }
    return {figure: dict(reasons) for figure, reasons in counts.items() if reasons}


def correlate_with_humans(
    items: Sequence[MetricItem], figures: Sequence[ItemFigures]
) -> dict[str, dict[Figure, FigureCorrelation]]:
    """Each figure against each aspect that any item has a human value of: by aspect, then figure."""
    aspects = list(dict.fromkeys(aspect for item in items for aspect in item.ratings))
    return {
        aspect: {
            figure: correlate_figures(
                [
                    (value, item.ratings[aspect])
                    for item, one in zip(items, figures, strict=True)
                    if aspect in item.ratings and (value := one.value(figure)) is not None
                ]
            )
            for figure in FIGURES
        }
        for aspect in aspects
    }


def correlate_figures(pairs: Sequence[tuple[float, float]]) -> FigureCorrelation:
    """Pearson's and Spearman's coefficients of (figure, human value) pairs."""
    figures, ratings = map(scale, np.array(pairs, dtype=np.float64).reshape(-1, 2).T)
    why = obstacle(equalize(figures), equalize(ratings), Message("figures-equal"), Message("human-values-equal"))
    if why is not None:
        return FigureCorrelation(n=len(pairs), pearson=None, spearman=None, undefined={"pearson": why, "spearman": why})
    return FigureCorrelation(
        n=len(pairs), pearson=float(pearson(figures, ratings)), spearman=float(spearman(figures, ratings))
    )


def scale(values: Floats) -> Floats:
    """The values, shape (n,), in a unit in which the largest is about 1: the sum of large ones could leave floats. The
    unit is a power of two, so nothing is rounded."""
    _, exponent = np.frexp(np.abs(values).max(initial=0))
    scaled: Floats = np.ldexp(values, -exponent)
    return scaled
