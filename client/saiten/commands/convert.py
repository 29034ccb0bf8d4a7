"""`saiten convert`: what a team has, as items of Saiten or as what another tool imports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import IO, Any

import click

from saiten.commands.files import InvalidItems, name_file, require_place
from saiten.commands.items import choose_reading, open_items, reading_options
from saiten.commands.results import write_whole
from saiten.core.formats import FoundItem, UnreadableInput
from saiten.core.formats.mapping import MOST_METADATA_CHARACTERS
from saiten.core.formats.pairs import PAIR_SOURCES, PAIR_TARGETS, read_pairs, write_pairs
from saiten.core.formats.report import Report
from saiten.core.formats.writing import TARGET_WRITERS, write_items
from saiten.core.language import mark, tell
from saiten.core.plain_text import escape_controls

NO_ITEM = mark("no item was found; name the columns: --map response=COLUMN,context=COLUMN")


OTHER_FORMAT = mark("no item was found; is the file of the format {source}? Without --from it is detected")


@click.command(name="convert")
@click.argument("file", metavar="FILE|-")
@click.option(
    "--to", "target", type=click.Choice([*TARGET_WRITERS, *PAIR_TARGETS]), default="saiten", show_default=True
)
@click.option("--output", metavar="FILE", help="Write to FILE, whole or not at all, instead of standard output.")
@click.option(
    "--ratings",
    "rated",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the human ratings that FILE holds there, for `saiten analyze` and `saiten ratings import`.",
)
@click.option(
    "--system", metavar="NAME", help="The system of items that name none; in the log of a messenger, who answers."
)
@click.option(
    "--every-turn",
    is_flag=True,
    help="Make an item of each turn of the assistant in a dialogue, not of the last one alone.",
)
@partial(reading_options, more=tuple(PAIR_SOURCES))
def command(
    file: str,
    target: str,
    output: str | None,
    rated: Path | None,
    system: str | None,
    every_turn: bool,
    source: str | None,
    maps: tuple[str, ...],
    input_encoding: str | None,
    wheres: tuple[str, ...],
) -> None:
    """Convert FILE to items: NDJSON on standard output, and what became of every field on standard error.

    FILE is NDJSON, JSON, CSV, TSV, XLSX or Parquet, a log of another tool, or research data with ratings by people.
    Rows without a response are skipped and named. Comparisons of two systems (arena-hard, AlpacaEval, LMArena,
    flexeval, MT-Bench) become records for a ranking, or preferences: --to ranking, --to preferences.
    """
    if system is not None and not (system.isprintable() and 0 < len(system) <= MOST_METADATA_CHARACTERS):
        raise InvalidItems(tell("--system is one line of at most {most} characters", most=MOST_METADATA_CHARACTERS))
    if output is not None:
        require_other_file(output, file)
    if source in PAIR_SOURCES or target in PAIR_TARGETS:
        refuse_options(maps, wheres, rated, system, every_turn or None)
        convert_pairs(file, source, target if target in PAIR_TARGETS else "ranking", output, input_encoding)
        return
    try:
        items = open_items(
            file,
            choose_reading(source, maps, input_encoding, wheres),
            skips=True,
            rated=rated is not None,
            system=system,
            every_turn=every_turn,
        )
        with ExitStack() as stack:
            if rated is not None and rated.exists() and Path(file).exists() and rated.samefile(file):
                raise InvalidItems(tell("{path}: is the file that is read", path=rated))
            ratings = None if rated is None else stack.enter_context(write_whole(str(rated)))
            values = pass_items(items, system, ratings)
            lines = (json.dumps(one, ensure_ascii=False) for one in write_items(values, target, items.report))
            if output is None:
                for line in lines:
                    click.echo(line)
            else:
                written_to = stack.enter_context(write_whole(output))
                written_to.writelines(f"{escape_controls(line)}\n".encode() for line in lines)
            click.echo(f"saiten: {name_file(file)}: " + "\n  ".join(items.report.lines()), err=True)
            # What stands at the places of the output and the ratings stays as it is.
            if not items.report.items:
                known = source in {None, "saiten", "table"}
                raise InvalidItems(tell(NO_ITEM) if known else tell(OTHER_FORMAT, source=source))
            if rated is not None and not items.report.ratings:
                raise InvalidItems(tell("no ratings by people were found; research data have them, see --from"))
    except UnreadableInput as error:
        raise InvalidItems(error.detail) from None


def refuse_options(*others: Any) -> None:
    """Raises InvalidItems for options that go with items alone."""
    if any(others):
        raise InvalidItems(tell("comparisons are read by --from, --to, --input-encoding and --output alone"))


def convert_pairs(file: str, source: str | None, target: str, output: str | None, input_encoding: str | None) -> None:
    """Converts comparisons of two systems. Raises InvalidItems."""
    if source is not None and source not in PAIR_SOURCES:
        raise InvalidItems(tell("--from {source} has no comparisons of two systems", source=source))
    report = Report()
    try:
        looks = read_pairs(file, report, source, input_encoding=input_encoding)
        lines = (json.dumps(one, ensure_ascii=False) for one in write_pairs(looks, target, report))
        if output is None:
            for line in lines:
                click.echo(line)
        else:
            with write_whole(output) as written_to:
                written_to.writelines(f"{escape_controls(line)}\n".encode() for line in lines)
                if not report.comparisons:
                    raise InvalidItems(tell("no comparison was found"))
    except UnreadableInput as error:
        raise InvalidItems(error.detail) from None
    click.echo(f"saiten: {name_file(file)}: " + "\n  ".join(report.lines()), err=True)
    if not report.comparisons:
        raise InvalidItems(tell("no comparison was found"))


def require_other_file(output: str, file: str) -> None:
    """Raises InvalidItems where the output cannot be written, before anything is read."""
    require_place(output)
    if file != "-" and Path(output).resolve() == Path(file).resolve():
        raise InvalidItems(tell("{path}: the output would replace the dataset", path=output))


def pass_items(items: Iterable[FoundItem], system: str | None, ratings: IO[bytes] | None) -> Iterator[dict[str, Any]]:
    """The items, of the system where they name none; their ratings are written on the way."""
    for item in items:
        value, named = item.value, {} if system is None else {"system": system}
        if named:
            value = {**value, "metadata": named | value.get("metadata", {})}
        if ratings is not None:
            ratings.writelines(f"{json.dumps(named | one, ensure_ascii=False)}\n".encode() for one in item.ratings)
        yield value
