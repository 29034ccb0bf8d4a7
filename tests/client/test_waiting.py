"""A service's limits are waited out by the commands, within bounds, and nothing else is."""

from collections.abc import Sequence

import httpx
import pytest

from saiten import Connection, ServiceRefused
from saiten.waiting import MOST_SECONDS, WaitingTransport


class Service:
    """Gives these answers in turn, the last one for ever. `bodies` are those that were sent, `pauses` those between."""

    def __init__(self, *answers: httpx.Response) -> None:
        self.answers: Sequence[httpx.Response] = answers
        self.bodies: list[bytes] = []
        self.pauses: list[float] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(request.content)
        found = self.answers[min(len(self.bodies), len(self.answers)) - 1]
        # A new one each time, as over a network: one that was read cannot be read again.
        return httpx.Response(found.status_code, headers=found.headers, content=found.content)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def client(self, spread: float = 1.0) -> Connection:
        inner = httpx.MockTransport(self.answer)
        waiting = WaitingTransport(inner, sleep=self.sleep, spread=lambda low, high: min(max(spread, low), high))
        return Connection("http://h", sleep=self.sleep, transport=waiting)


def limited(code: str, seconds: str = "7", status: int = 429) -> httpx.Response:
    return httpx.Response(status, headers={"retry-after": seconds}, json={"code": code, "detail": "too much"})


FINE = httpx.Response(200, json={"ok": True})


@pytest.mark.parametrize(
    ("code", "status"), [("request-limit-reached", 429), ("queue-limit-reached", 429), ("overloaded", 503)]
)
async def test_a_limit_that_passes_is_waited_out_and_the_same_is_sent_again(code: str, status: int) -> None:
    service = Service(limited(code, status=status), limited(code, "0", status), FINE)
    async with service.client() as client:
        answer = await client.send("POST", "/v1/evaluations", json={"response": "はい"})
    assert answer.json() == {"ok": True}
    assert service.pauses == [7.0, 1.0]
    assert len(set(service.bodies)) == 1
    assert len(service.bodies) == 3


async def test_those_who_were_told_the_same_come_back_apart_and_never_early() -> None:
    service = Service(limited("overloaded", "10", 503), FINE)
    async with service.client(spread=9.0) as client:
        await client.send("GET", "/")
    assert service.pauses == [12.0]


OTHERS = {
    "a day's money": limited("cost-limit-reached", "40000"),
    "a judge that is away": limited("judge-unavailable", "10", 503),
    "a quota": limited("judge-quota-exhausted", "10", 503),
    "no time": httpx.Response(429, json={"code": "request-limit-reached"}),
    "a date": limited("request-limit-reached", "Wed, 21 Oct 2026 07:28:00 GMT"),
    "a proxy without its service": httpx.Response(503, headers={"retry-after": "5"}, content=b"<html>"),
    "a mistake": httpx.Response(422, headers={"retry-after": "5"}, json={"code": "invalid-request"}),
}


@pytest.mark.parametrize("answer", OTHERS.values(), ids=OTHERS.keys())
async def test_whatever_else_is_an_answer(answer: httpx.Response) -> None:
    service = Service(answer)
    async with service.client() as client:
        got = await client.send("GET", "/")
    assert (got.status_code, got.content, service.pauses) == (answer.status_code, answer.content, [])


async def test_a_limit_of_a_proxy_is_waited_out_too() -> None:
    service = Service(httpx.Response(429, headers={"retry-after": "2"}, content=b"slow down"), FINE)
    async with service.client() as client:
        assert (await client.send("GET", "/")).is_success
    assert service.pauses == [2.0]


async def test_waiting_has_an_end_and_the_answer_can_still_be_read() -> None:
    service = Service(limited("request-limit-reached", "60"))
    async with service.client() as client:
        with pytest.raises(ServiceRefused, match="too much"):
            await anext(client.results("ba_1"))
    assert sum(service.pauses) == MOST_SECONDS


async def test_what_was_waited_out_in_vain_is_not_waited_for_again() -> None:
    service = Service(limited("queue-limit-reached", "60"))
    async with service.client() as client:
        with pytest.raises(ServiceRefused, match="too much"):
            await client.request("GET", "/")
    assert sum(service.pauses) == MOST_SECONDS


async def test_a_days_money_is_not_waited_for() -> None:
    service = Service(limited("cost-limit-reached", "40000"))
    async with service.client() as client:
        with pytest.raises(ServiceRefused, match="too much"):
            await client.request("POST", "/")
    assert (len(service.bodies), service.pauses) == (1, [])


async def test_what_must_not_be_done_twice_is_sent_again_where_nothing_was_begun() -> None:
    service = Service(limited("overloaded", "3", 503), FINE)
    async with service.client() as client:
        assert (await client.request("POST", "/", again=False)).is_success
    assert service.pauses == [3.0]


async def test_a_service_that_limits_its_callers_is_still_a_service() -> None:
    service = Service(limited("request-limit-reached"), FINE)
    async with service.client() as client:
        await client.greet()
    assert service.pauses == [7.0]
