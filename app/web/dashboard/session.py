"""The visitor: a session in an HTTP-only cookie, or the API's `Authorization` header."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from app.web.admission import SESSION_COOKIE, Authenticator, cookie_of, credential_of
from app.web.dashboard import page
from app.web.dashboard.language import COOKIE as LANGUAGE_COOKIE
from app.web.dashboard.language import LANGUAGES
from app.web.dashboard.page import PageRoute, own_address, read_form, redirect, render
from app.web.dependencies import Serving, may_write
from app.web.problems import RequestRefused

router = APIRouter(include_in_schema=False, route_class=PageRoute)

FORMER_COOKIE = "saiten_key"
"""The cookie that held the key before there were sessions; it is deleted."""

WEEK_SECONDS = 7 * 86_400
YEAR_SECONDS = 365 * 86_400


async def enter(request: Request) -> str:
    """Lets the visitor in and returns the project, or raises LoginNeeded or RequestRefused. Sets what the request's
    state holds of the caller. The first visit compiles the templates in the background."""
    state = request.app.state
    if not hasattr(state, "compiling"):
        state.compiling = asyncio.get_running_loop().run_in_executor(None, page.compile_templates)
    admission: Authenticator = state.admission
    try:
        admitted = await admission.admit(request, credential_of(request))
    except RequestRefused as error:
        if error.status != 401:
            raise
        raise page.LoginNeeded(page.here(request) if request.method == "GET" else "/") from None
    request.state.project = admitted.project
    request.state.scope = admitted.scope
    request.state.actor = admitted.actor
    request.state.key = admitted.key
    request.state.signed_in = admitted.key is not None
    return admitted.project


async def enter_to_write(request: Request) -> str:
    """Like `enter`; raises RequestRefused (403) for a read-only key."""
    project = await enter(request)
    if not may_write(request):
        detail = "your key may only read; sign in with one that `saiten keys create --scope write` made"
        raise RequestRefused(403, "insufficient-scope", "The key's scope does not allow this", detail)
    return project


Project = Annotated[str, Depends(enter)]
WritableProject = Annotated[str, Depends(enter_to_write)]


@router.get("/login")
async def show_login(request: Request, next: str = "/") -> Response:  # noqa: A002 (the parameter's public name)
    """Asks for a key."""
    return render(request, "login.html", next=own_address(next), failed=False)


@router.post("/login")
async def log_in(request: Request, container: Serving) -> Response:
    """Opens a session if the key is valid. The cookie holds the session's token, never the key."""
    form = await read_form(request)
    key, address = form.get("key"), own_address(form.get("next", "/"))
    token = await container.governance.keys.open_session(key, seconds=WEEK_SECONDS) if key.isascii() else None
    if token is None:
        return render(request, "login.html", 401, next=address, failed=True)
    response = redirect(address)
    keep(request, response, SESSION_COOKIE, token, WEEK_SECONDS)
    response.delete_cookie(FORMER_COOKIE, httponly=True, samesite="lax")
    return response


@router.post("/logout")
async def log_out(request: Request, container: Serving) -> Response:
    """Closes the session, so that copies of its cookie are invalid."""
    await read_form(request)
    shown = cookie_of(request)
    if shown is not None:
        await container.governance.keys.close_session(shown.text)
    response = redirect("/login")
    for name in (SESSION_COOKIE, FORMER_COOKIE):
        response.delete_cookie(name, httponly=True, samesite="lax")
    return response


@router.post("/preferences")
async def prefer(request: Request) -> Response:
    """Stores language and theme in cookies, and redirects back."""
    form = await read_form(request)
    response = redirect(own_address(form.get("next", "/")))
    if (language := form.get("language")) in LANGUAGES:
        keep(request, response, LANGUAGE_COOKIE, language, YEAR_SECONDS)
    theme = form.get("theme")
    if theme in page.THEMES:
        keep(request, response, page.THEME_COOKIE, theme, YEAR_SECONDS)
    elif theme == "system":
        response.delete_cookie(page.THEME_COOKIE, httponly=True, samesite="lax")
    return response


def keep(request: Request, response: Response, name: str, value: str, seconds: int) -> None:
    """Sets a cookie; other sites' links send it, but none of their other requests do."""
    secure = is_secure(request)
    response.set_cookie(name, value, max_age=seconds, secure=secure, httponly=True, samesite="lax")


def is_secure(request: Request) -> bool:
    """Whether the visitor uses https; behind a proxy a setting says so."""
    return request.url.scheme == "https" or bool(request.app.state.secure_cookies)
