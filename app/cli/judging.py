"""The work of `saiten judges run`: a batch a judge over the same rated items, and what became of each."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import click

import saiten
from saiten.answers import Batch, EstimateReport, Info, Rating, ResultRow, Rubric
from saiten.commands.files import InvalidItems, gather_faults, name_file
from saiten.commands.items import Reading, read_whole
from saiten.commands.ratings import AS_NDJSON, RATING_VALIDATIONS_PATH, RatingFile, explaining, post_pieces
from saiten.commands.runs import SYSTEM, ItemFile, Progress, name_fault, submit, take_items, wait
from saiten.commands.service import LEXICAL
from saiten.connection import NDJSON, Connection, write_line
from saiten.core.formats import FoundItem
from saiten.core.language import mark, tell
from saiten.core.messages import Message
from saiten.core.plain_text import printable
from saiten.reading import read, read_all, read_line
from saiten_server.cli.backend import open_backend
from saiten_server.cli.reports import count
from saiten_server.core.errors import InvalidRequest

if TYPE_CHECKING:
    from saiten_server.analyses.requests import AnalysisRequest
    from saiten_server.core.reports import JudgesReport

RUN_KEY = "judges-run"
"""The entry of a batch's metadata that says what it was asked, so that a second call takes it up again."""

DEFAULT_RUBRIC = "ja-dialogue"
EXHAUSTED = "budget-exhausted"
MOST_RESPONSES_READ = 5_000
"""Responses of a rated batch that are read back, each by a request."""

Judge = tuple[str | None, str, int]
"""Model (None: the service's own), language path, and samples of each response."""


class Relay:
    """A folder whose files somebody answers, who is the judge. Nothing of a run is kept but the folder."""

    def __init__(self, path: Path) -> None:
        from saiten_server.providers.openai.relay import RelayFolder

        self._folder = RelayFolder(path)
        self._path = path

    def environment(self, scratch: str) -> dict[str, str | None]:
        """The settings of a private service whose judge is the folder, with its database in the folder `scratch`."""
        return {
            "SAITEN_JUDGE": "relay",
            "SAITEN_RELAY_FOLDER": str(self._path.absolute()),
            "DATABASE_URL": f"sqlite+aiosqlite:///{scratch}/relay.db",
            "REDIS_URL": None,
            "OPENAI_API_KEY": None,
            "OPENAI_BASE_URL": None,
        }

    def refuse_faults(self) -> None:
        """Raises InvalidItems for files that are not what was asked for: no answer counts until they are mended."""
        faults = self._folder.inspect().faults
        if faults:
            told = [(str(self._path / name), tell(RATING_FAULTS[code])) for name, code in faults]
            raise InvalidItems(gather_faults(told, len(told)))

    def refuse_unanswered(self) -> None:
        """Raises InvalidItems while questions have no answer, or files are not what was asked for."""
        self.refuse_faults()
        state = self._folder.inspect()
        if state.missing:
            raise InvalidItems(
                tell(
                    "{folder}: {missing} of {questions} questions have no answer yet. Write the whole reply to "
                    "NAME.prompt.json into NAME.answer.txt, then run the same command again; the first is {first}",
                    folder=self._path,
                    missing=len(state.missing),
                    questions=state.questions,
                    first=f"{state.missing[0]}.prompt.json",
                )
            )

    def keep(self) -> None:
        """Notes the answers of a report, so that a later change of one is seen."""
        self._folder.keep_digests()


RATING_FAULTS = {
    "foreign": mark("answers no question that is here"),
    "doubled": mark("is one of several answers to one question"),
    "unreadable": mark("is not in UTF-8, or has more than 1,000,000 bytes"),
    "edited": mark("was changed after it was read; delete answers-read.json in its folder if that is meant"),
}


class JudgesLost(saiten.SaitenError):
    """No judge is left to report on; the sentence says why, judge by judge."""

    code = "judges-lost"


@dataclass(frozen=True)
class Plan:
    """Which judges are asked, and how. `budget_usd` is for all together."""

    judges: Sequence[Judge]
    temperature: float | None = None
    rubric: str | None = None
    budget_usd: float | None = None
    only_estimate: bool = False


@dataclass(frozen=True)
class Study:
    """What every judge is asked: items with ids, and the options of their batch. `ratings` are of a file, and are to be
    posted; without them `rated` is the batch that people rated."""

    items: ItemFile
    ratings: RatingFile | None = None
    rated: Batch | None = None


@dataclass
class JudgeRun:
    """What became of a judge: its estimate, its batch, or why it has no scores. `name` is that of the scorer, and
    `options` make its batch."""

    name: str
    options: dict[str, Any]
    estimate: EstimateReport | None = None
    batch: Batch | None = None
    failure: str | None = None


async def run_judges(
    study: Study | str,
    plan: Plan,
    request: AnalysisRequest,
    url: str | None,
    progress: Progress,
    *,
    environment: Mapping[str, str | None] | None = None,
    answered: Callable[[], None] = lambda: None,
) -> tuple[JudgesReport | None, list[JudgeRun]]:
    """The report on every judge that was not lost, None where only estimates are wanted; and what became of each.
    `study` may be the id of a rated batch. `environment` is that of a private service; `answered` is called once all
    judges were asked, and may raise. Raises InvalidItems, also where the budget does not suffice, InvalidRequest,
    and JudgesLost."""
    async with open_backend(url, environment) as backend:
        service = backend.client
        info = read(Info, await service.info())
        if info.judge.baseline:
            click.echo(tell(LEXICAL), err=True)
        study = await take_batch(service, study) if isinstance(study, str) else study
        judges = [describe_judge(judge, plan, study, info) for judge in plan.judges]
        for judged in judges:
            await losing(judged, print_estimate(service, study, judged))
        share_budget(judges, plan.budget_usd)
        tell_estimate(judges, len(study.items.values))
        require_one(judges)
        await check_study(
            service, study, judges[0].options.get("rubric", DEFAULT_RUBRIC), getattr(request, "match", None)
        )
        if plan.only_estimate:
            return None, judges
        try:
            for judged in alive(judges):
                await losing(judged, begin_batch(service, study, judged))
            await post_ratings(service, study, judges)
            await asyncio.gather(*(losing(judged, finish_batch(service, judged, progress)) for judged in alive(judges)))
        except (
            asyncio.CancelledError,
            InvalidItems,
            saiten.SaitenError,
        ):  # what is left would be paid for all the same
            for batch in (judged.batch for judged in judges if judged.batch is not None):
                with suppress(saiten.SaitenError):  # it may be completed by now
                    await service.request("POST", f"/v1/batches/{quote(batch.id)}/pause", again=False)
            raise
        answered()
        require_one(judges)
        ids = [judged.batch.id for judged in alive(judges) if judged.batch is not None]
        rated = () if study.rated is None else (study.rated.id,)
        asked = request.model_copy(update={"batches": (*rated, *ids)})
        try:
            return cast("JudgesReport", await backend.analyse("judges", asked)), judges
        except saiten.ServiceRefused as error:
            if error.status in {400, 422}:
                raise InvalidRequest(Message("verbatim", text=error.detail)) from None
            raise


async def relay_judges(
    study: Study | str, plan: Plan, request: AnalysisRequest, relay: Relay, progress: Progress
) -> tuple[JudgesReport | None, list[JudgeRun]]:
    """As `run_judges`, where those who answer a folder's questions are the judge. Raises InvalidItems too where the
    folder is not in order, or not all questions have an answer: then nothing is reported."""
    relay.refuse_faults()
    with TemporaryDirectory() as scratch:
        found = await run_judges(
            study,
            plan,
            request,
            None,
            progress,
            environment=relay.environment(scratch),
            answered=relay.refuse_unanswered,
        )
    if not plan.only_estimate:
        relay.keep()
    return found


async def check_study(service: Connection, study: Study, rubric: str, match: Mapping[str, str] | None) -> None:
    """Raises InvalidItems for what would otherwise be refused once the judges have been asked, and paid: ratings that
    do not fit the rubric, and matched names that it has not."""
    if study.ratings is not None:
        with explaining(study.ratings, 0):
            content = b"".join(map(write_line, study.ratings.ratings))
            asked = {"rubric": rubric}
            await service.request("POST", RATING_VALIDATIONS_PATH, params=asked, content=content, headers=AS_NDJSON)
    if match:
        found = read(Rubric, await service.rubric(rubric))
        known = {aspect.id for aspect in found.aspects}
        known |= {one if isinstance(one, str) else str(one.get("id")) for one in found.composites}
        for name in sorted({*match, *match.values()} - known):
            raise InvalidItems(tell("--match: the rubric {rubric} has no {name}", rubric=rubric, name=repr(name[:64])))


def describe_judge(judge: Judge, plan: Plan, study: Study, info: Info) -> JudgeRun:
    """The judge with its name and the options of its batch."""
    model, path, samples = judge
    chosen = {"model": model, "samples": samples if samples > 1 else None, "temperature": plan.temperature}
    own = study.items.options
    options = {**own, "path": path, "judge": {**own.get("judge", {}), **drop_none(chosen)}}
    options |= drop_none({"rubric": plan.rubric})
    name = ", ".join(
        [
            model or info.judge.model or info.judge.kind,
            *(["translated"] if path == "english" else []),
            *([f"{samples} samples"] if samples > 1 else []),
        ]
    )
    told = json.dumps([options, [found.value for found in study.items.values]], sort_keys=True)
    key = hashlib.sha256(told.encode()).hexdigest()[:32]
    return JudgeRun(name, {**options, "name": name, "metadata": {**own.get("metadata", {}), RUN_KEY: key}})


def drop_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that there are."""
    return {name: value for name, value in values.items() if value is not None}


def alive(judges: Iterable[JudgeRun]) -> list[JudgeRun]:
    """Those that are not lost."""
    return [judged for judged in judges if judged.failure is None]


def require_one(judges: Sequence[JudgeRun]) -> None:
    """Raises JudgesLost where every judge is lost."""
    if not alive(judges):
        raise JudgesLost("; ".join(f"{judged.name}: {judged.failure}" for judged in judges))


async def losing(judged: JudgeRun, work: Any) -> None:
    """Does the work for one judge; what the service refuses loses that judge alone. Faults of the items are those of
    all, and raise InvalidItems."""
    try:
        await work
    except (saiten.ServiceRefused, saiten.BatchStopped) as error:
        judged.failure = error.detail


def make_body(study: Study, judged: JudgeRun) -> bytes:
    """The judge's batch as NDJSON."""
    return b"".join(map(write_line, [judged.options, *(found.value for found in study.items.values)]))


async def print_estimate(service: Connection, study: Study, judged: JudgeRun) -> None:
    """What the judge would take."""
    body = make_body(study, judged)
    try:
        answer = await service.request("POST", "/v1/estimates", content=body, headers={"Content-Type": NDJSON})
    except saiten.ServiceRefused as error:
        faults = [(pointer, detail) for pointer, detail in error.faults if pointer.startswith("/items")]
        if faults:
            told = [name_fault(study.items, pointer, detail) for pointer, detail in faults]
            raise InvalidItems(gather_faults(told, error.total)) from None
        raise
    judged.estimate = read(EstimateReport, answer.json())


def share_budget(judges: Sequence[JudgeRun], budget_usd: float | None) -> None:
    """Gives each judge's batch its part of the budget, by the estimates: together they cannot pass it. Raises
    InvalidItems where it does not suffice, or a price is not known."""
    if budget_usd is None:
        return
    costs = {judged.name: judged.estimate.cost_usd for judged in alive(judges) if judged.estimate is not None}
    unknown = [name for name, cost in costs.items() if cost is None]
    if unknown:
        raise InvalidItems(
            tell(
                "the price of {unknown} is not known, so no budget can be kept: add it to SAITEN_PRICES",
                unknown=", ".join(unknown),
            )
        )
    total = sum(cost for cost in costs.values() if cost is not None)
    if total > budget_usd:
        raise InvalidItems(
            tell(
                "the judges would cost up to {total:.4f} USD, more than the budget of {budget_usd:g}",
                total=total,
                budget_usd=budget_usd,
            )
        )
    for judged in alive(judges) if total else ():
        judged.options["budget_usd"] = budget_usd * (costs[judged.name] or 0.0) / total


def tell_estimate(judges: Sequence[JudgeRun], items: int) -> None:
    """Says on standard error what all would take."""
    found = [judged.estimate for judged in judges if judged.estimate is not None]
    costs = [one.cost_usd for one in found]
    cost = "an unknown price" if None in costs else f"up to {sum(cost or 0.0 for cost in costs):.4f} USD"
    click.echo(
        tell(
            "saiten: {count} of {items}: {value:,} calls, {cost}",
            count=count(len(found), "judge"),
            items=count(items, "item"),
            value=sum(one.calls for one in found),
            cost=cost,
        ),
        err=True,
    )


async def begin_batch(service: Connection, study: Study, judged: JudgeRun) -> None:
    """The judge's batch: the one that an earlier call made, taken up again, or a new one."""
    key = judged.options["metadata"][RUN_KEY]
    kept = read_all(Batch, await service.batches(**{f"metadata.{RUN_KEY}": key}))
    found = next((batch for batch in kept if batch.status != "cancelled"), None)
    if found is not None and has_little(found, judged.options.get("budget_usd")):
        # A batch keeps its budget. What its judge has answered is cached, and costs nothing in the new one.
        await service.cancel_batch(found.id)
        found = None
    judged.batch = found or await submit(service, study.items, judged.options)
    click.echo(f"saiten: {printable(judged.name)}: {judged.batch.id}", err=True)
    if found is not None and found.status == "paused":
        await service.request("POST", f"/v1/batches/{quote(found.id)}/resume", again=False)


def has_little(batch: Batch, budget_usd: float | None) -> bool:
    """Whether the batch stands still at its budget, and may cost more now."""
    if batch.status != "paused" or batch.pause_reason != EXHAUSTED or batch.budget_usd is None:
        return False
    return budget_usd is None or budget_usd > batch.budget_usd


async def post_ratings(service: Connection, study: Study, judges: Sequence[JudgeRun]) -> None:
    """Posts the ratings of a file as those of the first batch's items; in all others they count for the same
    responses."""
    first = next((judged.batch for judged in judges if judged.batch is not None), None)
    if study.ratings is not None and first is not None:
        for rating in study.ratings.ratings:
            rating["batch"] = first.id
        await post_pieces(study.ratings, service)


async def finish_batch(service: Connection, judged: JudgeRun, progress: Progress) -> None:
    """Waits for the judge's batch."""
    if judged.batch is None:
        return
    judged.batch = done = await wait(service, judged.batch.id, progress)
    if not done.counts.scored + done.counts.partial:
        judged.failure = f"not one response was scored; see the results of {done.id}"


def read_study(path: str, reading: Reading, ratings: str) -> Study:
    """The items of a file that the ratings of another concern; each has an id then. Raises InvalidItems."""
    items = take_items(name_file(path), read_whole(path, reading))
    for name in ("judge", "metadata"):
        if not isinstance(items.options.get(name, {}), dict):
            raise InvalidItems(tell("{file}: {name!r} in the options is not an object", file=items.name, name=name))
    given = RatingFile(ratings, {})
    wanted: set[str] = set()
    for rating in given.ratings:
        named = rating.get("item") if isinstance(rating, dict) else None
        if not isinstance(named, str) or rating.get("batch") is not None:
            raise InvalidItems(
                tell(
                    "{ratings}: each rating names an item of {name}, and no batch",
                    ratings=name_file(ratings),
                    name=items.name,
                )
            )
        wanted.add(named)
    numbered = [
        FoundItem(found.where, {"id": str(number), **found.value}, found.columns)
        for number, found in enumerate(items.values)
    ]
    places: dict[str, str] = {}
    for found in numbered:
        # An id that is no text is left to the service, which says so.
        if isinstance(name := found.value["id"], str) and places.setdefault(name, found.where) != found.where:
            raise InvalidItems(
                tell(
                    "{where}: has the id {name}, as {other} has",
                    where=found.where,
                    name=repr(name[:64]),
                    other=places[name],
                )
            )
    unknown = wanted - places.keys()
    if unknown == wanted:
        raise InvalidItems(
            tell("{ratings}: no rating names an item of {name}", ratings=name_file(ratings), name=items.name)
        )
    if unknown:
        raise InvalidItems(
            tell(
                "{ratings}: {name} has no item {item}",
                ratings=name_file(ratings),
                name=items.name,
                item=repr(min(unknown)[:64]),
            )
        )
    named = {name: found.value for found in numbered if isinstance(name := found.value["id"], str)}
    check_candidates(given, items.name, named)
    chosen = [found for found in numbered if not isinstance(found.value["id"], str) or found.value["id"] in wanted]
    tell_left_out(len(numbered) - len(chosen))
    return Study(ItemFile(items.name, chosen, items.options), given)


def check_candidates(ratings: RatingFile, name: str, items: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises InvalidItems for a rating of a candidate that its item has not."""
    for rating in ratings.ratings:
        candidate, responses = rating.get("candidate"), items[rating["item"]].get("responses")
        # What is no number is left to the service, which says so.
        if isinstance(candidate, int) and not (isinstance(responses, list) and candidate < len(responses)):
            raise InvalidItems(
                tell(
                    "{ratings}: the item {item} of {name} has no candidate {candidate}",
                    ratings=ratings.name,
                    name=name,
                    item=repr(rating["item"][:64]),
                    candidate=candidate,
                )
            )


def tell_left_out(count: int) -> None:
    """Says on standard error how many items no one rated."""
    if count:
        click.echo(tell("saiten: {count:,} items that no one rated are left out", count=count), err=True)


async def take_batch(service: Connection, batch_id: str) -> Study:
    """The rated responses of a batch, as they were asked for. Raises InvalidItems."""
    try:
        batch = read(Batch, await service.batch(batch_id))
    except saiten.ServiceRefused as error:
        raise InvalidItems(error.detail) from None
    rows = [read_line(ResultRow, line) async for line in service.results(batch_id)]
    by_id = {row.id: row.item for row in rows if row.id is not None}
    wanted: set[str | None] = set()
    async for page in service.ratings(batch=batch_id):
        wanted |= {rating.item or by_id.get(rating.evaluation or "") for rating in read_all(Rating, page)}
    # All candidates of an item are asked about, so that each keeps its number.
    chosen = [row for row in rows if row.item in wanted and row.id is not None]
    if not chosen:
        raise InvalidItems(
            tell("no one rated the results of {batch_id}; `saiten ratings import` keeps ratings", batch_id=batch_id)
        )
    if len(chosen) > MOST_RESPONSES_READ:
        raise InvalidItems(
            tell(
                "{count:,} results of {batch_id} are rated; {most_read:,} may be",
                count=len(chosen),
                batch_id=batch_id,
                most_read=MOST_RESPONSES_READ,
            )
        )
    tell_left_out(len(rows) - len(chosen))
    items: list[FoundItem] = []
    for row in chosen:
        asked = await read_request(service, row)
        if row.candidate is None:
            items.append(FoundItem(f"{batch_id}: {row.item}", {"id": row.item, **asked}))
        elif row.candidate and items and items[-1].value["id"] == row.item:
            items[-1].value["responses"].append(asked["response"])
        else:
            asked["responses"] = [asked.pop("response")]
            items.append(FoundItem(f"{batch_id}: {row.item}", {"id": row.item, **asked}))
    relevance = None if batch.relevance is None else batch.relevance.model_dump(mode="json")
    options: dict[str, Any] = {"rubric": batch.rubric_name, "relevance": relevance}
    if SYSTEM in batch.metadata:
        options["metadata"] = {SYSTEM: batch.metadata[SYSTEM]}
    return Study(ItemFile(batch_id, items, options), rated=batch)


ASKED_FIELDS = ("context", "response", "turns", "persona", "goal", "reference", "dialogue", "metadata")


async def read_request(service: Connection, row: ResultRow) -> dict[str, Any]:
    """What was asked about one result. Raises InvalidItems where its texts are no longer kept."""
    answer = await service.request("GET", f"/v1/evaluations/{quote(row.id or '')}", params={"include": "request"})
    asked = answer.json().get("request")
    if not isinstance(asked, dict) or not {"response", "turns"} & asked.keys():
        raise InvalidItems(
            tell("the texts of {item} are no longer kept, so no other judge can be asked", item=row.item)
        )
    return {name: asked[name] for name in ASKED_FIELDS if asked.get(name)}
