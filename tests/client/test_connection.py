"""What the client makes of a service's answers: what may pass is waited out, the rest is one sentence."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import certifi
import httpx
import pytest

from saiten import AnswerInvalid, AsyncClient, Connection, ServiceRefused, ServiceUnreachable, SignatureMismatch
from saiten.connection import ATTEMPTS, open_transport
from saiten.waiting import WaitingTransport
from saiten_server.scoring.store import KEY_SECONDS


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
    service = Service(problem(200), None, problem(502), problem(200, ok=True))
    async with service.client() as client:
        await client.greet()
        assert (await client.request("GET", "/")).json() == {"ok": True}
    assert service.pauses == [0.5, 1.0]


@pytest.mark.parametrize(("said", "pause"), [("7", 7.0), ("0", 0.5), ("3600", 60.0), ("Wed, 21 Oct", 0.5), ("²", 0.5)])
async def test_a_limit_says_how_long_to_wait(said: str, pause: float) -> None:
    service = Service(httpx.Response(429, headers=[(b"retry-after", said.encode())]), problem(200))
    await service.ask()
    assert service.pauses == [pause]


async def test_waiting_has_an_end() -> None:
    gone = Service(problem(200), None)
    async with gone.client() as client:
        await client.greet()
        with pytest.raises(ServiceUnreachable, match="the service gave no answer"):
            await client.request("GET", "/")
    # Half a second, then twice as long each time: 15.5 s in all.
    assert (gone.asked, sum(gone.pauses)) == (1 + ATTEMPTS, 15.5)
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
        (httpx.Response(401), "http://h needs a key; set SAITEN_API_KEY"),
        (httpx.Response(404), "is no Saiten service"),
    ],
)
async def test_what_is_no_service_is_said_at_once(answer: httpx.Response | None, words: str) -> None:
    async with Service(answer).client() as client:
        with pytest.raises(ServiceUnreachable, match=words):
            await client.greet()


@pytest.mark.parametrize("url", ["ftp://h", "http://h/?project=1", "http://h/#runs"])
def test_what_is_no_url_is_not_called(url: str) -> None:
    with pytest.raises(ServiceUnreachable, match="is not the URL of a service"):
        Connection(url)


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


async def test_lines_that_are_no_text_are_an_invalid_answer() -> None:
    async with Service(httpx.Response(200, content=b"\xff\n")).client() as client:
        with pytest.raises(AnswerInvalid, match="is not UTF-8"):
            [line async for line in client.results("ba_1")]


class Pieces(httpx.AsyncByteStream):
    """An answer of as many pieces as anybody reads, up to `most`; `sent` says how many."""

    def __init__(self, piece: bytes, most: int) -> None:
        self.piece, self.most, self.sent = piece, most, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.sent < self.most:
            self.sent += 1
            yield self.piece


@pytest.mark.parametrize("status", [200, 404, 429])
async def test_an_answer_without_an_end_is_given_up(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saiten.waiting.MOST_ANSWER_BYTES", 1000)
    monkeypatch.setattr("saiten.connection.MOST_ANSWER_BYTES", 1000)
    for asked in ("request", "lines"):
        endless = Pieces(b"x" * 100, 1000)
        service = Service(httpx.Response(status, headers={"Retry-After": "1"}, stream=endless))
        transport = WaitingTransport(httpx.MockTransport(service.answer), sleep=service.sleep)
        async with Connection("http://h", transport=transport) as client:
            with pytest.raises(AnswerInvalid, match="more than 1,000 bytes"):
                await client.request("GET", "/") if asked == "request" else [line async for line in client.lines("/")]
        assert endless.sent == 11


async def test_a_line_in_many_pieces_is_put_together() -> None:
    service = Service(httpx.Response(200, stream=Pieces("あ\n\nい".encode(), 3)))
    async with service.client() as client:
        assert [line async for line in client.lines("/")] == ["あ", "", "いあ", "", "いあ", "", "い"]


async def test_a_packed_answer_is_unpacked_once() -> None:
    packed = httpx.Response(200, headers={"content-encoding": "gzip"}, content=gzip.compress(b'{"ok": true}'))
    assert (await Service(packed).ask()).json() == {"ok": True}


async def test_a_code_that_is_no_text_is_no_limit_that_passes() -> None:
    odd = httpx.Response(429, headers={"Retry-After": "1"}, json={"code": [], "detail": "odd"})
    transport = WaitingTransport(httpx.MockTransport(lambda _: odd))
    async with Connection("http://h", transport=transport) as client:
        with pytest.raises(ServiceRefused, match="odd"):
            await client.request("GET", "/", again=False)


async def test_pages_that_lead_to_themselves_end() -> None:
    page = httpx.Response(200, headers={"X-Next-Cursor": "7"}, content=b'{"ratings": {"overall": 1}}\n')
    async with Service(page).client() as client:
        with pytest.raises(AnswerInvalid, match="leads to itself"):
            [found async for found in client.ratings()]


@pytest.mark.parametrize("said", [b"<html>", b"{}", b'{"removed": null}'])
async def test_a_number_that_is_missing_is_an_invalid_answer(said: bytes) -> None:
    async with AsyncClient("http://h") as client:
        client._connection = Service(httpx.Response(200, content=said)).client()
        with pytest.raises(AnswerInvalid, match="has no removed"):
            await client.remove_ratings(rater="r1")
        with pytest.raises(AnswerInvalid, match="has no removed"):
            await client.include(rater="r1")


async def test_a_key_may_end_in_a_line_break() -> None:
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["authorization"])
        return problem(200)

    async with Connection("http://h", api_key="k1\n", transport=httpx.MockTransport(answer)) as client:
        await client.info()
    assert sent == ["Bearer k1"]
    for key in ("キー", "k\n1"):
        with pytest.raises(ServiceUnreachable, match="the API key has characters that no key has"):
            Connection("http://h", api_key=key)


def test_certificates_are_read_where_they_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(url: str) -> int:
        return len(open_transport(url)._pool._ssl_context.get_ca_certs())  # type: ignore[union-attr]

    assert count("HTTP://h:80/saiten") == 0
    assert count("https://h") > 1
    end = "-----END CERTIFICATE-----\n"
    own = tmp_path / "ca.pem"
    own.write_text(Path(certifi.where()).read_text(encoding="utf-8").partition(end)[0] + end, encoding="utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(own))
    assert count("https://h") == 1


async def test_a_certificate_that_is_not_trusted_is_said_at_once() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", request=request)

    async with Connection("https://h", transport=httpx.MockTransport(refuse)) as client:
        with pytest.raises(ServiceUnreachable, match="set SSL_CERT_FILE"):
            await client.info()


async def test_a_request_waits_for_a_connection_as_long_as_the_others_take() -> None:
    asked: list[object] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.extensions["timeout"]["pool"])
        return problem(200)

    async with Connection("http://h", transport=httpx.MockTransport(answer)) as client:
        await client.info()
        [line async for line in client.lines("/", silent_seconds=1)]
    assert asked == [None, None]


async def test_a_key_is_waited_for_until_the_claim_of_a_service_that_broke_off_ends() -> None:
    service = Service(problem(200), None, problem(409, code="idempotency-key-in-use"))
    async with service.client() as client:
        await client.greet()
        with pytest.raises(ServiceRefused):
            await client.request("GET", "/")
    assert sum(service.pauses) > KEY_SECONDS


async def test_a_key_that_is_wrong_is_told_from_one_that_is_missing() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(401))
    async with Connection("http://h", api_key="wrong", transport=transport) as client:
        with pytest.raises(ServiceUnreachable, match="http://h refused the key"):
            await client.greet()


async def test_a_wrong_address_is_said_at_once_with_what_is_wrong() -> None:
    """Over real sockets, for commands and for the library alike. Nothing is waited for: pauses would fail."""

    async def speak_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async def never(seconds: float) -> None:
        raise AssertionError(f"it paused for {seconds} s")

    async with await asyncio.start_server(speak_plainly, "127.0.0.1", 0) as plain:
        port = plain.sockets[0].getsockname()[1]
        for url, words in (
            ("http://127.0.0.1:9", r"no service answers at http://127.0.0.1:9 \(ConnectError\)"),
            ("http://nobody.invalid:8000", "http://nobody.invalid:8000: the name of its host is not known"),
            (f"https://127.0.0.1:{port}", f"https://127.0.0.1:{port}: there is no HTTPS; try the URL with http://"),
        ):
            async with Connection(url, sleep=never) as client:
                for ask in (client.greet, client.info, partial(client.evaluate, {})):
                    with pytest.raises(ServiceUnreachable, match=words):
                        await ask()


async def test_the_first_connection_may_take_no_longer_than_a_few_seconds() -> None:
    limits: list[float] = []

    def answer(request: httpx.Request) -> httpx.Response:
        limits.append(request.extensions["timeout"]["connect"])
        return httpx.Response(200, json={})

    async with Connection("http://h", transport=httpx.MockTransport(answer)) as client:
        await client.info()
        await client.info()
    assert limits == [2.5, 10.0]
