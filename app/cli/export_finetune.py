"""`saiten export-finetune`: human ratings and a rubric in, chat JSONL to fine-tune a judge on out."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import click

from saiten.commands.files import InvalidItems, guess, name_file, read_bytes, shorten_faults
from saiten.commands.rating_tables import RatingTable, open_rating_table
from saiten.core.formats.errors import UnreadableInput
from saiten.core.language import tell
from saiten.core.messages import Message
from saiten.core.plain_text import escape_controls, printable
from saiten.core.strict_json import StrictJSONError
from saiten_server.cli.analysis_input import read_form, read_items
from saiten_server.cli.process import say
from saiten_server.core.dialogue import Limits
from saiten_server.core.errors import InvalidLines, InvalidRequest, UnknownRubric
from saiten_server.core.evaluation import EvaluationRequest
from saiten_server.core.redaction import refuse_covered
from saiten_server.core.rubric import Rubric
from saiten_server.core.validation import MARK, Unfit, clip, validate
from saiten_server.platform.settings import read_settings
from saiten_server.ratings.training_data import (
    Curriculum,
    Label,
    Matching,
    TrainingCandidate,
    build_curriculum,
    check_levels,
    hold_out,
    match_ratings,
)
from saiten_server.runs.summary import SYSTEM
from saiten_server.scoring.rubrics.files import open_rubrics
from saiten_server.stats.observations import Observations
from saiten_server.stats.reading import ObservationReader
from saiten_server.stats.record_columns import read_name

VALIDATION_SHARE = 0.1
ITEM = "item"  # where an item's metadata may name it
TARGET = click.Path(dir_okay=False, path_type=Path)


@click.command("export-finetune")
@click.argument("items", metavar="ITEMS|-")
@click.argument("ratings", metavar="RATINGS|-")
@click.option("--rubric", "rubric_id", required=True, help="What the people rated by, and the judge will be asked.")
@click.option("--language", help="Language that the judge will be asked in (the rubric's own).")
@click.option(
    "--format",
    "form",
    default="structured",
    show_default=True,
    type=click.Choice(["structured", "text"]),
    help="The reply that is taught: JSON, which Saiten asks for wherever it can, or text.",
)
@click.option(
    "--label",
    default="median",
    show_default=True,
    type=click.Choice(["median", "each"]),
    help="One lower median over an item's raters, or one line for each of them.",
)
@click.option("--validation", metavar="FILE", type=TARGET, help="Hold out whole items, and write them there.")
@click.option(
    "--validation-items",
    metavar="FILE",
    type=TARGET,
    help="Write the held-out responses there, as `saiten score` takes them.",
)
@click.option(
    "--validation-share",
    metavar="SHARE",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help=f"How much of the responses to hold out ({VALIDATION_SHARE}).",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Draws what is held out.")
@click.option("--output", metavar="FILE|-", default="-", help="Where the lines to train on go (standard output).")
def command(
    items: str,
    ratings: str,
    rubric_id: str,
    language: str | None,
    form: str,
    label: str,
    validation: Path | None,
    validation_items: Path | None,
    validation_share: float | None,
    seed: int,
    output: str,
) -> None:
    """Write what a judge learns from people: one conversation a line, as Saiten will ask it.

    ITEMS are responses as `saiten score` takes them, each with an "id". RATINGS are NDJSON, a JSON array or CSV: item,
    rater, system where an item has several responses, and the rating of each aspect, which must be a level of it.
    Exit 0: written; 2: bad usage or input; 3: could not run.
    """
    settings = read_settings()
    rubric, language = open_rubric(settings.rubrics, rubric_id, language)
    if validation is None and (validation_share is not None or validation_items is not None):
        raise click.UsageError(tell("nothing is held out without --validation FILE"))
    check_use([items, ratings], [output, validation, validation_items])
    candidates = read_candidates(items, rubric, settings.limits)
    observations, matching = read_training_ratings(ratings, rubric, candidates)
    made = build_curriculum(
        candidates,
        observations,
        matching,
        rubric,
        language,
        structured=form == "structured",
        label=cast(Label, label),  # click let no other in
    )
    if not made.conversations:
        raise InvalidItems(
            tell(
                "{ratings}: no rating belongs to an item ({made})",
                ratings=name_file(ratings),
                made=describe_left_out(made, matching),
            )
        )
    held = () if validation is None else choose_held(candidates, made, validation_share or VALIDATION_SHARE, seed)
    write_training_lines(output, (one.line for one in made.conversations if one.candidate not in held))
    if validation is not None:
        write_training_lines(validation, (one.line for one in made.conversations if one.candidate in held))
    if validation_items is not None:
        requests = (candidates[one].request(rubric) for one in sorted(held))
        write_training_lines(validation_items, (json.dumps(request, ensure_ascii=False) for request in requests))
    print_curriculum(made, matching, rubric, held)


def open_rubric(folder: str | None, rubric_id: str, language: str | None) -> tuple[Rubric, str]:
    """The rubric and the language that its judge is asked in; raises a usage error for what there is not."""
    try:
        rubric = open_rubrics(folder).get(rubric_id)
    except UnknownRubric as error:
        raise click.BadParameter(error.detail, param_hint="--rubric") from None
    language = rubric.source_language if language is None else language
    if language not in rubric.languages:
        there = tell("{id} exists in {languages}", id=rubric.id, languages=", ".join(rubric.languages))
        raise click.BadParameter(there, param_hint="--language")
    return rubric, language


def choose_held(candidates: Sequence[TrainingCandidate], made: Curriculum, share: float, seed: int) -> Collection[int]:
    """The candidates to hold out, by number; raises InvalidItems where none can be."""
    positions = list(dict.fromkeys(one.candidate for one in made.conversations))
    try:
        return hold_out(candidates, positions, share, seed)
    except InvalidRequest as error:
        raise InvalidItems(error.detail) from None


def check_use(inputs: Sequence[str], outputs: Sequence[str | Path | None]) -> None:
    """Raises a usage error where standard input or a file is used twice."""
    if inputs.count("-") > 1:
        raise click.UsageError(tell("ITEMS and RATINGS cannot both be standard input"))
    read = {Path(one).resolve() for one in inputs if one != "-"}
    written = [Path(one).resolve() for one in outputs if one is not None and one != "-"]
    if read & set(written) or len(set(written)) < len(written):
        raise click.UsageError(tell("what is read and what is written must all be different files"))


def read_candidates(path: str, rubric: Rubric, limits: Limits) -> list[TrainingCandidate]:
    """All items of the file; raises InvalidItems that names line and field of what does not fit."""
    return read_items(
        name_file(path),
        read_bytes(path),
        lambda value: read_training_candidate(value, rubric, limits),
        lambda one: (one.item, one.system),
        lambda one, first: f"item {clip(one.item)!r} of the same system stands at {first} too",
    )


def read_training_candidate(value: Any, rubric: Rubric, limits: Limits) -> TrainingCandidate:
    """One item; raises InvalidDocument, or Unfit for what is wrong with its id."""
    if not isinstance(value, dict):
        raise Unfit(Message("item-is-object-with-id"))
    refuse_covered(value)
    ids = {read_name(value, field) for field in ("id", "item")} - {None}
    fields = {name: given for name, given in value.items() if name not in {"id", "item"}}
    request = validate(EvaluationRequest, {"rubric": rubric.name, **fields}, limits)
    if request.rubric not in (rubric.id, rubric.name):
        raise Unfit(Message("names-other-rubric", given=request.rubric, rubric=rubric.name))
    ids |= {request.metadata[ITEM]} if ITEM in request.metadata else set()
    if len(ids) != 1 or "" in ids:
        raise Unfit(Message("has-two-ids") if len(ids) > 1 else Message("needs-id"))
    system = request.metadata.get(SYSTEM, "")
    return TrainingCandidate(str(ids.pop()), system, request.turn, request.references)


def read_training_ratings(
    path: str, rubric: Rubric, candidates: list[TrainingCandidate]
) -> tuple[Observations, Matching]:
    """The ratings, every one a level of its aspect, and whose they are; raises InvalidItems that names the line."""
    name, body = name_file(path), read_bytes(path)
    plain = body.removeprefix(MARK)
    form = guess(path, plain.lstrip()[:1])
    reader = ObservationReader(aspects=[aspect.id for aspect in rubric.aspects])
    table: RatingTable | None = None
    try:
        table = open_rating_table(BytesIO(body), name)
        observations = (
            read_form(table.lines(), table.form, reader) if table else read_form(BytesIO(plain), form, reader)
        )
        check_levels(observations, rubric)
        return observations, match_ratings(candidates, observations)
    except StrictJSONError as error:
        raise InvalidItems(f"{name}: {say(error.message)}") from None
    except InvalidLines as error:
        mark = ": element " if form == "json" else ":"
        places = [
            f"{table.place(number) if table else f'{name}{mark}{number}'}: {say(what)}" for number, what in error.faults
        ]
        raise InvalidItems(shorten_faults(places, error.total)) from None
    except UnreadableInput as error:
        raise InvalidItems(error.detail) from None


def write_training_lines(path: str | Path, lines: Iterable[str]) -> None:
    """The lines, to the file or standard output; raises InvalidRequest where the file cannot be written."""
    if path == "-":
        for line in lines:
            click.echo(escape_controls(line))
        return
    try:
        with Path(path).open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise InvalidRequest(Message("file-not-written", path=str(path), why=tell(error.strerror or ""))) from None


def print_curriculum(made: Curriculum, matching: Matching, rubric: Rubric, held: Collection[int]) -> None:
    """Says on standard error what was written, what was left out, and what the model will not have seen."""
    kept = [one for one in made.conversations if one.candidate not in held]
    rest = len(made.conversations) - len(kept)
    responses = len({one.candidate for one in kept})
    more = tell("; {rest} of {count} held out", rest=rest, count=len(held)) if rest else ""
    click.echo(
        tell(
            "{count} conversations about {responses} responses to train on{more}",
            count=len(kept),
            responses=responses,
            more=more,
        ),
        err=True,
    )
    if left_out := describe_left_out(made, matching):
        click.echo(printable(left_out), err=True)
    for name, levels in Curriculum(kept).unseen(rubric).items():
        values = ", ".join(map(str, levels))
        click.echo(
            tell(
                "{name}: nothing to train on is rated {values}; such a judge will hardly give it",
                name=name,
                values=values,
            ),
            err=True,
        )


def describe_left_out(made: Curriculum, matching: Matching) -> str:
    """What could not be used and why, in one line; empty where all was used."""
    parts = []
    if made.unrated:
        parts.append(f"responses without ratings: {made.unrated}")
    if matching.strangers:
        line, item = min(matching.strangers)
        parts.append(
            f"rated responses that ITEMS lacks: {len(matching.strangers)}, the first {clip(item)!r} on line {line}"
        )
    if made.incomplete:
        parts.append(f"ratings that lack some aspect of a call about all: {made.incomplete}")
    return f"left out: {'; '.join(parts)}" if parts else ""
