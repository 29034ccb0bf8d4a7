"""Workers that die while live conversations are put together, scored and sent: nothing is lost, nothing is scored twice,
and what is sent twice has the same id."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from saiten_server.monitors.traces.wire import WireSpan
from tests.support.site import Site, site, wait_until
from tests.support.spans import chat, export
from tests.support.threaded_server import ThreadedServer
from tests.support.waiting import LIMIT_SECONDS

IN_FLIGHT = 8
WAVES, IN_WAVE = 6, 5
"""They end one after the other, so that some are put together while others are scored and sent."""
NAMES = [f"talk-{number}" for number in range(WAVES * IN_WAVE)]
VARIABLES = {"SAITEN_JUDGE_CONCURRENCY": str(IN_FLIGHT), "SAITEN_LEASE_SECONDS": "5"}


class ScoreReceiver(ThreadedServer):
    """Takes scores as Langfuse does, slowly, and keeps what it was sent."""

    def __init__(self) -> None:
        bodies: list[dict[str, Any]] = []
        self.bodies = bodies

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                # It has it before it says so: who dies meanwhile does not know.
                bodies.append(body)
                time.sleep(0.05)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        super().__init__(Handler)

    def wait_for(self, sessions: int, made: Site) -> None:
        """Until scores of so many conversations have come."""
        wait_until(lambda: len(self._sessions()) >= sessions, LIMIT_SECONDS, "sending", made.log)

    def _sessions(self) -> set[str]:
        return {body["sessionId"] for body in [*self.bodies]}


def say(number: int) -> list[WireSpan]:
    """A conversation of two answers that no other is like, or the judge would be asked about all of them once."""
    said = [
        f"{number + 1}名で予約したいのですが。",
        "お日にちはいつですか。",
        "あしたです。",
        f"{number + 1}名様で承りました。",
    ]
    return [
        chat(said[: 2 * turn + 1], said[2 * turn + 1], number=2 * number + turn, at=turn, conversation=NAMES[number])
        for turn in range(2)
    ]


def post_talks(made: Site) -> None:
    for wave in range(WAVES):
        spans = [span for place in range(IN_WAVE) for span in say(wave * IN_WAVE + place)]
        headers = {"Content-Type": "application/x-protobuf"}
        made.client.post("/v1/traces", content=export(spans).SerializeToString(), headers=headers).raise_for_status()
        time.sleep(0.5)


def make_monitor(made: Site, url: str) -> str:
    options = {
        "name": "live",
        "rubric": "ja-conversation",
        "rate": 1.0,
        "idle_seconds": 5,
        "send_to": [{"kind": "langfuse", "url": url}],
    }
    answer = made.client.post("/v1/monitors", json=options)
    assert answer.status_code == 201, answer.text
    return f"/v1/monitors/{answer.json()['id']}"


def replace_worker(made: Site) -> None:
    """The oldest is killed; as a supervisor does, another is started."""
    made.kill_worker()
    made.start_workers(1)


def test_killed_workers_lose_no_conversation_and_score_none_twice(
    tmp_path: Path, postgres_url: str, redis_port: int
) -> None:
    servers = {"DATABASE_URL": postgres_url, "REDIS_URL": f"redis://127.0.0.1:{redis_port}/0"}
    with ScoreReceiver() as receiver:
        variables = {**VARIABLES, **servers, "SAITEN_SINKS": json.dumps({receiver.url: "pk:sk"})}
        with site(tmp_path, workers=2, judge={"latency_ms": 400}, **variables) as made:
            place = make_monitor(made, receiver.url)
            post_talks(made)
            # As the first waves are closed, as they are scored, and as they are sent.
            wait_until(lambda: made.judge.stats()["requests"] >= 2, LIMIT_SECONDS, "judging", made.log)
            replace_worker(made)
            for sent in (3, 12):
                receiver.wait_for(sent, made)
                replace_worker(made)
            wait_until(lambda: is_done(made, place), LIMIT_SECONDS, "all is sent", made.log, pause=1)
            check(made, place, receiver.bodies)


def is_done(made: Site, place: str) -> bool:
    found = made.client.get(place).json()
    (sink,) = found["sinks"]
    return bool(sink["sent"] == len(NAMES) and not sink["waiting"] and not found["waiting"])


def check(made: Site, place: str, bodies: list[dict[str, Any]]) -> None:
    found = made.client.get(f"{place}/conversations", params={"limit": 200}).json()["items"]
    assert sorted(one["conversation"] for one in found) == sorted(NAMES)
    assert {(one["outcome"], one["status"], one["turns"]) for one in found} == {("sampled", "scored", 4)}
    (window,) = made.client.get(f"{place}/windows").json()["items"]
    assert (window["conversations"], window["sampled"]) == (len(NAMES), len(NAMES))
    assert len(made.results(window["run"])) == len(NAMES)
    assert made.judge.stats()["paid_again"] <= 3 * IN_FLIGHT
    # What was sent again is what was sent: one result of each conversation, each of its scores under one id.
    by_id = defaultdict[str, set[str]](set)
    for body in bodies:
        by_id[body["id"]].add(json.dumps(body, sort_keys=True))
    assert {len(own) for own in by_id.values()} == {1}
    scores = [json.loads(text) for own in by_id.values() for text in own]
    assert len({(one["sessionId"], one["name"]) for one in scores}) == len(scores)
    assert len({(one["sessionId"], one["metadata"]["evaluation"]) for one in scores}) == len(NAMES)
