"""Results and alarms are sent once each; a sink that is dead waits, and what it refuses is given up and counted."""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import certifi
import httpx
import pytest

from saiten_server.core.errors import InvalidRequest, SettingsInvalid
from saiten_server.monitors.sinks import sending
from saiten_server.monitors.sinks import store as outbox_store
from saiten_server.monitors.sinks.sending import SENT_AT_ONCE, Sender, open_client
from saiten_server.monitors.sinks.values import (
    SentAlarm,
    SentScores,
    SinkKeys,
    key_of_sink,
    origin_of,
    read_sinks,
)
from saiten_server.monitors.sinks.writing import tell_alarm, write_alarm, write_scores
from saiten_server.monitors.values import Alarm, MonitorChange, Sink, SinkState
from tests.support.batches import START
from tests.support.live import PROJECT, MonitorBench, make_live

SINK = {"kind": "phoenix", "url": "http://sink.example"}
HOOK = {"kind": "webhook", "url": "http://hooks.example/services/a"}

KINDS: tuple[Literal["otlp", "langfuse", "phoenix", "mlflow"], ...] = ("otlp", "langfuse", "phoenix", "mlflow")

Answer = Callable[[httpx.Request], httpx.Response]


class Receiver:
    """A service that keeps what it is sent."""

    def __init__(self, answer: Answer = lambda _: httpx.Response(200)) -> None:
        self.requests: list[httpx.Request] = []
        self.answer = answer

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answer(request)
        if not answer.is_stream_consumed:
            return answer
        return httpx.Response(answer.status_code, headers=answer.headers, stream=httpx.ByteStream(b"{}"))

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(one.content) for one in self.requests]


def make_sender(bench: MonitorBench) -> Sender:
    return Sender(
        outbox=bench.outbox,
        keys=bench.service.sinks,
        open_client=open_client,
        now=bench.clock,
        telemetry=bench.work.instruments.telemetry,
    )


async def send(bench: MonitorBench, receiver: Receiver) -> int:
    """Lets each sink have a turn; returns how many requests that made."""
    before = len(receiver.requests)
    async with httpx.AsyncClient(transport=httpx.MockTransport(receiver)) as client, asyncio.TaskGroup() as group:
        make_sender(bench).begin_turns(client, group, await bench.outbox.backlog(bench.clock()))
    return len(receiver.requests) - before


async def score_some(bench: MonitorBench, *names: str) -> None:
    bench.live.close(*(make_live(name) for name in names))
    await bench.work.do_round()
    await bench.score(7.0, faulty=1)
    await bench.work.do_round()


async def state(bench: MonitorBench, monitor_id: str) -> SinkState:
    return (await bench.service.show(PROJECT, monitor_id)).sinks[0]


async def test_a_result_is_sent_once_with_the_operators_key(bench: MonitorBench) -> None:
    monitor = await bench.make(send_to=[SINK, HOOK])
    assert [(one.kind, one.waiting) for one in monitor.sinks] == [("phoenix", 0), ("webhook", 0)]
    await score_some(bench, "a")
    receiver = Receiver()
    assert await send(bench, receiver) == 1
    assert await send(bench, receiver) == 0
    (request,) = receiver.requests
    assert (str(request.url), request.headers["authorization"]) == (
        "http://sink.example/v1/session_annotations?sync=true",
        "Bearer KEY",
    )
    named = {one["name"]: one for one in receiver.bodies[0]["data"]}
    assert {name: one["result"]["score"] for name, one in named.items()} == {"overall": 7.0, "faulty_turns": 1.0}
    assert named["overall"]["session_id"] == "a"
    found = await state(bench, monitor.id)
    assert (found.waiting, found.sent, found.dropped, found.last_error) == (0, 1, 0, None)


async def test_a_dead_sink_is_left_alone_for_longer_each_time_and_loses_nothing(bench: MonitorBench) -> None:
    monitor = await bench.make(send_to=[SINK])
    await score_some(bench, "a", "b")
    dead = Receiver(lambda _: httpx.Response(503))
    assert await send(bench, dead) == 2
    assert await send(bench, dead) == 0
    found = await state(bench, monitor.id)
    assert (found.waiting, found.last_error) == (2, "status-503")
    # Scoring goes on meanwhile.
    await score_some(bench, "c")
    bench.clock.move(4)
    assert await send(bench, dead) == 0
    bench.clock.move(60)
    assert await send(bench, Receiver()) == 3
    found = await state(bench, monitor.id)
    assert (found.waiting, found.sent) == (0, 3)


async def test_what_fails_together_counts_once_and_one_piece_asks_whether_the_sink_is_back(bench: MonitorBench) -> None:
    monitor = await bench.make(send_to=[SINK])
    await score_some(bench, *"abcdefghijkl")
    dead = Receiver(lambda _: httpx.Response(503))
    assert await send(bench, dead) == SENT_AT_ONCE
    bench.clock.move(6)
    assert await send(bench, dead) == 1
    bench.clock.move(9)
    assert await send(bench, dead) == 0
    bench.clock.move(2)
    assert await send(bench, Receiver()) == 12
    assert (await state(bench, monitor.id)).sent == 12


async def test_the_pause_that_a_sink_asks_for_is_kept(quick: MonitorBench) -> None:
    await quick.make(send_to=[SINK])
    await score_some(quick, "a")
    await send(quick, Receiver(lambda _: httpx.Response(429, headers={"Retry-After": "600"})))
    quick.clock.move(599)
    assert await send(quick, Receiver()) == 0
    quick.clock.move(2)
    assert await send(quick, Receiver()) == 1


@pytest.mark.parametrize("status", [400, 413])
async def test_what_a_sink_refuses_is_given_up_and_counted(quick: MonitorBench, status: int) -> None:
    monitor = await quick.make(send_to=[SINK])
    await score_some(quick, "a")
    await send(quick, Receiver(lambda _: httpx.Response(status)))
    found = await state(quick, monitor.id)
    assert (found.waiting, found.dropped, found.last_error) == (0, 1, f"status-{status}")


async def test_a_wrong_key_waits_for_the_operator(quick: MonitorBench) -> None:
    monitor = await quick.make(send_to=[SINK])
    await score_some(quick, "a")
    await send(quick, Receiver(lambda _: httpx.Response(401)))
    assert (await state(quick, monitor.id)).waiting == 1


async def test_a_monitor_is_removed_while_its_sinks_are_sent_to(bench: MonitorBench) -> None:
    for _ in range(4):
        monitor = await bench.make(send_to=[SINK])
        await score_some(bench, *"abcdefgh")
        (waiting,) = await bench.outbox.backlog(bench.clock())
        taken = await bench.outbox.take(waiting.place, bench.clock(), SENT_AT_ONCE)
        assert len(taken) == SENT_AT_ONCE
        ends = [
            bench.outbox.put_off(one, bench.clock(), "timeout") if number % 2 else bench.outbox.settle(one)
            for number, one in enumerate(taken)
        ]
        await asyncio.gather(bench.service.remove(PROJECT, monitor.id), *ends)
        # Nor is anything noted of one that is gone.
        assert await bench.outbox.put_off(taken[0], bench.clock(), "timeout") is False
        await bench.outbox.settle(taken[0])


async def test_the_log_names_the_sink_that_does_not_take_it_once_a_try(
    quick: MonitorBench, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = await quick.make(send_to=[SINK])
    await score_some(quick, "a", "b")
    await send(quick, Receiver(lambda _: httpx.Response(401)))
    quick.clock.move(6)
    await send(quick, Receiver(lambda _: httpx.Response(400)))
    told = [vars(record) for record in caplog.records if record.name == "saiten.monitors"]
    assert [one["code"] for one in told] == ["status-401", "status-400", "status-400"]
    assert {(one["target"], one["kind"], one["levelname"]) for one in told} == {(monitor.id, "phoenix", "WARNING")}


async def test_an_untrusted_certificate_is_named(quick: MonitorBench) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no") from ssl.SSLCertVerificationError()

    monitor = await quick.make(send_to=[SINK])
    await score_some(quick, "a")
    await send(quick, Receiver(refuse))
    assert (await state(quick, monitor.id)).last_error == "certificate"


def test_certificates_are_those_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end = "-----END CERTIFICATE-----\n"
    own = tmp_path / "ca.pem"
    own.write_text(Path(certifi.where()).read_text(encoding="utf-8").partition(end)[0] + end, encoding="utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(own))
    context = cast(Any, open_client())._transport._pool._ssl_context
    assert len(context.get_ca_certs()) == 1


async def test_a_proxy_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "sink.example")
    client = cast(Any, open_client())
    direct = client._transport_for_url(httpx.URL("https://sink.example/"))
    assert direct is client._transport
    assert client._transport_for_url(httpx.URL("https://hooks.example/")) is not direct


async def test_the_age_of_what_waits_is_told(quick: MonitorBench) -> None:
    await quick.make(send_to=[SINK, HOOK])
    await score_some(quick, "a")
    quick.clock.move(60)
    await score_some(quick, "b")
    told: list[tuple[int, float]] = []
    telemetry = SimpleNamespace(outbox=lambda *figures: told.append(figures), sent=lambda *_: None)

    async def stop(_: float) -> None:
        raise asyncio.CancelledError

    sender = replace(
        make_sender(quick),
        telemetry=cast(Any, telemetry),
        open_client=lambda: httpx.AsyncClient(transport=httpx.MockTransport(Receiver())),
        sleep=stop,
    )
    with pytest.raises(asyncio.CancelledError):
        await sender.run()
    assert told == [(2, 60.0)]


async def test_a_redirect_is_not_followed(quick: MonitorBench) -> None:
    await quick.make(send_to=[SINK])
    await score_some(quick, "a")
    receiver = Receiver(lambda _: httpx.Response(302, headers={"Location": "http://127.0.0.1/inside"}))
    await send(quick, receiver)
    assert len(receiver.requests) == 1


async def test_the_backlog_is_bounded_and_the_oldest_goes(bench: MonitorBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_store, "BACKLOG", 2)
    monitor = await bench.make(send_to=[SINK])
    for name in ("a", "b", "c"):
        bench.clock.move(1)
        await score_some(bench, name)
    found = await state(bench, monitor.id)
    assert (found.waiting, found.dropped, found.last_error) == (2, 1, "backlog-full")
    receiver = Receiver()
    await send(bench, receiver)
    assert sorted(body["data"][0]["session_id"] for body in receiver.bodies) == ["b", "c"]


async def test_what_a_process_took_and_did_not_send_another_sends(quick: MonitorBench) -> None:
    monitor = await quick.make(send_to=[SINK])
    await score_some(quick, "a")
    place = (monitor.id, key_of_sink(Sink.model_validate(SINK)))
    assert len(await quick.outbox.take(place, quick.clock(), 9)) == 1
    assert await send(quick, Receiver()) == 0
    quick.clock.move(61)
    assert await send(quick, Receiver()) == 1


async def test_nothing_goes_to_a_sink_that_was_taken_away(quick: MonitorBench) -> None:
    monitor = await quick.make(send_to=[SINK])
    await score_some(quick, "a")
    await quick.service.change(PROJECT, monitor.id, MonitorChange(send_to=()))
    assert await send(quick, Receiver()) == 0
    assert await quick.outbox.backlog(quick.clock()) == []


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest",
        "http://sink.example:8080/",
        "https://sink.example/",
        "http://sink.example@evil.example/",
        "http://evil.example#http://sink.example",
        "file:///etc/passwd",
        "http://sink.example\\@evil.example/",
        "http://sink.example/ x",
        "//sink.example",
        "http://[::1",
    ],
)
async def test_only_services_that_the_operator_lists_are_sent_to(quick: MonitorBench, url: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await quick.make(send_to=[HOOK, {"kind": "webhook", "url": url}])
    assert refused.value.pointer == "/send_to/1/url"


def test_the_operators_list() -> None:
    found = read_sinks('{"https://Hooks.example:443/ignored/path": null, "http://[::1]:6006": "KEY"}')
    assert found == SinkKeys({"https://hooks.example": None, "http://[::1]:6006": "KEY"})
    assert found.find("http://[::1]:6006/v1") == "KEY"
    assert read_sinks(None) == SinkKeys()
    for wrong in ("[]", "{", '{"ftp://a": null}', '{"https://a": 1}'):
        with pytest.raises(SettingsInvalid):
            read_sinks(wrong)
    assert origin_of("http://a:99999") is None


ALARM = Alarm(
    id="al_1",
    measure="overall",
    raised_at=START,
    since=START,
    difference=-0.4,
    interval=(-0.6, -0.2),
    conversations_compared=120,
    conversations=(),
    kinds=(),
)


def test_an_alarm_is_told_in_three_languages_beside_its_json() -> None:
    sent = SentAlarm(event="raised", monitor="mo_1", name="窓口", alarm=ALARM)
    letter = write_alarm(Sink(kind="webhook", url="http://hooks.example/x"), sent, None)
    (call,) = letter.calls
    assert call.body["text"].splitlines() == [*tell_alarm(sent).values()]
    assert "-0.40" in call.body["texts"]["ja"]
    assert set(call.body["texts"]) == {"en", "ja", "ko"}
    assert call.body["alarm"]["difference"] == -0.4
    assert letter.headers == {}


async def test_an_alarm_goes_to_the_webhook_when_it_is_raised(quick: MonitorBench) -> None:
    from tests.monitors.test_alarms import OPTIONS, add_days

    monitor = await quick.make(alarm=OPTIONS, send_to=[HOOK])
    await score_some(quick, "a")
    await add_days(quick, monitor.id, 0, 7, 7.0)
    await add_days(quick, monitor.id, 7, 3, 5.0)
    quick.clock.move(86_400 * 9)
    await score_some(quick, "b")
    receiver = Receiver()
    await send(quick, receiver)
    (body,) = receiver.bodies
    assert (body["event"], body["alarm"]["measure"]) == ("raised", "overall")
    assert str(receiver.requests[0].url) == HOOK["url"]


def test_an_alarm_names_its_measure_as_pages_do() -> None:
    def told(**changes: Any) -> dict[str, str]:
        alarm = ALARM.model_copy(update={"measure": changes.pop("measure", "overall")})
        return tell_alarm(SentAlarm(event="raised", monitor="mo_1", name="窓口", alarm=alarm, **changes))

    for language, name in (("en", "Overall"), ("ja", "総合"), ("ko", "종합")):
        assert name in told(aspect={"ja": "総合"})[language]
    assert all("charm" in text for text in told(measure="charm").values())
    for language, name in (("en", "repetition"), ("ja", "繰り返し"), ("ko", "반복")):
        assert name in told(measure="finding:repetition")[language]
    assert "faulty_turns" not in told(measure="faulty_turns")["ja"]


async def test_a_sink_that_never_answers_holds_up_no_other(quick: MonitorBench) -> None:
    others = [{"kind": kind, "url": "http://sink.example"} for kind in ("otlp", "langfuse", "mlflow")]
    monitor = await quick.make(send_to=[SINK, *others])
    await score_some(quick, *"abcdefghij")
    hung, served = asyncio.Event(), Receiver()

    async def answer(request: httpx.Request) -> httpx.Response:
        if "annotations" in request.url.path:
            await hung.wait()
        return served(request)

    waiting = await quick.outbox.backlog(quick.clock())
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client, asyncio.TaskGroup() as group:
        make_sender(quick).begin_turns(client, group, waiting)
        while [one.sent for one in (await quick.service.show(PROJECT, monitor.id)).sinks] != [0, 10, 10, 10]:
            await asyncio.sleep(0.01)
        hung.set()
    assert [one.sent for one in (await quick.service.show(PROJECT, monitor.id)).sinks] == [10] * 4


async def test_an_answer_without_end_is_not_read_to_its_end(quick: MonitorBench) -> None:
    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 4_096

    monitor = await quick.make(send_to=[SINK])
    await score_some(quick, "a")
    await send(quick, Receiver(lambda _: httpx.Response(200, stream=Endless())))
    assert (await state(quick, monitor.id)).sent == 1


async def test_sinks_of_one_service_have_their_turns_one_after_the_other(
    quick: MonitorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose last turn was longest ago goes first, however long the others' backlogs are."""
    monkeypatch.setattr(sending, "SERVICE_SINKS", 1)
    monkeypatch.setattr(sending, "TURN_SECONDS", 1.5)
    first = await quick.make(send_to=[SINK])
    await score_some(quick, *"abcdefghijklmnopqrst")
    second = await quick.make(send_to=[SINK])
    await score_some(quick, "u")
    seconds = itertools.count(1)
    sender = replace(make_sender(quick), clock=lambda: float(next(seconds)))
    async with httpx.AsyncClient(transport=httpx.MockTransport(Receiver())) as client:
        for _ in range(2):
            async with asyncio.TaskGroup() as group:
                sender.begin_turns(client, group, await quick.outbox.backlog(quick.clock()))
    assert [(await state(quick, one.id)).sent for one in (first, second)] == [SENT_AT_ONCE, 1]


async def test_what_mlflow_has_already_is_sent(quick: MonitorBench) -> None:
    """MLflow answers a second assessment of one id with 500."""
    monitor = await quick.make(send_to=[{"kind": "mlflow", "url": "http://sink.example"}])
    await score_some(quick, "a")
    receiver = Receiver(lambda request: httpx.Response(200 if request.method == "GET" else 500))
    await send(quick, receiver)
    assert (await state(quick, monitor.id)).sent == 1


async def test_each_kind_is_written_with_the_same_ids_each_time(quick: MonitorBench) -> None:
    monitor = await quick.make(send_to=[SINK])
    await score_some(quick, "a")
    place = (monitor.id, key_of_sink(Sink.model_validate(SINK)))
    (waiting,) = await quick.outbox.take(place, quick.clock(), 9)
    sent = waiting.body
    assert isinstance(sent, SentScores)
    for kind in KINDS:
        sink = Sink(kind=kind, url="http://sink.example")
        letter = write_scores(sink, sent, "p:s")
        assert letter == write_scores(sink, sent, "p:s")
        assert letter.calls
    (call,) = write_scores(Sink(kind="otlp", url="http://sink.example"), sent, None).calls
    records = call.body["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert {one["eventName"] for one in records} == {"gen_ai.evaluation.result"}
    assert {one["traceId"] for one in records} == {"t" * 32}
    said = {one["key"]: one["value"] for one in records[0]["attributes"]}
    assert said["gen_ai.response.id"] == {"stringValue": "chatcmpl-9"}
    assert said["saiten.evaluation.id"] == {"stringValue": sent.evaluation}
    for one in write_scores(Sink(kind="mlflow", url="http://sink.example"), sent, None).calls:
        assert one.body["assessment"]["metadata"]["mlflow.trace.session"] == "a"
    langfuse = write_scores(Sink(kind="langfuse", url="http://sink.example/"), sent, "p:s")
    assert langfuse.headers == {"Authorization": "Basic cDpz"}
    assert len({one.body["id"] for one in langfuse.calls}) == len(langfuse.calls) == 2
    assert langfuse.calls[0].url == "http://sink.example/api/public/scores"
