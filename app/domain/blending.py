"""A judge's rating with BERTScore relevance blended in."""

from __future__ import annotations


def blend(rating: float, similarity: float, baseline: float, weight: float) -> float:
    """c + w(b − b̄): equation 1 of 寺内ほか「ChatGPT を用いた日本語対話応答の多面的自動評価」, where w is 10.

    `rating` is c, in the aspect's scale points; `similarity` is b, the BERTScore F1 of last utterance and response,
    in [-1, 1]; `baseline` is b̄, a mean of such similarities; `weight` is w, in scale points per unit of F1. The
    result is off the scale by design and is never clamped to it: a clamp would tie what the term tells apart.
    """
    return rating + weight * (similarity - baseline)
