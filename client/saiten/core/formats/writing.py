"""Items as other tools import them: one JSON object for each response, a line each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from saiten.core.formats.report import Report
from saiten.core.formats.tools import OPTION_FIELDS
from saiten.core.language import tell

Written = dict[str, Any]


def write_messages(context: list[dict[str, str]]) -> list[dict[str, str]]:
    """The context as chat messages: the last speaker is the user, all others are the assistant."""
    user = context[-1]["speaker"]
    roles = ["user" if spoken["speaker"] == user else "assistant" for spoken in context]
    return [{"role": role, "content": spoken["text"]} for role, spoken in zip(roles, context, strict=True)]


def extend(item: Written, *names: str) -> dict[str, Any]:
    """The metadata with fields of the item for which the other tool has no place of its own."""
    own = {name: item[name] for name in names if name in item}
    return {**item.get("metadata", {}), **own}


def write_promptfoo(item: Written) -> Written:
    """A test case with its output, as in a file of `tests`."""
    given = {"messages": write_messages(item["context"])}
    if "reference" in item:
        given["reference"] = item["reference"]
    case = {"vars": given, "providerOutput": item["response"], "metadata": extend(item, "dialogue")}
    return {"description": item["id"], **case} if "id" in item else case


def write_inspect(item: Written) -> Written:
    """A sample of a JSON dataset; the response stands in its metadata."""
    sample = {"input": write_messages(item["context"]), "target": item.get("reference", "")}
    sample["metadata"] = extend(item, "dialogue", "response")
    return {"id": item["id"], **sample} if "id" in item else sample


def write_mlflow(item: Written) -> Written:
    """A record for `mlflow.genai.evaluate(data=…)`."""
    written: Written = {"inputs": {"messages": write_messages(item["context"])}, "outputs": item["response"]}
    if "reference" in item:
        written["expectations"] = {"expected_response": item["reference"]}
    tags = extend(item, "id", "dialogue")
    return {**written, "tags": tags} if tags else written


def write_wandb(item: Written) -> Written:
    """A row of a dataset of W&B Weave."""
    row = {"messages": write_messages(item["context"]), "output": item["response"]}
    return {
        **{k: item[k] for k in ("id", "dialogue") if k in item},
        **row,
        **{k: item[k] for k in ("reference", "metadata") if k in item},
    }


def write_langfuse(item: Written) -> Written:
    """An item of a dataset; the response stands in its metadata."""
    written: Written = {"input": {"messages": write_messages(item["context"])}, "expectedOutput": item.get("reference")}
    written["metadata"] = extend(item, "dialogue", "response")
    return {"id": item["id"], **written} if "id" in item else written


TARGET_WRITERS: Mapping[str, Callable[[Written], Written]] = {
    "saiten": dict,
    "promptfoo": write_promptfoo,
    "inspect_ai": write_inspect,
    "mlflow": write_mlflow,
    "wandb": write_wandb,
    "langfuse": write_langfuse,
}
"""How an item with one response is written for each tool."""


def write_items(items: Iterable[dict[str, Any]], target: str, report: Report) -> Iterator[Written]:
    """The items as the tool imports them; what it has no place for is reported."""
    write = TARGET_WRITERS[target]
    for item in items:
        if target == "saiten":
            yield write(item)
            continue
        if "turns" in item:
            report.leave("turns", tell("{target} has no place for it", target=target))
            continue
        for name in OPTION_FIELDS:
            if name in item:
                report.leave(name, tell("{target} has no place for it", target=target))
        for name in {spoken["speaker"] for spoken in item["context"]} - {"user", "assistant"}:
            report.leave(f"speaker {name}", tell("{target} has user and assistant", target=target))
        for name in {"id", "dialogue", "response"} & item.get("metadata", {}).keys() & item.keys():
            report.leave(f"metadata.{name}", tell("the item's own {name} takes its place", name=name))
        for response, number in candidates(item):
            single = {**item, "response": response}
            if number and "id" in item:
                single["id"] = f"{item['id']}-{number}"
            yield write(single)


def candidates(item: Written) -> list[tuple[str, int]]:
    """Each response with its number from 1; 0 for the only one of an item."""
    if "responses" in item:
        return [(response, number) for number, response in enumerate(item["responses"], start=1)]
    return [(item["response"], 0)]
