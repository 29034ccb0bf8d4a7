"""`saiten serve`: the service over HTTP, or a private one for one caller.

`saiten.private` starts a private one, and holds the other ends of its two pipes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial

import click
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from saiten.core.language import find_language, tell
from saiten.core.messages import Message
from saiten.core.plain_text import printable
from saiten_server.application import create_application
from saiten_server.cli.process import bind, cli_actor, is_loopback, resolve_host
from saiten_server.cli.server import make_server
from saiten_server.container import Container, open_container, working
from saiten_server.core.errors import SaitenError, SettingsInvalid
from saiten_server.platform.memory import tune_collection
from saiten_server.platform.settings import Settings, find_unknown, read_settings
from saiten_server.platform.tasks import end_tasks
from saiten_server.platform.telemetry import configure_logging
from saiten_server.providers.registry import find_encoder_faults

BATCHES = "/v1/batches"

BODY_BYTES = 1 << 30
UNLIMITED_PLACES = 1 << 10
"""The usual limits protect a service from its callers; here the only caller is the process that started it."""


def serve_privately(
    settings: Callable[[], Settings],
    listener: socket.socket,
    control: int,
    announcement: int,
    *,
    actor: str,
    remarks: Callable[[Settings], Sequence[str]] = lambda _: (),
) -> None:
    """Serves until the pipe `control` is closed. Its first line is the only key that is accepted.

    `announcement` gets one line of JSON: `url` once the service is ready, with `remarks` about its settings, or `error`
    where it cannot be opened. `actor` is what the audit log calls the caller.
    """
    with os.fdopen(control, "rb", buffering=0) as pipe, os.fdopen(announcement, "w", encoding="utf-8") as announced:
        key = pipe.readline().decode().strip()
        # The caller reports what goes wrong with its requests.
        logging.getLogger("saiten.web").setLevel(logging.ERROR)

        def announce(**what: object) -> None:
            announced.write(json.dumps(what) + "\n")
            announced.flush()

        try:
            given = settings()
            limits = given.limits.model_copy(update={"body_bytes": BODY_BYTES})
            changes = {"limits": limits, "most_evaluations": UNLIMITED_PLACES, "tracing": "off"}
            adapted = given.model_copy(update=changes)
            private = PrivateService(adapted, key, actor)
            ready = partial(announce, remarks=[*remarks(adapted)])
            asyncio.run(private.serve(listener, pipe.fileno(), lambda url: ready(url=url)))
        except SaitenError as error:
            announce(error=error.message.say(find_language(os.environ)))


class PrivateService:
    """Works only on batches that are posted to it or requested from it; its worker starts with the first."""

    def __init__(self, settings: Settings, key: str, actor: str) -> None:
        self._settings = settings
        self._application = create_application(settings)
        self._application.state.stopping = asyncio.Event()
        self._application.state.admission.take_only(key, actor)
        self._batches: set[str] = set()
        self._work = AsyncExitStack()
        self._works = False

    async def serve(self, listener: socket.socket, control: int, ready: Callable[[str], None]) -> None:
        """Opens the service, announces it and serves until `control` ends. Raises SaitenError if it cannot open."""
        async with open_container(self._settings, own=self._batches) as container, self._work:
            self._application.state.container = container
            server = uvicorn.Server(
                uvicorn.Config(
                    self._watch(self._application),
                    ws="none",
                    lifespan="off",
                    access_log=False,
                    log_config=None,
                    server_header=False,
                    timeout_keep_alive=3600,
                )
            )
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            ready(f"http://127.0.0.1:{listener.getsockname()[1]}")
            await wait_for_end(control)
            self._application.state.stopping.set()
            # The caller is gone, so requests that are cut off are not errors.
            logging.getLogger("uvicorn.error").disabled = True
            await end_tasks([serving, *server.server_state.tasks])
            # Reliability is computed in the background after ratings change.
            await container.ratings.service.settle()

    def _watch(self, application: ASGIApp) -> ASGIApp:
        """The application, which starts the worker when a batch is posted or requested."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            path, method = scope["path"], scope["method"]
            if path.startswith(f"{BATCHES}/") and method == "GET":
                self._batches.add(path.removeprefix(f"{BATCHES}/"))
            if path.startswith(BATCHES) and not self._works:
                self._works = True
                container: Container = self._application.state.container
                await self._work.enter_async_context(working(container, self._application.state.stopping))
            await application(scope, receive, send)

        return watched


async def wait_for_end(pipe: int) -> None:
    """Returns when the other end of the pipe is closed."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(pipe, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(pipe)


logger = logging.getLogger("saiten")


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 takes a free one."
)
@click.option("--private", hidden=True, metavar="CONTROL,ANNOUNCEMENT", help="Serve the process that starts this.")
def command(host: str, port: int, private: str | None) -> None:
    """Answer over HTTP until stopped.

    Without API keys it listens on loopback only.
    """
    if private is not None:
        control, announcement = map(int, private.split(","))
        configure_logging("warning")
        listener = bind("127.0.0.1", 0)
        serve_privately(read_settings, listener, control, announcement, actor=cli_actor(), remarks=list_remarks)
        return
    settings = read_settings()
    configure_logging(settings.log_level)
    if unknown := find_unknown(os.environ):
        logger.warning("%s", unknown)
    address = resolve_host(host, port)
    asyncio.run(open_once(settings, host, only_here=is_loopback(address)))
    listener = bind(address, port)
    bound_host, bound_port = listener.getsockname()[:2]
    shown = f"[{bound_host}]" if ":" in bound_host else bound_host
    click.echo(tell("Saiten listens on http://{shown}:{bound_port} (API: /docs)", shown=shown, bound_port=bound_port))
    server = make_server(settings)
    tune_collection()
    server.run(sockets=[listener])


def list_remarks(settings: Settings) -> list[str]:
    """What the caller of a private service should know: variables that are no settings, encoders that do not load."""
    found = [unknown] if (unknown := find_unknown(os.environ)) else []
    if settings.encoder or settings.encoders:
        found += find_encoder_faults(settings)
    return [printable(fault.say(find_language(os.environ))) for fault in found]


async def open_once(settings: Settings, host: str, *, only_here: bool) -> None:
    """Opens everything once, so that a fault is reported in one line before a port is taken. Raises SettingsInvalid
    where other machines could call without a key (unless `only_here`)."""
    async with open_container(settings) as service:
        if not only_here and not settings.allow_anonymous and not await service.governance.keys.any():
            raise SettingsInvalid(Message("reachable-without-keys", host=host))
