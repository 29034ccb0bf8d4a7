"""`saiten convert`: what a team has, as items of Saiten or as what another tool imports."""

from __future__ import annotations

import json

import click

from saiten.commands.files import InvalidItems, name_file
from saiten.commands.items import choose_reading, open_items, reading_options
from saiten.formats import UnreadableInput
from saiten.formats.writing import TARGET_WRITERS, write_items
from saiten.language import tell


@click.command(name="convert")
@click.argument("file", metavar="FILE|-")
@click.option("--to", "target", type=click.Choice(list(TARGET_WRITERS)), default="saiten", show_default=True)
@reading_options
def command(
    file: str,
    target: str,
    source: str | None,
    maps: tuple[str, ...],
    input_encoding: str | None,
) -> None:
    """Convert FILE to items: NDJSON on standard output, and what became of every field on standard error.

    FILE is NDJSON, JSON, CSV, TSV, XLSX or Parquet, or a log of another tool. Rows without a response are skipped and
    named.
    """
    try:
        items = open_items(file, choose_reading(source, maps, input_encoding), skips=True)
        for written in write_items((item.value for item in items), target, items.report):
            click.echo(json.dumps(written, ensure_ascii=False))
    except UnreadableInput as error:
        raise InvalidItems(error.detail) from None
    click.echo(f"saiten: {name_file(file)}: " + "\n  ".join(items.report.lines()), err=True)
    if not items.report.items:
        raise InvalidItems(tell("no item was found; name the columns: --map response=COLUMN,context=COLUMN"))
