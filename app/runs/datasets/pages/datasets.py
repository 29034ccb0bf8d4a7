"""`/datasets`: what was uploaded, and `/datasets/{id}`: one dataset, to be scored, downloaded or erased."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from saiten_server.core import errors
from saiten_server.core.batch import Batch, BatchFilter, EstimateReport
from saiten_server.core.errors import InvalidRequest, SaitenError
from saiten_server.core.evaluation import PATHS
from saiten_server.core.model import digest
from saiten_server.core.rubric import Rubric
from saiten_server.governance.limits import require_money
from saiten_server.governance.policies import settle_for
from saiten_server.platform.computations import PendingComputation
from saiten_server.platform.request_limits import count_request
from saiten_server.platform.web.body import NDJSON
from saiten_server.platform.web.dependencies import Serving, may_write, note, read_cursor, write_cursor
from saiten_server.platform.web.language import query
from saiten_server.platform.web.page import (
    HEADERS,
    Form,
    PageRoute,
    Project,
    WritableProject,
    read_form,
    redirect,
    render,
)
from saiten_server.platform.web.problems import clip, faults_of, find_status, headers_of
from saiten_server.providers.registry import is_baseline
from saiten_server.runs import names as run_names
from saiten_server.runs.answers import keep_under
from saiten_server.runs.datasets.service import DatasetService
from saiten_server.runs.datasets.values import Dataset
from saiten_server.runs.intake import Intake, Spool
from saiten_server.runs.summary import SYSTEM
from saiten_server.scoring.idempotency import claimed
from saiten_server.scoring.limits import require_price

if TYPE_CHECKING:
    from saiten_server.container import Container

router = APIRouter(prefix="/datasets", include_in_schema=False, route_class=PageRoute)

DATASETS_PAGE = 50
VERSIONS = 20
SHOWN_LINES = 5
SHOWN_BYTES = 64 * 1024
DIGEST_CHARACTERS = 16
DIGEST = "dataset_digest"
"""The entry of a run's metadata that tells its dataset, beside `dataset` for people."""

SPEEDS = 5
"""Runs that are looked at for how long another one takes."""


@router.get("")
async def list_datasets(request: Request, container: Serving, project: Project) -> Response:
    """The project's datasets, newest first, and how much the project stores of what it may."""
    after = None
    with suppress(InvalidRequest):  # the first page for an invalid cursor
        after = read_cursor(request.query_params.get("cursor") or None)
    found = await container.find(DatasetService).list(project, after=after, limit=DATASETS_PAGE + 1)
    shown = found[:DATASETS_PAGE]
    last = write_cursor(shown[-1].created_at, shown[-1].id) if len(found) > DATASETS_PAGE else None
    return render(
        request,
        "datasets.html",
        datasets=shown,
        first="/datasets" if after is not None else None,
        following=query("/datasets", cursor=last) if last else None,
        stored_bytes=await container.governance.quota.used(project),
        most_bytes=container.governance.quota.most,
        may_write=may_write(request),
    )


@dataclass(frozen=True)
class RunDraft:
    """What the form for a run holds."""

    rubric: str = ""
    name: str = ""
    system: str = ""
    build: str = ""
    path: str = "source"
    samples: str = "1"
    explain: bool = True
    budget: str = ""

    def options(self, dataset: Dataset, most_metadata: int) -> dict[str, Any]:
        """The batch's options, as JSON. What is no number is sent as text, so that it is refused as any other."""
        given = {SYSTEM: self.system, "build": self.build}
        known = {"dataset": f"{dataset.name} v{dataset.version}", DIGEST: dataset.digest[:DIGEST_CHARACTERS]}
        metadata = {**{name: value for name, value in given.items() if value}, **known}
        options: dict[str, Any] = {
            "path": self.path,
            "judge": {"samples": read_decimal(self.samples), "explain": self.explain},
            "metadata": dict(list(metadata.items())[:most_metadata]),
        }
        if self.rubric:
            options["rubric"] = self.rubric
        if self.name:
            options["name"] = self.name
        if self.budget:
            options["budget_usd"] = read_decimal(self.budget)
        return options


def read_decimal(text: str) -> float | str:
    """A short decimal number, else the text."""
    if not (text.isascii() and len(text) < 16 and text.replace(".", "", 1).isdigit()):
        return text
    return int(text) if text.isdigit() else float(text)


def read_run_draft(given: Mapping[str, str], dataset: Dataset, rubrics: Sequence[Rubric]) -> RunDraft:
    """What was chosen; before that the dataset's name and, unless it is Korean, the default rubric."""
    if not given:
        known = [rubric.id for rubric in rubrics]
        default = next((name for name in ("ja-dialogue", "ja-conversation") if name in known), "")
        return RunDraft(rubric="" if dataset.korean else default, name=dataset.name)
    texts = {name: given.get(name, "") for name in ("rubric", "name", "system", "build", "budget")}
    path, samples = given.get("path") or "source", given.get("samples") or "1"
    return RunDraft(**texts, path=path, samples=samples, explain=given.get("explain") == "yes")


def rubrics_for_dataset(container: Container, dataset: Dataset) -> list[Rubric]:
    """The rubrics that can rate the dataset, those of its language first."""
    own = "ko" if dataset.korean else "ja"
    found = [rubric for rubric in container.scoring.context.rubrics.list() if rubric.unit == dataset.unit]
    return sorted(found, key=lambda rubric: rubric.source_language != own)


@router.get("/{dataset_id}")
async def show_dataset(request: Request, container: Serving, project: Project, dataset_id: str) -> Response:
    """The dataset, what scoring it would take, and the runs that did."""
    dataset = await container.find(DatasetService).find(project, dataset_id)
    asked = {name: value.strip() for name, value in request.query_params.items() if name != "kept"}
    draft = read_run_draft(asked, dataset, rubrics_for_dataset(container, dataset))
    return await render_dataset(request, container, project, dataset, draft)


async def render_dataset(
    request: Request,
    container: Container,
    project: str,
    dataset: Dataset,
    draft: RunDraft,
    *,
    error: SaitenError | None = None,
) -> Response:
    """The page; of an error its faults."""
    datasets, judge = container.find(DatasetService), container.scoring.context.judge
    estimate: EstimateReport | PendingComputation | None = None
    if draft.rubric and error is None:
        try:
            estimate = await find_estimate(container, project, dataset, draft)
        except (InvalidRequest, errors.UpstreamError) as found:
            error = found
    status = 200 if error is None or request.method == "GET" else find_status(error)
    wanted = BatchFilter(metadata={DIGEST: dataset.digest[:DIGEST_CHARACTERS]})
    versions = await datasets.list(project, name=dataset.name, limit=VERSIONS)
    page = render(
        request,
        "dataset.html",
        status,
        dataset=dataset,
        draft=draft,
        rubrics=rubrics_for_dataset(container, dataset),
        versions=[other for other in versions if other.id != dataset.id],
        sample=await read_sample(container, dataset),
        runs=await container.batches.list(project, wanted, after=None, limit=VERSIONS),
        judges_of=partial(run_names.judges_of, container),
        estimate=estimate if isinstance(estimate, EstimateReport) else None,
        computing=isinstance(estimate, PendingComputation),
        seconds_each=await measure_last_run(container, project, draft),
        paths=PATHS if container.scoring.context.translator is not None else (),
        limits=container.settings.limits,
        judge=judge,
        costs=not is_baseline(judge.kind),
        faults=[] if error is None else [(clip(where), what) for where, what in faults_of(error)[:20]],
        trouble=None if error is None else error.message,
        kept=request.query_params.get("kept", ""),
        token=secrets.token_hex(12),
        may_write=may_write(request),
    )
    if error is not None:
        page.headers.update(headers_of(error, status))
    return page


async def take_run(container: Container, project: str, dataset: Dataset, draft: RunDraft, spool: Spool) -> Intake:
    """The batch that the form asks for. Raises InvalidRequest."""
    options = draft.options(dataset, container.settings.limits.metadata_entries)
    document = container.find(DatasetService).document(dataset, options)
    intake = await container.batches.take_in(document, spool, ndjson=True)
    settled = await settle_for(project, intake.options, container.governance.policies)
    return replace(intake, options=settled)


async def find_estimate(
    container: Container, project: str, dataset: Dataset, draft: RunDraft
) -> EstimateReport | PendingComputation:
    """What the run would take, computed in the background. Raises InvalidRequest."""

    async def work() -> EstimateReport:
        async with Spool() as spool:
            return await container.batches.estimate(await take_run(container, project, dataset, draft, spool))

    key = ("estimate", dataset.id, dataset.digest, replace(draft, name="", system="", build=""))
    return await container.dashboard.computations.get(project, key, work, wait_seconds=0.5)


async def measure_last_run(container: Container, project: str, draft: RunDraft) -> float | None:
    """How long the last run by the rubric took for a response, in seconds; None without one."""
    if not draft.rubric:
        return None
    wanted = BatchFilter(rubric=draft.rubric, status="completed")
    for batch in await container.batches.list(project, wanted, after=None, limit=SPEEDS):
        if (seconds := time_of(batch)) is not None:
            return seconds / batch.counts.total
    return None


def time_of(batch: Batch) -> float | None:
    """How long the batch ran, in seconds; None where that is not known."""
    if batch.started_at is None or batch.finished_at is None or not batch.counts.total:
        return None
    return (batch.finished_at - batch.started_at).total_seconds() or None


async def read_sample(container: Container, dataset: Dataset) -> list[Mapping[str, Any]]:
    """The first items, those that are not too long to be shown."""
    async for part in container.find(DatasetService).content(dataset):
        lines = part[: SHOWN_BYTES * SHOWN_LINES].split(b"\n")[:SHOWN_LINES]
        return [json.loads(line) for line in lines if line.endswith(b"}") and len(line) <= SHOWN_BYTES]
    return []


@router.post("/{dataset_id}/runs")
async def start_run(request: Request, container: Serving, project: WritableProject, dataset_id: str) -> Response:
    """Scores the dataset and redirects to the run. A form that is sent twice starts one run."""
    form = await read_form(request)
    dataset = await container.find(DatasetService).find(project, dataset_id)
    names = ("rubric", "name", "system", "build", "path", "samples", "explain", "budget")
    draft = read_run_draft({name: form.get(name) for name in names}, dataset, ())
    try:
        await count_request(request, request.state.key)
        run_id = await accept(request, container, dataset, draft, form)
    except (InvalidRequest, errors.LimitReached, errors.UpstreamError) as error:
        return await render_dataset(request, container, project, dataset, draft, error=error)
    return redirect(f"/runs/{run_id}")


async def accept(request: Request, container: Container, dataset: Dataset, draft: RunDraft, form: Form) -> str:
    """The id of the run, which is stored."""
    project: str = request.state.project
    options = draft.options(dataset, container.settings.limits.metadata_entries)
    token, body = form.get("token")[:64], digest(json.dumps([dataset.id, options]))
    key = f"page:{token}:{body[:32]}" if token.isascii() and token.isalnum() else None
    async with claimed(request, container.scoring.evaluations, key, body) as replayed:
        if replayed is not None:
            return str(json.loads(bytes(replayed.body))["id"])
        async with Spool() as spool:
            intake = await take_run(container, project, dataset, draft, spool)
            await require_money(request)
            require_price(request, intake.options.rubric, intake.options.judge)
            keep = partial(keep_under, request, key) if key else None
            payer = request.state.key
            batch = await container.batches.accept(project, intake, keep, api_key=None if payer is None else payer.id)
            return batch.id


@router.get("/{dataset_id}/items")
async def download_items(request: Request, container: Serving, project: Project, dataset_id: str) -> Response:
    """The items as NDJSON."""
    dataset = await container.find(DatasetService).find(project, dataset_id)
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{dataset.id}.ndjson"'}
    return StreamingResponse(container.find(DatasetService).content(dataset), headers=headers, media_type=NDJSON)


@router.get("/{dataset_id}/delete")
async def ask_before_erasure(
    request: Request, container: Serving, project: WritableProject, dataset_id: str
) -> Response:
    """Says what would be lost."""
    return render(
        request, "dataset_delete.html", dataset=await container.find(DatasetService).find(project, dataset_id)
    )


@router.post("/{dataset_id}/delete")
async def erase_dataset(request: Request, container: Serving, project: WritableProject, dataset_id: str) -> Response:
    """Removes the dataset. Runs that scored it stay."""
    await read_form(request)
    await container.find(DatasetService).erase(project, dataset_id)
    await note(request, container, "dataset.erased", dataset_id)
    return redirect("/datasets")
