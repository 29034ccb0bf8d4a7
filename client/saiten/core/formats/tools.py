"""The formats of other tools: how each is recognised, where its records are, and which of its fields are an item's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from saiten.core.formats.chats import MOST_CONTEXT
from saiten.core.formats.corpora import (
    is_aihub,
    is_sample,
    is_tree,
    join_filters,
    join_messages,
    open_aihub,
    read_aihub,
    read_sample,
    read_tree,
)
from saiten.core.formats.errors import UnreadableInput
from saiten.core.formats.headings import Columns, count_known, find_columns
from saiten.core.formats.mapping import (
    ASSISTANT,
    MOST_ID_CHARACTERS,
    NO_CONTEXT,
    NO_RESPONSE,
    ROLE_KEYS,
    TEXT_KEYS,
    USER,
    Skipped,
    Spoken,
    build_item,
    find_key,
    make_item,
    take_metadata,
    take_name,
    take_spoken,
)
from saiten.core.formats.records import (
    Record,
    is_blank,
    list_objects,
    parse_text,
    refuse_infinite,
    write_text,
)
from saiten.core.formats.report import Report
from saiten.core.formats.research import (
    OVERALL_OF_DSTC9,
    join_raters,
    open_columns,
    read_dbdc,
    read_dstc9,
    read_fed,
    read_unieval,
    read_usr,
)
from saiten.core.formats.scores import OF_LANGFUSE, OF_PHOENIX, part_scores, rate_items
from saiten.core.formats.spans import (
    CONVERSATION_ATTRIBUTES,
    DETAILS,
    SPOKEN,
    Gathered,
    SpanEvent,
    gather_messages,
    read_attributes,
    read_plainly,
)
from saiten.core.formats.tables import OUTPUT
from saiten.core.formats.traces import (
    OF_LANGSMITH,
    OF_OPENTELEMETRY,
    ReadItems,
    SpanItem,
    SpanPlace,
    choose_spans,
    place_langfuse,
    place_record,
)
from saiten.core.formats.turns import MOST_TURNS
from saiten.core.language import tell
from saiten.core.spreadsheet import is_own_table, read_utterances

ITEM_FIELDS = ("id", "context", "response", "responses", "reference", "metadata", "dialogue")
CONVERSATION_FIELDS = ("id", "turns", "persona", "goal", "infer_roles", "metadata", "dialogue")
OPTION_FIELDS = ("rubric", "path", "relevance", "judge")
TURN_FIELDS = frozenset({"speaker", "text", "role"})


@dataclass(frozen=True)
class Tool:
    """A format: `matches` looks at the first record, `parts` opens documents, `join` makes one record of several,
    `items` reads one, and `place` tells where in a trace it stands, of formats that have spans."""

    matches: Callable[[dict[str, Any]], bool]
    items: Callable[[Record], ReadItems]
    parts: Callable[[Record], Iterator[Record]] = lambda record: iter((record,))
    join: Callable[[Iterator[Record]], Iterator[Record]] = iter
    place: Callable[[Record], SpanPlace | None] | None = None


def read_columns(
    context: str | Sequence[str], response: str | Sequence[str], **fields: str
) -> Callable[[Record], ReadItems]:
    """Reads records whose fields have fixed names; of several, the first that holds something counts."""

    def items(record: Record) -> ReadItems:
        columns = Columns(context=pick(record, context), response=pick(record, response))
        columns.fields = name_fields(fields)
        yield from one(record, columns)

    return items


def name_fields(fields: Mapping[str, str]) -> dict[str, str]:
    """The fields with `metadata__NAME` as `metadata.NAME`, which is no keyword."""
    return {target.replace("__", "."): name for target, name in fields.items()}


def pick(record: Record, names: str | Sequence[str]) -> list[str]:
    """The first of the names that holds something; the last where none does."""
    names = [names] if isinstance(names, str) else list(names)
    return next(([name] for name in names if not is_blank(record.get(name))), names[-1:])


def one(record: Record, columns: Columns) -> ReadItems:
    """The item of the record, or why there is none."""
    try:
        yield build_item(record, columns)
    except Skipped as skipped:
        yield skipped


def make_turn_reader(
    questions: str, answers: str, references: str = "", **fields: str
) -> Callable[[Record], ReadItems]:
    """Reads records that hold the turns of a dialogue in parallel lists: an item for each answer."""

    def items(record: Record) -> ReadItems:
        asked, answered = record.parse(questions), record.parse(answers)
        expected = record.parse(references) if references else None
        asked = asked if isinstance(asked, list) else [asked]
        answered = answered if isinstance(answered, list) else [answered]
        spoken: list[Spoken] = []
        record.move(questions, "context")
        record.move(answers, "response")
        for turn, question in enumerate(asked):
            spoken.append(Spoken(USER, write_text(question) or ""))
            answer = write_text(answered[turn]) if turn < len(answered) else None
            if not answer or not answer.strip() or not spoken[-1].text.strip():
                yield Skipped(tell("turn {value} {problem}", value=turn + 1, problem=tell(NO_RESPONSE)))
                return
            item = make_item(record, spoken, answer, name_fields(fields))
            if isinstance(expected, list) and turn < len(expected) and (reference := write_text(expected[turn])):
                item["reference"] = reference
                record.move(references, "reference")
            if len(asked) > 1 and "id" in item:
                item |= {"id": f"{item['id']}-{turn + 1}", "dialogue": item["id"]}
            yield item
            spoken = [*spoken, Spoken(ASSISTANT, answer)]
        if isinstance(expected, list) and any(not is_blank(more) for more in expected[len(asked) :]):
            record.leave(f"{references}[]", tell("more than there are turns"))
        if len(answered) > len(asked):
            record.leave(f"{answers}[]", tell("more than there are questions"))

    return items


def open_lists(*paths: str) -> Callable[[Record], Iterator[Record]]:
    """Opens documents that hold their records in the lists at these paths."""

    def parts(record: Record) -> Iterator[Record]:
        found = False
        for path in paths:
            for number, value in enumerate(record.enter(path)):
                found = True
                if isinstance(value, dict):
                    yield Record(f"{record.where}: {path}[{number}]", value, prefix=f"{record.prefix}{path}[].")
        if not found:
            record.entered.clear()
            yield record

    return parts


def is_conversation(value: Mapping[str, Any]) -> bool:
    """Whether the record is a whole conversation as Saiten's service takes it."""
    turns = value.get("turns")
    return (
        isinstance(turns, list)
        and bool(turns)
        and all(isinstance(turn, dict) and {"speaker", "text"} <= turn.keys() <= TURN_FIELDS for turn in turns)
        and (any("role" in turn for turn in turns) or value.get("infer_roles") is True)
    )


def is_saiten(value: dict[str, Any]) -> bool:
    """Whether the record is an item or a conversation as Saiten's service takes it."""
    if is_conversation(value):
        return True
    context = value.get("context")
    return (
        isinstance(context, list)
        and bool(context)
        and all(isinstance(part, dict) and part.keys() == {"speaker", "text"} for part in context)
        and ("response" in value or "responses" in value)
    )


def read_saiten(record: Record) -> ReadItems:
    """An item or conversation as it is, without fields that it does not have. Of a result the item's id is in `item`,
    its own is that of the evaluation, and fields of options tell how it was scored."""
    whole = is_conversation(record.value)
    is_result = {"item", "status"} <= record.value.keys()
    fields = (*(CONVERSATION_FIELDS if whole else ITEM_FIELDS), *(() if is_result else OPTION_FIELDS))
    value = {**record.value, "id": name_item(record.value)} if is_result else record.value
    item = {name: value[name] for name in fields if value.get(name) is not None}
    if not whole and is_blank(item.get("response")) and is_blank(item.get("responses")):
        yield Skipped(tell(NO_RESPONSE))
        return
    for name in item:
        record.move("item" if is_result and name == "id" else name, name)
    refuse_infinite(record)
    yield item


def is_result_row(value: dict[str, Any]) -> bool:
    """Whether the record is a row of a table of results with their texts."""
    return is_own_table(value) and {"context", "response", "status"} <= value.keys()


def read_result_row(record: Record) -> ReadItems:
    """The item of a row of results, whose texts are as `write_text` wrote them."""
    value = record.value
    if is_blank(value["context"]) or is_blank(value["response"]):
        yield Skipped(tell(NO_RESPONSE if is_blank(value["response"]) else NO_CONTEXT))
        return
    item = {"id": write_text(value["item"]), "context": read_utterances(str(value["context"]))}
    item["response"] = write_text(value["response"])
    for name in ("context", "response"):
        record.move(name, name)
    record.move("item", "id")
    fields = {name: name for name in value if name == "metadata" or name.startswith("metadata.")}
    take_name(record, {"dialogue": "dialogue"}, "dialogue", item)
    take_metadata(record, fields, item)
    yield item


def name_item(result: Mapping[str, Any]) -> Any:
    """The id of a result's item; None where the caller gave none, and the item is its number."""
    return None if result.get("ids_given") is False else result["item"]


def has(*names: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a record has all these fields; `a|b` is either of them."""
    wanted = [name.split("|") for name in names]
    return lambda value: all(any(name in value for name in either) for either in wanted)


def either(*tests: Callable[[dict[str, Any]], bool]) -> Callable[[dict[str, Any]], bool]:
    """Whether any of the tests holds."""
    return lambda value: any(test(value) for test in tests)


def is_object_with(field: str, *keys: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a field is an object with these keys."""

    def test(value: dict[str, Any]) -> bool:
        inner = value.get(field)
        return isinstance(inner, dict) and all(key in inner for key in keys)

    return test


def is_list_of(field: str, *keys: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a field is a list whose first element has these keys."""

    def test(value: dict[str, Any]) -> bool:
        inner = value.get(field)
        return (
            isinstance(inner, list) and bool(inner) and isinstance(inner[0], dict) and all(k in inner[0] for k in keys)
        )

    return test


def read_evals(record: Record) -> ReadItems:
    """An output item, a line of a log or a sample of OpenAI Evals."""
    value = record.value
    if "sample" in value:
        source = "item" if "item" in value else "datasource_item"
        given = value[source] if isinstance(value.get(source), dict) else {}
        known = find_columns(list(given), {}, record.where)
        columns = Columns(
            context=pick(record, ["sample.input", *(f"{source}.{name}" for name in known.context)]),
            response=pick(record, ["sample.output", "sample.output_text", "sample.outputs"]),
        )
        fields = known.fields | (
            {} if "reference" in known.fields or not known.response else {"reference": known.response[0]}
        )
        columns.fields = {"id": "id", "reference": f"{source}.{fields.get('reference', 'ideal')}"}
        yield from one(record, columns)
    elif "event_id" in value or "spec" in value or "final_report" in value:
        if value.get("type") == "sampling":
            columns = Columns(context=["data.prompt"], response=["data.sampled"])
            columns.fields = {"id": "sample_id", "metadata.run": "run_id"}
            yield from one(record, columns)
    else:
        yield from read_columns("input", ("completion", "output", "response"), reference="ideal", id="id")(record)


def read_promptfoo(record: Record) -> ReadItems:
    """A result or a test case of promptfoo: the messages of its prompt, else its variables, else the prompt's text."""
    given = record.get("vars")
    known = find_columns(list(given), {}, record.where) if isinstance(given, dict) else Columns()
    raw = record.parse("prompt.raw")
    names = [f"vars.{name}" for name in known.context]
    context = ["prompt.raw"] if isinstance(raw, list | dict) or not names else names
    response = pick(record, ["response.output", "providerOutput", "testCase.providerOutput", "output"])
    columns = Columns(context=context, response=response)
    columns.fields = {"id": pick(record, ["testCase.description", "description", "id"])[0], "metadata": "metadata"}
    columns.fields["dialogue"] = "metadata.dialogue"
    if "reference" in known.fields:
        columns.fields["reference"] = f"vars.{known.fields['reference']}"
    if isinstance(record.get("provider"), dict):
        columns.fields["metadata.model"] = "provider.id"
    for found in one(record, columns):
        failed = isinstance(found, Skipped) and not is_blank(record.get("error"))
        yield Skipped(f"{found}: {str(record.get('error'))[:100]}") if failed else found


VERDICT = re.compile(r"\[(?P<word>PASS|FAIL|ERROR)\] \([^()]{1,1000}\)\s*")
"""What promptfoo writes before an output in the CSV of `eval -o`."""


def strip_verdict(text: str) -> str:
    """An output without the verdict before it, and the reason behind it."""
    verdict = VERDICT.match(text)
    if verdict is None:
        return text
    reason = text.rfind("\n\nPass Reason: " if verdict["word"] == "PASS" else "\n\nFail Reason: ")
    return text[verdict.end() : reason if reason >= verdict.end() else len(text)].strip()


def list_outputs(value: Mapping[str, Any]) -> list[str]:
    """The columns of a row of promptfoo's CSV that hold outputs: `[provider] prompt`, with a status beside or in it."""
    names = [name for name in value if OUTPUT.fullmatch(name) and not name.endswith((" Status", " Score"))]
    return [name for name in names if f"{name} Status" in value or VERDICT.match(str(value[name] or ""))]


def read_outputs(record: Record) -> ReadItems:
    """A row of promptfoo's CSV: an item for each output."""
    outputs = list_outputs(record.value)
    variables = [name for name in record.value if not any(name.startswith(output) for output in outputs)]
    known = find_columns([name for name in variables if name != "Description"], {}, record.where)
    for name in outputs:
        text = strip_verdict(write_text(record.get(name)) or "")
        part = Record(record.where, {**{one: record.get(one) for one in variables}, "output": text})
        part.value["provider"] = name[1:].partition("]")[0]
        columns = Columns(context=known.context, response=["output"])
        columns.fields = {**known.fields, "id": "Description", "metadata.model": "provider"}
        yield from one(part, columns)
        record.moved |= {key: target for key, target in part.moved.items() if key in variables}
        record.move(name, "response")


def read_inspect(record: Record) -> ReadItems:
    """A sample of inspect_ai: of its messages the last assistant's is the response, else its output's."""
    if "eval" in record.value:  # the header of a log
        return
    output = record.get("output.choices")
    if isinstance(record.get("messages"), list) and record.value["messages"]:
        messages = take_spoken(record, "messages")
        answer = messages[-1].text if messages and messages[-1].speaker == ASSISTANT else None
        if answer is not None and is_blank(output):
            yield make_or_skip(record, messages[:-1], answer)
            return
        yield from one(record, columns_of_inspect(record, "messages"))
        return
    yield from one(record, columns_of_inspect(record, "input"))


def columns_of_inspect(record: Record, context: str) -> Columns:
    """The fields of a sample."""
    columns = Columns(context=[context], response=pick(record, ["output", "metadata.response"]))
    columns.fields = {"id": "id", "reference": "target", "metadata": "metadata", "dialogue": "metadata.dialogue"}
    return columns


def make_or_skip(record: Record, context: list[Spoken], response: str | None) -> dict[str, Any] | Skipped:
    """The item, or why there is none."""
    try:
        return make_item(record, context, response, columns_of_inspect(record, "messages").fields)
    except Skipped as skipped:
        return skipped


def read_logged(record: Record) -> ReadItems:
    """A trace, an observation, an event or an item of a dataset of Langfuse."""
    at = "body." if is_object_with("body")(record.value) else ""
    response = pick(record, [f"{at}output", f"{at}metadata.response"])
    columns = Columns(context=[f"{at}input"], response=response)
    columns.fields = {
        "id": f"{at}id",
        "reference": pick(record, [f"{at}expectedOutput", f"{at}expected_output"])[0],
        "dialogue": pick(record, [f"{at}sessionId", f"{at}session_id", f"{at}metadata.dialogue"])[0],
        "metadata": f"{at}metadata",
    }
    yield from rate_items(one(record, columns), OF_LANGFUSE, record)


def open_traces(record: Record) -> Iterator[Record]:
    """The records of a page of Langfuse's API, the events of a batch, or a trace with its observations, as the API and
    the download of a single trace hold it."""
    trace, observations = record.get("trace"), record.get("observations")
    if isinstance(observations, list) and any(isinstance(one, dict) for one in observations):
        scores = part_scores(record.get("scores"))
        for number, one in enumerate(record.enter("observations")):
            if isinstance(one, dict):
                own = {"scores": scores.get(write_text(one.get("id")) or "")}
                where = f"{record.where}: observations[{number}]"
                yield Record(where, {**own, **one}, prefix=f"{record.prefix}observations[].")
        rest = {name: value for name, value in record.value.items() if name not in ("observations", "scores", "trace")}
        value = trace if isinstance(trace, dict) else rest
        record.entered += ["trace", "scores", *(rest if value is rest else ())]
        prefix = "trace." if value is trace else record.prefix
        yield Record(record.where, {"scores": scores.get(""), **value}, prefix=prefix)
        return
    for part in open_lists("data", "batch")(record):
        whole = part is not record and isinstance(part.get("observations"), list)
        yield from open_traces(part) if whole else (part,)


def open_runs(record: Record) -> Iterator[Record]:
    """A run of LangSmith and the runs within it, of which each becomes a record of its own."""
    held = [record]
    while held:
        run = held.pop()
        within = run.value.pop("child_runs", None)
        for number, child in enumerate(within if isinstance(within, list) else []):
            if isinstance(child, dict):
                place = {"parent_run_id": run.get("id"), "trace_id": run.get("trace_id") or run.get("id")}
                where = f"{run.where}: child_runs[{number}]"
                held.append(Record(where, {**place, **child}, prefix=f"{run.prefix}child_runs[]."))
        if within and is_blank(run.get("trace_id")):
            run.value["trace_id"] = run.get("id")
        yield run


def read_traced_run(record: Record) -> ReadItems:
    """A run or an example of LangSmith. Its threads are named by metadata."""
    names = [f"extra.metadata.{name}" for name in ("thread_id", "session_id", "conversation_id")]
    columns = Columns(context=["inputs"], response=["outputs"])
    columns.fields = {"id": "id", "dialogue": pick(record, names)[0]}
    yield from one(record, columns)


def read_mlflow(record: Record) -> ReadItems:
    """A trace of MLflow, or a row of its evaluation data."""
    if is_object_with("data")(record.value) and "info" in record.value:
        yield from read_trace(record)
        return
    columns = Columns(
        context=pick(record, ["inputs", "inputs.messages", "request", "input", "request_preview"]),
        response=pick(record, ["outputs", "response", "output", "predictions", "response_preview"]),
    )
    expected = ["expectations.expected_response", "expectations", "expected_response/value", "ground_truth", "targets"]
    leave_own_tags(record, "tags")
    columns.fields = {
        "id": pick(record, ["tags.id", "span_id", "trace_id", "request_id", "id"])[0],
        "reference": pick(record, [*expected, "target"])[0],
        "dialogue": "tags.dialogue",
        "metadata": "tags",
    }
    if isinstance(record.parse("expectations"), dict) and columns.fields["reference"] == "expectations":
        columns.fields["reference"] = pick(record, [*expected[:1], "expectations.expected_output"])[0]
    yield from one(record, columns)


def leave_own_tags(record: Record, path: str) -> None:
    """Leaves out the tags that MLflow sets itself: what remains is the caller's."""
    tags = record.parse(path)
    for name in [name for name in tags if name.startswith("mlflow.")] if isinstance(tags, dict) else []:
        del tags[name]
        record.leave(f"{path}.{name}", "")


def read_trace(record: Record) -> ReadItems:
    """The outermost span of a trace of MLflow that answers, or the request that the trace names."""
    root = find_answering(record, list_objects(record.get("data.spans")))
    attributes = root.get("attributes", {})
    place = record.get("data.spans").index(root) if root else 0
    # The names of attributes hold dots, and other spans are not this item's: the root's two stand beside the rest.
    for name, key in (("request", "mlflow.spanInputs"), ("response", "mlflow.spanOutputs")):
        path = f"data.spans[{place}].attributes.{key}"
        value = attributes.pop(key, None) if is_blank(record.get(f"data.{name}")) else None
        record.value[path] = parse_text(value)
    columns = Columns(
        context=pick(
            record, [f"data.spans[{place}].attributes.mlflow.spanInputs", "data.request", "info.request_preview"]
        ),
        response=pick(
            record, [f"data.spans[{place}].attributes.mlflow.spanOutputs", "data.response", "info.response_preview"]
        ),
    )
    leave_own_tags(record, "info.tags")
    session, metadata = "mlflow.trace.session", record.get("info.trace_metadata")
    if isinstance(metadata, dict) and session in metadata:
        record.value[session] = metadata.pop(session)
    columns.fields = {
        "id": pick(record, ["info.tags.id", "info.trace_id", "info.request_id"])[0],
        "dialogue": pick(record, ["info.tags.dialogue", session])[0],
        "metadata": "info.tags",
    }
    yield from one(record, columns)


def find_answering(record: Record, spans: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The span of a trace that holds its last turn; the first without a parent where none answers."""
    spans = [span for span in spans if is_object_with("attributes")(span)]
    found = []
    for number, span in enumerate(spans):
        inner = {name: parse_text(value) for name, value in span["attributes"].items()}
        probe = Record(
            record.where, {"input": inner.get("mlflow.spanInputs"), "output": inner.get("mlflow.spanOutputs")}
        )
        place = SpanPlace(
            write_text(span.get("span_id")) or f"{number}",
            write_text(span.get("parent_span_id")) or "",
            trace="",
            kind=write_text(inner.get("mlflow.spanType")) or "",
            name=write_text(span.get("name")) or "",
            start=write_text(span.get("start_time_unix_nano")) or "",
        )
        items = one(probe, Columns(context=["input"], response=["output"]))
        found.append(SpanItem(place=place, record=Record("", span), found=list(items)))
    chosen = [span.record.value for span in choose_spans(found, Report()) if span.answers]
    return chosen[-1] if chosen else next((span for span in spans if not span.get("parent_span_id")), {})


def read_llm_jp(record: Record) -> ReadItems:
    """An answer of llm-jp-judge. Where the prompt is the judge's, the question stands in `text`."""
    judged = not is_blank(record.get("generate_response"))
    questions = "text" if not is_blank(record.get("text")) and (judged or is_blank(record.get("prompt"))) else "prompt"
    answers = "generate_response" if judged else "response"
    yield from make_turn_reader(questions, answers, id="ID")(record)


def read_flexeval(record: Record) -> ReadItems:
    """An output of flexeval: the messages of its inputs, else a known field of them, else the prompt."""
    holders = ("extra_info", "extra_inputs", "task_inputs")
    paths = [*(f"{holder}.messages" for holder in holders), "messages"]
    for holder in holders:
        inner = record.get(holder)
        if isinstance(inner, dict):
            paths += [f"{holder}.{name}" for name in find_columns(list(inner), {}, record.where).context]
    columns = Columns(context=pick(record, [*paths, "lm_prompt", "prompt"]), response=["lm_output"])
    columns.fields = {"reference": "references", "id": pick(record, [*(f"{holder}.id" for holder in holders), "id"])[0]}
    yield from one(record, columns)


def read_mt_bench(record: Record) -> ReadItems:
    """The turns and answers of MT-Bench and its relatives, where both stand in one record."""
    answers = pick(record, ["answers", "responses", "outputs", "choices"])[0]
    if is_blank(record.get("turns")):
        yield Skipped(tell("holds answers without their questions; join them by question_id"))
        return
    if isinstance(chosen := record.parse(answers), list) and chosen and isinstance(chosen[0], dict):
        record.value[answers] = chosen[0].get("turns", [])
        if len(chosen) > 1:
            record.leave(f"{answers}[]", tell("all but the first of several"))
    fields = {"id": "question_id", "references": "reference", "metadata__category": "category"}
    references = fields.pop("references")
    yield from make_turn_reader("turns", answers, references, **fields, metadata__model="model_id")(record)


def is_turns(value: dict[str, Any]) -> bool:
    """Whether what the user said stands in `turns`, and what was answered elsewhere."""
    turns = value.get("turns")
    texts = isinstance(turns, list) and bool(turns) and all(isinstance(turn, str) for turn in turns)
    return texts and bool({"answers", "responses", "outputs", "choices"} & value.keys())


def open_spans(record: Record) -> Iterator[Record]:
    """The spans of an OTLP export, of Phoenix's API, or one that the SDK printed, with their attributes beside their
    other fields."""
    found = False
    for resource in list_objects(record.get("resourceSpans") or record.get("resource_spans")):
        for scope in list_objects(resource.get("scopeSpans") or resource.get("scope_spans")):
            for span in list_objects(scope.get("spans")):
                found = True
                yield make_span(record, span, prefix="resourceSpans[].scopeSpans[].spans[].")
            scope.pop("spans", None)
    for path in ("data", "spans"):
        if not found and is_list_of_spans(path)(record.value):
            yield from (make_span(record, span, prefix=f"{path}[].") for span in list_objects(record.enter(path)))
            found = True
    if not found:
        yield make_span(record, record.value)
        record.entered += list(record.value)


def is_span(value: Mapping[str, Any]) -> bool:
    """Whether a record is a span: as OTLP or the SDK writes it, or as Phoenix does in its API and its DataFrames."""
    context = value.get("context")
    named = {"spanId", "span_id"} & {*value, *(context if isinstance(context, dict) else ())}
    return bool(named and "attributes" in value) or {"context.span_id", "context.trace_id"} <= value.keys()


def is_list_of_spans(field: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a field is a list of spans."""

    def test(value: dict[str, Any]) -> bool:
        inner = value.get(field)
        return isinstance(inner, list) and bool(inner) and isinstance(inner[0], dict) and is_span(inner[0])

    return test


def make_span(record: Record, span: dict[str, Any], prefix: str = "") -> Record:
    """A span with its attributes, and those of its events, as fields."""
    value = {key: part for key, part in span.items() if key not in ("attributes", "events")}
    value |= {f"attributes.{key}": part for key, part in read_plainly(read_attributes(span.get("attributes"))).items()}
    for event in list_objects(span.get("events")):
        name = event.get("name", "")
        if name == DETAILS:
            value |= {f"attributes.{key}": part for key, part in read_attributes(event.get("attributes")).items()}
        else:
            value.setdefault("events", []).append({**event, "attributes": read_attributes(event.get("attributes"))})
    made = Record(record.where, value, prefix=prefix)
    made.where += f": span {OF_OPENTELEMETRY.find_key(made)}"
    return made


def read_span(record: Record) -> ReadItems:
    """A span of a model's call, by any of the conventions for generative AI; other spans give no item."""
    prefix = "attributes."
    attributes = {name.removeprefix(prefix): part for name, part in record.value.items() if name.startswith(prefix)}
    events = [
        SpanEvent(str(event.get("name", "")), event["attributes"]) for event in list_objects(record.value.get("events"))
    ]
    found = gather_messages(attributes, events)
    if found is None:
        return
    columns = Columns(context=[f"{prefix}{found.names[0]}"], response=[f"{prefix}{found.names[1]}"])
    if found.parts is not None:
        take_parts(record, found, columns)
    columns.fields = {
        "id": pick(record, ["spanId", "span_id", "context.span_id"])[0],
        "dialogue": pick(record, [f"{prefix}{name}" for name in CONVERSATION_ATTRIBUTES])[0],
        "metadata.model": pick(
            record,
            [
                *("attributes.gen_ai.response.model", "attributes.gen_ai.request.model"),
                "attributes.llm.model_name",
            ],
        )[0],
    }
    yield from rate_items(one(record, columns), OF_PHOENIX, record)


def take_parts(record: Record, found: Gathered, columns: Columns) -> None:
    """Puts the messages of numbered attributes and of events in the place of what they were gathered from."""
    for name in found.parts or ():
        record.value.pop(f"attributes.{name}", None)
    for event in list_objects(record.value.get("events")):
        if SPOKEN.fullmatch(str(event.get("name", ""))):
            said = {"content", "message", "body", "gen_ai.prompt", "gen_ai.completion"}
            event["attributes"] = {key: part for key, part in event["attributes"].items() if key not in said}
            del event["name"]
    for path, messages in ((columns.context[0], found.asked), (columns.response[0], found.answered)):
        if messages:
            record.value[path] = messages


def read_chatgpt(record: Record) -> ReadItems:
    """A conversation of ChatGPT's export: an item for each answer on the branch that was shown last."""
    nodes, at = record.value["mapping"], record.get("current_node")
    branch: list[dict[str, Any]] = []
    while isinstance(at, str) and isinstance(node := nodes.get(at), dict) and len(branch) < min(len(nodes), MOST_TURNS):
        branch.append(node)
        at = node.get("parent")
    record.move("mapping", "context")
    spoken: list[Spoken] = []
    for node in reversed(branch):
        role = write_text(Record("", node).get("message.author.role"))
        parts = Record("", node).get("message.content.parts")
        text = "\n".join(part for part in parts if isinstance(part, str)) if isinstance(parts, list) else ""
        if role not in {USER, ASSISTANT} or not text.strip():
            continue
        if role == ASSISTANT and spoken:
            item = make_item(record, spoken[-MOST_CONTEXT:], text, {"dialogue": "conversation_id"})
            yield (
                {"id": f"{item['dialogue']}-{len(spoken)}"[:MOST_ID_CHARACTERS], **item} if "dialogue" in item else item
            )
        spoken = [*spoken, Spoken(role, text)]
    if not any(one.speaker == ASSISTANT for one in spoken[1:]):
        yield Skipped(tell(NO_RESPONSE))


TOOLS: Mapping[str, Tool] = {
    "saiten": Tool(
        either(is_saiten, is_result_row),
        lambda record: read_result_row(record) if is_result_row(record.value) else read_saiten(record),
    ),
    "chatgpt": Tool(lambda value: "current_node" in value and is_object_with("mapping")(value), read_chatgpt),
    "oasst": Tool(is_tree, read_tree, join=join_messages),
    "aihub": Tool(is_aihub, read_aihub, open_aihub),
    "lm-eval": Tool(is_sample, read_sample, join=join_filters),
    "logickor": Tool(
        has("questions", "outputs"),
        make_turn_reader("questions", "outputs", "references", id="id", metadata__category="category"),
    ),
    "mt-bench": Tool(either(is_turns, has("question_id", "choices")), read_mt_bench),
    "flexeval": Tool(has("lm_output"), read_flexeval),
    "llm-jp-judge": Tool(has("ID", "prompt|text", "response|generate_response"), read_llm_jp),
    "promptfoo": Tool(
        either(
            is_object_with("results", "results"),
            is_list_of("results", "vars", "prompt"),
            is_list_of("tests", "vars"),
            has("vars", "response|error", "prompt|provider"),
            has("vars", "assert|providerOutput|description"),
            lambda value: bool(list_outputs(value)),
        ),
        lambda record: read_outputs(record) if list_outputs(record.value) else read_promptfoo(record),
        open_lists("results.results", "results", "tests"),
    ),
    "inspect_ai": Tool(
        either(
            has("eval", "samples|plan"), has("epoch", "input", "output|messages"), has("input", "target", "metadata")
        ),
        read_inspect,
        open_lists("samples"),
    ),
    "openai-evals": Tool(
        either(
            has("sample", "item|datasource_item"),
            has("run_id", "event_id"),
            is_object_with("spec", "eval_name"),
            has("input", "ideal"),
            is_list_of("data", "sample", "datasource_item"),
        ),
        read_evals,
        open_lists("data"),
    ),
    "deepeval": Tool(
        either(
            has("testCases|test_cases|conversationalTestCases"),
            has("input", "actual_output|actualOutput"),
            is_list_of("turns", "role", "content"),
            is_list_of("goldens", "input"),
            has("scenario", "turns"),
        ),
        lambda record: (
            one(record, Columns(context=["turns"], fields={"id": "name"}))
            if not is_blank(record.get("turns"))
            else read_columns(
                "input",
                ("actual_output", "actualOutput"),
                id="name",
                reference="expected_output" if "expected_output" in record.value else "expectedOutput",
            )(record)
        ),
        open_lists("testCases", "conversationalTestCases", "test_cases", "goldens"),
    ),
    "opentelemetry": Tool(
        either(
            has("resourceSpans|resource_spans"),
            has("attributes", "events", "context", "name"),
            is_list_of_spans("data"),
            is_list_of_spans("spans"),
            is_span,
        ),
        read_span,
        open_spans,
        place=OF_OPENTELEMETRY.find,
    ),
    "langsmith": Tool(
        either(has("run_type", "inputs"), has("inputs", "outputs", "dataset_id|source_run_id")),
        read_traced_run,
        open_runs,
        place=OF_LANGSMITH.find,
    ),
    "mlflow": Tool(
        either(
            is_object_with("data", "spans"),
            has("inputs", "outputs|expectations"),
            has("request", "response", "trace_id|request_id|spans"),
        ),
        read_mlflow,
        place=place_record,
    ),
    "langfuse": Tool(
        either(
            has("input", "expectedOutput"),
            has("input", "output", "traceId|sessionId|projectId|observations|htmlPath|userId|traceName|release"),
            is_object_with("body", "input"),
            is_list_of("data", "input", "output"),
            is_list_of("data", "input", "expectedOutput"),
            has("input", "output", "trace_id", "id"),
            has("trace", "observations"),
        ),
        read_logged,
        open_traces,
        place=place_langfuse,
    ),
    "dbdc3": Tool(is_list_of("turns", "turn-index", "utterance"), read_dbdc),
    "usr": Tool(is_list_of("responses", "response", "model"), read_usr),
    "fed": Tool(lambda value: isinstance(value.get("annotations"), dict) and "context" in value, read_fed),
    "dstc9": Tool(
        either(has("context", OVERALL_OF_DSTC9), has("contexts", "responses", "scores")),
        read_dstc9,
        open_columns,
        join_raters,
    ),
    "unieval": Tool(has("source", "system_output", "scores"), read_unieval),
}
"""By name, in the order in which they are tried."""


def is_rows(value: dict[str, Any]) -> bool:
    """Whether the document is an answer of the dataset server of Hugging Face."""
    return is_list_of("rows", "row")(value)


def open_table(record: Record) -> Iterator[Record]:
    """The records of an object that is a table: rows by columns, columns by rows, or one list of objects."""
    value = record.value
    if is_rows(value):
        for part in open_lists("rows")(record):
            row = part.value.pop("row", None)
            yield Record(part.where, {**part.value, **(row if isinstance(row, dict) else {})}, prefix="rows[].")
        return
    columns, data = value.get("columns"), value.get("data")
    if isinstance(columns, list) and isinstance(data, list) and all(isinstance(row, list) for row in data):
        record.entered += ["columns", "data"]
        for number, row in enumerate(data):
            yield Record(f"{record.where}: data[{number}]", dict(zip(map(str, columns), row, strict=False)))
        return
    if rows := turn_columns(value):
        record.entered += list(value)
        yield from (Record(f"{record.where}: row {number}", row) for number, row in rows)
        return
    lists = [key for key, part in value.items() if is_records(key, part)]
    if len(lists) == 1 and holds_nothing_else(value, lists[0]):
        yield from open_lists(lists[0])(record)
    elif len(lists) > 1 and not known_item(value):
        raise UnreadableInput(
            tell(
                "{where}: holds several lists ({names}); give one of them as a file",
                where=record.where,
                names=", ".join(lists),
            )
        )
    else:
        yield record


def holds_nothing_else(value: dict[str, Any], name: str) -> bool:
    """Whether what stands beside a list of objects is no item: an id and the like at most, where the list's own name
    is not known."""
    rest = [key for key in value if key != name]
    return not count_known(rest, {}) or not (count_known([name], {}) or find_columns(rest, {}, "").useful)


def is_records(key: str, value: Any) -> bool:
    """Whether a field holds records, and not the messages of a single one."""
    if not isinstance(value, list) or not value or not all(isinstance(part, dict) for part in value):
        return False
    return not (count_known([key], {}) and find_key(value[0], ROLE_KEYS) and find_key(value[0], TEXT_KEYS))


def known_item(value: dict[str, Any]) -> bool:
    """Whether the object itself looks like an item."""
    return find_columns(list(value), {}, "").useful


def turn_columns(value: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The rows of an object that holds columns, as pandas and Hugging Face write them; none where it does not."""
    parts = list(value.values())
    known = find_columns(list(value), {}, "")
    if known.context and known.response:
        pass  # a request and its response, say
    elif parts and all(isinstance(part, dict) and count_known(part, {}) > 1 for part in parts):
        named = all(find_columns(list(part), {}, "").fields.get("id") is None for part in parts)
        return [(name, {"id": name, **row} if named else row) for name, row in value.items()]  # rows by their names
    if len(parts) < 2 or count_known(list(value), {}) < 2:
        return []
    if all(isinstance(part, dict) and part.keys() == parts[0].keys() for part in parts) and parts[0]:
        if all(key.isdigit() for key in parts[0]):
            return [(key, {name: column[key] for name, column in value.items()}) for key in parts[0]]
        return []
    even = all(isinstance(part, list) and len(part) == len(parts[0]) for part in parts)
    if even and any(isinstance(cell, str) for part in parts for cell in part) and is_columns(value):
        return [
            (str(number), dict(zip(value, row, strict=True))) for number, row in enumerate(zip(*parts, strict=True))
        ]
    return []


def is_columns(value: dict[str, Any]) -> bool:
    """Whether lists of the same length are columns: one of them holds responses, not messages."""
    found = find_columns(list(value), {}, "")
    return bool(found.response) and not any(isinstance(cell, dict) for cell in value[found.response[0]])


def detect(value: dict[str, Any]) -> str:
    """The tool whose format the first record has; `table` where none."""
    return next((name for name, tool in TOOLS.items() if tool.matches(value)), "table")
