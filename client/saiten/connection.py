"""Asks a Saiten service over HTTP."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx

from saiten.core import language
from saiten.core.addresses import is_http_url
from saiten.core.errors import AnswerInvalid, SaitenError, ServiceRefused, ServiceUnreachable, SignatureMismatch
from saiten.core.language import tell
from saiten.core.messages import DEFAULT_LANGUAGE
from saiten.waiting import MOST_ANSWER_BYTES, WaitingTransport, is_final, read_object, read_whole

JSON = "application/json"
NDJSON = "application/x-ndjson"
ROUNDS = "/v1/ratings/rounds"
PAIR_ROUNDS = "/v1/rounds"
HUMAN = "/v1/preferences/human"
EXCLUSIONS = "/v1/ratings/exclusions"

CONNECT_SECONDS = 10.0
FIRST_CONNECT_SECONDS = 2.5
"""To a service that has not answered yet: a wrong address is told of at once, and not tried again."""

READ_SECONDS = 300.0

PASSING_STATUSES = frozenset({429, 502, 503, 504})
"""Of what may pass by itself: a limit, or a proxy whose service is starting again."""

KEY_IN_USE = "idempotency-key-in-use"
"""The same request is still being worked on, as after a connection was lost."""

KEY_SECONDS = 3.0
"""The shortest pause then. A service that broke off holds a key for 20 s, and a long batch takes as long to accept."""

ATTEMPTS = 6
PAUSE_SECONDS = 0.5
"""After the first attempt; every further pause is twice as long, which makes a quarter of a minute in all."""

MOST_PAUSE_SECONDS = 60.0
POLL_SECONDS = 0.1
MOST_POLL_SECONDS = 2.0

Object = dict[str, Any]
Sleep = Callable[[float], Awaitable[None]]
Created = TypeVar("Created")


class Connection:
    """A connection to the service at `url`, as an asynchronous context manager. An answer may take `read_seconds`.

    Methods return the service's JSON. They raise ServiceUnreachable, ServiceRefused with the `code` of the problem
    document, and AnswerInvalid. Where a second attempt does no harm, what may pass by itself is waited for: limits, and
    a service that is starting again.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        read_seconds: float | None = READ_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        # Behind a query or a fragment no path can be written.
        if not is_http_url(url) or httpx.URL(url).query or httpx.URL(url).fragment:
            raise ServiceUnreachable(
                tell("{url!r} is not the URL of a service; write it like http://127.0.0.1:8000", url=url)
            )
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={**(authorize(api_key) if api_key else {}), **prefer_language()},
            timeout=time_limit(read_seconds),
            transport=transport or WaitingTransport(open_transport(url)),
        )
        self.sleep = sleep
        self._read_seconds = read_seconds
        self._met = False

    @property
    def url(self) -> str:
        """The service's address, without a user's name and password."""
        return str(self._http.base_url.copy_with(userinfo=b"")).rstrip("/")

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._http.__aexit__(kind, error, at)

    # The service

    async def greet(self) -> Object:
        """The answer of `GET /v1/info`. Raises ServiceUnreachable where no Saiten service takes the key."""
        try:
            response = await self._ask("GET", "/v1/info")
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None
        if response.status_code == 401 and "Authorization" not in self._http.headers:
            raise ServiceUnreachable(
                tell("{url} needs a key; set SAITEN_API_KEY to one that `saiten keys create` made", url=self.url)
            )
        if response.status_code in {401, 403}:
            raise ServiceUnreachable(
                tell("{url} refused the key; set SAITEN_API_KEY to one that `saiten keys create` made", url=self.url)
            )
        if not response.is_success:
            raise ServiceUnreachable(
                tell(
                    "{url} is no Saiten service (/v1/info answered {status_code})",
                    url=self.url,
                    status_code=response.status_code,
                )
            )
        return read_object(response)

    async def info(self) -> Object:
        """Version, judge, encoder and limits."""
        return read_object(await self.request("GET", "/v1/info"))

    async def rubrics(self) -> list[Object]:
        """Every rubric in its newest version."""
        return read_objects(read_object(await self.request("GET", "/v1/rubrics")), "rubrics")

    async def rubric(self, name: str) -> Object:
        """The rubric `id` or `id@version`."""
        return read_object(await self.request("GET", f"/v1/rubrics/{quote(name, safe='')}"))

    # Evaluations

    async def evaluate(self, request: Mapping[str, Any]) -> Object:
        """The evaluation of one response, or of one conversation (`turns`). It is asked for once: the service has tried
        its judge again itself."""
        path = "/v1/conversations" if "turns" in request else "/v1/evaluations"
        response = await self.send("POST", path, json=request)
        if not response.is_success:
            raise refusal(response)
        return read_object(response)

    async def evaluation(self, evaluation_id: str, *, trace: bool = False) -> Object:
        """A stored evaluation; with `trace` it has the judge's raw replies."""
        params = {"include": "trace"} if trace else {}
        return read_object(await self.request("GET", f"/v1/evaluations/{quote(evaluation_id)}", params=params))

    # Batches

    async def post_batch(self, body: bytes) -> Object:
        """Posts a batch as NDJSON. It is taken once, however often the request is sent."""
        return read_object(await self.request("POST", "/v1/batches", content=body, headers=once(NDJSON)))

    async def batch(self, batch_id: str) -> Object:
        """The batch as it is now."""
        return read_object(await self.request("GET", f"/v1/batches/{quote(batch_id)}"))

    async def batches(self, **query: str) -> list[Object]:
        """The newest batches that have these properties: `name`, `rubric`, `status`, `limit`."""
        return read_objects(read_object(await self.request("GET", "/v1/batches", params=query)), "items")

    async def wait(self, batch_id: str, *, progress: Callable[[Object], None] = lambda _: None) -> Object:
        """The batch once it is completed, paused or cancelled. `progress` is called with each state of it."""
        pause = POLL_SECONDS
        while True:
            batch = await self.batch(batch_id)
            progress(batch)
            if batch.get("status") in ("completed", "paused", "cancelled"):
                return batch
            await self.sleep(pause)
            pause = min(MOST_POLL_SECONDS, 1.25 * pause)

    async def cancel_batch(self, batch_id: str) -> None:
        """Cancels what is not scored yet."""
        await self.request("POST", f"/v1/batches/{quote(batch_id)}/cancel", again=False)

    async def results(self, batch_id: str, **query: str) -> AsyncGenerator[str, None]:
        """The batch's results in the order of its items, each as a line of JSON, or of CSV with `format`."""
        async with aclosing(self.lines(f"/v1/batches/{quote(batch_id)}/results", params=query)) as lines:
            async for line in lines:
                yield line

    async def summary(self, batch_id: str) -> Object:
        """The batch's statistics per aspect."""
        return read_object(await self.request("GET", f"/v1/batches/{quote(batch_id)}/summary"))

    # Comparisons and analyses

    async def compare(self, request: Mapping[str, Any]) -> Object:
        """The comparison of two batches. Raises SignatureMismatch."""
        return read_object(await self.request("POST", "/v1/comparisons", json=request))

    async def gate(self, request: Mapping[str, Any], lines: Iterable[Mapping[str, Any]] = ()) -> Object:
        """The verdict of a gate; `lines` are the results of runs that are no batches. It is kept once, however often
        the request is sent. Raises SignatureMismatch."""
        results = b"".join(map(write_line, lines))
        content, kind = (write_line(request) + results, NDJSON) if results else (json.dumps(request).encode(), JSON)
        headers = once(kind) if request.get("keep") else {"Content-Type": kind}
        return read_object(await self.request("POST", "/v1/gates", content=content, headers=headers))

    async def check_judge(self, request: Mapping[str, Any]) -> Object:
        """Whether the judge still rates the anchors as it did. It is checked once, however often this is sent."""
        return read_object(await self.request("POST", "/v1/judge-checks", json=request, headers=once(JSON)))

    async def analyse(self, name: str, request: Mapping[str, Any]) -> Object:
        """The analysis `name`, such as `agreement`, of data or of batches."""
        return read_object(await self.request("POST", f"/v1/analyses/{name}", json=request))

    # Human ratings

    async def post_ratings(self, ratings: Iterable[Mapping[str, Any]]) -> Object:
        """Keeps all ratings or none; `added` and `replaced` are in the answer."""
        body = b"".join(map(write_line, ratings))
        return read_object(await self.request("POST", "/v1/ratings", content=body, headers=once(NDJSON)))

    async def ratings(self, *, page: int = 1000, **query: str) -> AsyncGenerator[list[Object], None]:
        """Pages of ratings in the order in which they came in."""
        async for found in self._pages("/v1/ratings", page, query, read_rating):
            yield found

    async def _pages(
        self, path: str, page: int, query: Mapping[str, str], reading: Callable[[bytes], Object]
    ) -> AsyncGenerator[list[Object], None]:
        asked = {**query, "limit": str(page)}
        while True:
            response = await self.request("GET", path, params=asked)
            yield [reading(line) for line in response.content.split(b"\n") if line.strip()]
            cursor = response.headers.get("x-next-cursor")
            if cursor is None:
                return
            if cursor == asked.get("cursor"):
                raise AnswerInvalid(tell("the service's answer leads to itself; is it of this client's version?"))
            asked["cursor"] = cursor

    async def human_preferences(self, *, page: int = 1000, **query: str) -> AsyncGenerator[list[Object], None]:
        """Pages of what people prefer, in the order in which it came in."""
        async for found in self._pages(HUMAN, page, query, read_preference):
            yield found

    async def open_preference_round(self, options: Mapping[str, Any]) -> Object:
        """A new round of preferences of the runs that the options name."""
        content = json.dumps({"kind": "preference", **options}).encode()
        return read_object(await self.request("POST", PAIR_ROUNDS, content=content, headers=once(JSON)))

    async def open_round(self, options: Mapping[str, Any]) -> Object:
        """A new rating round of the batch that the options name."""
        content = json.dumps(options).encode()
        return read_object(await self.request("POST", ROUNDS, content=content, headers=once(JSON)))

    async def exclude_ratings(self, exclusion: Mapping[str, str]) -> Object:
        """Leaves a `rater` or a `round` out of analyses; `added` is in the answer."""
        content = json.dumps(exclusion).encode()
        return read_object(await self.request("POST", EXCLUSIONS, content=content, headers=once(JSON)))

    async def include_ratings(self, exclusion: Mapping[str, str]) -> Object:
        """Takes an exclusion back; `removed` is in the answer."""
        return read_object(await self.request("DELETE", EXCLUSIONS, params=dict(exclusion)))

    # Requests

    async def lines(
        self,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        silent_seconds: float | None = None,
    ) -> AsyncGenerator[str, None]:
        """The answer to `GET path`, line by line, as it comes in. Raises ServiceUnreachable where it breaks off, or
        where nothing came for `silent_seconds`, and AnswerInvalid for a line that is too long or no text."""
        timeout: Any = httpx.USE_CLIENT_DEFAULT
        if silent_seconds is not None:
            timeout = time_limit(silent_seconds)
        try:
            asked = self._http.stream("GET", path, params=params, headers=headers, timeout=timeout)
            async with asked as response:
                if not response.is_success:
                    raise refusal(await read_whole(response))
                rest, size = list[bytes](), 0
                # Not `aiter_lines`, which also divides at U+2028 and other characters that JSON may hold as they are.
                async for piece in response.aiter_bytes():
                    *found, last = piece.split(b"\n")
                    for line in found:
                        yield b"".join([*rest, line]).decode()
                        rest, size = [], 0
                    rest.append(last)
                    size += len(last)
                    if size > MOST_ANSWER_BYTES:
                        raise AnswerInvalid(
                            tell("the service's answer has more than {most:,} bytes", most=MOST_ANSWER_BYTES)
                        )
                if size:
                    yield b"".join(rest).decode()
        except UnicodeDecodeError:
            raise AnswerInvalid(tell("the answer to GET {path} is not UTF-8", path=path)) from None
        except httpx.HTTPError as error:
            raise ServiceUnreachable(
                tell("the answer to GET {path} broke off ({error})", path=path, error=type(error).__name__)
            ) from error

    async def send(self, method: str, path: str, **what: Any) -> httpx.Response:
        """One request's answer, whatever its status. Raises ServiceUnreachable."""
        try:
            return await self._ask(method, path, **what)
        except httpx.HTTPError as error:
            if is_elsewhere(error):
                raise self._unreachable(error) from None
            raise ServiceUnreachable(
                tell("{url} gave no answer ({error})", url=self.url, error=type(error).__name__)
            ) from None

    async def _ask(self, method: str, path: str, **what: Any) -> httpx.Response:
        """One request's answer. Raises httpx.HTTPError; soon, where the service has not answered before and cannot be
        reached."""
        if not self._met:
            what.setdefault("timeout", time_limit(self._read_seconds, FIRST_CONNECT_SECONDS))
        async with self._http.stream(method, path, **what) as response:
            whole = await read_whole(response)
        self._met = True
        return whole

    def _unreachable(self, error: httpx.HTTPError) -> ServiceUnreachable:
        """What is wrong with the address, as far as the error of a first request tells."""
        causes = list_causes(error)
        said = " ".join(map(str, causes))
        if "CERTIFICATE_VERIFY_FAILED" in said:
            words = tell("the certificate of {url} is not trusted; set SSL_CERT_FILE to that of your CA", url=self.url)
        elif any(isinstance(cause, socket.gaierror) for cause in causes):
            words = tell("no service answers at {url}: the name of its host is not known; check the URL", url=self.url)
        elif any(isinstance(cause, ssl.SSLError) for cause in causes):
            words = tell("no service answers at {url}: there is no HTTPS; try the URL with http://", url=self.url)
        else:
            words = tell(
                "no service answers at {url} ({error}); start it with `saiten serve`",
                url=self.url,
                error=type(error).__name__,
            )
        return ServiceUnreachable(words)

    async def request(self, method: str, path: str, *, again: bool = True, **what: Any) -> httpx.Response:
        """A successful answer. `again`: a second attempt does no harm, so what may pass by itself is waited for."""
        pause = PAUSE_SECONDS
        for left in reversed(range(ATTEMPTS if again else 1)):
            try:
                response = await self._ask(method, path, **what)
            except httpx.HTTPError as error:
                if "CERTIFICATE_VERIFY_FAILED" in str(error) or (not self._met and is_elsewhere(error)):
                    raise self._unreachable(error) from None
                if not left:
                    raise ServiceUnreachable(
                        tell("the service gave no answer ({error}); is it still up?", error=type(error).__name__)
                    ) from None
            else:
                if response.is_success:
                    return response
                refused = refusal(response)
                if not left or not may_pass(refused) or is_final(response):
                    raise refused
                pause = max(pause, KEY_SECONDS if refused.code == KEY_IN_USE else wished_pause(response))
            await self.sleep(pause)
            pause *= 2
        raise ServiceUnreachable(tell("the service gave no answer"))


SEE_THROUGH_SECONDS = 60.0


async def see_through(creating: Coroutine[Any, Any, Created], *, undo: Callable[[str], Awaitable[object]]) -> Created:
    """The answer of a request that creates something with an `id`. Where the caller is interrupted meanwhile, the
    answer is waited for, since only its id lets `undo` take back what the service has accepted; then CancelledError
    goes on.
    """
    asked = asyncio.ensure_future(creating)
    try:
        return await asyncio.shield(asked)
    except asyncio.CancelledError:
        # Also where nothing has reached the service yet: an accepted batch would go on and cost money.
        with suppress(SaitenError, TimeoutError):
            created = await asyncio.wait_for(asked, SEE_THROUGH_SECONDS)
            found = created.get("id") if isinstance(created, dict) else getattr(created, "id", None)
            if isinstance(found, str):
                await undo(found)
        raise


def is_elsewhere(error: httpx.HTTPError) -> bool:
    """Whether no connection was made at all."""
    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)


def list_causes(error: BaseException) -> list[BaseException]:
    """The error with what it was raised from, the innermost last."""
    found = [error]
    while (cause := found[-1].__cause__ or found[-1].__context__) is not None:
        found.append(cause)
    return found


def time_limit(read_seconds: float | None, connect_seconds: float = CONNECT_SECONDS) -> httpx.Timeout:
    """Of each step of a request. Those that wait for one of the connections do so as long as the others take."""
    return httpx.Timeout(CONNECT_SECONDS, connect=connect_seconds, read=read_seconds, pool=None)


def open_transport(url: str) -> httpx.AsyncHTTPTransport:
    """What sends requests to `url`, without a proxy. Trusts the certificates in SSL_CERT_FILE or SSL_CERT_DIR, else
    the public ones, which take 20 to 40 ms to read: over plain HTTP, where redirects are not followed, none are."""
    return httpx.AsyncHTTPTransport(verify=httpx.URL(url).scheme != "http")


def prefer_language() -> dict[str, str]:
    """The header that asks for messages in the command's language; none from the library, which speaks English."""
    chosen = language.language
    return {} if chosen == DEFAULT_LANGUAGE else {"Accept-Language": f"{chosen}, en;q=0.5"}


def authorize(api_key: str) -> dict[str, str]:
    """The header with the key. Raises ServiceUnreachable for a key that no header can hold."""
    key = api_key.strip()
    if not (key.isascii() and key.isprintable()):
        raise ServiceUnreachable(tell("the API key has characters that no key has; copy it again"))
    return {"Authorization": f"Bearer {key}"}


def once(content_type: str, key: str | None = None) -> dict[str, str]:
    """Headers of a request that creates something once, however often it is sent: by this process, or with a key also
    by others. Raises ValueError for a key that no header can hold."""
    if key is not None and not (1 <= len(key) <= 255 and key.isascii() and key.isprintable()):
        raise ValueError(f"an idempotency key is 1 to 255 printable ASCII characters, not {key[:80]!r}")
    return {"Content-Type": content_type, "Idempotency-Key": key or secrets.token_hex(16)}


def write_line(value: Mapping[str, Any]) -> bytes:
    """The value as a line of NDJSON."""
    return (json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n").encode()


def read_objects(answer: Object, name: str) -> list[Object]:
    """The objects in the list `name` of an answer."""
    found = answer.get(name)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise AnswerInvalid(tell("the service's answer has no {name}; is it of this client's version?", name=name))
    return found


def read_rating(line: bytes) -> Object:
    """A line of ratings."""
    found = read_one(line)
    if not isinstance(found.get("ratings"), dict):
        raise AnswerInvalid(tell("the service's answer holds no ratings; is it of this client's version?"))
    return found


def read_preference(line: bytes) -> Object:
    """A line of preferences."""
    found = read_one(line)
    if "preference" not in found:
        name = "preference"
        raise AnswerInvalid(tell("the service's answer has no {name}; is it of this client's version?", name=name))
    return found


def read_one(line: bytes) -> Object:
    """The object of a line; empty where there is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def may_pass(error: ServiceRefused) -> bool:
    """Whether the same request may succeed in a moment. The service has tried its judge and translator again itself."""
    upstream = error.code.startswith(("judge-", "translator-"))
    return error.code == KEY_IN_USE or (error.status in PASSING_STATUSES and not upstream)


def wished_pause(response: httpx.Response) -> float:
    """Seconds that the service asked for in `Retry-After`, a minute at most; 0 where it named none."""
    seconds = response.headers.get("retry-after", "")
    return min(float(seconds), MOST_PAUSE_SECONDS) if seconds.isascii() and seconds.isdigit() else 0.0


def refusal(response: httpx.Response) -> ServiceRefused:
    """The error that an answer reports."""
    answer = read_object(response)
    detail = answer.get("detail")
    reason = detail if isinstance(detail, str) else f"the service answered {response.status_code} without a reason"
    kind = SignatureMismatch if answer.get("code") == "signature-mismatch" else ServiceRefused
    return kind(reason, answer, response.status_code)
