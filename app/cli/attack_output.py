"""The files that `saiten attack` writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from app.analysis.junit import write_attack_junit
from app.analysis.markdown import write_attack_markdown
from app.cli.attacking import Scored
from app.cli.items import InvalidItems
from app.domain.attack_report import AttackReport
from app.domain.plain_text import escape_controls


def require_place(path: str | None) -> None:
    """Raises InvalidItems for a file that cannot be written: before all is scored and paid for."""
    if path is None or path == "-":
        return
    if not Path(path).absolute().parent.is_dir():
        raise InvalidItems(f"{path}: there is no such folder")
    if Path(path).is_dir():
        raise InvalidItems(f"{path or 'the file to be written'}: Is a directory")


def write_reports(
    report: AttackReport,
    scored: Sequence[Scored],
    *,
    as_json: str | None,
    markdown: str | None,
    junit: str | None,
    details: str | None,
) -> None:
    """Writes what was asked for. Raises InvalidItems where a file cannot be written."""
    wanted: tuple[tuple[str | None, Callable[[], str]], ...] = (
        (details, lambda: "".join(map(detail, scored))),
        (markdown, lambda: write_attack_markdown(report)),
        (junit, lambda: write_attack_junit(report)),
        (as_json, lambda: escape_controls(report.model_dump_json(indent=2)) + "\n"),
    )
    for path, write in wanted:
        if path is None:
            continue
        if path == "-":
            click.echo(write(), nl=False)
            continue
        try:
            Path(path).write_text(write(), encoding="utf-8")
        except OSError as error:
            raise InvalidItems(f"{path}: {error.strerror}") from None


def detail(one: Scored) -> str:
    """One item as a line of JSON. An evaluation that is not there is null, with the code of what came in its place."""
    trial = one.trial
    told: dict[str, Any] = {
        "item": trial.item.id,
        "kind": trial.item.kind,
        "language": trial.item.language,
        "flagged": trial.attack.flagged if trial.answered else None,
        "lift": trial.lift,
        "lifts": trial.lifts,
        "won": trial.won,
        "denied": trial.denied,
    }
    for role, answer in (("attack", trial.attack), ("twin", trial.twin)):
        evaluation = next((found for name, found in one.evaluations.items() if name == role), None)
        told[role] = None if evaluation is None else evaluation.model_dump(mode="json")
        told[f"{role}_outcome"] = None if answer is None else answer.outcome
        told[f"{role}_code"] = None if answer is None else answer.code
    return escape_controls(json.dumps(told, ensure_ascii=False)) + "\n"
