"""An OpenTelemetry collector on loopback: it takes spans as OTLP over HTTP, and keeps their bytes as they came."""

import gzip
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.threaded_server import ThreadedServer
from tests.support.waiting import LIMIT_SECONDS


@dataclass(frozen=True)
class Received:
    """One span, its ids in hexadecimal digits as a log has them."""

    name: str
    scope: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    events: list[dict[str, Any]]
    status: int
    message: str
    trace_state: str
    resource: dict[str, Any]


class SpanReceiver(ThreadedServer):
    """`with SpanReceiver() as receiver:` listens at `receiver.url` until the block ends."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                packed = self.headers.get("Content-Encoding") == "gzip"
                receiver.bodies.append(gzip.decompress(body) if packed else body)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        super().__init__(Handler)

    @property
    def variables(self) -> dict[str, str]:
        """What a process needs to send its spans here, soon."""
        return {
            "SAITEN_TRACING": "otlp",
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    def spans(self) -> list[Received]:
        """All that came so far."""
        return [span for body in [*self.bodies] for span in read_spans(body)]

    def wait_for(self, name: str, count: int = 1) -> list[Received]:
        """Those with this name, as soon as there are so many."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while len(found := [span for span in self.spans() if span.name == name]) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {name!r} among {sorted({span.name for span in self.spans()})}")
            time.sleep(0.05)
        return found


def read_spans(body: bytes) -> list[Received]:
    request = ExportTraceServiceRequest()
    request.ParseFromString(body)
    return [
        Received(
            name=span.name,
            scope=scoped.scope.name,
            kind=span.kind,
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            attributes=values_of(span.attributes),
            events=[{"name": event.name, **values_of(event.attributes)} for event in span.events],
            status=span.status.code,
            message=span.status.message,
            trace_state=span.trace_state,
            resource=values_of(of_resource.resource.attributes),
        )
        for of_resource in request.resource_spans
        for scoped in of_resource.scope_spans
        for span in scoped.spans
    ]


def values_of(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
