"""What may not be loaded by whoever does not use it: this is what makes `saiten --help` and a start quick."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import PLACES
from saiten.commands import OWN
from tests.support.command import environment

HEAVY = {
    "aiohttp",
    "alembic",
    "asyncpg",
    "bert_score",
    "deepl",
    "fastapi_swagger",
    "fugashi",
    "matplotlib",
    "networkx",
    "numpy",
    "openai",
    "opentelemetry.sdk",
    "pandas",
    "redis",
    "rouge_score",
    "saq",
    "scipy",
    "sentencepiece",
    "sklearn",
    "tokenizers",
    "torch",
    "transformers",
    "unidic_lite",
    "vl_convert",
}
"""Each costs tens of milliseconds or a second, and is used by some requests, settings or commands alone."""

SERVING = {"fastapi", "starlette", "uvicorn", "jinja2", "babel"}
EYES = {"httpx", "pygments", "rich"}
"""For tables and for calls over HTTP. `httpx` brings the other two where they are installed."""

USED = {"export-finetune": {"numpy"}}
"""What a command's own module loads because it does nothing without it."""

OPEN = """
import asyncio
from app.container import open_container
from app.runtime.settings import read_settings

async def start():
    async with open_container(read_settings()) as service:
        assert not await service.governance.keys.any()

asyncio.run(start())
"""

SERVE = """
import app.cli.serve, app.cli.worker
from app.runtime.settings import read_settings
from app.web.server import make_server

make_server(read_settings())
"""

ANALYSE = """
import asyncio, sys, threading
from app.container import open_container
from app.domain.analysis_request import AgreementRequest
from app.runtime.settings import read_settings

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in {"numpy", "scipy"}:
            assert threading.current_thread() is not threading.main_thread(), f"the event loop waits for {name}"

async def start():
    async with open_container(read_settings()) as service:
        sys.meta_path.insert(0, Watch())
        rows = [{"item": f"i{n % 4}", "rater": f"r{n // 4}", "ratings": {"wit": n % 3 + 1}} for n in range(12)]
        await service.comparison.analyse("default", AgreementRequest(data=rows))

asyncio.run(start())
"""

CLIENTS = {"aiohttp", "deepl", "httpx2", "openai"}
"""What calls to the judge and the translator need."""

CALLING = {
    "OPENAI_API_KEY": "any",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
    "DEEPL_API_KEY": "any",
    "DEEPL_SERVER_URL": "http://127.0.0.1:9",
    "SAITEN_JUDGE_ATTEMPTS": "1",
    "SAITEN_TRANSLATOR_ATTEMPTS": "1",
}
"""A judge and a translator that nobody answers for."""

WATCH = f"""
import asyncio, sys, threading

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in {CLIENTS}:
            assert threading.current_thread() is not threading.main_thread(), f"the event loop waits for {{name}}"

def look():
    assert not {CLIENTS} & sys.modules.keys()
    sys.meta_path.insert(0, Watch())

async def wait_for(*names):
    while not sys.modules.keys() >= {{*names}}:
        await asyncio.sleep(0.01)
"""

CALLS = {
    "judge": (
        """
from app.domain.evaluation import JudgeOptions
from app.providers.ports import JudgingTask
from tests.support.small_rubrics import joint_rubric, make_dialogue
task = JudgingTask(joint_rubric(), "ja", make_dialogue(), JudgeOptions())
def call(service):
    return service.scoring.context.judge.judge(task)
""",
        {"aiohttp", "httpx2", "openai"},
    ),
    "batch mode": (
        """
from app.providers.openai.batches import OpenAIProviderBatches
def call(service):
    return OpenAIProviderBatches(api_key="any", base_url="http://127.0.0.1:9/v1").retrieve("batch_1")
""",
        {"aiohttp", "httpx2", "openai"},
    ),
    "translator": (
        """
from app.providers.ports import RequestScope
from tests.support.small_rubrics import make_dialogue
def call(service):
    return service.scoring.context.translator.translate(make_dialogue(), "ja", RequestScope())
""",
        {"deepl"},
    ),
}
"""Who calls out, and what that loads."""

CALL = """
from app.container import open_container
from app.domain.errors import UpstreamError
from app.runtime.settings import read_settings

async def start():
    async with open_container(read_settings()) as service:
        look()
        try:
            await call(service)
        except UpstreamError as error:
            assert "cannot be reached" in str(error), error
        else:
            raise AssertionError("somebody answered")

asyncio.run(start())
"""

SERVE_A_WHILE = """
from app.runtime.settings import read_settings
from app.web.application import create_application

async def start():
    application = create_application(read_settings())
    async with application.router.lifespan_context(application):
        look()
        await wait()

asyncio.run(start())
"""

WORK_A_WHILE = """
import os, signal
from app.cli.worker import run
from app.runtime.settings import read_settings

async def start():
    look()
    work = asyncio.create_task(run(read_settings(), "127.0.0.1", None))
    await wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await work

asyncio.run(start())
"""

UNTIL_LOADED = 'wait = lambda: wait_for("openai", "deepl")'
FOR_A_SECOND = "wait = lambda: asyncio.sleep(1)"

HELP = "from saiten.commands import saiten; saiten.main(['--help'], standalone_mode=False)"


def loaded_by(code: str, folder: Path, **variables: str) -> set[str]:
    """The modules that a process of its own has loaded once the code is run."""
    told = folder / "loaded.json"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport json, sys\nopen({str(told)!r}, 'w').write(json.dumps([*sys.modules]))"],
        env=environment(folder, **variables),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(told.read_text()))


def test_help_loads_click_and_nothing_else_that_is_installed(tmp_path: Path) -> None:
    for code, own in (("import app.cli", {"app"}), (HELP, set())):
        loaded = loaded_by(code, tmp_path) - loaded_by("", tmp_path)
        packages = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
        assert packages == {"click", "saiten", *own}
        assert "asyncio" not in loaded
        assert not {
            name for name in loaded if name.startswith(("app.storage", "app.providers", "app.web", "app.stats"))
        }


def test_opening_the_service_loads_nothing_heavy(tmp_path: Path) -> None:
    fresh = loaded_by(OPEN, tmp_path)
    assert (tmp_path / "saiten.db").exists()
    existing = loaded_by(OPEN, tmp_path)
    for loaded in (fresh, existing):
        assert "app.container" in loaded
        assert loaded & (HEAVY | SERVING | EYES) == set()


def test_what_serves_loads_nothing_heavy(tmp_path: Path) -> None:
    loaded = loaded_by(SERVE, tmp_path)
    assert {"uvicorn", "app.web.api.operations"} <= loaded
    assert loaded & (HEAVY | EYES) == set()


def test_opening_the_service_with_keys_loads_no_client(tmp_path: Path) -> None:
    loaded = loaded_by(OPEN, tmp_path, OPENAI_API_KEY="any", DEEPL_API_KEY="any")
    assert {"app.providers.openai.batches", "app.providers.deepl.translator"} <= loaded
    assert loaded & (HEAVY | SERVING | EYES) == set()


@pytest.mark.parametrize("who", [*CALLS])
def test_the_first_call_loads_its_client_in_a_thread(who: str, tmp_path: Path) -> None:
    call, clients = CALLS[who]
    assert loaded_by(WATCH + call + CALL, tmp_path, **CALLING) & CLIENTS == clients


def test_what_serves_loads_the_clients_soon_and_in_a_thread(tmp_path: Path) -> None:
    assert loaded_by(WATCH + UNTIL_LOADED + SERVE_A_WHILE, tmp_path, **CALLING) >= CLIENTS


def test_a_worker_loads_the_clients_soon_and_in_a_thread(tmp_path: Path, redis_url: str) -> None:
    assert loaded_by(WATCH + UNTIL_LOADED + WORK_A_WHILE, tmp_path, REDIS_URL=redis_url, **CALLING) >= CLIENTS


def test_what_serves_without_keys_loads_no_client(tmp_path: Path) -> None:
    assert loaded_by(WATCH + FOR_A_SECOND + SERVE_A_WHILE, tmp_path) & CLIENTS == set()


def test_an_analysis_loads_numpy_in_a_thread_of_its_own(tmp_path: Path) -> None:
    assert "numpy" in loaded_by(ANALYSE, tmp_path)


@pytest.mark.parametrize("name", [*USED])
def test_a_command_loads_what_it_cannot_do_without_and_nothing_else_that_is_heavy(name: str, tmp_path: Path) -> None:
    loaded = loaded_by(f"import {PLACES[name].partition(':')[0]}", tmp_path)
    assert loaded & (HEAVY | SERVING) == USED[name]


def test_no_other_command_loads_anything_heavy_before_it_runs(tmp_path: Path) -> None:
    modules = [
        place.partition(":")[0] for name, place in {**PLACES, **OWN}.items() if name not in {"serve", "worker", *USED}
    ]
    loaded = loaded_by(f"import {', '.join(modules)}", tmp_path)
    assert set(modules) <= loaded
    assert loaded & (HEAVY | SERVING) == set()


def test_looking_at_rubrics_opens_no_database(tmp_path: Path) -> None:
    assert "sqlalchemy" not in loaded_by("import app.cli.rubric", tmp_path)


def test_an_encoder_that_is_not_there_costs_no_import_of_pytorch(tmp_path: Path) -> None:
    pytest.importorskip("bert_score")
    code = """
import os
os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"
os.environ["HF_HOME"] = os.getcwd()
from app.providers.bertscore.encoder import EncoderChoice, choose_default, load_encoder
from app.providers.ports import EncoderUnavailable
try:
    load_encoder(EncoderChoice(name=choose_default("ja"), hub_timeout_seconds=0.5))
except EncoderUnavailable:
    import app.domain.retry_after
"""
    loaded = loaded_by(code, tmp_path)
    assert "app.domain.retry_after" in loaded
    assert loaded & {"torch", "transformers", "bert_score"} == set()
