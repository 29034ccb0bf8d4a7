"""`saiten demo`: the main job end to end on a machine with nothing but Python."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from app.cli.backend import Backend, open_backend
from app.cli.demo_database import check_place, keep_database
from app.cli.demo_runs import ScoredRun, post_runs, table_of_runs
from app.cli.output import console, means_of, print_table, rubrics_of
from app.cli.scoring import score_in_order, scorer_of
from app.demo_data import DemoRun, load_demo, load_runs
from app.domain.dialogue import DEFAULT_LIMITS
from app.domain.evaluation import EvaluationRequest
from app.domain.validation import validate

PRIVATE = "demo.db"

NEXT = """
These scores come from the embedded lexical judge: a baseline and a smoke test, not an LLM judge. Next:
  an LLM judge        OPENAI_API_KEY=sk-… {saiten} serve
  a local LLM judge   OPENAI_BASE_URL=http://127.0.0.1:11434/v1 SAITEN_MODEL=… {saiten} serve (docs/judges.md)
  the English path    DEEPL_API_KEY=… (with either)
  blended relevance   make install (brings PyTorch, which is large)
  thousands at once   POST /v1/batches; README.md, "Score thousands"
"""

LOOK = """The runs, with ratings by simulated raters, are in {file}. To look at them:
  {run}
then open http://127.0.0.1:8000/"""

DATABASE = "saiten-demo.db"
UNDER_MAKE = ".venv/bin/saiten"
"""How the Makefile calls this command."""


@dataclass(frozen=True)
class Wanted:
    """What is asked of the demo. `judge_runs`: the environment's judge, where it is used, rates the runs as well."""

    database: Path
    use_environment: bool = False
    judge_runs: bool = False
    quiet: bool = False


@click.command("demo")
@click.option(
    "--use-environment", is_flag=True, help="Use the judge and keys of the environment (this may cost money)."
)
@click.option(
    "--judge-runs",
    is_flag=True,
    help="With --use-environment: its judge rates the 8 runs as well, with 288 candidates more to pay for. Without,"
    " the lexical judge rates them.",
)
@click.option(
    "--database",
    default=DATABASE,
    show_default=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="File in which the runs are kept; one that an earlier demo made is replaced.",
)
@click.option("--quiet", is_flag=True, help="Only make the file of runs: no candidates, no tables.")
def command(use_environment: bool, judge_runs: bool, database: Path, quiet: bool) -> None:
    """Start a private service, post the bundled Japanese and Korean dialogues, show the scores, stop.

    Then 8 bundled runs of two systems are scored, and kept in a database for the dashboard to show. Their human ratings
    are simulated.
    """
    if judge_runs and not use_environment:
        raise click.UsageError("--judge-runs goes with --use-environment")
    check_place(database)
    wanted = Wanted(database, use_environment, judge_runs, quiet)
    requests = [] if quiet else [validate(EvaluationRequest, body, DEFAULT_LIMITS) for body in load_demo()]
    results = asyncio.run(run_demo(wanted, requests))
    if any(result["status"] != "scored" for result in results):
        raise click.exceptions.Exit(1)


async def run_demo(wanted: Wanted, requests: list[EvaluationRequest]) -> list[dict[str, Any]]:
    """Each request's answer by a service that lives no longer than this; the runs are then in the database."""
    runs = load_runs()
    with tempfile.TemporaryDirectory(prefix="saiten-demo-") as folder:
        results: list[dict[str, Any]] = []
        scored: list[ScoredRun] = []
        by_one_judge = wanted.judge_runs or not wanted.use_environment
        if by_one_judge or requests:
            async with serve(folder, wanted.use_environment) as backend:
                if requests:
                    results = await score_privately(backend, requests)
                    show(results, requests)
                if by_one_judge:
                    scored = await post_told(backend, runs, wanted)
        if not by_one_judge:
            async with serve(folder, use_environment=False) as backend:
                scored = await post_told(backend, runs, wanted)
        keep_database(Path(folder) / PRIVATE, wanted.database)
    if not wanted.quiet:
        show_end(scored, wanted.database)
    return results


async def score_privately(backend: Backend, requests: list[EvaluationRequest]) -> list[dict[str, Any]]:
    """Each request's answer."""
    url, scorer = backend.client.url, scorer_of(backend.client)
    console().print(f"A private service answers at {url}. {len(requests)} candidates go to POST /v1/evaluations.\n")
    async with aclosing(score_in_order(requests, scorer, concurrency=8, done=lambda: None)) as results:
        return [result async for result in results]


async def post_told(backend: Backend, runs: list[DemoRun], wanted: Wanted) -> list[ScoredRun]:
    """Posts the runs, and says so first: it takes some seconds."""
    if not wanted.quiet:
        count = sum(len(run.items) for run in runs)
        console().print(f"\n{count} candidates more go to POST /v1/batches, as {len(runs)} runs …\n")
    return await post_runs(backend, runs)


def show(results: list[dict[str, Any]], requests: list[EvaluationRequest]) -> None:
    """The tables, and one signature a rubric."""
    out = console()
    pairs = zip(results, requests, strict=True)
    print_table([{**result, "_response": request.response} for result, request in pairs], on=out)
    for rubric in rubrics_of(results):
        out.print(means_of(rubric, results))
    scored = [result for result in results if "signature" in result]
    out.print("signature", style="bold")
    for line in dict.fromkeys(result["signature"] for result in scored):
        out.print(line, soft_wrap=True)
    for reason in sorted({why for result in scored if (why := (result["relevance"] or {}).get("unavailable"))}):
        out.print(f"\nno blended values: {reason}", soft_wrap=True)


def show_end(runs: list[ScoredRun], database: Path) -> None:
    """The runs, what to set next, and the address at which to look at them."""
    out = console()
    out.print(table_of_runs(runs))
    # As it was called, so that the line can be pasted: `.venv/bin/saiten` under make.
    name = sys.argv[0] if sys.argv[0].endswith("saiten") else "saiten"
    out.print(NEXT.format(saiten=name), soft_wrap=True)
    made = name == UNDER_MAKE and database == Path(DATABASE)
    served = f"DATABASE_URL={shlex.quote(f'sqlite+aiosqlite:///{database}')} {name} serve"
    out.print(LOOK.format(file=database, run="make run" if made else served), soft_wrap=True)


@asynccontextmanager
async def serve(folder: str, use_environment: bool) -> AsyncIterator[Backend]:
    """A private service with a database in `folder`. Raises saiten.PrivateServiceFailed where it does not start."""
    # Without Redis: the batches would go to the queue of other workers, who cannot see this database.
    environment = {"DATABASE_URL": f"sqlite+aiosqlite:///{Path(folder) / PRIVATE}", "REDIS_URL": ""}
    if os.environ.get("SAITEN_CACHE") == "redis":
        environment["SAITEN_CACHE"] = ""
    if not use_environment:
        environment["SAITEN_JUDGE"] = "lexical"
    async with open_backend(None, environment, quiet=True) as backend:
        yield backend
