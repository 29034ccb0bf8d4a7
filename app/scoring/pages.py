"""`/try`: a form to score a response, or two to compare, the page that waits for it, and the comparison."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from cachetools import LRUCache
from fastapi import APIRouter, Request, Response

from saiten_server.core import errors
from saiten_server.core.errors import InvalidRequest, NotFound, SaitenError
from saiten_server.core.evaluation import PATHS, EvaluationRequest, Record
from saiten_server.core.redaction import is_covered
from saiten_server.core.rubric import Rubric, name_version, split_name
from saiten_server.core.validation import validate
from saiten_server.governance.policies import settle_for
from saiten_server.platform.request_limits import count_request
from saiten_server.platform.tasks import cancel_for_good, run_together
from saiten_server.platform.web.dependencies import Serving
from saiten_server.platform.web.language import language_of, mark, query
from saiten_server.platform.web.page import Form, PageRoute, Project, WritableProject, read_form, redirect, render
from saiten_server.platform.web.problems import faults_of, find_status, headers_of
from saiten_server.providers.registry import is_baseline
from saiten_server.scoring.admission import admit
from saiten_server.scoring.evaluate import evaluate
from saiten_server.scoring.limits import evaluating, require_price
from saiten_server.scoring.rubrics.files import find_rubric

if TYPE_CHECKING:
    from saiten_server.container import Container
from saiten.core.messages import Message

router = APIRouter(include_in_schema=False, route_class=PageRoute)


ATTEMPT_WAIT_SECONDS = 1.0
"""How long the form waits for a result. After that a page shows that it is being scored."""

ELSEWHERE_SECONDS = 300
"""How long a page waits for what another process of the service scores."""

MOST_KEPT = 500
"""Attempts that a process remembers."""


@dataclass(eq=False)
class Attempt:
    """Responses of a form that are scored in the background; `ids` will be those of their evaluations."""

    draft: AttemptDraft
    ids: Sequence[str]
    task: asyncio.Task[None]
    started_at: datetime

    @property
    def address(self) -> str:
        """The result's page."""
        return address_results(self.ids)

    @property
    def outcome(self) -> str:
        """Where to go once it has ended: to the result, or to the form where there is none."""
        failed = self.task.cancelled() or self.task.exception() is not None
        return query("/try", attempt=self.ids[0]) if failed else self.address


class Attempts:
    """What this process scores for forms, by project and id."""

    def __init__(self) -> None:
        self._kept: LRUCache[tuple[str, str], Attempt] = LRUCache(MOST_KEPT)

    def keep(self, project: str, attempt: Attempt) -> None:
        self._kept[project, attempt.ids[0]] = attempt

    def find(self, project: str, attempt_id: str) -> Attempt | None:
        return self._kept.get((project, attempt_id))

    async def close(self) -> None:
        """Cancels what is under way."""
        await cancel_for_good([attempt.task for attempt in self._kept.values() if not attempt.task.done()])


def address_results(ids: Sequence[str]) -> str:
    """The page of one result, or of two beside each other."""
    return f"/evaluations/{ids[0]}" if len(ids) == 1 else query("/try/pair", a=ids[0], b=ids[1])


@router.get("/try")
async def show_form(
    request: Request, container: Serving, project: Project, rubric: str = "", example: str = ""
) -> Response:
    """The form: empty, with an example, with what was scored before, or with what could not be scored. Raises what
    ended an attempt unexpectedly, so that it is logged."""
    asked, attempts = request.query_params, attempts_of(request)
    failed = attempts.find(project, asked.get("attempt", ""))
    if failed is not None and failed.task.done():
        if failed.task.cancelled():
            return render_attempt(request, container, failed.draft)
        error = failed.task.exception()
        if isinstance(error, SHOWN_ERRORS):
            return show_error(request, container, failed.draft, error)
        if error is not None:
            raise error
    rubrics = rubrics_of_responses(container)
    records = await find_records(container, project, asked.get("from", ""), asked.get("other", ""))
    draft = redraft(records, rubrics) if records else start_draft(rubrics, language_of(request), rubric, example)
    return render_attempt(request, container, draft)


@router.post("/try")
async def try_response(request: Request, container: Serving, project: WritableProject) -> Response:
    """Scores the response, or two; redirects to the result, or to a page that waits for it. On an error the form is
    shown again."""
    form = await read_form(request)
    draft = read_attempt(form, container.settings.limits.context_utterances)
    if form.get("action") == "add":
        return render_attempt(request, container, draft.widen(), added=True)
    try:
        await count_request(request, request.state.key)
        asked = [validate(EvaluationRequest, draft.request(), container.settings.limits)]
    except SHOWN_ERRORS as error:
        return show_error(request, container, draft, error)
    if draft.other:
        second = replace(draft, response=draft.other)
        try:
            asked.append(validate(EvaluationRequest, second.request(), container.settings.limits))
        except SHOWN_ERRORS as error:
            return show_error(request, container, draft, error, response="other")
    return await start(request, container, draft, asked)


async def start(
    request: Request, container: Container, draft: AttemptDraft, asked: Sequence[EvaluationRequest]
) -> Response:
    """Begins to score the responses, and waits for a moment."""
    context = container.scoring.context
    ids = [context.new_id() for _ in asked]
    work = run_together(*(score_attempt(request, container, one, name) for one, name in zip(asked, ids, strict=True)))

    async def finish() -> None:
        await work
        attempt.draft = AttemptDraft()  # from now on the texts are in the store alone, and vanish with it

    attempt = Attempt(draft, ids, asyncio.create_task(finish()), context.now())
    attempts_of(request).keep(request.state.project, attempt)
    await asyncio.wait({attempt.task}, timeout=ATTEMPT_WAIT_SECONDS)
    if not attempt.task.done():
        other = ids[1] if len(ids) > 1 else None
        return redirect(query(f"/try/{ids[0]}", other=other, since=str(int(attempt.started_at.timestamp()))))
    if attempt.task.cancelled():
        return redirect(query("/try", attempt=ids[0]))
    failure = attempt.task.exception()
    if isinstance(failure, SHOWN_ERRORS):
        # What was typed must not be lost, also if a limit is reached.
        return show_error(request, container, draft, failure)
    attempt.task.result()
    return redirect(attempt.address)


SHOWN_ERRORS = (InvalidRequest, errors.LimitReached, errors.UpstreamError, errors.StoreError)
"""What is told above the form; any other is a defect."""


async def score_attempt(request: Request, container: Container, asked: EvaluationRequest, evaluation_id: str) -> None:
    """Scores one response and stores the result under the id."""
    project: str = request.state.project
    context = replace(container.scoring.context, new_id=lambda: evaluation_id)
    async with evaluating(request) as scope:
        require_price(request, asked.rubric, asked.judge)
        asked = await settle_for(project, asked, container.governance.policies)
        await admit([asked], context, scope)
        record = await evaluate(asked, context, scope)
    await container.scoring.evaluations.save(project, record, tuple(scope.keys))


def attempts_of(request: Request) -> Attempts:
    """Those of this process."""
    attempts: Attempts = request.app.state.attempts
    return attempts


async def find_records(container: Container, project: str, *ids: str) -> list[Record]:
    """The stored evaluations of responses with these ids, without those that are not there or have no texts."""
    found = [await container.scoring.evaluations.find(project, name) for name in ids if name]
    return [record for record in found if record and is_open_text(record)]


def is_open_text(record: Record) -> bool:
    """Whether it is of a response whose texts are still there."""
    asked = record.request
    return isinstance(asked, EvaluationRequest) and not is_covered(asked.response)


@router.get("/try/pair")
async def show_pair(request: Request, container: Serving, project: Project, a: str = "", b: str = "") -> Response:
    """Two results beside each other."""
    records = [await container.scoring.evaluations.find(project, name) for name in (a, b)]
    found = [record for record in records if record and isinstance(record.request, EvaluationRequest)]
    if len(found) < 2:
        raise NotFound(Message("attempts-not-found"))
    rubric = find_rubric(container, name_version(found[0].evaluation.rubric.id, None))
    names = dict.fromkeys(name for record in found for name in record.evaluation.aspects)
    known = {aspect.id: aspect for aspect in rubric.aspects} if rubric else {}
    return render(
        request,
        "try_pair.html",
        records=found,
        same_context=found[0].request.context == found[1].request.context,  # type: ignore[union-attr]
        rows=[(name, known.get(name), [record.evaluation.aspects.get(name) for record in found]) for name in names],
        expected=rubric.source_language if rubric else "en",
        edit=query("/try", **{"from": a, "other": b}),
    )


@router.get("/try/{attempt_id}")
async def show_attempt(request: Request, container: Serving, project: Project, attempt_id: str) -> Response:
    """That the response is being scored; redirects to the result, or to the form where it could not be scored."""
    attempt, other = attempts_of(request).find(project, attempt_id), request.query_params.get("other", "")
    if attempt is not None and attempt.task.done():
        return redirect(attempt.outcome)
    now = container.scoring.context.now()
    if attempt is None:
        ids = [attempt_id, *([other] if other else [])]
        if all([await container.scoring.evaluations.find(project, name) for name in ids]):
            return redirect(address_results(ids))
        require_recent(request, now)
    seconds = (now - attempt.started_at).total_seconds() if attempt else None
    judge = container.scoring.context.judge
    cancel = query(f"/try/{attempt_id}/cancel", other=other or None, since=request.query_params.get("since"))
    told = {"attempt": attempt, "cancel": cancel, "seconds": seconds, "judge": judge}
    return render(request, "try_wait.html", minutes=ELSEWHERE_SECONDS // 60, **told)


def require_recent(request: Request, now: datetime) -> None:
    """Raises NotFound unless the address says that scoring began so lately that another process may be at it."""
    since = request.query_params.get("since", "")
    if not (since.isascii() and since.isdigit() and len(since) < 12) or not (
        0 <= now.timestamp() - int(since) < ELSEWHERE_SECONDS
    ):
        raise NotFound(Message("attempt-not-running"))


@router.post("/try/{attempt_id}/cancel")
async def cancel_attempt(request: Request, container: Serving, project: WritableProject, attempt_id: str) -> Response:
    """Stops scoring and redirects to the form as it was filled in; to the result where that came first. Where another
    process scores it, to the page that says so."""
    await read_form(request)
    attempt = attempts_of(request).find(project, attempt_id)
    if attempt is not None:
        await cancel_for_good([attempt.task])
        return redirect(attempt.outcome)  # not to its page, where another process might not know that it ended
    if await container.scoring.evaluations.find(project, attempt_id) is None:
        require_recent(request, container.scoring.context.now())
    return redirect(
        query(f"/try/{attempt_id}", **{name: request.query_params.get(name) for name in ("other", "since")})
    )


def render_attempt(
    request: Request,
    container: Container,
    draft: AttemptDraft,
    status: int = HTTPStatus.OK,
    *,
    faults: Sequence[AttemptFault] = (),
    trouble: Message | None = None,
    added: bool = False,
) -> Response:
    """The form."""
    rubrics, judge = rubrics_of_responses(container), container.scoring.context.judge
    languages, own = {rubric.source_language for rubric in rubrics}, language_of(request)
    return render(
        request,
        "try.html",
        status,
        draft=draft,
        rubrics=rubrics,
        chosen=next((rubric for rubric in rubrics if rubric.id == draft.rubric), None),
        examples=sorted(DIALOGUE_EXAMPLES.keys() & languages, key=lambda language: (language != own, language)),
        paths=PATHS if container.scoring.context.translator is not None else (),
        limits=container.settings.limits,
        judge=judge,
        costs=not is_baseline(judge.kind),
        faults=faults,
        faulty={fault.target: number for number, fault in reversed(list(enumerate(faults))) if fault.target},
        trouble=trouble,
        added=added,
        is_allowed=request.state.scope != "read",
    )


def show_error(
    request: Request, container: Container, draft: AttemptDraft, error: SaitenError, *, response: str = "response"
) -> Response:
    """The form with faults at its fields; other errors are shown above it. `response` is the field of the response."""
    status = find_status(error)
    found = faults_of(error)
    if not found and isinstance(error, errors.RubricNotSupported | errors.LanguageNotSupported):
        found = [("/rubric", error.message)]
    faults = [draft.fault(where, what) for where, what in found[:20]]
    faults = [fault._replace(target=response) if fault.target == "response" else fault for fault in faults]
    trouble = None if faults else error.message
    page = render_attempt(request, container, draft, status, faults=faults, trouble=trouble)
    page.headers.update(headers_of(error, status))
    return page


EMPTY_ROWS = 3
"""Utterances that an empty form has room for."""

USUAL_SPEAKERS = ("A", "B")

DIALOGUE_EXAMPLES: Mapping[str, tuple[Sequence[tuple[str, str]], str]] = {
    "ja": (
        (
            ("A", "最近、朝ごはんをちゃんと作るようにしてるんです。"),
            ("B", "えらいですね。どんなものを作ってるんですか？"),
            ("A", "味噌汁と卵焼きが多いかな。今日は卵焼きを焦がしちゃいましたけど。"),
        ),
        "焦げた卵焼きも香ばしくていいじゃないですか。味噌汁の具は何にしたんですか？",
    ),
    "ko": (
        (
            ("A", "요즘 아침밥을 직접 해 먹고 있어요."),
            ("B", "부지런하시네요. 주로 뭘 해 드세요?"),
            ("A", "계란말이랑 된장국을 자주 해요. 오늘은 계란말이를 태웠지만요."),
        ),
        "살짝 탄 계란말이도 고소하고 맛있잖아요. 된장국에는 뭘 넣으셨어요?",
    ),
}
"""By language a dialogue context and a response, to try with."""

DIARY_EXAMPLE = (
    (
        (
            "일기",
            "오늘은 동생이랑 처음으로 김밥을 말았다. 옆구리가 다 터졌지만 아버지가 세 줄이나 드셨다. "
            "내일도 또 만들기로 했다.",
        ),
    ),
    "옆구리 터진 김밥이 제일 맛있는 법이죠. 아버지께서 세 줄이나 드셨다니, 내일 김밥은 더 기대되네요!",
)
"""What `ko-comment` is for, in place of a dialogue."""

USUAL_RUBRICS = {"ja": "ja-dialogue", "ko": "ko-dialogue"}
"""By language what the form begins with; for any other reader as for the API, with Japanese."""

FORM_FIELDS = {
    "rubric": ("rubric", mark("Rubric")),
    "context": ("context", mark("Dialogue context")),
    "response": ("response", mark("Response")),
    "path": ("path", mark("Path")),
    "judge/samples": ("samples", mark("Samples")),
    "judge/explain": ("explain", mark("Reasons")),
}
"""A request's fields by their place in it: the id in the form, and the label."""


class AttemptFault(NamedTuple):
    """What is wrong. `target` is the id of the field, empty where it is none's; `row` counts utterances from 1."""

    target: str
    label: str
    detail: Message
    row: int | None = None


@dataclass(frozen=True)
class AttemptDraft:
    """What the form holds."""

    rubric: str = ""
    context: Sequence[tuple[str, str]] = ()
    response: str = ""
    other: str = ""
    """A second response to the same context, to be compared with the first."""
    path: str = "source"
    samples: str = "1"
    explain: bool = True

    def request(self) -> dict[str, Any]:
        """The request that the form asks for, as JSON. Utterances without a text are left out."""
        samples = self.samples
        is_number = samples.isascii() and samples.isdigit() and len(samples) < 5
        return {
            "rubric": self.rubric,
            "context": [{"speaker": speaker.strip(), "text": text} for speaker, text in self.context if text],
            "response": self.response,
            "path": self.path,
            # What is no number is sent as text, so that it is refused as any other.
            "judge": {"samples": int(samples) if is_number else samples, "explain": self.explain},
        }

    def fault(self, where: str, detail: Message) -> AttemptFault:
        """A fault of the request at its field of the form."""
        parts = where.strip("/").split("/")
        filled = [number for number, (_, text) in enumerate(self.context) if text]
        if parts[0] == "context" and len(parts) > 1 and parts[1].isdigit() and int(parts[1]) < len(filled):
            row = filled[int(parts[1])]
            name = "speaker" if parts[-1] == "speaker" else "text"
            return AttemptFault(f"{name}-{row}", mark("Utterance"), detail, row + 1)
        target, label = FORM_FIELDS.get("/".join(parts), FORM_FIELDS.get(parts[0], ("", "")))
        return AttemptFault(target, label, detail)

    def widen(self) -> AttemptDraft:
        """The same with room for one utterance more, likely by the speaker before the last."""
        names = [speaker for speaker, _ in self.context]
        speaker = names[-2] if len(names) > 1 else USUAL_SPEAKERS[len(names) % 2]
        return replace(self, context=(*self.context, (speaker, "")))


def read_attempt(form: Form, most_rows: int) -> AttemptDraft:
    """What was sent, and of a context that is too long one utterance too many, to be refused for it."""
    texts = [text.replace("\r", "\n") for text in form.all("text")]
    rows = zip(form.all("speaker")[: most_rows + 1], texts[: most_rows + 1], strict=False)
    return AttemptDraft(
        rubric=form.get("rubric"),
        context=tuple(rows),
        response=form.raw("response"),
        other=form.raw("other"),
        path=form.get("path", "source"),
        samples=form.get("samples", "1"),
        explain=form.get("explain") == "yes",
    )


def redraft(records: Sequence[Record], rubrics: Sequence[Rubric]) -> AttemptDraft:
    """The form as it was for these results."""
    first, *others = [record.request for record in records if isinstance(record.request, EvaluationRequest)]
    known = {rubric.id for rubric in rubrics}
    return AttemptDraft(
        rubric=first.rubric if first.rubric in known else split_name(first.rubric)[0],
        context=tuple((said.speaker, said.text) for said in first.context),
        response=first.response,
        other=others[0].response if others else "",
        path=first.path,
        samples=str(first.judge.samples),
        explain=first.judge.explain,
    )


def rubrics_of_responses(container: Container) -> list[Rubric]:
    """The rubrics of single responses: the form has no roles, which whole conversations need."""
    return [rubric for rubric in container.scoring.context.rubrics.list() if rubric.unit == "item"]


def start_draft(rubrics: Sequence[Rubric], language: str, rubric: str, example: str) -> AttemptDraft:
    """An empty form with the rubric, or with one for readers of the page's language; or one with an example in that
    language and a rubric for it."""
    known = {each.id: each for each in rubrics}
    chosen = (
        known.get(rubric) or find_usual(rubrics, language) or find_usual(rubrics, "ja") or next(iter(rubrics), None)
    )
    if example in DIALOGUE_EXAMPLES:
        if chosen is None or chosen.source_language != example:
            chosen = find_usual(rubrics, example) or chosen
        is_diary = chosen is not None and chosen.id == "ko-comment"
        context, response = DIARY_EXAMPLE if is_diary else DIALOGUE_EXAMPLES[example]
        return AttemptDraft(rubric=chosen.id if chosen else "", context=context, response=response)
    empty = tuple((USUAL_SPEAKERS[number % 2], "") for number in range(EMPTY_ROWS))
    return AttemptDraft(rubric=chosen.id if chosen else "", context=empty)


def find_usual(rubrics: Sequence[Rubric], language: str) -> Rubric | None:
    """The rubric of that language that the form begins with; the first where the usual one was taken away."""
    own = [rubric for rubric in rubrics if rubric.source_language == language]
    return next((rubric for rubric in own if rubric.id == USUAL_RUBRICS.get(language)), next(iter(own), None))
