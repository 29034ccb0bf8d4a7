"""What the OpenAPI document says of every answer: the headers that layers around the routes set, and no status that a
route cannot give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Operation = dict[str, Any]

EVERYWHERE = (400, 431, 500)
"""Framing and headers are looked at before any route is."""

NEEDS_BODY = frozenset({"408", "413", "415"})
NEVER_READING = frozenset({"409", "502", "507"})
"""What a GET does not meet: it changes nothing, and asks nobody else."""


def header(description: str, *, required: bool = False, **schema: Any) -> dict[str, Any]:
    """A header of an answer; a string unless `schema` says otherwise."""
    return {"description": description, "required": required, "schema": {"type": "string", **schema}}


REQUEST_ID = header("the caller's, or one made for this request; the log has it too", required=True)
REPLAYED = header("`true` where the answer is the stored one of an earlier request with this key", enum=["true"])
BY_STATUS: dict[str, dict[str, Any]] = {
    "401": {"WWW-Authenticate": header('`Bearer realm="saiten"`', required=True)},
    "409": {"Retry-After": header("seconds, where the Idempotency-Key is in use", pattern="^[0-9]+$")},
    "429": {"Retry-After": header("seconds", required=True, pattern="^[0-9]+$")},
    "503": {"Retry-After": header("seconds", pattern="^[0-9]+$")},
}


def complete(document: dict[str, Any], problems: Mapping[int | str, dict[str, Any]]) -> None:
    """Brings every operation's answers up to what is true of all, in place. `problems` describes each by its status."""
    for operations in document["paths"].values():
        for method, operation in operations.items():
            responses = operation["responses"]
            responses.update({str(status): problems[status] for status in EVERYWHERE if str(status) not in responses})
            for status in impossible(method, operation):
                responses.pop(status, None)
            operation["responses"] = {
                status: with_headers(response, headers_of(status, operation)) for status, response in responses.items()
            }


def impossible(method: str, operation: Operation) -> frozenset[str]:
    """The statuses that an operation cannot give."""
    never = frozenset() if "requestBody" in operation else NEEDS_BODY
    return never | NEVER_READING if method == "get" else never


def headers_of(status: str, operation: Operation) -> dict[str, Any]:
    """The headers of an operation's answers with a status."""
    names = {parameter.get("name") for parameter in operation.get("parameters", ())}
    replays = status.startswith("2") and "Idempotency-Key" in names
    return {
        "X-Request-Id": REQUEST_ID,
        **BY_STATUS.get(status, {}),
        **({"Idempotent-Replayed": REPLAYED} if replays else {}),
    }


def with_headers(response: dict[str, Any], headers: dict[str, Any]) -> dict[str, Any]:
    """The response with these headers too; a shared description is left as it is."""
    return {**response, "headers": {**headers, **response.get("headers", {})}}
