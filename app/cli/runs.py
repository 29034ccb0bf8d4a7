"""A gate's runs: batches that there are, results in a file, and items in a file that are scored first."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import click

import saiten
from app.cli.backend import Backend
from app.cli.gate_file import GateSettings
from app.cli.items import InvalidItems, holds_options, parse, read_bytes, shorten_faults, split
from app.cli.result_file import Placed, is_result, make_run, read_results, rubric_of
from app.domain.batch import Batch
from app.domain.comparison import Run
from app.domain.errors import SaitenError
from app.domain.plain_text import escape_controls, printable

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


Found = Batch | Run | Items


async def find(backend: Backend, written: str, role: Role, settings: GateSettings) -> Found:
    """What `candidate` or `baseline` names, as it is now; nothing is scored yet. Raises InvalidItems."""
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
    """The items; before them may stand a batch's options, as in what POST /v1/batches takes."""
    if holds_options(values):
        return Items(name, values[1:], values[0][1])
    return Items(name, values, {})


def options_of(items: Items, settings: GateSettings) -> dict[str, Any]:
    """The options of the batch that the items become: the settings' over those of the file's first line."""
    chosen: dict[str, Any] = settings.model_dump(
        include={"name", "rubric", "path", "judge", "metadata", "budget_usd"} & settings.model_fields_set,
        exclude_none=True,
    )
    if not settings.relevance:
        chosen["relevance"] = None
    return {**items.options, **chosen}


async def score(backend: Backend, found: Found, settings: GateSettings, told: Progress) -> Batch | Run:
    """The run, scored: items become a batch, and a batch is waited for. Raises InvalidItems, SaitenError."""
    if isinstance(found, Run):
        return found
    if isinstance(found, Batch):
        return await wait(backend, found.id, told)
    batch = await submit(backend, found, options_of(found, settings))
    try:
        return await wait(backend, batch.id, told)
    except asyncio.CancelledError:
        # Interrupted, or out of time: nobody waits for these scores any more, and they cost money.
        with suppress(saiten.SaitenError):
            await backend.client.cancel_batch(batch.id)
        raise


async def submit(backend: Backend, items: Items, options: dict[str, Any]) -> Batch:
    """Hands the items in. Raises InvalidItems that names their places in the file."""
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
    """What is wrong with which line of the file, rather than with the batch that was made of it."""
    found = ITEM.fullmatch(pointer)
    if found is None or int(found[1]) >= len(items.values):
        return f"{items.name}: {pointer or 'the batch'}: {LINE.sub('', detail)}"
    return f"{items.values[int(found[1])][0]}: {found[2] or 'the item'}: {LINE.sub('', detail)}"


async def wait(backend: Backend, batch_id: str, told: Progress) -> Batch:
    """The batch once it is scored. Raises SaitenError where it paused or was cancelled and would not go on."""
    batch = await backend.wait(batch_id, told)
    if batch.status != "completed":
        raise SaitenError(explain_stop(batch))
    return batch


def explain_stop(batch: Batch) -> str:
    """Why there will be no more results, and what to do."""
    done = f"{batch.counts.total - batch.counts.queued} of {batch.counts.total} candidates"
    if batch.status == "cancelled":
        return f"the batch {batch.id} was cancelled after {done}"
    why = batch.pause_detail or batch.pause_reason or "nobody said why"
    return f"the batch {batch.id} paused after {done}: {why}"


async def run_of(backend: Backend, found: Batch | Run) -> Run:
    """The run, fetched where it is a batch."""
    if isinstance(found, Run):
        return found
    lines = [line async for line in backend.client.results(found.id)]
    values = [(f"{found.id}:{number}", parse(found.id, line.encode())) for number, line in enumerate(lines, start=1)]
    name = f"{found.name} ({found.id})" if found.name else found.id
    return make_run(name, read_results(values), await backend.rubric(found.rubric_name))


async def save_results(backend: Backend, batch: Batch, path: str) -> None:
    """Writes the batch's results, one a line, to be the baseline of another day."""
    try:
        with click.open_file(path, "w", encoding="utf-8", atomic=path != "-") as file:
            async for line in backend.client.results(batch.id):
                file.write(escape_controls(line) + "\n")
    except OSError as error:
        raise InvalidItems(f"{path}: {error.strerror}") from None
