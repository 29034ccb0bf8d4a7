"""The runs of a gate: existing batches, files of results, and files of items that are scored first."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import click
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import saiten
from app.cli.backend import Backend
from app.cli.gate_settings import GateSettings
from app.comparison.runs import are_numbered, scales_of
from app.domain.batch import Batch
from app.domain.clusters import name_dialogue
from app.domain.comparison import ComparedRun, RunItem
from app.domain.errors import SaitenError
from app.domain.model import Finite
from app.domain.plain_text import escape_controls, printable
from app.domain.rubric import Rubric, name_version, split_name
from app.domain.validation import explain
from saiten.commands.files import InvalidItems, holds_options, parse, read_bytes, shorten_faults, split

Placed = tuple[str, Any]
"""The place of a value (`base.ndjson:3`), and the value."""


class ResultPart(BaseModel):
    """A part of a result. Fields that a later version may add are ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False, hide_input_in_errors=True)


class RubricPart(ResultPart):
    id: str
    version: int | None = None

    @property
    def name(self) -> str:
        return name_version(self.id, self.version)


class AspectPart(ResultPart):
    mean: Finite | None
    blended: Finite | None = None


class ResultLine(ResultPart):
    """The fields of a result that a run needs. A failed one has no aspects and, in a batch, no rubric."""

    status: str
    item: str | None = None
    candidate: int | None = None
    rubric: RubricPart | None = None
    aspects: dict[str, AspectPart] = Field(default_factory=dict)
    composites: dict[str, Finite | None] = Field(default_factory=dict)
    signature: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    dialogue: str | None = None
    cluster: str | None = None


def is_result(value: object) -> bool:
    """Whether this is a result, rather than an item to be scored."""
    return isinstance(value, dict) and "status" in value and "context" not in value


def read_results(values: Sequence[Placed]) -> list[ResultLine]:
    """Every result. Raises InvalidItems that names the line and the field."""
    return [parse_result(where, value) for where, value in values]


def parse_result(where: str, value: object) -> ResultLine:
    """One result; raises InvalidItems where it is none."""
    if not is_result(value):
        raise InvalidItems(f"{where}: this is not a result of `saiten score` or of a batch, as the lines before it are")
    try:
        found = ResultLine.model_validate(value)
    except ValidationError as error:
        pointer, detail = explain(error, value)[0]
        raise InvalidItems(f"{where}: {pointer or 'the result'}: {detail}") from None
    if found.status != "failed" and not (found.aspects and found.rubric):
        raise InvalidItems(f"{where}: this result has no aspects or names no rubric")
    return found


def rubric_of(name: str, results: Sequence[ResultLine]) -> str | None:
    """The rubric that all results are by, with its version; None where all failed. Raises InvalidItems for several."""
    found = {result.rubric.name for result in results if result.rubric is not None}
    # A result that failed before it was judged names no version.
    versioned = {split_name(each)[0] for each in found if split_name(each)[1] is not None}
    names = sorted(found - versioned)
    if len(names) > 1:
        raise InvalidItems(f"{name}: it holds results by the rubrics {', '.join(names)}; a run has one")
    return names[0] if names else None


def make_run(name: str, results: Sequence[ResultLine], rubric: Rubric) -> ComparedRun:
    """The run of these results."""
    items = [describe(result, number, rubric) for number, result in enumerate(results)]
    return ComparedRun(
        name=name,
        items=items,
        expected=len(results),
        signatures=Counter(result.signature for result in results if result.signature is not None),
        scales=scales_of(rubric),
        aspects=tuple(aspect.id for aspect in rubric.aspects),
        numbered=are_numbered(item.item for item in items),
        best=rubric.best,
    )


def cluster_of(result: ResultLine) -> str | None:
    """The digest of the dialogue that the result is a turn of; handwritten results only name it."""
    return result.cluster or (name_dialogue(result.dialogue) if result.dialogue else None)


def describe(result: ResultLine, number: int, rubric: Rubric) -> RunItem:
    """One result's values; `number` from 0 stands for an item without a name."""
    aspects = {aspect.id: result.aspects.get(aspect.id) for aspect in rubric.aspects}
    blended = {name: part.blended for name, part in aspects.items() if part is not None and part.blended is not None}
    return RunItem(
        item=str(number) if result.item is None else result.item,
        candidate=result.candidate,
        system=result.metadata.get("system"),
        context=None,
        ratings={name: None if part is None else part.mean for name, part in aspects.items()},
        composites={each.id: result.composites.get(each.id) for each in rubric.composites},
        blended=blended,
        cluster=cluster_of(result),
    )


LATEST = "latest:"
BATCH = re.compile("ba_[0-9a-f]+")
ITEM = re.compile(r"/items/(\d+)(/.*)?")
LINE = re.compile(r"^line \d+: ")

Role = Literal["candidate", "baseline"]
Progress = Callable[[Batch], None]


@dataclass(frozen=True)
class Items:
    """A file of items to be scored: each with its place in the file. `options` are a batch's, from a first line."""

    name: str
    values: Sequence[Placed]
    options: dict[str, Any]


Found = Batch | ComparedRun | Items


async def find(backend: Backend, written: str, role: Role, settings: GateSettings) -> Found:
    """What `candidate` or `baseline` names; nothing is scored yet. Raises InvalidItems."""
    if not written.strip():
        raise InvalidItems(f"the {role} is named by an empty text; is a variable of this job not set?")
    if BATCH.fullmatch(written):
        try:
            return await backend.batch(written)
        except saiten.ServiceRefused as error:
            raise InvalidItems(f"{role} {written}: {error.detail}") from None
    if written.startswith(LATEST):
        name = written.removeprefix(LATEST)
        found = await backend.latest(name) if name else None
        if found is None:
            raise InvalidItems(f"{role} {printable(written[:128])}: there is no completed batch of that name")
        return found
    name, values = read_file(written, role)
    if not is_result(values[0][1]):
        return take_items(name, values)
    results = read_results(values)
    rubric = await backend.rubric(rubric_of(name, results) or settings.rubric)
    return make_run(name, results, rubric)


def read_file(path: str, role: Role) -> tuple[str, list[Placed]]:
    """The file's name and its values, NDJSON or a JSON array. Raises InvalidItems, for an empty file too."""
    name = "standard input" if path == "-" else path
    try:
        values = split(name, read_bytes(path))
    except InvalidItems as error:
        hint = "; `saiten gate --record` makes one" if role == "baseline" and "No such file" in error.message else ""
        raise InvalidItems(printable(error.message) + hint) from None
    if not values:
        raise InvalidItems(f"{name}: it is empty; expected items or results, a JSON array or one JSON object a line")
    return name, values


def take_items(name: str, values: Sequence[Placed]) -> Items:
    """The items, with the options of a batch from the first line where it holds them, as for POST /v1/batches."""
    if holds_options(values):
        return Items(name, values[1:], values[0][1])
    return Items(name, values, {})


def options_of(items: Items, settings: GateSettings) -> dict[str, Any]:
    """The options of the batch that the items become: the settings take precedence over the first line."""
    chosen: dict[str, Any] = settings.model_dump(
        include={"name", "rubric", "path", "judge", "metadata", "budget_usd"} & settings.model_fields_set,
        exclude_none=True,
    )
    if not settings.relevance:
        chosen["relevance"] = None
    return {**items.options, **chosen}


async def score(backend: Backend, found: Found, settings: GateSettings, progress: Progress) -> Batch | ComparedRun:
    """The run, scored: items become a batch, and a batch is waited for. Raises InvalidItems, SaitenError."""
    if isinstance(found, ComparedRun):
        return found
    if isinstance(found, Batch):
        return await wait(backend, found.id, progress)
    batch = await submit(backend, found, options_of(found, settings))
    try:
        return await wait(backend, batch.id, progress)
    except asyncio.CancelledError:
        # Interrupted, or out of time: these scores are no longer needed, and they cost money.
        with suppress(saiten.SaitenError):
            await backend.client.cancel_batch(batch.id)
        raise


async def submit(backend: Backend, items: Items, options: dict[str, Any]) -> Batch:
    """Posts the items as a batch. Raises InvalidItems that names their places in the file."""
    lines = [options, *(value for _, value in items.values)]
    body = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
    try:
        return await backend.submit(body)
    except saiten.ServiceRefused as error:
        if not error.faults:
            raise
        faults = [name_fault(items, pointer, detail) for pointer, detail in error.faults]
        raise InvalidItems(shorten_faults(faults)) from None


def name_fault(items: Items, pointer: str, detail: str) -> str:
    """The fault, located in the file instead of in the batch made from it."""
    found = ITEM.fullmatch(pointer)
    if found is None or int(found[1]) >= len(items.values):
        return f"{items.name}: {pointer or 'the batch'}: {LINE.sub('', detail)}"
    return f"{items.values[int(found[1])][0]}: {found[2] or 'the item'}: {LINE.sub('', detail)}"


async def wait(backend: Backend, batch_id: str, progress: Progress) -> Batch:
    """The batch once it is scored. Raises SaitenError where it was paused or cancelled."""
    batch = await backend.wait(batch_id, progress)
    if batch.status != "completed":
        raise SaitenError(explain_stop(batch))
    return batch


def explain_stop(batch: Batch) -> str:
    """Why there will be no more results."""
    done = f"{batch.counts.total - batch.counts.queued} of {batch.counts.total} candidates"
    if batch.status == "cancelled":
        return f"the batch {batch.id} was cancelled after {done}"
    why = batch.pause_detail or batch.pause_reason or "the reason is unknown"
    return f"the batch {batch.id} paused after {done}: {why}"


async def run_of(backend: Backend, found: Batch | ComparedRun) -> ComparedRun:
    """The run, fetched where it is a batch."""
    if isinstance(found, ComparedRun):
        return found
    lines = [line async for line in backend.client.results(found.id)]
    values = [(f"{found.id}:{number}", parse(found.id, line.encode())) for number, line in enumerate(lines, start=1)]
    name = f"{found.name} ({found.id})" if found.name else found.id
    return make_run(name, read_results(values), await backend.rubric(found.rubric_name))


async def save_results(backend: Backend, batch: Batch, path: str) -> None:
    """Writes the batch's results as NDJSON, for use as a later baseline."""
    try:
        with click.open_file(path, "w", encoding="utf-8", atomic=path != "-") as file:
            async for line in backend.client.results(batch.id):
                file.write(escape_controls(line) + "\n")
    except OSError as error:
        raise InvalidItems(f"{path}: {error.strerror}") from None
