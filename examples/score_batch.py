"""Posts a batch, waits for its end and prints its summary. Needs nothing but Python.

    python3 examples/score_batch.py examples/ja_batch.ndjson [http://127.0.0.1:8000]

Exits with 0 where the batch was completed and every candidate scored, else with 1. SAITEN_API_KEY is sent where set.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import urllib.request
import uuid
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

TRIES = 5
POLL_SECONDS = 1.0


def ask(url: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Any:
    """The answer's JSON. A service that cannot be reached, or is not ready, is asked again."""
    key = os.environ.get("SAITEN_API_KEY")
    sent = {**(headers or {}), **({"Authorization": f"Bearer {key}"} if key else {})}
    for left in reversed(range(TRIES)):
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, sent), timeout=60) as answer:
                return json.load(answer)
        except HTTPError as error:
            # 409: the service is still at work on what was sent under this key before.
            if not left or (error.code < 500 and error.code != 409):
                sys.exit(f"{error.code}: {error.read().decode()}")
        except URLError as error:
            if not left:
                sys.exit(f"{url}: {error.reason}")
        time.sleep(POLL_SECONDS)
    return None


def tell(aspect: dict[str, Any]) -> str:
    """The mean with its 95% interval, where there are such."""
    mean, interval = aspect["mean"], aspect["interval"]
    shown = "–" if mean is None else f"{mean:.2f}"
    return shown if interval is None else f"{shown} [{interval[0]:.2f}, {interval[1]:.2f}]"


def main(file: str, service: str) -> int:
    """Posts the file, NDJSON or JSON."""
    kind = "application/x-ndjson" if file.endswith((".ndjson", ".jsonl")) else "application/json"
    # With a key of its own a POST that is sent again makes no second batch.
    headers = {"Content-Type": kind, "Idempotency-Key": str(uuid.uuid4())}
    try:
        body = Path(file).read_bytes()
    except OSError as error:
        sys.exit(f"{file}: {error.strerror}")
    batch = ask(f"{service}/v1/batches", body, headers)
    address = f"{service}/v1/batches/{batch['id']}"
    while batch["status"] in {"queued", "running"}:
        time.sleep(POLL_SECONDS)
        batch = ask(address)
        print(f"{batch['id']} {batch['status']} {batch['progress']:.0%}", file=sys.stderr)
    if batch["status"] == "paused":
        sys.exit(f"paused: {batch['pause_reason']}: {batch['pause_detail']}")
    summary = ask(f"{address}/summary")
    for name, aspect in summary["aspects"].items():
        # Turns of one dialogue are not independent: the interval counts clusters, not responses.
        counts = f"n={aspect['n']:<5} clusters={aspect['clusters']:<5} unrated={aspect['unrated']:<5}"
        print(f"{name:<16} {counts} mean {tell(aspect)}")
    print(summary["signature"] or summary["signatures"])
    return int(summary["counts"]["scored"] != summary["counts"]["total"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Posts a batch, waits for its end and prints its summary.")
    parser.add_argument("file", help="the batch: NDJSON (.ndjson, .jsonl) or JSON")
    parser.add_argument("service", nargs="?", default="http://127.0.0.1:8000", help="default: %(default)s")
    given = parser.parse_args()
    sys.exit(main(given.file, given.service))
