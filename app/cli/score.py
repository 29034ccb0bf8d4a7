"""`saiten score`: a file of dialogues in, results out."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from itertools import islice
from typing import Any, get_args

import click
from pydantic import ValidationError
from rich.progress import Progress
from rich.text import Text

import saiten
from app.cli.backend import open_backend
from app.cli.items import Item, find_dialogues, read_items
from app.domain.errors import RubricNotSupported, SaitenError, UnknownRubric
from app.domain.evaluation import CallTrace, EvaluationRequest
from app.domain.governance import Integrity
from app.domain.plain_text import printable
from app.domain.rubric import split_name
from app.providers import registry
from app.runtime.settings import read_settings
from app.runtime.telemetry import configure_logging
from saiten.commands.output import open_progress, print_ndjson, print_table

Scorer = Callable[[EvaluationRequest], Awaitable[dict[str, Any]]]

WINDOW = 4
"""Items started and not yet printed, as a multiple of those in flight: they may wait for a slow one."""

UNUSED = "_unused"
"""In a result of a scorer: the beginning of a reply that did not rate everything. It is not part of the result."""

SHAPE = {"status": str, "rubric": dict, "aspects": dict, "composites": dict, "warnings": list, "metadata": dict}
"""What every evaluation has."""


def scorer_of(client: saiten.Connection) -> Scorer:
    """A scorer that asks the service."""

    async def score(request: EvaluationRequest) -> dict[str, Any]:
        try:
            result = await client.evaluate(request.model_dump(mode="json"))
        except saiten.ServiceRefused as error:
            has_detail = isinstance(error.answer.get("detail"), str)
            why = error.detail if has_detail else f"{client.url} answered {error.status} without saying why"
            return failed(request, error.code, why)
        except saiten.SaitenError as error:
            return failed(request, error.code, error.detail)
        if not all(isinstance(result.get(name), kind) for name, kind in SHAPE.items()):
            detail = f"{client.url} answered 200 without an evaluation; is it a Saiten service?"
            return failed(request, "service-reply-invalid", detail)
        if result["status"] == "partial":
            result[UNUSED] = await fetch_unused(client, result.get("id"))
        return result

    return score


async def fetch_unused(client: saiten.Connection, evaluation_id: object) -> str | None:
    """How the reply began that left an aspect unrated; None where that is not to be had."""
    from app.scoring.evaluate import quote_unused

    try:
        calls = (await client.evaluation(str(evaluation_id), trace=True)).get("trace")
        return quote_unused([CallTrace.model_validate(call) for call in calls]) if isinstance(calls, list) else None
    except (saiten.SaitenError, ValidationError):
        return None


def failed(request: EvaluationRequest, code: str, detail: str) -> dict[str, Any]:
    """The result of a request that could not be evaluated."""
    return {
        "status": "failed",
        "rubric": {"id": split_name(request.rubric)[0]},
        "error": {"code": code, "detail": detail},
        "metadata": request.metadata,
        "dialogue": request.dialogue,
    }


async def score_in_order(
    requests: Iterable[EvaluationRequest], scorer: Scorer, *, concurrency: int, done: Callable[[], None]
) -> AsyncGenerator[dict[str, Any], None]:
    """One result per request, in order, each as soon as it and all before it are there; at most `concurrency` at once.

    `done` is called after each call. Close the generator (`aclosing`) to cancel the calls in flight.
    """
    gate = asyncio.Semaphore(concurrency)

    async def one(request: EvaluationRequest) -> dict[str, Any]:
        async with gate:
            result = await scorer(request)
        done()
        return result

    remaining = iter(requests)
    begun: deque[asyncio.Task[dict[str, Any]]] = deque()
    try:
        while True:
            room = WINDOW * concurrency - len(begun)
            begun.extend(asyncio.create_task(one(request)) for request in islice(remaining, room))
            if not begun:
                return
            # It stays in the queue until it has ended, so that an interruption cancels it as well.
            result = await begun[0]
            begun.popleft()
            yield result
    finally:
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)


EXIT_SOME_FAILED = 1

OF_THE_RUBRIC = {RubricNotSupported.code, UnknownRubric.code}
"""Failures that every item by that rubric shares."""


@click.command("score")
@click.argument("file", metavar="FILE|-")
@click.option("--rubric", metavar="ID", help="Rubric of items that name none (ja-dialogue).")
@click.option("--path", type=click.Choice(["source", "english", "both"]), help="Language path of items that name none.")
@click.option(
    "--integrity",
    type=click.Choice(get_args(Integrity)),
    help="What to do with items that look like an attack on the judge and name no policy.",
)
@click.option("--temperature", type=click.FloatRange(0, 2), help="The judge's, of items that name none (0).")
@click.option(
    "--max-tokens", type=click.IntRange(1), help="Longest reply of the judge, of items that name none (2048)."
)
@click.option("--url", metavar="URL", help="Ask a running service; its key comes from SAITEN_API_KEY.")
@click.option("--concurrency", default=8, show_default=True, type=click.IntRange(1, 256), help="Items in flight.")
@click.option("--format", "form", type=click.Choice(["table", "ndjson"]), help="Default: table on a terminal.")
def command(
    file: str,
    rubric: str | None,
    path: str | None,
    integrity: Integrity | None,
    temperature: float | None,
    max_tokens: int | None,
    url: str | None,
    concurrency: int,
    form: str | None,
) -> None:
    """Score every item of FILE: a JSON array, or one JSON object a line.

    An item may have an `id`, by which `saiten gate` pairs results; in the result it is `item`.

    Results are NDJSON in the order of the items, each as soon as it and those before it are there; or tables at the
    end. Exit 0: all scored; 1: some failed or are only partly rated; 2: bad usage or input; 3: could not run;
    130: interrupted.
    """
    settings = read_settings()
    if url is None:
        registry.find_judge(settings).check(settings)
    configure_logging("warning")
    given = {"rubric": rubric, "path": path, "integrity": integrity}
    defaults = {name: value for name, value in given.items() if value is not None}
    judge = {"temperature": temperature, "max_tokens": max_tokens}
    judge = {name: value for name, value in judge.items() if value is not None}
    requests = read_items(file, defaults, settings.limits, judge=judge)
    if url is None and registry.find_judge(settings).baseline:
        click.echo("judge: lexical, a baseline and a smoke test; set OPENAI_API_KEY for an LLM judge", err=True)
    if url is None and (settings.encoder or settings.encoders):
        from app.openers import find_encoder_faults

        for fault in find_encoder_faults(settings):
            click.echo(f"saiten: {fault}", err=True)
    as_table = form == "table" or (form is None and sys.stdout.isatty())
    if not asyncio.run(score_and_show(requests, url, concurrency=concurrency, as_table=as_table)):
        raise click.exceptions.Exit(EXIT_SOME_FAILED)


async def score_and_show(
    requests: list[Item],
    url: str | None,
    *,
    concurrency: int,
    as_table: bool,
) -> bool:
    """Prints the results in order as they arrive, or all in tables at the end. Returns whether every item was scored.

    Failures are also printed on standard error, at once. Raises SaitenError where no item can be scored because of the
    rubric that all name.
    """
    complete, rows = True, []
    reported: set[str] = set()
    clusters = find_dialogues(requests)
    try:
        with open_progress(shown=as_table or not sys.stdout.isatty()) as progress:
            bar = progress.add_task("scoring", total=len(requests))
            async with (
                open_backend(url) as backend,
                aclosing(
                    score_in_order(
                        requests,
                        scorer_of(backend.client),
                        concurrency=concurrency,
                        done=lambda: progress.advance(bar),
                    )
                ) as results,
            ):
                position = 0
                async for found in results:
                    if position == 0:
                        require_rubric(found, requests)
                    unused = found.pop(UNUSED, None)
                    result = name_result(found, requests[position], clusters[position])
                    complete = complete and result["status"] == "scored"
                    if as_table:
                        rows.append({**result, "_response": requests[position].response})
                    else:
                        # In a thread: a slow reader such as `less` must not let calls in flight time out.
                        await asyncio.to_thread(print_ndjson, result)
                    position += 1
                    if "error" in result:
                        say(progress, f"item {position}: {result['error']['code']}: {result['error']['detail']}")
                    else:
                        explain(progress, position, result, unused)
                        if (line := name_dropped(result)) is not None and line not in reported:
                            reported.add(line)
                            say(progress, line)
    finally:
        # Also after an interruption: these results were paid for.
        print_table(rows)
    return complete


def name_result(result: dict[str, Any], item: Item, cluster: str | None) -> dict[str, Any]:
    """The result with the item's id and the digest of its dialogue before it, where the item has them."""
    place = {"item": item.id, "cluster": cluster}
    return {**{name: value for name, value in place.items() if value is not None}, **result}


def require_rubric(first: dict[str, Any], requests: list[Item]) -> None:
    """Raises SaitenError where the first result shows that no item can be scored, so that it is reported only once."""
    error = first.get("error")
    if error is not None and error["code"] in OF_THE_RUBRIC and len({request.rubric for request in requests}) == 1:
        raise SaitenError(error["detail"])


def explain(progress: Progress, position: int, result: dict[str, Any], unused: str | None) -> None:
    """Prints which aspects of an item are unrated, why, and the beginning of the unusable reply."""
    whys: dict[str, list[str]] = {}
    for name, aspect in result["aspects"].items():
        if isinstance(aspect, dict) and isinstance(why := aspect.get("unrated"), dict):
            whys.setdefault(f"{why.get('reason')}: {why.get('detail')}", []).append(name)
    for why, names in whys.items():
        say(progress, f"item {position}: {', '.join(names)} unrated: {why}{f'; {unused}' if unused else ''}")


def name_dropped(result: dict[str, Any]) -> str | None:
    """Which parameters the judge's endpoint refused; None where it refused none."""
    judge = result.get("judge")
    names = judge.get("dropped") if isinstance(judge, dict) else None
    if not isinstance(names, list) or not names:
        return None
    return f"the judge's endpoint refused {', '.join(map(str, names))}: it was asked without"


def say(progress: Progress, line: str) -> None:
    """A line on standard error, above the bar. Positions in it count from 1."""
    progress.console.print(Text(printable(line)), soft_wrap=True)
