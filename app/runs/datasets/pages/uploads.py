"""`/datasets/new` and `/datasets/uploads/{id}`: a file is uploaded, looked at, and kept as a dataset."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from saiten_server.core.errors import InvalidRequest, NotFound, SaitenError
from saiten_server.platform.computations import PendingComputation
from saiten_server.platform.request_limits import count_request
from saiten_server.platform.web.body import Upload, require_media_type, while_connected
from saiten_server.platform.web.dependencies import Serving
from saiten_server.platform.web.language import language_of, mark, query
from saiten_server.platform.web.page import (
    Form,
    PageRoute,
    WritableProject,
    read_form,
    redirect,
    render,
    require_same_origin,
)
from saiten_server.platform.web.problems import RequestRefused
from saiten_server.runs.datasets.service import PART_BYTES, DatasetService, check_name, dataset_name_of
from saiten_server.runs.datasets.values import FileQuestion, FileReport, UploadedFile
from saiten_server.runs.intake import translate_errors

if TYPE_CHECKING:
    from saiten_server.container import Container
from saiten.core.messages import Message

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MULTIPART = "multipart/form-data"
UPLOAD_BYTES = 64_000_000
FORM_BYTES = 64 * 1024
"""What may stand around the file."""

MOST_FILE_NAME = 255
READING_WAIT_SECONDS = 1.5
"""How long a page waits for a file to be read. Most take less than a second."""

ENCODINGS = {
    "utf-8": "UTF-8",
    "utf-16": "UTF-16",
    "cp932": "CP932 (Shift_JIS)",
    "euc-jp": "EUC-JP",
    "cp949": "CP949 (EUC-KR)",
}
TARGETS = {
    "context": mark("Dialogue context"),
    "response": mark("Response"),
    "reference": mark("Reference"),
    "id": mark("Item id"),
    "dialogue": mark("Dialogue"),
    "metadata.system": mark("System"),
}
"""Fields of an item to which a column may be mapped, by what they are called."""

TROUBLES = {
    "slow": mark("It takes too long to read. Save it as CSV or NDJSON, or use the command saiten convert."),
    "damaged": mark("It is damaged, or needs more memory than there is for it."),
    "too-many": mark("It has more items than a run may have. Divide it."),
    "too-much": mark("Its items are too large together. Divide it."),
    "expands": mark("Its items take a hundred times as much room as the file. Save it as CSV or NDJSON."),
    "columns": mark("No column is known as context or response. Choose below which column is what."),
    "encoding": mark("Its encoding was not recognised, or is another one in some lines. Choose it below."),
}
"""What a page says of the troubles of a file."""

LONG_TARGETS = {"turn": mark("Number of the turn"), "speaker": mark("Speaker"), "text": mark("Text")}
"""Those of a table with one row per utterance."""

TIMES = {"context": 3}
"""How many columns a field may have, where it is more than one."""


@router.get("/datasets/new")
async def show_upload_form(request: Request, container: Serving, project: WritableProject) -> Response:
    """The form for a file."""
    return render_upload(request, container)


@router.post("/datasets/new")
async def receive_file(request: Request, container: Serving, project: WritableProject) -> Response:
    """Stores the file for the time in which it is looked at, and redirects to what it holds."""
    require_same_origin(request)
    await count_request(request, request.state.key)
    try:
        file = await read_upload(request, most_bytes(container))
    except RequestRefused as error:
        if error.status != HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            raise
        page = render_upload(request, container, too_large=True)
        page.headers["Connection"] = "close"  # the rest of the file is not read
        return page
    if file is None:
        return render_upload(request, container, missing=True)
    try:
        name = read_file_name(file.filename or "")
        upload_id = await container.find(DatasetService).upload(project, name, pieces_of(file))
    finally:
        await file.close()
    return redirect(f"/datasets/uploads/{upload_id}")


def render_upload(
    request: Request, container: Container, *, missing: bool = False, too_large: bool = False
) -> Response:
    """The form, with what was wrong."""
    status = 413 if too_large else 422 if missing else 200
    most = most_bytes(container)
    return render(request, "upload_new.html", status, missing=missing, too_large=too_large, most_bytes=most)


def most_bytes(container: Container) -> int:
    """The largest file."""
    return min(UPLOAD_BYTES, container.settings.limits.batch_bytes)


async def read_upload(request: Request, most: int) -> UploadFile | None:
    """The file of the form; None without one. Raises RequestRefused: 413 for one that is too large, and as `Upload`
    does; InvalidRequest for a body that is no form, StoreFull and StoreError."""
    require_media_type(request.headers, MULTIPART)
    body = Upload(request, MULTIPART, maximum=most + FORM_BYTES)
    refused: list[SaitenError] = []

    async def stream() -> AsyncGenerator[bytes, None]:
        try:
            async for piece in body:
                yield piece
        except SaitenError as error:
            refused.append(error)
            raise MultiPartException("refused") from error  # for which the parser closes its temporary files

    parser = MultiPartParser(request.headers, stream(), max_files=1, max_fields=8, max_part_size=FORM_BYTES)
    try:
        with translate_errors():
            form = await parser.parse()
    except MultiPartException:
        if refused:
            raise refused[0] from None
        raise InvalidRequest(Message("form-unreadable")) from None
    file = form.get("file")
    if isinstance(file, UploadFile) and 0 < (file.size or 0) <= most:
        return file
    await form.close()
    if isinstance(file, UploadFile) and file.size:
        raise RequestRefused(413, "body-too-large", Message("file-upload-bytes-most", maximum=most))
    return None


async def pieces_of(file: UploadFile) -> AsyncIterator[bytes]:
    """The file, piece by piece."""
    while piece := await file.read(PART_BYTES):
        yield piece


def read_file_name(given: str) -> str:
    """The file's name without folders, on one line."""
    name = PurePosixPath(given.replace("\\", "/")).name
    return "".join(filter(str.isprintable, name)).strip()[-MOST_FILE_NAME:] or "file"


def read_question(request: Request, given: Any) -> FileQuestion:
    """How the file is to be read, as the address or form says; what is not known is ignored."""
    encoding, source = given("encoding"), given("source")
    mapping = [
        (target, column)
        for target in (*TARGETS, *LONG_TARGETS)
        for number in range(TIMES.get(target, 1))
        if (column := given(name_field(target, number)))
    ]
    return FileQuestion(
        encoding=encoding if encoding in ENCODINGS else "",
        source=source if source in list_sources() else "",
        mapping=tuple(dict.fromkeys(mapping)),
        language=language_of(request),
    )


def name_field(target: str, number: int) -> str:
    """The form's field for the field of an item, and the number of its column."""
    return f"map.{target}" + (f".{number + 1}" if number else "")


def list_sources() -> tuple[str, ...]:
    """The formats that a file can be of."""
    from saiten.core.formats import SOURCES  # loads what reads files, which no other page needs

    return SOURCES


def address_of(upload: UploadedFile, asked: FileQuestion) -> str:
    """The page of the file, read so."""
    return query(f"/datasets/uploads/{upload.id}", **write_question(asked))


def write_question(asked: FileQuestion) -> dict[str, str]:
    """The fields of a form that asks so."""
    fields = {"encoding": asked.encoding, "source": asked.source}
    counts: dict[str, int] = {}
    for target, column in asked.mapping:
        number = counts[target] = counts.get(target, -1) + 1
        fields[name_field(target, number)] = column
    return {name: value for name, value in fields.items() if value}


@router.get("/datasets/uploads/{upload_id}")
async def show_upload(request: Request, container: Serving, project: WritableProject, upload_id: str) -> Response:
    """What the file holds, and which column is what. Redirects to the dataset where the file was kept."""
    asked = read_question(request, lambda name: request.query_params.get(name, "").strip())
    try:
        upload = await container.find(DatasetService).find_upload(project, upload_id)
        return await show_report(request, container, project, upload, asked)
    except NotFound as error:
        return await lead_to_kept(container, project, upload_id, error)


@router.post("/datasets/uploads/{upload_id}")
async def keep_upload(request: Request, container: Serving, project: WritableProject, upload_id: str) -> Response:
    """Keeps the items as a dataset and redirects to it, or throws the file away. A form that is sent twice leads to the
    dataset that it made."""
    form = await read_form(request)
    await count_request(request, request.state.key)
    try:
        return await keep_or_discard(request, container, project, upload_id, form)
    except NotFound as error:
        return await lead_to_kept(container, project, upload_id, error)


async def lead_to_kept(container: Container, project: str, upload_id: str, error: NotFound) -> Response:
    """Redirects to the dataset that the file became; raises the error where it became none."""
    dataset = await container.find(DatasetService).find_kept(project, upload_id)
    if dataset is None:
        raise error
    return redirect(query(f"/datasets/{dataset.id}", kept="new"))


async def keep_or_discard(request: Request, container: Container, project: str, upload_id: str, form: Form) -> Response:
    """Does with the file what the form says. Raises NotFound where it is gone, also meanwhile."""
    datasets = container.find(DatasetService)
    upload = await datasets.find_upload(project, upload_id)
    if form.get("action") == "discard":
        await datasets.store.discard(upload.id)
        return redirect("/datasets")
    asked = read_question(request, form.get)
    try:
        name = check_name(form.get("name"), container.settings.limits)
    except InvalidRequest as error:
        return await show_report(request, container, project, upload, asked, name=form.get("name"), fault=error.message)
    kept = await while_connected(request, datasets.keep(project, upload, asked, name))
    if isinstance(kept, FileReport):
        return redirect(address_of(upload, asked))
    dataset, is_new = kept
    return redirect(query(f"/datasets/{dataset.id}", kept="new" if is_new else "same"))


async def show_report(
    request: Request,
    container: Container,
    project: str,
    upload: UploadedFile,
    asked: FileQuestion,
    *,
    name: str | None = None,
    fault: Message | None = None,
) -> Response:
    """The page of the file."""
    datasets = container.find(DatasetService)
    key = ("upload", upload.id, asked)
    found = await container.dashboard.readings.get(
        project, key, lambda: datasets.look(project, upload, asked), wait_seconds=READING_WAIT_SECONDS
    )
    report = found if isinstance(found, FileReport) else None
    return render(
        request,
        "upload.html",
        422 if fault else 200,
        upload=upload,
        report=report,
        computing=isinstance(found, PendingComputation),
        asked=asked,
        fields=write_question(asked),
        troubles=TROUBLES,
        selects=list_selects(asked, TARGETS),
        long_selects=list_selects(asked, LONG_TARGETS),
        is_unsure=report is not None and is_unsure(report, asked),
        encodings=ENCODINGS,
        sources=list_sources(),
        name=dataset_name_of(upload.name, container.settings.limits) if name is None else name,
        fault=fault,
        name_characters=container.settings.limits.name_characters,
    )


def list_selects(asked: FileQuestion, targets: dict[str, str]) -> list[tuple[str, str, int, str]]:
    """(field of the form, message id, number from 1 or 0 for the only one, chosen column) of each select."""
    chosen = write_question(asked)
    return [
        (name_field(target, number), label, number + 1 if TIMES.get(target, 1) > 1 else 0, field)
        for target, label in targets.items()
        for number in range(TIMES.get(target, 1))
        for field in [chosen.get(name_field(target, number), "")]
    ]


def is_unsure(report: FileReport, asked: FileQuestion) -> bool:
    """Whether someone should look at the columns: nothing came of the file, rows were skipped, or something was chosen
    already."""
    return bool(report.trouble or not report.items or report.skips or asked.mapping or asked.encoding or asked.source)
