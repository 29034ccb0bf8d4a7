"""`saiten score --url`: what a service answers, well or not, and when."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.support.command import saiten, started
from tests.support.held_service import held_service
from tests.support.records import BODY
from tests.support.threaded_server import ThreadedServer
from tests.support.waiting import LIMIT_SECONDS


def write_items(folder: Path, count: int) -> str:
    (folder / "items.json").write_text(json.dumps([BODY] * count), encoding="utf-8")
    return "items.json"


EVALUATION = {
    "status": "scored",
    "rubric": {"id": "ja-dialogue"},
    "aspects": {},
    "composites": {},
    "warnings": [],
    "metadata": {"system": "bot-a"},
    "cached": False,
}

NO_EVALUATIONS = {
    "a page": b"<html>welcome</html>",
    "an empty object": b"{}",
    "broken": b'{"status": "sco',
    "the health of another": b'{"status": "ok"}',
    "a list": b"[]",
    "deep": b"[" * 100_000,
    "nothing": b"",
}


@pytest.mark.parametrize("content", NO_EVALUATIONS.values(), ids=NO_EVALUATIONS.keys())
def test_an_answer_that_is_no_evaluation_fails_its_item(tmp_path: Path, content: bytes) -> None:
    with held_service(content) as service:
        done = saiten("score", write_items(tmp_path, 1), "--url", service.url, folder=tmp_path)
    assert done.returncode == 1, done.stderr
    why = f"{service.url} answered 200 without an evaluation; is it a Saiten service?"
    result = json.loads(done.stdout)
    assert (result["status"], result["error"]) == ("failed", {"code": "service-reply-invalid", "detail": why})
    assert done.stderr == f"item 1: service-reply-invalid: {why}\n"


def test_a_problem_keeps_its_code_and_cannot_steer_the_terminal(tmp_path: Path) -> None:
    problem = json.dumps({"code": "busy", "detail": "come back\x1b[2J\nlater"}).encode()
    with held_service(problem, status=503) as service:
        done = saiten("score", write_items(tmp_path, 1), "--url", service.url, folder=tmp_path)
    assert (done.returncode, done.stderr) == (1, "item 1: busy: come back\ufffd[2J later\n")


def test_an_error_page_is_named_by_its_status(tmp_path: Path) -> None:
    with held_service(b"<html>", status=502) as service:
        done = saiten("score", write_items(tmp_path, 1), "--url", service.url, folder=tmp_path)
    assert done.stderr == f"item 1: http-502: {service.url} answered 502 without saying why\n"


def test_results_come_as_they_are_ready_and_an_interruption_keeps_them(tmp_path: Path) -> None:
    # Two items are answered and the third never is: its result can only come before the run's end.
    with held_service(json.dumps(EVALUATION).encode(), at_once=2) as service:
        command = ("score", write_items(tmp_path, 9), "--url", service.url, "--concurrency", "1")
        with started(*command, folder=tmp_path) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert [json.loads(process.stdout.readline())["status"] for _ in range(2)] == ["scored"] * 2
            assert service.holds.wait(LIMIT_SECONDS)
            process.send_signal(signal.SIGINT)
            rest, remarks = process.stdout.read(), process.stderr.read().decode()
            assert process.wait() == 130
    assert rest == b""
    assert remarks.split("\n")[-2:] == ["saiten: interrupted", ""]
    assert "Traceback" not in remarks


def test_an_interrupted_table_shows_what_was_scored(tmp_path: Path) -> None:
    with held_service(json.dumps(EVALUATION).encode(), at_once=2) as service:
        command = ("score", write_items(tmp_path, 9), "--url", service.url, "--format", "table", "--concurrency", "1")
        with started(*command, folder=tmp_path) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert service.holds.wait(LIMIT_SECONDS)
            process.send_signal(signal.SIGINT)
            shown, remarks = process.stdout.read().decode(), process.stderr.read().decode()
            assert process.wait() == 130
    assert shown.count("bot-a") == 3
    assert "saiten: interrupted" in remarks


ODD = [
    b"[]",
    b"{}",
    b'{"id": 1, "judge": {"systems": []}}',
    b'{"id": "pf_1", "judge": "x", "counts": [], "status": {}}',
]


@pytest.mark.parametrize(
    "command", ["compare-runs ba_1 ba_2", "leaderboard pf_1", "gate --candidate ba_1 --baseline ba_2 --pairwise"]
)
@pytest.mark.parametrize("content", ODD)
def test_an_answer_of_another_shape_is_told_in_a_sentence(tmp_path: Path, command: str, content: bytes) -> None:
    with told_service(content) as url:
        done = saiten(*command.split(), "--url", url, folder=tmp_path)
    assert done.returncode == 3
    last = done.stderr.splitlines()[-1]
    assert last.startswith("saiten: "), done.stderr


@contextmanager
def told_service(content: bytes) -> Iterator[str]:
    """A service over HTTP that answers everything so; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers["content-length"] or 0))
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            return

    with ThreadedServer(Handler) as server:
        yield server.url
