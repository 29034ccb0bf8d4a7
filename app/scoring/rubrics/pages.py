"""`/rubrics`: what the judge is asked, in full, and how two versions or rubrics differ."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from saiten.core.messages import Message
from saiten_server.core.errors import NotFound, UnknownRubric
from saiten_server.core.rubric import Composite, Example, LinearComposite, Rubric
from saiten_server.platform.web.dependencies import Serving
from saiten_server.platform.web.language import language_of, mark
from saiten_server.platform.web.page import (
    MOST_CHARACTER_PAIRS,
    PageRoute,
    Piece,
    Project,
    compare_texts,
    render,
    replace_text,
)
from saiten_server.scoring.rubrics.files import RubricSource

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get("/rubrics")
async def list_rubrics(request: Request, container: Serving, project: Project) -> Response:
    """Every rubric with its versions, the newest first."""
    rubrics = container.scoring.context.rubrics
    listed = [(rubric, rubrics.versions(rubric.id)[::-1]) for rubric in rubrics.list()]
    return render(request, "rubrics.html", listed=listed)


@router.get("/rubrics/{name}.yaml")
async def download_rubric(container: Serving, project: Project, name: str) -> Response:
    """The rubric's file."""
    rubrics = container.scoring.context.rubrics
    rubric = find_named(rubrics, name)
    text = rubrics.text(rubric.name)
    if text is None:
        raise NotFound(Message("rubric-without-file", names=rubric.name))
    # Named as `rubrics/` names it. An id holds nothing that would have to be quoted.
    older = "" if rubric.version == find_named(rubrics, rubric.id).version else f".v{rubric.version}"
    headers = {"Content-Disposition": f'attachment; filename="{rubric.id}{older}.yaml"', "Cache-Control": "no-store"}
    return Response(text, headers=headers, media_type="application/yaml; charset=utf-8")


class RubricView(BaseModel):
    """What an address asks for: a language, and the version or rubric to compare with. Either may be empty."""

    language: str = ""
    against: str = ""


@router.get("/rubrics/{name}")
async def show_rubric(
    request: Request, container: Serving, project: Project, name: str, asked: Annotated[RubricView, Query()]
) -> Response:
    """One version in one of its languages; where asked, how it differs from another, or from another rubric."""
    rubrics = container.scoring.context.rubrics
    rubric = find_named(rubrics, name)
    wanted = (asked.language, language_of(request), "en", rubric.source_language)
    chosen = next(each for each in wanted if each in rubric.languages)
    against = f"{rubric.id}@{asked.against}" if asked.against.isdecimal() else asked.against
    before = find_named(rubrics, against) if against else None
    changes = None
    if before is not None:
        changes = await asyncio.to_thread(compare_rubrics, before, rubric, chosen)
    return render(
        request,
        "rubric.html",
        rubric=rubric,
        chosen=chosen,
        versions=rubrics.versions(rubric.id)[::-1],
        others=[each for each in rubrics.list() if each.id != rubric.id],
        before=before,
        changes=changes,
        names={each.id: each.name for version in (before, rubric) if version for each in version.aspects},
        formula=formula,
        has_file=rubrics.text(rubric.name) is not None,
    )


def find_named(rubrics: RubricSource, name: str) -> Rubric:
    """The rubric `id` or `id@version`; raises NotFound."""
    try:
        return rubrics.get(name)
    except UnknownRubric as error:
        raise NotFound(error.message) from error


class TextChange(NamedTuple):
    """A text that differs. `aspect` is an aspect's id, empty for the whole rubric; `level` one of its ratings, or None;
    `field` is a message's id."""

    aspect: str
    level: int | None
    field: str
    pieces: Sequence[Piece]


RubricTextKey = tuple[str, int | None, str]


def compare_rubrics(before: Rubric, after: Rubric, language: str) -> list[TextChange]:
    """What differs between two rubrics in a language, in the order of the second, and at the end what it lacks."""
    old, new, left = rubric_texts(before, language), rubric_texts(after, language), MOST_CHARACTER_PAIRS
    found = []
    for place in dict.fromkeys([*new, *old]):
        a, b = old.get(place, ""), new.get(place, "")
        if a != b:
            is_short = len(a) * len(b) <= left
            left -= len(a) * len(b) if is_short else 0
            found.append(TextChange(*place, compare_texts(a, b) if is_short else replace_text(a, b)))
    return found


def rubric_texts(rubric: Rubric, language: str) -> Mapping[RubricTextKey, str]:
    """Everything that a judge or reader sees of the rubric in the language, by place."""
    found: dict[RubricTextKey, str] = {
        ("", None, mark("Title")): rubric.title.get(language, ""),
        ("", None, mark("Task")): rubric.task.get(language, ""),
        ("", None, mark("Calls")): rubric.calls,
        ("", None, mark("Composites")): "\n".join(map(formula, rubric.composites)),
    }
    for aspect in rubric.aspects:
        found[aspect.id, None, mark("Name")] = aspect.name.get(language, "")
        found[aspect.id, None, mark("Question")] = aspect.question.get(language, "")
        found[aspect.id, None, mark("Best level")] = str(aspect.values[-1] if aspect.best is None else aspect.best)
        found[aspect.id, None, mark("Blended with relevance")] = "✓" if aspect.blended else "✗"
        if aspect.one_shot and language in aspect.one_shot:
            shown = aspect.one_shot[language]
            found[aspect.id, None, mark("Worked example")] = f"{line_up(shown)}\n{shown.rating}: {shown.reason}"
        for level in aspect.levels:
            found[aspect.id, level.value, mark("Label")] = level.label.get(language, "")
            found[aspect.id, level.value, mark("Description")] = level.description.get(language, "")
            if level.example and language in level.example:
                found[aspect.id, level.value, mark("Example")] = line_up(level.example[language])
    return {place: text for place, text in found.items() if text}


def line_up(example: Example) -> str:
    """The dialogue, one utterance a line."""
    return "\n".join([*(f"{each.speaker}: {each.text}" for each in example.context), f"→ {example.response}"])


def formula(composite: Composite) -> str:
    """`id = …`, with the ids of the aspects."""
    if not isinstance(composite, LinearComposite):
        return f"{composite.id} = mean({', '.join(composite.of)})"
    terms = [f"{composite.intercept:g}"] if composite.intercept else []
    for term in composite.terms:
        part, transform = term.aspect, term.transform
        if transform.subtract:
            part = f"({part} - {transform.subtract:g})"
        if transform.divide != 1:
            part = f"{part} / {transform.divide:g}"
        terms.append(f"{term.weight:g} · {f'|{part}|' if transform.absolute else part}")
    return f"{composite.id} = {' + '.join(terms)}"
