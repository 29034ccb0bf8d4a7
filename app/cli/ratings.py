"""`saiten ratings`: what people said of responses, out of files and into them."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from app.domain.errors import InvalidRequest, NotFound, SaitenError
from app.domain.plain_text import escape_controls

if TYPE_CHECKING:
    from app.cli.ratings_file import RatingFile
    from app.domain.human_rating import RatingFilter
    from app.meta_ports import RatingsKept

URL = click.option("--url", metavar="URL", help="Use a running service (key from SAITEN_API_KEY).")

CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""In a comment they would steer a terminal; a file gets them as they are."""


@click.group("ratings")
def command() -> None:
    """Import and export human ratings.

    They are kept in DATABASE_URL, or with --url by a running service. What they say of a batch's judge is computed from
    them at once.
    """


@command.command("import")
@click.argument("file", metavar="FILE|-")
@click.option("--batch", metavar="ID", help="The batch of items that name none.")
@click.option("--rater", metavar="NAME", help="The rater of ratings that name none.")
@URL
def take_in(file: str, batch: str | None, rater: str | None, url: str | None) -> None:
    """Keep the ratings of a file.

    NDJSON, a JSON array, or CSV with the columns item (or evaluation), batch, candidate, system, rater, comment, and
    one column an aspect:

    \b
    {"batch": "ba_…", "item": "17", "rater": "R1", "ratings": {"fluency": 3}}

    A file with one bad line is refused whole, and each fault is named with its line. One rater has one rating of a
    response: a later one takes the place of the earlier. An export can be imported; its `created_at` is passed over.
    Exit 0: kept; 2: bad usage or input; 3: could not run.
    """
    from app.cli.ratings_file import RatingFile
    from app.settings import read_settings

    fill = {name: value for name, value in (("batch", batch), ("rater", rater)) if value is not None}
    read = RatingFile(file, read_settings().limits, fill)
    kept = asyncio.run(keep(read, url))
    click.echo(f"{kept.added + kept.replaced} ratings: {kept.added} added, {kept.replaced} replaced")


async def keep(read: RatingFile, url: str | None) -> RatingsKept:
    """Keeps all, in as many pieces as it takes. Raises InvalidItems, SaitenError; what was kept before is told."""
    from app.cli.ratings_places import cut, open_place
    from app.meta_ports import RatingsKept

    added = replaced = 0
    async with open_place(url) as place:
        for piece in cut(read.ratings, await place.most_bytes()):
            start = added + replaced
            try:
                kept = await place.keep(piece)
            except (NotFound, InvalidRequest) as error:
                tell_kept(start, len(read.ratings))
                raise read.explain(error, start) from None
            except SaitenError:
                tell_kept(start, len(read.ratings))
                raise
            added, replaced = added + kept.added, replaced + kept.replaced
        await place.settle()
    return RatingsKept(added, replaced)


def tell_kept(count: int, total: int) -> None:
    """Says on standard error what of a file was kept before it failed, where anything was."""
    if count:
        click.echo(
            f"saiten: the first {count} of {total} ratings were kept, the others were not; "
            "importing all once more does no harm",
            err=True,
        )


@command.command("export")
@click.option("--batch", metavar="ID", help="Only those of this batch's items.")
@click.option("--rater", metavar="NAME", help="Only this rater's.")
@click.option("--item", metavar="ID", help="Only those of items of this id.")
@click.option("--evaluation", metavar="ID", help="Only those of this evaluation.")
@click.option(
    "--format", "form", default="ndjson", show_default=True, type=click.Choice(["ndjson", "csv"]), help="What to print."
)
@URL
def give_back(
    batch: str | None, rater: str | None, item: str | None, evaluation: str | None, form: str, url: str | None
) -> None:
    """Print the ratings, in the order in which they came in.

    In CSV, texts that a spreadsheet would take for formulas stand after an apostrophe, which `import` takes away again.
    Exit 0: printed; 2: bad usage; 3: could not run.
    """
    from app.domain.human_rating import RatingFilter

    wanted = RatingFilter(item=item, evaluation=evaluation, batch=batch, rater=rater)
    asyncio.run(print_ratings(wanted, form, url))


async def print_ratings(wanted: RatingFilter, form: str, url: str | None) -> None:
    """All that are wanted. A table has a column an aspect, so that it waits for the last."""
    from app.cli.ratings_file import write_table
    from app.cli.ratings_places import open_place

    ratings: list[dict[str, Any]] = []
    async with open_place(url) as place:
        async for page in place.pages(wanted):
            if form == "csv":
                ratings += page
                continue
            for rating in page:
                click.echo(escape_controls(json.dumps(rating, ensure_ascii=False)))
    if form == "csv":
        shown = sys.stdout.isatty()
        for piece in write_table(ratings):
            click.echo(CONTROLS.sub("\ufffd", piece) if shown else piece, nl=False)
