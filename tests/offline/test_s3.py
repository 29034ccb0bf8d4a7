"""Input and output on S3, by s3fs and a server that speaks its protocol. Skipped where these are not installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saiten_server.offline.inputs import InputFile
from saiten_server.offline.opened_files import open_files
from saiten_server.offline.running import Job, OfflineTally, run_here
from saiten_server.offline.scorer import Scorer
from tests.support.offline_input import make_conversation, write_parquet

s3fs = pytest.importorskip("s3fs", reason="S3 is NOT tested here: pip install s3fs 'moto[server]'")
moto_server = pytest.importorskip("moto.server", reason="S3 is NOT tested here: pip install s3fs 'moto[server]'")


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    server = moto_server.ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    yield s3fs.S3FileSystem()
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


def run(source: str, output: str) -> OfflineTally:
    scorer, tally = Scorer("ja-conversation", settings={"judge": "lexical", "encoder": "off"}), OfflineTally()
    job = Job(scorer, InputFile(source, "conversation"), output)
    try:
        run_here(job, job.source.list_blocks(), tally, lambda: None)
    finally:
        scorer.close()
    return tally


def test_a_run_on_s3_goes_on_and_is_read_as_files(storage: Any, tmp_path: Path) -> None:
    part = write_parquet(tmp_path / "a.parquet", [make_conversation(number) for number in range(30)])
    storage.mkdir("logs")
    storage.mkdir("scores")
    storage.put(str(part), "logs/in/a.parquet")
    storage.pipe_file("logs/in/b.parquet", part.read_bytes()[:-20])
    first, second = (run("s3://logs/in", "s3://scores/out") for _ in range(2))
    assert [(one.known, one.scored, one.fault_count) for one in (first, second)] == [(0, 30, 1), (30, 0, 1)]
    assert open_files("s3://scores/out").rows == 30
