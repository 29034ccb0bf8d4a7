"""A client that openapi-python-client generates from the document, used against a running service."""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import yaml

from tests.support.serving import openapi_document

FOLDER = Path(__file__).parents[3] / "examples" / "openapi"
ITEM = {"context": [{"speaker": "A", "text": "海へ行きました。"}], "response": "いいですね。"}
MODULES = {
    "create_evaluation": "evaluations",
    "list_evaluations": "evaluations",
    "create_batch": "batches",
    "read_batch": "batches",
    "read_batch_results": "batches",
    "read_info": "operate",
}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The generated package: its functions by name, and `models` and `types`."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(json.dumps(openapi_document()), "utf-8")
    config = yaml.safe_load((FOLDER / "openapi-python-client.yaml").read_text("utf-8"))
    (folder / "config.yaml").write_text(yaml.safe_dump({**config, "post_hooks": []}), "utf-8")
    command = "generate --path openapi.json --config config.yaml --meta none --output-path saiten_generated"
    done = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", *command.split(), "--fail-on-warning"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in (done.stdout + done.stderr).lower()
    sys.path.insert(0, str(folder))
    try:
        found = SimpleNamespace(
            models=importlib.import_module("saiten_generated.models"),
            types=importlib.import_module("saiten_generated.types"),
            client=importlib.import_module("saiten_generated.client").Client,
        )
        for name, tag in MODULES.items():
            setattr(found, name, importlib.import_module(f"saiten_generated.api.{tag}.{name}").asyncio)
        yield found
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.startswith("saiten_generated")]:
            del sys.modules[name]


@pytest.fixture
def service(client: httpx.AsyncClient) -> httpx.AsyncClient:
    return client


async def test_its_calls_are_answered(generated: Any, service: httpx.AsyncClient) -> None:
    client = generated.client(base_url=str(service.base_url)).set_async_httpx_client(service)
    request = generated.models.EvaluationRequest.from_dict({**ITEM, "relevance": None, "metadata": {"system": "bot-a"}})
    made = await generated.create_evaluation(client=client, body=request)
    assert (made.status, made.metadata["system"]) == ("scored", "bot-a")
    assert made.aspects["consistency"].scale == [0, 1]
    page = await generated.list_evaluations(client=client, rubric="ja-dialogue", limit=5)
    assert [one.id for one in page.items] == [made.id]
    assert (await generated.read_info(client=client)).judge.kind == "lexical"


async def test_it_sends_and_reads_lines(generated: Any, service: httpx.AsyncClient) -> None:
    client = generated.client(base_url=str(service.base_url)).set_async_httpx_client(service)
    lines = "".join(json.dumps(line) + "\n" for line in ({"rubric": "ja-dialogue", "relevance": None}, ITEM, ITEM))
    # Bytes, since an asynchronous httpx cannot send a synchronous file.
    body = generated.types.File(payload=lines.encode())
    batch = await generated.create_batch(client=client, body=body)
    assert (batch.status, batch.counts.total) == ("queued", 2)
    events = (await service.get(f"/v1/batches/{batch.id}/events")).text
    assert "event: completed" in events
    results = await generated.read_batch_results(client=client, batch_id=batch.id)
    assert [json.loads(line)["position"] for line in results.payload.read().splitlines()] == [0, 1]


async def test_it_reads_problems(generated: Any, service: httpx.AsyncClient) -> None:
    client = generated.client(base_url=str(service.base_url)).set_async_httpx_client(service)
    problem = await generated.read_batch(client=client, batch_id="ba_none")
    assert (problem.status, problem.code) == (404, "not-found")
