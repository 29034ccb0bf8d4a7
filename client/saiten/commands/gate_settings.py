"""The settings of `saiten gate`: the table `[gate]` of a file, and the command line's options over it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from datetime import date, time
from math import isfinite
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from saiten.commands.files import UNFIT, InvalidItems, shorten_faults
from saiten.connection import Connection
from saiten.core.errors import ServiceRefused
from saiten.core.faults import explain, pointer
from saiten.core.language import say, suggest, tell
from saiten.core.messages import Message

GATE_VALIDATIONS_PATH = "/v1/validations/gates"

GATE_FILE = "saiten.toml"
TABLE = "gate"
ASSERTIONS = "assertions"


class GateSettings(BaseModel):
    """The table `[gate]`. Options of the command line come before it.

    `candidate` and `baseline` are a batch (`ba_…`, or `latest:NAME` for the newest completed one of that name), a file
    of items to be scored, or a file of results. Paths are relative to the working directory.
    `from`, `map` and `input_encoding` say how files of items are read, as the options of `saiten score`, and `where`
    which rows of the candidate's.
    `reasons`: a failed gate asks the judge for the missing reasons of the worst cases.
    `timeout_seconds` limits all scoring together; `budget_usd` each batch. The service says what values may be.
    """

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True, populate_by_name=True
    )

    rules: list[Any] = Field(default_factory=list)
    min_coverage: float = 0.98
    alpha: float = 0.05
    test: str = "auto"
    allow_signature_mismatch: bool = False
    estimate: str = "judge"
    looks: str = "once"
    link: str | None = None
    sequence: str | None = None
    keep: bool | None = None
    check_judge: bool = False
    reasons: bool = True
    url: str | None = None
    candidate: str | None = None
    baseline: str | None = None
    name: str | None = None
    rubric: str = "ja-dialogue"
    path: str = "source"
    relevance: bool = True
    judge: dict[str, Any] = Field(default_factory=dict)
    metadata: dict[str, Any] = Field(default_factory=dict)
    budget_usd: float | None = None
    timeout_seconds: float | None = Field(default=None, gt=0)
    judge_reference: str | None = None
    source: str | None = Field(default=None, alias="from")
    map: dict[str, str | list[str]] = Field(default_factory=dict)
    input_encoding: str | None = None
    where: dict[str, str | list[str]] = Field(default_factory=dict)


TERMS = frozenset({"min_coverage", "alpha", "test", "allow_signature_mismatch"})
PLANNED = TERMS | {"rules", "check_judge", "name", "rubric", "path", "judge", "metadata", "budget_usd"}
"""The settings that the service validates."""


def read_gate_file(path: str | None) -> dict[str, Any]:
    """The table `[gate]` of the file, of `saiten.toml` where none is named and there is one; else empty.

    Raises InvalidItems where the file cannot be read, or contains anything else.
    """
    if path is None and not Path(GATE_FILE).exists():
        return {}
    name = GATE_FILE if path is None else path
    try:
        with open(name, "rb") as file:
            found = tomllib.load(file)
    except OSError as error:
        raise InvalidItems(f"{name or '--config'}: {tell(error.strerror or '')}") from None
    except UnicodeDecodeError as error:
        raise InvalidItems(tell("{name}: it is not UTF-8 (byte {start})", name=name, start=error.start)) from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidItems(f"{name}: {error}") from None
    asserted = found.pop(ASSERTIONS, None)  # which `read_assertions` reads
    table = found.pop(TABLE, None if asserted is None else {})
    if not isinstance(table, dict):
        raise InvalidItems(tell("{name}: there is no table [{table}]", name=name, table=TABLE))
    if found:
        raise InvalidItems(
            tell(
                "{name}: {value}: is outside the table [{table}]", name=name, value=next(iter(found))[:64], table=TABLE
            )
        )
    return table


def make_settings(table: dict[str, Any], options: dict[str, Any], name: str) -> GateSettings:
    """The file's table with the command line's options over it; raises InvalidItems that names field or option."""
    given = {**table, **options}
    found = [*find_unwritable(given)]
    if not found:
        try:
            return GateSettings.model_validate(given)
        except ValidationError as error:
            found = [(where, say(what)) for where, what in explain(error, given)]
    raise InvalidItems(shorten_faults([name_option_fault(where, what, options, name) for where, what in found]))


def find_unwritable(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """What TOML has and JSON has not: a date, a time, a number that is not finite."""
    if isinstance(value, date | time):
        yield where, say(Message("must-be-text"))
    elif isinstance(value, float) and not isfinite(value):
        yield where, say(Message("must-be-finite"))
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    for name, part in parts:
        yield from find_unwritable(part, where + pointer([name]))


async def check_settings(
    service: Connection,
    settings: GateSettings,
    options: Mapping[str, Any],
    name: str,
    *,
    rubrics: tuple[str, str | None] | None,
) -> None:
    """Raises InvalidItems where the service would refuse the settings, that is before anything is scored.

    The rules are checked against `rubrics`, the candidate's and the baseline's, unless nothing is compared.
    """
    asked = settings.model_dump(include={*PLANNED} & settings.model_fields_set, exclude_none=True)
    if rubrics is not None:
        asked |= {"candidate_rubric": rubrics[0], "baseline_rubric": rubrics[1]}
    try:
        await service.request("POST", GATE_VALIDATIONS_PATH, json=asked)
    except ServiceRefused as error:
        if error.status != UNFIT or not error.faults:
            raise
        faults = [
            what if where == "/rules" else name_option_fault(where, what, options, name) for where, what in error.faults
        ]
        raise InvalidItems(shorten_faults(faults, error.total)) from None


def name_option_fault(where: str, what: str, options: Mapping[str, Any], name: str) -> str:
    """What is wrong with which option, or with which key of the file."""
    key, _, rest = where.removeprefix("/").partition("/")
    if key == "rules" and key in options and rest:
        rule = options[key][int(rest.partition("/")[0])]
        code = rule.get("finding", rule.get("measure"))
        if code is not None:
            return f"--max-rise of {code[:64]!r}: {what}"
        return f"--max-drop or --min-mean of {rule['aspect'][:64]!r}: {what}"
    if key in options:
        return f"{option_of(key)}: {what}"
    known = [field.alias or own for own, field in GateSettings.model_fields.items()]
    near = "" if key in known or rest else suggest(key.replace("-", "_"), known)
    return f"{name}: {TABLE}{where.replace('/', '.')}: {what}{near}"


def option_of(key: str) -> str:
    """`--timeout` for `timeout_seconds`, `--min-coverage` for `min_coverage`."""
    return "--" + key.removesuffix("_seconds").removesuffix("_usd").replace("_", "-")


def read_metadata(pairs: tuple[str, ...]) -> dict[str, str]:
    """`KEY=VALUE` options; raises UsageError."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(tell("--metadata: write it like build=1a2b, not {text!r}", text=pair[:40]))
        found[key] = value
    return found


def read_rules(
    min_mean: tuple[str, ...], max_drop: tuple[str, ...], max_rise: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """`ASPECT=NUMBER` and `CODE=NUMBER` options as rules, one an aspect and one a code of findings, or the
    measure `faulty_turns`; raises InvalidItems."""
    rules: dict[tuple[str, str], dict[str, Any]] = {}
    for field, kind, written in (
        ("min_mean", "aspect", min_mean),
        ("max_drop", "aspect", max_drop),
        ("max_rise", "finding", max_rise),
    ):
        for text in written:
            name, _, value = text.partition("=")
            own = "measure" if (kind, name) == ("finding", "faulty_turns") else kind
            rule = rules.setdefault((own, name), {own: name})
            if field in rule:
                raise InvalidItems(tell("{field}: {aspect} has two values", field=option_of(field), aspect=name[:64]))
            try:
                rule[field] = float(value)
            except ValueError:
                raise InvalidItems(name_misspelt(field, text[:40])) from None
    return list(rules.values())


def name_misspelt(field: str, text: str) -> str:
    """How the option is to be written."""
    if field == "max_rise":
        return tell("{field}: write it like register-shift=2, not {text!r}", field=option_of(field), text=text)
    return tell("{field}: write it like overall=0.1, not {text!r}", field=option_of(field), text=text)
