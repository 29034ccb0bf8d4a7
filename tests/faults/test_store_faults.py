"""What becomes of the store when its database is full, locked, damaged, deleted or away."""

import asyncio
import errno
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine

from saiten_server.core.errors import StoreError, StoreFull, StoreUnavailable
from saiten_server.platform.sql.engine import KEEPALIVE_OPTIONS, DatabaseFile, close_engine, open_engine, read, write
from saiten_server.platform.sql.failures import translate_error
from saiten_server.platform.sql.schema import migrate
from saiten_server.platform.sql.tables import idempotency_keys
from saiten_server.scoring.store import ABANDONED, EvaluationStore
from tests.support.command import ROOT
from tests.support.records import make_record
from tests.support.services import PostgresServer
from tests.support.waiting import LIMIT_SECONDS


@pytest.fixture
async def sqlite(sqlite_url: str) -> AsyncIterator[AsyncEngine]:
    made = open_engine(sqlite_url)
    await migrate(made)
    yield made
    await made.dispose()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where `sqlite_url` points."""
    return tmp_path / "saiten.db"


def on_connect(engine: AsyncEngine, pragma: str) -> None:
    """Runs `pragma` on each connection to come."""
    event.listen(engine.sync_engine, "connect", lambda made, _: made.cursor().execute(f"PRAGMA {pragma}"))


async def run(engine: AsyncEngine, statement: str) -> None:
    """One statement in a transaction of its own."""
    async with write(engine) as connection:
        await connection.exec_driver_sql(statement)


# Gone


async def test_a_deleted_file_is_noticed_by_every_operation_and_not_made_anew(sqlite: AsyncEngine, path: Path) -> None:
    store = EvaluationStore(sqlite)
    await store.save("team", make_record())
    path.unlink()
    for call in (store.ping(), store.save("team", make_record("ev_2")), store.find("team", "ev_1")):
        with pytest.raises(StoreUnavailable, match="gone or was replaced"):
            await call
    assert not path.exists()


async def test_a_replaced_file_is_noticed_and_the_old_one_put_back_is_good(sqlite: AsyncEngine, path: Path) -> None:
    store, kept = EvaluationStore(sqlite), path.with_name("kept.db")
    await store.save("team", make_record())
    path.rename(kept)
    path.write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="gone or was replaced"):
        await store.ping()
    kept.replace(path)
    await store.ping()
    assert await store.find("team", "ev_1") is not None


async def test_dropped_tables_are_noticed(engine: AsyncEngine) -> None:
    store = EvaluationStore(engine)
    await store.ping()
    async with write(engine) as connection:
        await connection.execute(text("DROP TABLE evaluations"))
    for call in (store.ping(), store.save("team", make_record())):
        with pytest.raises(StoreUnavailable, match="a table of the database is missing"):
            await call


# Full


async def test_a_full_database_says_so_and_stays_intact(sqlite_url: str, path: Path) -> None:
    engine = open_engine(sqlite_url)
    await migrate(engine)
    store = EvaluationStore(engine)
    await store.save("team", make_record())
    await engine.dispose()
    on_connect(engine, "max_page_count=1")  # SQLite takes it as "no page more than there are"
    too_large = make_record("ev_2", metadata={"k": "v" * 100_000})
    with pytest.raises(StoreFull, match="no space left"):
        await store.save("team", too_large)
    assert await store.find("team", "ev_1") is not None
    await store.ping()
    await engine.dispose()
    with sqlite3.connect(path) as plain:
        assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    plain.close()


LIMITED = """
import asyncio, resource, sys
from saiten_server.platform.sql.engine import open_engine
from saiten_server.core.errors import StoreFull
from saiten_server.scoring.store import EvaluationStore
from saiten_server.platform.sql.schema import migrate
from tests.support.records import make_record

async def main():
    engine = open_engine(sys.argv[1])
    await migrate(engine)
    store = EvaluationStore(engine)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024 * 1024, 1024 * 1024))
    kept = 0
    try:
        for number in range(1000):
            await store.save("team", make_record(f"ev_{number}"))
            kept += 1
    except StoreFull:
        print(kept, sum([await store.find("team", f"ev_{number}") is not None for number in range(1000)]))
    await engine.dispose()

asyncio.run(main())
"""


def test_a_file_size_limit_counts_as_full_and_what_was_acknowledged_is_kept(sqlite_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, sqlite_url],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    acknowledged, found = map(int, done.stdout.split())
    assert acknowledged == found
    assert acknowledged > 0


# Damaged or locked


async def test_a_file_that_is_no_database_is_refused_with_advice(sqlite_url: str, path: Path) -> None:
    path.write_bytes(b"a shopping list, not a database\n" * 200)
    engine = open_engine(sqlite_url)
    with pytest.raises(StoreUnavailable, match="no SQLite database"):
        await migrate(engine)
    await engine.dispose()


async def test_a_damaged_file_is_refused_with_advice(sqlite_url: str, path: Path) -> None:
    engine = open_engine(sqlite_url)
    await migrate(engine)
    await EvaluationStore(engine).save("team", make_record())
    await engine.dispose()
    with path.open("r+b") as file:  # all pages but the first, which holds the schema
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    with pytest.raises(StoreUnavailable, match=r"damaged.*restore a backup"):
        await EvaluationStore(engine).find("team", "ev_1")
    await engine.dispose()


async def test_a_file_that_another_process_locks_says_so(sqlite_url: str, path: Path) -> None:
    engine = open_engine(sqlite_url)
    await migrate(engine)
    await engine.dispose()
    on_connect(engine, "busy_timeout=20")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked by another process"):
        await EvaluationStore(engine).save("team", make_record())
    other.close()
    await EvaluationStore(engine).save("team", make_record())
    await engine.dispose()


async def test_a_writer_that_is_cancelled_lets_the_next_one_write() -> None:
    file = DatabaseFile()
    async with file.writing():
        waiting = asyncio.create_task(file.writing().__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    async with file.writing():
        pass


async def test_savers_that_are_cancelled_leave_no_transaction_open(engine: AsyncEngine) -> None:
    store = EvaluationStore(engine)
    for pause_milliseconds in range(12):
        saving = [
            asyncio.create_task(store.save("team", make_record(f"ev_{pause_milliseconds}_{n}"))) for n in range(8)
        ]
        await asyncio.sleep(pause_milliseconds / 1000)
        for task in saving:
            task.cancel()
        await asyncio.gather(*saving, return_exceptions=True)
    await asyncio.gather(*(store.save("team", make_record(f"ev_{number}")) for number in range(32)))
    other = open_engine(engine.url.render_as_string(hide_password=False))
    await EvaluationStore(other).save("team", make_record("ev_other"))
    await other.dispose()
    assert await store.find("team", "ev_31") is not None


# Away


async def test_an_unreachable_postgres() -> None:
    engine = open_engine("postgresql+asyncpg://nobody@127.0.0.1:1/none")
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await EvaluationStore(engine).ping()
    await engine.dispose()


async def test_a_postgres_without_that_database(postgres_url: str) -> None:
    engine = open_engine(postgres_url + "_absent")
    with pytest.raises(StoreUnavailable, match="no such database"):
        await migrate(engine)
    await engine.dispose()


async def test_a_server_that_hangs_is_not_waited_for_at_the_end() -> None:
    server = PostgresServer()
    try:
        server.start()
        engine = open_engine(server.url)
        async with read(engine) as connection:
            await connection.execute(text("SELECT 1"))
        server.freeze()
        async with asyncio.timeout(LIMIT_SECONDS):
            await close_engine(engine)
        assert "Connections in pool: 0" in engine.pool.status()
    finally:
        server.remove()


async def test_connections_that_the_server_ended_are_made_anew(postgres_url: str) -> None:
    engine = open_engine(postgres_url)
    await migrate(engine)
    held: list[Any] = []
    event.listen(engine.sync_engine, "checkin", lambda connection, _: held.append(connection.driver_connection))
    store = EvaluationStore(engine)
    await asyncio.gather(*(store.ping() for _ in range(4)))
    other = open_engine(postgres_url)
    async with write(other) as connection:
        await connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
    # It tells its processes to end, and does not wait until they have.
    async with asyncio.timeout(LIMIT_SECONDS):
        while not all(connection.is_closed() for connection in held):
            await asyncio.sleep(0.01)
    await store.save("team", make_record())
    assert await store.find("team", "ev_1") is not None
    assert not held[-1].is_closed()
    for made in (engine, other):
        await made.dispose()


async def test_a_connection_to_a_machine_that_goes_without_a_word_is_given_up(postgres_url: str) -> None:
    """As the operating system is told; nothing short of a network that drops packets would show it."""
    engine = open_engine(postgres_url)
    async with read(engine) as connection:
        made = (await connection.get_raw_connection()).driver_connection
        assert made is not None
        found = made._transport.get_extra_info("socket")
        if found.family == socket.AF_UNIX:
            pytest.skip("PostgreSQL is on this machine for good: a Unix socket")
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        told = {name: found.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in KEEPALIVE_OPTIONS}
    await engine.dispose()
    assert told == KEEPALIVE_OPTIONS
    assert KEEPALIVE_OPTIONS["TCP_USER_TIMEOUT"] <= 15_000


async def test_a_connection_that_ends_in_a_transaction(postgres_url: str) -> None:
    engine = open_engine(postgres_url)
    with pytest.raises(StoreUnavailable):
        await run(engine, "SELECT pg_terminate_backend(pg_backend_pid())")
    await engine.dispose()


@pytest.mark.parametrize(
    ("state", "kind", "words"),
    [
        ("53100", StoreFull, "no space left"),
        ("53300", StoreUnavailable, "no connection or memory to spare"),
        ("57P01", StoreUnavailable, "starting, stopping"),
        ("57P03", StoreUnavailable, "starting, stopping"),
        ("57014", StoreUnavailable, "too long"),
        ("08006", StoreUnavailable, "cannot be reached"),
        ("55000", StoreUnavailable, "cannot be reached"),
        ("28P01", StoreUnavailable, "refused the login"),
        ("25006", StoreUnavailable, "primary"),
        ("40P01", StoreUnavailable, "try again"),
        ("42501", StoreUnavailable, "lacks a right"),
        ("58030", StoreUnavailable, "disk"),
        ("XX001", StoreUnavailable, "damaged"),
        ("22012", StoreError, "SQLSTATE 22012"),
    ],
)
async def test_what_postgres_says(postgres_url: str, state: str, kind: type[StoreError], words: str) -> None:
    engine = open_engine(postgres_url)
    with pytest.raises(StoreError, match=words) as caught:
        await run(engine, f"DO $$ BEGIN RAISE EXCEPTION 'secret' USING ERRCODE = '{state}'; END $$")
    assert type(caught.value) is kind
    assert "secret" not in caught.value.detail
    await engine.dispose()


def sqlite_error(code: int, words: str = "words") -> OperationalError:
    """The error of a statement that SQLite ended with `code`."""
    cause = sqlite3.OperationalError(words)
    cause.sqlite_errorcode = code
    return OperationalError("statement", {"value": "secret"}, cause)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (sqlite_error(sqlite3.SQLITE_FULL), StoreFull, "no space left"),
        (sqlite_error(sqlite3.SQLITE_BUSY_SNAPSHOT), StoreUnavailable, "locked by another process"),
        (sqlite_error(sqlite3.SQLITE_READONLY_DIRECTORY), StoreUnavailable, "may not be written"),
        (sqlite_error(sqlite3.SQLITE_IOERR_READ), StoreUnavailable, "disk under the database failed"),
        (sqlite_error(sqlite3.SQLITE_IOERR_WRITE), StoreUnavailable, "disk under the database failed"),
        (sqlite_error(sqlite3.SQLITE_CORRUPT_INDEX), StoreUnavailable, "damaged"),
        (sqlite_error(sqlite3.SQLITE_CANTOPEN), StoreUnavailable, "cannot be opened"),
        (sqlite_error(sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY), StoreError, "refused a statement"),
        (sqlite_error(sqlite3.SQLITE_ERROR, "no such table: x"), StoreUnavailable, "table of the database is missing"),
        (OSError(errno.ENOSPC, "no"), StoreFull, "no space left"),
        (OSError(errno.EDQUOT, "no"), StoreFull, "no space left"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "no"), StoreUnavailable, "cannot be reached"),
        (TimeoutError(), StoreUnavailable, "cannot be reached"),
        (PoolTimeout(), StoreUnavailable, "every connection"),
    ],
)
def test_what_an_error_means(error: Exception, kind: type[StoreError], words: str, tmp_path: Path) -> None:
    meant = translate_error(error, tmp_path / "saiten.db")
    assert type(meant) is kind
    assert words in meant.detail
    assert "secret" not in meant.detail


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a file system that has nothing free: /proc")
@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_CANTOPEN])
def test_trouble_with_a_file_on_a_full_disk_is_want_of_space(code: int) -> None:
    assert os.statvfs("/proc/self").f_bavail == 0
    assert type(translate_error(sqlite_error(code), Path("/proc/self/saiten.db"))) is StoreFull


# Idempotency keys


async def test_the_key_of_a_process_that_died_is_free_after_its_time(engine: AsyncEngine) -> None:
    store, table = EvaluationStore(engine), idempotency_keys
    await store.claim_key("team", "k", "digest")
    for age, free in ((ABANDONED - timedelta(seconds=10), False), (ABANDONED + timedelta(seconds=10), True)):
        async with write(engine) as connection:
            await connection.execute(update(table).values(created_at=datetime.now(UTC) - age))
        assert (await store.claim_key("team", "k", "digest") is None) is free


async def test_the_key_of_a_request_that_shows_signs_of_life_is_kept(engine: AsyncEngine) -> None:
    store, table = EvaluationStore(engine), idempotency_keys
    await store.claim_key("team", "k", "digest")
    async with write(engine) as connection:
        await connection.execute(update(table).values(created_at=datetime.now(UTC) - 2 * ABANDONED))
    await store.renew_key("team", "k")
    assert await store.claim_key("team", "k", "digest") is not None


async def test_a_claim_that_never_comes_through_ends(sqlite: AsyncEngine) -> None:
    async with write(sqlite) as connection:
        await connection.exec_driver_sql(
            "CREATE TRIGGER refuse BEFORE INSERT ON idempotency_keys BEGIN SELECT RAISE(IGNORE); END"
        )
    with pytest.raises(StoreUnavailable, match="Idempotency-Key"):
        await EvaluationStore(sqlite).claim_key("team", "k", "digest")


async def test_an_error_shows_no_value(engine: AsyncEngine) -> None:
    store = EvaluationStore(engine)
    await store.save("team", make_record())
    with pytest.raises(StoreError) as caught:
        await store.save("team", make_record())
    assert "ja-dialogue" not in str(caught.value.__cause__)
    async with read(engine) as connection:
        assert (await connection.execute(text("SELECT count(*) FROM evaluations"))).scalar_one() == 1
