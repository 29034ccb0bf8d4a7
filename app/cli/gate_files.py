"""The verdict on runs that are files of results: what `saiten gate` starts, which reads no Parquet itself.

    python -m saiten_server.cli.gate_files < REQUEST

The request is a `GateRequest` without its runs, and beside it the addresses of the files: `{"request": {…},
"candidate": URL, "baseline": URL|null, "rubric": NAME}`. The answer is that of `POST /v1/gates`, or its problem with
`status`, `code`, `detail` and what else it tells.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from saiten.core import language
from saiten_server.cli.process import say
from saiten_server.comparison.given_runs import GivenRun
from saiten_server.comparison.requests import GateRequest
from saiten_server.core.dialogue import DEFAULT_LIMITS
from saiten_server.core.errors import SaitenError, SignatureMismatch
from saiten_server.core.sentences import LANGUAGE
from saiten_server.core.validation import InvalidDocument, validate


def main() -> None:
    """Reads the request, and writes the answer. Exit 0 for a verdict, 3 for a problem."""
    language.use_language(language.find_language(os.environ))
    try:
        answer = judge_files(json.load(sys.stdin))
    except SaitenError as error:
        print(json.dumps(describe_problem(error), ensure_ascii=False))
        sys.exit(3)
    print(answer)


def judge_files(asked: dict[str, Any]) -> str:
    """The report as JSON in the process's language. Raises what `gate_files` raises, and InvalidDocument."""
    from saiten_server.offline.opened_files import open_files
    from saiten_server.offline.runs import gate_files
    from saiten_server.platform.settings import read_settings
    from saiten_server.scoring.rubrics.files import open_rubrics

    runs = {role: GivenRun().model_dump() for role in ("candidate", "baseline") if asked.get(role) is not None}
    request = validate(GateRequest, {**asked["request"], **runs}, DEFAULT_LIMITS)
    files = {role: open_files(asked[role]) for role in runs}
    rubrics = open_rubrics(read_settings().rubrics)
    report = gate_files(request, files["candidate"], files.get("baseline"), rubrics, asked.get("rubric"))
    return report.model_dump_json(context={LANGUAGE: language.language})


def describe_problem(error: SaitenError) -> dict[str, Any]:
    """The problem, in the process's language."""
    found: dict[str, Any] = {"status": 422, "code": error.code, "detail": say(error.message)}
    if isinstance(error, InvalidDocument):
        found["errors"] = [{"pointer": pointer, "detail": say(what)} for pointer, what in error.faults]
    elif error.pointer is not None:
        found["errors"] = [{"pointer": error.pointer, "detail": found["detail"]}]
    if isinstance(error, SignatureMismatch):
        found |= {"status": 409, "pieces": {name: list(pair) for name, pair in error.pieces.items()}}
    return found


if __name__ == "__main__":
    main()
