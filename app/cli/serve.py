"""`saiten serve`: the service over HTTP."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket

import click
import uvicorn

from app.adapters.telemetry import configure_logging
from app.bootstrap import open_service
from app.domain.errors import SettingsInvalid
from app.settings import Settings, read_settings
from app.web.application import create_application


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 takes a free one."
)
def command(host: str, port: int) -> None:
    """Answer over HTTP until stopped.

    Without API keys it listens on loopback only.
    """
    settings = read_settings()
    configure_logging(settings.log_level)
    asyncio.run(prepare(settings, host))
    listener = bind(host, port)
    bound_host, bound_port = listener.getsockname()[:2]
    shown = f"[{bound_host}]" if ":" in bound_host else bound_host
    click.echo(f"Saiten listens on http://{shown}:{bound_port} (API: /docs)")
    uvicorn.Server(configure(settings)).run(sockets=[listener])


def configure(settings: Settings) -> uvicorn.Config:
    """How uvicorn serves Saiten."""
    return uvicorn.Config(
        create_application(settings),
        # h11 rather than httptools: it is strict about framing and bounds the header block. The bound lies above the
        # application's own, which can still say 431; past this one the connection is cut.
        http="h11",
        h11_max_incomplete_event_size=256 * 1024,
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=20,
    )


async def prepare(settings: Settings, host: str) -> None:
    """Opens everything once, so that what is wrong is said in one line before a port is taken."""
    async with open_service(settings) as service:
        if not is_loopback(host) and not settings.allow_anonymous and not await service.keyring.any():
            raise SettingsInvalid(
                f"--host {host} is reachable from outside and there are no API keys:"
                " make one with `saiten keys create`, or set SAITEN_ALLOW_ANONYMOUS=1"
            )


def is_loopback(host: str) -> bool:
    """Whether the address can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; raises SettingsInvalid where the port is taken or the address is not this machine's."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # From here on callers queue rather than being refused, so the line that names the address is true at once.
        listener.listen(1024)
    except UnicodeError:
        raise SettingsInvalid(f"--host {host[:64]!r} is no host name") from None
    except OSError as error:
        raise SettingsInvalid(explain(error, host, port)) from None
    return listener


def explain(error: OSError, host: str, port: int) -> str:
    """What to do about a socket that could not be had."""
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use; stop what listens there, or choose another with --port"
    if error.errno == errno.EACCES:
        return f"port {port} needs more rights; choose one above 1023 with --port"
    return f"cannot listen on {host}:{port} ({error.strerror}); choose another --host"
