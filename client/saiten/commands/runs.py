"""The runs of a gate: existing batches, files of results, and files of items that are scored first."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import quote

import click
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from saiten.answers import Baselines, Batch, GateSequence
from saiten.commands.files import InvalidItems, Placed, gather_faults, name_file, parse
from saiten.commands.gate_settings import GateSettings
from saiten.commands.items import Reading, holds_options, read_whole
from saiten.commands.results import write_whole
from saiten.connection import Connection, see_through
from saiten.core.errors import BatchStopped, SaitenError, ServiceRefused
from saiten.core.faults import explain
from saiten.core.formats import FoundItem
from saiten.core.language import say, tell
from saiten.core.plain_text import escape_controls, printable
from saiten.core.wording import lift, read_signature
from saiten.reading import read
from saiten.waiting import read_object

VERSION = re.compile("[1-9][0-9]{0,8}")

RubricAnswer = dict[str, Any]
"""As the service answers it."""


RESULT_STATUSES = ("scored", "partial", "failed")
NOT_FOUND = 404
SYSTEM = "system"


class ResultPart(BaseModel):
    """A part of a result. Fields that a later version may add are ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False, hide_input_in_errors=True)


class RubricPart(ResultPart):
    id: str
    version: int | None = None

    @property
    def name(self) -> str:
        return self.id if self.version is None else f"{self.id}@{self.version}"


class UnratedPart(ResultPart):
    reason: str


class WarningPart(ResultPart):
    code: str


class AspectPart(ResultPart):
    mean: float | None
    blended: float | None = None
    unrated: UnratedPart | None = None
    reason: str | None = Field(default=None, exclude=True)


class ExplainedPart(ResultPart):
    rating: int | None = None
    reason: str | None = None


class ExplanationPart(ResultPart):
    aspects: dict[str, ExplainedPart] = Field(default_factory=dict)


class FindingPart(ResultPart):
    turn: int
    code: str | None = None
    kind: str | None = None
    detail: str = ""


class SaidPart(ResultPart):
    text: str


class ResultLine(ResultPart):
    """The fields of a result that a run needs, and those that its worst cases are told by.

    A failed one has no aspects and, in a batch, no rubric.
    """

    status: str
    item: str | None = None
    position: int | None = None
    candidate: int | None = None
    ids_given: bool | None = None
    rubric: RubricPart | None = None
    aspects: dict[str, AspectPart] = Field(default_factory=dict)
    composites: dict[str, float | None] = Field(default_factory=dict)
    signature: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    dialogue: str | None = None
    cluster: str | None = None
    context_digest: str | None = None
    system_turns: int | None = None
    warnings: list[WarningPart] = Field(default_factory=list)
    findings: list[Any] | None = None
    kinds: dict[str, int] | None = None
    id: str | None = Field(default=None, exclude=True)
    context: tuple[SaidPart, ...] = Field(default=(), exclude=True, strict=False)
    response: str | None = Field(default=None, exclude=True)
    explained: ExplanationPart | None = Field(default=None, exclude=True)

    @property
    def found(self) -> list[FindingPart]:
        """The findings that have what a case is told by."""
        return [FindingPart.model_validate(one) for one in self.findings or ()]


def is_result(value: object) -> bool:
    """Whether this is a result, rather than an item to be scored."""
    if not isinstance(value, dict) or "status" not in value:
        return False
    if "context" in value and not {"aspects", "error"} & value.keys():  # with texts, a result has a context too
        return False
    return not isinstance(value["status"], str) or value["status"] in RESULT_STATUSES


def read_results(values: Sequence[Placed]) -> list[ResultLine]:
    """Every result. Raises InvalidItems that names the line and the field."""
    return [parse_result(where, value) for where, value in values]


def parse_result(where: str, value: object) -> ResultLine:
    """One result; raises InvalidItems where it is none."""
    if not is_result(value):
        raise InvalidItems(
            tell(
                "{where}: this is not a result of `saiten score` or of a batch, as the lines before it are", where=where
            )
        )
    try:
        found = ResultLine.model_validate(value)
    except ValidationError as error:
        pointer, detail = explain(error, value)[0]
        raise InvalidItems(f"{where}: {pointer or tell('the result')}: {say(detail)}") from None
    if found.status != "failed" and not (found.aspects and found.rubric):
        raise InvalidItems(tell("{where}: this result has no aspects or names no rubric", where=where))
    return found


def find_shared_rubric(name: str, results: Sequence[ResultLine]) -> str | None:
    """The rubric that all results are by, with its version; None where all failed. Raises InvalidItems for several."""
    found = {result.rubric.name for result in results if result.rubric is not None}
    # A result that failed before it was judged names no version.
    versioned = {split_name(each)[0] for each in found if split_name(each)[1] is not None}
    names = sorted(found - versioned)
    if len(names) > 1:
        raise InvalidItems(
            tell("{name}: it holds results by the rubrics {names}; a run has one", name=name, names=", ".join(names))
        )
    return names[0] if names else None


def split_name(name: str) -> tuple[str, str | None]:
    """Id and version of `id@version`; any other name with None."""
    rubric_id, _, version = name.partition("@")
    return (rubric_id, version) if VERSION.fullmatch(version) else (name, None)


async def fetch_rubric(service: Connection, name: str) -> RubricAnswer:
    """The rubric named `id` or `id@version`; its newest version where that version no longer exists."""
    rubric_id, version = split_name(name)
    try:
        return await service.rubric(name)
    except ServiceRefused:
        if version is None:
            raise
        return await service.rubric(rubric_id)


def name_rubric(rubric: RubricAnswer) -> str:
    """`id@version`."""
    return f"{rubric.get('id')}@{rubric.get('version')}"


LATEST = "latest:"
BATCH = re.compile("ba_[0-9a-f]+")
ITEM_POINTER = re.compile(r"/items/(\d+)(/.*)?")
RESULT_POINTER = re.compile(r"/(?:candidate|baseline)/results/(\d+)(/.*)?")
LINE = re.compile(r"^(line \d+|\d+ 行目|\d+행): ")
"""A line of the batch, in each language in which the service says it."""

SourceRole = Literal["candidate", "baseline"]
Progress = Callable[[Batch], None]


@dataclass(frozen=True)
class ItemFile:
    """A file of items to be scored: each with its place in the file. `options` are a batch's, from a first line."""

    name: str
    values: Sequence[FoundItem]
    options: dict[str, Any]


@dataclass(frozen=True)
class Results:
    """A run of results, by this rubric; `places` says where each stands."""

    name: str
    lines: Sequence[ResultLine]
    rubric: RubricAnswer
    places: Sequence[str] = ()

    @property
    def rubric_name(self) -> str:
        """The rubric that the signatures name, with its version; empty where they name several, or none."""
        signatures = {line.signature for line in self.lines if line.signature is not None}
        names = {read_signature(signature).get("rubric", "") for signature in signatures}
        return names.pop() if len(names) == 1 else ""

    @property
    def metadata(self) -> dict[str, str]:
        """What all results say of themselves."""
        common = [set(line.metadata.items()) for line in self.lines]
        return dict(sorted(set.intersection(*common))) if common else {}

    @property
    def lacks_turns(self) -> bool:
        """Whether a conversation does not tell how many turns the system has, as in files of earlier releases."""
        return any(line.findings is not None and line.system_turns is None for line in self.lines)

    def options(self) -> dict[str, Any]:
        """The run as a gate names it, whose results follow."""
        return {"name": self.name, "rubric": name_rubric(self.rubric)}

    def write(self, role: SourceRole) -> Iterator[dict[str, Any]]:
        """What of the results counts, a line each."""
        return ({"run": role, **line.model_dump(mode="json", exclude_defaults=True)} for line in self.lines)

    def place(self, pointer: str) -> str | None:
        """Where in the file a part of the results is that a pointer names; None where it names none."""
        found = RESULT_POINTER.fullmatch(pointer)
        if found is None or int(found[1]) >= len(self.places):
            return None
        return f"{self.places[int(found[1])]}: {found[2]}" if found[2] else self.places[int(found[1])]


FoundRun = Batch | Results | ItemFile


async def find_run(service: Connection, written: str, role: SourceRole, settings: GateSettings) -> FoundRun:
    """What `candidate` or `baseline` names; nothing is scored yet. Raises InvalidItems."""
    if not written.strip():
        raise InvalidItems(tell("the {role} is named by an empty text; is a variable of this job not set?", role=role))
    if BATCH.fullmatch(written):
        try:
            return read(Batch, await service.batch(written))
        except ServiceRefused as error:
            raise InvalidItems(f"{role} {written}: {error.detail}") from None
    if written.startswith(LATEST):
        name = written.removeprefix(LATEST)
        found = await service.batches(name=name, status="completed", limit="1") if name else []
        if not found:
            raise InvalidItems(
                tell(
                    "{role} {written}: there is no completed batch of that name",
                    role=role,
                    written=printable(written[:128]),
                )
            )
        return read(Batch, found[0])
    name, values = name_file(written), read_item_file(written, role, settings)
    if not is_result(values[0].value):
        return take_items(name, values)
    results = read_results([(found.where, found.value) for found in values])
    rubric = await fetch_rubric(service, find_shared_rubric(name, results) or settings.rubric)
    return Results(name, results, rubric, [found.where for found in values])


async def find_pinned(service: Connection, candidate: FoundRun, settings: GateSettings) -> Batch | None:
    """The baseline that is pinned for the candidate's name, where a rule needs one, as the service chooses it for
    batches; None where there is none. Prints which."""
    if isinstance(candidate, Results):
        return None
    own = options_of(candidate, settings) if isinstance(candidate, ItemFile) else candidate.model_dump()
    compares = not settings.rules or any(
        isinstance(one, dict) and (one.get("max_drop"), one.get("max_rise")) != (None, None) for one in settings.rules
    )
    pinned = await read_pin(service, str(own["name"])) if compares and own.get("name") else None
    found = None if pinned is None else read(Batch, await service.batch(pinned))
    metadata = own.get("metadata")
    system = metadata.get(SYSTEM) if isinstance(metadata, dict) else None
    if system is None and isinstance(candidate, ItemFile):
        system = find_shared(candidate).get(SYSTEM)
    if found is None or found.metadata.get(SYSTEM) != system:
        return None
    if isinstance(candidate, Batch) and (candidate.id == found.id or candidate.rubric_name != found.rubric_name):
        return None
    click.echo(tell("baseline: {id}, which is pinned for this name", id=found.id), err=True)
    return found


def find_shared(items: ItemFile) -> dict[str, str]:
    """What the items say alike of their run, as the service finds it."""
    shared: dict[str, str] | None = None
    for found in items.values:
        metadata = found.value.get("metadata")
        shared = lift(shared, metadata if isinstance(metadata, dict) else {})
    return shared or {}


async def find_sequence_baseline(service: Connection, name: str) -> Batch | None:
    """The baseline of the sequence; None where it is not begun yet. Prints which."""
    try:
        answer = await service.request("GET", f"/v1/sequences/{quote(name, safe='')}")
    except ServiceRefused as error:
        if error.status != NOT_FOUND:
            raise
        return None
    found = read(Batch, await service.batch(read(GateSequence, read_object(answer)).baseline))
    click.echo(tell("baseline: {id}, that of the sequence {name}", id=found.id, name=printable(name)), err=True)
    return found


async def read_pin(service: Connection, name: str) -> str | None:
    """The batch that is pinned for the name; None where there is none, also by a service older than baselines."""
    try:
        pins = read(Baselines, read_object(await service.request("GET", "/v1/baselines"))).items
    except ServiceRefused as error:
        if error.status != NOT_FOUND:
            raise
        return None
    return next((one.batch for one in pins if one.name == name), None)


def read_item_file(path: str, role: SourceRole, settings: GateSettings) -> list[FoundItem]:
    """The items or results of a file. Raises InvalidItems, for an empty file too."""
    try:
        reading = reading_of(settings)
        if role == "baseline":
            reading = replace(reading, where={})
        return read_whole(path, reading, beside=is_result)
    except InvalidItems as error:
        hint = tell("; `saiten gate --record` makes one") if role == "baseline" and not os.path.exists(path) else ""
        raise InvalidItems(printable(error.message) + hint) from None


def reading_of(settings: GateSettings) -> Reading:
    """How files of items are to be read."""
    where = {column: [one] if isinstance(one, str) else one for column, one in settings.where.items()}
    return Reading(settings.source, settings.map, settings.input_encoding, where)


def take_items(name: str, values: Sequence[FoundItem]) -> ItemFile:
    """The items, with the options of a batch from the first line where it holds them, as for POST /v1/batches."""
    if holds_options(values):
        return ItemFile(name, values[1:], values[0].value)
    return ItemFile(name, values, {})


def options_of(items: ItemFile, settings: GateSettings) -> dict[str, Any]:
    """The options of the batch that the items become: the settings take precedence over the first line."""
    chosen: dict[str, Any] = settings.model_dump(
        include={"name", "rubric", "path", "judge", "metadata", "budget_usd"} & settings.model_fields_set,
        exclude_none=True,
    )
    if not settings.relevance:
        chosen["relevance"] = None
    return {**items.options, **chosen}


async def score_run(
    service: Connection, found: FoundRun, settings: GateSettings, progress: Progress
) -> Batch | Results:
    """The run, scored: items become a batch, and a batch is waited for. Raises InvalidItems, SaitenError."""
    if isinstance(found, Results):
        return found
    if isinstance(found, Batch):
        return await wait(service, found.id, progress)
    batch = await submit(service, found, options_of(found, settings))
    try:
        return await wait(service, batch.id, progress)
    except asyncio.CancelledError:
        # Interrupted, or out of time: these scores are no longer needed, and they cost money.
        click.echo(await cancel(service, batch.id), err=True)
        raise


async def cancel(service: Connection, batch_id: str) -> str:
    """What became of a batch that is no longer wanted."""
    try:
        await service.cancel_batch(batch_id)
    except SaitenError as error:
        if error.code == "batch-finished":
            return tell("saiten: the batch {id} was completed", id=batch_id)
        return tell("saiten: the batch {id} could not be cancelled: it goes on; cancel it on its page", id=batch_id)
    return tell("saiten: the batch {id} is cancelled", id=batch_id)


async def submit(service: Connection, items: ItemFile, options: dict[str, Any]) -> Batch:
    """Posts the items as a batch. Raises InvalidItems that names their places in the file."""
    lines = [options, *(found.value for found in items.values)]
    body = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
    try:
        return read(Batch, await see_through(service.post_batch(body), undo=service.cancel_batch))
    except ServiceRefused as error:
        if not error.faults:
            raise
        faults = [name_fault(items, pointer, detail) for pointer, detail in error.faults]
        raise InvalidItems(gather_faults(faults, error.total)) from None


def name_fault(items: ItemFile, pointer: str, detail: str) -> tuple[str, str]:
    """The place of a fault in the file instead of in the batch made from it, and the fault."""
    found = ITEM_POINTER.fullmatch(pointer)
    if found is None or int(found[1]) >= len(items.values):
        return f"{items.name}: {pointer or tell('the batch')}", LINE.sub("", detail)
    return items.values[int(found[1])].place(found[2] or ""), LINE.sub("", detail)


async def wait(service: Connection, batch_id: str, progress: Progress) -> Batch:
    """The batch once it is scored. Raises BatchStopped where it was paused or cancelled."""
    done = read(Batch, await service.wait(batch_id, progress=lambda state: progress(read(Batch, state))))
    if done.status != "completed":
        raise BatchStopped(explain_stop(done), done.id)
    return done


def explain_stop(batch: Batch) -> str:
    """Why there will be no more results."""
    done, total = batch.counts.total - batch.counts.queued, batch.counts.total
    if batch.status == "cancelled":
        return tell(
            "the batch {id} was cancelled after {done} of {total} candidates", id=batch.id, done=done, total=total
        )
    why = batch.pause_detail or batch.pause_reason or tell("the reason is unknown")
    return tell(
        "the batch {id} paused after {done} of {total} candidates: {why}", id=batch.id, done=done, total=total, why=why
    )


async def fetch_results(service: Connection, batch: Batch) -> Results:
    """The results of a batch."""
    lines = [line async for line in service.results(batch.id)]
    values = [(f"{batch.id}:{number}", parse(batch.id, line.encode())) for number, line in enumerate(lines, start=1)]
    name = f"{batch.name} ({batch.id})" if batch.name else batch.id
    return Results(name, read_results(values), await fetch_rubric(service, batch.rubric_name))


async def save_results(service: Connection, batch: Batch, path: str, items: ItemFile | None = None) -> None:
    """Writes the batch's results as NDJSON, for use as a later baseline; with the texts of `items`, of which they are,
    so that a later gate can show both responses."""
    texts = [*list_texts(items)] if items is not None else []
    with write_whole(path) as file:
        async for line in service.results(batch.id):
            if texts:
                result = parse(batch.id, line.encode())
                line = json.dumps(result | texts[result["position"]], ensure_ascii=False)  # noqa: PLW2901
            file.write((escape_controls(line) + "\n").encode())


def list_texts(items: ItemFile) -> Iterator[dict[str, Any]]:
    """Context and response of each candidate, in their order; nothing of conversations."""
    for found in items.values:
        context = found.value.get("context")
        responses = found.value.get("responses") or [found.value.get("response")]
        yield from ({"context": context, "response": one} if context else {} for one in responses)
