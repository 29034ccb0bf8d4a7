"""`saiten worker`: scores batches that a service took, together with as many other workers as there are."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from socket import socket
from urllib.parse import urlsplit

import click
import uvicorn

from saiten.core.language import tell
from saiten.core.messages import Message
from saiten_server.cli.process import bind, resolve_host
from saiten_server.container import Container, announce, open_container, warming
from saiten_server.core.errors import SettingsInvalid
from saiten_server.governance.api import create_probes
from saiten_server.platform.memory import tune_collection
from saiten_server.platform.settings import Settings, find_unknown, open_tracing, read_settings
from saiten_server.platform.telemetry import configure_logging

logger = logging.getLogger("saiten.batches")


@click.command("worker")
@click.option("--metrics-host", help="Address of /metrics, /livez and /readyz.  [default: 127.0.0.1]")
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), help="Port for them; 0 takes a free one.  [default: none]"
)
def command(metrics_host: str | None, metrics_port: int | None) -> None:
    """Score the batches that `saiten serve` takes, until stopped.

    Needs REDIS_URL and the same DATABASE_URL as the service. Without REDIS_URL the service does it in its own process.
    """
    settings = read_settings()
    if settings.redis_url is None:
        raise SettingsInvalid(Message("worker-needs-redis"))
    configure_logging(settings.log_level)
    if unknown := find_unknown(os.environ):
        logger.warning("%s", unknown)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        port = settings.worker_metrics_port if metrics_port is None else metrics_port
        runner.run(run_worker(settings, settings.worker_metrics_host if metrics_host is None else metrics_host, port))


def loop_factory() -> type[asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed: a third more calls a second."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop


async def run_worker(settings: Settings, host: str, port: int | None) -> None:
    """Works until SIGTERM or SIGINT, then hands back what is not done."""
    async with open_container(settings, open_tracing(settings)) as service, warming(settings):
        announce(service)
        listener = None if port is None else bind(resolve_host(host, port), port)
        tune_collection()
        stopped = asyncio.Event()
        for sign in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(sign, stopped.set)
        work = asyncio.create_task(service.worker.run())
        probes = asyncio.create_task(answer_probes(service, listener)) if listener is not None else None
        url = urlsplit(settings.redis_url or "")  # shown without its password
        port_part = f":{url.port}" if url.port else ""
        click.echo(
            tell(
                "Saiten works on batches from {scheme}://{value}{port_part}{path}",
                scheme=url.scheme,
                value=url.hostname or "",
                port_part=port_part,
                path=url.path,
            )
        )
        ends = asyncio.create_task(stopped.wait())
        await asyncio.wait([work, ends], return_when=asyncio.FIRST_COMPLETED)
        logger.info("stopping: what is in hand finishes first")
        for task in filter(None, (work, probes, ends)):
            task.cancel()
        outcome, *_ = await asyncio.gather(work, *filter(None, (probes, ends)), return_exceptions=True)
        if isinstance(outcome, Exception):
            raise outcome


async def answer_probes(service: Container, listener: socket) -> None:
    """Answers the operator's tools on a port of their own."""
    click.echo(
        tell(
            "Metrics on http://{value}:{value2}/metrics",
            value=listener.getsockname()[0],
            value2=listener.getsockname()[1],
        )
    )
    # Without a lifespan: nothing is to be begun or ended, and one that is cancelled complains in the log.
    config = uvicorn.Config(
        create_probes(service), lifespan="off", log_config=None, access_log=False, server_header=False
    )
    server = Probes(config)
    await server.serve(sockets=[listener])


class Probes(uvicorn.Server):
    """Leaves signals to the worker."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Captures none."""
        yield
