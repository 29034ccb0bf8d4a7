"""Forms: limited in size, UTF-8, and only from pages of this service."""

from __future__ import annotations

from urllib.parse import parse_qsl

from fastapi import Request

from app.domain.errors import InvalidRequest
from app.web.body import receive, require_media_type
from app.web.problems import RequestRefused

FORM = "application/x-www-form-urlencoded"
FORM_BYTES = 1024 * 1024
MOST_FIELDS = 2000


class Form:
    """The fields of a form; missing fields are empty."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    def get(self, name: str, default: str = "") -> str:
        """The field's first value, without spaces around it."""
        return next((value.strip() for field, value in self._fields if field == name), default)

    def raw(self, name: str) -> str:
        """The field's first value with one kind of line end, otherwise as it was sent."""
        found = next((value for field, value in self._fields if field == name), "")
        return found.replace("\r\n", "\n").replace("\r", "\n")

    def all(self, name: str) -> list[str]:
        """The values of all fields of the name, in order."""
        return [value.replace("\r\n", "\n") for field, value in self._fields if field == name]

    def starting(self, prefix: str) -> dict[str, str]:
        """The fields whose names begin so, by the rest of their names."""
        return {name.removeprefix(prefix): value for name, value in self._fields if name.startswith(prefix)}


async def read_form(request: Request) -> Form:
    """The form in the body. Raises RequestRefused: 403 from another site's page, 408, 413, 415; InvalidRequest."""
    require_same_origin(request)
    require_media_type(request.headers, FORM)
    body = await receive(request, FORM_BYTES, request.app.state.body_timeout_seconds)
    try:
        fields = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            encoding="utf-8",
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError:
        raise InvalidRequest("the form cannot be read; send it again from its page") from None
    return Form(fields)


def require_same_origin(request: Request) -> None:
    """Raises RequestRefused (403) if a page of another site sent the form, which the browser's headers show."""
    site = request.headers.get("sec-fetch-site", "")
    origin = request.headers.get("origin", "")
    foreign = site not in {"", "same-origin", "none"}
    elsewhere = bool(origin) and origin.partition("://")[2] != request.headers.get("host", "")
    if foreign or (elsewhere and not site):
        raise RequestRefused(
            403, "cross-site-form", "Not from another site", "send the form from this service's own page"
        )
