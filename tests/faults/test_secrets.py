"""Planted secrets: keys, passwords and texts go into real processes, and into no log, metric, trace or error.

Each secret is one of a kind. A judge and a DeepL say back what they are sent, rightly, wrongly and in errors. Callers send
what is invalid, and tables go away under the service. Then all that the processes wrote is searched for every secret, as it
is and as encodings would write it.
"""

import asyncio
import json
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import httpx
import pytest
import redis

from saiten_server.platform.web.admission import SESSION_COOKIE
from tests.support.command import saiten
from tests.support.databases import run_statement
from tests.support.echoing_upstream import MODES, EchoingUpstream
from tests.support.planted import found_in, looks_of, make_key, make_text
from tests.support.services import absent, free_port, redis_on
from tests.support.site import JudgeProcess, Site, wait_until
from tests.support.span_receiver import SpanReceiver
from tests.support.waiting import LIMIT_SECONDS

ECHO_CHARACTERS = 200
"""So much of a caller's own text may be in the answer to that caller, where it is invalid."""

HURRY = {
    "SAITEN_JUDGE_TIMEOUT_SECONDS": "4",
    "SAITEN_JUDGE_DEADLINE_SECONDS": "6",
    "SAITEN_JUDGE_ATTEMPTS": "2",
    "SAITEN_TRANSLATOR_TIMEOUT_SECONDS": "4",
    "SAITEN_TRANSLATOR_ATTEMPTS": "1",
    "SAITEN_LOG_LEVEL": "debug",
    "OPENAI_LOG": "debug",
}


@dataclass
class Secrets:
    """What is planted. `keys` are nobody's to see; `texts` are a caller's own."""

    keys: dict[str, str] = field(
        default_factory=lambda: (
            {
                name: make_key()
                for name in (
                    "judge",
                    "database",
                    "redis",
                    "client",
                    "wrong-bearer",
                    "cookie",
                    "idempotency",
                    "request-id",
                )
            }
            | {"translator": make_key() + ":fx"}
        )
    )
    texts: dict[str, str] = field(
        default_factory=lambda: (
            {
                name: make_text()
                for name in (
                    "context",
                    "speaker",
                    "response",
                    "reference",
                    "metadata",
                    "batch-name",
                    "item-id",
                    "comment",
                    "rater",
                    "query",
                    "path",
                    "fragment",
                    "baggage",
                )
            }
            | {"long": make_text(1500)}
        )
    )

    @property
    def all(self) -> dict[str, str]:
        # Of the long one any piece would do.
        return {**self.keys, **self.texts, "long": self.texts["long"][700:724]}

    @property
    def variables(self) -> dict[str, str]:
        return {
            "OPENAI_API_KEY": self.keys["judge"],
            "DEEPL_API_KEY": self.keys["translator"],
            "SAITEN_API_KEY": self.keys["client"],
        }

    def item(self, case: str) -> dict[str, Any]:
        """A request's texts; each case is another response, so that no reply comes from the cache."""
        return {
            "context": [{"speaker": self.texts["speaker"], "text": self.texts["context"]}],
            "response": f"{self.texts['response']}（{case}）",
            "reference": self.texts["reference"],
        }


class Caller:
    """Asks, and keeps every error that it gets."""

    def __init__(self, client: httpx.Client, secrets: Secrets, key: str) -> None:
        self.client = client
        self.secrets = secrets
        self.headers = {
            "Authorization": f"Bearer {key}",
            "X-Request-Id": f"{secrets.keys['request-id']} \t{{}}",
            "baggage": f"text={quote(secrets.texts['baggage'])}",
            "tracestate": f"vendor={secrets.keys['cookie']}",
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        }
        self.errors: list[httpx.Response] = []

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {**self.headers, **more.pop("headers", {})}
        answer = self.client.request(method, path, headers=headers, **more)
        if answer.status_code >= 400:
            self.errors.append(answer)
        return answer

    def score(self, case: str, **more: Any) -> httpx.Response:
        body = {"relevance": None, **self.secrets.item(case), **more}
        return self.ask("POST", "/v1/evaluations", json=body)

    def post_batch(self, case: str, **more: Any) -> str:
        texts = self.secrets.texts
        metadata = {"note": texts["metadata"]}
        item = {"id": texts["item-id"], "metadata": metadata, **self.secrets.item(f"batch {case}")}
        body = {"name": texts["batch-name"], "metadata": metadata, "relevance": None, "items": [item], **more}
        headers = {"Idempotency-Key": f"{self.secrets.keys['idempotency']}-{case}"}
        answer = self.ask("POST", "/v1/batches", json=body, headers=headers)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def send_what_is_wrong(self) -> None:
        """Bodies, addresses and headers that are refused."""
        texts, keys = self.secrets.texts, self.secrets.keys
        broken = ['{"context": "' + texts["fragment"], f'{{"{texts["fragment"]}": 1}}', texts["fragment"], "[" * 2000]
        for body in broken:
            for path in ("/v1/evaluations", "/v1/batches", "/v1/ratings", "/v1/estimates", "/v1/gates"):
                json_body = {"content": body.encode(), "headers": {"Content-Type": "application/json"}}
                assert self.ask("POST", path, **json_body).status_code in range(400, 500)
        assert self.score("long", rubric=texts["fragment"]).status_code == 422
        assert self.score("long", response=[texts["long"]]).status_code == 422
        assert self.score("long", context=texts["long"]).status_code == 422
        assert self.score("nul", response=texts["fragment"] + "\x00").status_code == 422
        for bearer in (keys["wrong-bearer"], texts["fragment"].encode()):
            token = b"Bearer " + (bearer if isinstance(bearer, bytes) else bearer.encode())
            wrong: dict[Any, Any] = {"Authorization": token}
            assert self.ask("GET", "/v1/rubrics", headers=wrong).status_code == 401
        cookie = {"Cookie": f"{SESSION_COOKIE}={keys['cookie']}", "Authorization": "", "Accept": "text/html"}
        self.ask("GET", f"/?text={quote(texts['query'])}", headers=cookie)
        self.ask("GET", f"/login?next={quote('/' + texts['query'])}", headers=cookie)
        for method in ("GET", "DELETE", texts["path"].encode().hex().upper()[:20]):
            for path in ("/v1/batches/", "/v1/evaluations/", "/", "/runs/"):
                self.ask(method, f"{path}{quote(texts['path'])}?text={quote(texts['query'])}")
        rating = {"item": texts["item-id"], "rater": texts["rater"], "ratings": {texts["fragment"]: "x"}}
        assert self.ask("POST", "/v1/ratings", json=rating).status_code == 422

    def look_at_pages(self, batch_id: str) -> None:
        """The dashboard's searches, as a browser with a session asks for them."""
        token = self.headers["Authorization"].removeprefix("Bearer ")
        signed = self.ask("POST", "/login", data={"key": token}, headers={"Authorization": ""})
        session = signed.headers["set-cookie"].partition(";")[0]
        self.client.cookies.clear()
        assert session.startswith(f"{SESSION_COOKIE}=")
        assert token not in signed.headers["set-cookie"]
        browser = {"Cookie": session, "Authorization": "", "Accept": "text/html"}
        searched = quote(self.secrets.texts["query"])
        for path in ("/", f"/explore?run={batch_id}", "/explore", "/explore/aspects", "/rate"):
            self.ask("GET", f"{path}?text={searched}&baseline={searched}&rater={searched}", headers=browser)

    def rate(self) -> None:
        texts = self.secrets.texts
        rating = {"item": texts["item-id"], "rater": texts["rater"], "ratings": {"naturalness": 2}}
        answer = self.ask("POST", "/v1/ratings", json={**rating, "comment": texts["comment"]})
        assert answer.status_code == 200, answer.text
        assert self.ask("GET", f"/v1/ratings?rater={quote(texts['rater'])}").status_code == 200


def run_through(caller: Caller, site: Site, upstream: EchoingUpstream) -> None:
    """Everything that a caller can do, with an upstream in every mood."""
    # With both paths the translator is asked before the judge, and what it says is the end of it.
    for mode, path in product(MODES, ("source", "both")):
        upstream.mode, case = mode, f"{mode}-{path}"
        answer = caller.score(case, path=path)
        assert answer.status_code in ({200} if mode == "ok" else {502, 503}), answer.text
        before = upstream.calls
        batch_id = caller.post_batch(case, path=path)
        if mode in {"ok", "locked"}:
            wait_for(caller, site, batch_id, {"completed", "paused"})
            caller.look_at_pages(batch_id)
        else:
            wait_until(partial(has_been_asked, upstream, before), LIMIT_SECONDS, f"asked while {mode}", site.log)
        caller.ask("POST", f"/v1/batches/{batch_id}/cancel")
    upstream.mode = "ok"
    caller.rate()
    caller.send_what_is_wrong()


def has_been_asked(upstream: EchoingUpstream, before: int) -> bool:
    return upstream.calls > before


def wait_for(caller: Caller, site: Site, batch_id: str, statuses: set[str]) -> None:
    def there() -> bool:
        return caller.ask("GET", f"/v1/batches/{batch_id}").json()["status"] in statuses

    wait_until(there, LIMIT_SECONDS, f"{batch_id} is {statuses}", site.log)


def check_nowhere(folder: Path, caller: Caller, metrics: list[bytes], receiver: SpanReceiver) -> None:
    """No secret in what operators can see, no key in what callers can see, and of a text little."""
    secrets = caller.secrets
    assert receiver.bodies
    logs = {path.name: path.read_bytes() for path in folder.glob("*.log")}
    assert all(b'"message": "request"' in log for name, log in logs.items() if name.startswith("service"))
    seen = {f"log {name}": found_in(log, secrets.all) for name, log in logs.items()}
    seen |= {f"metrics {number}": found_in(text, secrets.all) for number, text in enumerate(metrics)}
    seen |= {f"trace {number}": found_in(body, secrets.all) for number, body in enumerate(receiver.bodies)}
    assert {where: names for where, names in seen.items() if names} == {}
    assert caller.errors
    for answer in caller.errors:
        told = answer.content + repr(answer.headers.multi_items()).encode()
        # The API's answers give back the address that was asked for; the keys are never in one.
        assert found_in(told, secrets.keys) == [], (answer.request.url, answer.text)
        assert count_echo(answer.text, secrets.texts["long"]) <= ECHO_CHARACTERS, answer.text


def count_echo(answer: str, text: str) -> int:
    """How many characters of the text, from anywhere in it, stand in the answer in one piece."""
    longest = 0
    for start in range(len(text)):
        while text[start : start + longest + 1] in answer and start + longest < len(text):
            longest += 1
    return longest


@pytest.fixture
def upstream() -> Iterator[EchoingUpstream]:
    with EchoingUpstream() as made:
        yield made


@pytest.fixture
def receiver() -> Iterator[SpanReceiver]:
    with SpanReceiver() as made:
        yield made


def build(folder: Path, secrets: Secrets, upstream: EchoingUpstream, **variables: str) -> tuple[Site, str]:
    """A site that is not started, and a key for it."""
    chosen = {
        **HURRY,
        **secrets.variables,
        "OPENAI_BASE_URL": upstream.url + "/v1",
        "DEEPL_SERVER_URL": upstream.url,
        **variables,
    }
    made = saiten("keys", "create", folder=folder, stdin=None, **chosen)
    assert made.returncode == 0, made.stderr
    (folder / "keys.log").write_text(made.stderr)
    key = made.stdout.split()[0]
    secrets.keys["right"] = key
    return Site(folder, JudgeProcess(), **chosen), key


def stop_gently(site: Site) -> None:
    """SIGTERM, so that the last spans and records are written."""
    for process in filter(None, [site.service, *site.workers]):
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=LIMIT_SECONDS)


def test_embedded_nothing_planted_comes_out(tmp_path: Path, upstream: EchoingUpstream, receiver: SpanReceiver) -> None:
    secrets = Secrets()
    site, key = build(tmp_path, secrets, upstream, **receiver.variables)
    try:
        site.start_service()
        caller = Caller(site.client, secrets, key)
        run_through(caller, site, upstream)
        with sqlite3.connect(tmp_path / "saiten.db") as connection:
            connection.execute("ALTER TABLE evaluations RENAME TO elsewhere")
        assert "store" in (told := caller.score("table gone").json())["code"], told
        metrics = [site.client.get("/metrics").content]
        stop_gently(site)
    finally:
        site.stop()
    check_nowhere(tmp_path, caller, metrics, receiver)
    assert {mode for what, mode in upstream.asked if what == "judge"} == set(MODES)
    assert {mode for what, mode in upstream.asked if what == "translator"} == set(MODES)


def test_with_workers_nothing_planted_comes_out(
    tmp_path: Path, upstream: EchoingUpstream, receiver: SpanReceiver, postgres_url: str
) -> None:
    if shutil.which("redis-server") is None:
        absent("no Redis: install redis-server")
    secrets, port, worker_port = Secrets(), free_port(), free_port()
    database = with_password(postgres_url, secrets.keys["database"])
    variables = {"DATABASE_URL": database, "SAITEN_WORKER_METRICS_PORT": str(worker_port), **receiver.variables}
    with redis_on(port) as plain:
        with redis.Redis.from_url(plain) as client:
            client.config_set("requirepass", secrets.keys["redis"])
        variables["REDIS_URL"] = f"redis://:{secrets.keys['redis']}@127.0.0.1:{port}/0"
        site, key = build(tmp_path, secrets, upstream, **variables)
        try:
            site.start_service()
            site.start_workers(1)
            caller = Caller(site.client, secrets, key)
            run_through(caller, site, upstream)
            asyncio.run(run_statement(postgres_url, "ALTER TABLE evaluations RENAME TO elsewhere"))
            assert "store" in (told := caller.score("table gone").json())["code"], told
            asyncio.run(run_statement(postgres_url, "ALTER TABLE batch_chunks RENAME TO elsewhere_too"))
            with redis.Redis.from_url(variables["REDIS_URL"]) as client:
                client.config_set("requirepass", "another")
            caller.score("redis refuses")
            worker = f"http://127.0.0.1:{worker_port}/metrics"
            metrics = [site.client.get("/metrics").content, httpx.get(worker, trust_env=False, verify=False).content]
            stop_gently(site)
        finally:
            site.stop()
    spans = receiver.spans()
    assert any(span.name == "chunk" for span in spans)
    assert {"postgresql", "redis"} <= {span.attributes.get("db.system") for span in spans}
    check_nowhere(tmp_path, caller, metrics, receiver)


def with_password(url: str, password: str) -> str:
    """The URL with a password, which a server that trusts this machine does not look at."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or 'postgres'}:{password}@{host}"))


@pytest.mark.parametrize(
    "variables",
    [
        {"DATABASE_URL": "postgresql://saiten:{}@127.0.0.1:1/none"},
        {"DATABASE_URL": "postgresql://saiten:{}@127.0.0.1:port/none"},
        {"DATABASE_URL": "mysql://saiten:{}@127.0.0.1/none"},
        {"DATABASE_URL": "{}"},
        {"REDIS_URL": "{}"},
        {"OPENAI_BASE_URL": "{}"},
        {"OPENAI_BASE_URL": "http://user:{}@[::1"},
        {"SAITEN_API_KEY": "{} with a space"},
        {"SAITEN_JUDGE_ATTEMPTS": "{}"},
        {"SAITEN_LIMITS": "{}"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "{}", "SAITEN_TRACING": "{}"},
    ],
    ids=" ".join,
)
def test_a_start_that_fails_does_not_say_what_was_in_the_environment(tmp_path: Path, variables: dict[str, str]) -> None:
    planted = {"key": make_key()}
    chosen = {name: value.format(planted["key"]) for name, value in variables.items()}
    done = saiten("serve", "--port", "0", folder=tmp_path, stdin=None, SAITEN_LOG_LEVEL="debug", **chosen)
    assert done.returncode == 3, done.stderr
    assert found_in((done.stdout + done.stderr).encode(), planted) == []


def test_the_command_line_says_no_key_that_a_service_refuses(tmp_path: Path, upstream: EchoingUpstream) -> None:
    secrets = Secrets()
    site, _ = build(tmp_path, secrets, upstream)
    try:
        site.start_service()
        (tmp_path / "items.jsonl").write_text(json.dumps({"id": "1", **secrets.item("cli")}, ensure_ascii=False))
        url = str(site.client.base_url)
        done = saiten("score", "items.jsonl", "--url", url, folder=tmp_path, SAITEN_API_KEY=secrets.keys["client"])
    finally:
        site.stop()
    assert done.returncode != 0
    assert found_in((done.stdout + done.stderr).encode(), secrets.keys) == []


def test_the_search_would_find_each_look() -> None:
    for secret in (make_key(), make_text()):
        for look in looks_of(secret):
            assert found_in(b"before " + look + b" after", {"secret": secret}) == ["secret"]
    assert found_in(b"before after", {"secret": make_text()}) == []
    assert count_echo("x" + "あ" * 3 + "いう", "うああいう") == 4
