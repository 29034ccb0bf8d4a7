"""`saiten score`: a file of dialogues in, results out."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import click
from rich.progress import Progress

from app.adapters.telemetry import configure_logging
from app.cli.items import read_items
from app.cli.output import console, print_ndjson, print_table
from app.cli.scoring import score_all, score_here, score_there
from app.domain.evaluation import EvaluationRequest
from app.settings import read_settings

EXIT_SOME_FAILED = 1


@click.command("score")
@click.argument("file", metavar="FILE|-")
@click.option("--rubric", help="Rubric of items that name none (ja-dialogue).")
@click.option("--path", type=click.Choice(["source", "english", "both"]), help="Language path of items that name none.")
@click.option("--url", help="Ask a running service; its key comes from SAITEN_API_KEY.")
@click.option("--concurrency", default=8, show_default=True, type=click.IntRange(1, 256), help="Items in flight.")
@click.option("--format", "form", type=click.Choice(["table", "ndjson"]), help="Default: table on a terminal.")
def command(
    file: str, rubric: str | None, path: str | None, url: str | None, concurrency: int, form: str | None
) -> None:
    """Score every item of FILE: a JSON array, or one JSON object a line.

    Exit 0: all scored; 1: some failed or are only partly rated; 2: bad usage or input; 3: could not run.
    """
    settings = read_settings()
    configure_logging("warning")
    defaults = {name: value for name, value in {"rubric": rubric, "path": path}.items() if value is not None}
    requests = read_items(file, defaults, settings.limits)
    scorer = score_there(url, os.environ.get("SAITEN_API_KEY")) if url else score_here(settings)
    if not url and settings.judge_kind == "lexical":
        click.echo("judge: lexical, a baseline and a smoke test; set OPENAI_API_KEY for an LLM judge", err=True)

    async def run() -> list[dict[str, Any]]:
        with Progress(console=console(error=True), transient=True) as progress:
            bar = progress.add_task("scoring", total=len(requests))
            async with scorer as score:
                return await score_all(requests, score, concurrency=concurrency, done=lambda: progress.advance(bar))

    results = asyncio.run(run())
    show(results, requests, as_table=form == "table" or (form is None and sys.stdout.isatty()))
    if any(result["status"] != "scored" for result in results):
        sys.exit(EXIT_SOME_FAILED)


def show(results: list[dict[str, Any]], requests: list[EvaluationRequest], *, as_table: bool) -> None:
    """Prints the results; what failed is also said on standard error."""
    if as_table:
        pairs = zip(results, requests, strict=True)
        print_table([{**result, "_response": request.response} for result, request in pairs])
    else:
        print_ndjson(results)
    for position, result in enumerate(results, start=1):
        if "error" in result:
            click.echo(f"item {position}: {result['error']['code']}: {result['error']['detail']}", err=True)
