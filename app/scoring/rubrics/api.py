"""`/v1/rubrics`: the rubrics that the judge can rate with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from saiten_server.core.errors import NotFound, UnknownRubric
from saiten_server.core.rubric import Rubric as DomainRubric
from saiten_server.platform.web.dependencies import Serving
from saiten_server.platform.web.openapi import PROBLEMS, answers

router = APIRouter(prefix="/v1/rubrics", tags=["rubrics"])


class RubricAspect(BaseModel):
    """An aspect of a rubric. A list of rubrics has `scale`; a rubric that is read by itself has its `levels`."""

    model_config = ConfigDict(extra="allow")

    id: str
    name: dict[str, str]
    scale: tuple[int, int] | None = None
    blended: bool = False
    question: dict[str, str] = Field(default_factory=dict)
    levels: tuple[dict[str, Any], ...] = ()
    best: int | None = None


class Rubric(BaseModel):
    """A rubric. A list of rubrics has `versions`, and ids in place of the composites."""

    model_config = ConfigDict(extra="allow")

    id: str
    version: int
    versions: tuple[int, ...] = ()
    digest: str
    title: dict[str, str]
    source_language: str
    languages: tuple[str, ...] = ()
    calls: str = "joint"
    task: dict[str, str] = Field(default_factory=dict)
    aspects: tuple[RubricAspect, ...]
    composites: tuple[str | dict[str, Any], ...] = ()


class RubricList(BaseModel):
    """Every rubric in its newest version."""

    rubrics: list[Rubric]


@router.get("", summary="List the rubrics", responses={200: answers(RubricList), **PROBLEMS})
async def list_rubrics(container: Serving) -> dict[str, list[dict[str, Any]]]:
    """Each rubric's id, newest version, all versions, digest, languages, aspects and scales."""
    rubrics = container.scoring.context.rubrics
    return {"rubrics": [outline(rubric, rubrics.versions(rubric.id)) for rubric in rubrics.list()]}


@router.get("/{rubric_id}", summary="Read one rubric", responses={200: answers(Rubric), **PROBLEMS})
async def read_rubric(container: Serving, rubric_id: str) -> dict[str, Any]:
    """The whole rubric: questions, level descriptions and example dialogues in each of its languages.

    `id@version` is that version, the id alone the newest.
    """
    try:
        rubric = container.scoring.context.rubrics.get(rubric_id)
    except UnknownRubric as error:
        raise NotFound(error.message) from error
    return {**rubric.model_dump(mode="json"), "digest": rubric.digest}


def outline(rubric: DomainRubric, versions: Sequence[int]) -> dict[str, Any]:
    """The rubric without its texts; `versions` are all available versions."""
    return {
        "id": rubric.id,
        "version": rubric.version,
        "versions": list(versions),
        "digest": rubric.digest,
        "title": rubric.title,
        "source_language": rubric.source_language,
        "languages": list(rubric.languages),
        "calls": rubric.calls,
        "aspects": [
            {"id": one.id, "name": one.name, "scale": list(one.scale), "blended": one.blended} for one in rubric.aspects
        ],
        "composites": [composite.id for composite in rubric.composites],
    }
