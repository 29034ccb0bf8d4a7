"""`saiten convert`: what a team has, as items of Saiten or as what another tool imports."""

from __future__ import annotations

import json

import click

from saiten.formats import SOURCES, UnreadableInput, parse_map, read_items
from saiten.formats.writing import TARGET_WRITERS, write_items

EXIT_UNREADABLE = 2


@click.command(name="convert")
@click.argument("file", metavar="FILE|-")
@click.option("--to", "target", type=click.Choice(list(TARGET_WRITERS)), default="saiten", show_default=True)
@click.option("--from", "source", type=click.Choice(SOURCES), help="The format of FILE; detected unless it is named.")
@click.option(
    "--map",
    "maps",
    multiple=True,
    metavar="TARGET=COLUMN,…",
    help="Columns whose names are not known, such as response=answer,context=history. May be given several times.",
)
@click.option("--input-encoding", metavar="NAME", help="Such as cp932, euc-jp or cp949; detected unless it is named.")
@click.pass_context
def command(
    context: click.Context,
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
        items = read_items(file, input_encoding=input_encoding, mapping=parse_map(maps), source=source)
        for written in write_items((item.value for item in items), target, items.report):
            click.echo(json.dumps(written, ensure_ascii=False))
    except UnreadableInput as error:
        click.echo(f"saiten: {error.detail}", err=True)
        context.exit(EXIT_UNREADABLE)
    name = "standard input" if file == "-" else file
    click.echo(f"saiten: {name}: " + "\n  ".join(items.report.lines()), err=True)
    if not items.report.items:
        click.echo("saiten: no item was found; name the columns: --map response=COLUMN,context=COLUMN", err=True)
        context.exit(EXIT_UNREADABLE)
