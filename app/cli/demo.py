"""`saiten demo`: the main job end to end on a machine with nothing but Python."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from app.cli.output import console, means_of, print_table, rubrics_of
from app.cli.scoring import score_all, score_there
from app.demo_data import load_demo
from app.domain.dialogue import DEFAULT_LIMITS
from app.domain.errors import SettingsInvalid
from app.domain.evaluation import EvaluationRequest
from app.domain.validation import validate

NEXT = """
These scores come from the embedded lexical judge: a baseline and a smoke test, not an LLM judge. Next:
  an LLM judge        OPENAI_API_KEY=sk-… saiten serve
  a local LLM judge   OPENAI_API_KEY=any OPENAI_BASE_URL=http://127.0.0.1:11434/v1 SAITEN_MODEL=… saiten serve
  the English path    DEEPL_API_KEY=… (with either)
  blended relevance   pip install 'saiten[bertscore]'
"""


@click.command("demo")
@click.option(
    "--use-environment", is_flag=True, help="Use the judge and keys of the environment (this may cost money)."
)
def command(use_environment: bool) -> None:
    """Start a private service, post the bundled Japanese and Korean dialogues, show the scores, stop."""
    requests = [validate(EvaluationRequest, body, DEFAULT_LIMITS) for body in load_demo()]
    with tempfile.TemporaryDirectory(prefix="saiten-demo-") as folder, serve(folder, use_environment) as url:
        out = console()
        out.print(f"A private service answers at {url}. {len(requests)} candidates go to POST /v1/evaluations.\n")
        results = asyncio.run(post(url, requests))
    show(results, requests)
    if any(result["status"] != "scored" for result in results):
        sys.exit(1)


async def post(url: str, requests: list[EvaluationRequest]) -> list[dict[str, Any]]:
    """Each request's answer."""
    async with score_there(url, None) as score:
        return await score_all(requests, score, concurrency=8, done=lambda: None)


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
    out.print(NEXT, soft_wrap=True)


@contextmanager
def serve(folder: str, use_environment: bool) -> Iterator[str]:
    """A service of its own process on a free port; yields its URL. Raises SettingsInvalid where it does not start."""
    environment = {**os.environ, "DATABASE_URL": f"sqlite+aiosqlite:///{Path(folder) / 'demo.db'}"}
    if not use_environment:
        environment |= {"SAITEN_JUDGE": "lexical", "SAITEN_LOG_LEVEL": "error"}
    command_line = [sys.executable, "-m", "app", "serve", "--port", "0"]
    log = Path(folder) / "log"
    with log.open("wb") as sink:
        process = subprocess.Popen(command_line, env=environment, stdout=subprocess.PIPE, stderr=sink, text=True)  # noqa: S603
        try:
            said = process.stdout.readline() if process.stdout else ""
            if "http://" not in said:
                raise SettingsInvalid(f"the demo's service did not start: {last_line(log)}")
            yield said.split()[3]
        finally:
            stop(process)


def stop(process: subprocess.Popen[str]) -> None:
    """Ends the service: gently, and by force where it takes longer than a graceful stop may."""
    process.terminate()
    try:
        process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def last_line(log: Path) -> str:
    """What the service said last."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[-1] if lines else "it said nothing"
