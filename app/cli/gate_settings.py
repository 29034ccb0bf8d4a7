"""The settings of `saiten gate`: the table `[gate]` of a file, and the command line's options over it."""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from app.domain.analysis_request import GateTerms
from app.domain.batch import BatchName
from app.domain.dialogue import DEFAULT_LIMITS
from app.domain.evaluation import JudgeOptions, Metadata, PathChoice
from app.domain.model import Finite, RubricName
from app.domain.validation import InvalidDocument, validate
from saiten.commands.files import InvalidItems, shorten_faults

NAME = "saiten.toml"
TABLE = "gate"


class GateSettings(GateTerms):
    """The table `[gate]`. Options of the command line come before it.

    `candidate` and `baseline` are a batch (`ba_…`, or `latest:NAME` for the newest completed one of that name), a file
    of items to be scored, or a file of results. Paths are relative to the working directory.
    `timeout_seconds` limits all scoring together; `budget_usd` each batch.
    """

    url: str | None = None
    candidate: str | None = None
    baseline: str | None = None
    name: BatchName | None = None
    rubric: RubricName = "ja-dialogue"
    path: PathChoice = "source"
    relevance: bool = True
    judge: JudgeOptions = Field(default_factory=JudgeOptions)
    metadata: Metadata = Field(default_factory=dict)
    budget_usd: Annotated[Finite, Field(ge=0)] | None = None
    timeout_seconds: Annotated[Finite, Field(gt=0)] | None = None
    judge_reference: str | None = None


def read_gate_file(path: str | None) -> dict[str, Any]:
    """The table `[gate]` of the file, of `saiten.toml` where none is named and there is one; else empty.

    Raises InvalidItems where the file cannot be read, or contains anything else.
    """
    if path is None and not Path(NAME).exists():
        return {}
    name = NAME if path is None else path
    try:
        with open(name, "rb") as file:
            found = tomllib.load(file)
    except OSError as error:
        raise InvalidItems(f"{name or '--config'}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InvalidItems(f"{name}: it is not UTF-8 (byte {error.start})") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidItems(f"{name}: {error}") from None
    table = found.pop(TABLE, None)
    if not isinstance(table, dict):
        raise InvalidItems(f"{name}: there is no table [{TABLE}]")
    if found:
        raise InvalidItems(f"{name}: {next(iter(found))[:64]}: is outside the table [{TABLE}]")
    return table


def make_settings(table: dict[str, Any], options: dict[str, Any], name: str) -> GateSettings:
    """The file's table with the command line's options over it; raises InvalidItems that names field or option."""
    try:
        return validate(GateSettings, {**table, **options}, DEFAULT_LIMITS)
    except InvalidDocument as error:
        faults = [name_fault(where, what, options, name) for where, what in error.faults]
        raise InvalidItems(shorten_faults(faults)) from None


def name_fault(where: str, what: str, options: dict[str, Any], name: str) -> str:
    """What is wrong with which option, or with which key of the file."""
    key, _, rest = where.removeprefix("/").partition("/")
    if key == "rules" and key in options:
        rule = options[key][int(rest.partition("/")[0])]
        return f"--max-drop or --min-mean of {rule['aspect'][:64]!r}: {what}"
    if key in options:
        return f"{option_of(key)}: {what}"
    near = get_close_matches(key.replace("-", "_"), GateSettings.model_fields, n=1)
    hint = f"; is {near[0]} meant?" if near and key not in GateSettings.model_fields else ""
    return f"{name}: {TABLE}{where.replace('/', '.')}: {what}{hint}"


def option_of(key: str) -> str:
    """`--timeout` for `timeout_seconds`, `--min-coverage` for `min_coverage`."""
    return "--" + key.removesuffix("_seconds").removesuffix("_usd").replace("_", "-")


def read_rules(min_mean: tuple[str, ...], max_drop: tuple[str, ...]) -> list[dict[str, Any]]:
    """`ASPECT=NUMBER` options as rules, one an aspect; raises InvalidItems."""
    rules: dict[str, dict[str, Any]] = {}
    for field, written in (("min_mean", min_mean), ("max_drop", max_drop)):
        for text in written:
            aspect, _, value = text.partition("=")
            rule = rules.setdefault(aspect, {"aspect": aspect})
            if field in rule:
                raise InvalidItems(f"{option_of(field)}: {aspect[:64]} has two values")
            try:
                rule[field] = float(value)
            except ValueError:
                raise InvalidItems(f"{option_of(field)}: write it like overall=0.1, not {text[:40]!r}") from None
    return list(rules.values())
