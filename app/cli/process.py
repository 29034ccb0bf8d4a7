"""The process of a command: its streams, its signals, the user who runs it, and the sockets that it listens on."""

from __future__ import annotations

import errno
import io
import ipaddress
import os
import pwd
import signal
import socket
import sys
from types import FrameType

import click

import saiten
from app.domain.errors import SaitenError, SettingsInvalid
from app.domain.plain_text import printable

PIECE = 2048
"""Characters written at once. Python 3.11's buffer loses the error where a write larger than itself ends halfway."""


class OutputFailed(Exception):  # not a SaitenError: a scorer must not take it for the failure of an item
    """Standard output cannot be written: its reader has left, the disk is full, or it was never open."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write to standard output: {error.strerror}")
        self.reader_left = error.errno == errno.EPIPE


class Output(io.TextIOWrapper):
    """Standard output. Raises OutputFailed where it cannot be written."""

    def write(self, text: str) -> int:
        try:
            if len(text) <= PIECE:
                return super().write(text)
            return sum(super(Output, self).write(text[start : start + PIECE]) for start in range(0, len(text), PIECE))
        except OSError as error:
            raise OutputFailed(error) from None

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise OutputFailed(error) from None


class Diagnostics(io.TextIOWrapper):
    """Standard error. Text that cannot be written is dropped: results must not depend on whether messages are read."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            return


def open_streams() -> None:
    """Makes standard output and error UTF-8 in every locale, because results contain Japanese and Korean."""
    # Lone surrogates, and bytes of file names in another encoding, are written with backslashes.
    if isinstance(sys.stdout, io.TextIOWrapper):
        lines = sys.stdout.line_buffering
        sys.stdout = Output(sys.stdout.detach(), encoding="utf-8", errors="backslashreplace", line_buffering=lines)
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = Diagnostics(sys.stderr.detach(), encoding="utf-8", errors="backslashreplace", line_buffering=True)


def require_output() -> None:
    """Raises OutputFailed where the process was started without standard output (`>&-`)."""
    if sys.stdout is None:
        raise OutputFailed(OSError(errno.EBADF, os.strerror(errno.EBADF)))


def discard_output() -> None:
    """Discards buffered output, so that Python does not fail on it again at exit."""
    if sys.stdout is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def leave_on_sigterm() -> None:
    """Ends this process with 0 on SIGTERM, at once, for as long as nothing else takes the signal.

    The first process of a container ignores signals without a handler: stopped while it starts, it would go on until
    it is killed. No request has been accepted yet, and writes such as those of the schema are in a transaction.
    """
    signal.signal(signal.SIGTERM, leave)


def leave(sign: int, frame: FrameType | None) -> None:
    """Exits at once. Not by SystemExit, which Python 3.11 turns into a RuntimeError where a class is being created,
    and prints and ignores in a finalizer."""
    os._exit(0)


REPORTED = (
    click.ClickException,
    click.exceptions.Exit,
    click.exceptions.Abort,
    SaitenError,
    saiten.SaitenError,
    OutputFailed,
)
"""Exceptions that the command line reports in one line, each with its exit code. Anything else is a defect."""


def describe_defect(error: Exception) -> str:
    """One sentence for below the traceback."""
    return f"a defect of Saiten ({type(error).__name__}); please report the traceback above"


def cli_actor() -> str:
    """`cli:` and the name of the operating system's user; its number where a container gave it no name.

    Not from `getpass`, which prefers environment variables to the system.
    """
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    return f"cli:{printable(name)[:64]}"


def resolve(host: str, port: int) -> str:
    """The first numeric address of the host; raises SettingsInvalid where it has none."""
    try:
        *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)[0]
    except UnicodeError:
        raise SettingsInvalid(f"--host {host[:64]!r} is not a host name") from None
    except socket.gaierror as error:
        reason = f"unknown host ({error.strerror})"
        raise SettingsInvalid(f"cannot listen on {host}: {reason}; choose another --host") from None


def is_loopback(address: str) -> bool:
    """Whether the address can be reached from this machine only."""
    return ipaddress.ip_address(address).is_loopback


def bind(address: str, port: int) -> socket.socket:
    """A listening socket; raises SettingsInvalid where the port is taken or the address is not this machine's."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        # From here on callers queue instead of being refused, so the address can be announced at once.
        listener.listen(1024)
    except OSError as error:
        raise SettingsInvalid(explain(error, address, port)) from None
    return listener


def explain(error: OSError, host: str, port: int) -> str:
    """What to do about a socket that could not be opened."""
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use; stop what listens there, or choose another with --port"
    if error.errno == errno.EACCES:
        return f"port {port} needs more rights; choose one above 1023 with --port"
    return f"cannot listen on {host}:{port} ({error.strerror}); choose another --host"
