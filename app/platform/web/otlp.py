"""How requests of exporters are refused: OTLP asks for a `google.rpc.Status` in the encoding of the request with every
4xx and 5xx."""

from __future__ import annotations

import json
from collections.abc import Mapping
from email.message import Message as Header
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

EXPORTS = ("/v1/traces", "/v1/logs")
"""Where exporters send to."""

JSON, PROTOBUF = "application/json", "application/x-protobuf"

INVALID_ARGUMENT, INTERNAL = 3, 13
GRPC_CODES = {
    HTTPStatus.UNAUTHORIZED: 16,
    HTTPStatus.FORBIDDEN: 7,
    HTTPStatus.TOO_MANY_REQUESTS: 8,
    HTTPStatus.SERVICE_UNAVAILABLE: 14,
    HTTPStatus.INSUFFICIENT_STORAGE: 8,
}
"""gRPC's codes; of other statuses INVALID_ARGUMENT below 500, and INTERNAL from there on."""


def is_export(request: Request) -> bool:
    """Whether an exporter sent this."""
    return request.method == "POST" and request.scope["path"] in EXPORTS


def media_type_of(headers: Mapping[str, str]) -> str:
    """The media type of a request's body, without parameters; empty where none is given."""
    header = Header()
    header["content-type"] = headers.get("content-type", "")
    return header.get_content_type() if headers.get("content-type") else ""


def answer_status(request: Request, status: int, text: str, headers: Mapping[str, str]) -> Response:
    """The Status; as protobuf where the request's encoding is neither of OTLP's."""
    usual = INVALID_ARGUMENT if status < HTTPStatus.INTERNAL_SERVER_ERROR else INTERNAL
    code = GRPC_CODES.get(HTTPStatus(status), usual)
    if media_type_of(request.headers) == JSON:
        body = json.dumps({"code": code, "message": text}, ensure_ascii=False)
        return Response(body, status, headers, JSON)
    from google.rpc.status_pb2 import Status

    return Response(Status(code=code, message=text).SerializeToString(), status, headers, PROTOBUF)
