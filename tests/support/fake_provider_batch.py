"""OpenAI's files, batches and chat endpoints on loopback, with what a test may want to happen to each line or request.

In a test: `async with FakeProviderBatch() as fake: fake.line = status(500)`. A batch ends when `fake.end(id)` is called,
or at the first question about it where `instant` is set.
"""

import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from aiohttp import web

from tests.support.fake_openai import Answer, Behaviour, Request, valid

Lines = Callable[[int, Request], Answer | None]


@dataclass
class StoredFile:
    """A file as it was sent or made."""

    id: str
    name: str
    content: bytes


def problem(status: int, message: str, code: str | None = None) -> web.Response:
    body = {"error": {"message": message, "type": None, "param": None, "code": code}}
    return web.json_response(body, status=status)


class FakeProviderBatch:
    """`line` answers a batch's lines by their number and body (None: the line expires), `chat` live requests.

    `refuse` holds, by the name of an endpoint (`upload`, `create`, `retrieve`, `list`, `content`, `delete`, `cancel`),
    what it answers in place of its own; `cut_off` names endpoints that do their work and then break the connection.
    `reword` may change an answer's line on its way into the file; a file breaks off after `break_after` bytes.
    """

    def __init__(self, *, instant: bool = False) -> None:
        self.instant = instant
        self.key: str | None = None
        self.chat: Behaviour = valid
        self.line: Lines = lambda _, request: valid(request)
        self.reword: Callable[[int, bytes], bytes] = lambda _, line: line
        self.refuse: dict[str, Answer] = {}
        self.cut_off: set[str] = set()
        self.break_after: int | None = None
        self.files: dict[str, StoredFile] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.live: list[Request] = []
        self.asked: list[str] = []
        self.clock: Callable[[], float] = time.time
        self.removed: list[str] = []
        self._numbers = itertools.count(1)
        self._port = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    async def __aenter__(self) -> "FakeProviderBatch":
        application = web.Application(client_max_size=2**28)
        routes = (
            ("POST", "/v1/files", "upload", self._upload),
            ("GET", "/v1/files", "list_files", self._list_files),
            ("GET", "/v1/files/{id}/content", "content", self._content),
            ("DELETE", "/v1/files/{id}", "delete", self._delete),
            ("POST", "/v1/batches", "create", self._create),
            ("GET", "/v1/batches", "list", self._list),
            ("GET", "/v1/batches/{id}", "retrieve", self._retrieve),
            ("POST", "/v1/batches/{id}/cancel", "cancel", self._cancel),
            ("POST", "/v1/chat/completions", "chat", self._chat),
        )
        for method, path, name, handler in routes:
            application.router.add_route(method, path, self._frame(name, handler))
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    def lines_of(self, batch_id: str) -> list[dict[str, Any]]:
        """What a batch was asked."""
        return [json.loads(line) for line in self.batches[batch_id]["_input"].splitlines()]

    def end(self, batch_id: str, status: str = "completed") -> None:
        """Answers the batch's lines; those that `line` leaves out expire, or are not told where it was cancelled."""
        batch = self.batches[batch_id]
        outputs: list[bytes] = []
        errors: list[bytes] = []
        for number, line in enumerate(self.lines_of(batch_id)):
            answer = self.line(number, line["body"])
            told: dict[str, Any] = {"id": f"batch_req_{number}", "custom_id": line["custom_id"]}
            if answer is None:
                expired = {"code": "batch_expired", "message": "This request could not be executed before it expired."}
                told |= {"response": None, "error": expired}
            else:
                response = {"status_code": answer.status, "request_id": f"req_{number}", "body": answer.body}
                told |= {"response": response, "error": None}
            ok = answer is not None and answer.status == 200
            (outputs if ok else errors).append(self.reword(number, json.dumps(told).encode()))
        # The provider promises no order.
        batch |= {
            "status": status,
            "output_file_id": self._store("output.jsonl", b"\n".join(reversed(outputs)) + b"\n") if outputs else None,
            "error_file_id": self._store("errors.jsonl", b"\n".join(errors) + b"\n") if errors else None,
        }

    def fail(self, batch_id: str, code: str, message: str) -> None:
        """The provider refuses the batch as a whole."""
        fault = {"code": code, "message": message, "line": None, "param": None}
        self.batches[batch_id] |= {"status": "failed", "errors": {"object": "list", "data": [fault]}}

    def _frame(self, name: str, handler: Any) -> Any:
        async def answer(request: web.Request) -> web.StreamResponse:
            self.asked.append(name)
            if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
                return problem(401, f"Incorrect API key provided: {request.headers.get('authorization')}")
            if refusal := self.refuse.get(name):
                return web.json_response(refusal.body, status=refusal.status, headers=refusal.headers)
            response: web.StreamResponse = await handler(request)
            if name in self.cut_off and request.transport is not None:
                request.transport.abort()
            return response

        return answer

    def _store(self, name: str, content: bytes) -> str:
        file = StoredFile(f"file-{next(self._numbers)}", name, content)
        self.files[file.id] = file
        return file.id

    async def _upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        sent = form["file"]
        assert isinstance(sent, web.FileField)
        assert form["purpose"] == "batch"
        return web.json_response(self._tell_file(self._store(sent.filename, sent.file.read())))

    def _tell_file(self, file_id: str) -> dict[str, Any]:
        file = self.files[file_id]
        return {
            "id": file.id,
            "object": "file",
            "bytes": len(file.content),
            "created_at": int(self.clock()),
            "filename": file.name,
            "purpose": "batch",
            "status": "processed",
        }

    async def _list_files(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": list(map(self._tell_file, self.files)), "has_more": False})

    async def _content(self, request: web.Request) -> web.StreamResponse:
        file = self.files.get(request.match_info["id"])
        if file is None:
            return problem(404, "No such File object")
        response = web.StreamResponse()
        await response.prepare(request)
        # Pieces that end in the middle of a line, and of a character.
        for start in range(0, len(file.content), 1_000):
            if self.break_after is not None and start >= self.break_after and request.transport is not None:
                request.transport.abort()
                break
            await response.write(file.content[start : start + 1_000])
        await response.write_eof()
        return response

    async def _delete(self, request: web.Request) -> web.Response:
        file_id = request.match_info["id"]
        if self.files.pop(file_id, None) is None:
            return problem(404, "No such File object")
        self.removed.append(file_id)
        return web.json_response({"id": file_id, "object": "file", "deleted": True})

    async def _create(self, request: web.Request) -> web.Response:
        sent = await request.json()
        if sent["input_file_id"] not in self.files:
            return problem(400, "The input file does not exist", "invalid_file")
        batch_id = f"batch_{next(self._numbers)}"
        self.batches[batch_id] = {
            "id": batch_id,
            "object": "batch",
            "endpoint": sent["endpoint"],
            "completion_window": sent["completion_window"],
            "input_file_id": sent["input_file_id"],
            "metadata": sent["metadata"],
            "created_at": int(self.clock()),
            "status": "in_progress",
            "_input": self.files[sent["input_file_id"]].content,
        }
        return web.json_response(self._tell(batch_id))

    def _tell(self, batch_id: str) -> dict[str, Any]:
        return {name: value for name, value in self.batches[batch_id].items() if name != "_input"}

    async def _list(self, request: web.Request) -> web.Response:
        after, limit = request.query.get("after"), int(request.query.get("limit", 20))
        newest = list(reversed(self.batches))
        start = newest.index(after) + 1 if after else 0
        page = newest[start : start + limit]
        more = len(newest) > start + limit
        return web.json_response({"object": "list", "data": [self._tell(one) for one in page], "has_more": more})

    async def _retrieve(self, request: web.Request) -> web.Response:
        batch_id = request.match_info["id"]
        if batch_id not in self.batches:
            return problem(404, "No such batch")
        if self.instant and self.batches[batch_id]["status"] == "in_progress":
            self.end(batch_id)
        return web.json_response(self._tell(batch_id))

    async def _cancel(self, request: web.Request) -> web.Response:
        batch = self.batches[request.match_info["id"]]
        if batch["status"] != "in_progress":
            return problem(409, "The batch has ended")
        batch["status"] = "cancelling"
        return web.json_response(self._tell(batch["id"]))

    async def _chat(self, request: web.Request) -> web.Response:
        sent = await request.json()
        self.live.append(sent)
        answer = self.chat(sent)
        return web.json_response(answer.body, status=answer.status, headers=answer.headers)
