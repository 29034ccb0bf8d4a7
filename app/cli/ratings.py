"""`saiten ratings`: what people said of responses, out of files and into them."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from app.domain.plain_text import escape_controls

if TYPE_CHECKING:
    from app.cli.ratings_file import RatingFile
    from app.domain.human_rating import Exclusion, RatingFilter, RatingsKept
    from saiten import AsyncClient

URL = click.option("--url", metavar="URL", help="Use a running service (key from SAITEN_API_KEY).")

RATER = click.option("--rater", metavar="NAME", help="The rater.")
ROUND = click.option("--round", "round_id", metavar="ID", help="The rating round, as its page and address name it.")

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
@click.option("--simulated", is_flag=True, help="No person gave these ratings.")
@URL
def take_in(file: str, batch: str | None, rater: str | None, simulated: bool, url: str | None) -> None:
    """Keep the ratings of a file.

    NDJSON, a JSON array, or CSV with the columns item (or evaluation), batch, candidate, system, rater, comment,
    simulated, and one column per aspect:

    \b
    {"batch": "ba_…", "item": "17", "rater": "R1", "ratings": {"fluency": 3}}

    Ratings that no person gave say "simulated": true (in CSV: true), or --simulated says it of all: they never validate
    a judge. A file with one bad line is refused whole, and each fault is named with its line. One rater has one rating
    of a response: a later one takes the place of the earlier. An export can be imported; its `created_at` is passed
    over. Exit 0: kept; 2: bad usage or input; 3: could not run.
    """
    from app.cli.ratings_file import RatingFile
    from app.settings import read_settings

    fill = {"batch": batch, "rater": rater, "simulated": simulated or None}
    fill = {name: value for name, value in fill.items() if value is not None}
    read = RatingFile(file, read_settings().limits, fill)
    kept = asyncio.run(keep(read, url))
    click.echo(f"{kept.added + kept.replaced} ratings: {kept.added} added, {kept.replaced} replaced")


async def keep(read: RatingFile, url: str | None) -> RatingsKept:
    """Keeps all, in as many pieces as it takes. Raises InvalidItems, SaitenError; what was kept before is told."""
    from app.cli.backend import NO_JUDGE, open_backend

    async with open_backend(url, NO_JUDGE) as backend:
        return await post_pieces(read, backend.client)


async def post_pieces(read: RatingFile, client: AsyncClient) -> RatingsKept:
    """Posts all, as much at a time as the service takes."""
    from app.cli.backend import understand
    from app.cli.ratings_file import PIECE_BYTES, Kept, cut, read_refusal
    from app.domain.human_rating import RatingsKept, tell_rating
    from saiten import SaitenError, ServiceRefused

    limits = (await client.info()).get("limits")
    told = limits.get("body_bytes") if isinstance(limits, dict) else None
    kept = RatingsKept(0, 0)
    for piece in cut(read.ratings, told if isinstance(told, int) else PIECE_BYTES):
        start = kept.added + kept.replaced
        try:
            answer = understand(Kept, await client.post_ratings(map(tell_rating, piece)))
        except SaitenError as error:
            tell_kept(start, len(read.ratings))
            if isinstance(error, ServiceRefused) and (refused := read_refusal(error)) is not None:
                raise read.explain(refused, start) from None
            raise
        kept = RatingsKept(kept.added + answer.added, kept.replaced + answer.replaced)
    return kept


def tell_kept(count: int, total: int) -> None:
    """Says on standard error what of a file was kept before it failed, where anything was."""
    if count:
        click.echo(
            f"saiten: the first {count} of {total} ratings were kept, the others were not; "
            "importing all once more does no harm",
            err=True,
        )


def whose(function: Callable[..., None]) -> Callable[..., None]:
    """The options that name a rater or a round."""
    for option in (URL, ROUND, RATER):
        function = option(function)
    return function


@command.command("exclude")
@whose
def exclude(rater: str | None, round_id: str | None, url: str | None) -> None:
    """Leave a rater, or a rating round, out of analyses of batches and of what validates a judge.

    The ratings stay where they are. Exit 0: excluded; 2: bad usage; 3: could not run, or there is no such round.
    """
    wanted = read_exclusion(rater, round_id)
    done = asyncio.run(change(wanted, url, excluded=True))
    click.echo("excluded" if done else "was excluded already")


@command.command("include")
@whose
def include(rater: str | None, round_id: str | None, url: str | None) -> None:
    """Let the ratings of an excluded rater, or round, count again.

    Exit 0: they count; 2: bad usage; 3: could not run.
    """
    wanted = read_exclusion(rater, round_id)
    done = asyncio.run(change(wanted, url, excluded=False))
    click.echo("counts again" if done else "was not excluded")


def read_exclusion(rater: str | None, round_id: str | None) -> Exclusion:
    """Whom the options name; raises UsageError."""
    from app.domain.human_rating import Exclusion
    from app.domain.validation import InvalidDocument, validate
    from app.settings import read_settings

    given = {"rater": rater, "round": round_id}
    if (rater is None) == (round_id is None):
        raise click.UsageError("name a rater by --rater, or a round by --round")
    try:
        limits = read_settings().limits
        return validate(Exclusion, {name: one for name, one in given.items() if one is not None}, limits)
    except InvalidDocument as error:
        raise click.UsageError(str(error)) from None


async def change(wanted: Exclusion, url: str | None, *, excluded: bool) -> bool:
    """Whether anything changed. Raises SaitenError."""
    from app.cli.backend import NO_JUDGE, open_backend

    async with open_backend(url, NO_JUDGE) as backend:
        named = wanted.model_dump(exclude_none=True)
        if excluded:
            return bool((await backend.client.exclude_ratings(named)).get("added"))
        return bool((await backend.client.include_ratings(named)).get("removed"))


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
    from app.cli.backend import NO_JUDGE, open_backend
    from app.cli.ratings_file import write_table

    ratings: list[dict[str, Any]] = []
    async with open_backend(url, NO_JUDGE) as backend:
        async for page in backend.client.ratings(**wanted.model_dump(exclude_none=True)):
            if form == "csv":
                ratings += page
                continue
            for rating in page:
                click.echo(escape_controls(json.dumps(rating, ensure_ascii=False)))
    if form == "csv":
        shown = sys.stdout.isatty()
        for piece in write_table(ratings):
            click.echo(CONTROLS.sub("\ufffd", piece) if shown else piece, nl=False)
