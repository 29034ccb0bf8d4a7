"""Files for `saiten analyze` and others. Ratings are read line by line: a million need no more memory than columns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, TypeVar

from saiten.commands.files import InvalidItems, guess, name_file, shorten_faults, split
from saiten.commands.rating_tables import RatingTable, open_rating_table
from saiten.core.formats.errors import UnreadableInput
from saiten.core.formats.reading import open_input
from saiten.core.language import tell
from saiten.core.plain_text import printable
from saiten.core.strict_json import StrictJSONError
from saiten_server.analyses.requests import AnalysisRequest
from saiten_server.cli.process import say
from saiten_server.core.errors import InvalidLines, at_place
from saiten_server.core.validation import MARK, InvalidDocument, Unfit
from saiten_server.platform.memory import without_collection
from saiten_server.scoring.rubrics.files import RubricSource

if TYPE_CHECKING:
    from saiten_server.stats.observations import Observations
    from saiten_server.stats.reading import ObservationReader

Item = TypeVar("Item")


def read_observations(path: str, form: str | None, request: AnalysisRequest, rubrics: RubricSource) -> Observations:
    """The file's ratings, or those of standard input for `-`. Raises InvalidItems that names lines, and UnknownRubric.
    A byte order mark is ignored."""
    from saiten_server.analyses.reports import make_reader
    from saiten_server.stats.reading import FILE_BOUNDS

    name = name_file(path)
    reader = make_reader(request, rubrics, bounds=FILE_BOUNDS)
    opening: list[bytes] = []
    table: RatingTable | None = None
    try:
        with open_input(path) as (file, _):
            table = open_rating_table(file, name)
            if table is not None:
                return read_form(table.lines(), table.form, reader)
            file.seek(0)
            opening = read_beginning(file)
            opening[:1] = [line.removeprefix(MARK) for line in opening[:1]]
            with without_collection():
                return read_form(chain(opening, file), form or guess(path, opening[-1] if opening else b""), reader)
    except InvalidLines as error:
        places = place_faults(error, name, table)
        further = map(printable, hints(error, request, rubrics, opening))
        shown = shorten_faults(places, error.total, given_up=error.stopped)
        raise InvalidItems("\n".join([shown, *further])) from None
    except StrictJSONError as error:
        raise InvalidItems(f"{name}: {say(error.message)}") from None
    except UnreadableInput as error:
        raise InvalidItems(error.detail) from None


def place_faults(error: InvalidLines, name: str, table: RatingTable | None) -> list[str]:
    """The faults with their places in the file, or in the table that was read instead."""
    return [
        f"{table.place(number)}: {say(what)}" if table else f"{name}: {say(at_place(error.noun, number, what))}"
        for number, what in error.faults
    ]


def read_form(lines: Iterable[bytes], form: str, reader: ObservationReader) -> Observations:
    """The lines in that form; raises InvalidLines, StrictJSONError."""
    from saiten_server.stats.reading import read_array, read_csv, read_ndjson

    match form:
        case "csv":
            return read_csv(lines, reader)
        case "json":
            return read_array(b"".join(lines), reader)
        case _:
            return read_ndjson(lines, reader)


def read_items(
    name: str,
    body: bytes,
    read_one: Callable[[Any], Item],
    key_of: Callable[[Item], Hashable | None],
    tell_repeat: Callable[[Item, str], str],
) -> list[Item]:
    """All items of a file, all or none: figures without the unreadable ones would have another denominator than they
    state. Raises InvalidItems that names the lines and fields, and items whose key (if not None) is that of another."""
    items: list[Item] = []
    faults: list[str] = []
    seen: dict[Hashable, str] = {}
    for where, value in split(name, body):
        try:
            items.append(read_one(value))
        except InvalidDocument as error:
            faults += [f"{where}: {pointer or tell('the item')}: {say(detail)}" for pointer, detail in error.faults]
            continue
        except Unfit as unfit:
            faults.append(f"{where}: {say(unfit.message)}")
            continue
        key = key_of(items[-1])
        if key is not None and (first := seen.setdefault(key, where)) != where:
            faults.append(f"{where}: {tell_repeat(items[-1], first)}")
    if faults:
        raise InvalidItems(shorten_faults(faults))
    if not items:
        raise InvalidItems(tell("{name}: no items; expected a JSON array or one JSON object a line", name=name))
    return items


def read_beginning(file: IO[bytes]) -> list[bytes]:
    """The lines up to the first that is not blank."""
    lines: list[bytes] = []
    for line in file:
        lines.append(line)
        if line.removeprefix(MARK).strip():
            break
    return lines


def hints(error: InvalidLines, request: AnalysisRequest, rubrics: RubricSource, opening: list[bytes]) -> list[str]:
    """Hints for common mistakes."""
    faults = [what for _, what in error.faults]
    first = opening[-1].strip() if opening else b""
    if first == b"{":
        return [tell("each record is one line; only in an array may it span several lines: [{…}, {…}]")]
    if first.startswith(b'{"data"'):
        return [tell("a file holds only the records, not the body of a request")]
    if any(what.values.get("name") == "'aspect'" and "not-a-number" in what.id for what in faults):
        return [tell("a table has a column for each aspect: item,rater,fluency,relevance")]
    if any(what.id in {"aspect-unknown", "aspect-of-one-record"} for what in faults):
        if request.aspects is not None:
            return [tell("--aspects knows only {names}", names=", ".join(request.aspects))]
        if request.rubric is not None:
            known = [aspect.id for aspect in rubrics.get(request.rubric).aspects]
            return [
                tell(
                    "the rubric {rubric} knows only {names}; --rubric or --aspects names others",
                    rubric=request.rubric,
                    names=", ".join(known),
                )
            ]
    return []
