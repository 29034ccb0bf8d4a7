"""A page: a template, the visitor's language and theme, and headers under which no foreign script runs."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Coroutine, Mapping
from functools import cache
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import BytecodeCache, Environment, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket
from starlette.responses import RedirectResponse

from app import __version__
from app.domain.errors import SaitenError
from app.web.dashboard import assets, texts
from app.web.dashboard.language import LANGUAGES, formats_of, language_of, translations_of

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    # Pages hold dialogues: they are for this visitor alone, and gone with the run.
    "Cache-Control": "no-store",
    "Vary": "Accept-Encoding, Accept-Language, Cookie",
    # Elsewhere nothing is told. Were it the same here, a browser would send `Origin: null` with this service's forms.
    "Referrer-Policy": "same-origin",
}
THEME_COOKIE = "saiten_theme"
THEMES = ("light", "dark")
LEAST_BYTES = 1024
"""Smaller pages are not worth compressing."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Compiled(BytecodeCache):
    """Templates compiled once for all languages: compiling one takes up to a tenth of a second."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if (code := self._kept.get(bucket.key)) is not None:
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._kept[bucket.key] = bucket.bytecode_to_string()


COMPILED = Compiled()


def compile_templates() -> None:
    """Compiles them all, so that only the first page of a process waits for its own. It takes half a second: not for an
    event loop."""
    environment = environment_of(next(iter(LANGUAGES)))
    for name in environment.list_templates(extensions=["html"]):
        environment.get_template(name)


@cache
def environment_of(language: str) -> Environment:
    """The templates, speaking one language. Everything is escaped, and a name that is not there is an error."""
    made = Environment(
        loader=PackageLoader("app.web.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
        bytecode_cache=COMPILED,
        # A service goes on with the templates that its code was started with.
        auto_reload=False,
    )
    made.install_gettext_translations(translations_of(language), newstyle=True)  # type: ignore[attr-defined]
    formats = formats_of(language)
    made.globals.update(
        language=language,
        languages=LANGUAGES,
        version=__version__,
        asset=assets.address,
        fmt=formats,
        term=texts.Terms(translations_of(language)),
        lang_of=texts.lang_of,
        pick=lambda phrase: texts.pick(phrase, language),
        query=texts.query,
    )
    return made


def render(request: Request, template: str, status: int = 200, /, **context: Any) -> Response:
    """The page in the visitor's language."""
    return answer(request, render_text(request, template, **context), status)


def render_text(request: Request, template: str, /, **context: Any) -> str:
    """The template's text, for what is no whole page."""
    environment = environment_of(language_of(request))
    state = request.state
    common = {
        "path": request.scope["path"],
        "here": here(request),
        "theme": theme_of(request),
        "project": getattr(state, "project", None),
        "scope": getattr(state, "scope", None),
        "signed_in": getattr(state, "signed_in", False),
    }
    return environment.get_template(template).render({**common, **context})


def answer(request: Request, page: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """The page with its headers, compressed where the browser takes that."""
    body = page.encode()
    given = {**HEADERS, **(headers or {})}
    if len(body) > LEAST_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
        body = gzip.compress(body, 5, mtime=0)
        given["Content-Encoding"] = "gzip"
    return Response(body, status, given, "text/html; charset=utf-8")


def here(request: Request) -> str:
    """Path and query of this page."""
    asked = request.scope["query_string"].decode("latin-1")
    path: str = request.scope["path"]
    return f"{path}?{asked}" if asked else path


def theme_of(request: Request) -> str:
    """`light` or `dark` where the visitor chose one, else empty: as the system has it."""
    chosen = request.cookies.get(THEME_COOKIE, "")
    return chosen if chosen in THEMES else ""


def redirect(address: str) -> Response:
    """To another page, by GET."""
    return RedirectResponse(address, 303, {"Cache-Control": "no-store"})


class PageRoute(APIRoute):
    """A route whose errors are pages too."""

    def get_route_handler(self) -> Handler:
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            from app.web.dashboard.errors import show_error, show_unreadable

            try:
                return await inner(request)
            except SaitenError as error:
                return show_error(request, error)
            except RequestValidationError:
                return show_unreadable(request)

        return handle
