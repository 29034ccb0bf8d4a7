"""Whether two runs were scored the same way, by their signatures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from app.domain.comparison import Run
from app.domain.errors import SignatureMismatch
from app.domain.rubric import split_name
from app.domain.signature import NONE, read_comparable

UNSIGNED = "signature"
"""The piece that differs where one run's results carry a signature and the other's do not."""


def find_differences(baseline: Run, candidate: Run) -> dict[str, tuple[str, str]]:
    """The pieces in which the runs differ, or in which one run differs from itself: both runs' values, by piece.

    Several values within a run are joined by a comma. A run without any value differs from nothing: where everything
    failed there is no score that could have been made in another way, and it is coverage that is missing.
    """
    ours, theirs = gather_pieces(baseline.signatures), gather_pieces(candidate.signatures)
    valued = has_values(baseline) and has_values(candidate)
    if valued and bool(ours) != bool(theirs):
        return {UNSIGNED: (show(baseline.signatures), show(candidate.signatures))}
    alone = not (valued and ours and theirs)
    found: dict[str, tuple[str, str]] = {}
    for key in dict.fromkeys([*ours, *theirs]):
        left, right = ours.get(key, {NONE: None}), theirs.get(key, {NONE: None})
        mixed = len(left) > 1 or len(right) > 1
        if mixed or (not alone and list(left) != list(right)):
            found[key] = (show(left), show(right))
    return found


def has_values(run: Run) -> bool:
    """Whether anything in the run was rated."""
    return any(
        value is not None
        for item in run.items
        for values in (item.ratings, item.composites, item.blended)
        for value in values.values()
    )


def check_signatures(baseline: Run, candidate: Run, *, allow_mismatch: bool) -> dict[str, tuple[str, str]]:
    """The differing pieces; raises SignatureMismatch where there are any and that was not allowed. Where the rubric's
    version is among them it says how to score by the baseline's."""
    pieces = find_differences(baseline, candidate)
    if pieces and not allow_mismatch:
        raise SignatureMismatch(
            f"The runs' scores were not made in the same way: {', '.join(pieces)} "
            f"{'differs' if len(pieces) == 1 else 'differ'}. Score them alike, or allow the mismatch{advise(pieces)}",
            pieces=pieces,
        )
    return pieces


def advise(pieces: Mapping[str, tuple[str, str]]) -> str:
    """What to do where the two runs were scored by different versions of one rubric, after what is said in general."""
    before, after = pieces.get("rubric", (NONE, NONE))
    (known, old), (other, new) = split_name(before), split_name(after)
    if known != other or old is None or new is None:
        return ""
    return f'. To score the candidate as the baseline was, ask for rubric = "{before}"'


def gather_pieces(signatures: Iterable[str]) -> dict[str, dict[str, None]]:
    """By piece the values that occur, each once, sorted; a signature that lacks a piece counts with `-`."""
    read = [read_comparable(signature) for signature in signatures]
    keys = dict.fromkeys(key for pieces in read for key in pieces)
    return {key: dict.fromkeys(sorted({pieces.get(key, NONE) for pieces in read})) for key in keys}


def show(values: Mapping[str, object]) -> str:
    """Values in one text."""
    return ", ".join(values) or NONE
