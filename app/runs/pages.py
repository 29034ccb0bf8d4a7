"""`/rubrics/draft/try`: a rubric that is being written, tried on a few dialogues. Nothing of it is stored."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import APIRouter, Request, Response

from saiten_server.core import errors
from saiten_server.core.batch import BatchOptions, Candidate, EstimateReport, parts_of
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import MOST_FAULTS, InvalidRequest
from saiten_server.core.evaluation import ConversationRequest, Evaluation, EvaluationRequest, JudgeOptions
from saiten_server.core.model import digest
from saiten_server.core.rubric import Rubric
from saiten_server.core.validation import InvalidDocument, validate
from saiten_server.governance.policies import settle_for
from saiten_server.platform.request_limits import count_request
from saiten_server.platform.tasks import run_together
from saiten_server.platform.web.body import while_connected
from saiten_server.platform.web.dependencies import Serving, may_write
from saiten_server.platform.web.page import Form, PageRoute, Project, WritableProject, read_form, render
from saiten_server.runs.estimates import BatchEstimate
from saiten_server.scoring.admission import admit
from saiten_server.scoring.conversation import evaluate_conversation
from saiten_server.scoring.evaluate import ScoringContext, evaluate
from saiten_server.scoring.limits import evaluating, require_price
from saiten_server.scoring.rubrics.files import RubricFault, RubricSource, examine_draft

if TYPE_CHECKING:
    from saiten_server.container import Container
from saiten.core.messages import Message
from saiten.core.strict_json import StrictJSONError, parse_strict_json

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST_DIALOGUES = 5

DRAFT = "draft"
"""The id of a draft while it is scored: its own is the caller's text, which metrics and traces must not hold."""

UTTERANCE = re.compile(r"([^:：]{1,64})[:：]\s*(.+)")
DIALOGUE_FIELDS = ("context", "response", "reference", "turns", "persona", "goal", "infer_roles")
"""What is read of a dialogue in JSON; what else an item may have says nothing here."""

ScoringRequest = EvaluationRequest | ConversationRequest


@dataclass(frozen=True)
class RubricDraft:
    """The form as it was sent. `seen` is the digest of what the last answer gave an estimate of."""

    text: str = ""
    dialogues: str = ""
    seen: str = ""

    @property
    def digest(self) -> str:
        return digest([self.text, self.dialogues])


class DialogueFault(NamedTuple):
    """What is wrong in the dialogue of that number, counted from 1; 0 for all of them. `where` is a JSON pointer."""

    number: int
    where: str
    detail: Message


class TriedDialogue(NamedTuple):
    """A dialogue with what the judge said of it, or why there is nothing."""

    asked: ScoringRequest
    evaluation: Evaluation | None = None
    trouble: Message | None = None


class CheckedDraft(NamedTuple):
    """What a draft holds, and everything that is wrong in it."""

    rubric: Rubric | None
    faults: Sequence[RubricFault]
    asked: Sequence[ScoringRequest] = ()
    dialogue_faults: Sequence[DialogueFault] = ()


@router.get("/rubrics/draft/try")
async def show_draft(request: Request, project: Project) -> Response:
    """The empty form."""
    return render_draft(request, RubricDraft())


@router.post("/rubrics/draft/try")
async def try_draft(request: Request, container: Serving, project: WritableProject) -> Response:
    """Says what is wrong, or else what it would cost to score the dialogues; scores them once that was seen."""
    form = await read_form(request)
    draft = read_draft(form)
    await count_request(request, request.state.key)
    checked = await asyncio.to_thread(check_draft, draft, container.settings.limits)
    if checked.rubric is None or checked.faults or checked.dialogue_faults:
        return render_draft(request, draft, checked, status=422)
    context = replace(container.scoring.context, rubrics=RubricSource([checked.rubric]))
    try:
        estimate = estimate_draft(checked.rubric, checked.asked, context)
    except InvalidRequest as error:  # the judge does not take such a rubric
        return render_draft(request, draft, checked, status=422, trouble=error.message)
    if form.get("action") != "score" or draft.seen != draft.digest:
        return render_draft(request, draft, checked, estimate=estimate)
    context = replace(context, rubrics=RubricSource([checked.rubric.model_copy(update={"id": DRAFT})]))
    work = (
        score_draft(request, container, project, asked.model_copy(update={"rubric": DRAFT}), context)
        for asked in checked.asked
    )
    return render_draft(
        request, draft, checked, estimate=estimate, tried=await while_connected(request, run_together(*work))
    )


def render_draft(
    request: Request,
    draft: RubricDraft,
    checked: CheckedDraft | None = None,
    *,
    status: int = 200,
    trouble: Message | None = None,
    estimate: EstimateReport | None = None,
    tried: Sequence[TriedDialogue] = (),
) -> Response:
    """The form with what came of it."""
    return render(
        request,
        "rubric_draft.html",
        status,
        draft=draft,
        checked=checked,
        faults=checked.faults[:MOST_FAULTS] if checked else (),
        trouble=trouble,
        estimate=estimate,
        tried=tried,
        most=MOST_DIALOGUES,
        is_allowed=may_write(request),
    )


async def score_draft(
    request: Request, container: Container, project: str, asked: ScoringRequest, context: ScoringContext
) -> TriedDialogue:
    """The dialogue scored by the draft. Calls go past the cache, so that nothing is kept."""
    try:
        async with evaluating(request) as scope:
            scope.bypass_cache = True
            require_price(request, asked.rubric, asked.judge, context=context)
            policies = container.governance.policies
            if isinstance(asked, ConversationRequest):
                whole = await settle_for(project, asked, policies)
                await admit([whole], context, scope)
                record, _ = await evaluate_conversation(whole, context, scope)
            else:
                single = await settle_for(project, asked, policies)
                await admit([single], context, scope)
                record = await evaluate(single, context, scope)
    except (InvalidRequest, errors.LimitReached, errors.UpstreamError, errors.StoreError) as error:
        return TriedDialogue(asked, trouble=error.message)
    return TriedDialogue(asked, record.evaluation)


def read_draft(form: Form) -> RubricDraft:
    """What was sent."""
    return RubricDraft(form.raw("rubric"), form.raw("dialogues"), form.get("seen"))


def check_draft(draft: RubricDraft, limits: Limits) -> CheckedDraft:
    """The draft, by the checks of `saiten rubric check`, and its dialogues. Not for an event loop."""
    rubric, faults = examine_draft(draft.text)
    if rubric is None or faults:
        return CheckedDraft(rubric, faults)
    asked, wrong = read_dialogues(draft.dialogues, rubric, limits)
    return CheckedDraft(rubric, faults, asked, wrong)


def read_dialogues(text: str, rubric: Rubric, limits: Limits) -> tuple[list[ScoringRequest], list[DialogueFault]]:
    """The dialogues, one line of JSON each, or as lines `NAME: text` with an empty line between two dialogues. Of the
    latter the last utterance is the response, or its speaker the system."""
    is_json = text.lstrip().startswith("{")
    parts = [part for part in (text.split("\n") if is_json else re.split(r"\n\s*\n", text)) if part.strip()]
    if not 1 <= len(parts) <= MOST_DIALOGUES:
        return [], [DialogueFault(0, "", Message("dialogues-to-try", count=MOST_DIALOGUES))]
    asked, faults = list[ScoringRequest](), list[DialogueFault]()
    for number, part in enumerate(parts, start=1):
        try:
            asked.append(read_dialogue(part, rubric, limits, is_json=is_json))
        except InvalidDocument as error:
            faults += [DialogueFault(number, where, what) for where, what in error.faults[:MOST_FAULTS]]
        except (StrictJSONError, InvalidRequest) as error:
            faults.append(DialogueFault(number, "", error.message))
    return asked, faults[:MOST_FAULTS]


def read_dialogue(text: str, rubric: Rubric, limits: Limits, *, is_json: bool) -> ScoringRequest:
    """One dialogue as a request. Raises StrictJSONError, InvalidRequest and InvalidDocument."""
    whole = rubric.unit == "conversation"
    if is_json:
        parsed = parse_strict_json(text.encode())
        given: dict[str, Any] = (
            {name: parsed[name] for name in DIALOGUE_FIELDS if name in parsed} if isinstance(parsed, dict) else {}
        )
    else:
        matches = [UTTERANCE.fullmatch(line.strip()) for line in text.strip().split("\n")]
        if None in matches:
            raise InvalidRequest(Message("dialogue-line-form"))
        said = [{"speaker": one[1].strip(), "text": one[2].strip()} for one in matches if one]
        given = {"turns": said, "infer_roles": True} if whole else {"context": said[:-1], "response": said[-1]["text"]}
    common = {**given, "rubric": rubric.name, "judge": {"explain": True}}
    if whole:
        return validate(ConversationRequest, common, limits)
    return validate(EvaluationRequest, {**common, "relevance": None}, limits)


def estimate_draft(rubric: Rubric, asked: Sequence[ScoringRequest], context: ScoringContext) -> EstimateReport:
    """What it takes to score these once. Raises InvalidRequest where the judge does not take the rubric."""
    estimate = BatchEstimate(
        BatchOptions(rubric=rubric.name, judge=JudgeOptions(explain=True), relevance=None), context
    )
    for one in asked:
        if isinstance(one, ConversationRequest):
            estimate.add(Candidate.model_construct(**parts_of(one.conversation)))
        else:
            candidate = Candidate.model_construct(context=one.context, response=one.response, reference=one.reference)
            estimate.add(candidate)
    return estimate.report()
