"""The peer of `hot`: a FastAPI endpoint that reads an evaluation's body, gives a fixed answer and does nothing else.

    python -m benchmarks.hot_empty --port 8000 --answer answer.json [--ours]

The body is read by FastAPI as the same pydantic model, the answer has the same bytes. Without `--ours` uvicorn is as it
comes from pip but for its access log, which is off: with it the endpoint would be slower than it need be. With `--ours`
uvicorn has the protocol class that Saiten is served with.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import uvicorn
from fastapi import FastAPI, Response

from benchmarks.hot_caller import PATH
from saiten_server.cli.server import DrainingProtocol
from saiten_server.core.evaluation import EvaluationRequest


def make_application(answer: bytes) -> FastAPI:
    application = FastAPI()

    @application.post(PATH)
    async def evaluate(body: EvaluationRequest) -> Response:
        return Response(answer, media_type="application/json")

    return application


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--answer", type=Path, required=True)
    parser.add_argument("--ours", action="store_true")
    given = parser.parse_args()
    state = SimpleNamespace(draining=False, close_seconds=0.0)
    protocol = partial(DrainingProtocol, state=state) if given.ours else "auto"
    config = uvicorn.Config(
        make_application(given.answer.read_bytes()),
        port=given.port,
        http=protocol,  # type: ignore[arg-type]
        access_log=False,
        log_level="warning",
    )
    config.load()
    chosen = DrainingProtocol.__mro__[2] if given.ours else config.http_protocol_class
    print(f"{chosen.__name__}, {getattr(config.get_loop_factory(), '__module__', 'asyncio')}", flush=True)
    uvicorn.Server(config).run()


if __name__ == "__main__":
    main()
