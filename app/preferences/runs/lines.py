"""The results of a preference run as files: NDJSON with everything, CSV with what fits a table."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from saiten.core.messages import DEFAULT_LANGUAGE
from saiten.core.spreadsheet import BATCH_METADATA, Cell, write_rows
from saiten_server.core.batch import PairPlan
from saiten_server.core.evaluation import AspectPreference, Evaluation
from saiten_server.core.model import COMPACT
from saiten_server.core.redaction import texts_asked
from saiten_server.core.sentences import translate
from saiten_server.runs.result import Result

UNTOLD_FIELDS = {"aspects", "composites", "relevance", "translation", "paths", "signature_pieces", "pair"}
"""Of an evaluation what a pair does not have, or says in its own form."""


def write_pair(evaluation: Evaluation) -> dict[str, Any]:
    """What a comparison says, as `GET /v1/preferences/{id}` does, with its status."""
    found = evaluation.model_dump(mode="json", exclude=UNTOLD_FIELDS | {"reliability", "integrity"})
    pair = evaluation.pair.model_dump(mode="json", exclude={"runs"}) if evaluation.pair else {}
    return {**found, **pair}


def write_result(result: Result, shared: Mapping[str, Any]) -> dict[str, Any]:
    """One result: its place, and the comparison or why there is none; with both texts where they were read."""
    place = result.entry.model_dump(exclude={"ids_given"})
    if result.evaluation is not None:
        told = {**place, **write_pair(result.evaluation)}
    else:
        told = {**place, "status": "failed", "error": result.failure.model_dump() if result.failure else None}
    if result.asked is not None and result.asked.shown is not None:
        first, second = map(texts_asked, result.asked.shown)
        told["texts"] = {"first": first or None, "second": second or None}
    return {**told, **shared}


async def stream_pairs(
    pages: AsyncIterable[Sequence[Result]],
    metadata: Mapping[str, str] = MappingProxyType({}),
    language: str = DEFAULT_LANGUAGE,
) -> AsyncIterator[bytes]:
    """One line a result, in UTF-8, its sentences in the language."""
    shared = {BATCH_METADATA: metadata} if metadata else {}
    async for page in pages:
        lines = (write_result(result, shared) for result in page)
        said = lines if language == DEFAULT_LANGUAGE else (translate(line, language) for line in lines)
        yield "".join(COMPACT.encode(line) + "\n" for line in said).encode()


async def stream_pair_table(
    pages: AsyncIterable[Sequence[Result]], plan: PairPlan, *, excel: bool = False
) -> AsyncIterator[bytes]:
    """The header, then one row a result, as RFC 4180 has it; formulas are defused. For Excel it begins with the mark by
    which that knows UTF-8."""
    if excel:
        yield codecs.BOM_UTF8
    own = ("preference", "strength", "first_shown", "second_shown", "position_dependent", "missing")
    fixed = ("item", "position", "candidate", "first", "second", "status")
    named = [name if one == "preference" else f"{name}.{one}" for name in plan.aspects for one in own]
    rest = ("first.length", "second.length", "warnings", "cached", "cost_usd", "preference.id", "signature")
    yield write_rows([[*fixed, *named, *rest, "failure.code", "failure.detail", "dialogue", "cluster"]])
    async for page in pages:
        yield write_rows([write_cells(result, plan) for result in page])


def write_cells(result: Result, plan: PairPlan) -> list[Cell]:
    """The row of one result."""
    entry, found, failure = result.entry, result.evaluation, result.failure
    pair = found.pair if found else None
    cells: list[Cell] = [entry.item, entry.position, entry.candidate]
    cells += [pair.first.system, pair.second.system] if pair else [None, None]
    cells.append(result.status)
    for name in plan.aspects:
        cells += write_aspect(pair.aspects.get(name) if pair else None)
    if found is not None and pair is not None:
        codes = " ".join(dict.fromkeys(one.code for one in found.warnings)) or None
        cells += [pair.first.length, pair.second.length, codes, write_flag(value=found.cached)]
        cells += [found.usage.cost_usd, found.id, found.signature]
    else:
        cells += [None] * 7
    return [
        *cells,
        failure.code if failure else None,
        failure.detail if failure else None,
        entry.dialogue,
        entry.cluster,
    ]


def write_aspect(found: AspectPreference | None) -> list[Cell]:
    """The cells of one aspect: the verdict of each order under the side that it showed first."""
    if found is None:
        return [None] * 6
    said = {one.shown[0]: one for one in found.orders}
    reasons = [one.missing.reason for one in found.orders if one.missing is not None]
    return [
        found.preference,
        found.strength,
        said["first"].verdict if "first" in said else None,
        said["second"].verdict if "second" in said else None,
        write_flag(value=found.position_dependent),
        " ".join(reasons) or None,
    ]


def write_flag(*, value: bool) -> str:
    """A truth value as JSON spells it."""
    return "true" if value else "false"
