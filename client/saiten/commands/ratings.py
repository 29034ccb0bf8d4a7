"""`saiten ratings`: imports and exports human ratings as NDJSON, a JSON array or a table, and excludes raters."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import click

from saiten.commands.files import UNFIT, InvalidItems, guess, name_file, read_bytes, shorten_faults
from saiten.commands.rating_tables import RatingTable, open_rating_table
from saiten.commands.service import NO_JUDGE, URL, open_service
from saiten.connection import NDJSON, Connection, write_line
from saiten.core.errors import AnswerInvalid, SaitenError, ServiceRefused
from saiten.core.formats.errors import UnreadableInput
from saiten.core.language import mark, say, tell
from saiten.core.messages import Message
from saiten.core.plain_text import clip, escape_controls
from saiten.core.spreadsheet import is_formula, restore, write_rows
from saiten.core.strict_json import MARK, StrictJSONError, Unfit, number_of, parse_strict_json

TARGET = ("item", "evaluation", "batch", "candidate", "system")
"""What names the rated response."""

TEXT_FIELDS = (*TARGET, "rater")
STAMP = "created_at"
"""When a rating was received: written by an export, ignored by an import, which sets its own."""

PASSED_OVER = {STAMP, "earlier", "dialogue", "scores"}
"""Fields that an import ignores: the service keeps the first two, the item has a dialogue, scores are for analyses."""

SIMULATED = "simulated"
BOOLEANS = {"true": True, "false": False, "1": True, "0": False}
"""Booleans in a table, in any letter case."""

RATING_COLUMNS = (*TEXT_FIELDS, "comment", STAMP, SIMULATED)
COUNT = re.compile("[0-9]{1,10}")
ASPECT = re.compile("[a-z0-9][a-z0-9._-]{0,63}")

RatingRow = dict[str, Any]

REQUEST_BYTES = 4 * 1024**2
"""The size of a request to a service that does not state its limit."""

RATING_VALIDATIONS_PATH = "/v1/validations/ratings"
AS_NDJSON = {"Content-Type": NDJSON}

PAGE = 1000
MOST_BATCHES = 1000
"""Whose items one request may rate."""

REFUSING_STATUSES = frozenset({400, 404, 422})
"""Statuses of ratings that are refused however often they are sent."""


@dataclass(frozen=True)
class Unread:
    """A record that could not be read, and why."""

    why: str


NumberedRecord = tuple[int, Any]
"""The number of a line or element from 1, and its value, or Unread."""


class InvalidTable(Exception):
    """What is wrong with a table as a whole, by line."""

    def __init__(self, faults: Sequence[tuple[int, str]]) -> None:
        super().__init__(faults)
        self.faults = faults


class RatingFile:
    """The ratings of FILE, or of standard input for `-`. Raises InvalidItems that names lines.

    `fill` holds defaults for fields that a record lacks. What a rating may hold is left to the service.
    """

    def __init__(self, path: str, fill: RatingRow) -> None:
        self.name = name_file(path)
        body = read_bytes(path)
        self.ratings: list[Any] = []
        self._numbers: list[int] = []
        try:
            self._table = open_rating_table(io.BytesIO(body), self.name)
            records, noun = read_records(path, body, self._table)
            self._noun = noun
            faults = self._take(fill_in(records, fill))
        except UnreadableInput as error:
            raise InvalidItems(error.detail) from None
        except StrictJSONError as error:
            raise InvalidItems(f"{self.name}: {say(error.message)}") from None
        except InvalidTable as error:
            faults = [*error.faults]
        if faults:
            raise InvalidItems(self._name_places(faults, len(faults)))
        if not self.ratings:
            raise InvalidItems(
                tell("{name}: no ratings; expected a JSON array, one JSON object a line, or a table", name=self.name)
            )

    def _take(self, records: Iterable[NumberedRecord]) -> list[tuple[int, str]]:
        """Keeps the records; the faults of those that cannot be read, or rate what an earlier one rates."""
        faults: list[tuple[int, str]] = []
        seen: dict[tuple[str, ...], int] = {}
        for number, record in records:
            if isinstance(record, Unread):
                faults.append((number, record.why))
                continue
            if isinstance(record, dict):
                target = tuple(repr(record.get(name)) for name in TEXT_FIELDS)
                if (before := seen.setdefault(target, number)) != number:
                    faults.append(
                        (
                            number,
                            tell(
                                "rates what {noun} {number} rates, by the same rater",
                                noun=tell(self._noun),
                                number=before,
                            ),
                        )
                    )
            self.ratings.append(record)
            self._numbers.append(number)
        return faults

    def explain(self, error: ServiceRefused, start: int) -> InvalidItems:
        """What the service found wrong with the ratings from the one numbered `start`, from 0, in terms of the file."""
        faults = [
            (self._numbers[start + int(where)], what.removeprefix(f"line {int(where) + 1}: "))
            for pointer, what in error.faults
            if (where := pointer.removeprefix("/")).isascii() and where.isdigit()
        ]
        if not faults:
            return InvalidItems(error.detail)
        return InvalidItems(self._name_places(faults, error.total))

    def _name_places(self, faults: Sequence[tuple[int, str]], total: int) -> str:
        return shorten_faults([f"{self._place(number)}: {what}" for number, what in faults], total)

    def _place(self, number: int) -> str:
        if self._table is not None:
            return self._table.place(number)
        return f"{self.name}: {tell(self._noun)} {number}"


def read_records(path: str, body: bytes, table: RatingTable | None) -> tuple[Iterator[NumberedRecord], str]:
    """The records of the file, or of the table in it, and what their numbers count."""
    if table is None:
        body = body.removeprefix(MARK)
        form = guess(path, body.lstrip()[:1])
        return READERS[form](body), mark("element") if form == "json" else mark("line")
    if table.form == "csv":
        return parse_rows(line.decode() for line in table.lines()), mark("line")
    return parse_lines(b"".join(table.lines())), mark("line")


class RatingsKept(NamedTuple):
    """How many ratings were added, and how many replaced an earlier one by the same rater of the same response."""

    added: int
    replaced: int


def cut(ratings: Sequence[Any], most_bytes: int) -> Iterator[Sequence[Any]]:
    """The ratings in pieces of at most so many bytes as NDJSON, and of as many batches as one request may name."""
    start, held, batches = 0, 0, set[str]()
    for number, rating in enumerate(ratings):
        size = len(write_line(rating))
        batch = rating.get("batch") if isinstance(rating, dict) else None
        named = {batch} if isinstance(batch, str) else set[str]()
        if number > start and (held + size > most_bytes or len(batches) + len(named - batches) > MOST_BATCHES):
            yield ratings[start:number]
            start, held, batches = number, 0, set[str]()
        held += size
        batches |= named
    yield ratings[start:]


def fill_in(records: Iterable[NumberedRecord], fill: RatingRow) -> Iterator[NumberedRecord]:
    """The records with what they lack, and without what an import passes over."""
    for number, record in records:
        if not isinstance(record, dict):
            yield number, record
            continue
        given = {name: value for name, value in record.items() if name not in PASSED_OVER}
        lacking = {name: value for name, value in fill.items() if given.get(name) is None}
        if given.get("evaluation") is not None:
            lacking.pop("batch", None)  # an evaluation says it by itself
        yield number, {**given, **lacking}


def parse_lines(body: bytes) -> Iterator[NumberedRecord]:
    """The JSON value, or Unread, of each line that is not blank."""
    for number, line in enumerate(body.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            yield number, parse_strict_json(line)
        except StrictJSONError as error:
            yield number, Unread(say(error.message))


def parse_array(body: bytes) -> Iterator[NumberedRecord]:
    """The elements of a JSON array, numbered from 1; raises StrictJSONError."""
    found = parse_strict_json(body)
    if not isinstance(found, list):
        raise StrictJSONError(Message("not-a-list-of-ratings"))
    yield from enumerate(found, start=1)


def parse_table(body: bytes) -> Iterator[NumberedRecord]:
    """The rows of a table below its header, each numbered by its first line; raises InvalidTable.

    An empty cell says nothing, an empty row is none.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        number = body.count(b"\n", 0, error.start) + 1
        raise InvalidTable([(number, tell("is not UTF-8: save the table as “CSV UTF-8”"))]) from None
    yield from parse_rows(io.StringIO(text, newline=""))


def parse_rows(lines: Iterable[str]) -> Iterator[NumberedRecord]:
    """The rows of lines of CSV, as parse_table has them."""
    rows = csv.reader(lines, strict=True)
    columns: list[str] | None = None
    start = 1
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            # What follows a broken quotation cannot be split into cells.
            yield start, Unread(tell("is not valid CSV: {error}", error=error))
            return
        if row is None:
            return
        if any(row):
            if columns is None:
                columns = read_column_names(row, start)
            else:
                yield start, read_row(row, columns)
        start = rows.line_num + 1


def read_column_names(row: list[str], line: int) -> list[str]:
    """The columns' names; raises InvalidTable, since no row can be read without them."""
    names = [cell.strip() for cell in row]
    faults = [
        tell("the header has {name!r} more than once", name=clip(name))
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    faults += [
        tell(
            "column {number} is called {name!r}, and no aspect can be; known are {names}",
            number=number,
            name=clip(name),
            names=", ".join((*TEXT_FIELDS, "comment", SIMULATED)),
        )
        for number, name in enumerate(names, start=1)
        if name not in RATING_COLUMNS and not ASPECT.fullmatch(name)
    ]
    if not {"item", "evaluation"} & set(names):
        alone = len(names) == 1 and any(mark in names[0] for mark in ";\t")
        more = tell(": cells are to be separated by commas") if alone else ""
        faults.append(tell("the header has no column 'item'{more}", more=more))
    elif not set(names) - set(RATING_COLUMNS):
        faults.append(tell("the header names no aspect"))
    if faults:
        raise InvalidTable([(line, what) for what in faults])
    return names


def read_row(row: list[str], columns: list[str]) -> RatingRow | Unread:
    """One row as a record."""
    if len(row) != len(columns):
        return Unread(tell("has {count} cells where the header has {count_2}", count=len(row), count_2=len(columns)))
    record: RatingRow = {"ratings": {}}
    try:
        for name, cell in zip(columns, row, strict=True):
            if name in RATING_COLUMNS:
                plain = restore(cell, is_delicate)
                text = cell.strip() if plain == cell and name != "comment" else plain
                record |= {name: CELL_READERS.get(name, str)(text)} if text else {}
            elif cell.strip():
                record["ratings"][name] = number_of(cell.strip(), name)
    except Unfit as unfit:
        return Unread(say(unfit.message))
    if not record["ratings"]:
        return Unread(tell("rates nothing; leave the row out"))
    return record


def count_of(cell: str) -> int:
    """A candidate's number; raises Unfit."""
    if not COUNT.fullmatch(cell):
        raise Unfit(Message("candidate-not-whole"))
    return int(cell)


def truth_of(cell: str) -> bool:
    """Whether a rating is simulated; raises Unfit."""
    found = BOOLEANS.get(cell.lower())
    if found is None:
        raise Unfit(Message("simulated-not-boolean"))
    return found


CELL_READERS: dict[str, Callable[[str], Any]] = {"candidate": count_of, SIMULATED: truth_of}
"""What a cell of a column is, where it is no text."""

READERS: dict[str, Callable[[bytes], Iterator[NumberedRecord]]] = {
    "ndjson": parse_lines,
    "json": parse_array,
    "csv": parse_table,
}


def write_csv(ratings: Sequence[RatingRow]) -> Iterator[str]:
    """The ratings as CSV, piece by piece: a column an aspect, in the order in which they first appear."""
    aspects = [*dict.fromkeys(name for rating in ratings for name in rating["ratings"])]
    yield write_rows([[*RATING_COLUMNS, *aspects]]).decode()
    for rating in ratings:
        texts = [rating.get(name) for name in RATING_COLUMNS[:-1]]
        texts.append("true" if rating.get(SIMULATED) else None)
        yield write_rows([[*texts, *(rating["ratings"].get(name) for name in aspects)]], is_delicate).decode()


def is_delicate(text: str) -> bool:
    """Whether a table may change the text: a formula, or one with white space at its ends."""
    return text != text.strip() or is_formula(text)


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

    NDJSON, a JSON array, or a table (CSV, TSV, XLSX, Parquet) with the columns item (or evaluation), batch, candidate,
    system, rater, comment, simulated, and one column per aspect:

    \b
    {"batch": "ba_…", "item": "17", "rater": "R1", "ratings": {"fluency": 3}}

    Ratings that no person gave say "simulated": true (in CSV: true), or --simulated says it of all: they never validate
    a judge. A file with one bad line is refused whole, and each fault is named with its line. One rater has one rating
    of a response: a later one takes the place of the earlier. An export can be imported, and so can what
    `saiten convert --ratings` writes: `created_at`, `dialogue` and `scores` are passed over. Exit 0: kept; 2: bad
    usage or input; 3: could not run.
    """
    fill = {"batch": batch, "rater": rater, "simulated": simulated or None}
    read = RatingFile(file, {name: value for name, value in fill.items() if value is not None})
    kept = asyncio.run(keep(read, url))
    click.echo(
        tell(
            "{value} ratings: {added} added, {replaced} replaced",
            value=kept.added + kept.replaced,
            added=kept.added,
            replaced=kept.replaced,
        )
    )


async def keep(read: RatingFile, url: str | None) -> RatingsKept:
    """Posts all ratings. Raises InvalidItems, SaitenError; the message names what was kept before."""
    async with open_service(url, NO_JUDGE) as client:
        return await post_pieces(read, client)


async def post_pieces(read: RatingFile, client: Connection) -> RatingsKept:
    """Posts all, as much at a time as the service takes. Several pieces are all validated before the first is kept."""
    limits = (await client.info()).get("limits")
    stated = limits.get("body_bytes") if isinstance(limits, dict) else None
    pieces = [*cut(read.ratings, stated if isinstance(stated, int) else REQUEST_BYTES)]
    starts = [*accumulate(map(len, pieces), initial=0)]
    for start, piece in zip(starts, pieces, strict=False) if len(pieces) > 1 else ():
        with explaining(read, start):
            await client.request(
                "POST", RATING_VALIDATIONS_PATH, content=b"".join(map(write_line, piece)), headers=AS_NDJSON
            )
    kept = RatingsKept(0, 0)
    for start, piece in zip(starts, pieces, strict=False):
        try:
            with explaining(read, start):
                answer = await client.post_ratings(piece)
        except (SaitenError, InvalidItems, asyncio.CancelledError):
            tell_kept(start, len(read.ratings))
            raise
        counts = [answer.get(name) for name in RatingsKept._fields]
        if not all(isinstance(count, int) for count in counts):
            raise AnswerInvalid(
                tell("the service's answer to ratings is not understood; is it of this client's version?")
            )
        kept = RatingsKept(kept.added + answer["added"], kept.replaced + answer["replaced"])
    return kept


@contextmanager
def explaining(read: RatingFile, start: int) -> Iterator[None]:
    """Raises what the service refuses of the ratings from `start` as InvalidItems."""
    try:
        yield
    except ServiceRefused as error:
        if error.status not in REFUSING_STATUSES:
            raise
        raise read.explain(error, start) from None


def tell_kept(count: int, total: int) -> None:
    """Says on standard error what of a file was kept before it failed, where anything was."""
    if count:
        click.echo(
            tell(
                "saiten: the first {count} of {total} ratings were kept, the others were not; "
                "importing all once more does no harm",
                count=count,
                total=total,
            ),
            err=True,
        )


def whose(function: Callable[..., None]) -> Callable[..., None]:
    """The options that name a rater or a round."""
    for option in (URL, ROUND, RATER):
        function = option(function)
    return function


@command.command("round")
@click.argument("batch", metavar="BATCH")
@click.option("--name", required=True, metavar="NAME", help="The round's name, which raters see.")
@click.option("--items", type=int, metavar="N", help="How many responses people rate (100).")
@click.option(
    "--choose",
    type=click.Choice(["random", "informative", "stratified", "worst"]),
    help="Any responses, more where the judge is unsteady, some of every level, or the worst (random).",
)
@click.option("--aspect", metavar="NAME", help="The aspect whose spread or level counts (all).")
@click.option("--judge-batch", "judges", multiple=True, metavar="ID", help="Other judges' batch of these responses.")
@click.option("--raters-per-item", type=int, metavar="N", help="How many raters each response gets (3).")
@click.option("--seed", type=int, metavar="N", help="The same draws the same responses (0).")
@click.option(
    "--shared-with", metavar="ROUND", help="Another run's round: the same items, for people who rate in both."
)
@URL
def open_round(batch: str, url: str | None, judges: tuple[str, ...], **options: Any) -> None:
    """Open a rating round of a batch: people then rate on its page.

    How likely each response was to be drawn is kept, and weights its ratings in corrected figures. How many more
    ratings these need says `saiten analyze corrected --batch BATCH --margin X`. Exit 0: opened; 2: bad usage; 3: could
    not run.
    """
    given = {name: value for name, value in options.items() if value is not None}
    asked = {"batch": batch, **given, **({"judges": list(judges)} if judges else {})}
    opened = asyncio.run(post_round(asked, url))
    click.echo(
        tell(
            "{id}: {drawn} responses; people rate them on the service's page {address}",
            id=opened.get("id"),
            drawn=opened.get("drawn"),
            address=opened.get("address"),
        )
    )
    if shared := opened.get("shared"):
        click.echo(
            tell(
                "{needed} responses of each run must be rated by people who rate in both rounds, or the runs cannot be "
                "compared on people's scale; so far {here} here and {there} in {round}",
                needed=shared.get("needed"),
                here=shared.get("here"),
                there=shared.get("there"),
                round=shared.get("round"),
            )
        )
    if opened.get("note"):
        click.echo(f"saiten: {opened['note']}", err=True)


@command.command("pairs")
@click.argument("runs", metavar="BATCH BATCH…", nargs=-1, required=True)
@click.option("--name", required=True, metavar="NAME", help="The round's name, which raters see.")
@click.option("--items", type=int, metavar="N", help="How many pairs people compare (100).")
@click.option("--raters-per-item", type=int, metavar="N", help="How many raters each pair gets (3).")
@click.option("--items-per-rater", type=int, metavar="N", help="How many pairs one rater gets at most (all).")
@click.option("--seed", type=int, metavar="N", help="The same draws the same pairs (0).")
@URL
def open_pairs(runs: tuple[str, ...], url: str | None, **options: Any) -> None:
    """Open a round in which people compare the responses of two or more batches side by side, blind.

    Each two batches get the same number of pairs, from the items that both have. Exit 0: opened; 2: bad usage; 3: could
    not run.
    """
    given = {name: value for name, value in options.items() if value is not None}
    opened = asyncio.run(post_round({"runs": list(runs), **given}, url, pairs=True))
    click.echo(
        tell(
            "{id}: {drawn} pairs; people compare them on the service's page {address}",
            id=opened.get("id"),
            drawn=opened.get("drawn"),
            address=opened.get("address"),
        )
    )


async def post_round(asked: dict[str, Any], url: str | None, *, pairs: bool = False) -> dict[str, Any]:
    """The opened round. Raises UsageError, SaitenError."""
    async with open_service(url, NO_JUDGE) as client:
        try:
            return await (client.open_preference_round(asked) if pairs else client.open_round(asked))
        except ServiceRefused as error:
            if error.status == UNFIT:
                raise click.UsageError(error.detail) from None
            raise


@command.command("exclude")
@whose
def exclude(rater: str | None, round_id: str | None, url: str | None) -> None:
    """Leave a rater, or a rating round, out of analyses of batches and of what validates a judge.

    The ratings stay where they are. Exit 0: excluded; 2: bad usage; 3: could not run, or there is no such round.
    """
    done = asyncio.run(change(rater, round_id, url, excluded=True))
    click.echo(tell("excluded") if done else tell("was excluded already"))


@command.command("include")
@whose
def include(rater: str | None, round_id: str | None, url: str | None) -> None:
    """Let the ratings of an excluded rater, or round, count again.

    Exit 0: they count; 2: bad usage; 3: could not run.
    """
    done = asyncio.run(change(rater, round_id, url, excluded=False))
    click.echo(tell("counts again") if done else tell("was not excluded"))


async def change(rater: str | None, round_id: str | None, url: str | None, *, excluded: bool) -> bool:
    """Whether anything changed. Raises UsageError, SaitenError."""
    if (rater is None) == (round_id is None):
        raise click.UsageError(tell("name a rater by --rater, or a round by --round"))
    named = {"rater": rater} if rater is not None else {"round": round_id or ""}
    async with open_service(url, NO_JUDGE) as client:
        try:
            if excluded:
                return bool((await client.exclude_ratings(named)).get("added"))
            return bool((await client.include_ratings(named)).get("removed"))
        except ServiceRefused as error:
            if error.status == UNFIT:
                raise click.UsageError(error.detail) from None
            raise


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

    In CSV, texts that a spreadsheet would take for formulas, or that begin or end with white space, stand after an
    apostrophe, which `import` takes away again. Exit 0: printed; 2: bad usage; 3: could not run.
    """
    wanted = {"batch": batch, "rater": rater, "item": item, "evaluation": evaluation}
    asyncio.run(print_ratings({name: value for name, value in wanted.items() if value is not None}, form, url))


async def print_ratings(wanted: dict[str, str], form: str, url: str | None) -> None:
    """All that are wanted. A table has a column an aspect, so that it waits for the last."""
    ratings: list[dict[str, Any]] = []
    found = 0
    async with open_service(url, NO_JUDGE) as client:
        async for page in client.ratings(page=PAGE, **wanted):
            found += len(page)
            if form == "csv":
                ratings += page
                continue
            for rating in page:
                click.echo(escape_controls(json.dumps(rating, ensure_ascii=False)))
    if form == "csv":
        shown = sys.stdout.isatty()
        for piece in write_csv(ratings):
            click.echo(CONTROLS.sub("\ufffd", piece) if shown else piece, nl=False)
    if not found:
        click.echo(f"saiten: {tell('there are no such ratings')}", err=True)
