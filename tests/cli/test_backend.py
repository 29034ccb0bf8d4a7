"""What the commands make of a service's answers."""

import httpx
import pytest

from saiten import AnswerInvalid, Connection, SaitenError, ServiceRefused, ServiceUnreachable
from saiten.waiting import WaitingTransport
from saiten_server.cli.backend import Backend
from tests.support.records import make_record

RECORD = make_record()
EVALUATION = RECORD.evaluation.model_dump(mode="json")


def service(*answers: httpx.Response | Exception) -> tuple[Backend, list[httpx.Request]]:
    """One that answers so, in order."""
    asked: list[httpx.Request] = []
    rest = list(answers)

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        answer = rest.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    transport = WaitingTransport(httpx.MockTransport(handle), sleep=at_once)
    return Backend(Connection("http://saiten.test", transport=transport)), asked


async def at_once(_: float) -> None:
    """Waits for nothing."""


async def test_the_record_is_read_back_with_its_trace() -> None:
    trace = [call.model_dump(mode="json") for call in RECORD.trace]
    stored = {**EVALUATION, "trace": trace}
    backend, asked = service(httpx.Response(200, json=EVALUATION), httpx.Response(200, json=stored))
    found = await backend.score({"response": "x"})
    assert (found.evaluation, found.trace) == (RECORD.evaluation, RECORD.trace)
    assert asked[1].url.path == f"/v1/evaluations/{RECORD.evaluation.id}"
    assert asked[1].url.params["include"] == "trace"


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        (httpx.Response(422, json={"code": "invalid-request", "detail": "no"}), ServiceRefused, "invalid-request"),
        (httpx.Response(502, json={"code": "judge-reply-invalid"}), ServiceRefused, "judge-reply-invalid"),
        (httpx.Response(502, text="<html>"), ServiceRefused, "http-502"),
        (httpx.ReadTimeout("late"), ServiceUnreachable, "service-unavailable"),
    ],
)
async def test_an_answer_without_an_evaluation_is_told_by_its_code(
    answer: httpx.Response | Exception, kind: type[SaitenError], code: str
) -> None:
    backend, asked = service(answer)
    with pytest.raises(kind) as told:
        await backend.score({"response": "x"})
    assert (type(told.value), told.value.code, len(asked)) == (kind, code, 1)


async def test_a_limit_of_the_key_is_waited_out() -> None:
    limited = httpx.Response(429, json={"code": "request-limit-reached"}, headers={"Retry-After": "0"})
    refused = httpx.Response(422, json={"code": "invalid-request"})
    backend, asked = service(limited, refused)
    with pytest.raises(ServiceRefused):
        await backend.score({"response": "x"})
    assert len(asked) == 2


async def test_a_service_of_another_version_is_said_to_be_one() -> None:
    backend, _ = service(httpx.Response(200, json={**EVALUATION, "novelty": 1}))
    with pytest.raises(AnswerInvalid, match="version"):
        await backend.score({"response": "x"})
