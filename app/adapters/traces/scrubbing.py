"""What of a span leaves the process: ids, figures and names of Saiten's own. A list of what may, not of what may not:
instrumentations write down addresses, statements and what errors say, and the next version of one may write more."""

from __future__ import annotations

import re
from collections.abc import Sequence

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Link, SpanKind
from opentelemetry.trace.status import Status
from opentelemetry.util.types import AttributeValue

OWN = "saiten."
"""What the attributes begin with that Saiten itself sets."""

KEPT = frozenset(
    {
        "db.system",
        "db.system.name",
        "error.type",
        "http.method",
        "http.request.method",
        "http.response.status_code",
        "http.route",
        "http.status_code",
    }
)
"""What else may leave. No address: a query string is a caller's text, and a base URL may hold a password."""

STATEMENTS = frozenset({"db.statement", "db.query.text"})
"""SQL has placeholders where values are. What is quoted all the same is left out; of Redis nothing is kept."""

QUOTED = re.compile(r"'(?:[^']|'')*'")
COMMANDS = re.compile(r"[A-Za-z]{1,20}(?: [A-Z]{1,20}){0,10}(?![^\s])")
LONGEST = 2000


class ScrubbingExporter(SpanExporter):
    """Hands spans on without anything that may hold a text, a key or an address."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._exporter.export([scrub(span) for span in spans])

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def scrub(span: ReadableSpan) -> ReadableSpan:
    """The span with no attribute but those that may leave, and of what went wrong only the kind."""
    attributes = keep(span.attributes or {})
    return ReadableSpan(
        name=name_of(span, attributes),
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=attributes,
        events=[told for event in span.events if (told := scrub_event(event)) is not None],
        links=[Link(link.context) for link in span.links],
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def keep(attributes: object) -> dict[str, AttributeValue]:
    """Those that may leave."""
    given: dict[str, AttributeValue] = dict(attributes) if hasattr(attributes, "keys") else {}  # type: ignore[call-overload]
    redis = "redis" in {given.get("db.system"), given.get("db.system.name")}
    kept = {name: value for name, value in given.items() if name.startswith(OWN) or name in KEPT}
    for name in STATEMENTS & given.keys() if not redis else ():
        kept[name] = QUOTED.sub("'?'", str(given[name]))[:LONGEST]
    return kept


def name_of(span: ReadableSpan, attributes: dict[str, AttributeValue]) -> str:
    """Method and route of a request, the command of a call to a database, and names of Saiten's own."""
    if span.kind is SpanKind.SERVER:
        method = attributes.get("http.request.method") or attributes.get("http.method") or "HTTP"
        return " ".join(str(part) for part in (method, attributes.get("http.route")) if part)
    if span.kind is SpanKind.CLIENT:
        commands = COMMANDS.match(span.name)
        return commands.group() if commands else "call"
    return span.name


def scrub_event(event: Event) -> Event | None:
    """Of an error its type. What it says, and the source lines of its trace, may quote a text."""
    if event.name != "exception":
        return None
    kind = (event.attributes or {}).get("exception.type", "")
    return Event("exception", {"exception.type": kind}, event.timestamp)
