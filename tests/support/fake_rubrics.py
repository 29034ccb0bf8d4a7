"""A RubricSource out of rubrics at hand, and small rubrics to put into it."""

from collections.abc import Sequence
from typing import Any

from saiten_server.core.rubric import Rubric
from saiten_server.scoring.rubrics.files import RubricSource


class FakeRubrics(RubricSource):
    """Holds the rubrics it is given."""


def aspect_data(aspect_id: str, values: Sequence[int] = (0, 1), **more: Any) -> dict[str, Any]:
    """An aspect in English as plain data."""
    return {
        "id": aspect_id,
        "name": {"en": aspect_id.capitalize()},
        "question": {"en": f"How is its {aspect_id}?"},
        "levels": [
            {"value": value, "label": {"en": f"level {value}"}, "description": {"en": f"It is at {value}."}}
            for value in values
        ],
        **more,
    }


def rubric_data(rubric_id: str = "small", **more: Any) -> dict[str, Any]:
    """A rubric in English with the aspects `warmth` (0–1) and `clarity` (1–3) as plain data."""
    return {
        "id": rubric_id,
        "version": 1,
        "source_language": "en",
        "title": {"en": "A small rubric"},
        "task": {"en": "Rate the response."},
        "aspects": [aspect_data("warmth"), aspect_data("clarity", (1, 2, 3))],
        **more,
    }


def small_rubric(rubric_id: str = "small", **more: Any) -> Rubric:
    """`rubric_data` as a rubric."""
    return Rubric.model_validate(rubric_data(rubric_id, **more))
