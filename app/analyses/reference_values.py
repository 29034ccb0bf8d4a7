"""Reference metrics of responses: what is read, each item's figures, and the report over all.

The figures are those of the LFQA paper's table 1: Len; ROUGE-1/2/L and BERTScore against a reference; the perplexity of
a causal language model on the response alone (A), after its question (QA) and after a random other question (RQA).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field, ValidationInfo

from saiten.core.messages import Message, Misfit
from saiten_server.core.batch import ItemId
from saiten_server.core.dialogue import Context, Text, check_line
from saiten_server.core.evaluation import References
from saiten_server.core.model import Finite, Value, listed
from saiten_server.core.sentences import Sentence, Telling

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
