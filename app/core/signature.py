"""The line that says how a score was made, in the manner of sacreBLEU (Post 2018).

Equal signatures mean comparable scores. The signature has everything that may change a score (rubric, judge,
parameters, path, encoder, similarity baseline, weight, samples) and nothing else (text, time, cost).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from saiten.core.wording import read_signature
from saiten_server.core.evaluation import JudgeOptions, JudgeProvenance, RelevanceResult
from saiten_server.core.model import canonical_json
from saiten_server.core.rubric import Rubric, depends_on_runs

__all__ = ["read_signature"]

NONE = "-"
ENGLISH_PIECES = "english."
"""Stands before pieces of the English path where both paths were asked: the aspects are the source path's."""

SAITEN = "saiten"
"""The piece with the project's version. Two runs with different ones are comparable."""


def sign(pieces: Mapping[str, str]) -> str:
    """`key:value` pairs in their order, joined by `|`, on one line."""
    return write_line(tuple(pieces.items()))


@lru_cache(maxsize=256)
def write_line(pieces: tuple[tuple[str, str], ...]) -> str:
    """The line of these pieces; cached, since all items of a batch share them."""
    return "|".join(f"{key}:{plain_piece(value)}" for key, value in pieces)


def read_comparable(signature: str) -> dict[str, str]:
    """The pieces that can change a score: all except Saiten's own version."""
    return {key: value for key, value in read_signature(signature).items() if key != SAITEN}


def differences(one: str, other: str) -> dict[str, tuple[str, str]]:
    """The pieces that differ between two lines, with both values."""
    left, right = read_signature(one), read_signature(other)
    pairs = {key: (left.get(key, NONE), right.get(key, NONE)) for key in dict.fromkeys([*left, *right])}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def find_differing(signatures: Iterable[str]) -> tuple[str, ...]:
    """The comparable pieces that are not the same in all of the lines, in their order."""
    lines = [*map(read_comparable, signatures)]
    pieces = dict.fromkeys(piece for line in lines for piece in line)
    return tuple(piece for piece in pieces if len({line.get(piece) for line in lines}) > 1)


def plain_piece(value: str) -> str:
    """The value with `|` and line breaks replaced: an endpoint that names its model must not write further pieces."""
    return " ".join(value.replace("|", "/").split())


def describe_judge(provenance: JudgeProvenance, options: JudgeOptions) -> dict[str, str]:
    """The judge's pieces: kind, endpoint kind, model as the endpoint named it, prompt, parameters in force."""
    endpoint = f"/{provenance.endpoint}" if provenance.endpoint else ""
    parameters = ",".join(f"{name}={format_parameter(value)}" for name, value in sorted(provenance.parameters.items()))
    return {
        "judge": provenance.kind + endpoint,
        "model": provenance.model,
        "prompt": provenance.prompt[:12] if provenance.prompt else NONE,
        "parameters": parameters or NONE,
        "dropped": ",".join(sorted(provenance.dropped)) or NONE,
        "samples": str(options.samples),
        "expected": "yes" if options.expected else "no",
        # Only if true: signatures of earlier releases do not have the pieces.
        **({"screen": "yes"} if provenance.screen else {}),
        **({"lenient": "yes"} if provenance.lenient else {}),
    }


def format_parameter(parameter: object) -> str:
    """A parameter's value: a number or a text as it is, anything else as canonical JSON."""
    plain_value = isinstance(parameter, str | int | float) and not isinstance(parameter, bool)
    return str(parameter) if plain_value else canonical_json(parameter)


def describe_composites(rubric: Rubric, options: JudgeOptions) -> dict[str, str]:
    """How composites were computed, if that matters: with several samples and an absolute term."""
    return {"composites": options.composites} if options.samples > 1 and depends_on_runs(rubric) else {}


def describe_relevance(relevance: RelevanceResult | None, aspects: tuple[str, ...]) -> dict[str, str]:
    """The blend's pieces: encoder, b̄ with its source, w, and which aspects are blended. A calibrated b̄ has four
    decimals, since it differs in the sixth between CPU and GPU. One given by the caller keeps its digits."""
    if relevance is None or relevance.score is None or relevance.baseline is None:
        return {"encoder": NONE, "baseline": NONE, "weight": NONE, "blended": NONE}
    source, baseline = relevance.baseline_source, relevance.baseline
    shown = f"{baseline + 0.0:.12g}" if source == "number" else f"{baseline:.4f}"  # + 0.0: minus zero is zero
    return {
        "encoder": relevance.encoder or NONE,
        "baseline": f"{source}={shown}",
        "weight": f"{relevance.weight + 0.0:.12g}",
        "blended": ",".join(aspects) or NONE,
    }


def describe_rubric(version: str, rubric: Rubric) -> dict[str, str]:
    """The first pieces: Saiten's version, the rubric and the digest of its meaning."""
    return {SAITEN: version, "rubric": f"{rubric.id}@{rubric.version}", "digest": rubric.digest[:12]}


def merge_paths(source: Mapping[str, str], english: Mapping[str, str]) -> dict[str, str]:
    """The pieces of an evaluation on both paths: the source path's, and those of the English path that differ."""
    differing = {f"{ENGLISH_PIECES}{key}": value for key, value in english.items() if source.get(key) != value}
    differing.pop(f"{ENGLISH_PIECES}path", None)
    return {**source, "path": "both", **differing}
