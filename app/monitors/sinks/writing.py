"""How each kind of sink is written to. Ids are deterministic, so that what is sent twice is kept once."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from saiten.core.messages import LANGUAGES, Message
from saiten_server.core.conversation import FAULTY_TURNS
from saiten_server.core.model import digest
from saiten_server.monitors.sinks.values import Score, SentAlarm, SentScores
from saiten_server.monitors.values import FINDING_MEASURES, Sink

ANNOTATOR = "saiten"


class SinkCall(NamedTuple):
    """One request. `kept_at` answers 200 where the service has it already, for one that refuses it a second time."""

    url: str
    body: dict[str, Any]
    kept_at: str | None = None


@dataclass(frozen=True)
class Letter:
    """The requests that bring something to a sink, in their order."""

    calls: Sequence[SinkCall]
    headers: Mapping[str, str] = field(default_factory=dict)


def write_scores(sink: Sink, sent: SentScores, key: str | None) -> Letter:
    """A result for a sink; nothing where that kind has no place for it."""
    base = sink.url.rstrip("/")
    return Letter(WRITERS[sink.kind](base, sent), AUTHORIZATIONS.get(sink.kind, authorize)(key))


def write_alarm(sink: Sink, sent: SentAlarm, key: str | None) -> Letter:
    """An alarm for a webhook: what it is as JSON, beside the `text` that Slack shows."""
    texts = tell_alarm(sent)
    body = {"text": "\n".join(texts.values()), "texts": texts, **sent.model_dump(mode="json")}
    return Letter([SinkCall(sink.url, body)], authorize(key))


def tell_alarm(sent: SentAlarm) -> dict[str, str]:
    """The alarm in a sentence, by language."""
    alarm = sent.alarm
    low, high = alarm.interval or (0.0, 0.0)
    said: dict[str, str | float] = {
        "name": sent.name,
        "since": alarm.since.date().isoformat(),
        "difference": alarm.difference,
        "low": low,
        "high": high,
        "count": alarm.conversations_compared,
    }
    return {
        language: Message(f"alarm-{sent.event}", measure=name_sent_measure(sent, language), **said).say(language)
        for language in LANGUAGES
    }


def name_sent_measure(sent: SentAlarm, language: str) -> str:
    """What pages call the measure in the language."""
    from saiten_server.platform.web.language import speech_in  # which loads all catalogues

    measure, speech = sent.alarm.measure, speech_in(language)
    if measure == FAULTY_TURNS:
        return Message("measure-faulty-turns").say(language)
    if measure in FINDING_MEASURES:
        finding = speech.term("finding", measure.removeprefix("finding:"))
        return Message("measure-finding", finding=finding).say(language)
    return speech.pick(sent.aspect) or measure


def authorize(key: str | None) -> dict[str, str]:
    """The header for a key."""
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def authorize_langfuse(key: str | None) -> dict[str, str]:
    """Langfuse takes the public and the secret key as name and password; the key is `PUBLIC:SECRET`."""
    return {} if key is None else {"Authorization": "Basic " + base64.b64encode(key.encode()).decode()}


AUTHORIZATIONS: Mapping[str, Callable[[str | None], dict[str, str]]] = {"langfuse": authorize_langfuse}


def write_otlp(base: str, sent: SentScores) -> list[SinkCall]:
    """Log events `gen_ai.evaluation.result` on the trace and span that were scored."""
    nanoseconds = str(int(sent.scored_at.timestamp() * 1_000_000) * 1000)
    records = []
    for score in sent.scores:
        said: dict[str, Any] = {
            "gen_ai.evaluation.name": score.name,
            "gen_ai.evaluation.score.value": score.value,
            "gen_ai.evaluation.score.label": score.label,
            "gen_ai.evaluation.explanation": score.explanation,
            "gen_ai.response.id": sent.response,
            "gen_ai.conversation.id": sent.session,
            "saiten.score.id": score.id,
            "saiten.evaluation.id": sent.evaluation,
            "saiten.monitor.id": sent.monitor,
        }
        record: dict[str, Any] = {
            "timeUnixNano": nanoseconds,
            "observedTimeUnixNano": nanoseconds,
            "severityNumber": 9,
            "eventName": "gen_ai.evaluation.result",
            "attributes": [
                {"key": name, "value": write_attribute(value)} for name, value in said.items() if value is not None
            ],
        }
        if sent.trace_id and sent.span_id:
            record |= {"traceId": sent.trace_id, "spanId": sent.span_id}
        records.append(record)
    resource = {"attributes": [{"key": "service.name", "value": write_attribute("saiten")}]}
    logs = {"resource": resource, "scopeLogs": [{"scope": {"name": "saiten"}, "logRecords": records}]}
    return [SinkCall(base if base.endswith("/v1/logs") else f"{base}/v1/logs", {"resourceLogs": [logs]})]


def write_attribute(value: str | float) -> dict[str, Any]:
    """A value as OTLP's JSON has it."""
    return {"stringValue": value} if isinstance(value, str) else {"doubleValue": value}


def write_langfuse(base: str, sent: SentScores) -> list[SinkCall]:
    """A score each, of the session, or of the observation where the conversation is one trace."""
    if sent.session is not None:
        place: dict[str, Any] = {"sessionId": sent.session}
    elif sent.trace_id is not None:
        place = {"traceId": sent.trace_id, "observationId": sent.span_id}
    else:
        return []
    return [
        SinkCall(
            f"{base}/api/public/scores",
            {
                "id": score.id,
                **place,
                "name": score.name,
                "value": score.value,
                "dataType": "NUMERIC",
                "comment": score.explanation,
                "metadata": {"monitor": sent.monitor, "evaluation": sent.evaluation},
            },
        )
        for score in sent.scores
    ]


def write_phoenix(base: str, sent: SentScores) -> list[SinkCall]:
    """Annotations of the session, or of the span; one with the same name and identifier is replaced."""
    named = {"session_id": sent.session} if sent.session is not None else {"span_id": sent.span_id}
    if not any(named.values()):
        return []
    data = [
        {
            **named,
            "name": score.name,
            "annotator_kind": "LLM",
            "identifier": f"{ANNOTATOR}:{sent.monitor}",
            "result": {"score": score.value, "label": score.label, "explanation": score.explanation},
            "metadata": {"evaluation": sent.evaluation},
        }
        for score in sent.scores
    ]
    kind = "session_annotations" if sent.session is not None else "span_annotations"
    # Only so does Phoenix say that it does not know the session or the span; else it takes what it does not keep.
    return [SinkCall(f"{base}/v1/{kind}?sync=true", {"data": data})]


def write_mlflow(base: str, sent: SentScores) -> list[SinkCall]:
    """Assessments of the trace, with their ids given by us."""
    if sent.trace_id is None:
        return []
    trace = f"tr-{sent.trace_id}"
    place = f"{base}/api/3.0/mlflow/traces/{trace}/assessments"
    source = {"source_type": "LLM_JUDGE", "source_id": ANNOTATOR}
    # By this MLflow tells what is of the whole session from what is of its trace.
    session = {} if sent.session is None else {"mlflow.trace.session": sent.session}
    return [
        SinkCall(
            place,
            {
                "assessment": {
                    "assessment_id": f"a-{score.id[:32]}",
                    "assessment_name": score.name,
                    "trace_id": trace,
                    "span_id": sent.span_id,
                    "source": source,
                    "feedback": {"value": score.value},
                    "rationale": score.explanation,
                    "metadata": {"monitor": sent.monitor, "evaluation": sent.evaluation, **session},
                }
            },
            f"{place}/a-{score.id[:32]}",
        )
        for score in sent.scores
    ]


WRITERS: Mapping[str, Callable[[str, SentScores], list[SinkCall]]] = {
    "otlp": write_otlp,
    "langfuse": write_langfuse,
    "phoenix": write_phoenix,
    "mlflow": write_mlflow,
}


def name_score(evaluation: str, name: str) -> str:
    """The id of a score."""
    return digest([evaluation, name])[:40]


def make_score(
    evaluation: str, name: str, value: float, *, label: str | None = None, explanation: str | None = None
) -> Score:
    """A score with its id."""
    return Score(id=name_score(evaluation, name), name=name, value=value, label=label, explanation=explanation)
