"""`python -m app compare-files`: the gate on runs of which one is a file of results, for the client's `saiten gate`.

A JSON document on standard input, the answer of `POST /v1/gates` on standard output; a problem document where there is
none, with exit code 3.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import click
from pydantic import Field

from app.comparison.runs import are_numbered, scales_of
from app.domain.analysis_request import GateTerms
from app.domain.clusters import name_dialogue
from app.domain.comparison import ComparedRun, GateReport
from app.domain.errors import InvalidRequest, SaitenError, SignatureMismatch
from app.domain.judge_check import JudgeCheck
from app.domain.model import Value
from app.domain.rubric import Rubric
from app.domain.summary import RunItem
from app.web.languages import tell_report, tell_sentence
from saiten import language
from saiten.commands import exits
from saiten.commands.runs import ResultLine


class ResultFile(Value):
    """A run of results, one of `ResultLine` each, and the rubric that rated them."""

    name: str
    rubric: Rubric
    results: tuple[Any, ...] = Field(strict=False)


class FileGate(Value):
    """Two runs and the terms that the candidate must meet."""

    candidate: ResultFile
    baseline: ResultFile | None = None
    terms: GateTerms
    judge_check: JudgeCheck | None = None


@click.command("compare-files", hidden=True)
def command() -> None:
    """Compare the runs that standard input holds."""
    asked = FileGate.model_validate_json(sys.stdin.buffer.read())
    try:
        report = tell_report(judge(asked).model_dump(mode="json"), language.language)
        click.echo(json.dumps(report, ensure_ascii=False))
    except SaitenError as error:
        problem: dict[str, Any] = {"code": error.code, "detail": tell_sentence(language.language, error.detail)}
        if isinstance(error, SignatureMismatch):
            problem["pieces"] = error.pieces
        click.echo(json.dumps(problem))
        raise click.exceptions.Exit(exits.COULD_NOT_RUN) from None


def judge(asked: FileGate) -> GateReport:
    """The report. Raises SaitenError."""
    from app.ratings.reliability import asked_of, attach_states
    from app.stats.gate import judge_gate

    terms = asked.terms
    if terms.estimate == "corrected":
        detail = (
            "people's ratings are stored with a service's batches; name both runs as batches (ba_…) for `corrected`"
        )
        raise InvalidRequest(detail, pointer="/estimate")
    for number, rule in enumerate(terms.rules):
        if rule.code is not None:
            detail = (
                "a file of results does not tell how many turns the system had; name both runs as batches (ba_…) or "
                "files of conversations for rules on findings"
            )
            raise InvalidRequest(detail, pointer=f"/rules/{number}/finding")
    report = judge_gate(
        read_run(asked.candidate),
        None if asked.baseline is None else read_run(asked.baseline),
        terms.rules,
        alpha=terms.alpha,
        min_coverage=terms.min_coverage,
        test=terms.test,
        allow_signature_mismatch=terms.allow_signature_mismatch,
        judge=asked.judge_check,
    )
    # It is not known here whether people rated what the judge of a file rates.
    return attach_states(report, dict.fromkeys(asked_of(report), "unknown"))


def read_run(file: ResultFile) -> ComparedRun:
    """The run of a file's results."""
    return make_run(file.name, [ResultLine.model_validate(result) for result in file.results], file.rubric)


def make_run(name: str, results: Sequence[ResultLine], rubric: Rubric) -> ComparedRun:
    """The run of these results."""
    items = [describe(result, number, rubric) for number, result in enumerate(results)]
    return ComparedRun(
        name=name,
        items=items,
        expected=len(results),
        signatures=Counter(result.signature for result in results if result.signature is not None),
        scales=scales_of(rubric),
        aspects=tuple(aspect.id for aspect in rubric.aspects),
        numbered=are_unnamed(results),
        best=rubric.best,
    )


def are_unnamed(results: Sequence[ResultLine]) -> bool:
    """Whether the results have nothing but numbers for items. A batch's results name an item in any case, and those of
    earlier releases do not tell whose name that is: it is guessed. Elsewhere a name is the caller's."""
    given = {name_is_given(result) for result in results}
    if True in given:
        return False
    return None not in given or are_numbered(str(result.item) for result in results)


def name_is_given(result: ResultLine) -> bool | None:
    """Whether the item's name is the caller's; None where that is not known."""
    if result.item is None:
        return False
    return True if result.position is None else result.ids_given


def cluster_of(result: ResultLine) -> str | None:
    """The digest of the dialogue that the result is a turn of; handwritten results only name it."""
    return result.cluster or (name_dialogue(result.dialogue) if result.dialogue else None)


def describe(result: ResultLine, number: int, rubric: Rubric) -> RunItem:
    """One result's values; `number` from 0 stands for an item without a name."""
    aspects = {aspect.id: result.aspects.get(aspect.id) for aspect in rubric.aspects}
    blended = {name: part.blended for name, part in aspects.items() if part is not None and part.blended is not None}
    return RunItem(
        item=str(number) if result.item is None else result.item,
        candidate=result.candidate,
        system=result.metadata.get("system"),
        context=None,
        ratings={name: None if part is None else part.mean for name, part in aspects.items()},
        composites={each.id: result.composites.get(each.id) for each in rubric.composites},
        blended=blended,
        cluster=cluster_of(result),
        inapplicable=frozenset(
            name for name, part in aspects.items() if part and part.unrated and part.unrated.reason == "not-applicable"
        ),
    )
