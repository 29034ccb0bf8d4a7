"""Two workers and the service, three processes on one Redis: what all of them are asked at once is judged once."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.services import absent, free_port, redis_on
from tests.support.site import Site, make_item, site

DISTINCT = 60


@pytest.fixture
def workers(tmp_path: Path, postgres_url: str) -> Iterator[Site]:
    """Service and two workers, on a Redis of this test's own. Calls take long enough to meet in flight."""
    if shutil.which("redis-server") is None:
        absent("no Redis: install redis-server")
    port = free_port()
    with redis_on(port):
        # On a busy machine Redis answers late, and a process that does without it makes its own call.
        variables = {"DATABASE_URL": postgres_url, "SAITEN_REDIS_TIMEOUT_SECONDS": "30"}
        variables["REDIS_URL"] = f"redis://127.0.0.1:{port}/0"
        with site(tmp_path, workers=2, judge={"latency_ms": 300}, SAITEN_JUDGE_CONCURRENCY="16", **variables) as made:
            yield made


def test_processes_share_what_is_in_flight(workers: Site) -> None:
    items = [make_item("same", number) for number in range(DISTINCT)]
    again = [item | {"id": f"again-{item['id']}"} for item in reversed(items)]

    def evaluate(number: int) -> dict[str, Any]:
        item = items[number % 10]
        body = {"context": item["context"], "response": item["response"], "relevance": None}
        found: dict[str, Any] = workers.client.post("/v1/evaluations", json=body).raise_for_status().json()
        return found

    with ThreadPoolExecutor(8) as pool:
        batches = [pool.submit(workers.post_items, items + again, name=f"run-{number}") for number in range(3)]
        singles = list(pool.map(evaluate, range(40)))
        done = [workers.wait_for(batch.result()) for batch in batches]
    stats = workers.judge.stats()
    print(f"\n{3 * 2 * DISTINCT} candidates and 40 evaluations of {DISTINCT} texts: {stats['requests']} calls")
    assert {batch["counts"]["scored"] for batch in done} == {2 * DISTINCT}, workers.log()
    assert (stats["requests"], stats["distinct"], stats["paid_again"]) == (DISTINCT, DISTINCT, 0)
    # Each call is on one bill.
    paid = [*(batch["usage"] for batch in done), *(one["usage"] for one in singles)]
    assert sum(usage["judge_calls"] for usage in paid) == DISTINCT
