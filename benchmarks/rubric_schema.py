"""Writes the JSON Schema of rubric files, for editors: `python -m benchmarks.rubric_schema`.

It comes from the domain model, so it says what the loader says, short of what crosses fields (consecutive levels,
missing languages, composites of unknown aspects): for these there is `saiten rubric check`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from saiten_server.core.rubric import Rubric

SCHEMA = Path(__file__).resolve().parent.parent / "rubrics" / "rubric.schema.json"


def rubric_schema() -> dict[str, Any]:
    """The schema as plain data, in JSON Schema 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **close_mappings(Rubric.model_json_schema(mode="validation")),
        "title": "Saiten rubric",
        "description": "What a judge is asked: versioned aspects with scales, level descriptions and examples.",
    }


def close_mappings(part: Any) -> Any:
    """The schema with nothing allowed beside the pattern of a mapping's keys, where pydantic leaves that open."""
    if isinstance(part, list):
        return [close_mappings(item) for item in part]
    if not isinstance(part, dict):
        return part
    closed = {key: close_mappings(value) for key, value in part.items()}
    return {**closed, "additionalProperties": False} if "patternProperties" in closed else closed


def render() -> str:
    """The schema as it is committed."""
    return json.dumps(rubric_schema(), ensure_ascii=False, indent=2) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(render(), encoding="utf-8")
