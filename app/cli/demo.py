"""`saiten demo`: the main job end to end on a machine with nothing but Python."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import click

from app.cli.output import console, means_of, print_table, rubrics_of
from app.cli.scoring import score_in_order, score_there
from app.demo_data import load_demo
from app.domain.dialogue import DEFAULT_LIMITS
from app.domain.errors import SettingsInvalid
from app.domain.evaluation import EvaluationRequest
from app.domain.validation import validate

START_SECONDS = 60.0
STOP_SECONDS = 30.0

NEXT = """
These scores come from the embedded lexical judge: a baseline and a smoke test, not an LLM judge. Next:
  an LLM judge        OPENAI_API_KEY=sk-… {saiten} serve
  a local LLM judge   OPENAI_API_KEY=any OPENAI_BASE_URL=http://127.0.0.1:11434/v1 SAITEN_MODEL=… {saiten} serve
  the English path    DEEPL_API_KEY=… (with either)
  blended relevance   make install (brings PyTorch, which is large)
  thousands at once   POST /v1/batches; README.md, "Score thousands"
"""


@click.command("demo")
@click.option(
    "--use-environment", is_flag=True, help="Use the judge and keys of the environment (this may cost money)."
)
def command(use_environment: bool) -> None:
    """Start a private service, post the bundled Japanese and Korean dialogues, show the scores, stop."""
    requests = [validate(EvaluationRequest, body, DEFAULT_LIMITS) for body in load_demo()]
    results = asyncio.run(score_privately(requests, use_environment))
    show(results, requests)
    if any(result["status"] != "scored" for result in results):
        raise click.exceptions.Exit(1)


async def score_privately(requests: list[EvaluationRequest], use_environment: bool) -> list[dict[str, Any]]:
    """Each request's answer by a service that lives no longer than this."""
    with tempfile.TemporaryDirectory(prefix="saiten-demo-") as folder:
        async with serve(folder, use_environment) as url, score_there(url, None) as score:
            console().print(
                f"A private service answers at {url}. {len(requests)} candidates go to POST /v1/evaluations.\n"
            )
            async with aclosing(score_in_order(requests, score, concurrency=8, done=lambda: None)) as results:
                return [result async for result in results]


def show(results: list[dict[str, Any]], requests: list[EvaluationRequest]) -> None:
    """The tables, one signature a rubric, and what to set next."""
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
    # As it was called, so that the line can be pasted: `.venv/bin/saiten` under make.
    name = sys.argv[0] if sys.argv[0].endswith("saiten") else "saiten"
    out.print(NEXT.format(saiten=name), soft_wrap=True)


@asynccontextmanager
async def serve(folder: str, use_environment: bool, *, start_seconds: float = START_SECONDS) -> AsyncIterator[str]:
    """A service of its own process on a free port; yields its URL. Raises SettingsInvalid where it does not start."""
    private = {"DATABASE_URL": f"sqlite+aiosqlite:///{Path(folder) / 'demo.db'}", "SAITEN_DRAIN_SECONDS": "0"}
    environment = {**os.environ, **private}
    if not use_environment:
        environment |= {"SAITEN_JUDGE": "lexical", "SAITEN_LOG_LEVEL": "error"}
    command_line = [sys.executable, "-m", "app", "serve", "--port", "0"]
    log = Path(folder) / "log"
    with log.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(*command_line, env=environment, stdout=PIPE, stderr=sink)
        try:
            said = await first_line(process, start_seconds)
            if "http://" not in said:
                raise SettingsInvalid(f"the demo's service did not start: {last_line(log)}")
            yield said.split()[3]
        finally:
            await stop(process)


async def first_line(process: Process, seconds: float) -> str:
    """What the service says first: where it listens, or nothing where it ends. Raises SettingsInvalid if it is late."""
    try:
        return (await asyncio.wait_for(process.stdout.readline(), seconds)).decode() if process.stdout else ""
    except TimeoutError:
        raise SettingsInvalid(
            f"the demo's service did not start within {seconds:g} s; see what holds it up with `saiten serve`"
        ) from None


async def stop(process: Process) -> None:
    """Ends the service: gently, and by force where it takes longer than a graceful stop may."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.communicate(), STOP_SECONDS)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


def last_line(log: Path) -> str:
    """What the service said last."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[-1] if lines else "it said nothing"
