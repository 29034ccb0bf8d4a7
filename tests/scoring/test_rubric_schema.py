"""The committed JSON Schema of rubric files."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from benchmarks import rubric_schema
from saiten_server.scoring.rubrics.files import default_folder, rubric_paths

ROOT = Path(__file__).parents[2]
SCHEMA: dict[str, Any] = json.loads((ROOT / "rubrics" / "rubric.schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)
FILES = [*rubric_paths(default_folder()), ROOT / "tests" / "support" / "rubrics" / "lfqa-like.yaml"]


def data(path: Path = FILES[0]) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


def test_the_committed_schema_is_what_the_script_writes():
    assert rubric_schema.SCHEMA.read_text(encoding="utf-8") == rubric_schema.render(), "run `make pages`"


def test_the_schema_is_a_schema():
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMA["title"]
    assert SCHEMA["description"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_rubrics_validate_against_it(path: Path):
    VALIDATOR.validate(data(path))


@pytest.mark.parametrize("path", rubric_paths(default_folder()), ids=lambda path: path.name)
def test_shipped_files_tell_editors_where_it_is(path: Path):
    first_line = path.read_text(encoding="utf-8").partition("\n")[0]
    assert first_line == "# yaml-language-server: $schema=rubric.schema.json"


def drop_version(rubric: dict[str, Any]) -> None:
    del rubric["version"]


def add_field(rubric: dict[str, Any]) -> None:
    rubric["aspects"][0]["weight"] = 1


def name_language_badly(rubric: dict[str, Any]) -> None:
    rubric["title"]["JA"] = "x"


def write_text_for_number(rubric: dict[str, Any]) -> None:
    rubric["aspects"][0]["levels"][0]["value"] = "1"


def leave_one_level(rubric: dict[str, Any]) -> None:
    del rubric["aspects"][0]["levels"][1:]


def mix_composites(rubric: dict[str, Any]) -> None:
    rubric["composites"] = [{"id": "c", "kind": "mean", "terms": []}]


@pytest.mark.parametrize(
    "spoil",
    [drop_version, add_field, name_language_badly, write_text_for_number, leave_one_level, mix_composites],
    ids=lambda spoil: spoil.__name__,
)
def test_what_the_loader_refuses_of_a_single_field_the_schema_refuses_too(spoil):
    rubric = data()
    spoil(rubric)
    assert not VALIDATOR.is_valid(rubric)


def test_every_field_of_the_format_says_what_it_is_for():
    rubric, aspect, level = SCHEMA["properties"], SCHEMA["$defs"]["Aspect"], SCHEMA["$defs"]["Level"]
    for properties in (rubric, aspect["properties"], level["properties"]):
        assert [name for name, field in properties.items() if "description" not in field] == []
