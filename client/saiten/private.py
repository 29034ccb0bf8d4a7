"""A private service: it starts with its caller, accepts one key, and ends when the caller does."""

from __future__ import annotations

import json
import os
import secrets
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any, Protocol

from saiten.core.errors import PrivateServiceFailed, ServerMissing
from saiten.core.language import tell

START_SECONDS = 60.0
STOP_SECONDS = 30.0
"""A service that is stopped finishes its work in progress first."""


class ChildProcess(Protocol):
    """The part of `subprocess.Popen` that is used here."""

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...


@dataclass(frozen=True)
class Address:
    """The URL of a service, and the key that it accepts. `remarks` are what a private one says of its settings."""

    url: str
    api_key: str | None = None
    remarks: tuple[str, ...] = ()


@contextmanager
def private_service(
    environment: Mapping[str, str | None] | None = None, *, quiet: bool = False, start_seconds: float = START_SECONDS
) -> Iterator[Address]:
    """Starts a service on a free loopback port, and ends it with the context.

    It has this process's environment with `environment` over it, in which None unsets a variable. It works
    only on batches that are posted to it or requested from it. `quiet`: its log is not written to standard error.
    Raises PrivateServiceFailed in the service's own words where it does not start, and ServerMissing.
    """
    require_server()
    key = secrets.token_urlsafe(32)
    # The service reads the key from `control`, and ends when that pipe is closed, however this process ends.
    control, to_service = os.pipe()
    from_service, announcement = os.pipe()
    try:
        chosen = {name: value for name, value in {**os.environ, **(environment or {})}.items() if value is not None}
        process = launch(chosen, control, announcement, quiet=quiet)
    finally:
        os.close(control)
        os.close(announcement)
    try:
        try:
            os.write(to_service, f"{key}\n".encode())
            said = read_announcement(from_service, start_seconds)
        finally:
            os.close(from_service)
        yield Address(str(said["url"]), key, tuple(map(str, said.get("remarks", ()))))
    finally:
        os.close(to_service)
        stop(process)


def require_server(
    why: str = "no service is named, and a private one needs the server: pip install saiten-server, or give --url",
) -> None:
    """Raises ServerMissing where the server is not installed. Not by an import: `app` may be the user's own."""
    try:
        distribution("saiten-server")
    except PackageNotFoundError:
        raise ServerMissing(why) from None


def launch(environment: Mapping[str, str], control: int, announcement: int, *, quiet: bool) -> ChildProcess:
    """Starts the server, isolated (`-I`), so that a folder `app` of the user is not imported instead."""
    return subprocess.Popen(  # noqa: S603 - this interpreter, with fixed arguments
        [sys.executable, "-I", "-m", "saiten_server", "serve", "--private", f"{control},{announcement}"],
        env=dict(environment),
        pass_fds=(control, announcement),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if quiet else None,
        # An interruption from the terminal is the caller's: it may still have batches to cancel.
        start_new_session=True,
    )


def read_announcement(descriptor: int, seconds: float) -> dict[str, Any]:
    """What the service announces once it is ready: its `url`, and `remarks` about its settings."""
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([descriptor], [], [], seconds)[0]:
            raise PrivateServiceFailed(
                tell(
                    "the private service did not start within {seconds:g} s; see why with `saiten serve`",
                    seconds=seconds,
                )
            )
        piece = os.read(descriptor, 65536)
        if not piece:
            raise PrivateServiceFailed(tell("the private service did not start; see why with `saiten serve`"))
        line += piece
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise PrivateServiceFailed(str(answer["error"]))
    return answer


def stop(process: ChildProcess) -> None:
    """Waits for the end of a service whose pipe is closed; ends it by force where it takes too long."""
    try:
        process.wait(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
