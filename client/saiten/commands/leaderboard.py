"""`saiten leaderboard`: systems ranked by the judge's comparisons, by people, and by ratings."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlencode

import click

from saiten.answers import Leaderboard
from saiten.commands.rankings import SOURCE_NAMES, print_ranking
from saiten.commands.service import URL, send
from saiten.core.errors import SaitenError
from saiten.core.figures import DASH, write_figure
from saiten.core.language import tell
from saiten.core.plain_text import escape_controls, printable
from saiten.core.ranking_table import write_ranking
from saiten.reading import read

LEADERBOARDS_PATH = "/v1/leaderboards"


@click.command("leaderboard")
@click.argument("preference_run", metavar="[RUN]", required=False)
@click.option("--name", metavar="NAME", help="The newest completed runs of this name, not RUN.")
@click.option("--aspect", metavar="NAME", help="Which aspect is compared (overall).")
@click.option("--markdown", is_flag=True, help="Print a table for a README.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer of GET /v1/leaderboards.")
@URL
def command(
    preference_run: str | None, name: str | None, aspect: str | None, url: str | None, *, markdown: bool, as_json: bool
) -> None:
    """Rank systems by what is preferred: RUN is a preference run, pf_….

    Exit 0: printed; 2: bad usage; 3: could not run, or there is nothing to rank.
    """
    if (preference_run is None) == (name is None):
        raise click.UsageError(tell("name a preference RUN, or a --name of runs"))
    asked = {"preference_run": preference_run, "name": name, "aspect": aspect}
    query = urlencode({key: value for key, value in asked.items() if value is not None})
    found = asyncio.run(send("GET", f"{LEADERBOARDS_PATH}?{query}", url))
    if as_json:
        click.echo(escape_controls(json.dumps(found, ensure_ascii=False, indent=2)))
    sources = [source for source in ("judge", "people", "ratings") if found.get(source)]
    if not sources:
        raise SaitenError(
            tell("there is nothing to rank: no two of these runs share an item that was rated or compared")
        )
    if as_json:
        return
    board = read(Leaderboard, found).model_dump(mode="json")
    if markdown:
        click.echo(write_ranking(board[sources[0]], tell), nl=False)
        return
    print_leaderboard(board, sources)


def print_leaderboard(found: dict[str, Any], sources: list[str]) -> None:
    """A table for each source, and how far they agree."""
    for source in sources:
        print_ranking(found[source], tell(SOURCE_NAMES[source]))
        click.echo()
    for one in found["agreement"]:
        tau = DASH if one["kendall"] is None else write_figure(one["kendall"], 2)
        told = tell(
            "{first} and {second}: Kendall's tau {tau}, {opposed} pairs resolved in opposite ways",
            first=tell(SOURCE_NAMES[one["first"]]),
            second=tell(SOURCE_NAMES[one["second"]]),
            tau=tau,
            opposed=one["opposed"],
        )
        click.echo(printable(told))
