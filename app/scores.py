"""What a summary needs of a result, small enough to be kept beside it: taken from an evaluation, packed, unpacked."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json

from app.domain.batch import Failure
from app.domain.evaluation import AspectResult, Evaluation
from app.domain.scores import Scores

SYSTEM = "system"
"""The metadata entry that names what produced a response."""

TRANSLATION_SENSITIVE = "translation-sensitive"
"""Among a result's warnings: an aspect that both paths rated, and not alike."""

COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def scores_of(evaluation: Evaluation, context: str | None) -> Scores:
    """The evaluation's figures. With both paths they are those of its top, the source path's. Each warning's code
    stands once, and `translation-sensitive` with them. `context` is the digest of its dialogue context."""
    codes = [warned.code for warned in evaluation.warnings]
    if evaluation.paths is not None and evaluation.paths.translation_sensitive:
        codes.append(TRANSLATION_SENSITIVE)
    return Scores(
        status=evaluation.status,
        aspects={name: figures_of(result) for name, result in evaluation.aspects.items()},
        composites=evaluation.composites,
        warnings=tuple(dict.fromkeys(codes)),
        similarity=evaluation.relevance.score if evaluation.relevance else None,
        system=evaluation.metadata.get(SYSTEM),
        context=context,
    )


def figures_of(result: AspectResult) -> tuple[float | None, float | None, str | None, int | None]:
    """Mean, blended value, unrated reason and rating: one aspect's entry in `Scores.aspects`."""
    return result.mean, result.blended, result.unrated.reason if result.unrated else None, result.rating


def failed_scores(failure: Failure) -> Scores:
    """The scores of a candidate without an evaluation: none, and why."""
    return Scores(status="failed", aspects={}, composites={}, failure=failure.code)


def pack(scores: Scores) -> str:
    """The scores as compact JSON on one line: about 300 bytes for six aspects. What is empty is left out."""
    packed: dict[str, Any] = {"s": scores.status}
    if scores.aspects:
        packed["a"] = {name: list(figures) for name, figures in scores.aspects.items()}
    if scores.composites:
        packed["c"] = dict(scores.composites)
    if scores.warnings:
        packed["w"] = list(scores.warnings)
    further = {"f": scores.failure, "b": scores.similarity, "y": scores.system, "x": scores.context}
    packed.update((key, value) for key, value in further.items() if value is not None)
    return COMPACT.encode(packed)


def unpack(text: str) -> Scores:
    """The scores in a text that `pack` wrote. Raises ValueError for any other text."""
    packed = from_json(text)
    try:
        return Scores(
            status=packed["s"],
            aspects={
                name: (mean, blended, reason, rating)
                for name, (mean, blended, reason, rating) in packed.get("a", {}).items()
            },
            composites=packed.get("c", {}),
            warnings=tuple(packed.get("w", ())),
            failure=packed.get("f"),
            similarity=packed.get("b"),
            system=packed.get("y"),
            context=packed.get("x"),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError("these are no packed scores") from error
