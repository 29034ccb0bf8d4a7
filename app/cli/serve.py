"""`saiten serve`: the service over HTTP."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket

import click

from app.adapters.telemetry import configure_logging
from app.bootstrap import open_service
from app.domain.errors import SettingsInvalid
from app.memory import tune_collection
from app.settings import Settings, read_settings
from app.web.server import make_server


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
    address = resolve(host, port)
    asyncio.run(prepare(settings, host, only_here=is_loopback(address)))
    listener = bind(address, port)
    bound_host, bound_port = listener.getsockname()[:2]
    shown = f"[{bound_host}]" if ":" in bound_host else bound_host
    click.echo(f"Saiten listens on http://{shown}:{bound_port} (API: /docs)")
    server = make_server(settings)
    tune_collection()
    server.run(sockets=[listener])


async def prepare(settings: Settings, host: str, *, only_here: bool) -> None:
    """Opens everything once, so that what is wrong is said in one line before a port is taken.

    Raises SettingsInvalid where others than this machine (`only_here`) could call and none of them would need a key.
    """
    async with open_service(settings) as service:
        if not only_here and not settings.allow_anonymous and not await service.keyring.any():
            raise SettingsInvalid(
                f"--host {host} is reachable from outside and there are no API keys:"
                " make one with `saiten keys create`, or set SAITEN_ALLOW_ANONYMOUS=1"
            )


def resolve(host: str, port: int) -> str:
    """The first address of the host's name, in numbers; raises SettingsInvalid where it has none."""
    try:
        *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0]
    except UnicodeError:
        raise SettingsInvalid(f"--host {host[:64]!r} is no host name") from None
    except socket.gaierror as error:
        reason = f"unknown host ({error.strerror})"
        raise SettingsInvalid(f"cannot listen on {host}: {reason}; choose another --host") from None


def is_loopback(address: str) -> bool:
    """Whether the address can be reached from this machine alone."""
    return ipaddress.ip_address(address).is_loopback


def bind(address: str, port: int) -> socket.socket:
    """A listening socket; raises SettingsInvalid where the port is taken or the address is not this machine's."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        # From here on callers queue rather than being refused, so the line that names the address is true at once.
        listener.listen(1024)
    except OSError as error:
        raise SettingsInvalid(explain(error, address, port)) from None
    return listener


def explain(error: OSError, host: str, port: int) -> str:
    """What to do about a socket that could not be had."""
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use; stop what listens there, or choose another with --port"
    if error.errno == errno.EACCES:
        return f"port {port} needs more rights; choose one above 1023 with --port"
    return f"cannot listen on {host}:{port} ({error.strerror}); choose another --host"
