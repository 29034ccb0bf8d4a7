"""The process of a command: its streams, its signals, who runs it, and how it ends.

Where the service and its workers listen.
"""

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


class OutputFailed(Exception):  # no SaitenError: a scorer must not take it for the failure of its item
    """Standard output takes nothing more: its reader has gone, its disk is full, or it was never open."""

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
    """Standard error. What it cannot take is lost: results must not depend on whether someone reads the remarks."""

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
    """Makes both UTF-8, whatever the locale says: results are Japanese and Korean, and were paid for."""
    # Backslashes stand for what UTF-8 does not have: halves of pairs, and bytes of file names in another encoding.
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
    """Sends what is still to be written nowhere, so that Python does not fail on it again when it ends."""
    if sys.stdout is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def leave_on_sigterm() -> None:
    """Ends this process with 0 on SIGTERM, at once, for as long as nothing else takes the signal.

    The first process of a container does not even hear of a signal that it has no handler for: told to stop while it
    starts, it would go on until it is killed. Nothing has been promised to anybody yet, and what is being written, the
    schema say, is in a transaction.
    """
    signal.signal(signal.SIGTERM, leave)


def leave(sign: int, frame: FrameType | None) -> None:
    """No SystemExit: raised amid the making of a class it comes out of Python 3.11 as a RuntimeError, and raised in
    what the collector calls it is printed and forgotten."""
    os._exit(0)


TOLD = (
    click.ClickException,
    click.exceptions.Exit,
    click.exceptions.Abort,
    SaitenError,
    saiten.SaitenError,
    OutputFailed,
)
"""What the command line tells in its own words, with its own exit code. Anything else is a defect."""


def describe_defect(error: Exception) -> str:
    """One sentence, to stand below the traceback."""
    return f"a defect of Saiten ({type(error).__name__}); please report what stands above"


def cli_actor() -> str:
    """`cli:` and the name of the operating system's user; its number where a container gave it no name.

    Not `getpass`, which believes the environment before the system.
    """
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    return f"cli:{printable(name)[:64]}"


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
