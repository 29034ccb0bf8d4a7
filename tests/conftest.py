"""Fixtures that many tests share."""

import gc
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import pytest
import redis
from hypothesis import HealthCheck, settings
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.platform.sql.engine import close_engine, open_engine
from tests.support.databases import (
    KeptDatabase,
    drop_database,
    lay_schema,
    make_database,
    open_sqlite,
    share_compiled_statements,
)
from tests.support.drawing_process import KeptExecutor
from tests.support.fake_openai import FakeOpenAI, judge_bad
from tests.support.services import REQUIRED, private_postgres, private_redis

SHARED = Path(__file__).resolve().parents[2] / "shared"
FAULTS = f"{Path(__file__).resolve().parent / 'faults'}{os.sep}"
BROWSER = f"{Path(__file__).resolve().parent / 'browser'}{os.sep}"
WITH_PYTORCH = tuple(
    str(Path(__file__).resolve().parent / place)
    for place in (
        "contract/test_encoder_port.py",
        "cli/test_analyze_metrics.py",
        "providers/bertscore",
        "providers/huggingface",
        "providers/test_bertscore_encoder.py",
        "providers/test_causal_lm.py",
        "scoring/api/test_blending.py",
    )
)
"""What loads PyTorch into the process of the tests: five seconds of CPU, and a gigabyte of memory."""

# A deadline is a timed test: a machine with much else to do would fail one here and there. Half of Hypothesis's usual number
# of examples: the same properties are tried with others in the next run on a developer's machine, where a new find is
# welcome. CI tries the same in every run, so that what it refuses is the change.
settings.register_profile(
    "saiten",
    deadline=None,
    max_examples=50,
    derandomize=REQUIRED in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("saiten")

share_compiled_statements()

# A shell without job control has what it runs in the background ignore interruptions, and the processes that tests
# interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Collecting makes some million objects that all stay. Without this the garbage collector would look through them again
# and again, both while they are made and in every test: a full collection takes most of a second.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    # Python's own 700, 10, 10 take a twelfth of the tests' CPU. Not the thresholds of a service, by which
    # `saiten_server.platform.memory` knows that it is in one.
    gc.set_threshold(40_000, 20, 100)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Arranges the tests for the processes of `pytest -n`, each of which begins with a contiguous share of them."""
    items[:] = arrange(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def arrange(items: Sequence[pytest.Item], shares: int) -> list[pytest.Item]:
    """All of them, in shares of as many tests and of a like mixture, with no module of others than fault tests parted.

    `--dist worksteal` gives each process one share, and a process that is done half of what is left of the longest.
    Fault tests mostly wait for processes, up to 40 s each: so they stand among others, which have the CPU meanwhile,
    and in the first two thirds of a share, so that none of them begins when all else is done. Tests that load PyTorch stand
    first in one share, and those of the browser first in another: each falls to one process.
    """
    # As text: to compare thousands of paths part by part takes a noticeable time in each process.
    paths = [str(item.path) for item in items]
    faults: list[pytest.Item] = []
    modules: dict[str, list[pytest.Item]] = {"PyTorch": [], "browser": []}
    for item, path in zip(items, paths, strict=True):
        if path.startswith(FAULTS):
            faults.append(item)
        else:
            name = "PyTorch" if path.startswith(WITH_PYTORCH) else "browser" if path.startswith(BROWSER) else path
            modules.setdefault(name, []).append(item)
    dealt: list[list[str]] = [[] for _ in range(shares)]
    sizes = [0] * shares
    for name in sorted(modules, key=lambda name: len(modules[name]), reverse=True):
        share = {"PyTorch": 0, "browser": shares - 1}.get(name, sizes.index(min(sizes)))
        dealt[share].append(name)
        sizes[share] += len(modules[name])
    places = {name: place for place, name in enumerate(modules)}
    return [
        item
        for share, names in enumerate(dealt)
        for item in mix(faults[share::shares], [modules[name] for name in sorted(names, key=places.__getitem__)])
    ]


def mix(few: Sequence[pytest.Item], modules: Sequence[Sequence[pytest.Item]]) -> list[pytest.Item]:
    """All of them, each in its order: `few` where a module ends, whose fixtures serve all its tests, and evenly over the
    first two thirds."""
    found: list[pytest.Item] = []
    passed, placed = 0, 0
    most = sum(len(module) for module in modules) * 2 // 3
    for module in modules:
        found += module
        passed += len(module)
        due = len(few) * min(passed, most) // max(most, 1)
        found += few[placed:due]
        placed = due
    return [*found, *few[placed:]]


@pytest.fixture(autouse=True)
def logging_levels() -> Iterator[None]:
    """Commands that run in this process set the levels of its loggers; the next test must not see that."""
    loggers = [logging.getLogger(name) for name in ("root", "saiten", "saiten.web", "uvicorn.error")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the keys and settings of the machine that it runs on."""
    for name in [*os.environ]:
        known = name in {
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "DEEPL_API_KEY",
            "DEEPL_SERVER_URL",
            "DATABASE_URL",
            "REDIS_URL",
            # `saiten gate` refuses the lexical judge in a CI job; tests of that set it themselves.
            "CI",
        }
        if known or (name.startswith("SAITEN_") and not name.startswith("SAITEN_TEST_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What this test logs, without what an earlier one left to the garbage collector."""
    caplog.handler.addFilter(is_of_now)
    yield caplog
    caplog.handler.removeFilter(is_of_now)


def is_of_now(record: logging.LogRecord) -> bool:
    """False for asyncio's complaint of a connection to PostgreSQL that was given up while it was made.

    A task that is cancelled inside asyncpg's `create_connection`, as when a service stops or a loop ends, leaves the
    future by which asyncpg awaits the server's word on TLS. Nobody can get at it, it fails with the socket, and asyncio
    tells so whenever the collector finds it: some test later, in whose records it has no place. Nothing else is left
    out; what a test's own code leaves unretrieved still shows.
    """
    error = record.exc_info[1] if record.exc_info else None
    lost = isinstance(error, ConnectionError) and str(error) == "unexpected connection_lost() call"
    return not (lost and record.name == "asyncio" and record.msg.startswith("Future exception was never retrieved"))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a database on a real PostgreSQL in which databases may be made."""
    given = os.environ.get("SAITEN_TEST_POSTGRES_URL")
    if given:
        yield given.replace("postgresql://", "postgresql+asyncpg://", 1)
        return
    with private_postgres() as url:
        yield url


@pytest.fixture(scope="session")
def kept_database(postgres_server: str) -> Iterator[KeptDatabase]:
    """The database of `postgres_url`."""
    made = KeptDatabase(postgres_server)
    yield made
    made.close()


@pytest.fixture
def postgres_url(kept_database: KeptDatabase) -> Iterator[str]:
    """A database that is this test's own as long as it runs: the schema is there, and no row."""
    yield kept_database.hand_out()
    kept_database.take_back()


@pytest.fixture
def bare_postgres_url(postgres_server: str) -> Iterator[str]:
    """A database of this test's own without tables, for what makes or alters the schema."""
    made = make_database(postgres_server)
    yield made
    drop_database(postgres_server, made)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """The URL of a real Redis whose databases these tests may empty."""
    given = os.environ.get("SAITEN_TEST_REDIS_URL")
    if given:
        yield own_database(given)
        return
    with private_redis() as url:
        yield url


def own_database(url: str) -> str:
    """The URL with a database of this process's own: those side by side under `-n` must not empty each other's."""
    parts, place = urlsplit(url), os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return urlunsplit(parts._replace(path=f"/{int(parts.path.strip('/') or 0) + int(place)}"))


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """That Redis, empty."""
    with redis.Redis.from_url(redis_server) as client:
        client.flushdb()
    return redis_server


@pytest.fixture
def sqlite_url(bare_sqlite_url: str) -> str:
    """A file that is this test's own: the schema is there, and no row."""
    lay_schema(bare_sqlite_url)
    return bare_sqlite_url


@pytest.fixture
def bare_sqlite_url(tmp_path: Path) -> str:
    """A file of this test's own that is not there yet, for what makes or alters the schema."""
    return f"sqlite+aiosqlite:///{tmp_path / 'saiten.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Each database that Saiten runs on: the schema is there, and no row."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    """An engine on each database, with the schema of today."""
    made = open_engine(database_url)
    yield made
    await close_engine(made)


@pytest.fixture
async def sqlite_engine(sqlite_url: str) -> AsyncIterator[AsyncEngine]:
    """An engine with the schema of today, on SQLite alone: for what does not turn on the database."""
    async with open_sqlite(sqlite_url) as made:
        yield made


@pytest.fixture
def bench(sqlite_engine: AsyncEngine) -> Any:
    """The rating and comparison services on a fresh SQLite database: `tests.support.bench.Bench`."""
    from tests.support.bench import build_bench

    return build_bench(sqlite_engine)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of data and checks that lie beside the project; skips where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("../shared is absent: its data and checks are not part of the project")
    return SHARED


@pytest.fixture
async def fake() -> AsyncIterator[FakeOpenAI]:
    """An endpoint that answers as a judge."""
    async with FakeOpenAI() as running:
        yield running


@pytest.fixture
def judging(fake: FakeOpenAI) -> None:
    """`fake` tells bad responses from good ones."""
    fake.default = judge_bad


@pytest.fixture
def service_settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Fields of `Settings` for `client`, for a module to override: the judge is `fake`, by the real adapter and over HTTP,
    where the test uses `fake`, and the lexical judge otherwise."""
    from tests.support.serving import judged_by

    return judged_by(request.getfixturevalue("fake")) if "fake" in request.fixturenames else {"judge": "lexical"}


@pytest.fixture
async def client(tmp_path: Path, service_settings: dict[str, Any]) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a service of this test's own."""
    from tests.support.serving import serving

    async with serving(tmp_path, **service_settings) as found:
        yield found


@pytest.fixture
async def waiting(tmp_path: Path, redis_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a service that works on no batch itself: with Redis that is left to workers, and there is none."""
    from tests.support.serving import serving

    async with serving(tmp_path, judge="lexical", redis_url=redis_url) as found:
        yield found


@pytest.fixture(scope="session")
def drawing_process() -> Iterator[Executor]:
    """Starts with the first chart."""
    from saiten_server.platform.helpers import open_process

    with open_process() as executor:
        yield KeptExecutor(executor)


@pytest.fixture(autouse=True)
def share_drawing_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process starts a JavaScript engine, which takes a second of CPU: too much for each of some 300 tests of services."""
    if {"api", "pages"} & {*request.path.parts}:
        drawing: Executor = request.getfixturevalue("drawing_process")
        for module in ("container", "scoring.instruments"):
            monkeypatch.setattr(f"saiten_server.{module}.open_process", lambda most=1: drawing)
