"""Bytes out, an answer or the SDK's error back: where a call goes through, what is sent, what an answer may hold."""

import gzip
import json

import openai
import pytest
from aiohttp import web

from saiten_server.providers.openai.endpoint import ChatLine, find_proxy
from saiten_server.providers.openai.errors import ReplyTooLarge
from tests.support.services import free_port

LARGEST = 10_000


class Upstream:
    """An endpoint, and a proxy, that answers everything alike and remembers what it was asked."""

    def __init__(self, body: bytes = b"{}", status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.answer = (body, status, headers or {})
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.port = free_port()

    async def __aenter__(self) -> "Upstream":
        self._runner = web.ServerRunner(web.Server(self._serve))
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _serve(self, request: web.BaseRequest) -> web.Response:
        self.asked.append((request.raw_path, dict(request.headers), await request.read()))
        body, status, headers = self.answer
        return web.Response(body=body, status=status, headers=headers)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def post(url: str, content: bytes = b'{"a":1}') -> bytes:
    line = ChatLine(url, "sk-word", largest_reply_bytes=LARGEST)
    try:
        return (await line.post(content))[0]
    finally:
        await line.close()


async def test_the_body_goes_out_as_it_is_with_key_and_type() -> None:
    async with Upstream(b'{"id":"x"}', headers={"x-ratelimit-limit-requests": "60"}) as upstream:
        line = ChatLine(upstream.url, "sk-word", largest_reply_bytes=LARGEST)
        answer = await line.post('{"text":"文"}'.encode())
        await line.close()
    path, headers, body = upstream.asked[0]
    assert (path, body) == ("/v1/chat/completions", '{"text":"文"}'.encode())
    assert headers["Authorization"] == "Bearer sk-word"
    assert headers["Content-Type"] == "application/json"
    assert headers["User-Agent"].startswith("saiten/")
    assert answer[0] == b'{"id":"x"}'
    assert (b"x-ratelimit-limit-requests", b"60") in answer[1]


async def test_a_cookie_is_not_brought_back() -> None:
    async with Upstream(headers={"Set-Cookie": "who=you; Path=/"}) as upstream:
        line = ChatLine(upstream.url, "k", largest_reply_bytes=LARGEST)
        await line.post(b"{}")
        await line.post(b"{}")
        await line.close()
    assert "Cookie" not in upstream.asked[1][1]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (302, openai.APIStatusError),
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (409, openai.ConflictError),
        (418, openai.APIStatusError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (529, openai.InternalServerError),
    ],
)
async def test_any_other_answer_than_a_success_is_the_sdks_error(
    status: int, error: type[openai.APIStatusError]
) -> None:
    said = {"error": {"message": "だめ", "code": "no_good", "param": "seed", "type": "bad"}}
    headers = {"Retry-After": "7", "Location": "http://127.0.0.1:9/elsewhere", "Content-Encoding": "gzip"}
    async with Upstream(gzip.compress(json.dumps(said).encode()), status, headers) as upstream:
        with pytest.raises(error) as caught:
            await post(upstream.url)
    assert type(caught.value) is error
    assert len(upstream.asked) == 1
    assert (caught.value.status_code, caught.value.code, caught.value.param) == (status, "no_good", "seed")
    assert caught.value.response.headers["retry-after"] == "7"
    assert caught.value.body == said["error"]


async def test_an_error_that_is_no_json_says_its_text() -> None:
    async with Upstream("<h1>だめ</h1>".encode(), 502, {"Content-Type": "text/html; charset=utf-8"}) as upstream:
        with pytest.raises(openai.InternalServerError) as caught:
            await post(upstream.url)
    assert caught.value.body == "<h1>だめ</h1>"


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize(("status", "error"), [(200, ReplyTooLarge), (500, openai.InternalServerError)])
async def test_no_more_is_read_than_is_allowed(status: int, error: type[Exception], encoded: bool) -> None:
    body, headers = b"x" * (LARGEST + 1), {}
    if encoded:
        body, headers = gzip.compress(b"x" * 1000 * LARGEST), {"Content-Encoding": "gzip"}
    async with Upstream(body, status, headers) as upstream:
        with pytest.raises(error):
            await post(upstream.url)


async def test_the_largest_body_is_read() -> None:
    async with Upstream(b"x" * LARGEST) as upstream:
        assert await post(upstream.url) == b"x" * LARGEST


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/v1",
        "http://no-such-host.invalid/v1",
        "ftp://127.0.0.1/v1",
        "http://[no",
        "http://h:99999/v1",
        "h",
    ],
)
async def test_an_address_where_nobody_answers_is_a_connection_error(url: str) -> None:
    with pytest.raises(openai.APIConnectionError):
        await post(url)


async def test_a_proxy_of_the_environment_is_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Upstream(b'{"by":"proxy"}') as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        assert await post("http://judge.invalid/v1") == b'{"by":"proxy"}'
    assert proxy.asked[0][0] == "http://judge.invalid/v1/chat/completions"


@pytest.mark.parametrize(
    ("variables", "proxy"),
    [
        ({}, None),
        ({"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ({"https_proxy": "p:1"}, "http://p:1"),
        ({"HTTP_PROXY": "http://p:1"}, None),
        ({"ALL_PROXY": "http://p:1"}, "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "example.com"}, "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "example.com,openai.com"}, None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
    ],
)
def test_which_proxy_the_environment_names(
    variables: dict[str, str], proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert find_proxy("https://api.openai.com/v1") == proxy
