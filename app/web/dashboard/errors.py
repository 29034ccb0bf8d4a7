"""Errors as pages: what happened, and what to do next."""

from __future__ import annotations

import logging
from http import HTTPStatus

from fastapi import Request, Response

from app.domain.errors import SaitenError
from app.web.dashboard.page import here, redirect, render
from app.web.dashboard.session import LoginNeeded, own_address
from app.web.dashboard.texts import mark, query
from app.web.problems import Refused, clip, faults_of, headers_of, status_of

logger = logging.getLogger("saiten.web")

ADVICE = {
    HTTPStatus.FORBIDDEN: (mark("This is not allowed"), mark("Sign in with a key whose scope allows it.")),
    HTTPStatus.NOT_FOUND: (
        mark("There is nothing here"),
        mark("It may have been erased, or belong to another project. The list of runs shows what there is."),
    ),
    HTTPStatus.CONFLICT: (mark("This does not fit its present state"), mark("Go back, load the page again, and look.")),
    HTTPStatus.UNPROCESSABLE_ENTITY: (
        mark("This cannot be done as asked"),
        mark("Go back and change what is named below."),
    ),
    HTTPStatus.BAD_GATEWAY: (mark("The judge gave no usable reply"), mark("Try again; the log has the details.")),
    HTTPStatus.INTERNAL_SERVER_ERROR: (
        mark("Something went wrong inside Saiten"),
        mark("Load the page again; if it stays so, ask your operator: the log has a record of it."),
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: (
        mark("Something that Saiten needs does not answer"),
        mark("Wait a moment and load the page again; if it stays so, ask your operator."),
    ),
}
OTHERWISE = (mark("This did not work"), mark("Go back and try again."))


def show_error(request: Request, error: SaitenError) -> Response:
    """The page of any error in the tree; whoever has no key is asked for one."""
    if isinstance(error, LoginNeeded):
        address = own_address(error.address)
        return redirect(query("/login", next=None if address == "/" else address))
    status = error.status if isinstance(error, Refused) else status_of(type(error))
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        logger.warning("%s: %s", error.code, error.loggable, extra={"code": error.code, "status": status})
    faults = [(clip(where), clip(what)) for where, what in faults_of(error)[:20] if where]
    return show_status(request, status, clip(error.detail, 400), faults, headers_of(error, status))


def show_unreadable(request: Request) -> Response:
    """The page for an address whose parameters do not fit."""
    return show_status(request, HTTPStatus.UNPROCESSABLE_ENTITY, "", [], {})


def show_status(
    request: Request, status: int, detail: str, faults: list[tuple[str, str]], headers: dict[str, str]
) -> Response:
    """The page of a status; `detail` is the API's own English sentence."""
    title, advice = ADVICE.get(HTTPStatus(status), OTHERWISE)
    page = render(
        request, "error.html", status, title=title, advice=advice, detail=detail, faults=faults, at=here(request)
    )
    page.headers.update({name: value for name, value in headers.items() if name != "WWW-Authenticate"})
    return page


def wants_page(request: Request) -> bool:
    """Whether a person's browser asks, and not for the API."""
    path: str = request.scope["path"]
    return not path.startswith(("/v1", "/docs/")) and "text/html" in request.headers.get("accept", "")
