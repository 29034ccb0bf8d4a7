"""Erasure by metadata while a batch runs: on real processes, Redis, and each database. `make faults` measures how long it takes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
import redis
from sqlalchemy import text

from saiten_server.platform.sql.engine import open_engine, read
from saiten_server.platform.sql.tables import metadata
from tests.support.site import Site, site, wait_until
from tests.support.waiting import LIMIT_SECONDS

MARK = "秘密の温泉"
USER = {"user": "u-42"}
ITEMS = 100


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> dict[str, str]:
    """What the site's environment says of its database: nothing for a SQLite file in its folder."""
    return {} if request.param == "sqlite" else {"DATABASE_URL": request.getfixturevalue("postgres_url")}


def make_item(number: int) -> dict[str, Any]:
    """Every fourth item is the user's, with the planted text in context and response."""
    planted = MARK if number % 4 == 0 else "近くの公園"
    return {
        "id": f"item-{number}",
        "context": [{"speaker": "A", "text": f"{planted}へ行きましたか？"}],
        "response": f"はい、{planted}へ家族で行ってきました。{number}",
        "metadata": USER if number % 4 == 0 else {"user": "u-1"},
    }


def test_an_erasure_by_metadata_during_the_run_leaves_no_trace(
    tmp_path: Path, redis_port: int, database: dict[str, str]
) -> None:
    variables = {"SAITEN_JUDGE_CONCURRENCY": "8", "REDIS_URL": f"redis://127.0.0.1:{redis_port}/0", **database}
    with site(tmp_path, workers=2, judge={"latency_ms": 300}, **variables) as made:
        batch_id = made.post_items([make_item(number) for number in range(ITEMS)], judge={"explain": True})
        single = {**make_item(0), "relevance": None, "judge": {"explain": True}}
        del single["id"]
        assert made.client.post("/v1/evaluations", json=single).status_code == 200
        made.wait_for_results(batch_id, 20)
        assert MARK in read_all(made, database)
        started = time.monotonic()
        answer = made.client.post("/v1/erasures", json={"metadata": USER})
        assert answer.json() == {
            "batches": 0,
            "candidates": ITEMS // 4,
            "evaluations": 1,
            "dataset_items": 0,
            "live_conversations": 0,
        }
        clean = wait_until(lambda: MARK not in read_all(made, database), LIMIT_SECONDS, "no trace stored", made.log)
        made.wait_for(batch_id)
        assert MARK not in read_all(made, database), "a late result brought it back"
        wait_until(lambda: count_replies(redis_port) <= ITEMS - ITEMS // 4, LIMIT_SECONDS, "no reply", made.log)
        ended = time.monotonic() - started
        print(
            f"\nno trace in the database {clean:.1f} s after the erasure; batch done, Redis clean after {ended:.1f} s"
        )
        with redis.Redis(port=redis_port) as client:
            assert MARK.encode() not in dump(client)
        assert MARK not in "".join(path.read_text(encoding="utf-8") for path in tmp_path.glob("*.log"))
        check_counts(made, batch_id)


def check_counts(made: Site, batch_id: str) -> None:
    """A quarter is erased; the rest is scored, and the summary counts just that."""
    results = made.results(batch_id)
    erased = [one["position"] for one in results if one["status"] == "failed"]
    assert erased == list(range(0, ITEMS, 4))
    assert {one["error"]["code"] for one in results if one["status"] == "failed"} == {"erased"}
    assert made.batch(batch_id)["counts"] == {
        "total": ITEMS,
        "queued": 0,
        "scored": ITEMS - ITEMS // 4,
        "partial": 0,
        "failed": ITEMS // 4,
        "expired": 0,
    }
    summary = made.client.get(f"/v1/batches/{batch_id}/summary").json()
    assert {one["n"] for one in summary["aspects"].values()} == {ITEMS - ITEMS // 4}


def count_replies(port: int) -> int:
    """Cached replies. The judge's words do not tell whose they are: there may be no more than candidates that stay, and
    one that is judged later adds its own."""
    with redis.Redis(port=port) as client:
        return len(client.keys("saiten:call:*"))


def dump(client: Any) -> bytes:
    """All keys and values of Redis."""
    parts = []
    for key in client.keys("*"):
        parts += [key, client.dump(key) or b""]
        if client.type(key) == b"string":
            parts.append(client.get(key))
    return b"".join(parts)


def read_all(made: Site, database: dict[str, str]) -> str:
    """Everything in the database: the bytes of SQLite's file and log, or every row on PostgreSQL."""
    if not database:
        return b"".join(path.read_bytes() for path in made.folder.glob("saiten.db*")).decode("utf-8", "replace")
    return asyncio.run(read_rows(database["DATABASE_URL"]))


async def read_rows(url: str) -> str:
    engine, parts = open_engine(url.replace("postgresql://", "postgresql+asyncpg://", 1)), []
    try:
        for table in metadata.sorted_tables:
            async with read(engine) as connection:
                found = await connection.execute(text(f"SELECT t::text FROM {table.name} t"))
                parts += [str(row[0]) for row in found]
    finally:
        await engine.dispose()
    return "\n".join(parts)
