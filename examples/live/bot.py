"""A bot of a café with OpenTelemetry: each answer is a span as the conventions for generative AI have it.

An instrumentation of a model's client writes such spans by itself; this bot has no model, so it writes them by hand.
"""

from __future__ import annotations

import json
import random

from judge import LOST
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

KNOWN = {
    "営業時間を教えてください。": "営業時間は午前8時から午後7時までです。",
    "予約はできますか。": "はい、2名様からお席のご予約を承っております。",
    "おすすめはありますか。": "本日は自家製のレモンタルトがおすすめです。",
    "電源のある席はありますか。": "窓側のカウンター席に電源がございます。",
}
UNKNOWN = ["乳成分を使わない飲み物はありますか。", "車いすでも入れますか。"]


def answer(question: str) -> str:
    """What the bot says."""
    return KNOWN.get(question, f"申し訳ありません、{LOST}。")


def tell(role: str, text: str) -> dict[str, object]:
    """A message as the conventions write it."""
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def talk(address: str, conversations: int, *, build: str = "1", seed: int = 0) -> None:
    """Holds so many conversations of three questions each, and sends their spans to the service at the address. A
    person who was not understood gives a thumbs down, two times out of three."""
    resource = Resource.create({"service.name": "cafe-bot", "service.version": build})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{address}/v1/traces")))
    tracer, draw = provider.get_tracer("cafe-bot"), random.Random(seed)  # noqa: S311 (the same conversations for a seed)
    for number in range(conversations):
        lost = draw.random() < 0.3
        questions = draw.sample([*KNOWN], 2) + ([draw.choice(UNKNOWN)] if lost else [])
        unhappy = lost and draw.random() < 2 / 3
        history: list[dict[str, object]] = []
        for question in questions:
            history.append(tell("user", question))
            said = tell("assistant", answer(question))
            with tracer.start_as_current_span("chat") as span:
                span.set_attribute("gen_ai.operation.name", "chat")
                span.set_attribute("gen_ai.conversation.id", f"cafe-{build}-{number}")
                # Every call repeats the history, as models' clients do. Saiten counts each turn once.
                span.set_attribute("gen_ai.input.messages", json.dumps(history, ensure_ascii=False))
                span.set_attribute("gen_ai.output.messages", json.dumps([said], ensure_ascii=False))
                if unhappy:
                    span.set_attribute("feedback", "down")
            history.append(said)
    provider.shutdown()
