"""`/docs`: the HTTP API as Swagger UI shows it, in the frame of the other pages. It keeps no key beyond the page."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from saiten_server.platform.web.page import POLICY, PageRoute, render

router = APIRouter(include_in_schema=False, route_class=PageRoute)

# Swagger UI draws its icons from data URLs.
DRAWN_POLICY = POLICY.replace("img-src 'self'", "img-src 'self' data:")


@router.get("/docs")
async def show_reference(request: Request) -> Response:
    """Anyone may read it: it holds nothing of a project."""
    page = render(request, "reference.html")
    page.headers["Content-Security-Policy"] = DRAWN_POLICY
    return page
