"""`/runs/{id}/items/{position}` and `/evaluations/{id}`: one response with everything that is known of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from pydantic import Field

from saiten_server.core.batch import ENDED_STATUSES, Batch, Candidate, Entry, candidate_of
from saiten_server.core.conversation import texts_of_conversation
from saiten_server.core.dialogue import Dialogue, Utterance, responder_of
from saiten_server.core.errors import NotFound
from saiten_server.core.evaluation import (
    ADOPTED,
    AspectResult,
    CallTrace,
    Evaluation,
    MaskedSpan,
    Path,
    PreferenceRequest,
    RelevanceResult,
    Translation,
    Unrated,
)
from saiten_server.core.redaction import kind_of_text
from saiten_server.core.reliability import AspectValidation
from saiten_server.core.rubric import Aspect, Level, LinearComposite, MeanComposite, Rubric, Transform, name_version
from saiten_server.explorer.pages.conversation import TurnView, view_findings
from saiten_server.explorer.pages.exploration import (
    LINES,
    Exploration,
    find_usual,
    read_address_number,
    read_exploration,
)
from saiten_server.platform.request_limits import count_request
from saiten_server.platform.web.dependencies import Serving, may_write
from saiten_server.platform.web.language import query
from saiten_server.platform.web.page import (
    PageRoute,
    Project,
    WritableProject,
    read_form,
    redirect,
    render,
    toggle_invisible,
)
from saiten_server.ratings.service import RatingService
from saiten_server.ratings.values import RatingFilter, StoredRating
from saiten_server.runs.names import system_of
from saiten_server.runs.result import CaseQuery, ResultQuery
from saiten_server.runs.store.browsing import ResultBrowser
from saiten_server.scoring.reasons import ask_reasons, is_explainable
from saiten_server.scoring.rubrics.files import find_rubric
from saiten_server.text.injection import list_places

if TYPE_CHECKING:
    from saiten_server.container import Container
from saiten.core.figures import round_figure
from saiten.core.messages import Message

router = APIRouter(include_in_schema=False, route_class=PageRoute)

Position = Annotated[int, Field(ge=0, lt=2**31)]

RELOAD_SECONDS = 5
MOST_RELOADS = 60
"""How often the page of a response that waits for the judge loads itself again, so that a page left open ends."""


@router.get("/runs/{batch_id}/items/{position}")
async def show_item(
    request: Request, container: Serving, project: Project, batch_id: str, position: Position
) -> Response:
    """One result of a run, with the ones before and after it in the list that the visitor came from."""
    batch = await container.batches.find(project, batch_id)
    place = await locate_item(request, container, project, batch, position)
    if place is None:
        if position >= batch.counts.total or batch.status in ENDED_STATUSES:
            raise NotFound(Message("position-not-found"))
        return show_pending(request, batch)
    found = await container.dashboard.browser.read(project, batch_id, [position])
    result = (await container.texts.fill(project, batch, found)).get(position)
    if result is None:
        raise NotFound(Message("item-gone"))
    names = ResponseNames(result.id, batch, result.entry, result.system)
    ratings = await find_ratings(container.ratings.service, project, names)
    back = f"{place.state.address(number=place.at // LINES + 1)}#at-{position}"
    more = {"batch": batch, "place": place, "entry": result.entry, "failure": result.failure, "back": back}
    more["untold"] = result.untold
    shown = ShownResponse(result.evaluation, result.trace, result.candidate, batch.rubric_name, ratings)
    return await render_item(request, container, project, shown, **more)


@router.get("/evaluations/{evaluation_id}")
async def show_evaluation(request: Request, container: Serving, project: Project, evaluation_id: str) -> Response:
    """One evaluation, of a run or not."""
    record = await container.scoring.evaluations.find(project, evaluation_id)
    if record is None:
        raise NotFound(Message("evaluation-not-found"))
    record, untold = await container.texts.fill_record(project, record)
    asked = record.request
    if isinstance(asked, PreferenceRequest):  # which has an id of its own kind, and is not found here
        raise NotFound(Message("evaluation-not-found"))
    ratings = await find_ratings(container.ratings.service, project, ResponseNames(evaluation_id))
    none = dict.fromkeys(("batch", "place", "entry", "failure", "back"))
    name = rubric_name_of(record.evaluation)
    shown = ShownResponse(record.evaluation, record.trace, candidate_of(asked), name, ratings)
    return await render_item(request, container, project, shown, untold=untold, **none)


@router.post("/evaluations/{evaluation_id}/reasons")
async def ask_judge(request: Request, container: Serving, project: WritableProject, evaluation_id: str) -> Response:
    """Asks the judge for its reasons, and leads back to the page that the visitor came from."""
    form = await read_form(request)
    await count_request(request, request.state.key)
    await ask_reasons(request, container, evaluation_id)
    back = form.get("back")
    return redirect(back if OWN_PAGE.match(back) else f"/evaluations/{evaluation_id}")


OWN_PAGE = re.compile(r"/(runs/|explore\?|evaluations/)[^\\\s]*\Z")
"""The address of a page with reasons. A browser takes `//` and `/\\` for another site's."""


def show_pending(request: Request, batch: Batch) -> Response:
    """That the judge has not come to the response yet. The page loads itself again, each time with the next number, up
    to MOST_RELOADS."""
    asked = [(name, value) for name, value in request.query_params.multi_items() if name != "reload"]
    number, path = read_address_number(request.query_params.get("reload")) or 0, request.scope["path"]
    goes_on = batch.status != "paused" and number < MOST_RELOADS
    return render(
        request,
        "item_pending.html",
        batch=batch,
        again=f"{path}?{urlencode(asked)}" if asked else path,
        onwards=f"{path}?{urlencode([*asked, ('reload', str(number + 1))])}" if goes_on else None,
        seconds=RELOAD_SECONDS,
        minutes=MOST_RELOADS * RELOAD_SECONDS // 60,
    )


async def locate_item(
    request: Request, container: Container, project: str, batch: Batch, position: int
) -> ItemPosition | None:
    """The result in the list of the address, else in the batch's own order. None if there is none yet."""
    browser, rubric = container.dashboard.browser, find_rubric(container, batch.rubric_name)
    best = rubric.best if rubric else {}

    async def look(state: Exploration, at: int) -> ItemPosition | None:
        """The result with its neighbours; None where another stands there."""
        first = max(0, at - 1)
        query, limit = state.query(best), at - first + 2
        total, places = await browser.find(project, batch.id, query, offset=first, limit=limit)
        addresses = {number: state.item(place, number) for number, place in enumerate(places, first)}
        if position not in places[at - first : at - first + 1]:
            return None
        return ItemPosition(state, at, total, previous=addresses.get(at - 1), next=addresses.get(at + 1))

    at = read_address_number(request.query_params.get("at"))
    if at is not None:
        measures = await browser.measures(project, batch.id)
        state = read_exploration(request.query_params, measures, [batch.id], find_usual(measures, rubric))
        place = await look(state, at)
        if place is not None:
            return place
    in_order = Exploration((batch.id,), CaseQuery(sort="item"))
    # Of a complete batch, the number of a result is its position.
    place = await look(in_order, position)
    return place or await look(in_order, await find_offset(browser, project, batch.id, position))


class ShownResponse(NamedTuple):
    """A response with what is known of it; `rubric` is the name with the version."""

    evaluation: Evaluation | None
    trace: Sequence[CallTrace]
    candidate: Candidate
    rubric: str
    ratings: list[RaterView]


async def render_item(
    request: Request, container: Container, project: str, shown: ShownResponse, **more: Any
) -> Response:
    """The page of a response, with or without an evaluation."""
    candidate, ratings = shown.candidate, shown.ratings
    known = find_rubric(container, shown.rubric)
    evaluation = await container.ratings.reliabilities.mark(project, shown.evaluation) if shown.evaluation else None
    warned = [(warning.where, warning.code) for warning in evaluation.warnings] if evaluation else []
    translation = evaluation.translation if evaluation else None
    return render(
        request,
        "item.html",
        evaluation=evaluation,
        trace=shown.trace,
        rubric=known,
        said=list_utterances(candidate.context, translation, warned),
        response=candidate.response,
        response_warnings=codes_at("response", warned),
        translation=translation,
        references=candidate.reference or (),
        metadata=candidate.metadata,
        may_write=may_write(request),
        gone=kind_of_text(candidate.response),
        expected=known.source_language if known else "en",
        ratings=ratings,
        rated_aspects=list(dict.fromkeys(name for view in ratings for name in view.ratings)),
        digits=digits_of,
        toggle_invisible=toggle_invisible(request),
        edit=query("/try", **{"from": evaluation.id}) if evaluation and is_editable(evaluation, candidate) else None,
        askable=evaluation is not None
        and may_write(request)
        and is_explainable(evaluation, candidate.response, container.scoring.context.judge.kind),
        here=f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path,
        conversation=candidate.conversation,
        turns=list_turns(candidate, evaluation, known, ratings),
        quoted=quote_warned(candidate, evaluation),
        **describe_item_ratings(evaluation, container),
        **more,
    )


def is_editable(evaluation: Evaluation, candidate: Candidate) -> bool:
    """Whether it can be edited and scored again: a response whose text is stored here."""
    return candidate.conversation is None and ADOPTED not in evaluation.codes


def quote_warned(candidate: Candidate, evaluation: Evaluation | None) -> dict[int, list[str]]:
    """What stands at the spans of each warning about a text of the caller's, by the warning's number."""
    talk = candidate.conversation
    places = (
        texts_of_conversation(talk)
        if talk
        else list_places(Dialogue.model_construct(context=candidate.context, response=candidate.response))
    )
    places = {**places, **{f"reference/{at}": text for at, text in enumerate(candidate.reference or ())}}
    return {
        number: [places[span.where][span.start : span.end].strip() for span in warning.spans if span.where in places]
        for number, warning in enumerate(evaluation.warnings if evaluation else ())
    }


def list_turns(
    candidate: Candidate, evaluation: Evaluation | None, rubric: Rubric | None, ratings: Sequence[RaterView]
) -> list[TurnView]:
    """The turns of a conversation with their findings and raters' marks; none of a response."""
    conversation = candidate.conversation
    if conversation is None:
        return []
    found = view_findings((evaluation.findings if evaluation else None) or (), rubric)
    warned = [(warning.where, warning.code) for warning in evaluation.warnings] if evaluation else []
    marks = Counter(number for view in ratings for number in set(view.faulty_turns))
    translation = evaluation.translation if evaluation else None
    english = (*translation.context, translation.response) if translation else (None,) * len(conversation.turns)
    return [
        TurnView(number, turn, found.get(number, ()), codes_at(f"turns/{number}", warned), marks[number], text)
        for number, (turn, text) in enumerate(zip(conversation.turns, english, strict=True))
    ]


def rubric_name_of(evaluation: Evaluation) -> str:
    """The rubric by which it was made, with its version."""
    return name_version(evaluation.rubric.id, evaluation.rubric.version)


def describe_item_ratings(evaluation: Evaluation | None, container: Container) -> dict[str, Any]:
    """The ratings' part of the page, with the rubric if it is still the one that the evaluation was made with."""
    if evaluation is None:
        return {"aspects": (), "composites": (), "paths": {}, "is_current": True, "integrity": None, "alike": None}
    rubric = find_rubric(container, rubric_name_of(evaluation))
    if rubric is not None and rubric.digest != evaluation.rubric.digest:
        rubric = None
    return {
        "aspects": list_aspects(evaluation, rubric),
        "composites": list_composites(evaluation, rubric),
        "paths": evaluation.by_path,
        "is_current": rubric is not None,
        "integrity": view_integrity(evaluation, rubric),
        "alike": find_alike(evaluation),
    }


def find_alike(evaluation: Evaluation) -> Unrated | None:
    """Why no aspect at all is rated, where it is the same of each that applies; None otherwise."""
    missing = [result.unrated for result in evaluation.aspects.values()]
    told = {one for one in missing if one is None or one.reason != "not-applicable"}
    return told.pop() if len(told) == 1 and len(missing) > 1 else None


RATINGS_PAGE = 1000


@dataclass
class RaterView:
    """One rater's ratings by aspect, the latest of each, and comments; the rest is of the last rating."""

    rater: str
    ratings: dict[str, float] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)
    simulated: bool = False
    starred: bool = False
    faulty_turns: tuple[int, ...] = ()


class ResponseNames(NamedTuple):
    """What ratings may name a response by."""

    evaluation: str
    batch: Batch | None = None
    entry: Entry | None = None
    system: str | None = None


async def find_ratings(service: RatingService, project: str, response: ResponseNames) -> list[RaterView]:
    """The response's ratings by rater, in the order in which they came in."""
    wanted = [RatingFilter(evaluation=response.evaluation)]
    if response.batch is not None and response.entry is not None:
        item = response.entry.item
        wanted += [RatingFilter(batch=response.batch.id, item=item), RatingFilter(item=item)]
    found: dict[int, StoredRating] = {}
    for each in wanted:
        after = -1
        # Of an item's id alone there may be ratings of many runs, the newest last.
        while page := await service.list_ratings(project, each, after=after, limit=RATINGS_PAGE):
            found.update(page)
            after = page[-1][0]
    return view_ratings([rating for _, rating in sorted(found.items())], response)


def view_ratings(ratings: Iterable[StoredRating], response: ResponseNames) -> list[RaterView]:
    """Those of the ratings that are of the response, by rater."""
    views: dict[str, RaterView] = {}
    for rating in ratings:
        if not concerns(rating, response):
            continue
        view = views.setdefault(rating.rater, RaterView(rating.rater))
        view.ratings.update(rating.ratings)
        view.simulated, view.faulty_turns = rating.simulated, rating.faulty_turns or ()
        view.starred = rating.starred
        view.comments += [rating.comment] if rating.comment else []
    return list(views.values())


def concerns(rating: StoredRating, response: ResponseNames) -> bool:
    """Whether the rating is of this response, and not of another candidate or system."""
    if rating.evaluation is not None:
        return rating.evaluation == response.evaluation
    batch, entry = response.batch, response.entry
    if batch is None or entry is None or rating.batch not in (None, batch.id):
        return False
    return rating.candidate == entry.candidate and rating.system in (None, response.system or system_of(batch))


class ItemPosition(NamedTuple):
    """A result in a list: number `at` of `total`, from 0. `previous` and `next` are pages' addresses."""

    state: Exploration
    at: int
    total: int
    previous: str | None
    next: str | None


async def find_offset(browser: ResultBrowser, project: str, batch_id: str, position: int) -> int:
    """How many results come before the position: fewer than it says, where others before it have none yet."""
    low, high = 0, position
    probe = position
    while low < high:
        total, places = await browser.find(project, batch_id, ResultQuery(), offset=probe, limit=1)
        found = places[0] if places else None
        if found == position:
            return probe
        if found is None or found > position:
            high = min(probe, total)
        else:
            low = probe + 1
        probe = (low + high) // 2
    return low


BLENDED_DECIMALS = 3
MOST_DIGITS = 6
SHOWN_DIGITS = 2
"""Of a blended value."""


class ShownUtterance(NamedTuple):
    """An utterance with its translation, on the side of the response's speaker (`own`) or on the other."""

    speaker: str
    text: str
    translation: str | None
    own: bool
    warnings: Sequence[str]


class Blend(NamedTuple):
    """c + w · (b − b̄) with its numbers; with `digits` digits of b and b̄ it gives the value as shown."""

    rating: float
    weight: float
    similarity: float
    baseline: float
    value: float
    digits: int


class PathValue(NamedTuple):
    """An aspect's result on one language path."""

    path: Path
    result: AspectResult
    blend: Blend | None

    @property
    def says(self) -> bool:
        """Whether there is more to say than the rating."""
        result = self.result
        extra = (result.unrated, result.reason, result.expected, self.blend)
        return len(result.samples) > 1 or any(part is not None for part in extra)


class ScaleStep(NamedTuple):
    """A point of a scale, and the paths whose rating it is."""

    value: int
    level: Level | None
    chosen: Sequence[Path]


class AspectView(NamedTuple):
    """An aspect with its readings; `aspect` is None if the rubric has changed or is gone."""

    id: str
    aspect: Aspect | None
    readings: Sequence[PathValue]
    steps: Sequence[ScaleStep]
    difference: float | None
    validation: AspectValidation | None


class TermView(NamedTuple):
    """A summand of a composite: weight · ((value − subtract) / divide), in bars where `transform` is absolute."""

    aspect: Aspect
    weight: float
    transform: Transform
    value: float | None


class CompositeView(NamedTuple):
    """A composite and its terms; no `terms` if the rubric has changed."""

    id: str
    value: float | None
    kind: str | None
    intercept: float
    terms: Sequence[TermView]


def list_utterances(
    context: Sequence[Utterance], translation: Translation | None, warned: Sequence[tuple[str, str]]
) -> list[ShownUtterance]:
    """The context, each utterance with its translation. `warned` are warnings' places and codes."""
    own = responder_of(context)
    translated = translation.context if translation else ()
    return [
        ShownUtterance(
            speaker=utterance.speaker,
            text=utterance.text,
            translation=translated[number] if number < len(translated) else None,
            own=utterance.speaker == own,
            warnings=codes_at(f"context/{number}", warned),
        )
        for number, utterance in enumerate(context)
    ]


def codes_at(place: str, warned: Sequence[tuple[str, str]]) -> list[str]:
    """The warnings of that text or of its translation, such as `context/0` of `translation/context/0/text`."""
    inside = [(f"{where.removeprefix(TRANSLATION)}/", code) for where, code in warned]
    return list(dict.fromkeys(code for where, code in inside if where.startswith(f"{place}/")))


def list_aspects(evaluation: Evaluation, rubric: Rubric | None) -> list[AspectView]:
    """All aspects in the order in which they were asked."""
    paths = evaluation.by_path
    known = {aspect.id: aspect for aspect in rubric.aspects} if rubric else {}
    validations = evaluation.reliability.aspects if evaluation.reliability else {}
    views = []
    for name in dict.fromkeys([*(name for name in known if name in evaluation.aspects), *evaluation.aspects]):
        readings = [
            PathValue(path, found.aspects[name], blend_of(found.aspects[name], found.relevance))
            for path, found in paths.items()
            if name in found.aspects
        ]
        difference = evaluation.paths.difference.get(name) if evaluation.paths else None
        steps = list_steps(known.get(name), readings)
        views.append(AspectView(name, known.get(name), readings, steps, difference, validations.get(name)))
    return views


def list_steps(aspect: Aspect | None, readings: Sequence[PathValue]) -> list[ScaleStep]:
    """The scale's points, lowest first."""
    low, high = readings[0].result.scale
    levels = {level.value: level for level in aspect.levels} if aspect else {}
    return [
        ScaleStep(value, levels.get(value), [reading.path for reading in readings if reading.result.rating == value])
        for value in range(low, high + 1)
    ]


def blend_of(result: AspectResult, relevance: RelevanceResult | None) -> Blend | None:
    """The arithmetic of a blended value; None if there is none."""
    if result.blended is None or result.mean is None:
        return None
    if relevance is None or relevance.score is None or relevance.baseline is None:
        return None
    c, w, b, b_mean = result.mean, relevance.weight, relevance.score, relevance.baseline
    shown, digits = round_figure(result.blended, SHOWN_DIGITS), BLENDED_DECIMALS
    while digits < MOST_DIGITS:
        moved = float(round_figure(b, digits) - round_figure(b_mean, digits))
        if round_figure(c + w * moved, SHOWN_DIGITS) == shown:
            break
        digits += 1
    return Blend(c, w, b, b_mean, result.blended, digits)


def list_composites(evaluation: Evaluation, rubric: Rubric | None) -> list[CompositeView]:
    """All composites with their terms, computed from the means at the top."""
    known = {composite.id: composite for composite in rubric.composites} if rubric else {}
    means = {name: result.mean for name, result in evaluation.aspects.items()}
    views = []
    for name, value in evaluation.composites.items():
        composite = known.get(name)
        if composite is None or rubric is None:
            views.append(CompositeView(name, value, None, 0.0, ()))
            continue
        intercept = composite.intercept if isinstance(composite, LinearComposite) else 0.0
        terms = [
            TermView(rubric.aspect(aspect), weight, step, means.get(aspect))
            for aspect, weight, step in terms_of(composite)
        ]
        views.append(CompositeView(name, value, composite.kind, intercept, terms))
    return views


def terms_of(composite: MeanComposite | LinearComposite) -> list[tuple[str, float, Transform]]:
    """Aspect, weight and transform of each summand."""
    if isinstance(composite, LinearComposite):
        return [(term.aspect, term.weight, term.transform) for term in composite.terms]
    return [(aspect, 1 / len(composite.of), Transform()) for aspect in composite.of]


def digits_of(value: float | None, most: int = 4) -> int:
    """As many digits behind the point as the value has, `most` at most."""
    if value is None:
        return 0
    return next(digits for digits in range(most + 1) if round(value, digits) == round(value, most))


TRANSLATION = "translation/"

Part = Literal["response", "text", "speaker", "reference", "persona", "goal"]


class LeftOut(NamedTuple):
    """Characters `first` to `last`, from 1, of the response, or of the utterance or reference of that number, from 1;
    of its `translated` text where that is so. Of a speaker the whole name."""

    part: Part
    number: int
    translated: bool
    first: int
    last: int


class LiftRow(NamedTuple):
    """An aspect's mean as the dialogue is and without the suspicious parts; `lift` is the difference."""

    id: str
    aspect: Aspect | None
    whole: float | None
    masked: float | None
    lift: float | None


class IntegrityView(NamedTuple):
    """Both judgements of the `path` on which something was left out."""

    path: Path
    rows: Sequence[LiftRow]
    left_out: Sequence[LeftOut]


def view_integrity(evaluation: Evaluation, rubric: Rubric | None) -> IntegrityView | None:
    """The evaluation's integrity report; None where it has none. `rubric` is None where it has changed since."""
    report = evaluation.integrity
    if report is None:
        return None
    path: Path = "source" if evaluation.path == "both" else evaluation.path
    # With both paths, the texts of the English one were masked only where the translation alone was suspicious.
    if evaluation.path == "both" and any(span.where.startswith(TRANSLATION) for span in report.spans):
        path = "english"
    whole = evaluation.by_path[path].aspects
    known = {aspect.id: aspect for aspect in rubric.aspects} if rubric else {}
    rows = [
        LiftRow(name, known.get(name), whole[name].mean if name in whole else None, masked, report.lift.get(name))
        for name, masked in report.masked.items()
    ]
    return IntegrityView(path, rows, [describe_span(span) for span in report.spans])


def describe_span(span: MaskedSpan) -> LeftOut:
    """A span with numbers from 1."""
    parts = span.where.removeprefix(TRANSLATION).split("/")
    number = int(parts[1]) + 1 if len(parts) > 1 else 1
    kinds: Mapping[str, Part] = {"speaker": "speaker", "text": "text", "response": "response", "goal": "goal"}
    kind = "persona" if parts[0] == "persona" else kinds.get(parts[-1], "reference")
    return LeftOut(kind, number, span.where.startswith(TRANSLATION), span.start + 1, span.end)
