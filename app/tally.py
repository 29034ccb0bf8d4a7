"""A batch's figures as they are kept beside it: results are added, and all is packed into one short text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from pydantic_core import from_json

from app.domain.errors import JudgeReplyInvalid
from app.domain.scores import Scores
from app.domain.tally import AspectTally, Moments, Tally

COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def tally_scores(results: Iterable[Scores]) -> Tally:
    """The figures of these results."""
    tally = Tally()
    for scores in results:
        add_scores(tally, scores)
    return tally


def add_scores(tally: Tally, scores: Scores) -> None:
    """Takes one result in; each is to be added once, in any order."""
    tally.statuses[scores.status] += 1
    for name, figures in scores.aspects.items():
        tally.aspects.setdefault(name, AspectTally()).add(*figures)
    for name, value in scores.composites.items():
        if value is not None:
            tally.composites.setdefault(name, Moments()).add(value)
    tally.warnings.update(scores.warnings)
    if scores.status == "failed":
        # An evaluation with not one rating carries no failure: outside a batch it would have been this one.
        tally.failures[scores.failure or JudgeReplyInvalid.code] += 1


def pack(tally: Tally) -> str:
    """The figures as compact JSON on one line: about 1.5 kB for six aspects."""
    return COMPACT.encode(
        {
            "s": tally.statuses,
            "a": {
                name: [list_moments(one.means), list_moments(one.blended), one.levels, one.reasons]
                for name, one in tally.aspects.items()
            },
            "c": {name: list_moments(moments) for name, moments in tally.composites.items()},
            "w": tally.warnings,
            "f": tally.failures,
        }
    )


def unpack(text: str) -> Tally:
    """The figures in a text that `pack` wrote. Raises ValueError for any other text."""
    packed = from_json(text)
    try:
        return Tally(
            statuses=Counter(packed["s"]),
            aspects={name: read_aspect(*parts) for name, parts in packed["a"].items()},
            composites={name: Moments(*parts) for name, parts in packed["c"].items()},
            warnings=Counter(packed["w"]),
            failures=Counter(packed["f"]),
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("this is no packed tally") from error


def list_moments(moments: Moments) -> list[float]:
    """The moments in the order in which they are made."""
    return [moments.n, moments.mean, moments.squares]


def read_aspect(means: list[Any], blended: list[Any], levels: dict[str, int], reasons: dict[str, int]) -> AspectTally:
    """One aspect's figures; JSON has made texts of the levels."""
    counted = Counter({int(level): count for level, count in levels.items()})
    return AspectTally(Moments(*means), Moments(*blended), counted, Counter(reasons))
