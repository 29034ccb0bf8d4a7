"""`saiten analyze ranking`: systems ranked by the preferences in a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain
from typing import Any

import click

from saiten.commands.files import InvalidItems, guess, name_file, shorten_faults
from saiten.commands.rankings import SOURCES, print_ranking
from saiten.core import language
from saiten.core.language import tell
from saiten.core.plain_text import escape_controls
from saiten.core.ranking_table import write_ranking
from saiten.core.strict_json import StrictJSONError
from saiten_server.cli.analysis_input import begin, opened
from saiten_server.cli.process import say
from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.errors import InvalidLines, InvalidRequest
from saiten_server.core.sentences import LANGUAGE
from saiten_server.core.validation import MARK, InvalidDocument, validate
from saiten_server.platform.memory import without_collection
from saiten_server.preferences.rankings.values import Ranking, RankingRequest


@click.command("ranking")
@click.argument("file", metavar="[FILE|-]")
@click.option("--alpha", type=float, metavar="P", help="Intervals and possible ranks are at 1 - alpha (0.05).")
@click.option("--ties", type=click.Choice(["davidson", "ordinal"]), help="How ties come about.")
@click.option("--clusters", type=click.Choice(["dialogue", "item", "none"]), help="What is independent.")
@click.option("--by", type=click.Choice(["judge", "people", "all"]), help="Whose preferences rank.")
@click.option("--penalty", type=float, metavar="X", help="Give every system a finite strength, drawn towards 0.")
@click.option("--format", "form", type=click.Choice(["ndjson", "json", "csv"]), help="Default: by name or content.")
@click.option("--markdown", is_flag=True, help="Print a table for a README.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer of POST /v1/analyses/ranking.")
def command(file: str, form: str | None, *, markdown: bool, as_json: bool, **options: Any) -> None:
    """Rank systems by preferences, with intervals, possible ranks, and what the order of the responses adds.

    \b
    {"item": "17", "a": "bot-a", "b": "bot-b", "winner": "a"}

    A record is one look: a was shown before b, and winner is a, b or tie. Where wanted dialogue, rater (a person),
    length_a, length_b and covariates. Both orders of an item are two records.
    """
    request = make_request({name: value for name, value in options.items() if value is not None})
    ranking = rank_file(file, form, request)
    answer = ranking.model_dump(mode="json", context={LANGUAGE: language.language})
    if as_json:
        click.echo(escape_controls(json.dumps(answer, ensure_ascii=False, indent=2)))
    elif markdown:
        click.echo(write_ranking(answer, tell), nl=False)
    else:
        print_ranking(answer, tell(SOURCES[ranking.by]))


def make_request(options: Mapping[str, Any]) -> RankingRequest:
    """The request that the options make; raises InvalidItems where one does not fit."""
    try:
        return validate(RankingRequest, dict(options), DEFAULT_LIMITS)
    except InvalidDocument as error:
        where, what = error.faults[0]
        raise InvalidItems(f"--{where.strip('/')}: {say(what)}") from None


def rank_file(path: str, form: str | None, request: RankingRequest) -> Ranking:
    """The ranking of the file's records. Raises InvalidItems that names lines."""
    from saiten_server.preferences.rankings.reading import PreferenceReader, read_csv
    from saiten_server.preferences.rankings.report import rank_preferences
    from saiten_server.stats.reading import read_array, read_ndjson

    name, reader = name_file(path), PreferenceReader(clusters=request.clusters)
    try:
        with opened(path, name) as file, without_collection():
            opening = [line.removeprefix(MARK) for line in begin(file)]
            lines = chain(opening, file)
            match form or guess(path, opening[-1] if opening else b""):
                case "csv":
                    read = read_csv(lines, reader)
                case "json":
                    read = read_array(b"".join(lines), reader)
                case _:
                    read = read_ndjson(lines, reader)
        pairs, notes = read
        return rank_preferences(pairs, request, notes)
    except InvalidLines as error:
        places = [f"{name}: {error.noun} {number}: {say(what)}" for number, what in error.faults]
        raise InvalidItems(shorten_faults(places, error.total, given_up=error.stopped)) from None
    except (StrictJSONError, InvalidRequest) as error:
        raise InvalidItems(f"{name}: {error}") from None
