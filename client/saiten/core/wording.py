"""Words and signs in which gates are told, by the service and by the command alike.

Measures and rules are the client's or the server's: both have the same fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from saiten.core.plain_text import clip

NEAR = 0.75
"""Similarity from which a name counts as a misspelling; "factuality" and "acceptability" have 0.7."""

MOST_NEAR_CHARACTERS = 128
"""Of a name for which a near one is looked for."""


def find_near(name: str, known: Iterable[str], cutoff: float = NEAR) -> str:
    """The nearest known name; empty if none is near or the name is too long to be searched quickly."""
    if len(name) > MOST_NEAR_CHARACTERS:
        return ""
    near = get_close_matches(name, [other for other in known if len(other) <= MOST_NEAR_CHARACTERS], 1, cutoff)
    return clip(near[0]) if near else ""


def hint(name: str, known: Iterable[str], cutoff: float = NEAR) -> str:
    """A question with the nearest known name; empty if none is near."""
    near = find_near(name, known, cutoff)
    return f"; did you mean {near!r}?" if near else ""


def read_signature(signature: str) -> dict[str, str]:
    """The pieces of a line that `sign` wrote, by name, in their order. A value may hold colons."""
    pairs = (piece.partition(":") for piece in signature.split("|") if piece)
    return {key: value for key, _, value in pairs}


LEVELS = (0.01, 0.05)
"""Of significance, as they are usual."""


def tell_p(p: float) -> str:
    """A probability in few digits. What is below a usual level is not shown as that level."""
    if p < 0.0001:
        return "p < 0.0001"
    shown = f"{p:.2g}"
    return f"p = {p:.4g}" if float(shown) in LEVELS and p not in LEVELS else f"p = {shown}"


def describe_rule(rule: Any) -> str:
    """The rule in a few words: `max_drop 0.1, min_mean 2`."""
    asked = {"max_drop": rule.max_drop, "min_mean": rule.min_mean, "max_rise": rule.max_rise}
    return ", ".join(f"{name} {value + 0.0:g}" for name, value in asked.items() if value is not None)  # -0 is 0


def name_rule(rule: Any) -> str:
    """What a rule, or a reason about one, is of: an aspect, `finding:CODE`, or a measure such as `faulty_turns`; empty
    for anything else."""
    return rule.aspect or rule.measure or (f"finding:{rule.finding}" if rule.finding else "")


def rate_measures(comparison: Any) -> dict[str, Any]:
    """The rates per 100 system turns, as the command names them: `faulty_turns`, `judge`, `kind:repetition`."""
    codes = dict(comparison.findings)
    if comparison.faulty_turns is not None:
        codes = {"faulty_turns": comparison.faulty_turns, **{name: codes[name] for name in codes if name != "any"}}
    return {**codes, **{f"kind:{kind}": measure for kind, measure in comparison.kinds.items()}}


LIFTED = ("name", "system", "build")
"""The entries of metadata by which a reader knows a run."""


def lift(shared: Mapping[str, str] | None, metadata: Mapping[str, str]) -> dict[str, str]:
    """What the metadata of all items of a run say alike of the run: `shared` by those before, None at the first."""
    own = {name: metadata[name] for name in LIFTED if name in metadata}
    return own if shared is None else {name: value for name, value in shared.items() if own.get(name) == value}


def name_run(batch: Any) -> str:
    """What a reader calls a run: its name, system and build, or the time and rubric of one that has none of them."""
    named = (batch.name or batch.metadata.get("name"), batch.metadata.get("system"), batch.metadata.get("build"))
    return " · ".join(part for part in named if part) or title_run(batch)


def title_run(batch: Any) -> str:
    """The name alone, where system and build stand beside it; of a run without one its time and rubric."""
    title: str | None = batch.name or batch.metadata.get("name")
    return title or f"{batch.created_at:%Y-%m-%d %H:%M} UTC · {batch.rubric_name}"


def stands_still(measure: Any) -> bool:
    """Whether there are values and none differs: in no pair, or, unpaired, in neither run."""
    if measure.wins is not None:
        return bool(measure.n > 0 and measure.wins.a_wins.wins == measure.wins.b_wins.wins == 0)
    return bool(measure.cliffs_delta == 0 and measure.standard_error == 0 and measure.difference == 0)
