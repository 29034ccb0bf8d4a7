"""Gates over files of results (`saiten offline`): a folder, a Parquet file or a URL, judged here by the server's code.

They are read in a process of the server's, because it takes numpy and pyarrow, which a client has not.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from saiten.commands.files import InvalidItems, shorten_faults
from saiten.commands.gate_settings import TERMS, GateSettings, name_option_fault
from saiten.connection import Object
from saiten.core.errors import AnswerInvalid, BatchesRequired, SaitenError, SignatureMismatch, TimeLimitReached
from saiten.core.language import tell
from saiten.private import require_server

SUFFIX = ".parquet"
FOOTER_BYTES = 1 << 20
MOST_FILES_TRIED = 20
"""Files of a folder, of which some may be damaged."""

RESULT_MARKS = b"row_key", b"item_key"
"""Columns that only files of results have; their names stand in the footer."""

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""Of BLAS: on a busy machine its threads wait for each other, and the arrays are small."""


def are_results(written: str | None) -> bool:
    """Whether a run is named by files of results: a URL, or a Parquet file that has their columns, or a folder that
    holds one. Other folders are of items."""
    if written is None or "://" in written:
        return written is not None
    path = Path(written)
    if os.path.isdir(path):
        return any(holds_results(found) for found in islice(path.rglob(f"*{SUFFIX}"), MOST_FILES_TRIED))
    return written.lower().endswith(SUFFIX) and holds_results(path)


def holds_results(path: Path) -> bool:
    """Whether the Parquet file has the columns that only results have."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - FOOTER_BYTES))
            footer = file.read()
    except OSError:
        return False
    return all(mark in footer for mark in RESULT_MARKS)


def require_files(settings: GateSettings, *, writes: bool, asserts: bool) -> None:
    """Raises InvalidItems or BatchesRequired where a gate over files asks for what only a service's batches have."""
    if not are_results(settings.candidate) or not (settings.baseline is None or are_results(settings.baseline)):
        raise InvalidItems(
            tell("files of results are compared with files of results; a service takes them by POST /v1/runs/adopt")
        )
    asked = {
        "--link": settings.link,
        "--sequence": settings.sequence,
        "--check-judge": settings.check_judge,
        "--keep": settings.keep,
        "--estimate corrected": settings.estimate != "judge",
    }
    for option, given in asked.items():
        if given:
            raise BatchesRequired(
                tell("{option} goes with batches: a service takes these files by POST /v1/runs/adopt", option=option)
            )
    if writes:
        raise InvalidItems(tell("--save and --record are of what is scored; these files are a baseline already"))
    if asserts:
        raise InvalidItems(
            tell("assertions look at responses, which this candidate does not hold; name a file of items")
        )


async def gate_files(settings: GateSettings, options: Mapping[str, Any], file: str) -> Object:
    """The verdict, as `POST /v1/gates` answers it. Raises InvalidItems, SignatureMismatch and ServerMissing."""
    require_server(tell("files of results are read by the server: pip install 'saiten-server[offline]'"))
    asked = {
        "request": {**settings.model_dump(include={*TERMS}), "rules": settings.rules},
        "candidate": settings.candidate,
        "baseline": settings.baseline,
        "rubric": settings.rubric if "rubric" in settings.model_fields_set else None,
    }
    answer = await ask_server(json.dumps(asked).encode(), settings.timeout_seconds)
    if "verdict" not in answer:
        raise read_problem(answer, options, file)
    return answer


async def ask_server(request: bytes, seconds: float | None) -> Object:
    """The answer of the server's process, which ends where this one is interrupted."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-m", "saiten_server.cli.gate_files"),
        env={**ONE_THREAD, **os.environ},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(seconds):
            said, _ = await process.communicate(request)
    except TimeoutError:
        raise TimeLimitReached(tell("the files were not read within {limit}", limit=f"{seconds:g} s")) from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    try:
        answer: Object = json.loads(said)
    except ValueError:
        raise AnswerInvalid(tell("the files could not be judged: see above")) from None
    return answer


def read_problem(answer: Object, options: Mapping[str, Any], file: str) -> SaitenError | InvalidItems:
    """The error that the answer tells."""
    detail = str(answer.get("detail"))
    if answer.get("code") == "signature-mismatch":
        return SignatureMismatch(detail, answer, 409)
    errors = answer.get("errors")
    places = [(str(one["pointer"]), str(one["detail"])) for one in errors] if isinstance(errors, list) else []
    named = [name_option_fault(where, what, options, file) for where, what in places if where.startswith("/")]
    return InvalidItems(shorten_faults(named) if named else detail)
