"""`/rate`: all rating rounds, and the form that starts one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from saiten_server.core.batch import Batch, BatchFilter
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import InvalidRequest, NotFound, SaitenError, UnknownRubric
from saiten_server.core.rubric import Rubric
from saiten_server.core.validation import InvalidDocument, validate
from saiten_server.platform.web.dependencies import Serving, may_write
from saiten_server.platform.web.language import mark
from saiten_server.platform.web.page import PageRoute, Project, WritableProject, read_form, redirect, render
from saiten_server.ratings.requests import ITEM_CHOICES, NAME_NEEDED, WHOLE_NUMBER, RatingFault, parse_integer
from saiten_server.ratings.values import MOST_ITEMS, MOST_JUDGES, MOST_RUNS, PairOptions, RoundOptions
from saiten_server.runs.names import build_of, system_of
from saiten_server.scoring.rubrics.files import find_rubric

if TYPE_CHECKING:
    from saiten_server.container import Container

router = APIRouter(include_in_schema=False, route_class=PageRoute)

RECENT = 50
"""Completed runs that the form offers; others can be given in the address."""

MOST_POSITIONS_CHARACTERS = 20_000
"""Characters of a parameter: the places of as many responses as a round takes."""

MOST_ROUNDS = 100
"""Rounds in the list."""


@router.get("/rate")
async def show_rounds(request: Request, container: Serving, project: Project) -> Response:
    """All rounds, and the form for another."""
    asked = {
        name: request.query_params.get(name, "").strip()[:MOST_POSITIONS_CHARACTERS]
        for name in ("run", "positions", "choose", "aspect")
    }
    given = {**dict.fromkeys(RoundOptions.model_fields, ""), **asked}
    return await show_list(request, container, project, given, {})


@router.post("/rate")
async def start_round(request: Request, container: Serving, project: WritableProject) -> Response:
    """Starts a round and redirects to it."""
    form, faults = await read_form(request), dict[str, RatingFault]()
    given = {name: form.get(name) for name in ("run", *RoundOptions.model_fields)}
    given["judges"] = ",".join(form.all("judges")[: MOST_JUDGES + 1])
    options = read_round_options(given, request.app.state.limits, faults)
    if not given["run"]:
        faults["run"] = RatingFault(mark("Choose a run."), {})
    if options is not None and not faults:
        try:
            opened = await container.ratings.rounds.open(project, given["run"], options)
        except (NotFound, InvalidRequest) as error:
            field_name = (error.pointer or "").removeprefix("/")
            if field_name in WRONG_CHOICE:
                faults[field_name] = describe_fault(field_name, request.app.state.limits)
                return await show_list(request, container, project, given, faults)
            faults["run"] = RatingFault(next(message for kind, message in RUN_REFUSALS if isinstance(error, kind)), {})
        else:
            return redirect(f"/rate/{opened.id}")
    return await show_list(request, container, project, given, faults)


@dataclass(frozen=True)
class PairForm:
    """The fields of a round of pairs as they were sent, and their faults."""

    given: Mapping[str, str]
    runs: Sequence[str]
    faults: Mapping[str, RatingFault] = field(default_factory=dict)


@router.post("/rate/pairs")
async def start_pairs(request: Request, container: Serving, project: WritableProject) -> Response:
    """Starts a round in which people compare pairs, and redirects to it."""
    form = await read_form(request)
    given = {name: form.get(name) for name in PAIR_FIELDS}
    runs = form.all("runs")[: MOST_RUNS + 1]
    document: dict[str, Any] = {
        name: parse_integer(given[name]) for name in PAIR_FIELDS if name != "name" and given[name]
    }
    faults: dict[str, RatingFault] = {}
    try:
        asked = {"kind": "preference", "name": given["name"], "runs": runs, **document}
        opened = await container.ratings.pairs.open(project, validate(PairOptions, asked, request.app.state.limits))
    except InvalidDocument as error:
        for where, _ in error.faults:
            faults[where.split("/")[1]] = describe_pair_fault(where.split("/")[1], request.app.state.limits)
    except (NotFound, InvalidRequest) as error:
        no_common = isinstance(error, InvalidRequest) and error.message.id != "round-rubrics-differ"
        faults["runs"] = RatingFault(NO_COMMON if no_common else WRONG_RUNS, {"most": MOST_RUNS})
    else:
        return redirect(f"/rate/{opened.id}")
    empty = dict.fromkeys(("run", *RoundOptions.model_fields), "")
    return await show_list(request, container, project, empty, {}, pairs=PairForm(given, runs, faults))


PAIR_FIELDS = ("name", "items", "raters_per_item", "items_per_rater", "seed")
PAIR_DEFAULTS = {"name": "", "items": "100", "raters_per_item": "3", "items_per_rater": "", "seed": "0"}
WRONG_RUNS = mark("Choose two to %(most)s runs of one rubric.")
NO_COMMON = mark("These runs have no different responses to the same items, so there is nothing to compare.")


def describe_pair_fault(name: str, limits: Limits) -> RatingFault:
    """What the field takes."""
    return RatingFault(WRONG_RUNS, {"most": MOST_RUNS}) if name == "runs" else describe_fault(name, limits)


async def show_list(
    request: Request,
    container: Container,
    project: str,
    given: Mapping[str, str],
    faults: Mapping[str, RatingFault],
    *,
    pairs: PairForm | None = None,
) -> Response:
    """The page of all rounds; `given` are the form's fields as they were sent, and `pairs` those of the form for a
    round of pairs that was not started."""
    rounds = await container.ratings.rounds.list(project, limit=MOST_ROUNDS, of_pairs=None)
    progress = await container.ratings.rounds.progress(project, [one.id for one in rounds])
    recent = await container.batches.list(project, BatchFilter(status="completed"), after=None, limit=RECENT)
    known = {batch.id: batch for batch in recent}
    chosen = await look_up_run(container, project, given["run"], known) if given["run"] else None
    offered = [chosen, *recent] if chosen is not None and chosen.id not in {each.id for each in recent} else recent
    return render(
        request,
        "rate.html",
        422 if faults or pairs is not None else 200,
        pairs=pairs or PairForm(PAIR_DEFAULTS, ()),
        # A run is None if it was erased a moment ago.
        rows=[
            (one, await look_up_run(container, project, one.batch, known), progress[one.id])
            for one in rounds
            if one.id in progress
        ],
        most=MOST_ROUNDS,
        runs=offered,
        rubrics=rubrics_of_runs(container, offered),
        system_of=system_of,
        build_of=build_of,
        given={name: given[name] or default for name, default in DEFAULT_FIELDS.items()} if not faults else given,
        is_asked=bool(given["run"] or faults),
        is_comparing=pairs is not None,
        faults=faults,
        bounds=BOUNDS,
        choices=[(name, label) for name, label in ITEM_CHOICES.items() if name != "chosen"],
        name_characters=request.app.state.limits.name_characters,
        may_write=may_write(request),
    )


def rubrics_of_runs(container: Container, runs: Sequence[Batch]) -> list[tuple[str, Rubric]]:
    """The rubrics of the runs by name, each once, without those that are gone."""
    found = ((name, find_rubric(container, name)) for name in dict.fromkeys(run.rubric_name for run in runs))
    return [(name, rubric) for name, rubric in found if rubric is not None]


async def look_up_run(container: Container, project: str, batch_id: str, known: dict[str, Batch]) -> Batch | None:
    """The run, looked up once."""
    if batch_id not in known and (found := await container.batches.look(project, batch_id)) is not None:
        known[batch_id] = found
    return known.get(batch_id)


BOUNDS = {
    "items": (1, MOST_ITEMS),
    "raters_per_item": (1, 100),
    "items_per_rater": (1, MOST_ITEMS),
    "seed": (0, 2**32 - 1),
}
"""The domain's bounds, shown beside the fields."""

DEFAULT_FIELDS = {"run": ""} | {
    name: str(info.default) if isinstance(info.default, int) else "" for name, info in RoundOptions.model_fields.items()
}
"""The form's initial values."""

RUN_REFUSALS: Sequence[tuple[type[SaitenError], str]] = (
    (NotFound, mark("There is no such run in this project.")),
    (UnknownRubric, mark("This run's rubric is no longer installed, so its responses cannot be rated.")),
    (InvalidRequest, mark("No response in this run has been scored, so there is nothing to rate.")),
)
"""Why a run cannot have a round; the first match counts."""


def read_round_options(given: Mapping[str, str], limits: Limits, faults: dict[str, RatingFault]) -> RoundOptions | None:
    """The round's options, or None if a field is not valid; its fault is added to `faults`."""
    document: dict[str, Any] = {name: parse_integer(given[name]) for name in BOUNDS if given[name]}
    document |= {name: given[name] for name in ("choose", "aspect", "shared_with") if given[name]}
    if given["judges"]:
        document["judges"] = given["judges"].split(",")
    if given["positions"]:
        document |= {"choose": "chosen", "positions": [parse_integer(one) for one in given["positions"].split(",")]}
    try:
        return validate(RoundOptions, {"name": given["name"], **document}, limits)
    except InvalidDocument as error:
        names = [where.split("/")[1] for where, _ in error.faults]
        faults.update({name: describe_fault(name, limits) for name in names})
        return None


WRONG_CHOICE: Mapping[str, str] = {
    "positions": mark("Choose responses of this run that the judge has rated."),
    "choose": mark("Choose one of these."),
    "aspect": mark("Choose an aspect of the run's rubric, and a choice other than at random."),
    "judges": mark("Choose at most %(most)s other runs of this project, for unsteady responses."),
    "shared_with": mark("Choose a round of another run that has the same items, and responses at random."),
}


def describe_fault(name: str, limits: Limits) -> RatingFault:
    """What the field takes."""
    if name in BOUNDS:
        low, high = BOUNDS[name]
        return RatingFault(WHOLE_NUMBER, {"low": low, "high": high})
    if name in WRONG_CHOICE:
        return RatingFault(WRONG_CHOICE[name], {"most": MOST_JUDGES})
    return RatingFault(NAME_NEEDED, {"most": limits.name_characters})
