"""What the client makes of a service's answers: what may pass is waited out, the rest is one sentence."""

from __future__ import annotations

from collections.abc import Sequence

import httpx
import pytest

from saiten import Connection, ServiceRefused, ServiceUnreachable, SignatureMismatch
from saiten.connection import ATTEMPTS


class Service:
    """Gives these answers in turn, the last one for ever; None is no answer. `pauses` are those between them."""

    def __init__(self, *answers: httpx.Response | None) -> None:
        self.answers: Sequence[httpx.Response | None] = answers
        self.asked = 0
        self.pauses: list[float] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        found = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if found is None:
            raise httpx.ConnectError("gone", request=request)
        return found

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def ask(self, *, again: bool = True) -> httpx.Response:
        async with self.client() as client:
            return await client.request("GET", "/", again=again)

    def client(self) -> Connection:
        return Connection("http://h", transport=httpx.MockTransport(self.answer), sleep=self.sleep)


def problem(status: int, **answer: object) -> httpx.Response:
    return httpx.Response(status, json=answer)


async def test_a_service_that_starts_anew_is_waited_for() -> None:
    service = Service(None, problem(502), problem(200, ok=True))
    assert (await service.ask()).json() == {"ok": True}
    assert service.pauses == [0.5, 1.0]


@pytest.mark.parametrize(("said", "pause"), [("7", 7.0), ("0", 0.5), ("3600", 60.0), ("Wed, 21 Oct", 0.5), ("²", 0.5)])
async def test_a_limit_says_how_long_to_wait(said: str, pause: float) -> None:
    service = Service(httpx.Response(429, headers=[(b"retry-after", said.encode())]), problem(200))
    await service.ask()
    assert service.pauses == [pause]


async def test_waiting_has_an_end() -> None:
    gone = Service(None)
    with pytest.raises(ServiceUnreachable, match="the service gave no answer"):
        await gone.ask()
    # Half a second, then twice as long each time: 15.5 s in all.
    assert (gone.asked, sum(gone.pauses)) == (ATTEMPTS, 15.5)
    busy = Service(problem(503, detail="the store cannot be reached"))
    with pytest.raises(ServiceRefused, match="the store cannot be reached"):
        await busy.ask()


async def test_what_must_not_be_asked_twice_is_not() -> None:
    for service in (Service(None), Service(problem(503, detail="busy"))):
        with pytest.raises((ServiceUnreachable, ServiceRefused)):
            await service.ask(again=False)
        assert (service.asked, service.pauses) == (1, [])


async def test_a_no_is_not_asked_again() -> None:
    service = Service(problem(404, detail="there is no such batch", code="not-found"))
    with pytest.raises(ServiceRefused) as caught:
        await service.ask()
    assert (service.asked, caught.value.detail) == (1, "there is no such batch")
    assert caught.value.answer["code"] == "not-found"


async def test_a_page_in_place_of_a_problem() -> None:
    with pytest.raises(ServiceRefused, match="the service answered 403 without a reason"):
        await Service(httpx.Response(403, content=b"<html>")).ask()


async def test_a_signature_mismatch_keeps_its_pieces() -> None:
    pieces = {"model": ["a", "b"], "odd": "x"}
    with pytest.raises(SignatureMismatch) as caught:
        await Service(problem(409, code="signature-mismatch", detail="differs", pieces=pieces)).ask()
    assert caught.value.pieces == {"model": ("a", "b")}


@pytest.mark.parametrize("content", [b"", b"<html>", b"[1]", b"\xff", b"null", b"[" * 100_000])
async def test_an_answer_that_is_no_object_is_empty(content: bytes) -> None:
    async with Service(httpx.Response(200, content=content)).client() as client:
        assert await client.info() == {}


async def test_a_batch_is_asked_for_until_it_is_done() -> None:
    states = [
        httpx.Response(200, json={"id": "ba_1", "status": status}) for status in ("queued", "running", "completed")
    ]
    service = Service(*states)
    seen: list[str] = []
    async with service.client() as client:
        done = await client.wait("ba_1", progress=lambda batch: seen.append(batch["status"]))
    assert (done["status"], seen) == ("completed", ["queued", "running", "completed"])
    assert service.pauses == [0.1, 0.125]


async def test_faults_are_read_from_a_problem_document() -> None:
    listed = [{"pointer": "/items/0", "detail": "is blank"}, "odd"]
    with pytest.raises(ServiceRefused) as caught:
        await Service(problem(422, code="invalid-request", detail="no", errors=listed)).ask()
    assert (caught.value.code, caught.value.status) == ("invalid-request", 422)
    assert caught.value.faults == [("/items/0", "is blank")]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "no service answers at http://h"),
        (httpx.Response(401), "refused the key"),
        (httpx.Response(404), "is no Saiten service"),
    ],
)
async def test_what_is_no_service_is_said_at_once(answer: httpx.Response | None, words: str) -> None:
    async with Service(answer).client() as client:
        with pytest.raises(ServiceUnreachable, match=words):
            await client.greet()


def test_what_is_no_url_is_not_called() -> None:
    with pytest.raises(ServiceUnreachable, match="is not the URL of a service"):
        Connection("ftp://h")


async def test_a_line_ends_at_a_line_break_alone() -> None:
    lines = ['{"reason":"一\u2028二\u0085三"}', '{"reason":""}']
    service = Service(httpx.Response(200, content="\n".join([*lines, ""]).encode()))
    async with service.client() as client:
        assert [line async for line in client.results("ba_1")] == lines


async def test_what_the_service_tried_again_itself_is_not_asked_again() -> None:
    for code in ("judge-unavailable", "translator-quota-exhausted"):
        service = Service(problem(503, code=code, detail="away"))
        with pytest.raises(ServiceRefused, match="away"):
            await service.ask()
        assert service.asked == 1
    service = Service(problem(409, code="idempotency-key-in-use", detail="still at it"), problem(200))
    await service.ask()
    assert service.asked == 2
