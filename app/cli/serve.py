"""`saiten serve`: the service over HTTP."""

from __future__ import annotations

import asyncio
import logging
import os

import click

from saiten.core.language import find_language, tell
from saiten.core.messages import Message
from saiten.core.plain_text import printable
from saiten_server.cli.private import serve_privately
from saiten_server.cli.process import bind, cli_actor, is_loopback, resolve
from saiten_server.cli.server import make_server
from saiten_server.container import open_container
from saiten_server.core.errors import SettingsInvalid
from saiten_server.platform.memory import tune_collection
from saiten_server.platform.settings import Settings, find_unknown, read_settings
from saiten_server.platform.telemetry import configure_logging
from saiten_server.providers.registry import find_encoder_faults

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
    address = resolve(host, port)
    asyncio.run(prepare(settings, host, only_here=is_loopback(address)))
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


async def prepare(settings: Settings, host: str, *, only_here: bool) -> None:
    """Opens everything once, so that a fault is reported in one line before a port is taken. Raises SettingsInvalid
    where other machines could call without a key (unless `only_here`)."""
    async with open_container(settings) as service:
        if not only_here and not settings.allow_anonymous and not await service.governance.keys.any():
            raise SettingsInvalid(Message("reachable-without-keys", host=host))
