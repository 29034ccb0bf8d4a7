"""A service with the demo's runs, and a browser that looks at it."""

import fcntl
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.support.chromium import Visit, launch, visit
from tests.support.command import saiten, served
from tests.support.site import wait_until
from tests.support.waiting import LIMIT_SECONDS


@dataclass(frozen=True)
class Pages:
    """Where the service is, and which runs it has by `NAME system build`."""

    url: str
    database: str
    runs: dict[str, str]

    def run(self, *parts: str) -> str:
        """The id of the one run whose description holds all these parts."""
        (found,) = [run for told, run in self.runs.items() if all(part in told for part in parts)]
        return found


@pytest.fixture(scope="session")
def demo_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database that `saiten demo` leaves: made once for all processes that test side by side."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    made = shared / "saiten-demo.db"
    with (shared / "saiten-demo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            saiten("demo", "--quiet", "--database", str(made), folder=shared).check_returncode()
    return made


@pytest.fixture(scope="session")
def site(demo_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """A service of its own process on a copy of that database."""
    folder = tmp_path_factory.mktemp("site")
    database = folder / "saiten.db"
    shutil.copy(demo_database, database)
    keep_kinds(database)
    settings = {
        "DATABASE_URL": f"sqlite+aiosqlite:///{database}",
        "SAITEN_JUDGE": "lexical",
        "SAITEN_LOG_LEVEL": "error",
    }
    with served(folder, **settings) as (url, _):
        yield Pages(url, settings["DATABASE_URL"], list_runs(url))


def keep_kinds(database: Path) -> None:
    """Gives the runs of conversations kept figures of what to fix first, of all and of two builds: the lexical judge
    names no kinds, and the tables of these have to be looked at too."""
    kinds = [
        {"kind": "repetition", "conversations": 6, "of": 20, "rate": 4.5, "effect": 1.5, "weight": 0.45},
        {"kind": "ignored-question", "conversations": 2, "of": 20, "rate": 1.0, "effect": 0.5, "weight": 0.05},
    ]
    fixes = [
        {**kinds[0], "interval": [0.1, 0.8], "reason": None},
        {**kinds[1], "interval": None, "reason": "fewer than 3 dialogues with the fault"},
    ]
    builds = [{"system": "bot-c", "build": build, "fix_first": fixes} for build in ("c-7", "c-8")]
    more = {"fix_first": fixes, "fix_first_by_build": builds}
    with closing(sqlite3.connect(database)) as connection, connection:
        found = connection.execute("SELECT id, intervals FROM batches WHERE rubric LIKE '%-conversation'").fetchall()
        for batch, kept in found:
            figures = {**json.loads(kept or '{"results": 0, "clusters": null, "measures": {}}'), **more}
            connection.execute("UPDATE batches SET intervals = ? WHERE id = ?", (json.dumps(figures), batch))


def list_runs(url: str) -> dict[str, str]:
    """Ids of the runs, by their rubric, name, system and build."""
    found = httpx.get(f"{url}/v1/batches?limit=200", trust_env=False, verify=False).json()["items"]
    return {describe(batch): batch["id"] for batch in found}


def describe(batch: dict[str, Any]) -> str:
    """`ja-dialogue nightly bot-a a-101`."""
    metadata = batch["metadata"]
    return " ".join((batch["rubric"], batch["name"] or "", metadata.get("system", ""), metadata.get("build", "")))


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One for all tests of this folder, each visitor with a context of its own: it runs an event loop in this thread, and
    while it is there no asynchronous test of another folder could run one."""
    with sync_playwright() as playwright:
        launched = launch(playwright)
        yield launched
        launched.close()


@pytest.fixture
def visitor(site: Pages, browser: Browser) -> Iterator[Visit]:
    """An English visitor at a desk; whatever the browser complained about fails the test."""
    with visit(browser, site.url) as seen:
        yield seen
    assert seen.complaints == []


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a service that has only the runs that tests post."""
    with served(tmp_path_factory.mktemp("workshop"), SAITEN_JUDGE="lexical", SAITEN_LOG_LEVEL="error") as (url, _):
        yield url


@pytest.fixture
def guest(workshop: str, browser: Browser) -> Iterator[Visit]:
    """The visitor of that service."""
    with visit(browser, workshop) as seen:
        yield seen
    assert seen.complaints == []


def post_run(url: str, items: list[dict[str, Any]], **options: Any) -> str:
    """Posts a batch to a service; its id."""
    response = httpx.post(
        f"{url}/v1/batches", json={"items": items, **options}, timeout=LIMIT_SECONDS, trust_env=False, verify=False
    )
    if response.status_code != 202:
        raise RuntimeError(f"{response.status_code} {response.text}")
    return str(response.json()["id"])


def finish_run(url: str, items: list[dict[str, Any]], **options: Any) -> str:
    """The same, once it is completed."""
    run = post_run(url, items, **options)
    wait_until(lambda: fetch_run(url, run)["status"] == "completed", LIMIT_SECONDS, f"{run} is completed")
    return run


def fetch_run(url: str, run: str) -> dict[str, Any]:
    """A batch as the API tells it."""
    found: dict[str, Any] = (
        httpx.get(f"{url}/v1/batches/{run}", trust_env=False, verify=False).raise_for_status().json()
    )
    return found
