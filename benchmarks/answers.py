"""Writes `client/saiten/answers.py`, the models of what the service answers, from its OpenAPI document:
`python -m benchmarks.answers`.

A client reads answers of newer services too. So a model has the shape of its schema without the bounds, a value is one
of a list only where callers decide by it, and what is left out is empty.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.openapi import make_document

FILE = Path(__file__).resolve().parent.parent / "client" / "saiten" / "answers.py"
HEADER = (
    '"""What the service answers. Generated from its OpenAPI document: change the service, and run `make pages`."""'
)

SHAPE = ("$ref", "type", "format", "description", "default")
NULL = {"type": "null"}
EMPTY: dict[str, Any] = {"object": {}, "array": []}
DECISIVE = {"status", "verdict"}
"""The fields whose values a caller decides by."""

LONGEST = 110
"""Characters of a field's description that fit a line."""

PREFIX = "#/components/schemas/"
BASES = {"Batch": "RatedBatch", "PreferenceRun": "RatedBatch", "Counts": "CandidateCounts", "Rubric": "VersionedRubric"}
"""Models that can do something, which a class of `saiten.answer` says."""

TEXTS = {"type": "string"}
ECHOED = {"EvaluationRequest": True, "ConversationRequest": True, "Utterance": TEXTS, "Turn": TEXTS}
"""What an answer shows as it was sent: mappings, with the schemas of their values."""

NAMES = {"StoredRating": "Rating", "StoredExclusion": "Exclusion"}
"""Schemas that requests have another one beside, and the names of their models."""

LIST = re.compile(r" = (\[.*\])$", re.MULTILINE)
Schema = dict[str, Any]
Schemas = dict[str, Schema]


def find_references(part: Any) -> Iterator[str]:
    """The names of the schemas that a part of the document refers to."""
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"].removeprefix(PREFIX)
        part = part.values()
    elif not isinstance(part, list):
        return
    yield from chain.from_iterable(map(find_references, part))


def find_answers(document: Schema, below: str = "/") -> set[str]:
    """The names of the schemas that successful answers to the paths below one refer to themselves."""
    operations = chain.from_iterable(one.values() for path, one in document["paths"].items() if path.startswith(below))
    answers = [answer for one in operations for status, answer in one["responses"].items() if status.startswith("2")]
    return {*find_references(answers)}


def with_parts(names: set[str], schemas: Schemas) -> Schemas:
    """The schemas of these names and all that they refer to, by name."""
    found: Schemas = {}
    left = [*names]
    while left:
        if (name := left.pop()) not in found:
            found[name] = schemas[name]
            left += find_references(schemas[name])
    return dict(sorted(found.items()))


def simplify(schema: Schema, name: str = "") -> Schema:
    """The shape of a schema, which is the field `name`."""
    if (echoed := schema.get("$ref", "").removeprefix(PREFIX)) in ECHOED:
        return {"type": "object", "additionalProperties": ECHOED[echoed]}
    shape = {key: schema[key] for key in SHAPE if key in schema}
    if name and len(schema.get("description", "")) > LONGEST:
        del shape["description"]
    if "enum" in schema and name in DECISIVE:
        shape["enum"] = schema["enum"]
    if "anyOf" in schema:
        shape["anyOf"] = [simplify(one) for one in schema["anyOf"]]
    if "items" in schema:
        shape["items"] = simplify(schema["items"])
        if schema.get("minItems") == schema.get("maxItems"):
            shape |= {key: schema[key] for key in ("minItems", "maxItems") if key in schema}
    if "properties" in schema:
        needed = schema.get("required", ())
        fields = {name: simplify(part, name) for name, part in schema["properties"].items()}
        shape["properties"] = {name: lighten(field, needed=name in needed) for name, field in fields.items()}
        shape["required"] = [name for name, field in shape["properties"].items() if "default" not in field]
    elif isinstance(more := schema.get("additionalProperties"), dict):
        shape["additionalProperties"] = simplify(more)
    return shape


def lighten(field: Schema, *, needed: bool) -> Schema:
    """The field with a default where a file or another version of the service may lack it: where it is not `needed`,
    or may be empty or null."""
    if "default" in field:
        return field
    if "minItems" not in field and field.get("type") in EMPTY:
        return {**field, "default": EMPTY[field["type"]]}
    if NULL in field.get("anyOf", ()):
        return {**field, "default": None}
    if needed:
        return field
    about = {"description": field["description"]} if "description" in field else {}
    return {"anyOf": [field, NULL], "default": None, **about}


def merge(*schemas: Schema, description: str) -> Schema:
    """One schema for lines that have one of these, of which a file may lack all but the `status`."""
    properties = {name: part for schema in reversed(schemas) for name, part in schema["properties"].items()}
    states = [schema["properties"]["status"] for schema in schemas]
    values = [value for state in states for value in state.get("enum") or [state["const"]]]
    properties["status"] = {**states[0], "enum": [*dict.fromkeys(values)]}
    return {"type": "object", "description": description, "properties": properties, "required": ["status"]}


def describe_answers(document: Schema) -> Schemas:
    """The shapes of all answers by the names of their models."""
    schemas: Schemas = document["components"]["schemas"]
    # An evaluation that is read has all that one has that was just made, and what was asked.
    schemas["Evaluation"] = schemas.pop("ReadEvaluation")
    # Of a result that failed before it was judged, a command knows no more than what it asked for.
    schemas["RubricReference"]["required"] = ["id"]
    row = "A candidate's place in its batch with its evaluation, or with the `error` in place of one."
    lines = [schemas.pop(name) for name in ("EvaluatedLine", "FailedLine")]
    schemas["ResultRow"] = merge(*lines, description=row)
    pair = "A pair's place in its run with what a comparison says, or with the `error` in place of it."
    lines = [schemas.pop(name) for name in ("PreferenceLine", "FailedPair")]
    schemas["PreferenceRow"] = merge(*lines, description=pair)
    named = (find_answers(document) | {"ResultRow", "PreferenceRow"}) & schemas.keys() - {"ReadConversation"}
    shapes = {name: simplify(schema) for name, schema in schemas.items()}
    return with_parts(named, shapes)


def render() -> str:
    """The module as it is committed."""
    from datamodel_code_generator import InputFileType, generate
    from datamodel_code_generator.enums import DataModelType
    from datamodel_code_generator.format import DatetimeClassType, Formatter, PythonVersion
    from datamodel_code_generator.parser import LiteralType

    document = make_document()
    reports = find_answers(document, "/v1/analyses")
    schemas = describe_answers(document)
    bases = {**dict.fromkeys(reports, "Report"), **BASES}
    code = generate(
        {"openapi": document["openapi"], "info": document["info"], "paths": {}, "components": {"schemas": schemas}},
        input_file_type=InputFileType.OpenAPI,
        output_model_type=DataModelType.PydanticV2BaseModel,
        target_python_version=PythonVersion.PY_311,
        base_class="saiten.answer.Answer",
        base_class_map={name: f"saiten.answer.{base}" for name, base in bases.items()},
        model_name_map=NAMES,
        aliases={"lambda": "weight"},
        type_overrides={"GateRule": "saiten.rules.Rule"},
        import_overrides={"Sequence": "saiten.answer"},
        output_datetime_class=DatetimeClassType.Datetime,
        enum_field_as_literal=LiteralType.All,
        strict_nullable=True,
        use_generic_container_types=True,
        use_standard_collections=True,
        use_union_operator=True,
        use_tuple_for_fixed_length_arrays=True,
        use_schema_description=True,
        use_field_description=True,
        use_single_line_docstring=True,
        use_double_quotes=True,
        custom_file_header=HEADER,
        formatters=[Formatter.BUILTIN],
    )
    assert isinstance(code, str)
    for written, short in (("Field([], validate_default=True)", "()"), ("Field({}, validate_default=True)", "{}")):
        code = code.replace(written, short)
    return tidy(LIST.sub(lambda found: f" = {tuple(ast.literal_eval(found[1]))!r}", code))


def tidy(code: str) -> str:
    """The code in the form of this repository."""
    for command in ("check --fix-only --select I --quiet", "format --quiet"):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command.split(), "--stdin-filename", str(FILE), "-"],
            input=code, capture_output=True, text=True, encoding="utf-8", check=True,
        )  # fmt: skip
        code = done.stdout
    return code


if __name__ == "__main__":
    FILE.write_text(render(), encoding="utf-8")
