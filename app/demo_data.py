"""The dialogues of `saiten demo`: each with the responses of three systems, as bodies of `POST /v1/evaluations`."""

from __future__ import annotations

from importlib.resources.abc import Traversable
from typing import Any

from app.bundled import bundled_folder, read_objects, validate_objects
from app.domain.evaluation import EvaluationRequest


def load_demo(folder: Traversable | None = None) -> list[dict[str, Any]]:
    """Request bodies with `metadata.system` and `metadata.dialogue`, in the order to show them.

    `folder` holds `dialogues.jsonl`; by default the package's own. Raises ValueError that names file and line where a
    body is not a valid evaluation request.
    """
    file = (folder or bundled_folder("demo")).joinpath("dialogues.jsonl")
    bodies = read_objects(file)
    validate_objects(file, bodies, EvaluationRequest)
    return bodies
