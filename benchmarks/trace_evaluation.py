"""How much code one evaluation runs through: files, functions and calls of `app/`, with the lexical judge, no encoder.

    python -m benchmarks.trace_evaluation [--functions] [--first]

Another dialogue is scored before, so that what is made once in a process (the tagger, the weights) does not count; with
`--first` that is left out, and the first evaluation of the process is counted, modules that it imports included.
Comprehensions count as part of their function, and a coroutine counts once, however often it is resumed.
`--functions` also lists every function with its calls.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
from collections import Counter
from inspect import CO_COROUTINE, CO_GENERATOR
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import saiten_server as server
from saiten_server.container import open_container
from saiten_server.core.evaluation import EvaluationRequest
from saiten_server.platform.settings import Settings
from saiten_server.scoring.evaluate import evaluate

ROOT = str(Path(server.__file__).parent) + "/"


def make_request(asked: str, response: str) -> EvaluationRequest:
    context = [{"speaker": "A", "text": "週末は海に行きました。"}, {"speaker": "B", "text": asked}]
    return EvaluationRequest.model_validate({"rubric": "ja-dialogue", "context": context, "response": response})


class CallCounter:
    """Counts calls of functions in `app/`, in every thread, while `active`."""

    def __init__(self) -> None:
        self.active = False
        self.calls: Counter[tuple[str, str]] = Counter()
        self._suspended: set[FrameType] = set()

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if not self.active or event != "call" or not code.co_filename.startswith(ROOT) or "<" in code.co_name:
            return
        if code.co_flags & (CO_COROUTINE | CO_GENERATOR):
            if frame in self._suspended:
                return
            # Held until the end, so that a resumed coroutine is known by its frame.
            self._suspended.add(frame)
        self.calls[code.co_filename.removeprefix(ROOT), code.co_qualname] += 1


async def count_calls(*, first: bool = False) -> Counter[tuple[str, str]]:
    """Calls of one evaluation by file and function; `first`: of the first one in the process."""
    counter = CallCounter()
    # Before the first evaluation starts the thread in which the judge works.
    threading.setprofile(counter.profile)
    with TemporaryDirectory() as folder:
        settings = Settings(judge="lexical", encoder="off", database_url=f"sqlite+aiosqlite:///{folder}/trace.db")
        async with open_container(settings) as container:
            scoring = container.scoring.context
            if not first:
                await evaluate(make_request("天気はどうでしたか？", "よく晴れていました。"), container.scoring.context)
            request = make_request("泳ぎましたか？", "はい、少しだけ泳ぎました。")
            sys.setprofile(counter.profile)
            counter.active = True
            await evaluate(request, scoring)
            counter.active = False
            sys.setprofile(None)
    threading.setprofile(None)
    return counter.calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", action="store_true", help="list every function with its calls")
    parser.add_argument("--first", action="store_true", help="count the first evaluation of the process")
    given = parser.parse_args()
    calls = asyncio.run(count_calls(first=given.first))
    if given.functions:
        for (file, name), count in sorted(calls.items()):
            print(f"{count:6} {file} {name}")
    files = {file for file, _ in calls}
    print(f"{len(files)} files, {len(calls)} functions, {calls.total()} calls")


if __name__ == "__main__":
    main()
