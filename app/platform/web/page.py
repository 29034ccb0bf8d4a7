"""What all pages share: how they are rendered, errors as pages, files, forms, the visitor with a session or key, and
two texts side by side.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import secrets
import sys
import unicodedata
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from difflib import SequenceMatcher
from functools import cache, cached_property, partial
from http import HTTPStatus
from importlib import metadata
from importlib.resources import files
from importlib.util import cache_from_source
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.types import Receive, Scope, Send

from saiten.core.messages import Message
from saiten.core.wording import name_run, title_run
from saiten_server import __version__
from saiten_server.core.dialogue import is_invisible
from saiten_server.core.errors import InvalidRequest, NotFound, SaitenError
from saiten_server.platform.bundled import find_folders
from saiten_server.platform.tasks import WARM_SECONDS, end_tasks
from saiten_server.platform.web import problems
from saiten_server.platform.web.admission import INVITED_COOKIE, SESSION_COOKIE, Authenticator, cookie_of, credential_of
from saiten_server.platform.web.body import SMALL_BYTES, receive, require_media_type
from saiten_server.platform.web.dependencies import Serving, may_write
from saiten_server.platform.web.language import (
    LANGUAGE_COOKIE,
    LANGUAGES,
    lang_of,
    language_of,
    mark,
    pick,
    query,
    speech_in,
)
from saiten_server.platform.web.problems import ExtraHeaders, RequestRefused, clip, faults_of, find_status, headers_of

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    # Pages hold dialogues: they are private, and must vanish with the run.
    "Cache-Control": "no-store",
    "Vary": "Accept-Encoding, Accept-Language, Cookie",
    # Other sites get no referrer. With `no-referrer`, browsers would send `Origin: null` with this service's forms.
    "Referrer-Policy": "same-origin",
}
THEME_COOKIE = "saiten_theme"
THEMES = ("light", "dark")
LEAST_BYTES = 1024
"""Smaller pages are not worth compressing."""

FieldFaults = Sequence[tuple[str, Message]]
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Compiled(BytecodeCache):
    """Templates compiled once for all languages, and kept in files as Python keeps what it compiles: to compile all
    takes more than a second."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    @cached_property
    def folder(self) -> Path:
        """Where they are kept. What compiles them is in its name: this module, which chooses how, and Jinja."""
        made_by = hashlib.sha256(Path(__file__).read_bytes() + metadata.version("jinja2").encode()).hexdigest()
        return Path(cache_from_source(__file__)).with_name(f"templates-{made_by[:16]}")

    def place(self, bucket: Bucket) -> Path:
        """The file of a template."""
        return self.folder / f"{bucket.key}.bin"

    def load_bytecode(self, bucket: Bucket) -> None:
        code = self._kept.get(bucket.key)
        if code is None:
            with suppress(OSError):  # not kept yet
                code = self._kept[bucket.key] = self.place(bucket).read_bytes()
        if code is not None:
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._kept[bucket.key] = bucket.bytecode_to_string()
        if sys.dont_write_bytecode:
            return
        with suppress(OSError):  # like Python, where it may not write there
            self.folder.mkdir(exist_ok=True)
            written = self.place(bucket).with_suffix(f".{secrets.token_hex(8)}")
            written.write_bytes(self._kept[bucket.key])
            written.replace(self.place(bucket))


COMPILED = Compiled()


def compile_templates(stopped: Callable[[], bool] = lambda: False) -> None:
    """Compiles all templates that are not kept yet, or reads them, until it is `stopped`."""
    environment = environment_of(next(iter(LANGUAGES)))
    for name in environment.list_templates(extensions=["html"]):
        if stopped():
            return
        environment.get_template(name)


@asynccontextmanager
async def compiling_templates() -> AsyncIterator[None]:
    """Compiles them soon after the start, in a thread, so that no visitor waits for it."""
    stopped = asyncio.Event()

    async def work() -> None:
        await asyncio.sleep(WARM_SECONDS)
        await asyncio.to_thread(compile_templates, stopped.is_set)

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        stopped.set()
        await end_tasks([task])


@cache
def environment_of(language: str) -> Environment:
    """The templates in one language. Everything is escaped, and an undefined name is an error."""
    made = Environment(
        loader=FileSystemLoader(find_folders("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
        bytecode_cache=COMPILED,
        # Templates belong to the code that was started.
        auto_reload=False,
    )
    speech = speech_in(language)
    made.install_gettext_translations(speech.translations, newstyle=True)  # type: ignore[attr-defined]
    made.globals.update(
        language=language,
        languages=LANGUAGES,
        version=__version__,
        asset=asset_address,
        fmt=speech.formats,
        term=speech.term,
        tell=partial(tell_in_language, language),
        lang_of=lang_of,
        is_verbatim=is_verbatim,
        pick=lambda phrase: pick(phrase, language),
        query=query,
        reveal=reveal,
        name_run=name_run,
        title_run=title_run,
    )
    return made


def tell_in_language(language: str, what: str | Message) -> str:
    """A sentence in the language; a text as it is."""
    return clip(what.say(language), MOST_FAULT_CHARACTERS) if isinstance(what, Message) else what


def is_verbatim(what: str | Message) -> bool:
    """Whether the words are somebody else's, or those of an older version: a text is in no language of Saiten's."""
    return isinstance(what, Message) and what.id == "verbatim"


MOST_FAULT_CHARACTERS = 400


class Page(Response):
    """A page that is written when it is sent, in a thread: callers' texts can make it as long as they like."""

    def __init__(self, status: int, write: Callable[[], str], *, compressed: bool) -> None:
        super().__init__(b"", status, HEADERS, "text/html; charset=utf-8")
        self._write = write
        self._compressed = compressed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.body, is_compressed = await asyncio.to_thread(self._make)
        self.headers["Content-Length"] = str(len(self.body))
        if is_compressed:
            self.headers["Content-Encoding"] = "gzip"
        await super().__call__(scope, receive, send)

    def _make(self) -> tuple[bytes, bool]:
        body = self._write().encode()
        if self._compressed and len(body) > LEAST_BYTES:
            return gzip.compress(body, 5, mtime=0), True
        return body, False


def render(request: Request, template: str, status: int = 200, /, **context: Any) -> Response:
    """The page in the visitor's language, with its headers, compressed if the browser accepts it."""
    accepted = "gzip" in request.headers.get("accept-encoding", "")
    return Page(status, partial(render_text, request, template, **context), compressed=accepted)


def render_text(request: Request, template: str, /, **context: Any) -> str:
    """The rendered template, for fragments too."""
    state, theme = request.state, request.cookies.get(THEME_COOKIE, "")
    common = {
        "path": request.scope["path"],
        "here": here(request),
        "theme": theme if theme in THEMES else "",  # empty for the system's theme
        "project": getattr(state, "project", None),
        "scope": getattr(state, "scope", None),
        "signed_in": getattr(state, "signed_in", False),
        "is_invited": is_invited(request),
        "invisible": request.query_params.get("invisible") == "1",
    }
    return environment_of(language_of(request)).get_template(template).render({**common, **context})


def is_invited(request: Request) -> bool:
    """Whether the visitor shows an invitation, valid or not, and nothing else: a rater, who may only rate."""
    return INVITED_COOKIE in request.cookies and credential_of(request) is None


def here(request: Request) -> str:
    """Path and query of this page."""
    asked = request.scope["query_string"].decode("latin-1")
    path: str = request.scope["path"]
    return f"{path}?{asked}" if asked else path


def toggle_invisible(request: Request) -> str:
    """This page with invisible characters shown, or without them."""
    asked = [(name, value) for name, value in request.query_params.multi_items() if name != "invisible"]
    if request.query_params.get("invisible") != "1":
        asked.append(("invisible", "1"))
    return f"{request.scope['path']}?{urlencode(asked)}"


def redirect(address: str) -> Response:
    """To another page, by GET."""
    return RedirectResponse(address, 303, {"Cache-Control": "no-store"})


class PageRoute(APIRoute):
    """A route whose errors are pages too."""

    def get_route_handler(self) -> Handler:
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await inner(request)
            except SaitenError as error:
                return show_error(request, error)
            except RequestValidationError:
                return show_status(request, HTTPStatus.UNPROCESSABLE_ENTITY)

        return handle


ADVICE = {
    HTTPStatus.FORBIDDEN: (mark("This is not allowed"), mark("Sign in with a key whose scope allows it.")),
    HTTPStatus.NOT_FOUND: (
        mark("Page not found"),
        mark("It may have been erased, or it may belong to another project. The list of runs shows what is available."),
    ),
    HTTPStatus.CONFLICT: (mark("This is not possible in its current state"), mark("Go back and reload the page.")),
    HTTPStatus.UNPROCESSABLE_ENTITY: (
        mark("This request cannot be carried out"),
        mark("Go back and correct what is listed below."),
    ),
    HTTPStatus.BAD_GATEWAY: (mark("The judge gave no usable reply"), mark("Try again; the log has the details.")),
    HTTPStatus.INTERNAL_SERVER_ERROR: (
        mark("Something went wrong inside Saiten"),
        mark("Reload the page. If the problem persists, ask your operator: the error is in the log."),
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: (
        mark("A service that Saiten needs is not responding"),
        mark("Wait a moment and reload the page. If the problem persists, ask your operator."),
    ),
}
OTHERWISE = (mark("This did not work"), mark("Go back and try again."))


class LoginNeeded(RequestRefused):
    """A visitor without a valid key; `address` is the page to show after the login, which is on `page`."""

    def __init__(self, address: str, *, page: str = "/login") -> None:
        detail = Message("sign-in-needed")
        super().__init__(401, "unauthorized", detail)
        self.address = address
        self.page = page


def own_address(address: str) -> str:
    """The address if it is a path of this service, otherwise `/`."""
    is_own = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if is_own and "\\" not in address and len(address) <= 2000 else "/"


def show_error(request: Request, error: SaitenError) -> Response:
    """The page of an error; a visitor without a key is redirected to the login."""
    if isinstance(error, LoginNeeded):
        address = own_address(error.address)
        return redirect(query(error.page, next=None if address == "/" else address))
    status = find_status(error)
    faults = [(clip(where), what) for where, what in faults_of(error)[:20] if where]
    return show_status(request, status, error.message, faults=faults, headers=headers_of(error, status))


def show_status(
    request: Request,
    status: int,
    detail: Message | None = None,
    *,
    faults: FieldFaults = (),
    headers: ExtraHeaders = None,
) -> Response:
    """The page of a status; `detail` is the API's own sentence."""
    title, advice = ADVICE.get(HTTPStatus(status), OTHERWISE)
    if status == HTTPStatus.FORBIDDEN and is_invited(request):
        advice = mark("Your link lets you rate in one round, and nothing else.")
    told = {"title": title, "advice": advice, "detail": detail, "faults": faults, "at": here(request)}
    page = render(request, "error.html", status, **told)
    page.headers.update({name: value for name, value in (headers or {}).items() if name != "WWW-Authenticate"})
    return page


def wants_page(request: Request) -> bool:
    """Whether a browser requests a page outside the API."""
    path: str = request.scope["path"]
    return not path.startswith(("/v1", "/docs/")) and "text/html" in request.headers.get("accept", "")


def answer_http_error(request: Request, error: Exception) -> Response:
    """The answer to what Starlette refuses: a page for a browser, otherwise a problem document."""
    if isinstance(error, HTTPException) and wants_page(request):
        return show_status(request, error.status_code, headers=error.headers)
    return problems.answer_http_error(request, error)


def answer_defect(request: Request) -> Response:
    """The answer to an unexpected error, likewise."""
    return show_status(request, 500) if wants_page(request) else problems.answer_defect(request)


assets = APIRouter(prefix="/assets", include_in_schema=False)

TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
FOREVER = "public, max-age=31536000, immutable"


@cache
def read_assets() -> dict[str, bytes]:
    """All files, by name."""
    folder = files(__package__) / "static"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name.rpartition(".")[2] in TYPES}


@cache
def mark_assets() -> str:
    """What changes with the content of any file: one for all, so that a script finds another beside it."""
    found = hashlib.sha256()
    for name, content in sorted(read_assets().items()):
        found.update(f"{name}\0{len(content)}\0".encode() + content)
    return found.hexdigest()[:12]


def asset_address(name: str) -> str:
    """The file's address, under which browsers may cache it forever."""
    if name not in read_assets():
        raise KeyError(name)
    return f"/assets/{mark_assets()}/{name}"


@assets.get("/{version}/{name}")
async def read_asset(request: Request, version: str, name: str) -> Response:
    """The file, cacheable forever only under its current address."""
    found = read_assets().get(name)
    if found is None:
        raise NotFound(Message("asset-not-found"))
    caching = FOREVER if version == mark_assets() else "no-cache"
    return Response(found, headers={"Cache-Control": caching}, media_type=TYPES[name.rpartition(".")[2]])


FORM_TYPE = "application/x-www-form-urlencoded"
FORM_BYTES = 1024 * 1024
OPEN_BYTES = 64 * 1024
"""Of forms that anyone may send, with or without a key."""

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


async def read_form(request: Request, most: int = FORM_BYTES) -> Form:
    """The form in the body. Raises RequestRefused: 403 from another site's page, 408, 413, 415; InvalidRequest."""
    require_same_origin(request)
    require_media_type(request.headers, FORM_TYPE)
    body = await receive(request, most, request.app.state.body_timeout_seconds)
    try:
        # To decode a megabyte takes a third of a second.
        return parse_form(body) if len(body) <= SMALL_BYTES else await asyncio.to_thread(parse_form, body)
    except ValueError:
        raise InvalidRequest(Message("form-unreadable")) from None


def parse_form(body: bytes) -> Form:
    """The fields; raises ValueError."""
    return Form(parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS))


def require_same_origin(request: Request) -> None:
    """Raises RequestRefused (403) if a page of another site sent the form, which the browser's headers show."""
    site = request.headers.get("sec-fetch-site", "")
    origin = request.headers.get("origin", "")
    foreign = site not in {"", "same-origin", "none"}
    elsewhere = bool(origin) and origin.partition("://")[2] != request.headers.get("host", "")
    if foreign or (elsewhere and not site):
        detail = Message("form-from-other-site")
        raise RequestRefused(403, "cross-site-form", detail)


router = APIRouter(include_in_schema=False, route_class=PageRoute)

FORMER_COOKIE = "saiten_key"
"""The cookie that held the key before there were sessions; it is deleted."""

WEEK_SECONDS = 7 * 86_400
YEAR_SECONDS = 365 * 86_400


async def enter(request: Request) -> str:
    """Lets the visitor in and returns the project, or raises LoginNeeded or RequestRefused. Sets what the request's
    state holds of the caller."""
    admission: Authenticator = request.app.state.admission
    try:
        admitted = await admission.admit(request, credential_of(request))
    except RequestRefused as error:
        if error.status != 401:
            raise
        raise LoginNeeded(here(request) if request.method == "GET" else "/") from None
    if admitted.scope == "ingest":
        raise RequestRefused(403, "insufficient-scope", Message("ingest-key-sends"))
    request.state.project = admitted.project
    request.state.scope = admitted.scope
    request.state.actor = admitted.actor
    request.state.key = admitted.key
    request.state.signed_in = admitted.key is not None
    return admitted.project


async def enter_to_write(request: Request) -> str:
    """Like `enter`; raises RequestRefused (403) for a read-only key."""
    project = await enter(request)
    require_write(request)
    return project


def require_write(request: Request) -> None:
    """Raises RequestRefused (403) for a visitor whose key may only read."""
    if not may_write(request):
        detail = Message("sign-in-to-write")
        raise RequestRefused(403, "insufficient-scope", detail)


Project = Annotated[str, Depends(enter)]
WritableProject = Annotated[str, Depends(enter_to_write)]


@router.get("/login")
async def show_login(request: Request, next: str = "/") -> Response:  # noqa: A002 (the parameter's public name)
    """Asks for a key."""
    return render(request, "login.html", next=own_address(next), failed=False)


@router.post("/login")
async def log_in(request: Request, container: Serving) -> Response:
    """Opens a session if the key is valid. The cookie holds the session's token, never the key."""
    form = await read_form(request, OPEN_BYTES)
    key, address = form.get("key"), own_address(form.get("next", "/"))
    token = await container.governance.keys.open_session(key, seconds=WEEK_SECONDS) if key.isascii() else None
    if token is None:
        return render(request, "login.html", 401, next=address, failed=True)
    response = redirect(address)
    set_cookie(request, response, SESSION_COOKIE, token, WEEK_SECONDS)
    response.delete_cookie(FORMER_COOKIE, httponly=True, samesite="lax")
    return response


@router.post("/logout")
async def log_out(request: Request, container: Serving) -> Response:
    """Closes the session, so that copies of its cookie are invalid. An invited rater may come back by the link."""
    await read_form(request, OPEN_BYTES)
    shown = cookie_of(request)
    if shown is not None:
        await container.governance.keys.close_session(shown.text)
    response = redirect("/invited" if is_invited(request) else "/login")
    for name in (SESSION_COOKIE, FORMER_COOKIE, INVITED_COOKIE):
        response.delete_cookie(name, httponly=True, samesite="lax")
    return response


@router.post("/preferences")
async def prefer(request: Request) -> Response:
    """Stores language and theme in cookies, and redirects back."""
    form = await read_form(request, OPEN_BYTES)
    response = redirect(own_address(form.get("next", "/")))
    if (language := form.get("language")) in LANGUAGES:
        set_cookie(request, response, LANGUAGE_COOKIE, language, YEAR_SECONDS)
    theme = form.get("theme")
    if theme in THEMES:
        set_cookie(request, response, THEME_COOKIE, theme, YEAR_SECONDS)
    elif theme == "system":
        response.delete_cookie(THEME_COOKIE, httponly=True, samesite="lax")
    return response


def set_cookie(request: Request, response: Response, name: str, value: str, seconds: int) -> None:
    """Sets a cookie; other sites' links send it, but none of their other requests do."""
    secure = is_secure(request)
    response.set_cookie(name, value, max_age=seconds, secure=secure, httponly=True, samesite="lax")


def is_secure(request: Request) -> bool:
    """Whether the visitor uses https; behind a proxy a setting says so."""
    return request.url.scheme == "https" or bool(request.app.state.secure_cookies)


# Characters that no one sees, and those that turn the direction of text, are shown by their code points and names.
SEEN_SPACES = frozenset(" \n\r\t")
UNSEEN_CHARACTER = Markup('<span class="unseen" title="{name}" dir="ltr">U+{code:04X}{times}</span>')


def is_unseen(character: str) -> bool:
    """Whether nothing of it is seen: controls, format and direction characters, fillers, unusual spaces, selectors."""
    if character in SEEN_SPACES or not is_invisible(character):
        return False
    # Combining marks are seen on the letter before them; variation selectors are marks too.
    name = unicodedata.name(character, "")
    return unicodedata.category(character)[0] != "M" or "SELECTOR" in name or "GRAPHEME JOINER" in name


def reveal(text: str) -> Markup:
    """The text with such characters replaced by their code points, each run of one with how often it comes."""
    found = []
    for (unseen, character), run in groupby(text, key=lambda one: (is_unseen(one), one if is_unseen(one) else "")):
        if not unseen:
            found.append(Markup.escape("".join(run)))
            continue
        count = sum(1 for _ in run)
        name = unicodedata.name(character, "")
        found.append(UNSEEN_CHARACTER.format(name=name, code=ord(character), times=f" ×{count}" if count > 1 else ""))
    return Markup("").join(found)


# Swagger UI draws its icons from data URLs.
DRAWN_POLICY = POLICY.replace("img-src 'self'", "img-src 'self' data:")


@router.get("/docs")
async def show_reference(request: Request) -> Response:
    """The HTTP API as Swagger UI shows it. Anyone may read it: it holds nothing of a project, and keeps no key."""
    page = render(request, "reference.html")
    page.headers["Content-Security-Policy"] = DRAWN_POLICY
    return page


MOST_CHARACTER_PAIRS = 4_000_000
"""Pairs of characters that one page compares, which takes about a second; longer texts are shown whole."""
LEAST_SHARED = 3
"""Characters in a row that two texts have in common beyond chance."""


class Piece(NamedTuple):
    """A part of a text. `kind` is `same`, `gone` or `new`."""

    kind: str
    text: str


def compare_texts(before: str, after: str) -> list[Piece]:
    """The difference character by character. Texts with little in common are replaced whole: what single characters
    two other sentences share says nothing."""
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    shared = sum(block.size for block in matcher.get_matching_blocks() if block.size >= LEAST_SHARED)
    if 2 * shared < min(len(before), len(after)):
        return replace_text(before, after)
    pieces = []
    for kind, i, j, m, n in matcher.get_opcodes():
        pieces += [Piece("same", before[i:j])] if kind == "equal" else replace_text(before[i:j], after[m:n])
    return pieces


def replace_text(before: str, after: str) -> list[Piece]:
    """The one text as gone and the other as new."""
    return [piece for piece in (Piece("gone", before), Piece("new", after)) if piece.text]
