"""Assertions on responses beside the judge: `[[assertions]]` of saiten.toml. Code decides them, not a model."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from saiten.commands.files import InvalidItems, shorten_faults
from saiten.commands.gate_settings import ASSERTIONS, GATE_FILE
from saiten.core.faults import explain
from saiten.core.language import say, tell
from saiten.core.messages import Message, Misfit
from saiten.core.plain_text import clip, printable

LATENCY = "latency_ms"
"""The metadata of an item that say how long the bot took."""

MOST_ASSERTIONS = 1000
MOST_NAMED = 10
MOST_PATTERN_BYTES = 8 << 20
"""Memory that a pattern may take; the engine refuses larger ones."""


class Assertion(BaseModel):
    """One table `[[assertions]]`: what every response must hold, or those of the items named in `items`."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    contains: str | None = Field(default=None, min_length=1, max_length=1000)
    not_contains: str | None = Field(default=None, min_length=1, max_length=1000)
    matches: str | None = Field(default=None, min_length=1, max_length=1000)
    not_matches: str | None = Field(default=None, min_length=1, max_length=1000)
    max_characters: int | None = Field(default=None, ge=1)
    max_latency_ms: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    items: list[str] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _has_one(self) -> Assertion:
        asked = [name for name in type(self).model_fields if name != "items" and getattr(self, name) is not None]
        if len(asked) != 1:
            raise Misfit(Message("assertion-names-one"))
        return self

    @property
    def kind(self) -> str:
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)

    def describe(self) -> str:
        """`contains '円'`."""
        value = getattr(self, self.kind)
        shown = repr(printable(clip(value))) if isinstance(value, str) else f"{value:g}"
        return f"{self.kind} {shown}"


@dataclass(frozen=True)
class CheckedResponse:
    """What an assertion looks at: a response, where it comes from, and how long the bot took, if that is known."""

    item: str
    text: str
    latency_ms: float | None = None


@dataclass
class AssertionOutcome:
    """How one assertion did: of `checked` responses those in `failed` do not hold, each with why."""

    assertion: Assertion
    checked: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.failed and self.checked > 0

    def describe(self) -> str:
        """The result in one sentence, with the first items that failed."""
        if not self.checked:
            return tell("there is no such item")
        if not self.failed:
            return tell("all {count:,} responses hold", count=self.checked)
        names = list(dict.fromkeys(f"{item} ({why})" if why else item for item, why in self.failed))
        more = tell(" and {count:,} more", count=len(names) - MOST_NAMED) if len(names) > MOST_NAMED else ""
        return tell(
            "{failed:,} of {count:,} responses do not hold: {items}{more}",
            failed=len(self.failed),
            count=self.checked,
            items=", ".join(names[:MOST_NAMED]),
            more=more,
        )

    def reason(self) -> dict[str, Any]:
        """As a reason of a gate's answer."""
        return {
            "about": "assertion",
            "code": "assertion-held" if self.holds else "assertion-failed",
            "verdict": "pass" if self.holds else "fail",
            "aspect": None,
            "rule": None,
            "assertion": self.assertion.describe(),
            "detail": self.describe(),
        }


def read_assertions(path: str | None = None) -> list[Assertion]:
    """The assertions of the file, of `saiten.toml` where none is named and there is one. Raises InvalidItems."""
    name = GATE_FILE if path is None else path
    if path is None and not Path(name).exists():
        return []
    try:
        with open(name, "rb") as file:
            tables = tomllib.load(file).get(ASSERTIONS, [])
    except OSError as error:
        raise InvalidItems(f"{name or '--config'}: {tell(error.strerror or '')}") from None
    except UnicodeDecodeError as error:
        raise InvalidItems(tell("{path}: it is not UTF-8 (byte {at})", path=name, at=error.start)) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidItems(f"{name}: {error}") from None
    if not isinstance(tables, list) or len(tables) > MOST_ASSERTIONS:
        raise InvalidItems(
            tell(
                "{path}: {table}: write each as [[{table}]], at most {maximum:,} of them",
                path=name,
                table=ASSERTIONS,
                maximum=MOST_ASSERTIONS,
            )
        )
    found, faults = [], []
    for number, table in enumerate(tables):
        where = f"{name}: {ASSERTIONS}.{number}"
        try:
            found.append(Assertion.model_validate(table))
            compile_pattern(found[-1], where)
        except ValidationError as error:
            faults += [f"{where}{at.replace('/', '.')}: {say(what)}" for at, what in explain(error, table)]
    if faults:
        raise InvalidItems(shorten_faults(faults))
    return found


def compile_pattern(assertion: Assertion, where: str) -> Any:
    """The pattern, compiled; None for other assertions. Raises InvalidItems.

    The engine is RE2: its time is linear in the text's length whatever the pattern, so that none can hang a build.
    """
    pattern = assertion.matches if assertion.matches is not None else assertion.not_matches
    if pattern is None:
        return None
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MOST_PATTERN_BYTES
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        why = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        hint = tell("; look-around and back-references are not supported") if "(?" in why or "escape" in why else ""
        raise InvalidItems(printable(f"{where}.{assertion.kind}: {why}{hint}")) from None


def check(assertions: Sequence[Assertion], answers: Iterable[CheckedResponse]) -> list[AssertionOutcome]:
    """How each assertion did on the answers, which are read once."""
    findings = [AssertionOutcome(assertion) for assertion in assertions]
    wanted = [None if one.items is None else frozenset(one.items) for one in assertions]
    patterns = [compile_pattern(one, ASSERTIONS) for one in assertions]
    for answer in answers:
        for finding, items, pattern in zip(findings, wanted, patterns, strict=True):
            if items is not None and answer.item not in items:
                continue
            finding.checked += 1
            if (why := miss(finding.assertion, answer, pattern)) is not None:
                finding.failed.append((printable(clip(answer.item)), why))
    return findings


def miss(assertion: Assertion, answer: CheckedResponse, pattern: Any) -> str | None:
    """Why the answer does not hold, empty where the assertion says it all; None where it holds."""
    text, kind = answer.text, assertion.kind
    if kind in {"contains", "not_contains", "matches", "not_matches"}:
        found = pattern.search(text) is not None if pattern is not None else getattr(assertion, kind) in text
        return None if found is not kind.startswith("not_") else ""
    if assertion.max_characters is not None:
        return tell("{count:,} characters", count=len(text)) if len(text) > assertion.max_characters else None
    if answer.latency_ms is None:
        return tell("its latency is not known")
    most = assertion.max_latency_ms or 0.0
    return f"{answer.latency_ms:,.0f} ms" if answer.latency_ms > most else None


def answers_of(values: Iterable[Any]) -> Iterator[CheckedResponse]:
    """The responses of items, or of results that carry their texts."""
    for number, value in enumerate(values, start=1):
        if not isinstance(value, dict):
            continue
        named = next((value[key] for key in ("id", "item") if isinstance(value.get(key), str)), f"item {number}")
        metadata = value.get("metadata")
        latency = read_latency(metadata.get(LATENCY) if isinstance(metadata, dict) else None)
        texts = value["responses"] if isinstance(value.get("responses"), list) else [value.get("response")]
        for text in texts:
            if isinstance(text, str):
                yield CheckedResponse(named, text, latency)


def read_latency(written: Any) -> float | None:
    """Milliseconds as metadata hold them; None where they hold none."""
    try:
        found = float(written)
    except (TypeError, ValueError):
        return None
    return found if 0 <= found < float("inf") else None


def settle_verdict(answer: Mapping[str, Any], findings: Sequence[AssertionOutcome]) -> dict[str, Any]:
    """A gate's answer with the findings among its reasons: one that does not hold fails the gate, whatever the judge
    says."""
    failed = [finding.reason() for finding in findings if not finding.holds]
    held = [finding.reason() for finding in findings if finding.holds]
    verdict = "fail" if failed else answer["verdict"]
    return {**answer, "verdict": verdict, "reasons": [*failed, *answer["reasons"], *held]}


def report_assertions(assertions: Sequence[Assertion], values: Iterable[Mapping[str, Any]]) -> bool:
    """Says on standard error how the assertions did on items; whether all hold."""
    findings = check(assertions, answers_of(values))
    for finding in findings:
        sign = "✓" if finding.holds else "✗"
        click.echo(f"  {sign} {tell('assertion')}: {finding.assertion.describe()}: {finding.describe()}", err=True)
    return all(finding.holds for finding in findings)
