"""Records what instrumentation libraries really send: `PYTHONPATH=. python scripts/record_spans.py LIBRARY`.

A bot of three turns talks to the fake model of the tests; what its exporter sends is written to
`tests/data/spans/LIBRARY.traces` (and `.logs`), protobuf as it came. Run it in an environment with the library:

- `openai-v2`, `openai-v2-events`: opentelemetry-instrumentation-openai-v2
- `openinference`: openinference-instrumentation-openai
- `traceloop`: traceloop-sdk, or opentelemetry-instrumentation-openai
- `traceloop-sdk`: traceloop-sdk, with its decorators
- `langfuse`, `mlflow`: each with its own decorator and its wrapper of OpenAI's client
- `langchain`: openinference-instrumentation-langchain and langchain-core

All need opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http. Instrumentations exclude each other, so each runs
in a process of its own.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.fake_openai import FakeOpenAI, complete
from tests.support.threaded_server import ThreadedServer

FOLDER = Path(__file__).parents[1] / "tests" / "data" / "spans"
SESSION = "yoyaku-17"
INSTRUCTION = "あなたはレストランの予約係です。"
DIALOGUE = (
    ("予約したいのですが。", "ありがとうございます。何名様でしょうか。"),
    ("二人です。", "お日にちはいつがよろしいでしょうか。"),
    ("あしたの七時にお願いします。", "あした七時、二名様で承りました。"),
)


class Receiver(ThreadedServer):
    """Keeps the bodies by the last part of their path."""

    def __init__(self) -> None:
        bodies: dict[str, list[bytes]] = {"traces": [], "logs": []}
        self.bodies = bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                packed = self.headers.get("Content-Encoding") == "gzip"
                kind = self.path.rpartition("/")[2]
                bodies.setdefault(kind, []).append(gzip.decompress(body) if packed else body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        super().__init__(Handler)


def set_up(url: str) -> Any:
    """Exporters of spans and log records to the receiver; returns the provider of tracers."""
    from opentelemetry import trace
    from opentelemetry._logs import set_logger_provider
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource({"service.name": "yoyaku-bot", "service.version": "1.4.0"})
    tracers, loggers = TracerProvider(resource=resource), LoggerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    loggers.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(f"{url}/v1/logs")))
    trace.set_tracer_provider(tracers)
    set_logger_provider(loggers)
    return tracers, loggers


def instrument(library: str) -> AbstractContextManager[Any]:
    """Instruments the client, and returns what names the conversation, where the library has something for it."""
    if library.startswith("openai-v2"):
        from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor

        OpenAIInstrumentor().instrument()
    elif library == "openinference":
        from openinference.instrumentation import using_session
        from openinference.instrumentation.openai import OpenAIInstrumentor as OpenInference

        OpenInference().instrument()
        named: AbstractContextManager[Any] = using_session(SESSION)
        return named
    elif library == "traceloop":
        from opentelemetry.instrumentation.openai import OpenAIInstrumentor as Traceloop

        Traceloop().instrument()
    elif library == "langchain":
        from openinference.instrumentation import using_session
        from openinference.instrumentation.langchain import LangChainInstrumentor

        LangChainInstrumentor().instrument()
        within: AbstractContextManager[Any] = using_session(SESSION)
        return within
    return nullcontext()


async def talk(tracers: Any, *, named: bool) -> None:
    """The dialogue over the client of OpenAI, each turn in a span of the bot's own."""
    import openai

    messages: list[Any] = [{"role": "system", "content": INSTRUCTION}]
    tracer = tracers.get_tracer("yoyaku-bot")
    async with FakeOpenAI() as fake:
        fake.script(*(lambda request, text=answer: complete(request, text) for _, answer in DIALOGUE))
        client = openai.AsyncOpenAI(api_key="none", base_url=fake.base_url)
        for asked, answer in DIALOGUE:
            messages.append({"role": "user", "content": asked})
            attributes = {"session.id": SESSION} if named else {}
            with tracer.start_as_current_span("answer", attributes=attributes):
                await client.chat.completions.create(model="gpt-6-luna", messages=messages)
            messages.append({"role": "assistant", "content": answer})


def talk_by_langchain() -> None:
    """The dialogue through a chain of LangChain with its own fake model."""
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

    model = FakeListChatModel(responses=[answer for _, answer in DIALOGUE])
    prompt = ChatPromptTemplate.from_messages(
        [SystemMessage(INSTRUCTION), MessagesPlaceholder("history"), ("human", "{question}")]
    )
    chain = prompt | model | StrOutputParser()
    history: list[Any] = []
    for asked, _ in DIALOGUE:
        answer = chain.invoke({"history": history, "question": asked})
        history += [HumanMessage(asked), AIMessage(answer)]


class Functions(NamedTuple):
    """How a tool traces functions: its decorators of a turn and of a call within it, a client of OpenAI that it traces,
    what names the conversation of what is called within it, and what sends the rest."""

    turn: Callable[..., Any]
    call: Callable[..., Any]
    open_client: Callable[..., Any]
    name_session: Callable[[], AbstractContextManager[Any]]
    flush: Callable[[], object]


def trace_by_traceloop(url: str) -> Functions:
    """By traceloop-sdk, which sets up its own exporter."""
    import openai
    from traceloop.sdk import Traceloop
    from traceloop.sdk.decorators import task, workflow

    os.environ |= {"TRACELOOP_TELEMETRY": "false", "TRACELOOP_METRICS_ENABLED": "false"}
    Traceloop.init("yoyaku-bot", api_endpoint=url, headers={"x-any": "any"})
    Traceloop.set_association_properties({"session_id": SESSION})
    return Functions(workflow("answer"), task("ask"), openai.OpenAI, nullcontext, shut_down)


def shut_down() -> None:
    """Sends what the global tracers still hold."""
    from opentelemetry import trace

    trace.get_tracer_provider().shutdown()  # type: ignore[attr-defined]


def trace_by_langfuse(url: str) -> Functions:
    """By Langfuse's SDK, beside the exporter that sends to the receiver too."""
    from langfuse import Langfuse, observe, propagate_attributes
    from langfuse.openai import OpenAI

    tracers, _ = set_up(url)
    Langfuse(public_key="any", secret_key="any", host="http://127.0.0.1:9", tracer_provider=tracers)
    return Functions(observe(), observe(), OpenAI, lambda: propagate_attributes(session_id=SESSION), tracers.shutdown)


def trace_by_mlflow(url: str) -> Functions:
    """By MLflow, which sets up its own exporter; a session of its own does not leave it, an attribute does."""
    os.environ |= {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{url}/v1/traces",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
    }
    import mlflow
    import openai

    mlflow.openai.autolog()
    turn = mlflow.trace(attributes={"session.id": SESSION})
    return Functions(turn, mlflow.trace, openai.OpenAI, nullcontext, lambda: time.sleep(2))


TRACED: Mapping[str, Callable[[str], Functions]] = {
    "traceloop-sdk": trace_by_traceloop,
    "langfuse": trace_by_langfuse,
    "mlflow": trace_by_mlflow,
}


def talk_by_functions(traced: Functions, base_url: str) -> None:
    """The dialogue by a function for a turn, which is given more than the question, and one within it for the model."""
    messages: list[Any] = [{"role": "system", "content": INSTRUCTION}]
    client = traced.open_client(api_key="none", base_url=base_url)

    @traced.call
    def ask(question: str) -> str:
        reply = client.chat.completions.create(model="gpt-6-luna", messages=messages)
        return str(reply.choices[0].message.content)

    @traced.turn
    def answer(question: str, guest: str) -> str:
        with traced.name_session():
            return str(ask(question))

    for asked, _ in DIALOGUE:
        messages.append({"role": "user", "content": asked})
        messages.append({"role": "assistant", "content": answer(asked, "guest-1")})
    traced.flush()


async def record_functions(library: str, url: str) -> None:
    """Lets the dialogue be had over the fake model."""
    async with FakeOpenAI() as fake:
        fake.script(*(lambda request, text=answer: complete(request, text) for _, answer in DIALOGUE))
        await asyncio.to_thread(lambda: talk_by_functions(TRACED[library](url), fake.base_url))


def write(library: str, bodies: Mapping[str, Sequence[bytes]]) -> None:
    """Keeps what came. Bodies of protobuf behind each other are one body with all that they hold."""
    FOLDER.mkdir(exist_ok=True)
    for kind in ("traces", "logs"):
        if bodies[kind]:
            (FOLDER / f"{library}.{kind}").write_bytes(b"".join(bodies[kind]))


def main(library: str) -> None:
    """Records one library."""
    if library in TRACED:
        os.environ |= {"OTEL_SERVICE_NAME": "yoyaku-bot", "OTEL_RESOURCE_ATTRIBUTES": "service.version=1.4.0"}
        with Receiver() as receiver:
            asyncio.run(record_functions(library, receiver.url))
            write(library, receiver.bodies)
        return
    content = "EVENT_ONLY" if library.endswith("-events") else "SPAN_ONLY"
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = content
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    with Receiver() as receiver:
        tracers, loggers = set_up(receiver.url)
        with instrument(library):
            if library == "langchain":
                talk_by_langchain()
            else:
                asyncio.run(talk(tracers, named=library.startswith(("openai-v2", "traceloop"))))
        tracers.shutdown()
        loggers.shutdown()
        write(library, receiver.bodies)


if __name__ == "__main__":
    main(sys.argv[1])
