"""What may not be loaded by whoever does not use it: this is what makes `saiten --help` and a start quick."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from saiten.commands import OWN_COMMANDS
from saiten_server.cli import SERVER_COMMANDS
from tests.support.command import environment
from tests.support.waiting import LIMIT_SECONDS

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
from saiten_server.container import open_container
from saiten_server.platform.settings import read_settings

async def start():
    async with open_container(read_settings()) as service:
        assert not await service.governance.keys.any()

asyncio.run(start())
"""

SERVE = """
import saiten_server.cli.serve, saiten_server.cli.worker
from saiten_server.platform.settings import read_settings
from saiten_server.cli.server import make_server

make_server(read_settings())
"""

ANALYSE = """
import asyncio, sys, threading
from saiten_server.container import open_container
from saiten_server.analyses.requests import AgreementRequest
from saiten_server.platform.settings import read_settings

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in {"numpy", "scipy"}:
            assert threading.current_thread() is not threading.main_thread(), f"the event loop waits for {name}"

async def start():
    async with open_container(read_settings()) as service:
        sys.meta_path.insert(0, Watch())
        rows = [{"item": f"i{n % 4}", "rater": f"r{n // 4}", "ratings": {"wit": n % 3 + 1}} for n in range(12)]
        await service.comparison.analyse("default", AgreementRequest(data=rows))
        sys.meta_path.pop(0)

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

GO_ON = "look = lambda: None"

CALLS = {
    "judge": (
        """
from saiten_server.core.evaluation import JudgeOptions
from saiten_server.providers.ports import JudgingTask
from tests.support.small_rubrics import joint_rubric, make_dialogue
task = JudgingTask(joint_rubric(), "ja", make_dialogue(), JudgeOptions())
def call(service):
    return service.scoring.context.judge.judge(task)
""",
        {"aiohttp", "httpx2", "openai"},
    ),
    "batch mode": (
        """
from saiten_server.providers.openai.batches import OpenAIProviderBatches
def call(service):
    return OpenAIProviderBatches(api_key="any", base_url="http://127.0.0.1:9/v1").retrieve("batch_1")
""",
        {"aiohttp", "httpx2", "openai"},
    ),
    "translator": (
        """
from saiten_server.providers.ports import RequestScope
from tests.support.small_rubrics import make_dialogue
def call(service):
    return service.scoring.context.translator.translate(make_dialogue(), "ja", RequestScope())
""",
        {"deepl"},
    ),
}
"""Who calls out, and what that loads."""

CALL = """
from saiten_server.container import open_container
from saiten_server.core.errors import UpstreamError
from saiten_server.platform.settings import read_settings

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
from saiten_server.platform.settings import read_settings
from saiten_server.application import create_application

async def start():
    application = create_application(read_settings())
    async with application.router.lifespan_context(application):
        look()
        await wait()

asyncio.run(start())
"""

WORK_A_WHILE = """
import os, signal
from saiten_server.cli.worker import run_worker
from saiten_server.platform.settings import read_settings

async def start():
    look()
    work = asyncio.create_task(run_worker(read_settings(), "127.0.0.1", None))
    await wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await work

asyncio.run(start())
"""

UNTIL_LOADED = 'wait = lambda: wait_for("openai", "deepl")'
FOR_A_SECOND = "wait = lambda: asyncio.sleep(1)"

SET_KEYS = "import os; os.environ.update(OPENAI_API_KEY='any', DEEPL_API_KEY='any')"

HELP = "from saiten.commands import saiten; saiten.main(['--help'], standalone_mode=False)"

FAIL_TO_LOAD = """
import os
os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"
os.environ["HF_HOME"] = os.getcwd()
from saiten_server.providers.bertscore.encoder import EncoderChoice, choose_default, load_encoder
from saiten_server.providers.ports import EncoderUnavailable
try:
    load_encoder(EncoderChoice(name=choose_default("ja"), hub_timeout_seconds=0.5))
except EncoderUnavailable:
    pass
else:
    raise AssertionError("it is there")
"""


def loaded_in_turn(folder: Path, codes: dict[str, str], **variables: str) -> dict[str, set[str]]:
    """The modules that a process of its own has loaded after each of these codes, which it runs one after another.

    What is not there after the last was there after none. To start Python and to import takes a second.
    """
    told = folder / "loaded.json"
    steps = [f"{code}\ntold[{name!r}] = [*sys.modules]" for name, code in codes.items()]
    lines = ("import json, sys", "told = {}", *steps, f"open({str(told)!r}, 'w').write(json.dumps(told))")
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        env=environment(folder, **variables),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name: set(loaded) for name, loaded in json.loads(told.read_text()).items()}


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What is loaded by the help, by one module of a command after another, and by those that need more."""
    modules = [
        place.partition(":")[0]
        for name, place in {**SERVER_COMMANDS, **OWN_COMMANDS}.items()
        if name not in {"serve", "worker", *USED}
    ]
    codes = {
        "nothing": "",
        "help": HELP,
        "cli": "import saiten_server.cli",
        "rubric": "import saiten_server.cli.rubric",
    }
    codes["all"] = f"import {', '.join(modules)}"
    codes |= {name: f"import {SERVER_COMMANDS[name].partition(':')[0]}" for name in USED}
    return loaded_in_turn(tmp_path_factory.mktemp("commands"), codes)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What is loaded by a service that is opened on a fresh database, on that database, and with keys; by a server; by
    an analysis; and by an encoder that is not there."""
    folder = tmp_path_factory.mktemp("services")
    codes = {"fresh": OPEN, "existing": OPEN, "keys": f"{SET_KEYS}\n{OPEN}", "server": SERVE, "analysis": ANALYSE}
    codes["encoder"] = FAIL_TO_LOAD
    loaded = loaded_in_turn(folder, codes)
    assert (folder / "saiten.db").exists()
    return loaded


def test_help_loads_click_and_nothing_else_that_is_installed(commands: dict[str, set[str]]) -> None:
    for name, own in (("help", set()), ("cli", {"saiten_server"})):
        loaded = commands[name] - commands["nothing"]
        packages = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
        assert packages == {"click", "saiten", *own}
        assert "asyncio" not in loaded
        assert not {
            name
            for name in loaded
            if name.startswith(
                (
                    "saiten_server.platform.sql",
                    "saiten_server.providers",
                    "saiten_server.platform.web",
                    "saiten_server.stats",
                )
            )
        }


def test_opening_the_service_loads_nothing_heavy(services: dict[str, set[str]]) -> None:
    for name in ("fresh", "existing"):
        assert "saiten_server.container" in services[name]
        assert services[name] & (HEAVY | SERVING | EYES) == set()


def test_what_serves_loads_nothing_heavy(services: dict[str, set[str]]) -> None:
    assert {"uvicorn", "saiten_server.governance.api"} <= services["server"]
    assert services["server"] & (HEAVY | EYES) == set()


def test_opening_the_service_with_keys_loads_no_client(services: dict[str, set[str]]) -> None:
    assert {"saiten_server.providers.openai.batches", "saiten_server.providers.deepl.translator"} <= services["keys"]
    assert services["keys"] & (HEAVY | SERVING | EYES) == set()


@pytest.mark.parametrize("calls", [("translator", "judge"), ("batch mode",)])
def test_the_first_call_loads_its_client_in_a_thread(calls: tuple[str, ...], tmp_path: Path) -> None:
    """A later one only loads what no earlier one did, and the watch goes on."""
    expected: set[str] = set()
    codes = {call: (WATCH if call == calls[0] else GO_ON) + CALLS[call][0] + CALL for call in calls}
    for call, loaded in loaded_in_turn(tmp_path, codes, **CALLING).items():
        expected |= CALLS[call][1]
        assert loaded & CLIENTS == expected


def test_what_serves_loads_the_clients_soon_and_in_a_thread_and_without_keys_none(tmp_path: Path) -> None:
    without, keys = WATCH + FOR_A_SECOND + SERVE_A_WHILE, f"import os; os.environ.update({CALLING!r})\n"
    found = loaded_in_turn(tmp_path, {"without": without, "with": keys + UNTIL_LOADED + SERVE_A_WHILE})
    assert found["without"] & CLIENTS == set()
    assert found["with"] >= CLIENTS


def test_a_worker_loads_the_clients_soon_and_in_a_thread(tmp_path: Path, redis_url: str) -> None:
    found = loaded_in_turn(tmp_path, {"": WATCH + UNTIL_LOADED + WORK_A_WHILE}, REDIS_URL=redis_url, **CALLING)
    assert found[""] >= CLIENTS


def test_an_analysis_loads_numpy_in_a_thread_of_its_own(services: dict[str, set[str]]) -> None:
    assert "numpy" in services["analysis"]


@pytest.mark.parametrize("name", [*USED])
def test_a_command_loads_what_it_cannot_do_without_and_nothing_else_that_is_heavy(
    name: str, commands: dict[str, set[str]]
) -> None:
    assert commands[name] & (HEAVY | SERVING) == USED[name]


def test_no_other_command_loads_anything_heavy_before_it_runs(commands: dict[str, set[str]]) -> None:
    assert {"saiten_server.cli.analyze", "saiten.commands.gate"} <= commands["all"]
    assert commands["all"] & (HEAVY | SERVING) == set()


def test_looking_at_rubrics_opens_no_database(commands: dict[str, set[str]]) -> None:
    assert "saiten_server.cli.rubric" in commands["rubric"]
    assert "sqlalchemy" not in commands["rubric"]


@pytest.mark.skipif(find_spec("bert_score") is None, reason="the bertscore extra is not installed")
def test_an_encoder_that_is_not_there_costs_no_import_of_pytorch(services: dict[str, set[str]]) -> None:
    assert services["encoder"] & {"torch", "transformers", "bert_score"} == set()
